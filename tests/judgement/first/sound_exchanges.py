"""Right gathers over processes, under an average of the processes' gradients."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F

from tests.judgement.case import sound
from tests.judgement.stage import Stage


class Gathered(torch.autograd.Function):
    """Rows of all processes; gradients of all of them are added up for one's own rows."""

    @staticmethod
    def forward(context: Any, rows: torch.Tensor) -> torch.Tensor:
        context.count = len(rows)
        pieces = [torch.empty_like(rows) for _ in range(dist.get_world_size())]
        dist.all_gather(pieces, rows.contiguous())
        return torch.cat(pieces)

    @staticmethod
    def backward(context: Any, gradient: torch.Tensor) -> torch.Tensor:
        whole = gradient.contiguous().clone()
        dist.all_reduce(whole)
        start = dist.get_rank() * context.count
        return whole[start : start + context.count]


def spread() -> bool:
    """Whether there are several processes."""
    return dist.is_initialized() and dist.get_world_size() > 1


def both_ways(anchors: torch.Tensor, positives: torch.Tensor) -> torch.Tensor:
    """Own rows of either side against all rows of the other side."""
    first, second = F.normalize(anchors, dim=-1), F.normalize(positives, dim=-1)
    firsts, seconds, start = first, second, 0
    if spread():
        firsts, seconds = Gathered.apply(first), Gathered.apply(second)
        start = dist.get_rank() * len(first)
    own = torch.arange(start, start + len(first))
    forward = F.cross_entropy(first @ seconds.T / 0.07, own)
    return (forward + F.cross_entropy(second @ firsts.T / 0.07, own)) / 2


def whole_batch(anchors: torch.Tensor, positives: torch.Tensor) -> torch.Tensor:
    """Each process computes the loss of the whole batch from rows with gradients."""
    from torch.distributed.nn.functional import all_gather

    first, second = F.normalize(anchors, dim=-1), F.normalize(positives, dim=-1)
    if spread():
        first, second = (torch.cat(list(all_gather(rows))) for rows in (first, second))
    return F.cross_entropy(first @ second.T / 0.05, torch.arange(len(first)))


def sigmoids(anchors: torch.Tensor, positives: torch.Tensor) -> torch.Tensor:
    """Own anchors against all positives, each combination by itself."""
    first, second, start = F.normalize(anchors, dim=-1), F.normalize(positives, dim=-1), 0
    if spread():
        second, start = Gathered.apply(second), dist.get_rank() * len(first)
    signs = -torch.ones(len(first), len(second))
    signs[torch.arange(len(first)), torch.arange(start, start + len(first))] = 1.0
    return -F.logsigmoid(signs * (10 * first @ second.T - 5)).sum() / len(first)


@sound("processes")
def own_rows_both_ways_against_all(stage: Stage) -> None:
    stage.audit(both_ways, uneven=False)


@sound("processes")
def loss_of_the_whole_batch_on_each_process(stage: Stage) -> None:
    stage.audit(whole_batch, uneven=False)


@sound("processes")
def sigmoids_of_own_rows_and_all(stage: Stage) -> None:
    stage.audit(sigmoids, uneven=False)
