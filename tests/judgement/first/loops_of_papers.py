"""Sound loops of one's own: contrastive losses as papers define them."""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.judgement.case import sound
from tests.judgement.first.fields import CODE, HELPDESK, KITCHEN, PAPERS, TRAVEL
from tests.judgement.first.good_fields import LOGS, SONGS
from tests.judgement.first.notebook_fields import (
    BIRDS,
    GARDEN,
    STATIONS,
    encoder_of,
    two,
    with_near,
)
from tests.judgement.first.turns import Rows, cosines, counted, embed, infonce, stepped, turn
from tests.judgement.stage import Stage


def adamw(*modules: nn.Module, rate: float = 2e-3) -> torch.optim.Optimizer:
    return torch.optim.AdamW(
        [weight for module in modules for weight in module.parameters()], lr=rate
    )


class Scaled(nn.Module):
    """CLIP's loss: both directions, with a scale that is learned by its logarithm."""

    def __init__(self) -> None:
        super().__init__()
        self.log_scale = nn.Parameter(torch.tensor(math.log(1 / 0.07)))

    def forward(self, first: Tensor, second: Tensor) -> Tensor:
        logits = self.log_scale.clamp(max=math.log(100)).exp() * cosines(first, second)
        labels = torch.arange(len(logits))
        return (F.cross_entropy(logits, labels) + F.cross_entropy(logits.T, labels)) / 2


@sound("scale learned by its logarithm, in both directions")
def clip_loss_of_translations(stage: Stage) -> None:
    model, loss, rows = encoder_of(stage, TRAVEL), Scaled(), Rows(two(TRAVEL, 320), 32)
    optimizer = adamw(model, loss)

    def update(criterion: Any, _: int) -> None:
        stepped(optimizer, criterion(*(embed(model, column) for column in rows())))

    turn(stage, model, loss, update, TRAVEL.sought)


def decoupled(first: Tensor, second: Tensor) -> Tensor:
    """Contrast whose denominator leaves out the positive."""
    logits = cosines(first, second) / 0.1
    negatives = logits.masked_fill(torch.eye(len(logits), dtype=torch.bool), -torch.inf)
    return (negatives.logsumexp(1) - logits.diagonal()).mean()


@sound("contrast whose denominator leaves out the positive")
def decoupled_contrast_of_birds(stage: Stage) -> None:
    model, rows = encoder_of(stage, BIRDS), Rows(two(BIRDS, 320), 24)
    optimizer = adamw(model)

    def update(criterion: Any, _: int) -> None:
        stepped(optimizer, criterion(*(embed(model, column) for column in rows())))

    turn(stage, model, decoupled, update, BIRDS.sought)


def circle(first: Tensor, second: Tensor) -> Tensor:
    """Circle loss of cosines with a relaxation of 0.25 and a scale of 16."""
    values = cosines(first, second)
    own = torch.eye(len(values), dtype=torch.bool)
    pull = F.relu(1.25 - values.diagonal()).detach() * (0.75 - values.diagonal())
    push = F.relu(values + 0.25).detach() * (values - 0.25)
    push = push.masked_fill(own, -torch.inf)
    return F.softplus((16 * push).logsumexp(1) + 16 * pull).mean()


@sound("circle loss within the batch")
def circle_loss_of_stations(stage: Stage) -> None:
    model, rows = encoder_of(stage, STATIONS), Rows(two(STATIONS, 256), 32)
    optimizer = adamw(model)

    def update(criterion: Any, _: int) -> None:
        stepped(optimizer, criterion(*(embed(model, column) for column in rows())))

    turn(stage, model, circle, update, STATIONS.sought, steps=60)


def varied(first: Tensor, second: Tensor) -> Tensor:
    """VICReg: invariance, variance and covariance."""
    invariance, terms = F.mse_loss(first, second), []
    for rows in (first, second):
        centred = rows - rows.mean(0)
        spread = F.relu(1 - (centred.var(0) + 1e-4).sqrt()).mean()
        covariance = centred.T @ centred / (len(rows) - 1)
        off = covariance - torch.diag(covariance.diagonal())
        terms.append(25 * spread + off.square().sum() / rows.shape[1])
    return 25 * invariance + sum(terms)


@sound("invariance, variance and covariance without negatives")
def variance_and_covariance_of_songs(stage: Stage) -> None:
    model, rows = encoder_of(stage, SONGS, dropout=0.0), Rows(two(SONGS, 320), 64)
    optimizer = adamw(model)

    def update(criterion: Any, _: int) -> None:
        stepped(optimizer, criterion(*(embed(model, column) for column in rows())))

    turn(stage, model, varied, update, SONGS.sought, steps=60)


def decorrelated(first: Tensor, second: Tensor) -> Tensor:
    """Barlow Twins: the correlation of the two views' dimensions nears the unit matrix."""
    first, second = ((rows - rows.mean(0)) / (rows.std(0) + 1e-5) for rows in (first, second))
    correlation = first.T @ second / len(first)
    diagonal = correlation.diagonal()
    off = correlation.square().sum() - diagonal.square().sum()
    return (1 - diagonal).square().sum() + 0.02 * off


@sound("dimensions of two columns that are to correlate one by one")
def twin_columns_of_gardeners(stage: Stage) -> None:
    model, rows = encoder_of(stage, GARDEN), Rows(two(GARDEN, 384), 64)
    optimizer = adamw(model)

    def update(criterion: Any, _: int) -> None:
        stepped(optimizer, criterion(*(embed(model, column) for column in rows())))

    turn(stage, model, decorrelated, update, GARDEN.sought, steps=60)


