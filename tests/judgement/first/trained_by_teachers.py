"""Sound set-ups: teachers, guides, layers and further losses with a trainer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from tests.judgement.case import sound
from tests.judgement.first.fields import Field
from tests.judgement.first.fields_of_orders_and_mails import (
    BIRDS,
    CHEMISTRY,
    HINDI,
    MAILS,
    METERS,
    MUSEUM,
    PATENTS,
    RUSSIAN,
    SHELL,
    TENNIS,
    fresh,
    seeker,
    with_near,
)
from tests.judgement.first.turns import warmed
from tests.judgement.stage import Stage
from tests.judgement.truth import learns
from tests.sentence_training import losses


def _teacher(stage: Stage, field: Field, steps: int = 60) -> Any:
    """A wider encoder of the field that has been trained by pairs, of rows of its own."""
    teacher = fresh(stage, field, name="teacher", width=64, seed=9, dropout=0.0)
    return warmed(teacher, field.table(400, seed=2), steps)


def _rows(teacher: Any, texts: Sequence[str]) -> np.ndarray:
    return teacher.encode(list(texts), show_progress_bar=False, normalize_embeddings=True)


def _similarities(teacher: Any, table: Mapping[str, Sequence[str]]) -> list[np.ndarray]:
    """The teacher's cosines of the first column with each further one."""
    first, *further = (_rows(teacher, texts) for texts in table.values())
    return [(first * rows).sum(1) for rows in further]


@sound("margins of a teacher")
def margins_of_a_teacher_of_meters(stage: Stage) -> None:
    from sentence_transformers.sentence_transformer.modules import Normalize

    table = with_near(METERS, 400)
    positives, negatives = _similarities(_teacher(stage, METERS), table)
    trainer = stage.trainer(
        losses.MarginMSELoss, {**table, "label": (positives - negatives).tolist()},
        fresh(stage, METERS, Normalize()), learning_rate=2e-3, max_steps=110,
        per_device_train_batch_size=32,
    )  # fmt: skip
    learns(stage, trainer, seeker(METERS))


@sound("distribution of a teacher over two passages")
def divergence_from_a_teacher_of_sightings(stage: Stage) -> None:
    table = with_near(BIRDS, 400)
    scores = np.stack(_similarities(_teacher(stage, BIRDS), table), 1) * 10
    trainer = stage.trainer(
        lambda model: losses.DistillKLDivLoss(model, temperature=2.0),
        {**table, "label": scores.tolist()}, fresh(stage, BIRDS), learning_rate=2e-3,
        max_steps=100, per_device_train_batch_size=32,
    )  # fmt: skip
    learns(stage, trainer, seeker(BIRDS))


@sound("embeddings of a teacher as targets, by a dense head")
def embeddings_of_a_teacher_of_protocols(stage: Stage) -> None:
    from sentence_transformers.sentence_transformer.modules import Dense

    teacher = _teacher(stage, CHEMISTRY)
    texts = [text for column in CHEMISTRY.table(300).values() for text in column]
    head = Dense(48, 64, activation_function=torch.nn.Identity())
    trainer = stage.trainer(
        losses.MSELoss, {"text": texts, "label": _rows(teacher, texts).tolist()},
        fresh(stage, CHEMISTRY, head), learning_rate=2e-3, max_steps=120,
        per_device_train_batch_size=32,
    )  # fmt: skip
    learns(stage, trainer, seeker(CHEMISTRY))


@sound("embeddings of a teacher by cosine, student of its width")
def cosines_to_a_teacher_of_commands(stage: Stage) -> None:
    teacher = _teacher(stage, SHELL)
    texts = [text for column in SHELL.table(300).values() for text in column]
    trainer = stage.trainer(
        lambda model: losses.EmbedDistillLoss(model, distance_metric="cosine"),
        {"text": texts, "label": _rows(teacher, texts).tolist()},
        fresh(stage, SHELL, width=64, layers=1), learning_rate=2e-3, max_steps=100,
        per_device_train_batch_size=32,
    )  # fmt: skip
    learns(stage, trainer, seeker(SHELL))


