"""The rows that a process brings to a batch of several."""

from __future__ import annotations

from typing import Any

import torch

from gradlab.errors import GradlabError
from gradlab.geometry.check import check_views
from gradlab.geometry.views import Views
from gradlab.large_batch.ring import Ring


def check_share(ring: Ring, given: tuple[Any, ...], *, normalize: bool, in_batch_negatives: bool) -> Views:
    """Check a process's anchors, positives and extra negatives; half precision becomes float32.

    Raises:
        GradlabError: see `gradlab.geometry.check.check_views`; no tensors; tensors that the processes cannot send.
    """
    anchors, _, extra = given
    for rows in given:
        if rows is not None and not isinstance(rows, torch.Tensor):
            raise GradlabError(f"group= takes torch tensors, not {type(rows).__name__}")
    if len(anchors) == 0:
        raise GradlabError(
            f"there are no rows on it; a batch needs at least one sentence on each of {ring.count} processes"
        )
    if anchors.is_cuda != ring.carries_cuda:
        raise GradlabError(
            "CUDA tensors travel over NCCL, those of a CPU over gloo; this group has "
            f"{'NCCL' if ring.carries_cuda else 'gloo'} and the rows are on {anchors.device}"
        )
    rows = [_upcast(part) for part in given]
    if extra is not None and not len(extra):
        extra = None
    if extra is None:  # there may be negatives on other processes only
        rows[2] = rows[1]
    views = check_views(*rows, normalize=normalize, in_batch_negatives=in_batch_negatives)
    kept = None if extra is None else views.extra_negatives
    return Views(views.anchors, views.positives, kept, in_batch_negatives)


def describe_share(views: Views | None) -> dict[str, Any]:
    """What processes must have in common, and how many rows this one has."""
    if views is None:
        return {}
    extra = views.extra_negatives
    return {
        "dtype": str(views.anchors.dtype).removeprefix("torch."),
        "dimensions": views.anchors.shape[1],
        "own anchors": views.anchors.shape[0],
        "own extra negatives": 0 if extra is None else extra.shape[0],
    }


def _upcast(rows: Any) -> Any:
    half = rows is not None and rows.dtype in (torch.bfloat16, torch.float16)
    return rows.float() if half else rows
