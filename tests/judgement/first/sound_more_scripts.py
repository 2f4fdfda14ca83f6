"""Sound set-ups: further scripts with the library's trainer, its modules and losses."""

from __future__ import annotations

import random
from typing import Any

import torch
import torch.nn.functional as F
from sentence_transformers import SentenceTransformer, SentenceTransformerTrainer
from sentence_transformers.sentence_transformer import losses
from sentence_transformers.sentence_transformer.modules import BoW, Dense, Normalize
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
from tests.judgement.first.turns import warmed
from tests.judgement.stage import Stage
from tests.judgement.truth import learns, retrieval

ranking = losses.MultipleNegativesRankingLoss


@sound("symmetric and cached")
def code_by_a_symmetric_cached_ranking(stage: Stage) -> None:
    """The older name of the cached loss in two directions, with chunks of 12 rows."""
    table = CODE.table(220)
    model = encoder(stage, words_of([table]))

    def cached(encoder_: Any) -> Any:
        return losses.CachedMultipleNegativesSymmetricRankingLoss(encoder_, mini_batch_size=12)

    trainer = stage.trainer(
        cached, table, model, per_device_train_batch_size=48, max_steps=20, learning_rate=4e-3
    )
    learns(stage, trainer, CODE.sought)


@sound("symmetric ranking of unequal columns")
def tickets_by_a_symmetric_ranking(stage: Stage) -> None:
    """Short questions and longer answers by the symmetric loss, at a scale of 15."""
    table = HELPDESK.table(220)
    model = encoder(stage, words_of([table]))

    def symmetric(encoder_: Any) -> Any:
        return losses.MultipleNegativesSymmetricRankingLoss(encoder_, scale=15.0)

    learns(stage, stage.trainer(symmetric, table, model, learning_rate=2e-3), HELPDESK.sought)


@sound("triplets at Euclidean distances")
def recipe_triplets_at_euclidean_distances(stage: Stage) -> None:
    """Vectors of free length and a margin of 3, after a first stage."""
    table = KITCHEN.table(240) | {"negative": KITCHEN.near(240, slot=1)}
    model = warmed(encoder(stage, words_of([table])), KITCHEN.table(200, seed=4), 4)

    def triplet(encoder_: Any) -> Any:
        return losses.TripletLoss(encoder_, triplet_margin=3)

    trainer = stage.trainer(triplet, table, model, learning_rate=2e-3, max_steps=80)
    learns(stage, trainer, KITCHEN.sought)


@sound("a second language by a teacher")
def german_brought_to_an_english_teacher(stage: Stage) -> None:
    """Both languages are drawn to the embeddings that a teacher has of the English texts."""
    table = TRAVEL.table(260)
    texts = words_of([table])
    teacher = encoder(stage, texts, name="teacher", seed=5, dropout=0.0)
    warmed(teacher, {"a": table["english"], "b": table["english"]}, 20)
    labels = teacher.encode(table["english"]).tolist()
    model = encoder(stage, texts, dropout=0.0)
    trainer = stage.trainer(
        losses.MSELoss, table | {"label": labels}, model,
        per_device_train_batch_size=32, learning_rate=3e-3, max_steps=80,
    )  # fmt: skip
    learns(stage, trainer, TRAVEL.sought)


@sound("three tasks in turns")
def three_fields_in_turns_by_a_loss_in_common(stage: Stage) -> None:
    """Three data sets of unequal size and with columns of their names, in turns."""
    from datasets import Dataset

    tables = {"papers": PAPERS.table(120), "shop": SHOP.table(200), "scenes": SCENES.table(140)}
    model = encoder(stage, words_of(list(tables.values())))
    settings = stage.trainer(
        ranking, tables["shop"], model, learning_rate=2e-3, max_steps=48,
        multi_dataset_batch_sampler="round_robin",
    ).args  # fmt: skip
    trainer = SentenceTransformerTrainer(
        model=model, args=settings, loss=ranking(model),
        train_dataset={name: Dataset.from_dict(table) for name, table in tables.items()},
    )  # fmt: skip
    learns(stage, trainer, SHOP.sought)


