"""Which embeddings does an .npz file hold? One row a sentence, by view."""

from __future__ import annotations

import os

import numpy as np

from gradlab.arrays import Float
from gradlab.errors import GradlabError
from gradlab.files import read_arrays

VIEWS = ("anchors", "positives", "extra_negatives")


def load_batch(path: str | os.PathLike[str]) -> tuple[Float[np.ndarray, "_ d"], ...]:
    """Read ``anchors``, ``positives`` and any ``extra_negatives`` of an .npz file, in float64.

    The rows are not normalised.

    Raises:
        GradlabError: the file is missing, is no .npz file, or lacks an array of the right shape.
    """
    arrays = read_arrays(path)
    for name in VIEWS[:2]:
        if name not in arrays:
            raise GradlabError(
                f"{os.fspath(path)!r} has no array {name!r}; "
                "save it with numpy.savez(path, anchors=..., positives=...)"
            )
    rows = {name: arrays[name] for name in VIEWS if name in arrays}
    for name, array in rows.items():
        if array.ndim != 2 or not np.issubdtype(array.dtype, np.number):
            raise GradlabError(f"{name} must have shape (sentences, dimensions), not {array.shape}")
    return tuple(array.astype(np.float64) for array in rows.values())
