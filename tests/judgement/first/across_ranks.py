"""Losses that are right on one process and go wrong on several."""

from __future__ import annotations

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor

from tests.judgement.case import AUDIT, faulty
from tests.judgement.stage import Stage

LABELS = (
    r"label|rank|offset|target|order|diagonal|align|interleav",
    r"(row|positive|pair)s? of (another|the other|the first|the wrong)|wrong (row|positive|pair)",
    r"(value|loss|gradient) .{0,60}(differ|wrong|not equal|off)",
)
GRADIENT = (
    r"gradient|detach|without grad|all_gather|gather|backward",
    r"no gradient|times|scaled|share of",
)


class SlicedGather(torch.autograd.Function):
    """Rows of all ranks; backward hands back only this rank's slice of the incoming gradient."""

    @staticmethod
    def forward(_: object, rows: Tensor) -> Tensor:
        rows = rows.contiguous()
        gathered = [torch.zeros_like(rows) for _ in range(dist.get_world_size())]
        dist.all_gather(gathered, rows)
        return torch.cat(gathered)

    @staticmethod
    def backward(_: object, gradient: Tensor) -> Tensor:
        return gradient.chunk(dist.get_world_size())[dist.get_rank()]


class SummedGather(SlicedGather):
    """Rows of all ranks, whose gradient is summed over the ranks on its way back."""

    @staticmethod
    def backward(_: object, gradient: Tensor) -> Tensor:
        gradient = gradient.contiguous().clone()
        dist.all_reduce(gradient)
        return gradient.chunk(dist.get_world_size())[dist.get_rank()]


def _positions(rows: Tensor, stride: int) -> Tensor:
    return dist.get_rank() * stride + torch.arange(len(rows))


def _ranking(queries: Tensor, candidates: Tensor, labels: Tensor) -> Tensor:
    logits = F.normalize(queries, dim=1) @ F.normalize(candidates, dim=1).T
    return F.cross_entropy(20 * logits, labels)


def sliced_backward(queries: Tensor, offers: Tensor) -> Tensor:
    candidates = SlicedGather.apply(offers)
    return _ranking(queries, candidates, _positions(queries, len(queries)))


def offset_by_world_size(queries: Tensor, offers: Tensor) -> Tensor:
    candidates = SummedGather.apply(offers)
    return _ranking(queries, candidates, _positions(queries, dist.get_world_size()))


def interleaved_candidates(queries: Tensor, offers: Tensor) -> Tensor:
    blocks = SummedGather.apply(offers).chunk(dist.get_world_size())
    candidates = torch.stack(blocks, dim=1).reshape(-1, offers.shape[1])
    return _ranking(queries, candidates, _positions(queries, len(queries)))


def self_mask_of_the_first_rank(first: Tensor, second: Tensor) -> Tensor:
    rows = F.normalize(torch.cat([first, second]), dim=1)
    everything = SummedGather.apply(rows)
    logits = 20 * rows @ everything.T
    local_rows = torch.arange(len(rows))
    logits[
        local_rows, local_rows
    ] = -1e4  # each row's cosine with itself, which stands further right
    labels = dist.get_rank() * len(rows) + local_rows.roll(-len(first))
    return F.cross_entropy(logits, labels)


def queries_gathered_for_the_logits(queries: Tensor, offers: Tensor) -> Tensor:
    everyone = queries
    if dist.get_world_size() > 1:
        with torch.no_grad():
            everyone = SlicedGather.apply(queries)
    candidates = SummedGather.apply(offers)
    return _ranking(everyone, candidates, torch.arange(len(everyone)))


def sigmoid_with_remote_diagonals(queries: Tensor, offers: Tensor) -> Tensor:
    first = F.normalize(queries, dim=1)
    signs = 2 * torch.eye(len(first)) - 1
    blocks = SummedGather.apply(F.normalize(offers, dim=1)).chunk(dist.get_world_size())
    terms = [-F.logsigmoid(signs * (10 * first @ block.T - 5)).sum(1) for block in blocks]
    return torch.stack(terms).sum(0).mean()


def offers_summed_over_ranks(queries: Tensor, offers: Tensor) -> Tensor:
    centre = offers.detach().sum(0)
    dist.all_reduce(centre)
    centred = offers - centre / len(offers)  # should be divided by the rows of all ranks
    candidates = SummedGather.apply(centred)
    return _ranking(queries, candidates, _positions(queries, len(queries)))


@faulty(
    "a gather that returns its slice only",
    "The gather's backward keeps this rank's slice and drops what further ranks ask of its rows.",
    GRADIENT,
    tools=(AUDIT,),
)
def backward_of_the_gather_without_reduction(stage: Stage) -> None:
    """The widespread GatherLayer, with a loss of this rank's queries alone."""
    stage.audit(sliced_backward, uneven=False)


@faulty(
    "labels offset by the number of ranks",
    "Labels begin at rank times the number of ranks, where rank times the batch is right.",
    LABELS,
    tools=(AUDIT,),
)
def labels_offset_by_the_number_of_ranks(stage: Stage) -> None:
    """`rank * world_size + arange(n)`."""
    stage.audit(offset_by_world_size, uneven=False)


@faulty(
    "candidates of ranks interleaved",
    "Gathered blocks are stacked along dimension 1, so that rows of the ranks take turns, and "
    "labels count blocks.",
    LABELS,
    tools=(AUDIT,),
)
def candidates_interleaved_by_stacking(stage: Stage) -> None:
    """torch.stack(blocks, dim=1) is flattened where torch.cat was meant."""
    stage.audit(interleaved_candidates, uneven=False)


@faulty(
    "a mask of the diagonal on every rank",
    "Rows' cosines with themselves are masked at the diagonal, where only the first rank has them.",
    (*LABELS, r"mask|itself|themselves"),
    tools=(AUDIT,),
)
def views_masked_at_the_first_ranks_diagonal(stage: Stage) -> None:
    """NT-Xent over two gathered views with fill_diagonal_ on a matrix of this rank's rows."""
    stage.audit(self_mask_of_the_first_rank, uneven=False)


@faulty(
    "queries of all ranks without gradient",
    "All queries are gathered under no_grad and used in the logits: queries have no gradient.",
    (*GRADIENT, r"quer(y|ies)|anchor|first"),
    tools=(AUDIT,),
)
def queries_gathered_under_no_grad(stage: Stage) -> None:
    """The gather for a metric is used for the loss as well."""
    stage.audit(queries_gathered_for_the_logits, uneven=False)


@faulty(
    "positives in blocks of further ranks",
    "A sigmoid loss takes the diagonal of every rank's block for positives.",
    (*LABELS, r"false (positive|negative)|sign"),
    tools=(AUDIT,),
)
def sigmoid_diagonal_in_every_block(stage: Stage) -> None:
    """The signs of the local block are used for those of all ranks."""
    stage.audit(sigmoid_with_remote_diagonals, uneven=False)


@faulty(
    "a mean over ranks divided by rows of one",
    "Offers are centred by a sum over all ranks that is divided by the rows of this rank.",
    (*LABELS, *GRADIENT, r"mean|sum|divid|average|scale"),
    tools=(AUDIT,),
)
def centre_summed_over_ranks_divided_by_local_rows(stage: Stage) -> None:
    """all_reduce sums the centres of the ranks, and the division counts local rows."""
    stage.audit(offers_summed_over_ranks, uneven=False)
