"""Sound set-ups with a trainer: teachers, guides, regularisers and losses of one's own."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from sentence_transformers.sentence_transformer import losses
from torch import Tensor, nn

from tests.judgement.case import sound
from tests.judgement.first.fields_of_dreams_and_roads import (
    COMMITS,
    DREAMS,
    JOBS,
    MUSEUM,
    QUERIES,
    SENSORS,
    STATIONS,
    WEATHER,
    contrasted,
    reader,
    scripted,
)
from tests.judgement.first.turns import cosines, warmed
from tests.judgement.stage import Stage
from tests.judgement.truth import learns

SWIFT: dict[str, Any] = {"learning_rate": 2e-3, "max_steps": 60}


@sound("cached guided loss")
def guided_and_cached_batches_of_weather(stage: Stage) -> None:
    guide = warmed(reader(stage, WEATHER, name="guide"), scripted(WEATHER, 300, 2), steps=50)
    trainer = stage.trainer(
        lambda model: losses.CachedGISTEmbedLoss(
            model, guide, mini_batch_size=16, margin_strategy="relative", margin=0.05
        ),
        scripted(WEATHER, 480), reader(stage, WEATHER, seed=5, width=32),
        per_device_train_batch_size=48, learning_rate=3e-3, max_steps=30,
    )  # fmt: skip
    learns(stage, trainer, WEATHER.sought)


@sound("cached loss in two directions")
def cached_batches_in_two_directions_for_museum(stage: Stage) -> None:
    trainer = stage.trainer(
        lambda model: losses.CachedMultipleNegativesSymmetricRankingLoss(
            model, scale=14.0, mini_batch_size=8
        ),
        scripted(MUSEUM, 480), reader(stage, MUSEUM, kind="distilbert"),
        per_device_train_batch_size=32, learning_rate=2e-3, max_steps=40,
        optim="adafactor",
    )  # fmt: skip
    learns(stage, trainer, MUSEUM.sought)


class Regularised(nn.Module):
    """A ranking loss in two directions and a tenth of the spread of unrelated rows."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(self, features: Any, labels: Tensor | None = None) -> Tensor:
        first, second = (self.model(column)["sentence_embedding"] for column in features)
        table = cosines(first, second)
        targets = torch.arange(len(table))
        ranks = F.cross_entropy(20 * table, targets) + F.cross_entropy(20 * table.T, targets)
        strangers = table[~torch.eye(len(table), dtype=torch.bool)]
        return ranks / 2 + 0.1 * (strangers.mean().square() + strangers.square().mean())


@sound("loss of one's own with a regulariser")
def strangers_drawn_to_right_angles_in_commits(stage: Stage) -> None:
    trainer = stage.trainer(Regularised, scripted(COMMITS, 360), reader(stage, COMMITS), **SWIFT)
    learns(stage, trainer, COMMITS.sought)


@sound("distribution of a teacher over a positive and negatives")
def divergence_from_a_teacher_of_vacancies(stage: Stage) -> None:
    """The labels are the teacher's similarities with the positive and two negatives."""
    teacher = warmed(
        reader(stage, JOBS, name="teacher", dropout=0.0), scripted(JOBS, 400, 2), steps=45
    )
    table = contrasted(JOBS, 480, slot=0) | {"second_negative": JOBS.near(480, slot=1)}
    first, *seconds = (
        torch.from_numpy(teacher.encode(texts, normalize_embeddings=True))
        for texts in table.values()
    )
    scores = torch.stack([(first * rows).sum(1) for rows in seconds], 1) * 10
    trainer = stage.trainer(
        lambda model: losses.DistillKLDivLoss(model, temperature=1.0),
        table | {"label": scores.tolist()}, reader(stage, JOBS, seed=8),
        per_device_train_batch_size=24, learning_rate=1e-3, max_steps=70,
    )  # fmt: skip
    learns(stage, trainer, JOBS.sought)


@sound("large batches with their hardest negatives")
def megabatches_with_hardest_partners_of_sensors(stage: Stage) -> None:
    trainer = stage.trainer(
        lambda model: losses.MegaBatchMarginLoss(
            model, positive_margin=0.9, negative_margin=0.2, use_mini_batched_version=False
        ),
        scripted(SENSORS, 400), reader(stage, SENSORS, spread=0.06),
        per_device_train_batch_size=32, learning_rate=2e-3, max_steps=70,
    )  # fmt: skip
    learns(stage, trainer, SENSORS.sought)


@sound("a loss at every layer")
def adaptive_layers_for_dreams(stage: Stage) -> None:
    trainer = stage.trainer(
        lambda model: losses.AdaptiveLayerLoss(
            model, losses.MultipleNegativesRankingLoss(model), kl_temperature=0.3
        ),
        scripted(DREAMS, 360), reader(stage, DREAMS, layers=3),
        per_device_train_batch_size=24, lr_scheduler_type="polynomial", **SWIFT,
    )  # fmt: skip
    learns(stage, trainer, DREAMS.sought)


@sound("frozen lower layers of a tuned body")
def lower_layer_frozen_after_a_first_training(stage: Stage) -> None:
    """The word embeddings and the lowest layer were tuned before and are held."""
    model = warmed(reader(stage, QUERIES, layers=3), scripted(QUERIES, 320, 2), steps=5)
    network = model[0].auto_model
    for module in (network.embeddings, network.encoder.layer[0]):
        module.requires_grad_(False)
    trainer = stage.trainer(
        losses.MultipleNegativesRankingLoss, contrasted(QUERIES, 360, slot=1), model,
        learning_rate=1e-3, max_steps=60,
    )  # fmt: skip
    learns(stage, trainer, QUERIES.sought)


@sound("texts of a style taught by embeddings of its counterpart")
def boards_taught_by_embeddings_of_speeches(stage: Stage) -> None:
    """As in multilingual distillation, texts and their translations get the teacher's rows."""
    teacher = warmed(reader(stage, STATIONS, name="teacher"), scripted(STATIONS, 400, 2), steps=70)
    first, second = scripted(STATIONS, 400).values()
    targets = (teacher.encode(first, normalize_embeddings=True) * 5).tolist()
    order = torch.randperm(800).tolist()
    trainer = stage.trainer(
        losses.MSELoss,
        {"text": [(first + second)[row] for row in order],
         "label": [(targets + targets)[row] for row in order]},
        reader(stage, STATIONS, seed=6), per_device_train_batch_size=32, learning_rate=3e-3,
        max_steps=110,
    )  # fmt: skip
    learns(stage, trainer, STATIONS.sought)
