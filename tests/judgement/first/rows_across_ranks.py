"""Losses that go astray on several processes: whose rows, in which order, with which gradient.

They are compared with the loss of all rows on one process, and are right there.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor

from tests.judgement.case import AUDIT, faulty
from tests.judgement.stage import Stage

TOOL = {"tools": (AUDIT,)}
GRADIENT = (r"(?i)gradient|backward|all_?gather|all_?reduce|detach",)
PLACES = (
    r"(?i)labels?|targets?|offset|\brank\b|diagonal|align|order|interleav",
    r"(?i)(wrong|another|other).{0,20}(row|positive|pair|partner|process)",
    r"(?i)(value|loss).{0,60}(differ|wrong|not equal|not the same|deviat)",
)


def _ranks() -> tuple[int, int]:
    """Number of this process, and of all; a single one without a group."""
    ready = dist.is_available() and dist.is_initialized()
    return (dist.get_rank(), dist.get_world_size()) if ready else (0, 1)


def _copies(rows: Tensor) -> list[Tensor]:
    """Rows of all processes, without gradient."""
    _, count = _ranks()
    if count == 1:
        return [rows.detach()]
    copies = [torch.zeros_like(rows) for _ in range(count)]
    dist.all_gather(copies, rows.detach().contiguous())
    return copies


class _All(torch.autograd.Function):
    """Rows of all processes; their gradient is the sum of what all ask."""

    @staticmethod
    def forward(_: Any, rows: Tensor) -> Tensor:
        return torch.cat(_copies(rows))

    @staticmethod
    def backward(_: Any, gradient: Tensor) -> Tensor:
        rank, count = _ranks()
        total = gradient.contiguous().clone()
        if count > 1:
            dist.all_reduce(total)
        return total.chunk(count)[rank]


class _AllOwnSlice(_All):
    """The same, but each process keeps its own slice of its own gradient."""

    @staticmethod
    def backward(_: Any, gradient: Tensor) -> Tensor:
        rank, count = _ranks()
        return gradient.chunk(count)[rank]


def _entropy(first: Tensor, second: Tensor, labels: Tensor) -> Tensor:
    return F.cross_entropy(20 * F.normalize(first, dim=1) @ F.normalize(second, dim=1).T, labels)


def _own(rows: Tensor) -> Tensor:
    """Places of own rows among those of all processes."""
    return _ranks()[0] * len(rows) + torch.arange(len(rows))


def labels_from_zero(first: Tensor, second: Tensor) -> Tensor:
    """Labels count from zero on every process."""
    return _entropy(first, _All.apply(second), torch.arange(len(first)))


def slice_of_own_gradient(first: Tensor, second: Tensor) -> Tensor:
    """The gather's backward returns the own slice without a sum over processes."""
    return _entropy(first, _AllOwnSlice.apply(second), _own(first))


def rows_in_turn(first: Tensor, second: Tensor) -> Tensor:
    """Rows of the processes stand in turn, and labels count in blocks."""
    blocks = torch.stack(_All.apply(second).chunk(_ranks()[1]), dim=1)
    return _entropy(first, blocks.flatten(0, 1), _own(first))


def centred_by_own_rows(first: Tensor, second: Tensor) -> Tensor:
    """Rows are centred by the mean of the own process before they are gathered."""
    passages = _All.apply(second - second.mean(0))
    return _entropy(first - first.mean(0), passages, _own(first))


def queries_gathered_for_passages(first: Tensor, second: Tensor) -> Tensor:
    """With several processes the candidates are the queries: the wrong name was gathered."""
    candidates = _All.apply(first) if _ranks()[1] > 1 else second
    return _entropy(first, candidates, _own(first))


