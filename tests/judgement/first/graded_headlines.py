"""Sound trainers with grades, yes or no, scores of teachers, and vectors of teachers."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import torch
from sentence_transformers.sentence_transformer import losses
from sentence_transformers.sentence_transformer.evaluation import EmbeddingSimilarityEvaluator

from tests.judgement.case import sound
from tests.judgement.first.fields import Field
from tests.judgement.first.fields_of_museums_and_skies import (
    LEAGUE,
    NUMBERS,
    POSTS,
    SHELL,
    SKY,
    encoder_of,
    grader,
    pretrained,
    seeker,
)
from tests.judgement.first.turns import warmed
from tests.judgement.stage import Stage
from tests.judgement.truth import correlation, learns


def vectors(model: Any, texts: Sequence[str]) -> torch.Tensor:
    """Embeddings of a teacher as they are."""
    return model.encode(list(texts), convert_to_tensor=True, show_progress_bar=False).cpu()


def judged(field: Field, count: int, seed: int = 0) -> dict[str, list[Any]]:
    """Pairs of texts in mixed order: about half of them match (1), half differ in two slots."""
    draw, rows = random.Random(seed), field.draws(count, seed)
    table: dict[str, list[Any]] = {"first": field.texts(rows, 0), "second": [], "label": []}
    lists = [entries.split() for entries in field.slots.values()]
    for row in rows:
        label, changed = draw.randint(0, 1), list(row)
        for slot in draw.sample(range(len(row)), 0 if label else 2):
            changed[slot] = draw.choice([entry for entry in lists[slot] if entry != row[slot]])
        table["second"] += field.texts([tuple(changed)], 1)
        table["label"].append(label)
    return table


def verdicts(field: Field, model: Any) -> float:
    """The rank correlation of cosines with the labels of pairs not in training."""
    return correlation(model, judged(field, 120, 11))


@sound("CoSENT with a correlation evaluator")
def headlines_by_cosent_with_an_evaluator(stage: Stage) -> None:
    development = LEAGUE.graded(60, seed=13)
    trainer = stage.trainer(
        losses.CoSENTLoss, LEAGUE.graded(400), encoder_of(stage, LEAGUE),
        evaluator=EmbeddingSimilarityEvaluator(*development.values(), name="development"),
        eval_strategy="steps", eval_steps=25,
        learning_rate=2e-3, max_steps=75, per_device_train_batch_size=32,
    )  # fmt: skip
    learns(stage, trainer, grader(LEAGUE))


@sound("squared error of cosines of grades")
def posts_by_squared_error_of_cosines(stage: Stage) -> None:
    trainer = stage.trainer(
        losses.CosineSimilarityLoss, POSTS.graded(400), pretrained(stage, POSTS, 6, dropout=0.0),
        learning_rate=1e-3, max_steps=80, per_device_train_batch_size=32,
        lr_scheduler_type="polynomial",
    )  # fmt: skip
    learns(stage, trainer, grader(POSTS))


@sound("online contrastive loss of yes and no")
def numerals_by_hard_pairs_of_a_batch(stage: Stage) -> None:
    trainer = stage.trainer(
        lambda model: losses.OnlineContrastiveLoss(model, margin=0.7), judged(NUMBERS, 400),
        encoder_of(stage, NUMBERS),
        learning_rate=2e-3, max_steps=80, per_device_train_batch_size=48,
    )  # fmt: skip
    learns(stage, trainer, lambda model: verdicts(NUMBERS, model))


@sound("margins of a teacher")
def shell_by_margins_of_a_teacher(stage: Stage) -> None:
    """Cosines of a wider teacher, of which the differences are learned by cosines."""
    from sentence_transformers.util import pairwise_cos_sim

    table = SHELL.table(320) | {"negative": SHELL.near(320, slot=0)}
    teacher = warmed(encoder_of(stage, SHELL, name="teacher", width=64), SHELL.table(320, 2), 60)
    aims, commands, lures = (vectors(teacher, column) for column in table.values())
    margins = pairwise_cos_sim(aims, commands) - pairwise_cos_sim(aims, lures)
    trainer = stage.trainer(
        lambda model: losses.MarginMSELoss(model, similarity_fct=pairwise_cos_sim),
        table | {"score": margins.tolist()}, pretrained(stage, SHELL, 5),
        learning_rate=2e-3, max_steps=80, per_device_train_batch_size=32,
    )  # fmt: skip
    learns(stage, trainer, seeker(SHELL))


@sound("distribution of a teacher's scores")
def sky_by_the_distribution_of_a_teacher(stage: Stage) -> None:
    table = SKY.table(320) | {"lure_1": SKY.near(320, slot=0), "lure_2": SKY.near(320, slot=2)}
    teacher = warmed(encoder_of(stage, SKY, name="teacher", width=64), SKY.table(320, 2), 60)
    rows = [torch.nn.functional.normalize(vectors(teacher, cells)) for cells in table.values()]
    scores = torch.stack([(rows[0] * row).sum(1) for row in rows[1:]], 1)
    trainer = stage.trainer(
        lambda model: losses.DistillKLDivLoss(
            model, similarity_fct=lambda first, second: torch.cosine_similarity(first, second)
            * 10, temperature=1.0,
        ),
        table | {"label": (10 * scores).tolist()}, encoder_of(stage, SKY),
        learning_rate=3e-3, max_steps=80, per_device_train_batch_size=24,
    )  # fmt: skip
    learns(stage, trainer, seeker(SKY))


@sound("vectors of a teacher for sentences of two languages")
def german_notes_towards_vectors_of_a_teacher(stage: Stage) -> None:
    """A teacher of the titles; the student meets each title and its note, with one target."""
    teacher = warmed(encoder_of(stage, SKY, name="teacher"), SKY.table(320, 2), 60)
    table = SKY.table(320)
    targets = vectors(teacher, table["title"]).tolist()
    mixed = {
        "text": [*table["title"], *table["note"]],
        "label": [*targets, *targets],
    }
    trainer = stage.trainer(
        losses.MSELoss, mixed, encoder_of(stage, SKY, dropout=0.0),
        learning_rate=3e-3, max_steps=90, per_device_train_batch_size=48,
    )  # fmt: skip
    learns(stage, trainer, seeker(SKY))
