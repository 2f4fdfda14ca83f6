"""Sound losses over processes: what is gathered carries its gradient, and labels follow."""

from __future__ import annotations

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor
from torch.distributed.nn.functional import all_gather

from tests.judgement.case import sound
from tests.judgement.stage import Stage


def _cosines(first: Tensor, second: Tensor) -> Tensor:
    return F.normalize(first, dim=1) @ F.normalize(second, dim=1).T


def whole_batch_on_every_process(first: Tensor, second: Tensor) -> Tensor:
    """Both columns are gathered with gradient, and every process computes the whole loss."""
    queries, passages = torch.cat(all_gather(first)), torch.cat(all_gather(second))
    logits = _cosines(queries, passages) / 0.07
    return F.cross_entropy(logits, torch.arange(len(queries)))


def own_rows_of_the_table_of_pairs(first: Tensor, second: Tensor) -> Tensor:
    """The logistic loss of SigLIP for own queries among the passages of all processes."""
    logits = 10 * _cosines(first, torch.cat(all_gather(second))) - 5
    own = torch.arange(len(first)) + dist.get_rank() * len(first)
    signs = 2 * F.one_hot(own, logits.shape[1]) - 1
    return -F.logsigmoid(signs * logits).sum(1).mean()


def hinge_among_all_passages(first: Tensor, second: Tensor) -> Tensor:
    """Hinges of own queries towards each passage of all processes that is not their own."""
    table = _cosines(first, torch.cat(all_gather(second)))
    own = torch.arange(len(first)) + dist.get_rank() * len(first)
    gaps = F.relu(0.3 + table - table.gather(1, own[:, None]))
    return (gaps * (1 - F.one_hot(own, table.shape[1]))).sum(1).mean()


@sound("audit of a loss computed whole on every process")
def whole_batch_gathered_on_every_process(stage: Stage) -> None:
    stage.audit(whole_batch_on_every_process, uneven=False)


@sound("audit of a logistic loss of pairs")
def logistic_pairs_among_all_passages(stage: Stage) -> None:
    stage.audit(own_rows_of_the_table_of_pairs, uneven=False)


@sound("audit of hinges")
def hinges_towards_passages_of_all_processes(stage: Stage) -> None:
    stage.audit(hinge_among_all_passages, uneven=False)
