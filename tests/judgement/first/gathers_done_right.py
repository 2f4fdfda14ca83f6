"""Losses of several processes whose gathers, labels and gradients are right."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor

from tests.judgement.case import AUDIT, sound
from tests.judgement.stage import Stage


def place() -> tuple[int, int]:
    """The rank of this process and the number of processes."""
    if dist.is_available() and dist.is_initialized():
        return dist.get_rank(), dist.get_world_size()
    return 0, 1


class Collected(torch.autograd.Function):
    """Rows of all processes in one tensor; the gradient is summed over them and cut."""

    @staticmethod
    def forward(context: Any, rows: Tensor) -> Tensor:
        context.size = len(rows)
        gathered_rows = rows.new_empty(place()[1] * len(rows), *rows.shape[1:])
        dist.all_gather_into_tensor(gathered_rows, rows.contiguous())
        return gathered_rows

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> Tensor:
        total = gradient.contiguous().clone()
        dist.all_reduce(total)
        start = place()[0] * context.size
        return total[start : start + context.size]


def collected(rows: Tensor) -> Tensor:
    return Collected.apply(rows) if place()[1] > 1 else rows


def gathered_by_torch(rows: Tensor) -> Tensor:
    """Rows of all processes by torch's own gather, which carries gradient."""
    from torch.distributed.nn.functional import all_gather

    return torch.cat(all_gather(rows.contiguous())) if place()[1] > 1 else rows


def numbers_of(rows: Tensor) -> Tensor:
    """Where own rows stand among those of all processes."""
    return place()[0] * len(rows) + torch.arange(len(rows), device=rows.device)


def clip_by_own_rows(first: Tensor, second: Tensor) -> Tensor:
    """Own rows of each column among all rows of the other, by torch's gather."""
    first, second = F.normalize(first, dim=1), F.normalize(second, dim=1)
    forward = 20 * first @ gathered_by_torch(second).T
    backward = 20 * second @ gathered_by_torch(first).T
    own = numbers_of(first)
    return (F.cross_entropy(forward, own) + F.cross_entropy(backward, own)) / 2


def clip_of_the_whole_matrix(first: Tensor, second: Tensor) -> Tensor:
    """Each process computes the loss of all rows, as open_clip does with gradient in its gather."""
    first, second = (F.normalize(collected(rows), dim=1) for rows in (first, second))
    logits = 20 * first @ second.T
    own = torch.arange(len(logits), device=logits.device)
    return (F.cross_entropy(logits, own) + F.cross_entropy(logits.T, own)) / 2


def views_of_all_processes(first: Tensor, second: Tensor) -> Tensor:
    """SimCLR: both views of own rows among both views of all rows, less themselves."""
    first, second = F.normalize(first, dim=1), F.normalize(second, dim=1)
    firsts, seconds = collected(first), collected(second)
    candidates, own = torch.cat([firsts, seconds]), numbers_of(first)
    selves = torch.cat([own, own + len(firsts)])
    logits = torch.cat([first, second]) @ candidates.T / 0.1
    logits = logits.scatter(1, selves[:, None], -torch.inf)
    return F.cross_entropy(logits, torch.cat([own + len(firsts), own]))


def sigmoid_of_all_pairs(first: Tensor, second: Tensor) -> Tensor:
    """SigLIP: own first rows with all second rows, summed over pairs, by own row."""
    first, second = F.normalize(first, dim=1), F.normalize(second, dim=1)
    logits = 10 * first @ gathered_by_torch(second).T - 6
    signs = torch.full_like(logits, -1).scatter(1, numbers_of(first)[:, None], 1.0)
    return -F.logsigmoid(signs * logits).sum(1).mean()


def spread_of_all_rows(first: Tensor, second: Tensor) -> Tensor:
    """Alignment of own rows, and uniformity over the rows of all processes."""
    first, second = F.normalize(first, dim=1), F.normalize(second, dim=1)
    uniform = sum(torch.pdist(collected(rows)).square().mul(-2).exp().mean().log()
                  for rows in (first, second))  # fmt: skip
    return (first - second).square().sum(1).mean() + uniform / 2


def correlation_of_all_rows(first: Tensor, second: Tensor) -> Tensor:
    """Barlow Twins, whose means, deviations and products are of the rows of all processes."""
    first, second = gathered_by_torch(first), gathered_by_torch(second)
    first, second = ((rows - rows.mean(0)) / (rows.std(0) + 1e-5) for rows in (first, second))
    correlation = first.T @ second / len(first)
    own = correlation.diagonal()
    return (own - 1).square().sum() + 0.02 * (correlation.square().sum() - own.square().sum())


@sound("each column's own rows among all of the other, by torch's gather", tools=(AUDIT,))
def both_columns_by_the_gather_of_torch(stage: Stage) -> None:
    stage.audit(clip_by_own_rows, uneven=False)


@sound("whole matrix on each process, gathered with gradient", tools=(AUDIT,))
def whole_matrix_on_each_process(stage: Stage) -> None:
    stage.audit(clip_of_the_whole_matrix, uneven=False)


@sound("two views of all processes' rows, less themselves", tools=(AUDIT,))
def two_views_over_all_processes(stage: Stage) -> None:
    stage.audit(views_of_all_processes, uneven=False)


@sound("sigmoid of own rows with all processes' rows", tools=(AUDIT,))
def sigmoid_over_all_processes(stage: Stage) -> None:
    stage.audit(sigmoid_of_all_pairs, uneven=False)


@sound("uniformity over all processes' rows", tools=(AUDIT,))
def uniformity_over_all_processes(stage: Stage) -> None:
    stage.audit(spread_of_all_rows, uneven=False)


@sound("cross-correlation over all processes' rows", tools=(AUDIT,))
def correlation_over_all_processes(stage: Stage) -> None:
    stage.audit(correlation_of_all_rows, uneven=False)
