"""Arrays of any kind, how their shapes are written, and a few numerically stable functions of them.

Formulas are written once, against the namespace of their input: numpy for the simulator, so that it
need not wait for torch to import, and torch where gradients or a GPU are wanted.

Shapes stand in signatures, as ``Float[Array, "n d"]``. One letter means one thing everywhere:

- ``n``: sentences of a batch, each an anchor with its positive;
- ``d``: dimensions of an embedding;
- ``m``: extra negatives, which every anchor has; ``n+m`` a view with them;
- ``k``: columns of an anchor's negatives, its own included where that is masked (by -inf);
- ``*n``: any number of axes, where a formula takes a batch (``n``), a grid of angles (``p b``) or a single pair alike;
  ``*#n`` what broadcasts against them;
- ``p``, ``q``: mean angles to the positive and to the negatives on a simulated grid;
- ``b``: batches, drawn or sampled;
- ``a``: points, as nodes of a quadrature or vertices of a grid; a dimension named by no letter here is named in full.

They are checked while the tests run (jaxtyping, beartype; see ``tests/shape_checks.py``). Otherwise they cost nothing.
"""

from __future__ import annotations

import contextlib
import sys
from typing import TYPE_CHECKING, Any

import numpy as np
from array_api_compat import array_namespace, is_torch_array

from gradlab.errors import GradlabError

# Whoever checks shapes has loaded jaxtyping. For others they are annotations alone: to load it takes 0.2 s.
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

    class cached_property:  # as that of functools, whose lock `torch.compile` cannot trace
        """A property that is computed once."""

        def __init__(self, function: Any) -> None:
            self.func, self.name, self.__doc__ = function, function.__name__, function.__doc__

        def __get__(self, instance: Any, owner: Any = None) -> Any:
            if instance is None:
                return self
            found = self.func(instance)
            object.__setattr__(instance, self.name, found)
            return found


# What has a shape and a dtype: a numpy array, a torch tensor, an array that `gradlab.explorer` records.
Array = Any


def without_autocast(x: Array) -> Any:
    """Within the context torch's autocast does not change the precision of what is made of ``x``."""
    if not is_torch_array(x):
        return contextlib.nullcontext()
    import torch

    return torch.autocast(x.device.type, enabled=False)


def compiled(x: Array) -> bool:
    """Whether `torch.compile` is tracing what is made of ``x``: then no number can be read."""
    if not is_torch_array(x):
        return False
    import torch

    return torch.compiler.is_compiling()


def require(condition: Bool[Array, ""], message: str) -> None:
    """Raise `GradlabError` unless a condition holds; a compiled program ends with torch's RuntimeError instead."""
    if compiled(condition):
        import torch

        torch._assert_async(condition, message)
    elif not bool(condition):
        raise GradlabError(message)


def logsumexp(x: Float[Array, "*n k"]) -> Float[Array, "*n"]:
    """``log Σ_k exp(x_k)`` over the last axis; entries may be -inf, also all of them."""
    xp = array_namespace(x)
    if is_torch_array(x):
        return xp.logsumexp(x, -1)
    largest = _largest(x)
    return log(xp.sum(xp.exp(x - largest), axis=-1)) + largest[..., 0]


def log(x: Float[Array, "*n"]) -> Float[Array, "*n"]:
    """``log x``, -inf at 0 without numpy's warning."""
    xp = array_namespace(x)
    if is_torch_array(x):
        return xp.log(x)
    with np.errstate(divide="ignore"):
        return xp.log(x)


def cumulative_logsumexp(x: Float[Array, "n"]) -> Float[Array, "n"]:
    """``log Σ_{k<=i} exp(x_k)``."""
    xp = array_namespace(x)
    return xp.logcumsumexp(x, 0) if is_torch_array(x) else xp.logaddexp.accumulate(x)


def softmax(x: Float[Array, "*n k"]) -> Float[Array, "*n k"]:
    """Softmax over the last axis; entries may be -inf, NaN where all of them are."""
    xp = array_namespace(x)
    if is_torch_array(x):
        return xp.softmax(x, -1)
    e = xp.exp(x - _largest(x))
    return divide(e, xp.sum(e, axis=-1, keepdims=True))


