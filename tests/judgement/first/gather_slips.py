"""Losses over processes: what is gathered, with which gradient, and with which labels.

They need no training: the gradient that processes make together is compared with that of the loss
of all rows on one process.
"""

from __future__ import annotations

import torch
import torch.distributed as dist
import torch.nn.functional as F

from tests.judgement.case import AUDIT, faulty, sound
from tests.judgement.stage import Stage

GRADIENT = (
    r"gradient",
    r"detach",
    r"without grad",
    r"all_gather",
    r"gather",
)
LABELS = (
    r"label",
    r"rank",
    r"offset",
    r"target",
    r"(row|positive)s? of (another|the other|the first|the wrong)",
    r"wrong (row|positive|pair)",
    r"diagonal",
    r"align",
    r"(value|loss) .{0,40}(differ|wrong|not equal)",
)


def _cross_entropy(first: torch.Tensor, second: torch.Tensor, start: int) -> torch.Tensor:
    """InfoNCE of rows among all second rows, of which the own ones begin at ``start``."""
    cosines = F.normalize(first, dim=1) @ F.normalize(second, dim=1).T
    return F.cross_entropy(cosines / 0.05, start + torch.arange(len(first)))


def _detached(rows: torch.Tensor) -> list[torch.Tensor]:
    """Rows of all processes without gradient."""
    gathered = [torch.zeros_like(rows) for _ in range(dist.get_world_size())]
    dist.all_gather(gathered, rows.detach().contiguous())
    return gathered


class _Gather(torch.autograd.Function):
    """Rows of all processes, whose gradient comes back from all."""

    @staticmethod
    def forward(_: object, rows: torch.Tensor) -> torch.Tensor:
        return torch.cat(_detached(rows))

    @staticmethod
    def backward(_: object, gradient: torch.Tensor) -> torch.Tensor:
        gradient = gradient.contiguous().clone()
        dist.all_reduce(gradient)
        return gradient.chunk(dist.get_world_size())[dist.get_rank()]


gathered_rows = _Gather.apply


def negatives_without_gradient(first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
    """Own queries among passages that were gathered without gradient, own ones too."""
    start = dist.get_rank() * len(first)
    return _cross_entropy(first, torch.cat(_detached(second)), start)


def own_passages_only(first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
    """Own queries among passages of which only the own ones have gradient."""
    gathered = _detached(second)
    gathered[dist.get_rank()] = second
    return _cross_entropy(first, torch.cat(gathered), dist.get_rank() * len(first))


def own_rows_first(first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
    """Own passages were put first, and labels count as if they stood in the ranks' order."""
    gathered = list(gathered_rows(second).chunk(dist.get_world_size()))
    own = gathered.pop(dist.get_rank())
    return _cross_entropy(first, torch.cat([own, *gathered]), dist.get_rank() * len(first))


def queries_of_the_first_process(first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
    """Queries were broadcast from the first process, where each needs its own."""
    queries = first.detach().clone()
    dist.broadcast(queries, src=0)
    passages = gathered_rows(second)
    return _cross_entropy(queries, passages, dist.get_rank() * len(first))


def passages_with_gradient(first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
    """Own queries among passages of all processes, gathered with gradient."""
    passages = gathered_rows(second)
    return _cross_entropy(first, passages, dist.get_rank() * len(first))


def both_directions_with_gradient(first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
    """Both directions, each of own rows among those of all processes."""
    there = passages_with_gradient(first, second)
    return (there + passages_with_gradient(second, first)) / 2


@faulty(
    "gathered passages carry no gradient",
    "dist.all_gather returns passages without gradient, so that their encoder learns nothing.",
    GRADIENT,
    tools=(AUDIT,),
)
def passages_gathered_without_gradient(stage: Stage) -> None:
    stage.audit(negatives_without_gradient, uneven=False)


@faulty(
    "gradient of own passages only",
    "Own passages are put back into the gathered ones, but what other processes' queries ask of "
    "them is lost.",
    GRADIENT,
    tools=(AUDIT,),
)
def gradient_to_own_passages_only(stage: Stage) -> None:
    stage.audit(own_passages_only, uneven=False)


@faulty(
    "own rows first, labels in the ranks' order",
    "Own passages stand first among the gathered ones, while labels count in the order of ranks.",
    (*LABELS, r"order"),
    tools=(AUDIT,),
)
def own_passages_before_the_others(stage: Stage) -> None:
    stage.audit(own_rows_first, uneven=False)


@faulty(
    "queries broadcast from the first process",
    "The first process's queries replace those of all, without gradient.",
    (*LABELS, *GRADIENT, r"broadcast"),
    tools=(AUDIT,),
)
def queries_replaced_by_those_of_one_process(stage: Stage) -> None:
    stage.audit(queries_of_the_first_process, uneven=False)


@sound("audit of one direction")
def own_queries_among_all_passages(stage: Stage) -> None:
    stage.audit(passages_with_gradient, uneven=False)


@sound("audit of both directions")
def own_rows_among_all_in_both_directions(stage: Stage) -> None:
    stage.audit(both_directions_with_gradient, uneven=False)
