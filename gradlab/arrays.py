"""Arrays of any library, annotations of their shapes, and numerically stable functions of them.

Formulas are written once, for the array namespace of their input: numpy for the simulator, which
then need not import torch, and torch for gradients or a GPU.

Signatures state shapes, as in ``Float[Array, "n d"]``. Each letter has one meaning everywhere:

- ``n``: sentences of a batch, each an anchor with its positive;
- ``d``: dimensions of an embedding;
- ``m``: extra negatives, which all anchors share; ``n+m``: a view followed by them;
- ``k``: columns of an anchor's negatives, including its own column if that is masked (by -inf);
- ``*n``: any number of axes, for formulas of a batch (``n``), a grid of angles (``p b``) or a
  single pair; ``*#n``: axes that broadcast against them;
- ``p``, ``q``: mean angles to the positive and to the negatives on a simulated grid;
- ``b``: batches, drawn or sampled;
- ``a``: points, such as nodes of a quadrature or vertices of a grid.

Other dimensions have full names. Tests check shapes (jaxtyping and beartype, see
``tests/shape_checks.py``); elsewhere they cost nothing.
"""

from __future__ import annotations

import contextlib
import functools
import math
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from array_api_compat import array_namespace, is_numpy_array, is_torch_array

from gradlab.errors import GradlabError

# Shapes are checked only if jaxtyping is loaded already; otherwise skip its import (0.2 s).
if TYPE_CHECKING or "jaxtyping" in sys.modules:
    from jaxtyping import Bool as Bool
    from jaxtyping import Float as Float
    from jaxtyping import Int as Int
    from jaxtyping import Real as Real
    from jaxtyping import Shaped as Shaped
else:
    from typing import Annotated

    Bool = Float = Int = Real = Shaped = Annotated

if TYPE_CHECKING:
    from functools import cached_property as cached_property
else:

    class cached_property:  # without the lock of functools, which `torch.compile` cannot trace
        """A property that is computed once."""

        def __init__(self, function: Any) -> None:
            self.func, self.name, self.__doc__ = function, function.__name__, function.__doc__

        def __get__(self, instance: Any, owner: Any = None) -> Any:
            if instance is None:
                return self
            value = self.func(instance)
            object.__setattr__(instance, self.name, value)
            return value


# Any object with a shape and a dtype: numpy array, torch tensor, or array of `gradlab.explorer`.
Array = Any


def without_autocast(x: Array) -> Any:
    """Return a context in which autocast does not change the precision of operations on ``x``."""
    if not is_torch_array(x):
        return contextlib.nullcontext()
    import torch

    # The context would cost as much as twenty operations on small arrays.
    if not torch.compiler.is_compiling() and not torch.is_autocast_enabled(x.device.type):
        return contextlib.nullcontext()
    return torch.autocast(x.device.type, enabled=False)


@contextlib.contextmanager
def recording_gradients() -> Iterator[None]:
    """Let torch record gradients within the block, even inside ``torch.inference_mode``.

    Tensors made in inference mode have to be cloned in the block.
    """
    import torch

    with torch.inference_mode(False), torch.enable_grad():
        yield


def compiled(x: Array) -> bool:
    """Whether `torch.compile` is tracing ``x``, so that no number can be read."""
    if not is_torch_array(x):
        return False
    import torch

    return torch.compiler.is_compiling()


def require(condition: Bool[Array, ""], message: str) -> None:
    """Raise `GradlabError` if a condition is false; in compiled programs, torch's RuntimeError."""
    if compiled(condition):
        import torch

        torch._assert_async(condition, message)
    elif not bool(condition):
        raise GradlabError(message)


def logsumexp(x: Float[Array, "*n k"]) -> Float[Array, "*n"]:
    """Return ``log Σ_k exp(x_k)`` over the last axis; any or all entries may be -inf."""
    xp = array_namespace(x)
    if is_torch_array(x):
        return xp.logsumexp(x, -1)
    _, total, largest = exponentials(x)
    return log(total[..., 0]) + largest[..., 0]


