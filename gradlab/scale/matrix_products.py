"""Matrix products of rows and columns in tiles, their precision on a GPU, and chords of pairs."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

# Columns per product on a CPU: narrow products fit into the cache and are 10 to 20 percent faster.
CPU_TILE = 1024
# Pairs of rows measured at a time; on a CPU they have to fit into the cache.
CPU_PAIRS, GPU_PAIRS = 128, 1 << 14
# Similarities per step of a sum over columns.
SUM_ENTRIES = 1 << 16


def tf32_allowed() -> bool:
    """Whether torch multiplies float32 matrices in TF32 on a GPU."""
    matmul = torch.backends.cuda.matmul
    # The older name raises an error where the newer one, of torch 2.9, was used to allow it.
    precision = getattr(matmul, "fp32_precision", None)
    return bool(matmul.allow_tf32) if precision is None else precision == "tf32"


@contextlib.contextmanager
def in_tf32() -> Iterator[None]:
    """Allow TF32 within the block; as torch's setting, for all threads."""
    if tf32_allowed():
        yield
        return
    matmul = torch.backends.cuda.matmul
    precision = getattr(matmul, "fp32_precision", None)
    matmul.allow_tf32 = True
    try:
        yield
    finally:
        matmul.allow_tf32 = False
        if precision is not None:
            matmul.fp32_precision = precision


def slices(start: int, stop: int, step: int) -> list[slice]:
    """Split ``start`` to ``stop`` into slices of length ``step``; the last may be shorter."""
    return [slice(first, min(first + step, stop)) for first in range(start, stop, step)]


def cosines(
    rows: Tensor, columns: Tensor, own: int | None = None, memory: Tensor | None = None
) -> Tensor:
    """Return dot products, (n, k), in ``memory`` if given; -inf in column ``own + r`` of row r."""
    n, k = len(rows), len(columns)
    products = rows.new_empty(n, k) if memory is None else memory
    if products.ndim == 1:
        products = products[: n * k].view(n, k)
    if rows.device.type != "cpu" or k <= CPU_TILE:
        torch.mm(rows, columns.T, out=products)
    else:
        for tile in slices(0, k, CPU_TILE):
            torch.mm(rows, columns[tile].T, out=products[:, tile])
    if own is not None:
        products.diagonal(own).fill_(-torch.inf)
    return products


def fixed_reference(rows: Tensor, temperature: float) -> bool:
    """Whether ``exp((cos θ - 1)/τ)`` can be summed without underflow of any cosine's term."""
    return 2 / temperature < 80 * (1 if rows.dtype == torch.float32 else 8)


def reading_is_free(rows: Tensor) -> bool:
    """Whether a number can be read without waiting; on a GPU, reading waits for all queued work."""
    return rows.device.type == "cpu"


def chords(first: Tensor, second: Tensor) -> Tensor:
    """Return ``|h - h'|`` and ``|h + h'|`` of each pair of rows, (2, n)."""
    lengths = first.new_empty(2, len(first))
    for rows, differences, sums in _chord_vectors(first, second, slice(0, len(first))):
        torch.linalg.vector_norm(differences, dim=-1, out=lengths[0, rows])
        torch.linalg.vector_norm(sums, dim=-1, out=lengths[1, rows])
    return lengths


def add_chord_gradients(
    first: Tensor,
    second: Tensor,
    lengths: Tensor,
    upstream: Tensor,
    share: slice,
    totals: Sequence[Tensor | None],
) -> None:
    """Add the gradients of ``Σ u c`` of a share of rows with chords c to ``totals`` of both rows.

    They are 0 if c = 0 (NaN if u is infinite).
    """
    factor = torch.where(lengths > 0, upstream / lengths, 0 * upstream)[:, :, None]
    for rows, differences, sums in _chord_vectors(first, second, share):
        for total, sign in zip(totals, (1, -1), strict=True):
            if total is not None:
                total[rows].addcmul_(differences, factor[0, rows], value=sign).addcmul_(
                    sums, factor[1, rows]
                )


def few_rows(block: Tensor) -> list[slice]:
    """Return slices of a block's rows that fit into the CPU cache; on a GPU, one of all rows."""
    count = (
        max(1, SUM_ENTRIES // block.shape[1]) if block.device.type == "cpu" else max(1, len(block))
    )
    return slices(0, len(block), count)


def _chord_vectors(
    first: Tensor, second: Tensor, share: slice
) -> Iterator[tuple[slice, Tensor, Tensor]]:
    """Yield slices of rows with their differences and sums, which the next step overwrites."""
    step = CPU_PAIRS if first.device.type == "cpu" else GPU_PAIRS
    differences, sums = first.new_empty(2, min(step, share.stop - share.start), first.shape[1])
    for rows in slices(share.start, share.stop, step):
        pair, count = (first[rows], second[rows]), rows.stop - rows.start
        yield rows, torch.sub(*pair, out=differences[:count]), torch.add(*pair, out=sums[:count])
