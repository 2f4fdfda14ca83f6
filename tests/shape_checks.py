"""The shapes in signatures, checked while the tests run.

`install` lets Python decorate the functions of some rooms as it imports them: those whose
signatures carry shapes get jaxtyping's check, with beartype, of arguments and results; dataclasses
that of their fields. Nothing else is wrapped, nor are functions inside of functions, so that the
suite pays little.

A function that documents that it refuses wrong input does that itself: there a `GradlabError` takes
the place of the checker's error.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import inspect
import random
import re
import sys
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import FunctionType, ModuleType
from typing import Any, get_args, get_origin

import jaxtyping
import numpy as np
from beartype import BeartypeConf, beartype

from gradlab.errors import GradlabError

ROOMS = (
    "gradlab.arrays",
    "gradlab.decomposition",
    "gradlab.batch",
    "gradlab.gradient",
    "gradlab.losses",
    "gradlab.simulation",
)
# numpy's scalars are floats, and so is an int where a float is asked for.
_typechecker = beartype(conf=BeartypeConf(is_pep484_tower=True))


def install() -> None:
    """Check the shapes of `ROOMS`, which must not be imported yet."""
    early = [name for name in sys.modules if _in_rooms(name)]
    assert not early, f"imported before their shapes could be checked: {', '.join(early)}"
    sys.meta_path.insert(0, _Finder())


def _in_rooms(module: str) -> bool:
    return any(module == room or module.startswith(f"{room}.") for room in ROOMS)


class _Finder(MetaPathFinder):
    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if not _in_rooms(fullname) and fullname != "gradlab.explorer.tracing":
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is None:  # no such module
            return None
        assert isinstance(spec.loader, SourceFileLoader)
        spec.loader = _Loader(spec.loader.name, spec.loader.path)
        return spec


class _Loader(SourceFileLoader):
    def exec_module(self, module: ModuleType) -> None:
        super().exec_module(module)
        if _in_rooms(module.__name__):
            _check_all(module)
        else:
            _trace_no_checks(module)


def _trace_no_checks(tracing: ModuleType) -> None:
    """Arrays that record what is done with them show their shapes to the checker unrecorded."""
    recorded = tracing.TracedArray.shape.fget

    def shape(array: Any) -> tuple[Any, ...]:
        asker = sys._getframe(1).f_globals["__name__"]
        checks = asker == __name__ or asker.startswith("jaxtyping.")
        return array.value.shape if checks else recorded(array)

    tracing.TracedArray.shape = property(shape)


def _check_all(module: ModuleType) -> None:
    for name, value in list(vars(module).items()):
        if getattr(value, "__module__", None) != module.__name__:
            continue
        if inspect.isclass(value):
            _check_class(value)
        else:
            setattr(module, name, _decorate(value))


def _check_class(cls: type) -> None:
    for name, value in list(vars(cls).items()):
        if name == "__init__" and dataclasses.is_dataclass(cls):
            fields = {
                f.name: _hint_of_field(cls, f.name) for f in dataclasses.fields(cls) if f.init
            }
            checked = _checked(
                value, {name: hint for name, hint in fields.items() if _has_shape(hint)}
            )
        else:
            checked = _decorate(value)
        if checked is not value:
            setattr(cls, name, checked)
            if isinstance(checked, functools.cached_property):
                checked.__set_name__(cls, name)


def _decorate(value: Any) -> Any:
    """A function, or what holds one, with its check; anything else as it is."""
    if isinstance(value, FunctionType):
        return _checked(value, _hints(value))
    if isinstance(value, (classmethod, staticmethod)):
        return type(value)(_decorate(value.__func__))
    if isinstance(value, property):
        return property(_decorate(value.fget), value.fset, value.fdel, value.__doc__)
    if type(value).__name__ == "cached_property":  # of functools, or of gradlab.arrays
        return type(value)(_decorate(value.func))
    return value


def _checked(function: Any, hints: Mapping[str, Any]) -> Any:
    """The function with its check.

    Equal shapes and dtypes are checked once: that is all that a verdict depends on.
    """
    if (
        not hints
        or getattr(function, "__isabstractmethod__", False)
        or hasattr(function, "_shapes_are_checked")
    ):
        return function
    parameters = [*inspect.signature(function).parameters.values()]
    places = [
        (at, parameter.name) for at, parameter in enumerate(parameters) if parameter.name in hints
    ]
    returns = "return" in hints
    # Made when they are first called: most tests call few functions.
    check_given = functools.cache(lambda: _check(function, parameters, hints, Any))
    check_result = functools.cache(lambda: _check(function, parameters, hints, hints["return"]))
    refuses = "GradlabError" in (function.__doc__ or "")
    sizes = _sizes_in_braces(hints, parameters)
    # Kinds of arguments that were checked -> kinds of results that were checked with them.
    known: dict[Any, set[Any]] = {}

    @functools.wraps(function)
    def checked(*args: Any, **kwargs: Any) -> Any:
        if _rewrites_calls():
            return function(*args, **kwargs)
        count = len(args)
        kinds: Any = [_kind(args[at] if at < count else kwargs.get(name)) for at, name in places]
        if sizes:
            kinds += [args[at] if at < count else kwargs.get(name) for at, name in sizes]
        kinds = tuple(kinds)
        results = known.get(kinds)
        if results is None:
            try:
                if places:
                    with _random_state_kept():
                        check_given()(*args, **kwargs)
            except jaxtyping.TypeCheckError as error:
                if refuses:
                    _raise_refusal(function, args, kwargs)
                raise error
            except TypeError:  # too many arguments, or one too few: the call says so itself
                return function(*args, **kwargs)
            results = set()
            if _UNKNOWN_KIND not in kinds:
                known[kinds] = results
        result = function(*args, **kwargs)
        if returns and (kind := _kind(result)) not in results:
            with _random_state_kept():
                check_result()(*args, **kwargs, result_of_call=result)
            if kind is not _UNKNOWN_KIND:
                results.add(kind)
        return result

    checked._shapes_are_checked = True  # type: ignore[attr-defined]  # a mark of this module
    return checked


@contextlib.contextmanager
def _random_state_kept() -> Iterator[None]:
    """beartype draws the entry of a list that it checks from Python's generator, unlike gradlab."""
    state = random.getstate()
    try:
        yield
    finally:
        random.setstate(state)


