"""Losses over processes: labels of one process, passages of others as constants."""

from __future__ import annotations

import torch
import torch.distributed as dist
import torch.nn.functional as F

from tests.judgement.case import AUDIT, faulty
from tests.judgement.stage import Stage

LOST = (
    r"gather", r"gradient.{0,80}(lost|missing|lack|no\b|not|part|drop|cut|wrong|differ|detach)",
    r"(no|without|lost|missing|lacks?) .{0,30}gradient", r"detach", r"autograd",
    r"other process", r"(process|rank)(es|s)?.{0,60}(gradient|differ)", r"\ball_gather\b",
)  # fmt: skip
LABELS = (
    r"label", r"offset", r"rank", r"target",
    r"(positive|partner|diagonal).{0,80}(wrong|other|first)",
    r"(own|other|another|first) process", r"loss.{0,80}(differ|wrong|larger|not equal|not the)",
    r"(value|loss) (differs|is not)", r"gather",
)  # fmt: skip


def _gathered(rows: torch.Tensor) -> torch.Tensor:
    """Rows of all processes without a gradient."""
    shares = [torch.zeros_like(rows) for _ in range(dist.get_world_size())]
    dist.all_gather(shares, rows.detach().contiguous())
    return torch.cat(shares)


def _with_own(rows: torch.Tensor) -> torch.Tensor:
    """Rows of all processes, of which the process's own have a gradient."""
    gathered, start = _gathered(rows), dist.get_rank() * len(rows)
    return torch.cat([gathered[:start], rows, gathered[start + len(rows) :]])


def _logits(first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
    return 20 * F.normalize(first, dim=1) @ F.normalize(second, dim=1).T


def positives_of_the_first(first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
    """InfoNCE among all passages, with labels from 0."""
    from torch.distributed.nn.functional import all_gather

    passages = torch.cat(all_gather(second))
    return F.cross_entropy(_logits(first, passages), torch.arange(len(first)))


def negatives_of_others_as_constants(first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
    """InfoNCE among all passages, of which only the own ones have a gradient."""
    labels = torch.arange(len(first)) + dist.get_rank() * len(first)
    return F.cross_entropy(_logits(first, _with_own(second)), labels)


@faulty(
    "labels of the first process on all",
    "Passages of all processes are gathered, and each process counts its labels from 0: on the "
    "second, a question's partner is a passage of the first.",
    LABELS,
    tools=(AUDIT,),
)
def labels_counted_from_zero(stage: Stage) -> None:
    stage.audit(positives_of_the_first)


@faulty(
    "own rows put back, those of others constant",
    "Each process scores its own questions against all passages, of which only its own have a "
    "gradient: what a passage does as a negative elsewhere never reaches it.",
    LOST,
    tools=(AUDIT,),
)
def passages_of_others_as_constants(stage: Stage) -> None:
    stage.audit(negatives_of_others_as_constants)