def with_hard_negatives(first: Tensor, second: Tensor, third: Tensor) -> Tensor:
    """InfoNCE among the positives and hard negatives of all rows."""
    logits = cosines(first, torch.cat([second, third])) / 0.05
    return F.cross_entropy(logits, torch.arange(len(first)))


@sound("loop with hard negatives of all rows and decay for matrices alone")
def songs_with_hard_negatives_of_all_rows(stage: Stage) -> None:
    columns = list(with_near(SONGS, 320, 1).values())
    # A hard negative that is another row's positive would be a false one in their batch.
    places = [at for at, text in enumerate(columns[2]) if text not in columns[1]]
    table = {str(number): [column[at] for at in places] for number, column in enumerate(columns)}
    model, rows = encoder_of(stage, SONGS), Rows(table, 16)
    matrices = [weight for weight in model.parameters() if weight.ndim > 1]
    vectors = [weight for weight in model.parameters() if weight.ndim < 2]
    optimizer = torch.optim.AdamW(
        [{"params": matrices, "weight_decay": 0.01}, {"params": vectors, "weight_decay": 0.0}],
        lr=2e-3,
    )

    def update(criterion: Any, _: int) -> None:
        stepped(optimizer, criterion(*(embed(model, column) for column in rows())))

    turn(stage, model, with_hard_negatives, update, SONGS.sought)


def aligned_and_uniform(first: Tensor, second: Tensor) -> Tensor:
    """Squared distances of pairs, and the mean Gaussian potential of each column."""
    first, second = F.normalize(first), F.normalize(second)
    alignment = (first - second).square().sum(1).mean()
    potentials = [torch.pdist(rows).square().mul(-2).exp().mean().log() for rows in (first, second)]
    return alignment + sum(potentials) / 2


@sound("alignment and uniformity on the sphere")
def helpdesk_aligned_and_uniform(stage: Stage) -> None:
    model, rows = encoder_of(stage, HELPDESK), Rows(two(HELPDESK, 256), 32)
    optimizer = adamw(model)

    def update(criterion: Any, _: int) -> None:
        stepped(optimizer, criterion(*(embed(model, column) for column in rows())))

    turn(stage, model, aligned_and_uniform, update, HELPDESK.sought)


@sound("two passes of dropout over each text, beside its pair")
def functions_with_views_by_dropout(stage: Stage) -> None:
    """Half of the loss contrasts a text with itself under another dropout, as SimCSE does."""
    model, rows = encoder_of(stage, CODE), Rows(two(CODE, 200), 24)
    optimizer = adamw(model)

    def update(criterion: Any, step: int) -> None:
        counted(criterion, step)
        first, second = rows()
        views = criterion(embed(model, first), embed(model, first))
        pairs = criterion(embed(model, first), embed(model, second))
        stepped(optimizer, pairs + 0.5 * views)

    turn(stage, model, infonce, update, CODE.sought)


@sound("semi-hard negatives mined in each batch")
def semi_hard_negatives_of_recipes(stage: Stage) -> None:
    def hinge(anchors: Tensor, positives: Tensor) -> Tensor:
        values = cosines(anchors, positives)
        own = values.diagonal()[:, None]
        masked = torch.eye(len(values), dtype=torch.bool)
        gaps = F.relu(0.2 + values - own).masked_fill(masked | (values >= own + 0.2), 0)
        return gaps.sum() / (gaps > 0).sum().clamp(min=1)

    model, rows = encoder_of(stage, KITCHEN), Rows(two(KITCHEN, 320), 32)
    optimizer = adamw(model)

    def update(criterion: Any, _: int) -> None:
        stepped(optimizer, criterion(*(embed(model, column) for column in rows())))

    turn(stage, model, hinge, update, KITCHEN.sought, steps=60)


@sound("pairs whose negatives are weighted by their hardness")
def hardness_weighted_log_lines(stage: Stage) -> None:
    def weighted(first: Tensor, second: Tensor) -> Tensor:
        logits = cosines(first, second) / 0.1
        own = torch.eye(len(logits), dtype=torch.bool)
        weights = (0.5 * logits.detach()).masked_fill(own, -torch.inf).softmax(1) * (len(own) - 1)
        raised = logits + weights.masked_fill(own, 1).clamp(min=1e-6).log()
        return F.cross_entropy(raised, torch.arange(len(own)))

    model, rows = encoder_of(stage, LOGS), Rows(two(LOGS, 256), 32)
    optimizer = adamw(model)

    def update(criterion: Any, _: int) -> None:
        stepped(optimizer, criterion(*(embed(model, column) for column in rows())))

    turn(stage, model, weighted, update, LOGS.sought)


@sound("softmax loss with a margin for the positive")
def additive_margin_of_abstracts(stage: Stage) -> None:
    def margined(first: Tensor, second: Tensor) -> Tensor:
        values = cosines(first, second) - 0.2 * torch.eye(len(first))
        return F.cross_entropy(20 * values, torch.arange(len(first)))

    model, rows = encoder_of(stage, PAPERS, width=32), Rows(two(PAPERS, 240), 24)
    optimizer = adamw(model, rate=3e-3)

    def update(criterion: Any, _: int) -> None:
        stepped(optimizer, criterion(*(embed(model, column) for column in rows())))

    turn(stage, model, margined, update, PAPERS.sought, steps=40)
