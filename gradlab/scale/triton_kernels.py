"""Triton kernels for log-sum-exps of rows and for the coefficients of their gradients.

In the first, a program owns some rows and loops over all columns; cosines stay in registers. In the
second, it owns a tile of coefficients, for which it computes the cosines again. No two programs
write to the same place, so that results do not depend on their order. Without a GPU, Triton's
interpreter runs both (``TRITON_INTERPRET=1``).
"""

from __future__ import annotations

import functools
import linecache
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from gradlab.scale.products import tf32_allowed

# Tile size (rows, columns), dimensions multiplied at a time, warps and stages: the fastest of a few
# on an NVIDIA H100 at N = 16,384, D = 768. `SMALL`, not measured, is for less shared memory.
HALF = {"ROWS": 128, "COLUMNS": 256, "DEPTH": 64, "num_warps": 8, "num_stages": 3}
TF32 = {"ROWS": 64, "COLUMNS": 256, "DEPTH": 32, "num_warps": 8, "num_stages": 3}
FLOAT32 = {"ROWS": 64, "COLUMNS": 128, "DEPTH": 16, "num_warps": 8, "num_stages": 2}
SMALL = {"ROWS": 64, "COLUMNS": 128, "DEPTH": 32, "num_warps": 4, "num_stages": 2}
SHARED_BYTES = 150_000  # that tiles of `HALF` take on an H100

# The log-sum-exps of rows, and the derivatives of the loss with respect to them; both (n,).
Softmax = tuple[Tensor, Tensor]


def log_sum_exps(rows: Tensor, columns: Tensor, own: int | None, link: str) -> Tensor:
    """Return ``log Σ_j exp φ(h_i · h_j)`` of each row, (n,), float32.

    Args:
        rows: (n, D), contiguous, float32 (rounded to TF32 if that is allowed), bfloat16 or float16.
        columns: (k, D), of the same dtype.
        own: leave out column ``i + own`` of row i; None leaves out none.
        link: source of φ, see `gradlab.scale.links`.
    """
    sums = torch.full_like(rows[:, 0], -torch.inf, dtype=torch.float32)
    if len(rows) and len(columns):
        common = _common(rows, columns, own, link)
        with torch.cuda.device_of(rows):
            _log_sum_exps[(triton.cdiv(len(rows), common["ROWS"]),)](sums, rows, columns, **common)
    return sums


def coefficients(
    rows: Tensor,
    columns: Tensor,
    own: int | None,
    link: str,
    by_rows: Softmax | None,
    by_columns: Softmax | None,
) -> Tensor:
    """Return ``c_ij = (u_i exp(φ - l_i) + u_j exp(φ - l_j)) φ'``, (n, k).

    They are the factors of ``h_j`` in the gradient of ``h_i``: bfloat16 for bfloat16 rows, else
    float32; float16 could not represent small ones.

    Args:
        rows, columns, own, link: see `log_sum_exps`.
        by_rows: l and u of the rows' softmaxes, or None.
        by_columns: l and u of the columns' softmaxes, or None.
    """
    half = rows.dtype == torch.bfloat16
    factors = rows.new_empty(
        len(rows), len(columns), dtype=torch.bfloat16 if half else torch.float32
    )
    if factors.numel():
        nothing: Softmax = (factors, factors)  # placeholders that the kernel does not read
        common = _common(rows, columns, own, link)
        tiles = triton.cdiv(len(rows), common["ROWS"]), triton.cdiv(len(columns), common["COLUMNS"])
        with torch.cuda.device_of(rows):
            _coefficients[tiles](
                factors,
                rows,
                columns,
                *(by_rows or nothing),
                *(by_columns or nothing),
                BY_ROWS=by_rows is not None,
                BY_COLUMNS=by_columns is not None,
                ROUND=not half and (rows.dtype == torch.float16 or common["PRECISION"] == "tf32"),
                **common,
            )
    return factors


def _common(rows: Tensor, columns: Tensor, own: int | None, link: str) -> dict[str, Any]:
    tf32 = tf32_allowed()
    return {
        "n": len(rows),
        "k": len(columns),
        "D": rows.shape[1],
        "own": 0 if own is None else own,
        "OWN": own is not None,
        "LINK": _function(link),
        "PRECISION": "tf32" if tf32 else "ieee",
        **_tiles(rows, tf32),
    }


