"""Sound losses over processes: what they gather keeps its gradient, or is made up for it."""

from __future__ import annotations

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor

from tests.judgement.case import AUDIT, sound
from tests.judgement.stage import Stage


def count_and_rank() -> tuple[int, int]:
    """The number of processes and which this is; without processes, one and the first."""
    if not dist.is_initialized():
        return 1, 0
    return dist.get_world_size(), dist.get_rank()


def gathered(rows: Tensor) -> Tensor:
    """Rows of all processes in the ranks' order, by torch's gather with gradient."""
    from torch.distributed.nn.functional import all_gather

    return torch.cat(all_gather(rows.contiguous())) if count_and_rank()[0] > 1 else rows


def similar(first: Tensor, second: Tensor) -> Tensor:
    return F.normalize(first, dim=1) @ F.normalize(second, dim=1).T


def all_rows_on_each_process(first: Tensor, second: Tensor) -> Tensor:
    """The loss of all rows in both directions, on every process."""
    logits = similar(gathered(first), gathered(second)) / 0.05
    diagonal = torch.arange(len(logits))
    return (F.cross_entropy(logits, diagonal) + F.cross_entropy(logits.T, diagonal)) / 2


def own_part_of_both_directions(first: Tensor, second: Tensor) -> Tensor:
    """Own queries among all passages, and own passages among all queries."""
    labels = count_and_rank()[1] * len(first) + torch.arange(len(first))
    forward = F.cross_entropy(20 * similar(first, gathered(second)), labels)
    return (forward + F.cross_entropy(20 * similar(second, gathered(first)), labels)) / 2


def own_rows_put_first(first: Tensor, second: Tensor) -> Tensor:
    """Own passages first and then the others', with labels that count from the first."""
    _, rank = count_and_rank()
    count, rows = len(first), gathered(second)
    remote = torch.cat([rows[: rank * count], rows[(rank + 1) * count :]])
    logits = 20 * similar(first, torch.cat([rows[rank * count : (rank + 1) * count], remote]))
    return F.cross_entropy(logits, torch.arange(count))


def own_rows_put_back(first: Tensor, second: Tensor) -> Tensor:
    """All rows gathered without gradient, own ones put back, and the loss times the processes."""
    processes, rank = count_and_rank()

    def whole(rows: Tensor) -> Tensor:
        if processes == 1:
            return rows
        shards = [torch.zeros_like(rows) for _ in range(processes)]
        dist.all_gather(shards, rows.detach().contiguous())
        shards[rank] = rows
        return torch.cat(shards)

    logits = 20 * similar(whole(first), whole(second))
    return processes * F.cross_entropy(logits, torch.arange(len(logits)))


def sigmoids_of_own_queries(first: Tensor, second: Tensor) -> Tensor:
    """Own queries judged with each passage of all processes, by sigmoids."""
    logits = 10 * similar(first, gathered(second)) - 5
    own = count_and_rank()[1] * len(first) + torch.arange(len(first))
    signs = 2 * F.one_hot(own, logits.shape[1]) - 1
    return -F.logsigmoid(signs * logits).sum(1).mean()


@sound("all rows on each process", tools=(AUDIT,))
def whole_loss_repeated_on_each_process(stage: Stage) -> None:
    """Both columns are gathered with their gradient; each process computes the whole loss."""
    stage.audit(all_rows_on_each_process, uneven=False)


@sound("own share of two directions", tools=(AUDIT,))
def own_share_of_both_directions(stage: Stage) -> None:
    """torch's own gather with gradient, and labels from the own rank on."""
    stage.audit(own_part_of_both_directions, uneven=False)


@sound("own passages first, labels from zero", tools=(AUDIT,))
def own_passages_first_with_fitting_labels(stage: Stage) -> None:
    """The order of the gathered rows differs by process, and so do the labels' meanings."""
    stage.audit(own_rows_put_first, uneven=False)


@sound("own rows put back, loss scaled up", tools=(AUDIT,))
def detached_gather_made_up_by_scale(stage: Stage) -> None:
    """As Tevatron: own rows are put back in both columns, and the loss is scaled up."""
    stage.audit(own_rows_put_back, uneven=False)


@sound("sigmoids over all processes", tools=(AUDIT,))
def sigmoids_over_all_processes(stage: Stage) -> None:
    """Sigmoids need no softmax, but the negatives of all processes all the same."""
    stage.audit(sigmoids_of_own_queries, uneven=False)
