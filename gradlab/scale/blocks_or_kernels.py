"""Whether a large batch is evaluated plainly, in blocks or by kernels, by measured times.

`gpu_times.toml` holds the milliseconds and MiB of value and gradients on one GPU, which
``python -m tests.gpu --times`` writes. Other GPUs are assumed to rank the ways alike. On a CPU, and
for dtypes that were not measured, blocks are chosen: they take a plain loss's time (1.17 times at
512 sentences) in a fraction of its memory.
"""

from __future__ import annotations

import functools
import math
import tomllib
from importlib import resources
from typing import Any

import torch
from torch import Tensor

from gradlab.losses.base import Loss
from gradlab.scale.matrix_products import tf32_allowed

#: ``"plain"`` holds all similarities at once, ``"blocks"`` those of some rows, ``"kernels"`` none
WAYS = ("plain", "blocks", "kernels")
# A way that takes at most this much more time than the fastest is chosen if it needs less memory.
TIME_TOLERANCE = 1.2
# MiB beyond which all similarities at once are too many, as blocks are for saving memory.
MOST_PLAIN_MIB = 2048.0


def choose_way(loss: Loss, rows: Tensor, *, served: bool) -> str:
    """Return the way of `WAYS` for a batch with these anchors.

    Args:
        loss: the loss; a symmetric one compares in two directions.
        rows: the anchors, (n, D).
        served: whether kernels are available and serve the loss.
    """
    precision = _precision(rows)
    if precision is None:
        return "blocks"
    directions = 2 if any(nested.name == "symmetric" for nested in loss.within) else 1
    return fastest_way(precision, directions, len(rows), served=served)


def fastest_way(precision: str, directions: int, count: int, *, served: bool = True) -> str:
    """Return the way that needs least memory among those whose time is near the shortest.

    The measured number of sentences that is nearest by ratio decides.
    """
    calls = [
        call
        for call in gpu_times()["call"]
        if (call["precision"], call["directions"]) == (precision, directions)
    ]
    nearest = min(calls, key=lambda call: abs(math.log(call["count"] / max(1, count))))
    growth = (count / nearest["count"]) ** 2
    possible = {
        "plain": nearest.get("plain", {}).get("MiB", math.inf) * growth <= MOST_PLAIN_MIB,
        "blocks": True,
        "kernels": served,
    }
    candidates = {way: nearest[way] for way in WAYS if way in nearest and possible[way]}
    shortest = min(measured["ms"] for measured in candidates.values())
    near = [
        way for way, measured in candidates.items() if measured["ms"] <= TIME_TOLERANCE * shortest
    ]
    return min(near, key=lambda way: candidates[way]["MiB"])


@functools.cache
def gpu_times() -> dict[str, Any]:
    """Return the measured times: ``device``, and ``call`` with a row for each case."""
    file = resources.files("gradlab.scale").joinpath("gpu_times.toml")
    return tomllib.loads(file.read_text(encoding="utf-8"))


def _precision(rows: Tensor) -> str | None:
    """Return the precision of products of these rows, as the times name it; None if unmeasured."""
    if not rows.is_cuda:
        return None
    if rows.dtype == torch.float32:
        return "tf32" if tf32_allowed() else "float32"
    return "bfloat16" if rows.dtype == torch.bfloat16 else None