def log(x: Float[Array, "*n"]) -> Float[Array, "*n"]:
    """Return ``log x``, which is -inf at 0, without numpy's warning."""
    xp = array_namespace(x)
    if is_torch_array(x):
        return xp.log(x)
    with np.errstate(divide="ignore"):
        return xp.log(x)


def softmax(x: Float[Array, "*n k"]) -> Float[Array, "*n k"]:
    """Return the softmax over the last axis; entries may be -inf (NaN if all are)."""
    xp = array_namespace(x)
    if is_torch_array(x):
        return xp.softmax(x, -1)
    shifted, total, _ = exponentials(x)
    return divide(shifted, total)


def exponentials(
    x: Float[Array, "*n k"],
) -> tuple[Float[Array, "*n k"], Float[Array, "*n 1"], Float[Array, "*n 1"]]:
    """Return ``exp(x_k - c)``, its sum over the last axis, and c: the largest entry, if finite.

    If the largest entry is infinite, c is 0.
    """
    xp = array_namespace(x)
    largest = xp.max(x, axis=-1, keepdims=True)
    largest = xp.where(xp.isinf(largest), xp.zeros_like(largest), largest)
    shifted = x - largest
    # In place where the library can: memory for a new array costs more than the exponentials.
    powers = np.exp(shifted, out=shifted) if is_numpy_array(shifted) else xp.exp(shifted)
    return powers, xp.sum(powers, axis=-1, keepdims=True), largest


def softmax_of_all(x: Float[Array, "*n"]) -> Float[Array, "*n"]:
    """Return the softmax over all entries together; entries may be -inf."""
    xp = array_namespace(x)
    return xp.reshape(softmax(xp.reshape(x, (-1,))), x.shape)


