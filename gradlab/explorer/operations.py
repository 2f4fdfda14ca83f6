"""What the page computes with: the operations of ``arrays.js``, by the names of the array API."""

from __future__ import annotations

UNARY = {"__neg__": "negative", "__pos__": "positive", "__abs__": "abs"}
BINARY = {
    "add": "add",
    "sub": "subtract",
    "mul": "multiply",
    "truediv": "divide",
    "floordiv": "floor_divide",
    "mod": "remainder",
    "pow": "pow",
}
COMPARISONS = {
    "lt": "less",
    "le": "less_equal",
    "gt": "greater",
    "ge": "greater_equal",
    "eq": "equal",
    "ne": "not_equal",
}
# Functions of `math` that a formula may take of a hyper-parameter, and their names in `arrays.js`.
MATH = {name: name for name in ("cos", "sin", "tan", "exp", "expm1", "log", "log1p", "sqrt", "tanh")} | {
    "acos": "acos",
    "asin": "asin",
    "atan": "atan",
    "atanh": "atanh",
}
# What arrays.js offers. A test compares this list with the file.
OPERATIONS = frozenset(
    {*UNARY.values(), *BINARY.values(), *COMPARISONS.values(), *MATH.values()}
    | {"sinh", "cosh", "floor", "ceil", "trunc", "sign", "square", "isfinite", "isinf", "isnan"}
    | {"atan2", "hypot", "maximum", "minimum", "logaddexp", "clip", "where"}
    | {"logical_and", "logical_or", "logical_xor", "logical_not"}
    | {"sum", "prod", "mean", "max", "min", "all", "any", "count_nonzero", "argmax", "argmin"}
    | {"matmul", "vecdot", "matrix_transpose", "permute_dims", "linalg.vector_norm", "linalg.diagonal"}
    | {"reshape", "broadcast_to", "broadcast_arrays", "expand_dims", "squeeze", "concat", "stack"}
    | {"take", "take_along_axis", "tril", "triu", "getitem", "size"}
    | {"asarray", "astype", "arange", "eye", "zeros", "ones", "full"}
    | {"zeros_like", "ones_like", "full_like"}
)
ALIASES = {  # numpy's own names
    "absolute": "abs", "arctan2": "atan2", "arctan": "atan", "arcsin": "asin", "arccos": "acos", "arctanh": "atanh",
    "power": "pow", "true_divide": "divide", "concatenate": "concat", "bitwise_and": "logical_and",
    "bitwise_or": "logical_or", "bitwise_xor": "logical_xor", "invert": "logical_not", "amax": "max", "amin": "min",
}  # fmt: skip
