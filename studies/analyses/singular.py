"""Singular values of embeddings: how many directions they use (MoCoSE, Cao et al. 2022, Fig. 7)."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from gradlab.batch import unit_rows
from gradlab.plotting import Table, rounded


def spectrum(rows: ArrayLike, *, centre: bool = False) -> Table:
    """Singular values of the matrix of unit embeddings, largest first.

    ``rows`` are (N, D), scaled to unit length here; ``centre`` takes their mean away first: without
    it an anisotropic cloud shows in the first value.

    Returns:
        Columns ``rank`` (from 1), ``value``, ``relative`` (over the largest), and ``cumulative``:
        share of the sum of squares.
    """
    values = unit_rows(np.asarray(rows, dtype=np.float64))
    if centre:
        values = values - values.mean(0)
    singular = np.linalg.svd(values, compute_uv=False)
    squares = singular**2
    return rounded(
        {
            "rank": np.arange(1, len(singular) + 1),
            "value": singular,
            "relative": singular / singular[0],
            "cumulative": np.cumsum(squares) / squares.sum(),
        }
    )