def _check(
    function: Any, parameters: Sequence[inspect.Parameter], hints: Mapping[str, Any], returned: Any
) -> Callable[..., Any]:
    """jaxtyping's check of what a function is given and, unless that is `Any`, of its result."""

    def give_back(*args: Any, result_of_call: Any = None, **kwargs: Any) -> Any:
        return result_of_call

    bare = [
        parameter.replace(annotation=hints.get(parameter.name, inspect.Parameter.empty))
        for parameter in parameters
    ]
    result = inspect.Parameter("result_of_call", inspect.Parameter.KEYWORD_ONLY, default=None)
    last = len(bare) - bool(bare and bare[-1].kind is inspect.Parameter.VAR_KEYWORD)
    give_back.__signature__ = inspect.Signature(  # type: ignore[attr-defined]  # what `inspect.signature` looks for
        [*bare[:last], result, *bare[last:]],
        return_annotation=inspect.Signature.empty if returned is Any else returned,
    )
    for name in ("__name__", "__qualname__", "__module__"):
        setattr(give_back, name, getattr(function, name))
    return jaxtyping.jaxtyped(give_back, typechecker=_typechecker)


def _raise_refusal(function: Callable[..., Any], args: Any, kwargs: Any) -> None:
    """Raise the `GradlabError` with which a function refuses what it is given, if it does."""
    try:
        function(*args, **kwargs)
    except GradlabError as refused:
        raise refused from None
    except Exception:  # the checker's error says more
        return


def _rewrites_calls() -> bool:
    """Whether a mode of torch gets each call, also that for a shape.

    Within `PairsAsProducts` a loss runs that ran plainly, on the same shapes, just before.
    """
    torch = sys.modules.get("torch._C")
    return torch is not None and torch._len_torch_function_stack() > 0


def _sizes_in_braces(
    hints: Mapping[str, Any], parameters: Sequence[inspect.Parameter]
) -> list[tuple[int, str]]:
    """Places and names of the numbers that an annotation names, as in ``"{size}"``."""
    names = {name for hint in hints.values() for name in re.findall(r"{(\w+)}", str(hint))}
    return [(at, each.name) for at, each in enumerate(parameters) if each.name in names]


_UNKNOWN_KIND = object()
_PLAIN = {int, float, bool, str}


def _kind(value: Any) -> Any:
    """What the check of a value depends on, or `_UNKNOWN_KIND` if that cannot be said in short."""
    kind = type(value)
    if kind is np.ndarray or kind.__name__ == "Tensor":
        return kind, value.shape, value.dtype
    if value is None or kind in _PLAIN or isinstance(value, np.generic):
        return kind
    if isinstance(value, (tuple, list, dict)):
        kinds = tuple(map(_kind, value.values() if isinstance(value, dict) else value))
        return _UNKNOWN_KIND if _UNKNOWN_KIND in kinds else (kind, kinds)
    # What is no array is asked for its class alone.
    return _UNKNOWN_KIND if hasattr(value, "shape") else kind


def _hints(function: FunctionType) -> dict[str, Any]:
    # A named tuple has made methods of its own.
    names = vars(sys.modules.get(function.__module__, typing))
    hints = {name: _hint(text, names) for name, text in function.__annotations__.items()}
    return {name: hint for name, hint in hints.items() if _has_shape(hint)}


def _hint_of_field(cls: type, name: str) -> Any:
    owner = next(base for base in cls.__mro__ if name in inspect.get_annotations(base))
    return _hint(owner.__annotations__[name], vars(sys.modules[owner.__module__]))


def _hint(text: Any, names: Mapping[str, Any]) -> Any:
    """What an annotation means; None if it has no shape and names what type checkers import."""
    if not isinstance(text, str):
        return text
    try:
        return eval(text, dict(names))
    except NameError as error:
        if not re.search(r"\b(Bool|Float|Int|Real|Shaped)\[", text):
            return None
        if error.name != "Tensor":
            raise
    import torch  # which the rooms import where they compute, so that nobody waits for it

    return eval(text, {**names, "Tensor": torch.Tensor})


def _has_shape(hint: Any) -> bool:
    if inspect.isclass(hint) and issubclass(hint, jaxtyping.AbstractArray):
        return True
    return get_origin(hint) is not Callable and any(map(_has_shape, get_args(hint)))
