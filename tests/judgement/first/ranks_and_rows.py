"""Losses over processes in which rows, labels or gradients of the ranks do not meet."""

from __future__ import annotations

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor

from tests.judgement.case import AUDIT, faulty
from tests.judgement.stage import Stage

GRADIENT = (r"(?i)gradient", r"(?i)detach", r"(?i)all_gather|gather")
LABELS = (
    r"(?i)label|target|offset|diagonal|align|(wrong|other|another|different) order|order of",
    r"(?i)(row|positive|passage)s? of (another|the other|other|the first|the wrong)",
    r"(?i)wrong (row|positive|pair|passage)",
    r"(?i)(value|loss)\b.{0,60}(differ|wrong|not equal|not the same|off)",
)
NEGATIVES = (
    r"(?i)negatives?|candidates?|denominator",
    r"(?i)(passages?|rows) of (the )?other (process|rank)",
    r"(?i)(only|just).{0,30}(own|local)|(own|local).{0,30}only",
    r"(?i)(value|loss)\b.{0,60}(differ|wrong|not equal|not the same|off)",
)


class _Gather(torch.autograd.Function):
    """Rows of all processes, with the gradient of all."""

    @staticmethod
    def forward(_: object, rows: Tensor) -> Tensor:
        return torch.cat(constant_rows(rows))

    @staticmethod
    def backward(_: object, gradient: Tensor) -> Tensor:
        gradient = gradient.contiguous().clone()
        dist.all_reduce(gradient)
        return gradient.chunk(dist.get_world_size())[dist.get_rank()]


def constant_rows(rows: Tensor) -> list[Tensor]:
    """Rows of each process, without gradient."""
    buffers = [torch.zeros_like(rows) for _ in range(dist.get_world_size())]
    dist.all_gather(buffers, rows.detach().contiguous())
    return buffers


def ranked(first: Tensor, second: Tensor, labels: Tensor, mask: Tensor | None = None) -> Tensor:
    """InfoNCE of rows among candidates of which some may be masked."""
    logits = F.normalize(first, dim=1) @ F.normalize(second, dim=1).T / 0.05
    if mask is not None:
        logits = logits.masked_fill(mask, float("-inf"))
    return F.cross_entropy(logits, labels)


def own(rows: Tensor) -> Tensor:
    """Places of the own rows among those of all processes."""
    return dist.get_rank() * len(rows) + torch.arange(len(rows))


def reversed_ranks(first: Tensor, second: Tensor) -> Tensor:
    blocks = _Gather.apply(second).chunk(dist.get_world_size())
    return ranked(first, torch.cat(blocks[::-1]), own(first))


def offset_by_the_rank(first: Tensor, second: Tensor) -> Tensor:
    labels = dist.get_rank() + torch.arange(len(first))
    return ranked(first, _Gather.apply(second), labels)


def others_hidden(first: Tensor, second: Tensor) -> Tensor:
    passages = _Gather.apply(second)
    hidden = torch.arange(len(passages)) // len(second) != dist.get_rank()
    return ranked(first, passages, own(first), hidden[None])


def shuffled_passages(first: Tensor, second: Tensor) -> Tensor:
    passages = _Gather.apply(second)
    order = torch.randperm(len(passages), generator=torch.Generator().manual_seed(1))
    return ranked(first, passages[order], own(first))


def constant_queries_backwards(first: Tensor, second: Tensor) -> Tensor:
    forth = ranked(first, _Gather.apply(second), own(first))
    return (forth + ranked(second, torch.cat(constant_rows(first)), own(second))) / 2


def rows_into_a_copy(first: Tensor, second: Tensor) -> Tensor:
    buffers = [torch.zeros_like(second) for _ in range(dist.get_world_size())]
    dist.all_gather([buffer.clone() for buffer in buffers], second.detach().contiguous())
    buffers[dist.get_rank()] = second
    return ranked(first, torch.cat(buffers), own(first))


def mean_of_the_passages(first: Tensor, second: Tensor) -> Tensor:
    blocks = _Gather.apply(second).chunk(dist.get_world_size())
    return ranked(first, torch.stack(blocks).mean(0), torch.arange(len(first)))


def constant_and_reversed(first: Tensor, second: Tensor) -> Tensor:
    return ranked(first, torch.cat(constant_rows(second)[::-1]), own(first))


@faulty(
    "blocks of ranks in reverse",
    "The blocks of the ranks are concatenated from the last to the first, and labels count from "
    "the first.",
    LABELS,
    tools=(AUDIT,),
)
def blocks_concatenated_in_reverse(stage: Stage) -> None:
    """People push each new block to the front of a list."""
    stage.audit(reversed_ranks, uneven=False)


@faulty(
    "labels moved by the rank instead of its rows",
    "Labels begin at the rank's number and not at the rank's number times its rows.",
    LABELS,
    tools=(AUDIT,),
)
def labels_begin_at_the_rank(stage: Stage) -> None:
    """People write `rank + arange(batch)`."""
    stage.audit(offset_by_the_rank, uneven=False)


@faulty(
    "mask that hides all other ranks",
    "A mask hides the passages of all other processes, so that gathering them is in vain.",
    NEGATIVES,
    tools=(AUDIT,),
)
def passages_of_other_ranks_masked(stage: Stage) -> None:
    """A mask that was meant to hide copies of the positive."""
    stage.audit(others_hidden, uneven=False)


@faulty(
    "passages shuffled after the gather",
    "Gathered passages are shuffled, and the labels are those of the order before.",
    (*LABELS, r"(?i)shuffl|permut"),
    tools=(AUDIT,),
)
def gathered_passages_shuffled(stage: Stage) -> None:
    """People shuffle candidates against shortcuts by place."""
    stage.audit(shuffled_passages, uneven=False)


@faulty(
    "queries of the backward direction are constants",
    "Passages seek their queries among gathered ones that have no gradient.",
    GRADIENT,
    tools=(AUDIT,),
)
def queries_constant_in_the_second_direction(stage: Stage) -> None:
    """The first direction was mended, the second was forgotten."""
    stage.audit(constant_queries_backwards, uneven=False)


@faulty(
    "gathered into buffers that nobody reads",
    "Rows are gathered into clones, so that those of other processes stay zero.",
    (*NEGATIVES, *GRADIENT, r"(?i)zero|empty|buffer"),
    tools=(AUDIT,),
)
def rows_gathered_into_clones(stage: Stage) -> None:
    """A clone was put in against an error of autograd about changes in place."""
    stage.audit(rows_into_a_copy, uneven=False)


@faulty(
    "embeddings averaged over ranks",
    "The passages of the ranks are averaged row by row as if they were gradients.",
    (*LABELS, *NEGATIVES, r"(?i)averag|\bmean\b|reduc"),
    tools=(AUDIT,),
)
def passages_averaged_over_ranks(stage: Stage) -> None:
    """People use `reduce` where `gather` is meant."""
    stage.audit(mean_of_the_passages, uneven=False)


@faulty(
    "constant passages in reversed blocks",
    "Gathered passages have no gradient, and their blocks stand in another order than the labels.",
    (),
    causes=[list(GRADIENT[:2]), list(LABELS)],
    tools=(AUDIT,),
)
def constant_passages_in_reverse(stage: Stage) -> None:
    """Two slips in one gather."""
    stage.audit(constant_and_reversed, uneven=False)
