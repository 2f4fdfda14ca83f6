"""Losses over processes, by hand: labels, negatives, shares and statistics of each process."""

from __future__ import annotations

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor

from tests.judgement.case import AUDIT, faulty
from tests.judgement.first.gather_slips import gathered_rows, passages_with_gradient
from tests.judgement.first.turns import cosines, infonce
from tests.judgement.stage import Stage

SCALE = (
    r"(?i)scale|factor|times|world|divid|multipl|averag|half|twice|doubl|larger|smaller|"
    r"number of (processes|ranks|gpus)",
)
LABELS = (
    r"(?i)label|rank|offset|target|diagonal|align|order|wrong (row|positive|pair)|"
    r"positives? .{0,60}(another|first|other|not)",
)


def unshifted(first: Tensor, second: Tensor) -> Tensor:
    logits = cosines(first, gathered_rows(second)) / 0.05
    return F.cross_entropy(logits, torch.arange(len(first)))


def divided(first: Tensor, second: Tensor) -> Tensor:
    return passages_with_gradient(first, second) / dist.get_world_size()


def standard(first: Tensor, second: Tensor) -> Tensor:
    rows = [(side - side.mean(0)) / (side.std(0) + 1e-4) for side in (first, second)]
    return passages_with_gradient(*rows)


@faulty(
    "labels without the offset of the process",
    "Passages of all processes are gathered, and labels count from 0 on each process: those of "
    "the second point at the first one's passages.",
    LABELS,
    tools=(AUDIT,),
)
def labels_from_zero_on_every_process(stage: Stage) -> None:
    """Everyday: `torch.arange(len(anchors))` after a gather."""

    stage.audit(unshifted, uneven=False)


@faulty(
    "negatives of the own process only",
    "Nothing is gathered: each process ranks its passages among its own, so that a batch over "
    "two processes has half the negatives of the same batch on one.",
    [
        r"(?i)gather|negative|candidate|local|own (rows|passages|process|batch)",
        r"(?i)(rows|passages|processes).{0,60}(not (seen|used|compared)|separate|apart|alone|"
        r"ignored|missing)",
    ],
    tools=(AUDIT,),
)
def ranking_within_each_process(stage: Stage) -> None:
    """Everyday: the loss of one GPU is moved to several as it is."""
    stage.audit(infonce, uneven=False)


@faulty(
    "loss divided by the number of processes once too often",
    "The loss of each process is divided by the number of processes, and the average over "
    "processes divides gradients again: they are half of what they are on one.",
    SCALE,
    tools=(AUDIT,),
)
def loss_divided_by_the_number_of_processes(stage: Stage) -> None:
    """Common: both the loop and DistributedDataParallel average."""

    stage.audit(divided, uneven=False)


@faulty(
    "statistics of the own process",
    "Embeddings are standardised by the mean and deviation of the process's own rows: the loss of "
    "rows depends on which process they lie on.",
    [
        r"(?i)statistic|mean|deviation|variance|standardi[sz]|normali[sz]|batch.?norm|sync|cent(re|er)",
        r"(?i)local|own (rows|process|batch)|not gathered|gather",
        r"(?i)(depends?|differ).{0,60}(process|rank|split)",
    ],
    tools=(AUDIT,),
)
def rows_standardised_within_each_process(stage: Stage) -> None:
    """Common: BatchNorm in a head without SyncBatchNorm, in Barlow Twins or VICReg."""

    stage.audit(standard, uneven=False)
