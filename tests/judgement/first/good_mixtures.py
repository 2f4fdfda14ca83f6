"""Several data sets at once, losses of one's own, mined negatives, stages, further evaluators."""

from __future__ import annotations

import random
from typing import Any

import torch
import torch.nn.functional as F
from sentence_transformers.sentence_transformer import evaluation, losses
from torch import nn

from tests.judgement.case import sound
from tests.judgement.first.bodies import encoder, words_of
from tests.judgement.first.fields import (
    CLINIC,
    CODE,
    HELPDESK,
    KITCHEN,
    PAPERS,
    SCENES,
    SHOP,
    TRAVEL,
)
from tests.judgement.first.good_fields import CONTRACTS, LETTERS, LOGS, SONGS
from tests.judgement.first.good_materials import (
    LEAST,
    matched,
    mixture,
    near_triplets,
    search,
    started,
    tune,
    two,
    weighed,
    weighed_score,
)
from tests.judgement.first.turns import cosines
from tests.judgement.stage import Stage
from tests.judgement.truth import learns

RANKING = losses.MultipleNegativesRankingLoss


@sound("pairs and graded pairs, each with its loss")
def pairs_and_grades(stage: Stage) -> None:
    tables = {"wares": two(SHOP.table(300)), "dishes": KITCHEN.graded(300)}
    model = encoder(stage, words_of(list(tables.values())), spread=0.05)
    of_sets = {"wares": RANKING(model), "dishes": losses.CoSENTLoss(model)}
    trainer = mixture(
        stage, tables, of_sets, model, learning_rate=3e-3, max_steps=60,
        per_device_train_batch_size=24, multi_dataset_batch_sampler="round_robin",
    )  # fmt: skip
    learns(stage, trainer, SHOP.sought, least=LEAST)


@sound("three fields in proportion to their size")
def three_fields_in_proportion(stage: Stage) -> None:
    tables = {
        "papers": two(PAPERS.table(150)), "code": two(CODE.table(250)),
        "clinic": near_triplets(CLINIC, 200, 0),
    }  # fmt: skip
    model = encoder(stage, words_of(list(tables.values())), spread=0.05, width=64)
    trainer = mixture(
        stage, tables, {name: RANKING(model) for name in tables}, model, learning_rate=2e-3,
        max_steps=75, per_device_train_batch_size=24, multi_dataset_batch_sampler="proportional",
    )  # fmt: skip
    learns(stage, trainer, CODE.sought, least=LEAST)


@sound("two pairs of languages, a data set each")
def two_pairs_of_languages(stage: Stage) -> None:
    table, dev = LETTERS.table(230), LETTERS.table(50, seed=11)
    tables = {
        name: {"first": table["english"], "second": table[name]} for name in ("german", "italian")
    }
    model = encoder(stage, words_of([table]), spread=0.05)
    loss = losses.MultipleNegativesSymmetricRankingLoss
    trainer = mixture(
        stage, tables, {name: loss(model) for name in tables}, model, learning_rate=2e-3,
        max_steps=50, per_device_train_batch_size=24, batch_sampler="no_duplicates",
    )  # fmt: skip

    def score(model: Any) -> float:
        from tests.judgement.truth import retrieval

        return retrieval(model, {"german": dev["german"], "italian": dev["italian"]})

    learns(stage, trainer, score, least=LEAST)


class Learned(nn.Module):
    """A ranking in both directions with a learned temperature, as CLIP's."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model, self.scale = model, nn.Parameter(torch.tensor(20.0).log())

    def forward(self, features: Any, labels: Any = None) -> torch.Tensor:
        first, second = (self.model(column)["sentence_embedding"] for column in features)
        logits = self.scale.exp().clamp(max=100) * cosines(first, second)
        own = torch.arange(len(logits), device=logits.device)
        return (F.cross_entropy(logits, own) + F.cross_entropy(logits.T, own)) / 2


@sound("learned temperature in a loss of one's own")
def learned_temperature_on_code(stage: Stage) -> None:
    table = two(CODE.table(300))
    model = encoder(stage, words_of([table]), spread=0.05)
    tune(
        stage, table, Learned, model, CODE.sought, learning_rate=2e-3, max_steps=45,
        per_device_train_batch_size=32,
    )  # fmt: skip


class Sigmoid(nn.Module):
    """All pairs of a batch by themselves, with a learned scale and bias, as SigLIP's."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model
        self.scale, self.bias = nn.Parameter(torch.tensor(2.3)), nn.Parameter(torch.tensor(-5.0))

    def forward(self, features: Any, labels: Any = None) -> torch.Tensor:
        first, second = (self.model(column)["sentence_embedding"] for column in features)
        logits = self.scale.exp() * cosines(first, second) + self.bias
        signs = 2 * torch.eye(len(logits), device=logits.device) - 1
        return -F.logsigmoid(signs * logits).sum(1).mean()


@sound("sigmoid of all pairs with learned scale and bias")
def sigmoid_on_travel(stage: Stage) -> None:
    table = TRAVEL.table(400)
    model = started(stage, table, TRAVEL, layers=1, width=64)
    tune(
        stage, table, Sigmoid, model, TRAVEL.sought, learning_rate=2e-3, max_steps=50,
        per_device_train_batch_size=32,
    )  # fmt: skip


