"""Triton kernels for log-sum-exps of rows and columns, and for coefficients of their gradients.

In both kernels a program owns some rows and loops over its share of the columns, a tile at a time.
In the first, cosines stay in registers, unless the caller wants their exponentials. It writes sums
of each share and of each tile's columns, which torch adds up in a second stage. In the second, it
computes the cosines again, as coefficients. No two programs write to the same place and there are
no atomic additions, so that results do not depend on the order of programs. Without a GPU,
Triton's interpreter runs both (``TRITON_INTERPRET=1``).
"""

from __future__ import annotations

import functools
import linecache
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor
from triton.tools.tensor_descriptor import TensorDescriptor

from gradlab.scale.logit_translation import Link
from gradlab.scale.matrix_products import tf32_allowed

# Tile size (rows, columns), dimensions multiplied at a time, warps and stages: the fastest of a few
# on an NVIDIA H100 at N = 16,384, D = 768. `SMALL`, not measured, is for less shared memory.
HALF = {"ROWS": 128, "COLUMNS": 256, "DEPTH": 64, "num_warps": 8, "num_stages": 3}
TF32 = {"ROWS": 64, "COLUMNS": 256, "DEPTH": 32, "num_warps": 8, "num_stages": 3}
FLOAT32 = {"ROWS": 64, "COLUMNS": 128, "DEPTH": 16, "num_warps": 8, "num_stages": 2}
SMALL = {"ROWS": 64, "COLUMNS": 128, "DEPTH": 32, "num_warps": 4, "num_stages": 2}
SHARED_BYTES = 150_000  # that tiles of `HALF` take on an H100
# Whether the memory engine of a GPU of compute capability 9 loads tiles (descriptors), and whether
# the loads of the next tile start before the exponentials of this one; neither has been measured.
DESCRIPTORS, FLATTEN = True, False
# Column tiles of a program, so that the last wave of programs leaves few processors idle.
TILES = 8

# The log-sum-exps of rows, and the derivatives of the loss with respect to them; both (n,).
Softmax = tuple[Tensor, Tensor]


class Sums(NamedTuple):
    """Results of `log_sum_exps`: log-sum-exps of rows, of columns, and exponentials."""

    rows: Tensor
    columns: Tensor | None
    exponentials: Tensor | None


def log_sum_exps(
    rows: Tensor,
    columns: Tensor,
    own: int | None,
    link: Link,
    *,
    column_sums: bool = False,
    exponentials: bool = False,
) -> Sums:
    """Return ``l_i = log Σ_j exp φ(h_i · h_j)`` of each row, (n,), float32.

    Args:
        rows: (n, D), contiguous, float32 (rounded to TF32 if that is allowed), bfloat16 or float16.
        columns: (k, D), of the same dtype.
        own: leave out column ``i + own`` of row i; None leaves out none.
        link: source of φ, see `gradlab.scale.logit_translation`.
        column_sums: also return the log-sum-exps of columns, (k,), from the same cosines.
        exponentials: also return ``exp(φ - reference) φ'``, (n, k), in the dtype of `coefficients`;
            the link must have a reference.
    """
    n, k = len(rows), len(columns)
    terms = _coefficient_memory(rows, columns) if exponentials else None
    if not (n and k):
        empty = functools.partial(rows.new_full, fill_value=-torch.inf, dtype=torch.float32)
        return Sums(empty((n,)), empty((k,)) if column_sums else None, terms)
    common = _common(rows, columns, own, link)
    grid = _grid(n, k, common)
    of_rows = rows.new_empty(grid[1], n, dtype=torch.float32)
    of_columns = rows.new_empty(grid[0], k, dtype=torch.float32) if column_sums else None
    with torch.cuda.device_of(rows):
        _sums[grid](
            of_rows,
            of_rows if of_columns is None else of_columns,  # a placeholder that is not written
            of_rows if terms is None else terms,
            reference=0.0 if link.reference is None else link.reference,
            FIXED=link.reference is not None,
            COLUMN_SUMS=column_sums,
            STORE=exponentials,
            **common,
        )
    return Sums(
        _joined(of_rows, link), None if of_columns is None else _joined(of_columns, link), terms
    )


