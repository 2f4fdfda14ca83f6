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


@pytest.mark.parametrize("room", PACKAGES)
def test_every_signature_with_a_shape_is_checked(room: str) -> None:
    """Those of modules and classes; so no module has been imported too early, and no shape names what is not there."""
    package, found = importlib.import_module(room), 0
    for name in (one.name for one in pkgutil.iter_modules(package.__path__, f"{room}.")):
        own = vars(importlib.import_module(name)).values()
        methods = [value for cls in filter(inspect.isclass, own) for value in vars(cls).values()]
        functions = [one for one in filter(inspect.isfunction, (*own, *methods)) if one.__module__ == name]
        for function in functions:
            hints = [
                hint
                for hint in map(str, inspect.get_annotations(function).values())
                if "Callable[" not in hint
            ]
            if any(map(shape_checks.carries_shapes, hints)) and not hasattr(function, "__isabstractmethod__"):
                found += 1
                assert shape_checks.is_checked(function), f"{name}.{function.__qualname__}"
    assert found > 10


def test_nothing_is_wrapped_where_nobody_checks() -> None:
    code = """
import sys
from gradlab import arrays
from gradlab.simulation import monte_carlo
assert not {"jaxtyping", "beartype"} & sys.modules.keys()
assert not hasattr(arrays.take, "__wrapped__")
assert not hasattr(monte_carlo.Estimate.__init__, "__wrapped__")
"""
    subprocess.run([sys.executable, "-c", code], check=True)