def _tiles(rows: Tensor, tf32: bool) -> dict[str, int]:
    if rows.dtype == torch.float32 and not tf32:
        return FLOAT32
    if rows.is_cuda:
        device = torch.cuda.get_device_properties(rows.device)
        if device.shared_memory_per_block_optin < SHARED_BYTES:  # type: ignore[attr-defined]  # stubs lack it
            return SMALL
    return TF32 if rows.dtype == torch.float32 else HALF


@functools.cache
def _function(source: str) -> Any:
    """Compile a Triton function from source, which Triton reads through ``linecache``."""
    name = f"<link {len(linecache.cache)}>"
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    space: dict[str, Any] = {"tl": tl, "__name__": __name__}
    exec(compile(source, name, "exec"), space)
    return triton.jit(space["link"])


@triton.jit
def _vectors(start, i, d, count, D):
    """Load dimensions d of the vectors i, (len(i), DEPTH); entries outside the array are 0."""
    inside = (i[:, None] < count) & (d[None, :] < D)
    return tl.load(start + i[:, None].to(tl.int64) * D + d[None, :], mask=inside, other=0.0)


@triton.jit
def _cosines(
    rows, columns, i, j, n, k, D,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, DEPTH: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    tile = tl.zeros((ROWS, COLUMNS), tl.float32)
    for first in range(0, D, DEPTH):
        d = first + tl.arange(0, DEPTH)
        left, right = _vectors(rows, i, d, n, D), _vectors(columns, j, d, k, D)
        tile = tl.dot(left, tl.trans(right), tile, input_precision=PRECISION)
    return tile


@triton.jit
def _counted(i, j, n, k, own, OWN: tl.constexpr):
    counted = (i[:, None] < n) & (j[None, :] < k)
    if OWN:
        counted = counted & (j[None, :] != i[:, None] + own)
    return counted


@triton.jit
def _to_tf32(x):
    """Round to the ten mantissa bits of TF32, because tensor cores would truncate to them."""
    return ((x.to(tl.int32, bitcast=True) + 0x1000) & -0x2000).to(tl.float32, bitcast=True)


@triton.jit
def _log_sum_exps(
    destination, rows, columns, n, k, D, own,
    OWN: tl.constexpr, LINK: tl.constexpr, PRECISION: tl.constexpr,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, DEPTH: tl.constexpr,
):  # fmt: skip
    i = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    largest = tl.full((ROWS,), float("-inf"), tl.float32)
    total = tl.zeros((ROWS,), tl.float32)
    for first in range(0, k, COLUMNS):
        j = first + tl.arange(0, COLUMNS)
        logit, _ = LINK(_cosines(rows, columns, i, j, n, k, D, ROWS, COLUMNS, DEPTH, PRECISION))
        logit = tl.where(_counted(i, j, n, k, own, OWN), logit, float("-inf"))
        larger = tl.maximum(largest, tl.max(logit, 1))
        shift = tl.where(larger == float("-inf"), 0.0, larger)  # -inf: no column was counted yet
        total = total * tl.exp(largest - shift) + tl.sum(tl.exp(logit - shift[:, None]), 1)
        largest = larger
    tl.store(destination + i, largest + tl.log(total), mask=i < n)


@triton.jit
def _coefficients(
    destination, rows, columns, total_i, upstream_i, total_j, upstream_j, n, k, D, own,
    BY_ROWS: tl.constexpr, BY_COLUMNS: tl.constexpr, ROUND: tl.constexpr,
    OWN: tl.constexpr, LINK: tl.constexpr, PRECISION: tl.constexpr,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, DEPTH: tl.constexpr,
):  # fmt: skip
    i = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    j = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    logit, slope = LINK(_cosines(rows, columns, i, j, n, k, D, ROWS, COLUMNS, DEPTH, PRECISION))
    share = tl.zeros((ROWS, COLUMNS), tl.float32)
    if BY_ROWS:
        total = tl.load(total_i + i, mask=i < n, other=0.0)[:, None]
        share += tl.exp(logit - total) * tl.load(upstream_i + i, mask=i < n, other=0.0)[:, None]
    if BY_COLUMNS:
        total = tl.load(total_j + j, mask=j < k, other=0.0)[None, :]
        share += tl.exp(logit - total) * tl.load(upstream_j + j, mask=j < k, other=0.0)[None, :]
    coefficient = tl.where(_counted(i, j, n, k, own, OWN), share * slope, 0.0)
    if ROUND:
        coefficient = _to_tf32(coefficient)
    place = destination + i[:, None].to(tl.int64) * k + j[None, :]
    tl.store(
        place,
        coefficient.to(destination.dtype.element_ty),
        mask=(i[:, None] < n) & (j[None, :] < k),
    )
