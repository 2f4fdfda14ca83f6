"""Shapes in signatures: checked while the tests run, free otherwise."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import subprocess
import sys

import numpy as np
import pytest
from jaxtyping import TypeCheckError

from gradlab.arrays import take
from gradlab.simulation.monte_carlo import Estimate
from tests import shape_checks

PACKAGES = [name for name in shape_checks.ROOMS if name != "gradlab.arrays"]


def test_wrong_shapes_are_refused() -> None:
    grid = np.zeros((2, 3))
    Estimate(grid, grid)
    with pytest.raises(TypeCheckError, match="standard_error"):
        Estimate(grid, grid.T)
    with pytest.raises(TypeCheckError, match="take"):
        take(grid, np.zeros(3, dtype=int))
    with pytest.raises(TypeCheckError, match="take"):
        take(grid, np.zeros(2))


@pytest.mark.parametrize("room", PACKAGES)
def test_the_modules_of_a_room_are_checked(room: str) -> None:
    """Every module with a shape in some signature, so that none has been imported too early."""
    package = importlib.import_module(room)
    for found in pkgutil.iter_modules(package.__path__, f"{room}."):
        module = importlib.import_module(found.name)
        own = [value for value in vars(module).values() if getattr(value, "__module__", "") == found.name]
        parts = [
            part
            for value in own
            for part in (value, *(vars(value).values() if inspect.isclass(value) else ()))
        ]
        if shape_checks.carries_shapes(inspect.getsource(module)):
            assert any(map(shape_checks.is_checked, parts)), found.name


def test_nothing_is_wrapped_where_nobody_checks() -> None:
    code = """
import sys
import gradlab
from gradlab import arrays
from gradlab.simulation import exact, monte_carlo
assert not {"jaxtyping", "beartype"} & sys.modules.keys()
for function in (arrays.take, exact.dissipation, monte_carlo.Estimate.__init__):
    assert not hasattr(function, "__wrapped__"), function
print(exact.dissipation.__annotations__["return"])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "Float[np.ndarray, 'p q']"