def copies_masked_at_own_places(first: Tensor, second: Tensor) -> Tensor:
    """Queries count as candidates too, and the mask of a query itself is placed as on rank 0."""
    queries, passages = _All.apply(first), _All.apply(second)
    among = 20 * F.normalize(first, dim=1) @ F.normalize(queries, dim=1).T
    mask = torch.zeros_like(among, dtype=torch.bool)
    mask[torch.arange(len(first)), torch.arange(len(first))] = True
    across = 20 * F.normalize(first, dim=1) @ F.normalize(passages, dim=1).T
    logits = torch.cat([across, among.masked_fill(mask, -1e4)], dim=1)
    return F.cross_entropy(logits, _own(first))


def rows_added_up(first: Tensor, second: Tensor) -> Tensor:
    """Passages are summed over the processes where they should be gathered."""
    _, count = _ranks()
    if count > 1:
        from torch.distributed.nn.functional import all_reduce

        second = all_reduce(second.contiguous())
    return _entropy(first, second, torch.arange(len(first)))


@faulty(
    "labels that count from zero on every process",
    "Passages of all processes are gathered in the order of ranks, and each process takes the "
    "first block for its own.",
    PLACES,
    **TOOL,
)
def every_rank_counts_from_zero(stage: Stage) -> None:
    """`labels = torch.arange(len(anchors))` after a gather."""
    stage.audit(labels_from_zero, uneven=False)


@faulty(
    "backward of a gather without a sum",
    "The backward of the gather returns the own slice of the own gradient; what other processes' "
    "queries ask of these passages is lost.",
    GRADIENT,
    **TOOL,
)
def gather_whose_backward_does_not_sum(stage: Stage) -> None:
    """`grad_out[:] = grads[rank]` without all_reduce, as in an often copied GatherLayer."""
    stage.audit(slice_of_own_gradient, uneven=False)


@faulty(
    "gathered rows in turn, labels in blocks",
    "The gathered rows are stacked so that those of the processes alternate, and the labels count "
    "in blocks of a process.",
    PLACES,
    **TOOL,
)
def alternating_rows_with_block_labels(stage: Stage) -> None:
    """`torch.stack(gathered, 1).flatten(0, 1)`."""
    stage.audit(rows_in_turn, uneven=False)


@faulty(
    "mean of the process in place of the batch's",
    "Embeddings are centred by the mean of the process's own rows, so that the loss depends on how "
    "rows fall to processes.",
    [r"(?i)mean|cent(er|re)|statistic|per process|own rows|local", *PLACES, *GRADIENT],
    **TOOL,
)
def centring_by_one_process_rows(stage: Stage) -> None:
    """Whitening or a batch norm without synchronisation before a gathered loss."""
    stage.audit(centred_by_own_rows, uneven=False)


@faulty(
    "queries gathered under the passages' name",
    "On several processes the queries are gathered and taken for the passages: each is compared "
    "with itself.",
    [*PLACES, *GRADIENT, r"(?i)itself|quer(y|ies)|second|passages?|unused|no gradient"],
    **TOOL,
)
def gathered_the_queries_by_mistake(stage: Stage) -> None:
    """A branch for several processes with a variable of the wrong name, never run in tests."""
    stage.audit(queries_gathered_for_passages, uneven=False)


@faulty(
    "mask of own copies placed as on the first process",
    "Each query's cosine with itself is masked at the place that it has on the first process; on "
    "the others the query remains its own strongest negative.",
    [*PLACES, r"(?i)mask|itself|own cop"],
    **TOOL,
)
def self_mask_without_rank_offset(stage: Stage) -> None:
    """`mask.fill_diagonal_(True)` on a matrix of own by gathered rows."""
    stage.audit(copies_masked_at_own_places, uneven=False)


@faulty(
    "passages summed over processes",
    "The passages of all processes are added where they should be gathered: row by row, strangers "
    "are mixed.",
    [*GRADIENT, *PLACES, r"(?i)\bsum|added|mixed"],
    **TOOL,
)
def passages_reduced_where_gather_was_meant(stage: Stage) -> None:
    """`all_reduce` taken for `all_gather`."""
    stage.audit(rows_added_up, uneven=False)
