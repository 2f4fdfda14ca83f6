"""Sound loops of one's own whose parts move slowly, late, or within a step of the optimizer."""

from __future__ import annotations

import copy
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from tests.judgement.case import sound
from tests.judgement.first.loop_losses import cosines
from tests.judgement.first.reported_encoders import among_classmates
from tests.judgement.first.reported_loops import Columns, Loop, embed, gains
from tests.judgement.stage import Stage, classes


def places(rows: torch.Tensor) -> torch.Tensor:
    return torch.arange(len(rows))


def quick(weights: Any) -> torch.optim.Optimizer:
    return torch.optim.Adam(weights, lr=1e-3)


@sound("momentum encoder")
def keys_of_a_momentum_of_ninety_nine_hundredths(stage: Stage) -> None:
    """MoCo: an encoder that follows at 1% a step gives the positives, and a queue of negatives."""
    model, queue = stage.model(), [F.normalize(torch.randn(64, 32), dim=-1)]
    slow = copy.deepcopy(model).requires_grad_(False)

    def loss(queries: torch.Tensor, keys: torch.Tensor, queued: torch.Tensor) -> torch.Tensor:
        logits = torch.cat([cosines(queries, keys), cosines(queries, queued)], 1) / 0.07
        return F.cross_entropy(logits, places(queries))

    def step(model: Any, criterion: Any, columns: Columns) -> torch.Tensor:
        with torch.no_grad():
            for old, new in zip(slow.parameters(), model.parameters(), strict=True):
                old.mul_(0.99).add_(new, alpha=0.01)
            keys = embed(slow, columns[1])
        value = criterion(embed(model, columns[0]), keys, torch.cat(queue))
        queue.append(keys)
        del queue[:-8]
        return value

    views = lambda queries, keys, queued: (queries, keys)  # noqa: E731
    gains(stage, Loop(loss, step=step, steps=80, views=views), model=model)


@sound("weights released later")
def head_first_and_then_the_encoder(stage: Stage) -> None:
    """A new layer learns alone for fifteen steps; the encoder is released then."""
    model = stage.model().requires_grad_(False)
    head = nn.Linear(32, 32, bias=False)
    nn.init.eye_(head.weight)

    def step(model: Any, criterion: Any, columns: Columns) -> torch.Tensor:
        return criterion(*(head(embed(model, column)) for column in columns))

    def after(model: Any, number: int) -> None:
        model.requires_grad_(number >= 15)

    make = lambda weights: quick([*weights, *head.parameters()])  # noqa: E731
    gains(stage, Loop(step=step, optimizer=make, after=after, steps=80), model=model)


class Comparison(nn.Module):
    """A softmax over the scores that two layers give to each pair of rows."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1))

    def forward(self, anchors: torch.Tensor, positives: torch.Tensor) -> torch.Tensor:
        pairs = torch.cat(
            [
                anchors[:, None].expand(-1, len(positives), -1),
                positives[None].expand(len(anchors), -1, -1),
            ],
            -1,
        )
        return F.cross_entropy(self.layers(pairs).squeeze(-1), places(anchors))


@sound("layers as the score")
def two_layers_that_score_pairs(stage: Stage) -> None:
    make = lambda weights: torch.optim.Adam(weights, lr=2e-3)  # noqa: E731
    gains(stage, Loop(Comparison(), optimizer=make, steps=200))


class Centres(nn.Module):
    """A softmax over the cosines with a learned centre of each class, with an angular margin."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.centres = nn.Parameter(0.1 * torch.randn(count, 32))

    def forward(self, rows: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        angles = cosines(rows, self.centres).clamp(-0.999, 0.999).acos()
        margins = 0.2 * F.one_hot(labels, len(self.centres))
        return F.cross_entropy(16 * (angles + margins).cos(), labels)


@sound("rows with labels, halves of which are called views")
def centres_with_every_other_row_as_a_view(stage: Stage) -> None:
    """The views that the loss needs for watching are rows of different classes."""
    make = lambda weights: torch.optim.Adam(weights, lr=2e-3)  # noqa: E731
    views = lambda rows, labels: (rows[::2], rows[1::2])  # noqa: E731
    loop = Loop(Centres(20), classes(), optimizer=make, steps=100, views=views)
    gains(stage, loop, among_classmates)


@sound("step with a closure")
def loss_within_the_step(stage: Stage) -> None:
    """The optimizer calls the closure that computes the loss, as LBFGS needs it."""

    class Calling(torch.optim.Adam):
        def zero_grad(self, set_to_none: bool = True) -> None:
            """The closure clears gradients."""

    optimizers: list[Any] = []

    def make(weights: Any) -> torch.optim.Optimizer:
        optimizers.append(Calling(weights, lr=1e-3))
        return optimizers[0]

    def step(model: Any, criterion: Any, columns: Columns) -> torch.Tensor:
        def closure() -> torch.Tensor:
            for weight in model.parameters():
                weight.grad = None
            value = criterion(*(embed(model, column) for column in columns))
            value.backward()
            return value

        return optimizers[0].step(closure)

    update = lambda optimizer, value: None  # noqa: E731
    gains(stage, Loop(step=step, optimizer=make, update=update))


class Lion(torch.optim.Optimizer):
    """Steps by the sign of an averaged gradient (Chen et al. 2023), with decay."""

    def __init__(self, weights: Any, lr: float, weight_decay: float) -> None:
        super().__init__(weights, {"lr": lr, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:
        for group in self.param_groups:
            for weight in group["params"]:
                if weight.grad is None:
                    continue
                state = self.state[weight]
                mean = state.setdefault("mean", torch.zeros_like(weight))
                weight.mul_(1 - group["lr"] * group["weight_decay"])
                weight.sub_((0.9 * mean + 0.1 * weight.grad).sign(), alpha=group["lr"])
                mean.lerp_(weight.grad, 0.01)


@sound("optimizer by signs")
def signs_with_a_decay_of_one(stage: Stage) -> None:
    gains(stage, Loop(optimizer=lambda weights: Lion(weights, 2e-4, 1.0)))
