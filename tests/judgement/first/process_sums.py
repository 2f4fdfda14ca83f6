"""Losses over processes whose sums, rows or gradients do not make up that of one process."""

from __future__ import annotations

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor

from tests.judgement.case import AUDIT, faulty
from tests.judgement.first.gather_slips import GRADIENT, gathered_rows
from tests.judgement.stage import Stage

VALUE = (
    r"(?i)(loss|value)s?.{0,60}(differ|wrong|not equal|unequal|larger|smaller|times|other)",
    r"(?i)(gradient)s?.{0,60}(differ|wrong|not equal|larger|smaller|times|other|factor)",
)
ROWS = (
    r"(?i)label|target|rank|offset|negative|wrong (row|positive|pair)|align",
    *VALUE,
)


def _logits(first: Tensor, second: Tensor, scale: float = 20) -> Tensor:
    return scale * F.normalize(first, dim=1) @ F.normalize(second, dim=1).T


def _own(rows: Tensor) -> Tensor:
    """Places of a process's rows among those of all."""
    return dist.get_rank() * len(rows) + torch.arange(len(rows))


def _constant(rows: Tensor) -> list[Tensor]:
    gathered = [torch.zeros_like(rows) for _ in range(dist.get_world_size())]
    dist.all_gather(gathered, rows.detach().contiguous())
    return gathered


class _Unreduced(torch.autograd.Function):
    """A gather whose backward pass forgets what other processes ask of the own rows."""

    @staticmethod
    def forward(_: object, rows: Tensor) -> Tensor:
        return torch.cat(_constant(rows))

    @staticmethod
    def backward(_: object, gradient: Tensor) -> Tensor:
        return gradient.chunk(dist.get_world_size())[dist.get_rank()].contiguous()


def unreduced(first: Tensor, second: Tensor) -> Tensor:
    return F.cross_entropy(_logits(first, _Unreduced.apply(second)), _own(first))


@faulty(
    "backward pass of a gather without a reduction",
    "The gather's own backward pass returns the slice of the own rows without adding up what the "
    "other processes' losses ask of them.",
    (*GRADIENT, r"(?i)reduc"),
    tools=(AUDIT,),
)
def gather_without_reduction(stage: Stage) -> None:
    """The GatherLayer of SimCLR copies without its all_reduce."""
    stage.audit(unreduced, uneven=False)


def cooled(first: Tensor, second: Tensor) -> Tensor:
    logits = _logits(first, gathered_rows(second), 20 / dist.get_world_size())
    return F.cross_entropy(logits, _own(first))


@faulty(
    "scale divided by the number of processes",
    "The scale of the cosines is divided by the number of processes: a run on more processes has "
    "another temperature.",
    (r"(?i)scale|temperature", *VALUE),
    tools=(AUDIT,),
)
def scale_divided_by_processes(stage: Stage) -> None:
    """A mean over processes put into the logits in place of the loss."""
    stage.audit(cooled, uneven=False)


def summed(first: Tensor, second: Tensor) -> Tensor:
    passages = second.detach().clone()
    dist.all_reduce(passages)
    passages = second + (passages - second.detach())
    return F.cross_entropy(_logits(first, passages), torch.arange(len(first)))


@faulty(
    "embeddings added up over processes",
    "all_reduce adds the passages of all processes row by row where all_gather would line them up.",
    (r"(?i)all_?reduce|\bsum|added|mix|gather", *ROWS),
    tools=(AUDIT,),
)
def embeddings_added_up(stage: Stage) -> None:
    """`all_reduce` mistaken for `all_gather`."""
    stage.audit(summed, uneven=False)


def next_process(first: Tensor, second: Tensor) -> Tensor:
    blocks = list(gathered_rows(second).chunk(dist.get_world_size()))
    blocks = blocks[1:] + blocks[:1]
    return F.cross_entropy(_logits(first, torch.cat(blocks)), _own(first))


@faulty(
    "passages of the next process as positives",
    "The gathered blocks are turned on by one: each process takes the next one's passages for its "
    "own.",
    ROWS,
    tools=(AUDIT,),
)
def passages_of_the_next_process(stage: Stage) -> None:
    """Exchanges in a ring that count one turn too many."""
    stage.audit(next_process, uneven=False)


