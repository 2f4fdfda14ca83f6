"""Products and distances of all pairs without an array of N x N x D.

A loss written with broadcasting, such as ``(h[:, None] - h2[None]).norm(dim=-1)``, makes an array
of every pair's coordinates and sums over these. The sums are matrix products:

    Σ_d a_id b_jd    and    Σ_d (a_id - b_jd)² = |a_i|² + |b_j|² - 2 Σ_d a_id b_jd

`PairsAsProducts` computes them so in any code that is called within it. The product or difference
is postponed, and a placeholder of its shape stands for it. A sum, mean or norm over coordinates
then becomes a matrix product; any other use computes what was postponed. Code that torch does not
show to a mode, such as a compiled function, meets the placeholder's NaN. Callers therefore compare
one result with that of the plain call.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_map_only

from gradlab.arrays import Float
from gradlab.gradient.reductions import BINARY, SIGNATURES, SQUARES, is_number

# Size of an array of all pairs' coordinates, in entries of its larger operand, from which it is
# postponed.
OUTER = 4
# Squared distance, relative to the squared lengths, up to which the difference of products is
# rounding; and up to which it has lost four digits, so that it is computed from coordinates.
COINCIDENT, NEAR = 1e-14, 1e-4
# Relative difference up to which two ways to compute a gradient count as equal.
AGREEMENT = 1e-9
# Attributes of a tensor that a placeholder has.
SHAPES = frozenset({"shape", "dtype", "device", "ndim", "layout", "is_cuda"})
SIZES = frozenset({"size", "dim", "numel", "__len__", "is_floating_point", "element_size"})

# Names of the calls that may be rewritten.
COPIES = ("repeat", "repeat_interleave", "expand", "expand_as", "broadcast_to")
REWRITTEN = frozenset({*BINARY, *SQUARES, *SIGNATURES, *COPIES})

Pairs = Float[Tensor, "*pairs"]


@dataclasses.dataclass
class _Postponed:
    """An operation on two operands that broadcast to all pairs.

    Attributes:
        kind: ``"product"``, ``"difference"``, ``"square"`` of the difference, or ``"copy"`` of the
            first operand, a view that repeats the second.
        is_flat: whether all pairs are rows, (pairs, d), of operands (n, 1, d) and (1, m, d).
        array: what it computes, once it was computed.
        has_gradient: whether gradients were recorded where the operation stood.
    """

    kind: str
    first: Tensor
    second: Tensor
    is_flat: bool = False
    array: Tensor | None = None
    has_gradient: bool = dataclasses.field(default_factory=torch.is_grad_enabled)

    def __post_init__(self) -> None:
        if not self.has_gradient:
            self.first, self.second = self.first.detach(), self.second.detach()

    def computed(self) -> Tensor:
        with torch.set_grad_enabled(self.has_gradient):
            return self._computed()

    def _computed(self) -> Tensor:
        if self.array is None:
            if self.kind == "product":
                self.array = self.first * self.second
            elif self.kind == "copy":
                self.array = self.first.clone()
            else:
                self.array = self.first - self.second
                if self.kind == "square":
                    self.array = self.array.square()
            if self.is_flat:
                self.array = self.array.flatten(0, 1)
        return self.array

    @property
    def shape(self) -> torch.Size:
        """Shape of what it computes."""
        shape: torch.Size = torch.broadcast_shapes(  # type: ignore[no-untyped-call]  # of torch
            self.first.shape, self.second.shape
        )
        return torch.Size([shape[0] * shape[1], *shape[2:]]) if self.is_flat else shape


class PairsAsProducts(TorchFunctionMode):
    """Sums over coordinates of all pairs as matrix products, in the code within the block.

    Values and gradients differ from the plain ones by rounding. Distances of vectors that are
    equal up to rounding are exactly 0, with gradient 0, as of `torch.linalg.vector_norm`.

    Args:
        exact: compute small distances from coordinates. That looks at values, which `torch.vmap`
            does not allow.
    """

    def __init__(self, *, exact: bool = True) -> None:
        super().__init__()
        self._exact = exact
        # By the identity of placeholders, which are kept so that no other array gets it.
        self._postponed: dict[int, tuple[Tensor, _Postponed]] = {}
        self._views: dict[int, tuple[Tensor, Tensor]] = {}  # and the tensors that they repeat

    def __torch_function__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs, name = kwargs or {}, getattr(function, "__name__", "")
        if not self._postponed or not self._shows(function, name, args):
            if name in REWRITTEN:
                rewritten = self._rewritten(function, name, args, kwargs)
                if rewritten is not None:
                    return rewritten
            if self._postponed:
                args, kwargs = tree_map_only(Tensor, self._computed, (args, kwargs))
        return function(*args, **kwargs)

    def _shows(self, function: Any, name: str, args: Any) -> bool:
        """Return whether a call only asks for a shape or kind, which a placeholder has."""
        if name == "__get__":
            return getattr(function.__self__, "__name__", "") in SHAPES
        return name in SIZES

    def _computed(self, tensor: Tensor) -> Tensor:
        postponed = self._of(tensor)
        return tensor if postponed is None else postponed.computed()

    def _of(self, tensor: Any) -> _Postponed | None:
        """Return what a placeholder stands for, unless it was computed and may have changed."""
        _, postponed = self._postponed.get(id(tensor), (None, None))
        return postponed

    def _open(self, tensor: Any) -> _Postponed | None:
        postponed = self._of(tensor)
        return None if postponed is None or postponed.array is not None else postponed

    def _rewritten(
        self, function: Any, name: str, args: Any, kwargs: dict[str, Any]
    ) -> Tensor | None:
        """Return the result of a call that is postponed or is a matrix product; else None."""
        if name in BINARY and len(args) == 2 and not kwargs:
            return self._binary(BINARY[name], *args)
        if name in SQUARES and len(args) == SQUARES[name] and not kwargs:
            return self._squared(*args)
        if name == "repeat" and not kwargs:
            return self._repeated(*args)
        if name == "repeat_interleave" and kwargs.keys() <= {"dim"}:
            return self._interleaved(*args, **kwargs)
        if name in ("expand", "expand_as", "broadcast_to") and not kwargs:
            return self._expanded(function, *args)
        if name in SIGNATURES:
            try:
                call = SIGNATURES[name](*args, **kwargs)
            except TypeError:
                return None
            return None if call is None else self._reduced(*call)
        return None

    def _binary(self, kind: str, first: Any, second: Any) -> Tensor | None:
        if first is second and kind == "product":
            return self._squared(first, 2)
        operands = self._operands(first, second)
        return self._placeholder(_Postponed(kind, *operands)) if operands else None

    def _flat_operands(self, *tensors: Any) -> tuple[Tensor, Tensor] | None:
        """Return (n, 1, d) and (1, m, d) of rows that are repeated to all pairs; else None."""
        copies = [self._open(tensor) for tensor in tensors]
        rows = [
            copy for copy in copies if copy is not None and copy.is_flat and copy.kind == "copy"
        ]
        if len(rows) < 2 or rows[0].first.shape != rows[1].first.shape:
            return None
        first, second = (copy.second for copy in rows)
        return (first, second) if _is_outer(first, second) else None

    def _operands(self, *tensors: Any) -> tuple[Tensor, Tensor, bool] | None:
        """Return two tensors with the same axes, without repetitions, if they give all pairs.

        The last entry says whether the pairs are rows of a flat array.
        """
        if not all(isinstance(tensor, Tensor) for tensor in tensors):
            return None
        if (flat := self._flat_operands(*tensors)) is not None:
            return *flat, True
        axes = max(tensor.ndim for tensor in tensors)
        if axes < 3:
            return None
        first, second = (
            _without_repetitions(self._copied(tensor)[(None,) * (axes - tensor.ndim)])
            for tensor in tensors
        )
        return (first, second, False) if _is_outer(first, second) else None

    def _copied(self, tensor: Tensor) -> Tensor:
        """Return what a view or a placeholder repeats; any other tensor with its numbers."""
        postponed = self._open(tensor)
        if postponed is not None and postponed.kind == "copy" and not postponed.is_flat:
            return postponed.second
        _, repeated = self._views.get(id(tensor), (None, None))
        return self._computed(tensor) if repeated is None else repeated

    def _squared(self, tensor: Tensor, power: Any = 2) -> Tensor | None:
        postponed = self._open(tensor)
        if postponed is None or postponed.kind != "difference" or not is_number(power, 2):
            return None
        first, second = postponed.first, postponed.second
        return self._placeholder(_Postponed("square", first, second, postponed.is_flat))

    def _repeated(self, tensor: Tensor, *sizes: Any) -> Tensor | None:
        """Return a placeholder of rows that are copied along axes of size 1."""
        if len(sizes) == 1 and isinstance(sizes[0], (tuple, list)):
            sizes = tuple(sizes[0])
        if len(sizes) != tensor.ndim or self._of(tensor) is not None:
            return None
        if tensor.ndim == 2 and sizes[1] == 1 and tensor.shape[0] > 1:
            return self._flat_copy(tensor[None], sizes[0], 0)
        if any(times != 1 and size != 1 for times, size in zip(sizes, tensor.shape, strict=True)):
            return None
        shape = [times * size for times, size in zip(sizes, tensor.shape, strict=True)]
        return self._placeholder(_Postponed("copy", tensor.expand(shape), tensor))

    def _interleaved(self, tensor: Tensor, repeats: Any, dim: Any = None) -> Tensor | None:
        """Return a placeholder of rows of which each is repeated."""
        if dim not in (0, -2) or not isinstance(repeats, int) or tensor.ndim != 2:
            return None
        return None if self._of(tensor) else self._flat_copy(tensor[:, None], repeats, 1)

    def _flat_copy(self, rows: Tensor, times: int, axis: int) -> Tensor:
        shape = list(rows.shape)
        shape[axis] = times
        return self._placeholder(_Postponed("copy", rows.expand(shape), rows, is_flat=True))

    def _expanded(self, function: Any, tensor: Tensor, *sizes: Any) -> Tensor | None:
        """Return a view, and remember what it repeats: gradients then flow there directly."""
        if not isinstance(tensor, Tensor) or self._of(tensor) is not None:
            return None
        view: Tensor = function(tensor, *sizes)
        self._views[id(view)] = view, tensor[(None,) * (view.ndim - tensor.ndim)]
        return view

    def _placeholder(self, postponed: _Postponed) -> Tensor:
        first, second = postponed.first, postponed.second
        nan = first.new_full((), float("nan"), dtype=torch.result_type(first, second))
        shape = torch.broadcast_shapes(first.shape, second.shape)  # type: ignore[no-untyped-call]
        placeholder = nan.expand(shape)
        self._postponed[id(placeholder)] = placeholder, postponed
        return placeholder

    def _reduced(
        self, reduction: str, tensors: tuple[Any, ...], axis: Any, keep: bool, least: float
    ) -> Tensor | None:
        """Return a sum, mean, norm or cosine over one axis; None if it is to be computed plainly.

        Args:
            reduction: ``"sum"``, ``"mean"``, ``"norm"`` or ``"cosine"``.
            tensors: one placeholder, or the two operands of a cosine or distance.
            axis: the axis of coordinates.
            keep: whether the axis is kept with size 1.
            least: the smallest length of a vector in a cosine; what a distance adds.
        """
        if isinstance(axis, (tuple, list)) and len(axis) == 1:
            (axis,) = axis
        if isinstance(axis, bool) or not isinstance(axis, int):
            return None
        operation = self._operation(reduction, tensors, axis, least)
        if operation is None:
            return None
        kind, first, second, is_flat = operation
        if is_flat and axis not in (-1, 1):
            return None
        axis = -1 if is_flat else axis % first.ndim - first.ndim
        if kind == "product":
            total = _summed_products(first, second, axis)
        elif first.shape[axis] != second.shape[axis]:
            return None
        else:
            total = _squared_distances(first, second, axis, exact=self._exact)
        if reduction == "norm":
            total = _root(total)
        if reduction == "mean":
            total = total / max(first.shape[axis], second.shape[axis])
        if is_flat:
            total = total.flatten(0, 1)
        return total if keep else total.squeeze(axis)

    def _operation(
        self, reduction: str, tensors: tuple[Any, ...], axis: int, least: float
    ) -> tuple[str, Tensor, Tensor, bool] | None:
        """Return what a call reduces, as of `_Postponed`; None if that is no product."""
        if len(tensors) == 1:
            postponed = self._open(tensors[0])
            kinds = ("difference",) if reduction == "norm" else ("product", "square")
            if postponed is None or postponed.kind not in kinds:
                return None
            return postponed.kind, postponed.first, postponed.second, postponed.is_flat
        operands = self._operands(*tensors)
        if operands is None:
            return None
        first, second, is_flat = operands
        if reduction == "norm":
            return "difference", first + least, second, is_flat
        axis = -1 if is_flat else axis
        first, second = (
            rows / rows.norm(dim=axis, keepdim=True).clamp_min(least) for rows in (first, second)
        )
        return "product", first, second, is_flat


def pairs_as_products(value: Callable[..., Any], *, exact: bool = True) -> Callable[..., Any]:
    """Return a function with the values of ``value``, called within `PairsAsProducts`."""

    @functools.wraps(value)
    def by_products(*arguments: Any, **keywords: Any) -> Any:
        with PairsAsProducts(exact=exact):
            return value(*arguments, **keywords)

    return by_products


class CheckedProducts:
    """Calls functions of a loss with `pairs_as_products`, if a first gradient is the plain one."""

    def __init__(self) -> None:
        self._agrees: bool | None = None

    def __call__(self, function: Callable[..., Any], rows: Sequence[Tensor]) -> Any:
        """Return ``function(*rows)``."""
        by_products = pairs_as_products(function)
        if self._agrees is None and torch.is_grad_enabled():
            leaves = [tensor.detach().clone().requires_grad_() for tensor in rows]
            self._agrees = _same_gradients(function, by_products, leaves)
        return (by_products if self._agrees else function)(*rows)


def _same_gradients(
    function: Callable[..., Any], by_products: Callable[..., Any], leaves: Sequence[Tensor]
) -> bool:
    """Return whether two functions have the same value and gradients, up to `AGREEMENT`."""
    try:
        arrays = []
        for value in (function(*leaves).reshape(()), by_products(*leaves).reshape(())):
            gradients = torch.autograd.grad(
                value, leaves, allow_unused=True, materialize_grads=True
            )
            arrays.append([value.detach(), *gradients])
    except Exception:  # of any kind: the loss decides what a mode meets
        return False
    return all(
        bool((products - plain).abs().max() <= AGREEMENT * (plain.abs().max() or 1.0))
        for plain, products in zip(*arrays, strict=True)
    )


def _is_outer(first: Tensor, second: Tensor) -> bool:
    """Return whether two floating-point tensors broadcast to many times their entries."""
    kinds = {first.dtype, second.dtype}
    if len(kinds) != 1 or not first.dtype.is_floating_point or first.device != second.device:
        return False
    try:
        shape: torch.Size = torch.broadcast_shapes(  # type: ignore[no-untyped-call]
            first.shape, second.shape
        )
    except RuntimeError:
        return False
    return shape.numel() >= OUTER * max(first.numel(), second.numel())


def _without_repetitions(tensor: Tensor) -> Tensor:
    """Return the tensor with size 1 along axes in which it only repeats itself."""
    for axis, (size, stride) in enumerate(zip(tensor.shape, tensor.stride(), strict=True)):
        if size > 1 and stride == 0:
            tensor = tensor.narrow(axis, 0, 1)
    return tensor


def _summed_products(first: Tensor, second: Tensor, axis: int) -> Pairs:
    letters = "abcdefghijklmnopqrstuvwxyz"[: first.ndim]
    remaining = letters.replace(letters[axis], "")
    total = torch.einsum(f"{letters},{letters}->{remaining}", first, second)
    return total.unsqueeze(axis)


def _squared_distances(first: Tensor, second: Tensor, axis: int, *, exact: bool) -> Pairs:
    """Return squared distances, with the axis at size 1; exactly 0 where they are rounding."""
    lengths = first.square().sum(axis, keepdim=True) + second.square().sum(axis, keepdim=True)
    squares = lengths - 2 * _summed_products(first, second, axis)
    if not exact:
        return torch.where(squares > COINCIDENT * lengths, squares, torch.zeros_like(squares))
    near = squares.detach() < NEAR * lengths.detach()
    if not bool(near.any()):
        return squares
    places = near.squeeze(axis).nonzero(as_tuple=True)
    rows = []
    for tensor in (first.movedim(axis, -1), second.movedim(axis, -1)):
        sizes = zip(places, tensor.shape, strict=False)
        rows.append(tensor[tuple(place if size > 1 else place * 0 for place, size in sizes)])
    differences: Tensor = rows[0] - rows[1]
    replaced = squares.squeeze(axis).index_put(places, differences.square().sum(-1))
    return replaced.unsqueeze(axis)


def _root(squares: Pairs) -> Pairs:
    """Return the square root, with gradient 0 at 0."""
    coincident = squares <= 0
    root = torch.where(coincident, torch.ones_like(squares), squares).sqrt()
    return torch.where(coincident, torch.zeros_like(root), root)