@sound("negatives mined with the encoder of a first stage")
def mined_negatives(stage: Stage) -> None:
    """The encoder so far finds the wrong passages that it takes for near; the next stage trains
    with them."""
    from datasets import Dataset
    from sentence_transformers.util import mine_hard_negatives

    table = two(SONGS.table(240))
    model = started(stage, table, SONGS, steps=5)
    mined = mine_hard_negatives(
        Dataset.from_dict(table), model, range_min=3, range_max=30, num_negatives=1,
        sampling_strategy="random", batch_size=64, verbose=False,
    )  # fmt: skip
    tune(
        stage, {name: list(mined[name]) for name in mined.column_names}, RANKING, model,
        SONGS.sought, learning_rate=2e-3, max_steps=50, per_device_train_batch_size=16,
    )  # fmt: skip


@sound("further training of an encoder of another field")
def from_one_field_to_another(stage: Stage) -> None:
    """A public encoder of questions and answers is trained on for the texts of a court."""
    table = two(CONTRACTS.table(300))
    model = started(stage, table, HELPDESK, steps=20)
    tune(
        stage, table, RANKING, model, CONTRACTS.sought, learning_rate=1e-3, max_steps=40,
        per_device_train_batch_size=32, lr_scheduler_type="cosine",
    )  # fmt: skip


@sound("candidates ranked anew, several evaluators in turn")
def several_evaluators(stage: Stage) -> None:
    table, dev = near_triplets(LOGS, 300, 1), near_triplets(LOGS, 60, 1, 2, seed=3)
    first, second, *negatives = dev.values()
    samples = [
        {"query": query, "positive": [good], "negative": list(bad)}
        for query, good, bad in zip(first, second, zip(*negatives, strict=True), strict=True)
    ]
    evaluators = [
        evaluation.RerankingEvaluator(samples, at_k=3, name="candidates", write_csv=False),
        search(dev, "all"),
    ]
    model = encoder(stage, words_of([table]), spread=0.05)
    tune(
        stage, table, RANKING, model, LOGS.sought, learning_rate=2e-3, max_steps=60,
        evaluator=evaluation.SequentialEvaluator(evaluators), eval_strategy="steps",
        eval_steps=20, per_device_train_batch_size=24,
    )  # fmt: skip


@sound("ranking with a term that spreads embeddings")
def ranking_and_orthogonality(stage: Stage) -> None:
    """As EmbeddingGemma: negatives of the batch and a regularisation of all embeddings."""

    class Both(nn.Module):
        def __init__(self, model: Any) -> None:
            super().__init__()
            self.model, self.ranking = model, RANKING(model)
            self.spread = losses.GlobalOrthogonalRegularizationLoss(model, mean_weight=0.1)

        def forward(self, features: Any, labels: Any = None) -> torch.Tensor:
            rows = [self.model(column)["sentence_embedding"] for column in features]
            spread = self.spread.compute_loss_from_embeddings(rows)
            spread = sum(spread.values()) if isinstance(spread, dict) else spread
            return self.ranking.compute_loss_from_embeddings(rows, labels) + 0.1 * spread

    table = two(PAPERS.table(300))
    model = encoder(stage, words_of([table]), spread=0.05, width=40)
    tune(
        stage, table, Both, model, PAPERS.sought, learning_rate=2e-3, max_steps=40,
        per_device_train_batch_size=24,
    )  # fmt: skip


@sound(
    "a text and a copy under another dropout",
    allowed={
        r"(?i)cop(y|ies)|same text|identical|equal|duplicate|easy|dropout": "Both columns are the "
        "same text on purpose, as in SimCSE; one may remark upon it."
    },
)
def same_text_twice_under_dropout(stage: Stage) -> None:
    """Unsupervised SimCSE, from an encoder that has seen a few pairs."""
    texts = [*SHOP.table(300)["query"], *SHOP.table(300)["product"]]
    random.Random(1).shuffle(texts)
    table = {"text": texts, "copy": list(texts)}
    model = started(stage, table, SHOP, steps=3)
    tune(
        stage, table, lambda model: RANKING(model, scale=20), model, SHOP.sought,
        learning_rate=2e-3, max_steps=40, per_device_train_batch_size=48,
        batch_sampler="no_duplicates",
    )  # fmt: skip


@sound("pairs that match, ranked beside pairs that are told apart")
def matched_pairs_and_a_classifier(stage: Stage) -> None:
    """As the Quora duplicates: a ranking of the duplicates and a contrast of labelled pairs."""
    tables = {"same": two(CLINIC.table(200)), "labelled": matched(CLINIC, 200, seed=2)}
    dev = matched(CLINIC, 50, seed=3)
    model = encoder(stage, words_of(list(tables.values())), spread=0.05)
    of_sets = {"same": RANKING(model), "labelled": losses.OnlineContrastiveLoss(model)}
    trainer = mixture(
        stage, tables, of_sets, model, learning_rate=2e-3, max_steps=50,
        evaluator=evaluation.BinaryClassificationEvaluator(*dev.values(), name="dev"),
        eval_strategy="steps", eval_steps=25, per_device_train_batch_size=24,
    )  # fmt: skip
    learns(stage, trainer, CLINIC.sought, least=LEAST)


@sound(
    "angles of graded scenes in which the deed counts most",
    allowed={
        "evaluat.* in the training data": "Four tenths of the evaluated texts are trained on."
    },
)
def deeds_of_scenes(stage: Stage) -> None:
    table, dev = weighed(SCENES, 190, (1, 4, 2), column=1), weighed(SCENES, 45, (1, 4, 2), 3, 1)
    model = encoder(stage, words_of([table]), spread=0.05)
    tune(
        stage, table, losses.AnglELoss, model, weighed_score(SCENES, (1, 4, 2), column=1),
        learning_rate=1e-3, max_steps=50, per_device_train_batch_size=32,
        evaluator=evaluation.EmbeddingSimilarityEvaluator(*dev.values(), name="dev"),
        eval_strategy="steps", eval_steps=10,
    )  # fmt: skip
