"""A few numerically stable functions that serve numpy and torch arrays alike.

Formulas are written once, against the namespace of their input: numpy for the simulator, so that it
need not wait for torch to import, and torch where gradients or a GPU are wanted.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from array_api_compat import array_namespace, is_torch_array

# A numpy array or a torch tensor; shapes are written in docstrings as (..., K).
Array = Any


def logsumexp(x: Array) -> Array:
    """``log Σ_k exp(x_k)`` over the last axis, (..., K) -> (...,); entries may be -inf."""
    xp = array_namespace(x)
    if is_torch_array(x):
        return xp.logsumexp(x, -1)
    largest = xp.max(x, axis=-1, keepdims=True)
    return xp.log(xp.sum(xp.exp(x - largest), axis=-1)) + largest[..., 0]


def softmax(x: Array) -> Array:
    """Softmax over the last axis, (..., K) -> (..., K); entries may be -inf."""
    xp = array_namespace(x)
    if is_torch_array(x):
        return xp.softmax(x, -1)
    e = xp.exp(x - xp.max(x, axis=-1, keepdims=True))
    return e / xp.sum(e, axis=-1, keepdims=True)


def softmax_of_all(x: Array) -> Array:
    """Softmax over all entries together, any shape; entries may be -inf."""
    xp = array_namespace(x)
    return xp.reshape(softmax(xp.reshape(x, (-1,))), x.shape)


def divide(numerator: Array, denominator: Array) -> Array:
    """IEEE division (0/0 is NaN, 1/0 infinite) without numpy's warnings."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return numerator / denominator


def reciprocal(x: Array, above: float = 0.0) -> Array:
    """``1/x`` where ``x > above`` (at least 0), 0 elsewhere; neither it nor its derivative is ever NaN."""
    xp = array_namespace(x)
    usable = x > above
    return xp.where(usable, 1 / xp.where(usable, x, xp.ones_like(x)), xp.zeros_like(x))


def finite(x: Array) -> Array:
    """``x``, with 0 where it is infinite or NaN."""
    xp = array_namespace(x)
    return xp.where(xp.isfinite(x), x, xp.zeros_like(x))


def sigmoid(x: Array) -> Array:
    """``1/(1 + exp(-x))``, elementwise, without overflow and accurate in both tails."""
    xp = array_namespace(x)
    if is_torch_array(x):
        return xp.sigmoid(x)
    with np.errstate(over="ignore"):  # an infinite exponential is the right limit, σ = 0
        return 1 / (1 + xp.exp(-x))


def log_sigmoid(x: Array) -> Array:
    """``log σ(x)``, elementwise; accurate in both tails, and so is its derivative."""
    xp = array_namespace(x)
    if is_torch_array(x):
        import torch.nn.functional

        return torch.nn.functional.logsigmoid(x)
    return -xp.logaddexp(xp.zeros_like(x), -x)


def detach(x: Array) -> Array:
    """``x`` without its gradient (the papers' 'no gradient'); numpy arrays pass through."""
    return x.detach() if is_torch_array(x) else x


def as_float(condition: Array, like: Array) -> Array:
    """A boolean array as zeros and ones in the dtype of ``like``."""
    return array_namespace(like).astype(condition, like.dtype)


def take(x: Array, index: Array) -> Array:
    """Pick one entry a row: (..., K) and integer (...,) -> (...,)."""
    xp = array_namespace(x)
    return xp.take_along_axis(x, index[..., None], axis=-1)[..., 0]


def one_hot(index: Array, size: int, values: Array) -> Array:
    """(...,) -> (..., size): ``values`` in column ``index``, zero elsewhere (also where values are infinite)."""
    xp = array_namespace(values)
    columns = xp.arange(size, device=values.device)
    return xp.where(columns == index[..., None], values[..., None], xp.zeros_like(values)[..., None])


def span(x: Array) -> str:
    """An array in a few words, for people: ``mean 0.42 (0.00013 to 1)``; entries that are not finite are counted apart."""
    values = np.asarray(detach(x).cpu() if is_torch_array(x) else x, dtype=np.float64).ravel()
    usual = values[np.isfinite(values)]
    if not usual.size:
        return "nowhere finite" if values.size else "empty"
    low, high = usual.min(), usual.max()
    same = f"{low:.3g}" == f"{high:.3g}"
    words = f"{low:.3g} throughout" if same else f"mean {usual.mean():.3g} ({low:.3g} to {high:.3g})"
    others = values.size - usual.size
    return words + (f", {others} not finite" if others else "")