def coefficients(
    rows: Tensor,
    columns: Tensor,
    own: int | None,
    link: Link,
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
    factors = _coefficient_memory(rows, columns)
    if factors.numel():
        reference = link.reference
        if reference is not None:  # one exponential then serves both softmaxes
            by_rows, by_columns = (
                None
                if softmax is None
                else (softmax[0], softmax[1] * (reference - softmax[0]).exp())
                for softmax in (by_rows, by_columns)
            )
        nothing: Softmax = (factors, factors)  # placeholders that the kernel does not read
        common = _common(rows, columns, own, link)
        with torch.cuda.device_of(rows):
            _coefficients[_grid(len(rows), len(columns), common)](
                factors,
                *(by_rows or nothing),
                *(by_columns or nothing),
                reference=0.0 if reference is None else reference,
                FIXED=reference is not None,
                BY_ROWS=by_rows is not None,
                BY_COLUMNS=by_columns is not None,
                **common,
            )
    return factors


def _joined(parts: Tensor, link: Link) -> Tensor:
    """Return log-sum-exps from sums (with a reference) or log-sum-exps of parts, (parts, n)."""
    if link.reference is None:
        return torch.logsumexp(parts, 0)
    return parts.sum(0).log_().add_(link.reference)


def _coefficient_memory(rows: Tensor, columns: Tensor) -> Tensor:
    dtype = torch.bfloat16 if rows.dtype == torch.bfloat16 else torch.float32
    return rows.new_empty(len(rows), len(columns), dtype=dtype)


def _grid(n: int, k: int, common: dict[str, Any]) -> tuple[int, int]:
    """Return the number of row tiles, and of the shares of columns that each of them has."""
    return triton.cdiv(n, common["ROWS"]), triton.cdiv(triton.cdiv(k, common["COLUMNS"]), TILES)


def _common(rows: Tensor, columns: Tensor, own: int | None, link: Link) -> dict[str, Any]:
    tf32 = tf32_allowed()
    tiles = _tiles(rows, tf32)
    described = DESCRIPTORS and _loads_by_descriptor(rows, columns)
    sources: Sequence[Any] = (rows, columns)
    if described:
        sources = [
            TensorDescriptor.from_tensor(vectors, [tiles[side], tiles["DEPTH"]])
            for vectors, side in ((rows, "ROWS"), (columns, "COLUMNS"))
        ]
    return {
        "rows": sources[0],
        "columns": sources[1],
        "n": len(rows),
        "k": len(columns),
        "D": rows.shape[1],
        "own": 0 if own is None else own,
        "OWN": own is not None,
        "LINK": _function(link.source),
        "PRECISION": "tf32" if tf32 else "ieee",
        # Coefficients that torch multiplies in TF32.
        "ROUND": rows.dtype == torch.float16 or (rows.dtype == torch.float32 and tf32),
        "DESCRIBED": described,
        "FLATTEN": FLATTEN,
        "TILES": TILES,
        **tiles,
    }


def _loads_by_descriptor(rows: Tensor, columns: Tensor) -> bool:
    """Whether the GPU's memory engine can load tiles: it needs addresses in multiples of 16."""
    if rows.is_cuda and torch.cuda.get_device_capability(rows.device) < (9, 0):
        return False
    bytes_apart = rows.shape[1] * rows.element_size()
    return not any(number % 16 for number in (bytes_apart, rows.data_ptr(), columns.data_ptr()))


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
    rows, columns, first_i, first_j, n, k, D,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, DEPTH: tl.constexpr, PRECISION: tl.constexpr,
    DESCRIBED: tl.constexpr,
):  # fmt: skip
    tile = tl.zeros((ROWS, COLUMNS), tl.float32)
    for first in range(0, D, DEPTH):
        if DESCRIBED:
            left, right = rows.load([first_i, first]), columns.load([first_j, first])
        else:
            d = first + tl.arange(0, DEPTH)
            left = _vectors(rows, first_i + tl.arange(0, ROWS), d, n, D)
            right = _vectors(columns, first_j + tl.arange(0, COLUMNS), d, k, D)
        tile = tl.dot(left, tl.trans(right), tile, input_precision=PRECISION)
    return tile


