"""Sound set-ups: students of teachers, nested dimensions and layers, margins of whole batches."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.judgement.case import sound
from tests.judgement.first.bodies import encoder
from tests.judgement.first.everyday_subjects import CHATS, JOBS, PARTS, RECIPES
from tests.judgement.first.expert_subjects import CHINESE, CYRILLIC, MATCHES, SPECIES
from tests.judgement.first.loop_materials import ranking
from tests.judgement.first.subject_kit import schooled
from tests.judgement.stage import Stage
from tests.judgement.truth import learns, reciprocal_rank
from tests.sentence_training import losses


def _vectors(model: Any, texts: list[str]) -> np.ndarray:
    return model.encode(texts, show_progress_bar=False)


@sound("nested dimensions")
def nested_dimensions_of_jobs(stage: Stage) -> None:
    """Matryoshka over a half and a quarter of the dimensions; the score is of a quarter."""
    trainer = stage.trainer(
        lambda model: losses.MatryoshkaLoss(
            model, losses.MultipleNegativesRankingLoss(model), matryoshka_dims=[48, 24, 12]
        ),
        JOBS.pairs(320), encoder(stage, JOBS.words(), spread=0.05), max_steps=120,
        per_device_train_batch_size=32, learning_rate=1e-3,
    )  # fmt: skip
    held_out = JOBS.pairs(50, held_out=True, seed=11)

    def with_few_dimensions(model: Any) -> float:
        first, second = (_vectors(model, texts)[:, :12] for texts in held_out.values())
        return reciprocal_rank(first, second)

    learns(stage, trainer, with_few_dimensions, least=0.1)


@sound("nested dimensions and layers")
def nested_layers_of_matches(stage: Stage) -> None:
    """Two-dimensional Matryoshka: earlier layers and fewer dimensions serve as well."""
    trainer = stage.trainer(
        lambda model: losses.Matryoshka2dLoss(
            model, losses.MultipleNegativesRankingLoss(model), matryoshka_dims=[48, 24]
        ),
        MATCHES.pairs(400), encoder(stage, MATCHES.words(), spread=0.05, layers=3),
        max_steps=140, learning_rate=1e-3,
    )  # fmt: skip
    learns(stage, trainer, MATCHES.sought(60), least=0.1)


@sound("margins of a teacher between passages")
def parts_by_margins_of_a_teacher(stage: Stage) -> None:
    """MarginMSE: the difference of the teacher's scores of two parts is met by the student's."""
    teacher = schooled(stage, encoder(stage, PARTS.words(), name="teacher", width=64, spread=0.05),
                       PARTS.with_negatives(320, seed=4), steps=120)  # fmt: skip
    table: dict[str, Any] = PARTS.with_negatives(320)
    asked, right, wrong = (
        rows / np.linalg.norm(rows, axis=1, keepdims=True)
        for rows in (_vectors(teacher, texts) for texts in table.values())
    )
    table["label"] = (10 * ((asked * right).sum(1) - (asked * wrong).sum(1))).tolist()
    student = encoder(stage, PARTS.words(), spread=0.05)
    schooled(stage, student, PARTS.pairs(320), steps=30)
    trainer = stage.trainer(
        losses.MarginMSELoss, table, student, max_steps=200, learning_rate=1e-3,
        per_device_train_batch_size=32,
    )  # fmt: skip
    learns(stage, trainer, PARTS.sought(60), least=0.1)


@sound("distribution of a teacher over passages")
def reports_by_distribution_of_a_teacher(stage: Stage) -> None:
    """The student meets the teacher's softmax over one right and three near reports."""
    teacher = schooled(stage, encoder(stage, MATCHES.words(), name="teacher", spread=0.05),
                       MATCHES.with_negatives(400, 2, seed=4), steps=120)  # fmt: skip
    table: dict[str, Any] = MATCHES.with_negatives(400, 3)
    query, *reports = (_vectors(teacher, texts) for texts in table.values())
    lengths = np.linalg.norm(query, axis=1)
    scores = [
        (query * report).sum(1) / lengths / np.linalg.norm(report, axis=1) for report in reports
    ]
    table["label"] = (20 * np.stack(scores, axis=1)).tolist()
    student = encoder(stage, MATCHES.words(), spread=0.05, seed=12)
    trainer = stage.trainer(
        lambda model: losses.DistillKLDivLoss(model), table, student,
        max_steps=300, learning_rate=1e-3, per_device_train_batch_size=16,
    )  # fmt: skip
    learns(stage, trainer, MATCHES.sought(60), least=0.1)


