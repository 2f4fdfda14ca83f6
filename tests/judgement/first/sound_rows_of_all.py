"""Sound set-ups: losses over processes whose gradient is that of all rows at once."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor
from torch.distributed.nn.functional import all_gather, all_reduce

from tests.judgement.case import AUDIT, sound
from tests.judgement.stage import Stage


def gathered(rows: Tensor) -> Tensor:
    """Rows of all processes with their gradient, by PyTorch's differentiable gather."""
    return torch.cat(all_gather(rows.contiguous()))


def whole_square_on_each_process(first: Tensor, second: Tensor) -> Tensor:
    """OpenCLIP without local losses: each process computes the loss of all rows, two ways."""
    queries, passages = (F.normalize(gathered(rows), dim=1) for rows in (first, second))
    logits = 20 * queries @ passages.T
    labels = torch.arange(len(logits))
    return (F.cross_entropy(logits, labels) + F.cross_entropy(logits.T, labels)) / 2


def local_rows_two_way(first: Tensor, second: Tensor) -> Tensor:
    """OpenCLIP with local losses: own rows among all, in each direction, with offset labels."""
    queries, passages = F.normalize(first, dim=1), F.normalize(second, dim=1)
    every_query, every_passage = gathered(queries), gathered(passages)
    labels = torch.arange(len(first)) + len(first) * dist.get_rank()
    remote = F.cross_entropy(queries @ every_passage.T / 0.07, labels)
    gradient_of_rows = F.cross_entropy(passages @ every_query.T / 0.07, labels)
    return (remote + gradient_of_rows) / 2


class ReduceScatter(torch.autograd.Function):
    """Gathers by one buffer; its backward sums what each process asks of the own rows."""

    @staticmethod
    def forward(context: Any, rows: Tensor) -> Tensor:
        context.count = len(rows)
        buffer = [torch.empty_like(rows) for _ in range(dist.get_world_size())]
        dist.all_gather(buffer, rows.contiguous())
        return torch.cat(buffer)

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> Tensor:
        summed = gradient.clone()
        dist.all_reduce(summed, op=dist.ReduceOp.SUM)
        return summed.narrow(0, dist.get_rank() * context.count, context.count)


def margins_of_own_queries(first: Tensor, second: Tensor) -> Tensor:
    """Hinge of own queries against the passages of all, gathered by an autograd function."""
    passages = ReduceScatter.apply(F.normalize(second, dim=1))
    values = F.normalize(first, dim=1) @ passages.T
    places = torch.arange(len(first)) + dist.get_rank() * len(first)
    right = values[torch.arange(len(first)), places]
    gaps = F.relu(0.3 - right[:, None] + values)
    wrong = torch.ones_like(values).scatter(1, places[:, None], 0.0)
    return (gaps * wrong).sum(1).mean() / (values.shape[1] - 1)


def sigmoids_chunk_by_chunk(first: Tensor, second: Tensor) -> Tensor:
    """SigLIP: own queries against the passages of each process in turn, then summed."""
    queries, chunks = F.normalize(first, dim=1), all_gather(F.normalize(second, dim=1))
    total = queries.new_zeros(())
    for rank, chunk in enumerate(chunks):
        signs = -torch.ones(len(queries), len(chunk))
        if rank == dist.get_rank():
            signs = signs + 2 * torch.eye(len(queries))
        total = total - F.logsigmoid(signs * (10 * queries @ chunk.T - 5)).sum()
    return total / len(queries)


def spread_from_summed_moments(first: Tensor, second: Tensor) -> Tensor:
    """Alignment of own pairs and a penalty on moments that are summed over all processes."""
    rows = torch.cat([F.normalize(first, dim=1), F.normalize(second, dim=1)])
    count = 2 * len(first) * dist.get_world_size()
    moment = all_reduce((rows.T @ rows).contiguous()) / count
    apart = moment - torch.eye(rows.shape[1]) / rows.shape[1]
    return (rows[: len(first)] - rows[len(first) :]).square().sum(1).mean() + apart.square().sum()


def decoupled_among_all_queries(first: Tensor, second: Tensor) -> Tensor:
    """Own passages among the queries of all; the positive is left out of the denominator."""
    queries = gathered(F.normalize(first, dim=1))
    logits = F.normalize(second, dim=1) @ queries.T / 0.1
    places = torch.arange(len(second)) + dist.get_rank() * len(second)
    right = logits.gather(1, places[:, None]).squeeze(1)
    wrong = logits.scatter(1, places[:, None], float("-inf"))
    return (torch.logsumexp(wrong, 1) - right).mean()


@sound("audit of a loss of all rows on each process", tools=(AUDIT,))
def whole_loss_on_each_process(stage: Stage) -> None:
    """Each process computes the whole loss from rows gathered with gradient."""
    stage.audit(whole_square_on_each_process, uneven=False)


@sound("audit of local losses in two directions", tools=(AUDIT,))
def local_losses_in_two_directions(stage: Stage) -> None:
    """Own rows among the rows of all, both columns gathered, labels moved by the rank."""
    stage.audit(local_rows_two_way, uneven=False)


@sound("audit of a hinge with a gather of its author", tools=(AUDIT,))
def hinge_among_gathered_passages(stage: Stage) -> None:
    """The gather's backward sums over processes and returns the rows of its process."""
    stage.audit(margins_of_own_queries, uneven=False)


@sound("audit of sigmoids, chunk by chunk", tools=(AUDIT,))
def sigmoids_of_chunks_of_each_process(stage: Stage) -> None:
    """Only the own chunk has positives; the sum is divided by the own rows."""
    stage.audit(sigmoids_chunk_by_chunk, uneven=False)


@sound("audit of moments over processes", tools=(AUDIT,))
def moments_summed_over_processes(stage: Stage) -> None:
    """A penalty of all rows' second moments, reduced with gradient."""
    stage.audit(spread_from_summed_moments, uneven=False)


@sound("audit of a decoupled loss", tools=(AUDIT,))
def decoupled_loss_among_the_queries_of_all(stage: Stage) -> None:
    """Passages seek their query among those of all processes, by a decoupled loss."""
    stage.audit(decoupled_among_all_queries, uneven=False)
