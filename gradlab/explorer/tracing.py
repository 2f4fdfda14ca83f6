"""Arrays that record operations, so that a formula evaluated on them becomes JavaScript.

A symbol carries a value and a name in the script. The formula runs once: numpy computes the values,
which gives shapes, dtypes and conditions, and each step becomes a call of ``arrays.js``. The
outcome of a condition (``if`` on a number, a size or a whole array) is recorded, and the script
refuses inputs with another outcome. Numbers and sizes are symbols too, so that hyper-parameters and
counts stay inputs of the script.
"""

from __future__ import annotations

import contextlib
import json
import math
import operator
from collections.abc import Callable, Iterator
from typing import Any

import array_api_compat.numpy as numpy_namespace
import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from gradlab.errors import GradlabError
from gradlab.settings.declaration import Declaration

# Operators of Python -> operations of ``arrays.js``, which have the names of the array API.
UNARY = {"neg": "negative", "pos": "positive", "abs": "abs"}
BINARY = {
    "add": "add", "sub": "subtract", "mul": "multiply", "truediv": "divide",
    "floordiv": "floor_divide", "mod": "remainder", "pow": "pow",
}  # fmt: skip
COMPARISONS = {
    "lt": "less", "le": "less_equal", "gt": "greater", "ge": "greater_equal",
    "eq": "equal", "ne": "not_equal",
}  # fmt: skip
# Functions of `math` that a formula may apply to a hyper-parameter.
MATH = (
    *("cos", "sin", "tan", "exp", "expm1", "log", "log1p", "sqrt", "tanh"),
    *("acos", "asin", "atan", "atanh"),
)
# Operations of ``arrays.js``, with which a test compares this list.
OPERATIONS = frozenset(
    {*UNARY.values(), *BINARY.values(), *COMPARISONS.values(), *MATH}
    | {"sinh", "cosh", "floor", "ceil", "trunc", "sign", "square", "isfinite", "isinf", "isnan"}
    | {"atan2", "hypot", "maximum", "minimum", "logaddexp", "clip", "where"}
    | {"logical_and", "logical_or", "logical_xor", "logical_not", "matmul"}
    | {"sum", "prod", "mean", "max", "min", "all", "any", "count_nonzero", "argmax", "argmin"}
    | {"vecdot", "matrix_transpose", "permute_dims", "linalg.vector_norm", "linalg.diagonal"}
    | {"reshape", "broadcast_to", "broadcast_arrays", "expand_dims", "squeeze", "concat", "stack"}
    | {"take", "take_along_axis", "tril", "triu", "getitem", "size"}
    | {"asarray", "astype", "arange", "eye", "zeros", "ones", "full"}
    | {"zeros_like", "ones_like", "full_like"}
)
ALIASES = {  # names of numpy
    "absolute": "abs", "arctan2": "atan2", "arctan": "atan", "arcsin": "asin", "arccos": "acos",
    "arctanh": "atanh", "power": "pow", "true_divide": "divide", "concatenate": "concat",
    "bitwise_and": "logical_and", "bitwise_or": "logical_or", "bitwise_xor": "logical_xor",
    "invert": "logical_not", "amax": "max", "amin": "min",
}  # fmt: skip
IGNORED = {"dtype", "device", "copy"}  # a script has one kind of number
# Special methods of arrays that a script cannot have, and what it cannot do.
REFUSED = {
    **dict.fromkeys(("__float__", "__int__", "__index__"), "make a Python number of an array"),
    "__array__": "make a numpy array of its arrays",
    "__iter__": "loop over the rows of an array",
    "__setitem__": "assign to a part of an array",
}