def divide(numerator: Float[Array, "*#n"], denominator: Float[Array, "*#n"]) -> Float[Array, "*n"]:
    """Divide as in IEEE 754 (0/0 is NaN, 1/0 is infinite), without numpy's warnings."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        return numerator / denominator


def reciprocal(x: Float[Array, "*n"], above: float = 0.0) -> Float[Array, "*n"]:
    """Return ``1/x`` where ``x > above`` (at least 0) and 0 elsewhere.

    Value and derivative are never NaN.
    """
    xp = array_namespace(x)
    usable = x > above
    return xp.where(usable, 1 / xp.where(usable, x, xp.ones_like(x)), xp.zeros_like(x))


def finite(x: Float[Array, "*n"]) -> Float[Array, "*n"]:
    """Return ``x`` with 0 in place of infinite entries and NaN."""
    xp = array_namespace(x)
    return xp.where(xp.isfinite(x), x, xp.zeros_like(x))


def sigmoid(x: Float[Array, "*n"]) -> Float[Array, "*n"]:
    """Return ``1/(1 + exp(-x))`` elementwise, without overflow and accurate in both tails."""
    xp = array_namespace(x)
    if is_torch_array(x):
        return xp.sigmoid(x)
    with np.errstate(over="ignore"):  # an infinite exponential is the right limit, σ = 0
        return 1 / (1 + xp.exp(-x))


def log_sigmoid(x: Float[Array, "*n"]) -> Float[Array, "*n"]:
    """Return ``log σ(x)`` elementwise; value and derivative are accurate in both tails."""
    xp = array_namespace(x)
    if is_torch_array(x):
        import torch.nn.functional

        return torch.nn.functional.logsigmoid(x)
    return -xp.logaddexp(xp.zeros_like(x), -x)


def detach(x: Shaped[Array, "*n"]) -> Shaped[Array, "*n"]:
    """Return ``x`` without gradient (the papers' 'no gradient'); numpy arrays stay as they are."""
    return x.detach() if is_torch_array(x) else x


def to_numpy(array: Any) -> np.ndarray:
    """Convert a numpy array, torch tensor or sequence of any shape to a numpy array."""
    return np.asarray(array.detach().cpu() if is_torch_array(array) else array)


def as_float(condition: Bool[Array, "*n"], like: Float[Array, "..."]) -> Float[Array, "*n"]:
    """Convert a boolean array to zeros and ones in the dtype of ``like``."""
    return array_namespace(like).astype(condition, like.dtype)


def dtype_name(x: Array) -> str:
    """Return the name of the dtype, such as ``float32``, for torch and numpy."""
    return str(x.dtype).removeprefix("torch.")


def at_least_single(x: Array) -> Array:
    """Convert half precision, whose sums may overflow, to float32; leave others unchanged."""
    if x is None or x.dtype.itemsize != 2:
        return x
    xp = array_namespace(x)
    return xp.astype(x, xp.float32)


def of_rows(values: Float[Array, "*n"], like: Float[Array, "..."]) -> Float[Array, "..."]:
    """Return a value per row so that it broadcasts against ``like``, (...,) or (..., d)."""
    return values if values.ndim == like.ndim else values[..., None]


def unit_rows(embeddings: Float[Array, "*n d"]) -> Float[Array, "*n d"]:
    """Divide rows by their Euclidean norms."""
    xp = array_namespace(embeddings)
    return embeddings / xp.linalg.vector_norm(embeddings, axis=-1, keepdims=True)


def partners_at_angle(
    anchors: Float[Array, "*n d"], positives: Float[Array, "*n d"], angle: float
) -> Float[Array, "*n d"]:
    """Return the positives moved to an angle from their anchors, on the great circle through both.

    A positive that coincides with its anchor, or with the antipode, has no direction and moves to
    the antipode.
    """
    return unit_rows(_on_great_circle(anchors, positives, (angle,))[0])


def partners_at_angles(
    anchors: Float[Array, "*n d"], positives: Float[Array, "*n d"], angles: Sequence[float]
) -> Float[Array, "a *n d"]:
    """Return `partners_at_angle` for each of several angles."""
    xp = array_namespace(anchors)
    return unit_rows(xp.stack(_on_great_circle(anchors, positives, angles)))


def largest_size(arrays: Sequence[Float[Array, "*n"]]) -> Float[Array, "*n"]:
    """Return the largest absolute entry of several arrays, element by element."""
    xp = array_namespace(arrays[0])
    return functools.reduce(xp.maximum, map(xp.abs, arrays))


def take(x: Shaped[Array, "*n k"], index: Int[Array, "*n"]) -> Shaped[Array, "*n"]:
    """Pick one entry per row."""
    xp = array_namespace(x)
    return xp.take_along_axis(x, index[..., None], axis=-1)[..., 0]


def one_hot(
    index: Int[Array, "*n"], size: int, values: Float[Array, "*n"]
) -> Float[Array, "*n {size}"]:
    """Return ``values`` in column ``index`` and zero elsewhere, even if values are infinite."""
    xp = array_namespace(values)
    columns = xp.arange(size, device=values.device)
    return xp.where(
        columns == index[..., None], values[..., None], xp.zeros_like(values)[..., None]
    )


def _on_great_circle(
    anchors: Float[Array, "*n d"], positives: Float[Array, "*n d"], angles: Sequence[float]
) -> list[Float[Array, "*n d"]]:
    """Return `partners_at_angle` for several angles, before rounding errors are normalised."""
    xp = array_namespace(anchors)
    along = xp.sum(anchors * positives, axis=-1, keepdims=True)
    across = positives - along * anchors
    length = xp.sqrt(xp.sum(across * across, axis=-1, keepdims=True))
    near = length < 1e-12
    direction = across / xp.where(near, xp.ones_like(length), length)
    moved = [math.sin(angle) * direction + math.cos(angle) * anchors for angle in angles]
    return [xp.where(near, -anchors, rows) for rows in moved]