@triton.jit
def _all_counted(
    first_i, first_j, n, k, own,
    OWN: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """Whether a tile is within the matrix and away from the diagonal of pairs that are left out."""
    inside = (first_i + ROWS <= n) & (first_j + COLUMNS <= k)
    if OWN:
        diagonal = first_i + own
        inside = inside & ((first_j + COLUMNS <= diagonal) | (diagonal + ROWS <= first_j))
    return inside


@triton.jit
def _pair_mask(i, j, n, k, own, OWN: tl.constexpr):
    pair_mask = (i[:, None] < n) & (j[None, :] < k)
    if OWN:
        pair_mask = pair_mask & (j[None, :] != i[:, None] + own)
    return pair_mask


@triton.jit
def _store(destination, terms, i, j, n, k, ROUND: tl.constexpr):
    if ROUND:  # to the ten mantissa bits of TF32, because tensor cores would truncate to them
        terms = ((terms.to(tl.int32, bitcast=True) + 0x1000) & -0x2000).to(tl.float32, bitcast=True)
    tl.store(
        destination + i[:, None].to(tl.int64) * k + j[None, :],
        terms.to(destination.dtype.element_ty),
        mask=(i[:, None] < n) & (j[None, :] < k),
    )


@triton.jit
def _sums(
    of_rows, of_columns, exponentials, rows, columns, n, k, D, own, reference,
    FIXED: tl.constexpr, COLUMN_SUMS: tl.constexpr, STORE: tl.constexpr, ROUND: tl.constexpr,
    OWN: tl.constexpr, LINK: tl.constexpr, PRECISION: tl.constexpr, DESCRIBED: tl.constexpr,
    FLATTEN: tl.constexpr, TILES: tl.constexpr,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, DEPTH: tl.constexpr,
):  # fmt: skip
    first_i = tl.program_id(0) * ROWS
    i = first_i + tl.arange(0, ROWS)
    largest = tl.full((ROWS,), float("-inf"), tl.float32)
    total = tl.zeros((ROWS,), tl.float32)
    first_tile = tl.program_id(1) * TILES
    last_tile = tl.minimum(first_tile + TILES, tl.cdiv(k, COLUMNS))
    for place in tl.range(first_tile, last_tile, flatten=FLATTEN):
        first_j = place * COLUMNS
        j = first_j + tl.arange(0, COLUMNS)
        cosine = _cosines(
            rows, columns, first_i, first_j, n, k, D, ROWS, COLUMNS, DEPTH, PRECISION, DESCRIBED
        )
        logit, slope = LINK(cosine)
        if not _all_counted(first_i, first_j, n, k, own, OWN, ROWS, COLUMNS):
            logit = tl.where(_pair_mask(i, j, n, k, own, OWN), logit, float("-inf"))
        of_column = of_columns + tl.program_id(0).to(tl.int64) * k + j
        if FIXED:
            exponential = tl.exp(logit - reference)
            total += tl.sum(exponential, 1)
            if COLUMN_SUMS:
                tl.store(of_column, tl.sum(exponential, 0), mask=j < k)
            if STORE:
                _store(exponentials, exponential * slope, i, j, n, k, ROUND)
        else:
            larger = tl.maximum(largest, tl.max(logit, 1))
            shift = tl.where(larger == float("-inf"), 0.0, larger)  # -inf: nothing counted yet
            total = total * tl.exp(largest - shift) + tl.sum(tl.exp(logit - shift[:, None]), 1)
            largest = larger
            if COLUMN_SUMS:
                larger = tl.max(logit, 0)
                shift = tl.where(larger == float("-inf"), 0.0, larger)
                column_total = tl.sum(tl.exp(logit - shift[None, :]), 0)
                tl.store(of_column, larger + tl.log(column_total), mask=j < k)
    of_row = of_rows + tl.program_id(1).to(tl.int64) * n + i
    tl.store(of_row, total if FIXED else largest + tl.log(total), mask=i < n)


@triton.jit
def _coefficients(
    destination, total_i, upstream_i, total_j, upstream_j, rows, columns, n, k, D, own, reference,
    BY_ROWS: tl.constexpr, BY_COLUMNS: tl.constexpr, FIXED: tl.constexpr, ROUND: tl.constexpr,
    OWN: tl.constexpr, LINK: tl.constexpr, PRECISION: tl.constexpr, DESCRIBED: tl.constexpr,
    FLATTEN: tl.constexpr, TILES: tl.constexpr,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, DEPTH: tl.constexpr,
):  # fmt: skip
    first_i = tl.program_id(0) * ROWS
    i = first_i + tl.arange(0, ROWS)
    if BY_ROWS:
        row_total = tl.load(total_i + i, mask=i < n, other=0.0)[:, None]
        row_upstream = tl.load(upstream_i + i, mask=i < n, other=0.0)[:, None]
    first_tile = tl.program_id(1) * TILES
    last_tile = tl.minimum(first_tile + TILES, tl.cdiv(k, COLUMNS))
    for place in tl.range(first_tile, last_tile, flatten=FLATTEN):
        first_j = place * COLUMNS
        j = first_j + tl.arange(0, COLUMNS)
        cosine = _cosines(
            rows, columns, first_i, first_j, n, k, D, ROWS, COLUMNS, DEPTH, PRECISION, DESCRIBED
        )
        logit, slope = LINK(cosine)
        if BY_COLUMNS:
            column_upstream = tl.load(upstream_j + j, mask=j < k, other=0.0)[None, :]
        if FIXED:
            factor = tl.zeros((ROWS, COLUMNS), tl.float32)
            if BY_ROWS:
                factor += row_upstream
            if BY_COLUMNS:
                factor += column_upstream
            share = tl.exp(logit - reference) * factor
        else:
            share = tl.zeros((ROWS, COLUMNS), tl.float32)
            if BY_ROWS:
                share += tl.exp(logit - row_total) * row_upstream
            if BY_COLUMNS:
                column_total = tl.load(total_j + j, mask=j < k, other=0.0)[None, :]
                share += tl.exp(logit - column_total) * column_upstream
        coefficient = share * slope
        if not _all_counted(first_i, first_j, n, k, own, OWN, ROWS, COLUMNS):
            coefficient = tl.where(_pair_mask(i, j, n, k, own, OWN), coefficient, 0.0)
        _store(destination, coefficient, i, j, n, k, ROUND)
