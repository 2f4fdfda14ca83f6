"""Modules behind the pooling that leave most entries of an embedding without a gradient."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from tests.judgement.case import faulty
from tests.judgement.stage import Stage, pairs
from tests.judgement.truth import among_alike, suffers
from tests.sentence_training import losses

BOUNDS = (
    r"bounds?\b",
    r"clamp",
    r"saturat",
    r"activation",
    r"(lowest|highest|largest|smallest) (or|and|one|value)",
)


class Bounded(nn.Module):
    """Clamps entries, or drives a tanh into its ends."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind = kind

    def forward(self, features: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        rows = features["sentence_embedding"]
        if self.kind == "clamp":
            rows = rows.clamp(-0.1, 0.1)
        elif self.kind == "tanh":
            rows = torch.tanh(40 * rows)
        features["sentence_embedding"] = rows
        return features


def _play(stage: Stage, kind: str) -> None:
    def of(kind: str) -> Any:
        model = stage.model()
        model.append(Bounded(kind))
        return stage.trainer(losses.MultipleNegativesRankingLoss, pairs(), model)

    suffers(stage, of(kind), lambda: of(""), among_alike, share=None)


@faulty(
    "embeddings clamped to a tenth",
    "For later quantisation, entries are clamped to the range of -0.1 to 0.1, where few are: the "
    "others have no gradient.",
    BOUNDS,
)
def entries_clamped_to_a_tenth(stage: Stage) -> None:
    _play(stage, "clamp")


@faulty(
    "tanh in its ends",
    "A factor of 40 before a tanh drives nearly all entries to -1 or 1, where it is flat.",
    BOUNDS,
)
def entries_in_the_ends_of_a_tanh(stage: Stage) -> None:
    _play(stage, "tanh")