@sound("guide that drops false negatives")
def guided_negatives_of_mails(stage: Stage) -> None:
    guide = _teacher(stage, MAILS)
    trainer = stage.trainer(
        lambda model: losses.GISTEmbedLoss(
            model, guide, temperature=0.05, margin_strategy="relative", margin=0.05
        ),
        MAILS.table(400), fresh(stage, MAILS), learning_rate=2e-3, max_steps=60,
        per_device_train_batch_size=32,
    )  # fmt: skip
    learns(stage, trainer, seeker(MAILS))


@sound("guide with cached gradients of a large batch")
def guided_and_cached_museum_cards(stage: Stage) -> None:
    guide = _teacher(stage, MUSEUM, 40)
    trainer = stage.trainer(
        lambda model: losses.CachedGISTEmbedLoss(
            model, guide, temperature=0.05, mini_batch_size=32
        ),
        MUSEUM.table(384), fresh(stage, MUSEUM, layers=1), learning_rate=3e-3, max_steps=24,
        per_device_train_batch_size=64,
    )  # fmt: skip
    learns(stage, trainer, seeker(MUSEUM))


@sound("ranking at layers and dimensions")
def layers_and_dimensions_of_translations(stage: Stage) -> None:
    trainer = stage.trainer(
        lambda model: losses.Matryoshka2dLoss(
            model, losses.MultipleNegativesRankingLoss(model), [48, 24], n_dims_per_step=-1
        ),
        RUSSIAN.table(400), fresh(stage, RUSSIAN, layers=3), learning_rate=2e-3, max_steps=60,
        per_device_train_batch_size=24,
    )  # fmt: skip
    learns(stage, trainer, seeker(RUSSIAN))


@sound("ranking at two layers")
def adaptive_layers_of_hindi_orders(stage: Stage) -> None:
    trainer = stage.trainer(
        lambda model: losses.AdaptiveLayerLoss(
            model, losses.MultipleNegativesRankingLoss(model), layer_weighting="log"
        ),
        HINDI.table(400), fresh(stage, HINDI), learning_rate=2e-3, max_steps=60,
        per_device_train_batch_size=24,
    )  # fmt: skip
    learns(stage, trainer, seeker(HINDI))


@sound("ranking by the hardest pair of a large batch")
def mega_batches_of_ticker_lines(stage: Stage) -> None:
    trainer = stage.trainer(
        lambda model: losses.MegaBatchMarginLoss(model, mini_batch_size=32),
        TENNIS.table(512), fresh(stage, TENNIS), learning_rate=3e-3, max_steps=40,
        per_device_train_batch_size=64,
    )  # fmt: skip
    learns(stage, trainer, seeker(TENNIS))


class _SpreadRanking(losses.MultipleNegativesRankingLoss):
    """Ranking with global orthogonal regularisation, as its documentation combines them."""

    def __init__(self, model: Any) -> None:
        super().__init__(model)
        self.spread = losses.GlobalOrthogonalRegularizationLoss(model)

    def forward(self, sentence_features: Any, labels: Any = None) -> Any:
        rows = [self.model(features)["sentence_embedding"] for features in sentence_features]
        spread = self.spread.compute_loss_from_embeddings(rows, labels)
        ranking = self.compute_loss_from_embeddings(rows, labels)
        return {"ranking": ranking, **spread}


@sound("ranking with orthogonal regularisation")
def ranking_of_patents_with_spread_embeddings(stage: Stage) -> None:
    trainer = stage.trainer(
        _SpreadRanking, PATENTS.table(256), fresh(stage, PATENTS), learning_rate=2e-3,
        max_steps=60, per_device_train_batch_size=32,
    )  # fmt: skip
    learns(stage, trainer, seeker(PATENTS))
