"""Sound losses over processes: what is gathered has its gradient, labels count from the own rank.

They need no training: the mean of the processes' gradients is that of all rows on one process.
"""

from __future__ import annotations

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor
from torch.distributed.nn.functional import all_gather, all_reduce

from tests.judgement.case import AUDIT, sound
from tests.judgement.stage import Stage


def _rank() -> int:
    return dist.get_rank() if dist.is_initialized() else 0


def _all(rows: Tensor) -> Tensor:
    """Rows of all processes, in the order of ranks, with their gradient."""
    many = dist.is_initialized() and dist.get_world_size() > 1
    return torch.cat(all_gather(rows.contiguous())) if many else rows


def _own(rows: Tensor) -> Tensor:
    return _rank() * len(rows) + torch.arange(len(rows))


def sigmoid_of_all_pairs(first: Tensor, second: Tensor) -> Tensor:
    """SigLIP: own queries with the passages of all processes, each pair by itself."""
    passages = F.normalize(_all(second), dim=1)
    logits = 10 * F.normalize(first, dim=1) @ passages.T - 5
    signs = 2 * F.one_hot(_own(first), len(passages)) - 1
    return -F.logsigmoid(signs * logits).sum(1).mean()


def all_rows_on_each_process(first: Tensor, second: Tensor) -> Tensor:
    """Both columns are gathered with gradient, and each process has the loss of all rows."""
    first, second = (F.normalize(_all(rows), dim=1) for rows in (first, second))
    logits, own = first @ second.T / 0.07, torch.arange(len(first))
    return (F.cross_entropy(logits, own) + F.cross_entropy(logits.T, own)) / 2


def hardest_of_all_processes(first: Tensor, second: Tensor) -> Tensor:
    """A hinge between the own passage and the nearest wrong one of all processes."""
    near = F.normalize(first, dim=1) @ F.normalize(_all(second), dim=1).T
    own = F.one_hot(_own(first), near.shape[1]).bool()
    hardest = near.masked_fill(own, -2).max(1).values
    return F.relu(0.3 + hardest - near[own]).mean()


def alignment_alone(first: Tensor, second: Tensor) -> Tensor:
    """Distances within pairs: nothing needs to be gathered."""
    return (F.normalize(first, dim=1) - F.normalize(second, dim=1)).square().sum(1).mean()


def queries_among_both_columns(first: Tensor, second: Tensor) -> Tensor:
    """Own queries among all passages and all other queries, with the own query masked."""
    queries, passages = (F.normalize(_all(rows), dim=1) for rows in (first, second))
    rows = F.normalize(first, dim=1)
    similarities = rows @ queries.T
    similarities = similarities.masked_fill(F.one_hot(_own(first), len(queries)).bool(), -torch.inf)
    logits = torch.cat([rows @ passages.T, similarities], dim=1) / 0.1
    return F.cross_entropy(logits, _own(first))


def variance_of_all_rows(first: Tensor, second: Tensor) -> Tensor:
    """Alignment of own pairs, and a variance over the rows of all processes.

    Sums over processes are reduced with their gradient, and each has the same number of rows.
    """
    total = (first - second).square().mean()
    many = dist.get_world_size() if dist.is_initialized() else 1
    for rows in (first, second):
        count = many * len(rows)
        sums, squares = rows.sum(0), rows.square().sum(0)
        if many > 1:
            sums, squares = all_reduce(sums), all_reduce(squares)
        variance = squares / count - (sums / count).square()
        total = total + F.relu(1 - (variance + 1e-4).sqrt()).mean()
    return total


@sound("audit of a sigmoid over all pairs", tools=(AUDIT,))
def sigmoid_over_passages_of_all_processes(stage: Stage) -> None:
    stage.audit(sigmoid_of_all_pairs, uneven=False)


@sound("audit of the whole loss on each process", tools=(AUDIT,))
def whole_loss_from_gathered_columns(stage: Stage) -> None:
    stage.audit(all_rows_on_each_process, uneven=False)


@sound("audit of a hinge with the hardest passage", tools=(AUDIT,))
def hardest_passage_of_all_processes(stage: Stage) -> None:
    stage.audit(hardest_of_all_processes, uneven=False)


@sound("audit of a loss within pairs", tools=(AUDIT,))
def loss_within_pairs_of_each_process(stage: Stage) -> None:
    stage.audit(alignment_alone, uneven=False)


@sound("audit of queries among passages and queries", tools=(AUDIT,))
def queries_among_passages_and_queries(stage: Stage) -> None:
    stage.audit(queries_among_both_columns, uneven=False)


@sound("audit of statistics over all processes", tools=(AUDIT,))
def variance_over_rows_of_all_processes(stage: Stage) -> None:
    stage.audit(variance_of_all_rows, uneven=False)
