"""Faults of losses over several processes."""

from __future__ import annotations

import torch
import torch.distributed as dist
import torch.nn.functional as functional
from torch.distributed.nn.functional import all_gather

from tests.judgement.case import AUDIT, faulty
from tests.judgement.stage import Stage


class PaddedGather(torch.nn.Module):
    """Each process gathers all candidates, and keeps the rows of zeros that fill short shares."""

    def forward(self, anchors: torch.Tensor, positives: torch.Tensor) -> torch.Tensor:
        anchors, positives = (functional.normalize(rows, dim=1) for rows in (anchors, positives))
        rows = torch.tensor([len(positives)])
        sizes = [torch.zeros_like(rows) for _ in range(dist.get_world_size())]
        dist.all_gather(sizes, rows)
        most = max(int(size) for size in sizes)
        filled = functional.pad(positives, (0, 0, 0, most - len(positives)))
        candidates = torch.cat(all_gather(filled))
        labels = torch.arange(len(anchors)) + dist.get_rank() * most
        losses = functional.cross_entropy(anchors @ candidates.T / 0.1, labels, reduction="none")
        return losses.sum() * dist.get_world_size() / sum(int(size) for size in sizes)


@faulty(
    "padding rows counted as negatives",
    "Where the last process has fewer rows, its share is filled with rows of zeros before it is "
    "gathered, and these are candidates of all anchors.",
    [
        r"pad|zeros?\b|fill",
        r"(last|short|uneven|unequal|fewer|smaller|ragged).{0,80}(process|batch|rows|share|sentences)",
    ],
    tools=(AUDIT,),
)
def zeros_gathered_with_the_last_batch(stage: Stage) -> None:
    """Common with `all_gather`, which wants tensors of one shape."""
    stage.audit(PaddedGather())
