"""Faults of losses over several processes, and sound ones."""

from __future__ import annotations

import torch
import torch.distributed as dist
import torch.distributed.nn.functional
import torch.nn.functional as F

from tests.judgement.case import AUDIT, faulty, sound
from tests.judgement.stage import Stage


def _alone() -> bool:
    return not dist.is_initialized() or dist.get_world_size() == 1


def _gathered(rows: torch.Tensor) -> torch.Tensor:
    return torch.cat(list(torch.distributed.nn.functional.all_gather(rows.contiguous())))


def _first(rows: torch.Tensor) -> int:
    """Return the place of this process's first row among those of all."""
    return 0 if _alone() else dist.get_rank() * len(rows)


def own_copy_masked_as_if_alone(anchors: torch.Tensor, positives: torch.Tensor) -> torch.Tensor:
    """NT-Xent over all processes, whose mask of each row's own copy counts from 0."""
    rows = F.normalize(torch.cat([anchors, positives]), dim=-1)
    firsts, seconds = (F.normalize(column, dim=-1) for column in (anchors, positives))
    if not _alone():
        firsts, seconds = _gathered(firsts), _gathered(seconds)
    logits, count, shift = (
        rows @ torch.cat([firsts, seconds]).T / 0.1,
        len(anchors),
        _first(anchors),
    )
    place = torch.arange(count)
    copies = torch.zeros_like(logits, dtype=torch.bool)
    copies[place, place] = True
    copies[place + count, place + len(firsts)] = True
    labels = torch.cat([place + shift + len(firsts), place + shift])
    return F.cross_entropy(logits.masked_fill(copies, -1e4), labels)


def own_copy_masked(anchors: torch.Tensor, positives: torch.Tensor) -> torch.Tensor:
    """NT-Xent over all processes: each row's own copy is masked where it stands."""
    rows = F.normalize(torch.cat([anchors, positives]), dim=-1)
    firsts, seconds = (F.normalize(column, dim=-1) for column in (anchors, positives))
    if not _alone():
        firsts, seconds = _gathered(firsts), _gathered(seconds)
    logits, count, shift = (
        rows @ torch.cat([firsts, seconds]).T / 0.1,
        len(anchors),
        _first(anchors),
    )
    place = torch.arange(count)
    copies = torch.zeros_like(logits, dtype=torch.bool)
    copies[place, place + shift] = True
    copies[place + count, place + shift + len(firsts)] = True
    labels = torch.cat([place + shift + len(firsts), place + shift])
    return F.cross_entropy(logits.masked_fill(copies, -1e4), labels)


def spread_of_own_rows(anchors: torch.Tensor, positives: torch.Tensor) -> torch.Tensor:
    """VICReg whose covariances are of the process's own rows."""
    pull = F.mse_loss(anchors, positives)
    for rows in (anchors, positives):
        centred = rows - rows.mean(0)
        products = centred.T @ centred / (len(rows) - 1)
        pull = pull + F.relu(1 - (rows.var(0) + 1e-4).sqrt()).mean()
        pull = pull + (products.square().sum() - products.diag().square().sum()) / rows.shape[1]
    return pull


def mean_of_triplets_that_count(anchors: torch.Tensor, positives: torch.Tensor) -> torch.Tensor:
    """Triplets with all passages, averaged over those that are above 0 on each process."""
    first, second = F.normalize(anchors, dim=-1), F.normalize(positives, dim=-1)
    candidates = second if _alone() else _gathered(second)
    cosines = first @ candidates.T
    place = torch.arange(len(first))
    own = cosines[place, place + _first(anchors)]
    gaps = F.relu(0.1 + cosines - own[:, None])
    active = (gaps > 0).float()
    active[place, place + _first(anchors)] = 0
    return (gaps * active).sum() / active.sum().clamp(min=1)


@faulty(
    "own copy masked as if there were one process",
    "Each row's copy among the gathered ones is masked at the place that it would have on the "
    "first process: on others a negative is masked and the copy counts as one.",
    [
        r"mask|own (copy|row)|itself|self|\brank\b|offset|place|position|index|label",
        r"wrong (positive|candidate|row)|other sentence|another sentence",
        r"processes? (other than|but) the first|first process",
    ],
    tools=(AUDIT,),
)
def mask_that_counts_from_zero(stage: Stage) -> None:
    """https://github.com/Lightning-Universe/lightning-bolts/issues/179: NT-Xent over processes."""
    stage.audit(own_copy_masked_as_if_alone, uneven=False)


@faulty(
    "statistics of each process by itself",
    "Variances and covariances are of each process's own rows, where the loss is of the whole "
    "batch.",
    [
        r"statistic|varianc|covarianc|mean of|own rows|each process|local|by itself|per process",
        r"not gather|without gather|gather|(rows|negatives) of (the )?other processes|whole batch",
    ],
    tools=(AUDIT,),
)
def covariances_of_own_rows(stage: Stage) -> None:
    """Common: VICReg and Barlow Twins without a reduction of their statistics over processes."""
    stage.audit(spread_of_own_rows, uneven=False)


@faulty(
    "mean over a number of terms that differs between processes",
    "Each process divides by its own number of triplets above 0, and gradients are averaged: "
    "triplets of a process with few of them count more.",
    [
        r"mean|averag|number of|count|divid|normali[sz]|weight|denominator|scal|factor|times",
        r"unequal|uneven|differ.{0,40}(between|from|on) (the )?process",
    ],
    tools=(AUDIT,),
)
def mean_over_own_triplets(stage: Stage) -> None:
    """As with tokens: https://huggingface.co/blog/gradient_accumulation."""
    stage.audit(mean_of_triplets_that_count, uneven=False)


@sound("several processes")
def copies_masked_where_they_stand(stage: Stage) -> None:
    """NT-Xent as SimCLR has it, with gathered rows and gradient."""
    stage.audit(own_copy_masked, uneven=False)
