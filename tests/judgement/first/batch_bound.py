"""Embeddings that are not those of training: other statistics of the batch, dropout in use."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from tests.judgement.case import faulty
from tests.judgement.stage import Stage, pairs
from tests.judgement.truth import reciprocal_rank, suffers
from tests.sentence_training import losses

ranking = losses.MultipleNegativesRankingLoss
DROPPED = (
    r"dropout", r"(train|eval)\w* mode", r"random", r"(each|every) (time|call)", r"determinis",
    r"(same|one) text.{0,80}(differ|another|other|twice|chang|not the same)", r"stochastic",
    r"(twice|again|repeat).{0,60}(differ|another|other|not the same)", r"noise|noisy",
)  # fmt: skip
CENTRED = (
    r"depend.{0,60}(batch|other texts|other rows)", r"batch.{0,80}(depend|chang|differ)",
    r"(alone|by itself|on its own|singly|one text|one at a time)", r"other (texts|rows)",
    r"cent(er|re|ring|ering)", r"(batch|mean).{0,40}(statistic|subtract|norm)", r"batch.?norm",
    r"(train|eval)\w* mode",
)  # fmt: skip


def _singly(model: Any, together: int = 1) -> float:
    """The reciprocal rank with questions that come one by one, as in a service."""
    table = pairs(60, seed=11)
    columns = zip(table.values(), (1, together), strict=True)
    return reciprocal_rank(*(
        model.encode(texts, batch_size=size, show_progress_bar=False) for texts, size in columns
    ))  # fmt: skip


class PerBatch(nn.Module):
    """Batch normalisation of embeddings that keeps no running statistics."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(32, affine=False, momentum=1e-5)

    def forward(self, features: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        features["sentence_embedding"] = self.norm(features["sentence_embedding"])
        return features


@faulty(
    "batch norm whose running statistics hardly move",
    "Embeddings pass a batch norm with momentum 0.00001: training divides them by the statistics "
    "of the batch, use by those of the start, which are others.",
    (*CENTRED, r"running", r"momentum", r"(evaluation|eval|use|inference).{0,60}(differ|other)"),
)
def batch_norm_with_a_tiny_momentum(stage: Stage) -> None:
    def of(momentum: float) -> Any:
        model = stage.model()
        with torch.no_grad():  # a few large dimensions, as encoders have them
            model[0].auto_model.encoder.layer[-1].output.LayerNorm.weight[:3] *= 30
        module = PerBatch()
        module.norm.momentum = momentum
        model.append(module)
        return stage.trainer(ranking, pairs(), model)

    suffers(stage, of(1e-5), lambda: of(0.1), _singly)


class Dropped(nn.Module):
    """Dropout of embeddings, in training only or by the default of the function."""

    def __init__(self, is_default: bool) -> None:
        super().__init__()
        self.is_default = is_default

    def forward(self, features: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        is_on = self.is_default or self.training
        rows = nn.functional.dropout(features["sentence_embedding"], 0.3, training=is_on)
        features["sentence_embedding"] = rows
        return features


@faulty(
    "dropout of embeddings that stays on in use",
    "A module calls F.dropout without training=self.training: also in use each call zeroes other "
    "numbers of the embedding, and a text has another one each time.",
    DROPPED,
)
def dropout_that_stays_on(stage: Stage) -> None:
    def of(is_default: bool) -> Any:
        model = stage.model()
        model.append(Dropped(is_default))
        return stage.trainer(ranking, pairs(), model)

    suffers(stage, of(True), lambda: of(False), share=None)
