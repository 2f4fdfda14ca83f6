"""Sound loops of one's own: losses written by hand."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from tests.judgement.case import sound
from tests.judgement.first.fields_of_scripts_and_signs import (
    CHEMISTRY,
    JOBS,
    MAILS,
    MATCHES,
    METERS,
    RHYMES,
    SCRIPTS,
    SHELL,
    SHELVES,
    agrees,
    by_class,
    encoder_of,
    neighbours,
    pairs_of,
    seeks,
    triplets_of,
)
from tests.judgement.first.turns import Rows, cosines, embed, stepped, turn, warmed
from tests.judgement.stage import Stage

Update = Callable[[Any, int], None]


def step_of(
    model: Any, table: Mapping[str, Sequence[Any]], optimizer: Any, size: int = 24,
) -> Update:  # fmt: skip
    """A step that embeds the columns of texts, and hands on columns of numbers as tensors."""
    rows = Rows(table, size)

    def update(criterion: Any, step: int) -> None:
        cells = [
            embed(model, column) if isinstance(column[0], str) else torch.tensor(column)
            for column in rows()
        ]
        stepped(optimizer, criterion(*cells))

    return update


def adam(model: Any, rate: float = 2e-3, *extra: Any) -> torch.optim.Optimizer:
    return torch.optim.AdamW([*model.parameters(), *extra], lr=rate)


@sound("sigmoid over all pairs with a learned scale and bias")
def sigmoid_scale_and_bias_are_learned(stage: Stage) -> None:
    model = encoder_of(stage, CHEMISTRY)
    scale = torch.nn.Parameter(torch.tensor(10.0).log())
    bias = torch.nn.Parameter(torch.tensor(-6.0))
    optimizer = torch.optim.AdamW(
        [{"params": model.parameters()}, {"params": [scale, bias], "weight_decay": 0.0}], lr=2e-3
    )

    def sigmoid(names: Tensor, formulas: Tensor) -> Tensor:
        logits = scale.exp() * cosines(names, formulas) + bias
        signs = 2 * torch.eye(len(logits)) - 1
        return -F.logsigmoid(signs * logits).sum(1).mean()

    update = step_of(model, pairs_of(CHEMISTRY, 320), optimizer, 32)
    turn(stage, model, sigmoid, update, seeks(CHEMISTRY), steps=110)


def supervised_contrast(rows: Tensor, labels: Tensor) -> Tensor:
    """The loss of Khosla et al.: every text of a class is a positive of every other of it."""
    logits = cosines(rows, rows) / 0.1
    itself = torch.eye(len(rows), dtype=torch.bool)
    logits = logits.masked_fill(itself, -1e4)
    alike = (labels[:, None] == labels[None]) & ~itself
    chances = F.log_softmax(logits, 1)
    means = (chances * alike).sum(1) / alike.sum(1).clamp(min=1)
    return -means[alike.any(1)].mean()


@sound("supervised contrast of classes")
def contrast_of_teams_by_their_name(stage: Stage) -> None:
    model = encoder_of(stage, MATCHES)
    update = step_of(model, by_class(MATCHES, 400, slots=(1,)), adam(model), 40)
    score = neighbours(by_class(MATCHES, 100, seed=11, slots=(1,)))
    turn(stage, model, supervised_contrast, update, score, steps=50)


@sound("hardest negative of the batch with a margin")
def hardest_stranger_of_the_batch(stage: Stage) -> None:
    """As in VSE++, after a start with all negatives."""

    def hardest(spoken: Tensor, lines: Tensor) -> Tensor:
        table = cosines(spoken, lines)
        own = table.diagonal()
        strangers = table - 3 * torch.eye(len(table))
        gaps = F.relu(0.2 + strangers.amax(1) - own) + F.relu(0.2 + strangers.amax(0) - own)
        return gaps.mean()

    table = pairs_of(METERS, 320)
    model = warmed(encoder_of(stage, METERS), table, 5)
    turn(stage, model, hardest, step_of(model, table, adam(model)), seeks(METERS), steps=60)


@sound("decoupled contrast")
def positive_outside_of_the_denominator(stage: Stage) -> None:
    def decoupled(lines: Tensor, songs: Tensor) -> Tensor:
        logits = cosines(lines, songs) / 0.07
        strangers = logits.masked_fill(torch.eye(len(logits), dtype=torch.bool), -1e4)
        return (strangers.logsumexp(1) - logits.diagonal()).mean()

    model = encoder_of(stage, RHYMES)
    update = step_of(model, pairs_of(RHYMES, 320), adam(model))
    turn(stage, model, decoupled, update, seeks(RHYMES), steps=60)


@sound("variance, invariance and covariance")
def covariance_of_columns_is_held_low(stage: Stage) -> None:
    """VICReg over two wordings of a row: no negatives at all."""

    def spread(rows: Tensor) -> tuple[Tensor, Tensor]:
        centred = rows - rows.mean(0)
        covariance = centred.T @ centred / (len(rows) - 1)
        off = covariance - torch.diag(covariance.diagonal())
        hinge = F.relu(1 - (centred.var(0) + 1e-4).sqrt()).mean()
        return hinge, off.pow(2).sum() / rows.shape[1]

    def vicreg(first: Tensor, second: Tensor) -> Tensor:
        (hinge, off), (second_hinge, second_off) = spread(first), spread(second)
        return 25 * F.mse_loss(first, second) + 25 * (hinge + second_hinge) + off + second_off

    model = encoder_of(stage, SCRIPTS)
    update = step_of(model, pairs_of(SCRIPTS, 384), adam(model), 64)
    turn(stage, model, vicreg, update, seeks(SCRIPTS), steps=70)


@sound("cross-correlation of two wordings")
def twins_of_shelf_marks(stage: Stage) -> None:
    """Barlow twins: the correlation matrix of the columns should be the identity."""

    def barlow(first: Tensor, second: Tensor) -> Tensor:
        first, second = ((rows - rows.mean(0)) / (rows.std(0) + 1e-5) for rows in (first, second))
        matrix = first.T @ second / len(first)
        off = matrix - torch.diag(matrix.diagonal())
        return (1 - matrix.diagonal()).pow(2).sum() + 0.02 * off.pow(2).sum()

    model = encoder_of(stage, SHELVES, width=32)
    update = step_of(model, pairs_of(SHELVES, 384), adam(model), 64)
    turn(stage, model, barlow, update, seeks(SHELVES), steps=70)


@sound("order of graded pairs, pair by pair")
def logistic_order_of_graded_mails(stage: Stage) -> None:
    """RankNet: of two pairs, that of the higher grade should have the higher cosine."""

    def ranknet(first: Tensor, second: Tensor, grades: Tensor) -> Tensor:
        likeness = 10 * F.cosine_similarity(first, second)
        gaps, higher = likeness[:, None] - likeness[None], grades[:, None] > grades[None]
        return F.softplus(-gaps)[higher].mean()

    model = encoder_of(stage, MAILS)
    update = step_of(model, MAILS.graded(360), adam(model), 32)
    turn(stage, model, ranknet, update, agrees(MAILS), steps=100)


@sound("correlation of cosines and grades")
def correlation_with_grades_is_the_loss(stage: Stage) -> None:
    def pearson(first: Tensor, second: Tensor, grades: Tensor) -> Tensor:
        likeness = F.cosine_similarity(first, second)
        likeness, grades = likeness - likeness.mean(), grades - grades.mean()
        return 1 - F.cosine_similarity(likeness, grades, dim=0)

    model = encoder_of(stage, CHEMISTRY)
    update = step_of(model, CHEMISTRY.graded(384), adam(model), 64)
    turn(stage, model, pearson, update, agrees(CHEMISTRY), steps=70)


@sound("softmax over in-batch passages and one's own hard negative")
def own_hard_negative_beside_the_batch(stage: Stage) -> None:
    def hard(wishes: Tensor, commands: Tensor, lookalikes: Tensor) -> Tensor:
        logits = torch.cat([cosines(wishes, commands), cosines(wishes, lookalikes)], 1) / 0.06
        return F.cross_entropy(logits, torch.arange(len(wishes)))

    model = encoder_of(stage, SHELL)
    update = step_of(model, triplets_of(SHELL, 300, slot=1), adam(model), 20)
    turn(stage, model, hard, update, seeks(SHELL), steps=60)


@sound("both directions with label smoothing")
def smoothed_ranking_in_two_directions(stage: Stage) -> None:
    def smoothed(first: Tensor, second: Tensor) -> Tensor:
        logits, own = cosines(first, second) / 0.07, torch.arange(len(first))
        return (
            F.cross_entropy(logits, own, label_smoothing=0.05)
            + F.cross_entropy(logits.T, own, label_smoothing=0.05)
        ) / 2

    model = encoder_of(stage, JOBS, pooling="max")
    update = step_of(model, pairs_of(JOBS, 320), adam(model), 28)
    turn(stage, model, smoothed, update, seeks(JOBS), steps=60)
