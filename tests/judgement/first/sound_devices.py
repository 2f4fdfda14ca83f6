"""Sound training loops of one's own in which memory or precision decides the form."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F

from tests.judgement.case import sound
from tests.judgement.first.own_loops import Loop, embed, infonce
from tests.judgement.first.sound_iterations import Columns, cosines
from tests.judgement.first.sound_loops import gains
from tests.judgement.first.sound_teachers import teacher
from tests.judgement.stage import Stage, pairs


@sound("loop")
def embeddings_in_half_precision_and_loss_in_full(stage: Stage) -> None:
    def step(model: Any, criterion: Any, columns: Columns) -> torch.Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            first, second = (embed(model, column) for column in columns[:2])
        return criterion(first.float(), second.float())

    gains(stage, Loop(infonce, step=step))


@sound("loop")
def gradients_of_embeddings_cached(stage: Stage) -> None:
    """The loss is of the whole batch; its gradient passes the encoder in chunks of eight."""
    steps: list[int] = []

    def embedded(model: Any, columns: Columns, seed: int) -> list[torch.Tensor]:
        torch.manual_seed(seed)  # the same dropout in both passes
        return [
            torch.cat([embed(model, column[at : at + 8]) for at in range(0, len(column), 8)])
            for column in columns[:2]
        ]

    def step(model: Any, criterion: Any, columns: Columns) -> torch.Tensor:
        steps.append(len(steps))
        with torch.no_grad():
            leaves = [rows.requires_grad_() for rows in embedded(model, columns, steps[-1])]
        cost = criterion(*leaves)
        cost.backward()
        rows = embedded(model, columns, steps[-1])
        # Its value is the loss, its gradient that of the leaves.
        passed = sum((row * leaf.grad).sum() for row, leaf in zip(rows, leaves, strict=True))
        return cost.detach() + passed - passed.detach()

    gains(stage, Loop(infonce, step=step))


@sound("loop")
def likeness_within_the_batch_by_a_teacher(stage: Stage) -> None:
    """A student's cosines of a batch are drawn to those of a teacher, softened alike."""
    guide, targets = teacher(stage, pairs(240)), list[torch.Tensor]()

    def loss(anchors: torch.Tensor, positives: torch.Tensor) -> torch.Tensor:
        shares = F.log_softmax(cosines(anchors, positives) / 0.05, dim=1)
        return F.kl_div(shares, targets[-1], reduction="batchmean")

    def step(model: Any, criterion: Any, columns: Columns) -> torch.Tensor:
        with torch.no_grad():
            first, second = (embed(guide, column) for column in columns[:2])
            targets[:] = [F.softmax(cosines(first, second) / 0.05, dim=1)]
        return criterion(*(embed(model, column) for column in columns[:2]))

    gains(stage, Loop(loss, step=step))
