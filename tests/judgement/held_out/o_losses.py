"""Losses written by hand for loops of one's own: axes, signs, masks, labels."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.judgement.case import REPORT, faulty
from tests.judgement.first.turns import cosines, infonce
from tests.judgement.held_out.o_fields import (
    APART,
    BAKERY,
    CHESS,
    CLAIMS,
    COLLAPSE,
    GARDEN,
    HARBOUR,
    STATION,
    TEMPERATURE,
    held_beside,
)
from tests.judgement.stage import Stage

LOOP = (REPORT,)


@faulty(
    "targets all zero",
    "The labels of the cross-entropy are zeros, as if the positive were the first candidate of "
    "each row, while candidates are the positives of the batch: all anchors are drawn to the "
    "first row's positive.",
    [*APART, *COLLAPSE, r"(?i)(labels?|targets?|first (row|candidate|positive|column)|zeros?\b)"],
    tools=LOOP,
)
def zeros_for_the_labels_of_a_batch(stage: Stage) -> None:
    """Common: `labels = torch.zeros(len(logits))`, as of MoCo, on a matrix of the batch."""

    def zeros(first: Tensor, second: Tensor) -> Tensor:
        return F.cross_entropy(cosines(first, second) / 0.05, torch.zeros(len(first)).long())

    held_beside(stage, STATION, zeros, infonce)


@faulty(
    "sign of the loss",
    "The minus before the log of the positives' share is missing: training makes the positives "
    "the least likely candidates.",
    [
        r"(?i)\bsign\b|minus|negat(ed|ive sign|ion)|revers|maximi[sz]|wrong (direction|way)|ascen",
        r"(?i)positives?.{0,80}(push|apart|away|farther|below|lower|less (alike|similar)|fall|fell|"
        r"drop|worse|repel|last)",
        r"(?i)(loss|criterion).{0,60}(negative|below (zero|0)|unbounded)",
        *APART,
    ],
    tools=LOOP,
)
def log_shares_without_their_minus(stage: Stage) -> None:
    """Common where the loss is written out: `log_softmax(...).diag().mean()`."""

    def risen(first: Tensor, second: Tensor) -> Tensor:
        return (cosines(first, second) / 0.1).log_softmax(1).diag().mean()

    def fallen(first: Tensor, second: Tensor) -> Tensor:
        return -risen(first, second)

    held_beside(stage, CHESS, risen, fallen, width=64)


@faulty(
    "normalisation over the batch",
    "Embeddings are normalised along the batch and not along their dimensions: no row has length "
    "1, and the products are no cosines.",
    [
        r"(?i)normali[sz]|\b(axis|dim)\b|unit length|cosines?|norms?\b|lengths?",
        *TEMPERATURE,
    ],
    tools=LOOP,
)
def rows_normalised_along_the_batch(stage: Stage) -> None:
    """Everyday: `F.normalize(embeddings, dim=0)`."""

    def askew(first: Tensor, second: Tensor) -> Tensor:
        logits = F.normalize(first, dim=0) @ F.normalize(second, dim=0).T
        return F.cross_entropy(logits / 0.5, torch.arange(len(first)))

    held_beside(stage, CLAIMS, askew, infonce, rate=1e-3, steps=40)


@faulty(
    "distance taken for a similarity",
    "Euclidean distances are the logits of the cross-entropy, with a plus sign: each anchor is "
    "driven as far as can be from its positive.",
    [
        r"(?i)distance|\bsign\b|minus|negat(ed|ive sign|ion)|revers|maximi[sz]|wrong way",
        r"(?i)positives?.{0,80}(push|apart|away|farther|below|lower|less (alike|similar)|fall|fell|"
        r"drop|worse|repel|last)",
        *APART,
    ],
    tools=LOOP,
)
def distances_as_logits_of_a_softmax(stage: Stage) -> None:
    """Common: `torch.cdist` for the matrix of scores, without a minus."""

    def away(sign: float) -> nn.Module:
        class Distances(nn.Module):
            def forward(self, first: Tensor, second: Tensor) -> Tensor:
                logits = sign * torch.cdist(first, second)
                return F.cross_entropy(logits, torch.arange(len(first)))

        return Distances()

    held_beside(stage, BAKERY, away(1.0), away(-1.0))


@faulty(
    "pairs scrambled by a reshape",
    "Anchors and positives lie one after the other in one tensor, which is reshaped to pairs as "
    "if they alternated: each row is paired with its neighbour and not with its positive.",
    [*APART, r"(?i)reshap|\bview\b|transpos|stack|interleav|neighbou?r"],
    tools=LOOP,
)
def halves_reshaped_as_if_they_alternated(stage: Stage) -> None:
    """Common: `torch.cat([a, p]).view(n, 2, -1)` where `view(2, n, -1)` is meant."""

    def reshaped(alternating: bool) -> nn.Module:
        class Reshaped(nn.Module):
            def forward(self, first: Tensor, second: Tensor) -> Tensor:
                rows = torch.cat([first, second])
                if alternating:
                    return infonce(*rows.view(len(first), 2, -1).unbind(1))
                return infonce(*rows.view(2, len(first), -1).unbind(0))

        return Reshaped()

    held_beside(stage, HARBOUR, reshaped(True), reshaped(False), width=32, layers=3)


@faulty(
    "partners sought in another layout of the batch",
    "Labels say that partners alternate in the batch, while all anchors stand before all "
    "positives: the partner of each row is a row of another text.",
    [*APART, r"(?i)layout|interleav|alternat|neighbou?r|order"],
    tools=LOOP,
)
def labels_of_alternating_rows_for_two_halves(stage: Stage) -> None:
    """Common in SimCLR by hand: one data loader alternates views, the next puts them in halves."""

    def crossed(alternating: bool) -> Callable[[Tensor, Tensor], Tensor]:
        def loss(first: Tensor, second: Tensor) -> Tensor:
            rows, count = torch.cat([first, second]), len(first)
            logits = (cosines(rows, rows) / 0.1).masked_fill(torch.eye(2 * count) > 0, -1e9)
            places = torch.arange(2 * count)
            return F.cross_entropy(logits, places ^ 1 if alternating else places.roll(count))

        return loss

    held_beside(stage, GARDEN, crossed(True), crossed(False), rate=1e-3)


@faulty(
    "cosine taken for a distance",
    "The triplet loss is written for distances and handed cosines: it asks that the positive be "
    "less alike than the negative.",
    [
        r"(?i)distance|\bsign\b|minus|revers|swap|exchang|wrong (direction|way|order)|invert",
        r"(?i)positives?.{0,80}(push|apart|away|farther|below|lower|less (alike|similar)|fall|fell|"
        r"drop|worse|repel)",
        r"(?i)negatives?.{0,80}(pull|drawn|closer|nearer|above|higher|more (alike|similar)|rise)",
        *APART,
    ],
    tools=LOOP,
)
def triplet_of_cosines_as_if_of_distances(stage: Stage) -> None:
    """Everyday: `relu(cos(a, p) - cos(a, n) + margin)`."""

    def triplet(sign: float) -> Callable[[Tensor, Tensor], Tensor]:
        def loss(first: Tensor, second: Tensor) -> Tensor:
            near, far = (F.cosine_similarity(first, rows) for rows in (second, second.roll(1, 0)))
            return F.relu(sign * (near - far) + 0.5).mean()

        return loss

    held_beside(stage, CLAIMS, triplet(1.0), triplet(-1.0), steps=80)