@sound("loss that leaves equal passages out")
def equal_passages_left_out_of_the_negatives(stage: Stage) -> None:
    """Half of the records recur; a loss masks in-batch passages that read as the positive."""

    class Masked(nn.Module):
        def __init__(self, encoder_: Any) -> None:
            super().__init__()
            self.model = encoder_

        def forward(self, features: Any, labels: Any = None) -> Any:
            first, second = (
                F.normalize(self.model(column)["sentence_embedding"], dim=1) for column in features
            )
            ids = features[1]["input_ids"]
            equal = (ids[:, None] == ids[None]).all(-1) & ~torch.eye(len(ids), dtype=torch.bool)
            logits = (20 * first @ second.T).masked_fill(equal, -1e4)
            return F.cross_entropy(logits, torch.arange(len(logits)))

    table = CLINIC.table(90)
    table = {
        "complaint": table["complaint"] + [f"{text} please" for text in table["complaint"]],
        "record": table["record"] * 2,
    }
    model = encoder(stage, words_of([table]))
    trainer = stage.trainer(Masked, table, model, learning_rate=2e-3, max_steps=50)
    learns(stage, trainer, CLINIC.sought)


@sound("bag of words below dense layers")
def bag_of_words_below_dense_layers(stage: Stage) -> None:
    """Counts of words, and two dense layers that learn on them."""
    table = SHOP.table(240)
    words = sorted({word for text in words_of([table]) for word in text.split()})
    torch.manual_seed(3)
    modules = [BoW(words), Dense(len(words), 64), Dense(64, 32), Normalize()]
    model = SentenceTransformer(modules=modules, device="cpu")
    trainer = stage.trainer(ranking, table, model, learning_rate=5e-3, max_steps=60)
    learns(stage, trainer, SHOP.sought)


@sound("tension between two encoders")
def tension_of_sentences_marked_as_equal(stage: Stage) -> None:
    """Contrastive tension with labels: a sentence with itself, and with three drawn ones."""
    rows = HELPDESK.table(160)
    draw, table = random.Random(3), {"first": [], "second": [], "label": []}
    texts = rows["answer"]
    for text in texts:
        for second, label in ((text, 1), *((draw.choice(texts), 0) for _ in range(3))):
            table["first"].append(text)
            table["second"].append(second)
            table["label"].append(label)
    model = encoder(stage, words_of([rows]), dropout=0.0)
    unseen = HELPDESK.table(40, seed=11)["answer"]
    views = {
        "short": [" ".join(text.split()[2:10:2]) for text in unseen],
        "long": unseen,
    }

    def score(model: Any) -> float:
        return retrieval(model, views)

    trainer = stage.trainer(
        losses.ContrastiveTensionLoss, table, model, learning_rate=1e-3, max_steps=60,
        per_device_train_batch_size=32,
    )  # fmt: skip
    learns(stage, trainer, score)


@sound("ranking and lengths")
def ranking_with_a_penalty_on_lengths(stage: Stage) -> None:
    """A loss that adds a small penalty on the lengths of the embeddings; later words weigh more."""

    class Bounded(nn.Module):
        def __init__(self, encoder_: Any) -> None:
            super().__init__()
            self.model, self.ranking = encoder_, ranking(encoder_)

        def forward(self, features: Any, labels: Any = None) -> Any:
            rows = [self.model(column)["sentence_embedding"] for column in features]
            lengths = torch.cat(rows).norm(dim=1)
            ranked = self.ranking.compute_loss_from_embeddings(rows, labels)
            return ranked + 0.01 * (lengths - 1).square().mean()

    table = PAPERS.table(220)
    model = encoder(stage, words_of([table]), pooling="weightedmean")
    learns(stage, stage.trainer(Bounded, table, model, learning_rate=2e-3), PAPERS.sought)