def _largest(x: Float[Array, "*n k"]) -> Float[Array, "*n 1"]:
    """The largest entry over the last axis, 0 where it is infinite."""
    xp = array_namespace(x)
    largest = xp.max(x, axis=-1, keepdims=True)
    return xp.where(xp.isinf(largest), xp.zeros_like(largest), largest)


def softmax_of_all(x: Float[Array, "*n"]) -> Float[Array, "*n"]:
    """Softmax over all entries together; entries may be -inf."""
    xp = array_namespace(x)
    return xp.reshape(softmax(xp.reshape(x, (-1,))), x.shape)


def divide(numerator: Float[Array, "*#n"], denominator: Float[Array, "*#n"]) -> Float[Array, "*n"]:
    """IEEE division (0/0 is NaN, 1/0 infinite) without numpy's warnings."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        return numerator / denominator


def reciprocal(x: Float[Array, "*n"], above: float = 0.0) -> Float[Array, "*n"]:
    """``1/x`` where ``x > above`` (at least 0), 0 elsewhere; neither it nor its derivative is ever NaN."""
    xp = array_namespace(x)
    usable = x > above
    return xp.where(usable, 1 / xp.where(usable, x, xp.ones_like(x)), xp.zeros_like(x))


def finite(x: Float[Array, "*n"]) -> Float[Array, "*n"]:
    """``x``, with 0 where it is infinite or NaN."""
    xp = array_namespace(x)
    return xp.where(xp.isfinite(x), x, xp.zeros_like(x))


def sigmoid(x: Float[Array, "*n"]) -> Float[Array, "*n"]:
    """``1/(1 + exp(-x))``, elementwise, without overflow and accurate in both tails."""
    xp = array_namespace(x)
    if is_torch_array(x):
        return xp.sigmoid(x)
    with np.errstate(over="ignore"):  # an infinite exponential is the right limit, σ = 0
        return 1 / (1 + xp.exp(-x))


def log_sigmoid(x: Float[Array, "*n"]) -> Float[Array, "*n"]:
    """``log σ(x)``, elementwise; accurate in both tails, and so is its derivative."""
    xp = array_namespace(x)
    if is_torch_array(x):
        import torch.nn.functional

        return torch.nn.functional.logsigmoid(x)
    return -xp.logaddexp(xp.zeros_like(x), -x)


def detach(x: Shaped[Array, "*n"]) -> Shaped[Array, "*n"]:
    """``x`` without its gradient (the papers' 'no gradient'); numpy arrays pass through."""
    return x.detach() if is_torch_array(x) else x


def to_numpy(array: Any) -> np.ndarray:
    """A numpy array of a numpy array, torch tensor or sequence, of any shape."""
    return np.asarray(array.detach().cpu() if is_torch_array(array) else array)


def as_float(condition: Bool[Array, "*n"], like: Float[Array, "..."]) -> Float[Array, "*n"]:
    """A boolean array as zeros and ones in the dtype of ``like``."""
    return array_namespace(like).astype(condition, like.dtype)


def dtype_name(x: Array) -> str:
    """``float32`` and the like, in torch as in numpy."""
    return str(x.dtype).removeprefix("torch.")


def at_least_single(x: Array) -> Array:
    """``x`` in float32 where it is of half precision, whose range a sum over a batch leaves; anything else, None too, as it is."""
    if x is None or dtype_name(x) not in ("float16", "bfloat16"):
        return x
    xp = array_namespace(x)
    return xp.astype(x, xp.float32)


def take(x: Shaped[Array, "*n k"], index: Int[Array, "*n"]) -> Shaped[Array, "*n"]:
    """Pick one entry a row."""
    xp = array_namespace(x)
    return xp.take_along_axis(x, index[..., None], axis=-1)[..., 0]


def one_hot(index: Int[Array, "*n"], size: int, values: Float[Array, "*n"]) -> Float[Array, "*n {size}"]:
    """``values`` in column ``index``, zero elsewhere (also where values are infinite)."""
    xp = array_namespace(values)
    columns = xp.arange(size, device=values.device)
    return xp.where(columns == index[..., None], values[..., None], xp.zeros_like(values)[..., None])


def span(x: Shaped[Array, "..."]) -> str:
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