class Trace:
    """Recorded operations.

    Attributes:
        statements: JavaScript expression -> name of its value, in order.
        conditions: name of a condition -> its outcome.
        xp: the array namespace for arrays of this trace.
    """

    def __init__(self) -> None:
        self.statements: dict[str, str] = {}
        self.conditions: dict[str, bool] = {}
        self.xp = Namespace(self, numpy_namespace)

    def call(self, operation: str, compute: Callable[..., Any], *args: Any, **options: Any) -> Any:
        """Compute with the values, and record the operation by the names.

        Raises:
            GradlabError: an operation that ``arrays.js`` lacks.
        """
        operation = ALIASES.get(operation, operation)
        if operation not in OPERATIONS:
            raise GradlabError(f"the page has no {operation!r}")
        value = compute(
            *map(concrete, args), **{key: concrete(option) for key, option in options.items()}
        )
        given = [
            literal(argument) for argument in args if not isinstance(argument, (np.dtype, type))
        ]
        if operation == "astype":
            given.append(literal(np.dtype(value.dtype).kind))
        kept = {key: literal(option) for key, option in options.items() if key not in IGNORED}
        if kept:
            given.append("{" + ", ".join(f"{key}: {text}" for key, text in kept.items()) + "}")
        name = self.name_of(f"$.{operation.replace('.', '_')}({', '.join(given)})")
        return self.wrap(name, value)

    def name_of(self, expression: str) -> str:
        """Return the name of an expression's value; equal expressions share one."""
        return self.statements.setdefault(expression, f"t{len(self.statements)}")

    def wrap(self, name: str, value: Any) -> Any:
        """Return a symbol of the right kind for a value."""
        if isinstance(value, (tuple, list)):
            return type(value)(
                self.wrap(f"{name}[{index}]", item) for index, item in enumerate(value)
            )
        if isinstance(value, (np.ndarray, np.generic)):
            return TracedArray(self, name, np.asarray(value))
        return Size(self, name, value) if isinstance(value, int) else Number(self, name, value)

    def went(self, name: str, way: bool) -> bool:
        """Record and return the outcome of a condition."""
        self.conditions.setdefault(name, way)
        return way


class Namespace:
    """An array namespace, or a part such as ``linalg``, that records calls."""

    def __init__(self, trace: Trace, values: Any, prefix: str = "") -> None:
        self._trace, self._values, self._prefix = trace, values, prefix
        self.__name__ = "gradlab.explorer.tracing"

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._values, name)
        if name == "linalg":
            return Namespace(self._trace, found, "linalg.")
        if (
            isinstance(found, type)
            or not callable(found)
            or name in ("isdtype", "finfo", "result_type")
        ):
            return found

        def record(*args: Any, **options: Any) -> Any:
            return self._trace.call(self._prefix + name, found, *args, **options)

        return record


class Symbol:
    """A value with a name in the script."""

    trace: Trace
    name: str
    value: Any

    def __array_ufunc__(self, function: np.ufunc, method: str, *args: Any, **options: Any) -> Any:
        if method != "__call__":
            raise GradlabError(f"the page has no 'numpy.{function.__name__}.{method}'")
        options.pop("out", None)  # an operator such as += makes a new symbol
        return self.trace.call(function.__name__, function, *args, **options)


class TracedArray(Symbol, NDArrayOperatorsMixin):
    """An array of the script, with numpy's operators."""

    __hash__ = object.__hash__

    def __init__(self, trace: Trace, name: str, value: np.ndarray) -> None:
        self.trace, self.name, self.value = trace, name, value

    def __array_namespace__(self, api_version: str | None = None) -> Namespace:
        return self.trace.xp

    @property
    def shape(self) -> tuple[Any, ...]:
        """Sizes as symbols, which stay inputs of the script."""
        return tuple(
            Size(self.trace, self.trace.name_of(f"$.size({self.name}, {axis})"), size)
            for axis, size in enumerate(self.value.shape)
        )

    @property
    def ndim(self) -> int:
        """Number of axes, fixed in the script."""
        return self.value.ndim

    @property
    def dtype(self) -> np.dtype[Any]:
        """Dtype of the value."""
        return self.value.dtype

    @property
    def device(self) -> str:
        """Device of numpy arrays, ``"cpu"``."""
        return "cpu"

    @property
    def T(self) -> Any:
        """Transpose of a matrix."""
        return self.trace.call("matrix_transpose", np.transpose, self)

    mT = T

    def __getitem__(self, index: Any) -> Any:
        parts = index if isinstance(index, tuple) else (index,)
        if any(isinstance(part, TracedArray) and part.dtype == bool for part in parts):
            raise GradlabError("a script cannot select by a mask, which changes shapes")
        return self.trace.call("getitem", lambda value, *at: value[tuple(at)], self, *parts)

    def __bool__(self) -> bool:
        return self.trace.went(self.name, bool(self.value))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise GradlabError(f"the page has no method {name!r} of arrays")


class Scalar(Symbol):
    """Base of `Number` and `Size`: arithmetic stays symbolic, and comparisons are conditions."""

    def __new__(cls, trace: Trace, name: str, value: Any) -> Any:
        made: Any = super().__new__(cls, value)  # type: ignore[call-arg]  # float or int
        made.trace, made.name, made.value = trace, name, value
        return made

    def __hash__(self) -> int:
        return hash(self.name)

    def __bool__(self) -> bool:
        return bool(self != 0)

    def __copy__(self) -> Any:
        return self

    def __deepcopy__(self, memo: Any) -> Any:
        return self


class Number(Scalar, float):
    """A hyper-parameter, or the result of arithmetic with it."""


class Size(Scalar, int):
    """The length of an axis, or the result of arithmetic with it."""


