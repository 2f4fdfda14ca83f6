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
from collections.abc import Callable, Iterator
from typing import Any

import array_api_compat.numpy as numpy_namespace
import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from gradlab.errors import GradlabError
from gradlab.settings.declaration import Declaration

# Functions of `math` that a formula may apply to a hyper-parameter.
MATH = (
    *("cos", "sin", "tan", "exp", "expm1", "log", "log1p", "sqrt", "tanh"),
    *("acos", "asin", "atan", "atanh"),
)
# Operations of ``arrays.js``, which have the names of the array API.
OPERATIONS = frozenset(
    {*MATH, "negative", "positive", "abs", "sinh", "cosh", "floor", "ceil", "trunc", "sign"}
    | {"square", "isfinite", "isinf", "isnan", "add", "subtract", "multiply", "divide"}
    | {"floor_divide", "remainder", "pow", "less", "less_equal", "greater", "greater_equal"}
    | {"equal", "not_equal", "atan2", "hypot", "maximum", "minimum", "logaddexp", "clip", "where"}
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
        value = compute(*concrete(args), **concrete(options))
        if operation.startswith("logical") and np.asarray(value).dtype != bool:
            raise GradlabError("the page has no operations on the bits of whole numbers")
        arguments = [argument for argument in args if not isinstance(argument, (np.dtype, type))]
        if operation == "astype":
            arguments.append(value.dtype.kind)
        if keywords := {key: option for key, option in options.items() if key not in IGNORED}:
            arguments.append(keywords)
        call_text = f"$.{operation.replace('.', '_')}({', '.join(map(literal, arguments))})"
        return self.wrap(self.name_of(call_text), value)

    def name_of(self, expression: str) -> str:
        """Return the name of an expression's value; equal expressions share one."""
        return self.statements.setdefault(expression, f"t{len(self.statements)}")

    def wrap(self, name: str, value: Any) -> Any:
        """Return a symbol of the right kind for a value; of a condition, its outcome."""
        if isinstance(value, (tuple, list)):
            return type(value)(
                self.wrap(f"{name}[{index}]", item) for index, item in enumerate(value)
            )
        if isinstance(value, (np.ndarray, np.generic)):
            return TracedArray(self, name, np.asarray(value))
        if isinstance(value, bool):
            return self.went(name, value)
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
        attribute = getattr(self._values, name)
        if name == "linalg":
            return Namespace(self._trace, attribute, "linalg.")
        as_is = isinstance(attribute, type) or name in ("isdtype", "finfo", "result_type")
        if as_is or not callable(attribute):
            return attribute

        def record(*args: Any, **options: Any) -> Any:
            return self._trace.call(self._prefix + name, attribute, *args, **options)

        return record


class Symbol(NDArrayOperatorsMixin):
    """A value with a name in the script, with numpy's operators."""

    trace: Trace
    name: str
    value: Any

    def __array_ufunc__(self, function: np.ufunc, method: str, *args: Any, **options: Any) -> Any:
        if method != "__call__":
            raise GradlabError(f"the page has no 'numpy.{function.__name__}.{method}'")
        options.pop("out", None)  # an operator such as += makes a new symbol
        numbers = all(isinstance(argument, (int, float)) for argument in args)

        def compute(*values: Any, **keywords: Any) -> Any:
            computed = function(*values, **keywords)
            return computed.item() if numbers else computed

        return self.trace.call(function.__name__, compute, *args, **options)


class TracedArray(Symbol):
    """An array of the script."""

    __hash__ = object.__hash__
    __iter__ = None  # a loop over its rows would have as many steps as rows

    def __init__(self, trace: Trace, name: str, value: np.ndarray) -> None:
        self.trace, self.name, self.value = trace, name, value

    def __array_namespace__(self, api_version: str | None = None) -> Namespace:
        return self.trace.xp

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise GradlabError("a script cannot make a numpy array of its arrays")

    @property
    def shape(self) -> tuple[Any, ...]:
        """Sizes as symbols, which stay inputs of the script."""
        return tuple(
            Size(self.trace, self.trace.name_of(f"$.size({self.name}, {axis})"), size)
            for axis, size in enumerate(self.value.shape)
        )

    @property
    def T(self) -> Any:
        """Transpose of a matrix."""
        return self.trace.call("matrix_transpose", np.transpose, self)

    mT = T

    def __getitem__(self, index: Any) -> Any:
        selectors = index if isinstance(index, tuple) else (index,)
        if any(isinstance(place, TracedArray) and place.dtype == bool for place in selectors):
            raise GradlabError("a script cannot select by a mask, which changes shapes")
        return self.trace.call("getitem", lambda value, *at: value[tuple(at)], self, *selectors)

    def __bool__(self) -> bool:
        return self.trace.went(self.name, bool(self.value))

    def __getattr__(self, name: str) -> Any:
        if name in ("dtype", "ndim", "device"):  # fixed in the script
            return getattr(self.value, name)
        if name.startswith("__"):
            raise AttributeError(name)
        raise GradlabError(f"the page has no method {name!r} of arrays")


class Scalar(Symbol):
    """Base of `Number` and `Size`: arithmetic stays symbolic, and comparisons are conditions."""

    def __new__(cls, trace: Trace, name: str, value: Any) -> Any:
        scalar: Any = super().__new__(cls, value)  # type: ignore[call-arg]  # float or int
        scalar.trace, scalar.name, scalar.value = trace, name, value
        return scalar

    def __hash__(self) -> int:
        return hash(self.name)

    def __eq__(self, other: object) -> Any:
        if isinstance(self, Number) and isinstance(other, Number):
            # Two inputs with equal values now may differ later.
            return self.name == other.name
        return isinstance(other, (int, float)) and super().__eq__(other)

    def __ne__(self, other: object) -> Any:
        return not self == other

    def __bool__(self) -> bool:
        return bool(self != 0)

    def __copy__(self) -> Any:
        return self

    def __deepcopy__(self, memo: Any) -> Any:
        return self

    def __int__(self) -> int:
        return int(self._fixed())

    def __float__(self) -> float:
        return float(self._fixed())

    def __round__(self, *digits: Any) -> Any:
        return round(self._fixed(), *digits)

    def __trunc__(self) -> int:
        return math.trunc(self._fixed())

    def __floor__(self) -> int:
        return math.floor(self._fixed())

    def __ceil__(self) -> int:
        return math.ceil(self._fixed())

    def _fixed(self) -> Any:
        """Return the value, which is no longer a symbol: the script is for this value alone."""
        self.trace.went(self.trace.name_of(f"$.equal({self.name}, {literal(self.value)})"), True)
        return self.value


class Number(Scalar, float):  # type: ignore[misc]  # operators are numpy's
    """A hyper-parameter, or the result of arithmetic with it."""


class Size(Scalar, int):  # type: ignore[misc]
    """The length of an axis, or the result of arithmetic with it."""


def concrete(value: Any) -> Any:
    """Return the value without its name, also within tuples, lists, dicts and slices."""
    if isinstance(value, Symbol):
        return value.value
    if isinstance(value, (tuple, list)):
        return type(value)(map(concrete, value))
    if isinstance(value, dict):
        return {key: concrete(item) for key, item in value.items()}
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
        value = "..."
    if value is None or isinstance(value, (bool, int, float, str)):
        return json.dumps(value)  # also NaN and Infinity
    if isinstance(value, (tuple, list)):
        return f"[{', '.join(map(literal, value))}]"
    if isinstance(value, slice):
        value = {name: getattr(value, name) for name in ("start", "stop", "step")}
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {literal(item)}" for key, item in value.items()) + "}"
    if isinstance(value, np.ndarray):
        return f"$.asarray({literal(value.tolist())})"
    raise GradlabError(f"a script cannot hold a {type(value).__name__}")


@contextlib.contextmanager
def symbols_pass() -> Iterator[None]:
    """Let `Number` pass through ``math`` and through checks of settings within the block.

    Functions of ``math`` then return symbols, so that ``math.cos(margin)`` stays adjustable, and a
    loss can make another loss from its own hyper-parameters. Other values are treated as before.
    """

    def traced(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def apply(*args: Any) -> Any:
            if len(args) == 1 and isinstance(args[0], Scalar):
                return args[0].trace.call(name, function, *args)
            return function(*args)

        return apply

    def check_others(self: Declaration, value: Any) -> Any:
        return value if isinstance(value, Scalar) else check(self, value)

    check = Declaration.check
    functions = {name: getattr(math, name) for name in MATH}
    try:
        for name, function in functions.items():
            setattr(math, name, traced(name, function))
        Declaration.check = check_others  # type: ignore[method-assign]
        yield
    finally:
        Declaration.check = check  # type: ignore[method-assign]
        for name, function in functions.items():
            setattr(math, name, function)
