"""Loops of one's own with losses as papers write them, over pairs of texts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.judgement.case import sound
from tests.judgement.first.loop_subjects import (
    BEES,
    BIRDS,
    GEMS,
    JOBS,
    LEDGERS,
    OPERA,
    PATENTS,
    RAILS,
    SKIES,
    TABLES,
    reader,
    seeking,
)
from tests.judgement.first.turns import Rows, cosines, embed, infonce, stepped, turn
from tests.judgement.stage import Stage


def over_pairs(
    stage: Stage,
    subject: Any,
    loss: Callable[..., Tensor],
    *,
    size: int = 24,
    rate: float = 2e-3,
    steps: int = 60,
    weights: Any = (),
    **options: Any,
) -> None:
    """An ordinary loop over the pairs of a subject; ``weights`` of the loss are tuned as well."""
    model = reader(stage, subject, **options)
    rows = Rows(subject.table(216), size)
    optimizer = torch.optim.AdamW([*model.parameters(), *weights], lr=rate)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min(1.0, (step + 1) / 6) * max(0.05, 1 - step / steps)
    )

    def update(criterion: Any, step: int) -> None:
        first, second = (embed(model, column) for column in rows())
        stepped(optimizer, criterion(first, second))
        schedule.step()

    turn(stage, model, loss, update, seeking(subject), steps=steps)


@sound("decoupled contrastive loss, without the positive below the line")
def decoupled_loss_without_its_positive(stage: Stage) -> None:
    """Yeh et al. 2022: the denominator sums over negatives only."""

    def decoupled(first: Tensor, second: Tensor) -> Tensor:
        logits = cosines(first, second) / 0.1
        own = torch.eye(len(logits), dtype=torch.bool)
        return (logits.masked_fill(own, -torch.inf).logsumexp(1) - logits.diagonal()).mean()

    over_pairs(stage, GEMS, decoupled)


@sound("negatives weighed by their hardness")
def negatives_weighed_by_their_hardness(stage: Stage) -> None:
    """Robinson et al. 2021, without the debiasing term."""

    def hardened(first: Tensor, second: Tensor) -> Tensor:
        logits = cosines(first, second) / 0.1
        off_diagonal = ~torch.eye(len(logits), dtype=torch.bool)
        negatives = logits[off_diagonal].view(len(logits), -1)
        hardness = (0.5 * negatives).softmax(1).detach() * negatives.shape[1]
        total = (hardness * negatives.exp()).sum(1)
        own = logits.diagonal()
        return (torch.log(own.exp() + total) - own).mean()

    over_pairs(stage, RAILS, hardened)


class Scaled(nn.Module):
    """CLIP's loss: both directions, with a learned scale that stays below 100."""

    def __init__(self) -> None:
        super().__init__()
        self.log_scale = nn.Parameter(torch.tensor(1 / 0.07).log())

    def forward(self, first: Tensor, second: Tensor) -> Tensor:
        logits = self.log_scale.exp().clamp(max=100) * cosines(first, second)
        own = torch.arange(len(logits))
        return (F.cross_entropy(logits, own) + F.cross_entropy(logits.T, own)) / 2


@sound("both directions with a learned scale")
def clip_loss_with_a_learned_scale(stage: Stage) -> None:
    loss = Scaled()
    over_pairs(stage, TABLES, loss, weights=loss.parameters())


@sound("each of both columns among all other texts")
def views_among_all_other_texts(stage: Stage) -> None:
    """SimCLR's loss, of texts of both columns as the two views."""

    def simclr(first: Tensor, second: Tensor) -> Tensor:
        rows_of_both = torch.cat([first, second])
        logits = cosines(rows_of_both, rows_of_both) / 0.1
        logits = logits.masked_fill(torch.eye(len(rows_of_both), dtype=torch.bool), -torch.inf)
        return F.cross_entropy(logits, torch.arange(len(rows_of_both)).roll(len(first)))

    over_pairs(stage, BIRDS, simclr)


@sound("alignment and uniformity on the sphere")
def alignment_and_uniformity_on_the_sphere(stage: Stage) -> None:
    """Wang and Isola 2020."""

    def spread(first: Tensor, second: Tensor) -> Tensor:
        first, second = F.normalize(first), F.normalize(second)
        uniform = sum(torch.pdist(rows).square().mul(-2).exp().mean().log()
                      for rows in (first, second))  # fmt: skip
        return (first - second).square().sum(1).mean() + uniform / 2

    over_pairs(stage, OPERA, spread)


