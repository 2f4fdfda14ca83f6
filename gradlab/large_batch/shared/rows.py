"""The rows that a process brings to a batch of several."""

from __future__ import annotations

import dataclasses
from typing import Any

import torch

from gradlab.errors import GradlabError
from gradlab.geometry.check import check_views
from gradlab.geometry.views import Views
from gradlab.large_batch.shared.processes import Processes


def check_share(
    ring: Processes,
    given: tuple[Any, ...],
    context: dict[str, Any],
    *,
    normalize: bool,
    in_batch_negatives: bool,
) -> Views:
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
    if context.get("mask") is not None:
        raise GradlabError(
            "mask= says nothing of pairs across processes; use mask(by=near_duplicates), mask(by=guide) or mask(by=pairs)"
        )
    rows = [_upcast(part) for part in given]
    if extra is not None and not len(extra):
        extra = None
    if extra is None:  # there may be negatives on other processes only
        rows[2] = rows[1] if len(anchors) == 1 or not in_batch_negatives else None
        context = {**context, "owners": None}
    views = check_views(*rows, normalize=normalize, in_batch_negatives=in_batch_negatives, **context)
    return views if extra is not None else dataclasses.replace(views, extra_negatives=None)


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
        "guide": views.guide is not None,
        "numbers of sentences": views.sentences is not None,
    }


def _upcast(rows: Any) -> Any:
    half = rows is not None and rows.dtype in (torch.bfloat16, torch.float16)
    return rows.float() if half else rows
