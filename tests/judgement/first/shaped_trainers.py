"""Trainers of sentence-transformers with other poolings, optimisers and losses of one's own."""

from __future__ import annotations

from typing import Any

import torch
from datasets import Dataset
from sentence_transformers.sentence_transformer import losses
from torch import Tensor, nn

from tests.judgement.case import sound
from tests.judgement.first.drawn_rows import seeks
from tests.judgement.first.loop_materials import ranking
from tests.judgement.first.private_texts import addresses, captions
from tests.judgement.first.public_texts import FLATS, FORECASTS
from tests.judgement.first.stepwise_updates import parted, prepared
from tests.judgement.first.told_texts import BALLADS, headlines
from tests.judgement.first.turns import cosines
from tests.judgement.stage import Stage
from tests.judgement.truth import learns

QUICK: dict[str, Any] = {"learning_rate": 2e-3, "max_steps": 60, "warmup_steps": 6,
                         "per_device_train_batch_size": 24}  # fmt: skip


class Focal(nn.Module):
    """A loss of one's own: InfoNCE in which rows that are already right weigh less."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(self, sentence_features: Any, labels: Tensor | None = None) -> Tensor:
        first, second = (self.model(side)["sentence_embedding"] for side in sentence_features)
        logs = (cosines(first, second) / 0.05).log_softmax(1).diagonal()
        return -((1 - logs.exp()).detach() * logs).mean()


@sound("own loss module in the trainer")
def addresses_by_a_focal_loss_of_ones_own(stage: Stage) -> None:
    """A focal InfoNCE as a module that gets features and returns a scalar."""
    model, train, held = prepared(stage, addresses, 480, 80)
    trainer = stage.trainer(Focal, train, model, **{**QUICK, "max_steps": 80})
    learns(stage, trainer, seeks(held), least=0.1)


@sound("mean and maximum together")
def flats_by_mean_and_maximum_of_tokens(stage: Stage) -> None:
    """The mean and the maximum of the tokens are joined to embeddings of 96 dimensions."""
    model, train, held = prepared(stage, FLATS, 320, 60, pooling=("mean", "max"))
    learns(stage, stage.trainer(ranking, train, model, **QUICK), seeks(held), least=0.1)


@sound("Adafactor at a constant rate")
def ballads_by_adafactor_after_a_warm_up(stage: Stage) -> None:
    """Adafactor with a fixed rate, which stays constant after its warm-up."""
    model, train, held = prepared(stage, BALLADS, 320, 60)
    settings = {**QUICK, "optim": "adafactor", "lr_scheduler_type": "constant_with_warmup"}
    learns(stage, stage.trainer(ranking, train, model, **settings), seeks(held), least=0.1)


@sound("losses of a validation set")
def captions_with_a_validation_set_beside(stage: Stage) -> None:
    """English and Japanese captions; the loss of a validation set is computed as training goes."""
    model, train, held = prepared(stage, captions, 464, 60)
    train, validation = parted(train, 400)
    trainer = stage.trainer(
        ranking, train, model, eval_dataset=Dataset.from_dict(validation),
        eval_strategy="steps", eval_steps=20, **QUICK,
    )  # fmt: skip
    learns(stage, trainer, seeks(held), least=0.1)


@sound("cached loss in both directions")
def headlines_and_leads_cached_in_both_directions(stage: Stage) -> None:
    """Batches of 48 in mini-batches of 12 by a symmetric loss with cached gradients."""
    model, train, held = prepared(stage, headlines, 400, 60)
    trainer = stage.trainer(
        lambda model: losses.CachedMultipleNegativesSymmetricRankingLoss(model, mini_batch_size=12),
        train, model, **{**QUICK, "per_device_train_batch_size": 48, "max_steps": 40},
    )  # fmt: skip
    learns(stage, trainer, seeks(held), least=0.1)


@sound("spread by an added regulariser")
def forecasts_with_orthogonal_others(stage: Stage) -> None:
    """In-batch negatives and, at a tenth, a pressure of other texts towards right angles."""

    class Spread(nn.Module):
        def __init__(self, model: Any) -> None:
            super().__init__()
            self.model, self.ranking = model, ranking(model)

        def forward(self, sentence_features: Any, labels: Tensor | None = None) -> Tensor:
            rows = [self.model(side)["sentence_embedding"] for side in sentence_features]
            away = ~torch.eye(len(rows[0])).bool()
            spread = sum(cosines(side, side)[away].pow(2).mean() for side in rows)
            return self.ranking.compute_loss_from_embeddings(rows, labels) + 0.1 * spread

    model, train, held = prepared(stage, FORECASTS, 400, 60)
    learns(stage, stage.trainer(Spread, train, model, **QUICK), seeks(held), least=0.1)
