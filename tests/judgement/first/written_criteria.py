"""Criteria written by hand for loops: signs, temperatures, labels, masks and axes."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from tests.judgement.case import REPORT, faulty
from tests.judgement.first.beside import UNRELATED, losses_beside
from tests.judgement.first.fault_subjects import (
    BANK,
    FLATS,
    JOBS,
    MATCHES,
    MUSEUM,
    NO_NEGATIVES,
    PLANTS,
    reader,
    rolled,
    sought_of,
)
from tests.judgement.first.fields import KITCHEN, SHOP, TRAVEL, Field
from tests.judgement.first.turns import cosines, infonce
from tests.judgement.stage import Stage

LOOP = {"tools": (REPORT,)}
WRONG_LABELS = (
    *UNRELATED,
    r"(?i)labels?|targets?|diagonal|\bindex|first (row|passage|candidate)",
)
AWAY = (
    r"(?i)(\bsigns?\b|revers|invert|opposite|maximi[sz]|minus|upside|swap|flip)",
    r"(?i)(positives?|pairs?|partners?).{0,80}(apart|away|farther|further|drift|less (alike|"
    r"similar)|fall|fell|drop|decreas|lower)",
)
FLAT = (r"(?i)temperature|\bscale|logits?|flat|near(ly)? uniform|sharp|softmax|soft\b",)


def beside(
    stage: Stage, field: Field, wrong: Callable[..., Tensor], right: Callable[..., Tensor],
    table: Mapping[str, Sequence[Any]] | None = None, **options: Any,
) -> None:  # fmt: skip
    """Play a loop over a field with a wrong criterion beside the right one."""
    losses_beside(
        stage, wrong, right, sought_of(field), table=table or field.table(160),
        encoder=lambda: reader(stage, field), **options,
    )  # fmt: skip


@faulty(
    "labels that are all zero",
    "The targets of the cross-entropy are zeros and not the places of the partners: every anchor "
    "is drawn to the first passage of the batch.",
    WRONG_LABELS,
    **LOOP,
)
def targets_all_zero(stage: Stage) -> None:
    """`torch.zeros(len(logits))`, right only where the positive is the first of its own list."""

    def zeros(first: Tensor, second: Tensor) -> Tensor:
        return F.cross_entropy(20 * cosines(first, second), torch.zeros(len(first)).long())

    beside(stage, SHOP, zeros, infonce)


@faulty(
    "minus sign forgotten",
    "The mean cosine of the pairs is minimised, for the minus before it is missing.",
    AWAY,
    **LOOP,
)
def cosine_minimised_instead(stage: Stage) -> None:
    """`loss = F.cosine_similarity(a, b).mean()` with a term that spreads the texts."""

    def spread(rows: Tensor) -> Tensor:
        return torch.pdist(F.normalize(rows, dim=1)).square().mul(-2).exp().mean().log()

    def of_sign(sign: int) -> Callable[..., Tensor]:
        def loss(first: Tensor, second: Tensor) -> Tensor:
            return sign * 2 * F.cosine_similarity(first, second).mean() + spread(second)

        return loss

    beside(stage, PLANTS, of_sign(1), of_sign(-1))


@faulty(
    "normalised over the batch",
    "Embeddings are normalised along the batch and not along their own length.",
    [
        r"(?i)normali[sz]|norms?\b|unit length|axis|dim\b|dot product",
    ],
    **LOOP,
)
def normalised_over_the_batch(stage: Stage) -> None:
    """`F.normalize(embeddings, dim=0)`."""

    def wrong(first: Tensor, second: Tensor) -> Tensor:
        logits = F.normalize(first, dim=0) @ F.normalize(second, dim=0).T
        return F.cross_entropy(logits / 0.05, torch.arange(len(first)))

    beside(stage, JOBS, wrong, infonce, rate=5e-4, steps=40)


@faulty(
    "positive masked with the self-similarities",
    "The diagonal is filled with minus infinity as among copies of the same rows, but here it "
    "holds the positives: nothing draws a pair together.",
    [
        r"(?i)mask|diagonal|-? ?inf|1e9|huge|very (large|high)",
        r"(?i)(positives?|partners?|pairs?).{0,80}(no (gradient|pull|part)|not (drawn|pulled|used)|"
        r"missing|removed|ignored|never|excluded|no closer|not closer|apart)",
        *WRONG_LABELS,
    ],
    **LOOP,
)
def diagonal_masked_between_two_views(stage: Stage) -> None:
    """The mask of SimCLR on a matrix of anchors by positives."""

    def wrong(first: Tensor, second: Tensor) -> Tensor:
        logits = 20 * cosines(first, second)
        logits = logits.masked_fill(torch.eye(len(logits), dtype=torch.bool), -1e4)
        return F.cross_entropy(logits, torch.arange(len(logits)))

    beside(stage, FLATS, wrong, infonce)


@faulty(
    "triplet hinge with similarities as distances",
    "The hinge of a triplet is written for distances and is fed cosines: the negative is drawn "
    "near and the positive pushed away.",
    [*AWAY, r"(?i)negatives?.{0,80}(closer|more (alike|similar)|nearer|higher)"],
    **LOOP,
)
def hinge_of_cosines_as_distances(stage: Stage) -> None:
    """`relu(cos(a, p) - cos(a, n) + margin)`."""

    def of_sign(sign: int) -> Callable[..., Tensor]:
        def hinge(anchor: Tensor, positive: Tensor, negative: Tensor) -> Tensor:
            gap = F.cosine_similarity(anchor, positive) - F.cosine_similarity(anchor, negative)
            return F.relu(sign * gap + 0.5).mean()

        return hinge

    table = MUSEUM.table(160)
    columns = table | {"negative": rolled(table["card"], 40)}
    beside(stage, MUSEUM, of_sign(1), of_sign(-1), columns, rate=2e-3)


@faulty(
    "negatives before positives among the candidates",
    "The candidates are the negatives followed by the positives, and the labels count from the "
    "first: each anchor is drawn to its negative.",
    [
        *WRONG_LABELS,
        r"(?i)negatives?.{0,80}(closer|more (alike|similar)|nearer|higher)",
        r"(?i)order of (the )?candidates|candidates?.{0,40}order",
    ],
    **LOOP,
)
def negatives_first_among_candidates(stage: Stage) -> None:
    """`torch.cat([negatives, positives])` with labels from arange."""
    table = KITCHEN.table(160)
    columns = table | {"negative": rolled(table["positive"], 63)}

    def wrong(anchor: Tensor, positive: Tensor, negative: Tensor) -> Tensor:
        return infonce(anchor, torch.cat([negative, positive]))

    def right(anchor: Tensor, positive: Tensor, negative: Tensor) -> Tensor:
        return infonce(anchor, torch.cat([positive, negative]))

    beside(stage, KITCHEN, wrong, right, columns)


@faulty(
    "logarithm of the temperature as the scale",
    "The learned scale is kept as a logarithm and the exponential was left out: cosines are "
    "multiplied by the logarithm of 0.07, which is negative.",
    [*AWAY, *FLAT],
    **LOOP,
)
def scale_without_its_exponential(stage: Stage) -> None:
    """`logits = log_temperature * cosines`, after CLIP's `logit_scale`."""
    log_scale = math.log(0.07)

    def wrong(first: Tensor, second: Tensor) -> Tensor:
        return F.cross_entropy(log_scale * cosines(first, second), torch.arange(len(first)))

    def right(first: Tensor, second: Tensor) -> Tensor:
        logits = math.exp(-log_scale) * cosines(first, second)
        return F.cross_entropy(logits, torch.arange(len(first)))

    beside(stage, TRAVEL, wrong, right)


@faulty(
    "only pairs drawn together",
    "The loss is one minus the cosine of the pairs and nothing else: all texts go to one point.",
    NO_NEGATIVES,
    **LOOP,
)
def pairs_drawn_together_and_nothing_else(stage: Stage) -> None:
    """`(1 - F.cosine_similarity(a, b)).mean()` on positives alone."""

    def wrong(first: Tensor, second: Tensor) -> Tensor:
        return (1 - F.cosine_similarity(first, second)).mean()

    beside(stage, MATCHES, wrong, infonce)


@faulty(
    "views folded along the wrong axis",
    "Both views were embedded in one call, one after the other, and reshaped as if they stood in "
    "turn: neighbouring anchors are taken for pairs.",
    [*UNRELATED, r"(?i)reshap|\.view|wrong axis|fold|interleav"],
    **LOOP,
)
def views_folded_along_the_wrong_axis(stage: Stage) -> None:
    """`torch.cat([a, b]).view(n, 2, d)` where `view(2, n, d)` is right."""

    def wrong(first: Tensor, second: Tensor) -> Tensor:
        rows = torch.cat([first, second]).view(len(first), 2, -1)
        return infonce(rows[:, 0], rows[:, 1])

    beside(stage, BANK, wrong, infonce)
