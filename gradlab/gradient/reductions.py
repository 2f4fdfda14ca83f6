"""Which calls of torch sum over coordinates, as `gradlab.gradient.pairs_as_products` rewrites them.

A signature takes the arguments of a call and returns those of a reduction: its kind (``"sum"``,
``"mean"``, ``"norm"`` or ``"cosine"``), the tensors, the axis, whether the axis is kept, and the
smallest length or what a distance adds. It returns None for a call that is computed plainly.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def is_number(power: Any, number: int) -> bool:
    """Return whether a power or order is this number."""
    return isinstance(power, (int, float)) and not isinstance(power, bool) and power == number


def _sum(tensor: Any, dim: Any = None, keepdim: bool = False) -> Any:
    return "sum", (tensor,), dim, keepdim, 0.0


def _mean(tensor: Any, dim: Any = None, keepdim: bool = False) -> Any:
    return "mean", (tensor,), dim, keepdim, 0.0


def _norm(
    tensor: Any, p: Any = "fro", dim: Any = None, keepdim: bool = False, out: Any = None,
    dtype: Any = None,
) -> Any:  # fmt: skip
    if out is not None or dtype is not None or not (p in ("fro", None) or is_number(p, 2)):
        return None
    return "norm", (tensor,), dim, keepdim, 0.0


def _linalg_norm(A: Any, ord: Any = None, dim: Any = None, keepdim: bool = False) -> Any:
    return _norm(A, ord, dim, keepdim)


def _vector_norm(x: Any, ord: Any = 2, dim: Any = None, keepdim: bool = False) -> Any:
    return _norm(x, ord, dim, keepdim)


def _cosine(x1: Any, x2: Any, dim: Any = 1, eps: float = 1e-8) -> Any:
    return "cosine", (x1, x2), dim, False, eps


def _distance(x1: Any, x2: Any, p: Any = 2.0, eps: float = 1e-6, keepdim: bool = False) -> Any:
    return ("norm", (x1, x2), -1, keepdim, eps) if is_number(p, 2) else None


BINARY = {
    "mul": "product",
    "multiply": "product",
    "sub": "difference",
    "subtract": "difference",
}
# Number of arguments of functions that square a tensor.
SQUARES = {"square": 1, "pow": 2}
SIGNATURES: dict[str, Callable[..., Any]] = {
    "sum": _sum,
    "mean": _mean,
    "norm": _norm,
    "linalg_norm": _linalg_norm,
    "linalg_vector_norm": _vector_norm,
    "cosine_similarity": _cosine,
    "pairwise_distance": _distance,
}
