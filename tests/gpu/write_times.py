"""Writes the times by which `gradlab.blockwise` chooses a way, from the results of this check."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

from tests.gpu.speed import MOST, SIZES

CASES = {
    "plain": "plain torch",
    "blocks": "gradlab.blockwise",
    "kernels": "gradlab.blockwise by kernels",
}


def times(results: Mapping[str, Any]) -> str:
    """Return the content of ``gradlab/scale/gpu_times.toml``."""
    lines = [
        "# Milliseconds and MiB of InfoNCE with both gradients, D = 768, in one direction or both,",
        "# by `python -m tests.gpu --times`. Rows of bfloat16 are multiplied in TF32 by a plain",
        "# loss, whose times are those of plain torch in TF32 if it was not measured itself.",
        f'device = "{results["device"]["device"]}"',
    ]
    for precision, directions, count in itertools.product(MOST, (1, 2), SIZES):
        measured = {
            way: row
            for way in CASES
            if (row := _measured(results, way, precision, directions, count)) is not None
        }
        if "blocks" in measured:
            lines += [
                "",
                "[[call]]",
                f'precision = "{precision}"',
                f"directions = {directions}",
                f"count = {count}",
                *(
                    f"{way} = {{ ms = {ms:.4g}, MiB = {mib:.4g} }}"
                    for way, (ms, mib) in measured.items()
                ),
            ]
    return "\n".join([*lines, ""])


def _measured(
    results: Mapping[str, Any], way: str, precision: str, directions: int, count: int
) -> tuple[float, float] | None:
    """Return milliseconds and MiB, or None if the case has none."""
    prefix = "symmetric: " if directions == 2 else ""
    names = [f"{prefix}{CASES[way]}"]
    if way == "plain":
        names.insert(0, f"{prefix}gradlab.blockwise, plain")
        precision = "tf32" if precision == "bfloat16" else precision
    for name in names:
        case = results["cases"].get(f"loss/N={count} D=768 {precision} {name}", {})
        if "MiB" in case:
            return 1000 * case["seconds"], case["MiB"]
    return None
