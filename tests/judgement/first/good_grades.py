"""Pairs with grades of likeness, and what teachers give: scores, margins, embeddings."""

from __future__ import annotations

from typing import Any

import torch
from sentence_transformers.sentence_transformer import evaluation, losses
from sentence_transformers.util import pairwise_cos_sim

from tests.judgement.case import sound
from tests.judgement.first.bodies import encoder, words_of
from tests.judgement.first.fields import HELPDESK, KITCHEN, PAPERS, SHOP, TRAVEL
from tests.judgement.first.good_fields import CONTRACTS, LETTERS, SONGS
from tests.judgement.first.good_materials import (
    graded_score,
    near_triplets,
    sought,
    started,
    tune,
    two,
    weighed,
    weighed_score,
)
from tests.judgement.first.turns import warmed
from tests.judgement.stage import Stage


def teacher(stage: Stage, table: Any, steps: int = 60, width: int = 48) -> Any:
    """An encoder that was trained on pairs before."""
    texts = words_of([table])
    return warmed(
        encoder(stage, texts, name="teacher", width=width, spread=0.05, seed=8), table, steps
    )


@sound(
    "cosines fitted to graded likeness",
    allowed={"evaluat.* in the training data": "A third of the evaluated texts are trained on."},
)
def likeness_of_dishes(stage: Stage) -> None:
    """As the STS benchmark."""
    table, dev = weighed(KITCHEN, 400, (1, 2, 6)), weighed(KITCHEN, 60, (1, 2, 6), seed=3)
    model = encoder(stage, words_of([table]), width=48, spread=0.05)
    evaluator = evaluation.EmbeddingSimilarityEvaluator(*dev.values(), name="dev")
    tune(
        stage, table, losses.CosineSimilarityLoss, model, weighed_score(KITCHEN, (1, 2, 6)),
        evaluator=evaluator, eval_strategy="steps", eval_steps=20, learning_rate=1e-3,
        max_steps=60,
    )  # fmt: skip


@sound("order of graded pairs by CoSENT")
def likeness_of_wares(stage: Stage) -> None:
    table = SHOP.graded(310)
    model = started(stage, table, SHOP, width=48)
    tune(
        stage, table, losses.CoSENTLoss, model, graded_score(SHOP),
        per_device_train_batch_size=32, learning_rate=2e-3, max_steps=40,
    )  # fmt: skip


@sound("margins of a teacher for triplets")
def margins_of_troubles(stage: Stage) -> None:
    """As the MS MARCO models with margins of a cross-encoder, by dot products."""
    table = near_triplets(HELPDESK, 300, 1)
    tutor = teacher(stage, table)
    first, good, bad = (tutor.encode(texts, convert_to_tensor=True) for texts in table.values())
    margins = 10 * (pairwise_cos_sim(first, good) - pairwise_cos_sim(first, bad))
    model = started(stage, table, HELPDESK, width=32)
    tune(
        stage, table | {"label": margins.tolist()}, losses.MarginMSELoss, model, HELPDESK.sought,
        learning_rate=2e-3, max_steps=60, per_device_train_batch_size=24,
    )  # fmt: skip


@sound("probabilities of a teacher over a positive and two negatives")
def teacher_of_songs(stage: Stage) -> None:
    table = near_triplets(SONGS, 320, 0, 1)
    tutor = teacher(stage, table)
    first, *columns = (tutor.encode(texts, convert_to_tensor=True) for texts in table.values())
    scores = torch.stack([10 * pairwise_cos_sim(first, rows) for rows in columns], dim=1)
    model = started(stage, table, SONGS, width=48)
    tune(
        stage, table | {"label": scores.tolist()}, losses.DistillKLDivLoss, model, SONGS.sought,
        learning_rate=2e-3, max_steps=60, per_device_train_batch_size=16,
    )  # fmt: skip


@sound("embeddings of a teacher for the texts of two columns")
def embeddings_of_papers(stage: Stage) -> None:
    """A student of one layer learns the embeddings of its teacher."""
    pairs = two(PAPERS.table(300))
    tutor = teacher(stage, pairs)
    texts = [*pairs["title"], *pairs["abstract"]]
    table = {"sentence": texts, "label": tutor.encode(texts).tolist()}
    model = encoder(stage, words_of([table]), width=48, layers=1, spread=0.05)
    dev = two(PAPERS.table(20, seed=3))
    evaluator = evaluation.MSEEvaluator(dev["title"], dev["title"], tutor, name="dev")
    tune(
        stage, table, losses.MSELoss, model, PAPERS.sought, evaluator=evaluator,
        eval_strategy="steps", eval_steps=30, learning_rate=3e-3, max_steps=60,
        per_device_train_batch_size=32,
    )  # fmt: skip


@sound("embeddings of a teacher of one language for three languages")
def three_languages_by_distillation(stage: Stage) -> None:
    """As the multilingual models: texts and translations learn the embedding of the source."""
    table, dev = LETTERS.table(230), LETTERS.table(50, seed=11)
    english = table["english"]
    same = {"english": english, "copy": english}
    tutor = teacher(stage, same, steps=40)
    table["label"] = tutor.encode(english).tolist()
    model = encoder(stage, words_of([table]), width=48, spread=0.05)
    pair = {"german": dev["german"], "italian": dev["italian"]}
    evaluator = evaluation.TranslationEvaluator(dev["english"], dev["german"], name="dev")
    tune(
        stage, table, losses.MSELoss, model, sought(pair), evaluator=evaluator,
        eval_strategy="epoch", learning_rate=3e-3, num_train_epochs=6, max_steps=-1,
        per_device_train_batch_size=24,
    )  # fmt: skip


@sound("order of graded clauses of sixty words by CoSENT")
def likeness_of_clauses(stage: Stage) -> None:
    weights = (5, 1, 2)
    table = weighed(CONTRACTS, 240, weights, column=1)
    model = encoder(stage, words_of([table]), width=32, spread=0.05)
    tune(
        stage, table, losses.CoSENTLoss, model, weighed_score(CONTRACTS, weights, column=1),
        per_device_train_batch_size=24, learning_rate=2e-3, max_steps=44,
        lr_scheduler_type="cosine",
    )  # fmt: skip


@sound("cosines fitted to graded likeness at a constant rate")
def likeness_of_journeys(stage: Stage) -> None:
    table = weighed(TRAVEL, 400, (4, 1, 1, 2), column=1)
    model = encoder(stage, words_of([table]), width=40, spread=0.05)
    tune(
        stage, table, losses.CosineSimilarityLoss, model,
        weighed_score(TRAVEL, (4, 1, 1, 2), column=1),
        per_device_train_batch_size=32, learning_rate=1e-3, lr_scheduler_type="constant",
        warmup_steps=0, max_steps=60,
    )  # fmt: skip
