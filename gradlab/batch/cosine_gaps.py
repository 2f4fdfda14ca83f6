"""``1 + cos θ`` and ``1 - cos θ`` of unit rows, accurate where they are close to 0."""

from __future__ import annotations

from array_api_compat import array_namespace

from gradlab.arrays import Array, Float, detach

_NEAR_ENTRIES = 2**20  # largest number of entries in the differences of close vectors at a time


def gaps_of(
    first: Float[Array, "n d"],
    second: Float[Array, "*_ k d"],
    cosine: Float[Array, "n k"],
    sign: int = -1,
) -> Float[Array, "n k"]:
    """Return ``1 + s cos θ`` of unit rows and a sign s, as ``|h + s h'|²/2`` where it is small.

    Its derivative is that of the cosine. Vectors are only subtracted where ``1 + s cos θ`` has lost
    a third of its digits or more, and only for some pairs at a time.
    """
    xp = array_namespace(first)
    gap = 1 + sign * cosine
    rounded = detach(gap)
    near = abs(rounded) < float(xp.finfo(cosine.dtype).eps) ** (1 / 3)
    left, right = detach(first), -sign * detach(second)
    if right.ndim == 3 or left.shape[0] * right.shape[0] * left.shape[1] <= _NEAR_ENTRIES:
        differences = left[:, None, :] - right
        return gap + xp.where(
            near, xp.sum(differences * differences, axis=-1) / 2 - rounded, xp.zeros_like(rounded)
        )
    if not bool(xp.any(near)):
        return gap
    (rows, columns), lost = xp.nonzero(near), xp.zeros_like(rounded)
    step = max(1, _NEAR_ENTRIES // left.shape[1])
    for start in range(0, rows.shape[0], step):
        i, j = rows[start : start + step], columns[start : start + step]
        differences = left[i] - right[j]
        lost[i, j] = xp.sum(differences * differences, axis=-1) / 2 - rounded[i, j]
    return gap + lost