@sound("vectors of a teacher in a second language")
def cyrillic_student_of_an_english_teacher(stage: Stage) -> None:
    """As multilingual models are made: both sides of a translation meet the teacher's vector."""
    teacher = encoder(stage, CYRILLIC.words(), name="teacher", spread=0.3, dropout=0.0)
    rows = CYRILLIC.rows(600)
    same = {"a": CYRILLIC.texts(rows, 0, 1), "b": CYRILLIC.texts(rows, 0, 2)}
    schooled(stage, teacher, same, steps=60)
    table: dict[str, Any] = CYRILLIC.pairs(600)
    table["label"] = _vectors(teacher, table["anchor"]).tolist()
    trainer = stage.trainer(
        losses.MSELoss, table, encoder(stage, CYRILLIC.words(), spread=0.05, seed=5),
        max_steps=300, learning_rate=2e-3, per_device_train_batch_size=32,
    )  # fmt: skip
    learns(stage, trainer, CYRILLIC.sought(60), least=0.1)


@sound("translations of another script, both directions, larger body")
def chinese_sentences_and_their_translations(stage: Stage) -> None:
    """Characters apart as tokens; translations are sought in both directions."""
    trainer = stage.trainer(
        losses.MultipleNegativesSymmetricRankingLoss, CHINESE.pairs(500),
        encoder(stage, CHINESE.words(), spread=0.05, width=64, layers=3), max_steps=120,
        learning_rate=7e-4, per_device_train_batch_size=24,
    )  # fmt: skip
    learns(stage, trainer, CHINESE.sought(60), least=0.1)


@sound("cached loss of both directions, translations")
def cyrillic_translations_in_cached_batches(stage: Stage) -> None:
    """Large batches of translations in chunks, both directions, cosine schedule."""
    trainer = stage.trainer(
        lambda model: losses.CachedMultipleNegativesSymmetricRankingLoss(model, mini_batch_size=32),
        CYRILLIC.pairs(600), encoder(stage, CYRILLIC.words(), spread=0.05, kind="distilbert"),
        max_steps=60, learning_rate=2e-3, per_device_train_batch_size=64,
        lr_scheduler_type="cosine",
    )  # fmt: skip
    learns(stage, trainer, CYRILLIC.sought(60), least=0.1)


@sound("hardest negative of a large batch, margins")
def chats_by_margins_of_large_batches(stage: Stage) -> None:
    """The hardest other reply of batches of 60 is held below its margin."""
    model = schooled(stage, encoder(stage, CHATS.words(), spread=0.05), CHATS.pairs(320, seed=3),
                     steps=50)  # fmt: skip
    trainer = stage.trainer(
        lambda model: losses.MegaBatchMarginLoss(model, mini_batch_size=20), CHATS.pairs(320),
        model, max_steps=60, learning_rate=2e-3, per_device_train_batch_size=60,
        dataloader_drop_last=True,
    )  # fmt: skip
    learns(stage, trainer, CHATS.sought(50), least=0.1)


class RankedAndSpread(losses.MultipleNegativesRankingLoss):
    """In-batch ranking with a tenth of the penalty on vectors that are not spread out."""

    def __init__(self, model: Any) -> None:
        super().__init__(model)
        self.spread = losses.GlobalOrthogonalRegularizationLoss(model)

    def forward(self, sentence_features: Any, labels: Any = None) -> Any:
        rows = [self.model(column)["sentence_embedding"] for column in sentence_features]
        spread = self.spread.compute_loss_from_embeddings(rows, labels)
        return self.compute_loss_from_embeddings(rows, labels) + 0.1 * sum(spread.values())


@sound("ranking with a penalty on vectors that crowd")
def species_ranked_and_spread_out(stage: Stage) -> None:
    """Names and descriptions of plants; the sum of a ranking loss and a regulariser."""
    trainer = stage.trainer(
        RankedAndSpread, SPECIES.pairs(200), encoder(stage, SPECIES.words(), spread=0.05),
        max_steps=120, learning_rate=1e-3,
    )  # fmt: skip
    learns(stage, trainer, SPECIES.sought(35), least=0.1)


@sound("fewer layers, vectors of the deeper teacher")
def shallow_student_of_recipes(stage: Stage) -> None:
    """A body of one layer learns the vectors of a trained one of three, by cosine distance."""
    teacher = encoder(stage, RECIPES.words(), name="teacher", spread=0.05, layers=3)
    schooled(stage, teacher, RECIPES.pairs(300), steps=130, loss=ranking)
    table: dict[str, Any] = RECIPES.pairs(300)
    texts = [*table["anchor"], *table["positive"]]
    trainer = stage.trainer(
        losses.EmbedDistillLoss, {"text": texts, "label": _vectors(teacher, texts).tolist()},
        encoder(stage, RECIPES.words(), spread=0.05, layers=1, seed=9), max_steps=250,
        learning_rate=2e-3, per_device_train_batch_size=32,
    )  # fmt: skip
    learns(stage, trainer, RECIPES.sought(50), least=0.1)