@sound("variance, invariance and covariance")
def variance_invariance_and_covariance(stage: Stage) -> None:
    """VICReg (Bardes et al. 2022), with an expander that is thrown away."""
    torch.manual_seed(4)
    expander = nn.Sequential(nn.Linear(48, 96), nn.BatchNorm1d(96), nn.ReLU(), nn.Linear(96, 96))

    def penalty(rows: Tensor) -> Tensor:
        spread = F.relu(1 - (rows.var(0) + 1e-4).sqrt()).mean()
        centred = rows - rows.mean(0)
        covariance = centred.T @ centred / (len(rows) - 1)
        apart = covariance - torch.diag(covariance.diagonal())
        return 25 * spread + apart.square().sum() / rows.shape[1]

    def vicreg(first: Tensor, second: Tensor) -> Tensor:
        first, second = expander(first), expander(second)
        return 25 * F.mse_loss(first, second) + penalty(first) + penalty(second)

    over_pairs(stage, SKIES, vicreg, size=54, steps=100, weights=expander.parameters())


@sound("cross-correlation of two views pulled to one on its diagonal")
def correlation_of_views_made_diagonal(stage: Stage) -> None:
    """Barlow Twins (Zbontar et al. 2021)."""

    def twins(first: Tensor, second: Tensor) -> Tensor:
        first, second = ((rows - rows.mean(0)) / (rows.std(0) + 1e-5) for rows in (first, second))
        correlation = first.T @ second / len(first)
        own = correlation.diagonal()
        apart = correlation.square().sum() - own.square().sum()
        return (own - 1).square().sum() + 0.02 * apart

    over_pairs(stage, JOBS, twins, size=36)


class SigmoidPairs(nn.Module):
    """SigLIP's loss with its learned scale and bias."""

    def __init__(self) -> None:
        super().__init__()
        self.log_scale = nn.Parameter(torch.tensor(10.0).log())
        self.bias = nn.Parameter(torch.tensor(-10.0))

    def forward(self, first: Tensor, second: Tensor) -> Tensor:
        logits = self.log_scale.exp() * cosines(first, second) + self.bias
        signs = 2 * torch.eye(len(logits)) - 1
        return -F.logsigmoid(signs * logits).sum(1).mean()


@sound("sigmoid of each pair with a learned scale and bias")
def sigmoid_with_learned_scale_and_bias(stage: Stage) -> None:
    loss = SigmoidPairs()
    over_pairs(stage, PATENTS, loss, steps=100, rate=3e-3, weights=loss.parameters())


@sound("labels of the batch smoothed over the other rows")
def ranking_with_smoothed_labels(stage: Stage) -> None:
    def smoothed(first: Tensor, second: Tensor) -> Tensor:
        own = torch.arange(len(first))
        return F.cross_entropy(cosines(first, second) / 0.07, own, label_smoothing=0.1)

    over_pairs(stage, LEDGERS, smoothed)


@sound("additive margin on the positive, in both directions")
def additive_margin_in_both_directions(stage: Stage) -> None:
    """Yang et al. 2019, as in LaBSE."""

    def margin(first: Tensor, second: Tensor) -> Tensor:
        logits = (cosines(first, second) - 0.2 * torch.eye(len(first))) * 16
        own = torch.arange(len(first))
        return F.cross_entropy(logits, own) + F.cross_entropy(logits.T, own)

    over_pairs(stage, BEES, margin)


@sound("N-pair loss of plain dot products with a penalty on lengths")
def npair_of_dot_products(stage: Stage) -> None:
    """Sohn 2016."""

    def npair(first: Tensor, second: Tensor) -> Tensor:
        lengths = first.square().sum(1).mean() + second.square().sum(1).mean()
        return F.cross_entropy(first @ second.T, torch.arange(len(first))) + 0.002 * lengths

    over_pairs(stage, GEMS, npair)


@sound("nested widths, each with its own ranking loss")
def nested_widths_of_an_embedding(stage: Stage) -> None:
    """Matryoshka by hand: the first 12, 24 and all 48 numbers."""

    def nested(first: Tensor, second: Tensor) -> Tensor:
        return sum(infonce(first[:, :width], second[:, :width]) for width in (12, 24, 48)) / 3

    over_pairs(stage, TABLES, nested)


@sound("hinge on the hardest other text of the batch")
def hinge_on_the_hardest_of_the_batch(stage: Stage) -> None:
    """VSE++ (Faghri et al. 2018) after some epochs of the sum, as its authors train."""
    model = reader(stage, OPERA)
    rows, steps = Rows(OPERA.table(216), 24), 70
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    progress = {"step": 0}

    def hinge(first: Tensor, second: Tensor) -> Tensor:
        likeness = cosines(first, second)
        own = likeness.diagonal()
        apart = likeness - torch.eye(len(likeness)) * 4
        gaps = [F.relu(0.2 + apart - own[:, None]), F.relu(0.2 + apart - own)]
        if progress["step"] < 35:
            return gaps[0].sum(1).mean() + gaps[1].sum(0).mean()
        return gaps[0].amax(1).mean() + gaps[1].amax(0).mean()

    def update(criterion: Any, step: int) -> None:
        progress["step"] = step
        first, second = (embed(model, column) for column in rows())
        stepped(optimizer, criterion(first, second))

    turn(stage, model, hinge, update, seeking(OPERA), steps=steps)
