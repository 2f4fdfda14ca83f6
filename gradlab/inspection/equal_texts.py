"""Groups of equal texts, or of equal embeddings."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Groups:
    """Groups of equal texts."""

    group: NDArray[np.integer[Any]]  # (texts,) group of each text, numbered by first occurrence
    first: NDArray[np.int64]  # (groups,) first text of each group
    size: NDArray[np.int64]  # (groups,) number of texts in each group

    @classmethod
    def of(cls, keys: NDArray[np.int64]) -> Groups:
        """Return the groups of texts with equal keys (texts,)."""
        group = pd.factorize(keys)[0].astype(np.int32)
        first = np.flatnonzero(np.diff(np.maximum.accumulate(group), prepend=-1))
        return Groups(group, first, np.bincount(group))

    def texts_of(self, group: int) -> NDArray[np.int64]:
        """Return the numbers of the texts in a group."""
        order, starts = self._members
        return order[starts[group] : starts[group + 1]]

    @functools.cached_property
    def _members(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Texts ordered by group, and where each group begins."""
        return np.argsort(self.group, kind="stable"), np.append(0, np.cumsum(self.size))
