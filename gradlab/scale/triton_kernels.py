"""Triton kernels for log-sum-exps of rows and for their gradients; cosines stay in registers.

A program owns some rows, loops over all columns and writes only to its rows, so that results do not depend on
the order of programs. The second kernel computes the cosines again; launched with rows and columns exchanged,
it gives the columns' gradients. Without a GPU, Triton's interpreter runs both (``TRITON_INTERPRET=1``).
"""

from __future__ import annotations

import functools
import linecache
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

# Tile size (rows, columns), dimensions multiplied at a time, and warps: the largest tiles that compile for
# compute capabilities 8.0 and 9.0 with almost no register spilling. They were not measured on a GPU.
TENSOR_CORES = {"ROWS": 128, "COLUMNS": 128, "DEPTH": 32, "num_warps": 8, "num_stages": 2}
PLAIN_CORES = {"ROWS": 64, "COLUMNS": 64, "DEPTH": 16, "num_warps": 4, "num_stages": 2}

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
    found = torch.full_like(rows[:, 0], -torch.inf, dtype=torch.float32)
    if len(rows) and len(columns):
        common = _common(rows, columns, own, link)
        with torch.cuda.device_of(rows):
            _log_sum_exps[(triton.cdiv(len(rows), common["ROWS"]),)](found, rows, columns, **common)
    return found


def add_gradients(
    into: Tensor,
    rows: Tensor,
    columns: Tensor,
    own: int | None,
    link: str,
    by_rows: Softmax | None,
    by_columns: Softmax | None,
) -> None:
    """Add ``Σ_j c_ij h_j`` to each row of ``into``, with ``c = (u_i exp(φ - l_i) + u_j exp(φ - l_j)) φ'``.

    Args:
        into: (n, D), float32.
        rows, columns, own, link: see `log_sum_exps`.
        by_rows: l and u of the rows' softmaxes, or None.
        by_columns: l and u of the columns' softmaxes, or None.
    """
    if not (len(rows) and len(columns)):
        return
    nothing: Softmax = (into, into)  # placeholders that the kernel does not read
    common = _common(rows, columns, own, link)
    with torch.cuda.device_of(rows):
        _add_gradients[(triton.cdiv(len(rows), common["ROWS"]),)](
            into,
            into.stride(0),
            into.stride(1),
            rows,
            columns,
            *(by_rows or nothing),
            *(by_columns or nothing),
            BY_ROWS=by_rows is not None,
            BY_COLUMNS=by_columns is not None,
            # float16 cannot represent small coefficients; TF32 represents them and the rows.
            WIDE=rows.dtype == torch.float16,
            **common,
        )


def _common(rows: Tensor, columns: Tensor, own: int | None, link: str) -> dict[str, Any]:
    tf32 = torch.backends.cuda.matmul.allow_tf32
    return {
        "n": len(rows),
        "k": len(columns),
        "D": rows.shape[1],
        "own": 0 if own is None else own,
        "OWN": own is not None,
        "LINK": _function(link),
        "PRECISION": "tf32" if tf32 else "ieee",
        **(PLAIN_CORES if rows.dtype == torch.float32 and not tf32 else TENSOR_CORES),
    }


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
    found, rows, columns, n, k, D, own,
    OWN: tl.constexpr, LINK: tl.constexpr, PRECISION: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr, DEPTH: tl.constexpr,
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
    tl.store(found + i, largest + tl.log(total), mask=i < n)


@triton.jit
def _add_gradients(
    into, stride_i, stride_d, rows, columns, total_i, upstream_i, total_j, upstream_j, n, k, D, own,
    BY_ROWS: tl.constexpr, BY_COLUMNS: tl.constexpr, WIDE: tl.constexpr,
    OWN: tl.constexpr, LINK: tl.constexpr, PRECISION: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr, DEPTH: tl.constexpr,
):  # fmt: skip
    i = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    if BY_ROWS:
        of_rows = tl.load(total_i + i, mask=i < n, other=0.0)[:, None]
        factor_of_rows = tl.load(upstream_i + i, mask=i < n, other=0.0)[:, None]
    for first in range(0, k, COLUMNS):
        j = first + tl.arange(0, COLUMNS)
        logit, slope = LINK(_cosines(rows, columns, i, j, n, k, D, ROWS, COLUMNS, DEPTH, PRECISION))
        share = tl.zeros((ROWS, COLUMNS), tl.float32)
        if BY_ROWS:
            share += tl.exp(logit - of_rows) * factor_of_rows
        if BY_COLUMNS:
            of_columns = tl.load(total_j + j, mask=j < k, other=0.0)[None, :]
            share += tl.exp(logit - of_columns) * tl.load(upstream_j + j, mask=j < k, other=0.0)[None, :]
        coefficient = tl.where(_counted(i, j, n, k, own, OWN), share * slope, 0.0)
        for deep in range(0, D, DEPTH):
            d = deep + tl.arange(0, DEPTH)
            right = _vectors(columns, j, d, k, D)
            if WIDE:
                found = tl.dot(_to_tf32(coefficient), right.to(tl.float32), input_precision="tf32")
            elif right.dtype == tl.float32 and PRECISION == "tf32":
                found = tl.dot(_to_tf32(coefficient), right, input_precision="tf32")
            else:
                found = tl.dot(coefficient.to(right.dtype), right, input_precision=PRECISION)
            # Accumulated in memory, because registers cannot hold all dimensions of a row.
            place = into + i[:, None].to(tl.int64) * stride_i + d[None, :] * stride_d
            inside = (i[:, None] < n) & (d[None, :] < D)
            tl.store(place, tl.load(place, mask=inside, other=0.0) + found, mask=inside)
        tl.debug_barrier()  # another thread may load these values for the next columns
