"""How is a loss given as code called without changing what it holds, such as a queue?"""

from __future__ import annotations

import copy
import functools
import sys
import types
from collections import deque
from collections.abc import Iterable
from typing import Any

import numpy as np
from torch import Tensor, nn

from gradlab.errors import GradlabError, first_line

# A larger torch module that a function uses is shared: it is an encoder, such as a teacher.
LARGEST = 10_000_000


def independent_copy(loss: Any, encoders: Iterable[Any] = ()) -> Any:
    """Return a copy of a loss in float64 on the CPU, whose calls leave the loss as it is.

    A torch module is copied with None in place of the ``encoders`` within it. Of any other callable
    is copied what its calls could change: tensors, arrays, containers, torch modules without an
    encoder and of at most `LARGEST` numbers, and objects of the loss's own Python module, wherever
    they are reached from attributes, from variables that a function closes over, or from global
    names that it uses. All else is shared.

    Raises:
        GradlabError: the loss cannot be copied.
    """
    encoders = list(encoders)
    try:
        if isinstance(loss, nn.Module):
            return _module(loss, dict.fromkeys(map(id, encoders)))
        return _StateCopy(_python_modules(loss), encoders).of(loss)
    except Exception as error:
        raise GradlabError(f"it cannot be copied ({first_line(error)})") from error


class _StateCopy:
    """Copies of the values that a callable of some Python modules reaches, each made once."""

    def __init__(self, python_modules: set[str], encoders: list[Any]) -> None:
        self.python_modules = python_modules
        self.encoders = set(map(id, encoders))
        # The originals are kept, so that no other object gets their identity meanwhile.
        self.copies: dict[int, tuple[Any, Any]] = {}

    def of(self, value: Any) -> Any:
        """Return the copy of a value, or the value itself where calls do not change it."""
        if id(value) not in self.copies:
            self.copies[id(value)] = value, value
            self.copies[id(value)] = value, self._copied(value)
        return self.copies[id(value)][1]

    def _copied(self, value: Any) -> Any:
        match value:
            case Tensor():
                return _in_double(value)
            case np.ndarray():
                return value.copy()
            case nn.Module():
                return value if self._encodes(value) else _module(value, {})
            case dict() | list() | set() | deque():
                return self._container(value)
            case tuple() if type(value) is tuple:
                return tuple(map(self.of, value))
            case functools.partial():
                keywords = {name: self.of(item) for name, item in value.keywords.items()}
                return functools.partial(self.of(value.func), *map(self.of, value.args), **keywords)
            case types.MethodType():
                return types.MethodType(value.__func__, self.of(value.__self__))
            case types.FunctionType() if hasattr(value, "_torchdynamo_orig_callable"):
                return self.of(value._torchdynamo_orig_callable)  # not compiled anew for float64
            case types.FunctionType() if hasattr(value, "__wrapped__") or self._own(value):
                return self._function(value)
        own = self._own(value) and hasattr(value, "__dict__")
        return self._object(value) if own else value

    def _own(self, value: Any) -> bool:
        return _defined_in(value) in self.python_modules

    def _encodes(self, module: nn.Module) -> bool:
        numbers = sum(tensor.numel() for tensor in module.parameters())
        return numbers > LARGEST or any(id(part) in self.encoders for part in module.modules())

    def _container(self, value: Any) -> Any:
        copied = copy.copy(value)
        self.copies[id(value)] = value, copied  # it may contain itself
        if isinstance(value, dict):
            copied.update({key: self.of(item) for key, item in value.items()})
        elif isinstance(value, list | deque):
            for position, item in enumerate(value):
                copied[position] = self.of(item)
        return copied

    def _object(self, value: Any) -> Any:
        copied = copy.copy(value)
        self.copies[id(value)] = value, copied
        vars(copied).update({name: self.of(item) for name, item in vars(value).items()})
        return copied

    def _function(self, function: types.FunctionType) -> types.FunctionType:
        names = {name for name in _names(function.__code__) if name in function.__globals__}
        cells = tuple(types.CellType() for _ in function.__closure__ or ())
        variables = dict(function.__globals__)
        copied = types.FunctionType(
            function.__code__, variables, function.__name__, closure=cells or None
        )
        self.copies[id(function)] = function, copied  # it may call itself
        variables.update({name: self.of(function.__globals__[name]) for name in names})
        for cell, original in zip(cells, function.__closure__ or (), strict=True):
            cell.cell_contents = self.of(original.cell_contents)
        copied.__defaults__ = self.of(function.__defaults__)
        copied.__kwdefaults__ = self.of(function.__kwdefaults__)
        copied.__dict__.update(self.of(vars(function)))
        return copied


def _names(code: types.CodeType) -> set[str]:
    """Return the global names and attributes that a function and those inside it use."""
    inner = (constant for constant in code.co_consts if isinstance(constant, types.CodeType))
    return set(code.co_names).union(*map(_names, inner))


def _python_modules(loss: Any) -> set[str]:
    """Return the Python modules of a callable and of what it wraps, but torch and the standard."""
    names = set()
    while loss is not None:
        names.add(_defined_in(getattr(loss, "__func__", loss)))
        inner = loss.func if isinstance(loss, functools.partial) else None
        loss = getattr(loss, "__wrapped__", inner)
    library = {"torch", *sys.stdlib_module_names} - {"__main__"}
    return {name for name in names if name.partition(".")[0] not in library}


def _defined_in(function: Any) -> str:
    if isinstance(function, types.FunctionType):
        return str(function.__globals__.get("__name__", ""))
    return type(function).__module__


def _in_double(tensor: Tensor) -> Tensor:
    tensor = tensor.detach().clone().cpu()
    return tensor.double() if tensor.is_floating_point() else tensor


def _module(module: nn.Module, replaced: dict[int, Any]) -> nn.Module:
    return copy.deepcopy(module, replaced).double().cpu()