def others_only(first: Tensor, second: Tensor) -> Tensor:
    logits = _logits(first, gathered_rows(second))
    rows, places = torch.arange(len(first)), _own(first)
    mask = torch.zeros_like(logits, dtype=torch.bool)
    mask[:, places] = True
    mask[rows, places] = False
    return F.cross_entropy(logits.masked_fill(mask, -1e4), places)


@faulty(
    "own batch left out of the negatives",
    "Only other processes' passages serve as negatives; those of the own batch are masked.",
    (r"(?i)mask|left out|missing|own (batch|rows|negative|passage)", *ROWS),
    tools=(AUDIT,),
)
def own_batch_masked(stage: Stage) -> None:
    """A mask against counting the positive twice, over the whole own block."""
    stage.audit(others_only, uneven=False)


def divided(first: Tensor, second: Tensor) -> Tensor:
    loss = F.cross_entropy(_logits(first, gathered_rows(second)), _own(first))
    return loss / dist.get_world_size()


@faulty(
    "loss divided by processes though gradients are averaged",
    "The loss is divided by the number of processes, whose gradients are averaged anyway.",
    (r"(?i)divid|averag|half|0\.5|factor", *VALUE),
    tools=(AUDIT,),
)
def loss_divided_by_processes(stage: Stage) -> None:
    """A mean over processes by hand, and that of DistributedDataParallel."""
    stage.audit(divided, uneven=False)


def one_direction(first: Tensor, second: Tensor) -> Tensor:
    one_way = F.cross_entropy(_logits(first, gathered_rows(second)), _own(first))
    return (one_way + F.cross_entropy(_logits(second, first), torch.arange(len(first)))) / 2


@faulty(
    "second direction among own questions only",
    "Questions are sought among all passages, and passages among the own questions only.",
    (r"(?i)gather|\bown\b|local|direction", *ROWS),
    tools=(AUDIT,),
)
def second_direction_ungathered(stage: Stage) -> None:
    """A gather added to one of two symmetric terms."""
    stage.audit(one_direction, uneven=False)


def as_objects(first: Tensor, second: Tensor) -> Tensor:
    gathered = [None] * dist.get_world_size()
    dist.all_gather_object(gathered, second.detach())
    return F.cross_entropy(_logits(first, torch.cat(gathered)), _own(first))


@faulty(
    "passages sent as objects",
    "all_gather_object sends copies of the passages, which have no gradient.",
    (*GRADIENT, r"(?i)object|cop(y|ies)|constant"),
    tools=(AUDIT,),
)
def passages_sent_as_objects(stage: Stage) -> None:
    """Chosen because it takes tensors of unlike lengths."""
    stage.audit(as_objects, uneven=False)


def of_the_first(first: Tensor, second: Tensor) -> Tensor:
    negatives = gathered_rows(second).chunk(dist.get_world_size())[0]
    logits = _logits(first, torch.cat([second, negatives]))
    return F.cross_entropy(logits, torch.arange(len(first)))


@faulty(
    "negatives of the first process for all",
    "All processes take the first one's passages as further negatives, which are its own again "
    "there: each of its positives is among its negatives.",
    (r"(?i)first process|rank 0|duplicat|twice|false negative", *ROWS),
    tools=(AUDIT,),
)
def negatives_of_the_first_process(stage: Stage) -> None:
    """Negatives shared from rank 0."""
    stage.audit(of_the_first, uneven=False)


def constant_from_zero(first: Tensor, second: Tensor) -> Tensor:
    logits = _logits(first, torch.cat(_constant(second)))
    return F.cross_entropy(logits, torch.arange(len(first)))


@faulty(
    "constant passages and labels from zero",
    "Passages are gathered without gradient, and labels begin at 0 on each process.",
    (),
    causes=[GRADIENT, (r"(?i)label|target|rank|offset|wrong (row|positive|pair)|align|diagonal",)],
    tools=(AUDIT,),
)
def constant_passages_and_labels_from_zero(stage: Stage) -> None:
    """Both slips of the first version that is written for several processes."""
    stage.audit(constant_from_zero, uneven=False)
