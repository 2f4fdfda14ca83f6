"""Shapes in signatures: checked while the tests run, free otherwise."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from jaxtyping import TypeCheckError

from gradlab.arrays import take
from gradlab.simulation.monte_carlo import Estimate


def test_wrong_shapes_are_refused() -> None:
    grid = np.zeros((2, 3))
    Estimate(grid, grid)
    with pytest.raises(TypeCheckError, match="standard_error"):
        Estimate(grid, grid.T)
    with pytest.raises(TypeCheckError, match="take"):
        take(grid, np.zeros(3, dtype=int))


def test_nothing_is_wrapped_where_nobody_checks() -> None:
    code = """
import sys
from gradlab import arrays
from gradlab.simulation import monte_carlo
assert not {"jaxtyping", "beartype"} & sys.modules.keys()
assert not hasattr(arrays.take, "__wrapped__")
assert not hasattr(monte_carlo.Estimate.__init__, "__wrapped__")
"""
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
