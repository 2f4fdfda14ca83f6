"""Sound set-ups: rates, schedules, optimisers, batches, checkpoints and callbacks."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from tests.judgement.case import sound
from tests.judgement.first.evaluations import BEST_IS_KEPT, search
from tests.judgement.first.loop_materials import FAST, embed, infonce, pretrained, ranking
from tests.judgement.stage import Stage, pairs, triplets
from tests.judgement.truth import alike, among_alike, learns
from tests.sentence_training import losses


@sound("restarts of a cosine schedule")
def cosine_with_two_restarts(stage: Stage) -> None:
    settings = {
        "lr_scheduler_type": "cosine_with_restarts",
        "lr_scheduler_kwargs": {"num_cycles": 2},
        "max_steps": 60,
    }
    learns(stage, stage.trainer(ranking, pairs(), **settings, **FAST), among_alike)


@sound("rates that fall from layer to layer")
def lower_rates_below(stage: Stage) -> None:
    model = stage.model()
    body = model[0].auto_model
    groups = [
        {"params": [*body.embeddings.parameters()], "lr": 4e-4},
        {"params": [*body.encoder.layer[0].parameters()], "lr": 7e-4},
        {"params": [*body.encoder.layer[1].parameters()], "lr": 1e-3},
    ]
    optimizer = torch.optim.AdamW(groups)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 - step / 41)
    trainer = stage.trainer(ranking, pairs(), model, optimizers=(optimizer, schedule))
    learns(stage, trainer, among_alike)


@sound("gradients clipped to a tenth, under Adam")
def gradients_clipped_to_a_tenth(stage: Stage) -> None:
    learns(stage, stage.trainer(ranking, pairs(), max_grad_norm=0.1, **FAST), among_alike)


@sound("batches of three triplets")
def three_triplets_for_a_step(stage: Stage) -> None:
    def triplet(model: Any) -> Any:
        return losses.TripletLoss(model, losses.TripletDistanceMetric.COSINE, 0.3)

    settings = {"per_device_train_batch_size": 3, "max_steps": 160, **FAST}
    learns(stage, stage.trainer(triplet, triplets(), **settings), among_alike)


@sound("one epoch over many rows")
def single_epoch(stage: Stage) -> None:
    settings = {"max_steps": -1, "num_train_epochs": 1, "warmup_steps": 0.1}
    learns(stage, stage.trainer(ranking, pairs(640), **settings, **FAST), among_alike)


@sound("stopped early where the score no longer rises")
def stopped_after_three_evaluations(stage: Stage) -> None:
    from transformers import EarlyStoppingCallback

    trainer = stage.trainer(
        ranking, pairs(), evaluator=search(alike(seed=12)), greater_is_better=True,
        metric_for_best_model="search_cosine_ndcg@10", max_steps=80,
        callbacks=[EarlyStoppingCallback(3)], **BEST_IS_KEPT, **FAST,
    )  # fmt: skip
    learns(stage, trainer, among_alike)


@sound("small rate for an encoder that is good already")
def trained_encoder_at_a_small_rate(stage: Stage) -> None:
    folder = pretrained(stage, pairs(seed=5), max_steps=15)
    settings = {"learning_rate": 2e-4, "warmup_steps": 0.1}
    learns(stage, stage.trainer(ranking, pairs(), stage.model(bert=folder), **settings),
           among_alike)  # fmt: skip


class RankingWithDecorrelation(torch.nn.Module):
    """InfoNCE with a small penalty on the correlation of coordinates, written by hand."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(self, sentence_features: Any, labels: Tensor | None = None) -> Tensor:
        anchors, positives = (embed(self.model, features) for features in sentence_features)
        centred = (positives - positives.mean(0)) / (positives.std(0) + 1e-4)
        correlations = centred.T @ centred / len(centred)
        penalty = (correlations - torch.diag(correlations.diagonal())).square().mean()
        return infonce(anchors, positives) + 0.1 * penalty


@sound("loss module of one's own")
def ranking_with_decorrelation(stage: Stage) -> None:
    learns(stage, stage.trainer(RankingWithDecorrelation, pairs(), **FAST), among_alike)


class LearnedScale(torch.nn.Module):
    """InfoNCE whose temperature is a parameter, which the trainer's optimiser holds."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model
        self.logit_scale = torch.nn.Parameter(torch.tensor(14.3).log())

    def forward(self, sentence_features: Any, labels: Tensor | None = None) -> Tensor:
        columns = [embed(self.model, features) for features in sentence_features]
        return infonce(*columns, 1 / self.logit_scale.exp())  # type: ignore[arg-type]


@sound("learned temperature")
def temperature_learned_as_in_clip(stage: Stage) -> None:
    learns(stage, stage.trainer(LearnedScale, pairs(), **FAST), among_alike)