def concrete(value: Any) -> Any:
    """Return the value without its name, also within tuples, lists and slices."""
    if isinstance(value, Symbol):
        return value.value
    if isinstance(value, (tuple, list)):
        return type(value)(map(concrete, value))
    if isinstance(value, slice):
        return slice(concrete(value.start), concrete(value.stop), concrete(value.step))
    return value


def literal(value: Any) -> str:
    """Return a value as JavaScript.

    Raises:
        GradlabError: a value without a counterpart in JavaScript.
    """
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, Symbol):
        return value.name
    if value is Ellipsis:
        return "'...'"
    if isinstance(value, str):
        return repr(value)
    if value is None or isinstance(value, (bool, int, float)):
        return json.dumps(value)  # also NaN and Infinity
    if isinstance(value, (tuple, list)):
        return f"[{', '.join(map(literal, value))}]"
    if isinstance(value, slice):
        return (
            f"{{start: {literal(value.start)}, stop: {literal(value.stop)}, "
            f"step: {literal(value.step)}}}"
        )
    if isinstance(value, np.ndarray):
        return f"$.asarray({literal(value.tolist())})"
    raise GradlabError(f"a script cannot hold a {type(value).__name__}")


def _arithmetic(name: str, function: Callable[..., Any], reflected: bool) -> Callable[..., Any]:
    def apply(self: Any, other: Any) -> Any:
        if not isinstance(other, (int, float)):
            return NotImplemented
        pair = (other, self) if reflected else (self, other)
        return self.trace.call(name, function, *pair)

    return apply


def _comparison(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    def compare(self: Any, other: Any) -> Any:
        if not isinstance(other, (int, float)):
            return NotImplemented
        if (
            isinstance(self, Number)
            and isinstance(other, Number)
            and name in ("equal", "not_equal")
        ):
            # Two inputs with equal values now may differ later.
            return (self.name == other.name) == (name == "equal")
        expression = f"$.{name}({literal(self)}, {literal(other)})"
        return self.trace.went(
            self.trace.name_of(expression), function(concrete(self), concrete(other))
        )

    return compare


def _unary(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda self: self.trace.call(name, function, self)


def _refusing(how: str) -> Callable[..., Any]:
    def refuse(self: Any, *_: Any, **__: Any) -> Any:
        raise GradlabError(f"a script cannot {how}")

    return refuse


def _fixing(method: str) -> Callable[..., Any]:
    def convert(self: Any, *args: Any) -> Any:
        # The converted number is no longer a symbol, so its value is fixed.
        value = concrete(self)
        self.trace.went(self.trace.name_of(f"$.equal({self.name}, {literal(value)})"), True)
        return getattr(value, method)(*args)

    return convert


for _method, _how in REFUSED.items():
    setattr(TracedArray, _method, _refusing(_how))
for _method in ("__int__", "__float__", "__round__", "__trunc__", "__floor__", "__ceil__"):
    setattr(Scalar, _method, _fixing(_method))
for _short, _name in UNARY.items():
    setattr(Scalar, f"__{_short}__", _unary(_name, getattr(operator, f"__{_short}__")))
for _short, _name in BINARY.items():
    _function = getattr(operator, f"__{_short}__")
    setattr(Scalar, f"__{_short}__", _arithmetic(_name, _function, reflected=False))
    setattr(Scalar, f"__r{_short}__", _arithmetic(_name, _function, reflected=True))
for _short, _name in COMPARISONS.items():
    setattr(Scalar, f"__{_short}__", _comparison(_name, getattr(operator, f"__{_short}__")))


@contextlib.contextmanager
def symbols_pass() -> Iterator[None]:
    """Let `Number` pass through ``math`` and through checks of settings within the block.

    Functions of ``math`` then return symbols, so that ``math.cos(margin)`` stays adjustable, and a
    loss can make another loss from its own hyper-parameters. Other values are treated as before.
    """

    def wrapped(name: str) -> Callable[..., Any]:
        function = getattr(math, name)

        def apply(*args: Any) -> Any:
            if len(args) == 1 and isinstance(args[0], Scalar):
                return args[0].trace.call(name, function, *args)
            return function(*args)

        return apply

    check = Declaration.check

    def check_others(self: Declaration, value: Any) -> Any:
        return value if isinstance(value, Scalar) else check(self, value)

    def put(functions: dict[tuple[Any, str], Any]) -> None:
        for (owner, name), function in functions.items():
            setattr(owner, name, function)

    changes = {(math, name): wrapped(name) for name in MATH} | {
        (Declaration, "check"): check_others
    }
    originals = {place: getattr(*place) for place in changes}
    put(changes)
    try:
        yield
    finally:
        put(originals)
