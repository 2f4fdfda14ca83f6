"""A batch of embeddings from a file."""

from __future__ import annotations

import os

import numpy as np

from gradlab.arrays import Float
from gradlab.errors import GradlabError
from gradlab.files import read_arrays


def load_batch(
    path: str | os.PathLike[str],
) -> tuple[Float[np.ndarray, "rows d"], Float[np.ndarray, "others d2"], Float[np.ndarray, "m d3"] | None]:
    """``anchors``, ``positives`` and, if there, ``extra_negatives`` of an .npz file, in float64 (not yet unit rows).

    Raises:
        GradlabError: no such file, not an .npz file, or without those arrays.
    """
    found = read_arrays(path)
    for name in ("anchors", "positives"):
        if name not in found:
            raise GradlabError(
                f"{os.fspath(path)!r} has no array {name!r}; save it with numpy.savez(path, anchors=..., positives=...)"
            )
    rows = []
    for name in ("anchors", "positives", "extra_negatives"):
        if name not in found:
            continue
        if found[name].ndim != 2 or not np.issubdtype(found[name].dtype, np.number):
            raise GradlabError(f"{name} must have shape (sentences, dimensions), not {found[name].shape}")
        rows.append(found[name].astype(np.float64))
    return rows[0], rows[1], rows[2] if len(rows) == 3 else None
