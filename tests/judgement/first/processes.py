"""Faults of losses on several processes, and a sound one."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.distributed as dist
import torch.distributed.nn.functional
import torch.nn.functional as F

from tests.judgement.case import AUDIT, faulty, sound
from tests.judgement.stage import Stage

PLACE = (
    r"wrong positive",
    r"label",
    r"another sentence",
    r"order",
    r"place",
    r"column",
    r"interleav",
)
TIMES = (
    r"number of processes",
    r"times",
    r"\bfactor\b",
    r"multipl",
    r"scal",
    r"(half|twice|double)",
    r"/ ?P\b",
    r"world_size",
)


def _alone() -> bool:
    return not dist.is_initialized() or dist.get_world_size() == 1


def _gathered(rows: torch.Tensor) -> list[torch.Tensor]:
    return list(torch.distributed.nn.functional.all_gather(rows.contiguous()))


def _with_own_gradient(rows: torch.Tensor) -> torch.Tensor:
    """Rows of all processes, of which this one's own have a gradient."""
    parts = [torch.empty_like(rows) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, rows.detach().contiguous())
    parts[dist.get_rank()] = rows
    return torch.cat(parts)


# https://github.com/huggingface/sentence-transformers/pull/3453: PNPN gathered, PPNN expected.
def columns_in_turn(
    anchors: torch.Tensor, positives: torch.Tensor, negatives: torch.Tensor
) -> torch.Tensor:
    """Gathers positives with negatives of each process, and counts labels as if positives led."""
    labels, rows = torch.arange(len(anchors)), torch.cat([positives, negatives])
    if not _alone():
        rows = torch.cat(_gathered(rows))
        labels = labels + dist.get_rank() * len(anchors)
    return F.cross_entropy(anchors @ rows.T / 0.1, labels)


# https://github.com/princeton-nlp/SimCSE/issues/212, https://github.com/ShiqiYu/OpenGait/issues/36
def whole_loss_on_each_process(anchors: torch.Tensor, positives: torch.Tensor) -> torch.Tensor:
    """Takes the loss of all rows, of which only its own have a gradient: averages divide it."""
    if not _alone():
        anchors, positives = map(_with_own_gradient, (anchors, positives))
    return F.cross_entropy(anchors @ positives.T / 0.1, torch.arange(len(anchors)))


# https://github.com/texttron/tevatron/issues/143: loss * world_size with a mean over processes.
def multiplied_by_processes(anchors: torch.Tensor, positives: torch.Tensor) -> torch.Tensor:
    """Gathers with gradient, and multiplies the loss by the number of processes all the same."""
    labels, factor = torch.arange(len(anchors)), 1
    if not _alone():
        positives = torch.cat(_gathered(positives))
        labels, factor = labels + dist.get_rank() * len(anchors), dist.get_world_size()
    return factor * F.cross_entropy(anchors @ positives.T / 0.1, labels)


# https://github.com/Haochen-Wang409/U2PL/issues/16: the loss itself is reduced over processes.
def reduced_before_backward(anchors: torch.Tensor, positives: torch.Tensor) -> torch.Tensor:
    """Gathers with gradient, and sums the loss over processes with a gradient."""
    labels = torch.arange(len(anchors))
    if _alone():
        return F.cross_entropy(anchors @ positives.T / 0.1, labels)
    rows = torch.cat(_gathered(positives))
    loss = F.cross_entropy(anchors @ rows.T / 0.1, labels + dist.get_rank() * len(anchors))
    return torch.distributed.nn.functional.all_reduce(loss)


def hard_negatives_of_one_process(
    anchors: torch.Tensor, positives: torch.Tensor, negatives: torch.Tensor
) -> torch.Tensor:
    """Gathers positives and keeps hard negatives to itself."""
    labels = torch.arange(len(anchors))
    if not _alone():
        positives = torch.cat(_gathered(positives))
        labels = labels + dist.get_rank() * len(anchors)
    return F.cross_entropy(anchors @ torch.cat([positives, negatives]).T / 0.1, labels)


def both_columns_gathered(anchors: torch.Tensor, positives: torch.Tensor) -> torch.Tensor:
    """Gathers both columns with gradient, and takes the loss of all rows on each process."""
    if not _alone():
        anchors, positives = (torch.cat(_gathered(rows)) for rows in (anchors, positives))
    return F.cross_entropy(anchors @ positives.T / 0.1, torch.arange(len(anchors)))


def _audit(stage: Stage, loss: Callable[..., torch.Tensor], columns: int = 2) -> None:
    stage.audit(loss, columns=columns, uneven=False)


@faulty(
    "order of gathered columns",
    "Positives and negatives of each process are gathered in turn, "
    "and labels are counted as if all positives came first.",
    PLACE,
    tools=(AUDIT,),
)
def positives_and_negatives_gathered_in_turn(stage: Stage) -> None:
    _audit(stage, columns_in_turn, 3)


@faulty(
    "whole loss on each process",
    "Each process takes the whole loss with a gradient of its own "
    "rows, which the average over processes divides.",
    TIMES,
    tools=(AUDIT,),
)
def whole_loss_with_own_gradients(stage: Stage) -> None:
    _audit(stage, whole_loss_on_each_process)


@faulty(
    "multiplied by processes",
    "The loss is multiplied by the number of processes, though rows are gathered with gradient.",
    TIMES,
    tools=(AUDIT,),
)
def loss_times_the_number_of_processes(stage: Stage) -> None:
    _audit(stage, multiplied_by_processes)


@faulty(
    "multiplied by processes",
    "The loss is summed over processes before the backward pass.",
    (*TIMES, r"reduc", r"sum"),
    tools=(AUDIT,),
)
def loss_summed_over_processes(stage: Stage) -> None:
    _audit(stage, reduced_before_backward)


@faulty(
    "hard negatives left ungathered",
    "Positives are gathered, hard negatives are not.",
    (
        r"not gather",
        r"own (rows|negatives|sentences|batch)",
        r"other process",
        r"missing",
        r"fewer",
        r"local",
        r"hard negative",
    ),
    tools=(AUDIT,),
)
def hard_negatives_kept_by_each_process(stage: Stage) -> None:
    _audit(stage, hard_negatives_of_one_process, 3)


@sound("several processes")
def loss_of_both_gathered_columns(stage: Stage) -> None:
    """Gathering with gradient sums over processes what the average then divides."""
    _audit(stage, both_columns_gathered)
