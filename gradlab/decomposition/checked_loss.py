"""First step of `decompose`: call a foreign loss and check the conditions for having components."""

from __future__ import annotations

import contextlib
import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from gradlab.arrays import Array, Float, recording_gradients, unit_rows
from gradlab.batch.batch import Batch
from gradlab.errors import GradlabError, first_line
from gradlab.gradient.pairs_as_products import pairs_as_products
from gradlab.progress_bars import progress_bar

# All vectors of a batch, (2n + m + nh, d): the view that is differentiated, the other view, extra
# negatives and own negatives.
Rows = Float[Tensor, "rows d"]
# A gradient below this, relative to the terms that it is the sum of, can be rounding alone.
ROUNDING = 1e-12
# Largest relative difference between two calls on the same batch: threads can sum in another order.
REPEAT_TOLERANCE = 1e-9
# Dimensions of the subspace that is rotated to test whether a loss depends on dot products alone.
TURNED = 256


@dataclasses.dataclass(frozen=True)
class ValueAndGradient:
    """Value of a loss and its gradient with respect to the first view alone."""

    value: float
    gradient: Float[Tensor, "n d"]

    def difference(self, reference: ValueAndGradient) -> float:
        """Return the relative change of value or gradient (in norm), whichever is larger."""
        size = float(self.gradient.norm())
        by_gradient = float((self.gradient - reference.gradient).norm()) / (size or 1.0)
        scale = max(abs(self.value), size) or 1.0
        return max(by_gradient, abs(self.value - reference.value) / scale)

    def agrees_with(self, reference: ValueAndGradient, tolerance: float) -> bool:
        """Return whether two evaluations are equal up to ``tolerance``, ties aside.

        The values must agree, and so must the gradients of at least half of the anchors that have
        one. At a tie, the last digit decides which subgradient an anchor gets, but does not change
        the value. Gradients that are rounding beside the value are ignored.
        """
        norms = torch.maximum(self.gradient.norm(dim=1), reference.gradient.norm(dim=1))
        largest = float(norms.max())
        if abs(self.value - reference.value) > tolerance * max(abs(self.value), largest):
            return False
        if largest <= ROUNDING * abs(self.value):
            return True
        change = (self.gradient - reference.gradient).norm(dim=1)
        moved = change > tolerance * norms.clamp(min=tolerance * largest)
        return bool(2 * moved.sum() <= (norms > 0).sum())


def scalar_of(
    function: Callable[..., Any],
    name: str,
    arguments: Sequence[Tensor],
    differentiable: str = "differentiable",
) -> Float[Tensor, ""]:
    """Return the value of a foreign loss as a scalar, with a gradient if an argument has one."""
    try:
        value = function(*arguments)
    except GradlabError:
        raise
    except Exception as error:
        raise GradlabError(f"{name} raised {type(error).__name__}: {first_line(error)}") from error
    if not isinstance(value, torch.Tensor):
        raise GradlabError(
            f"{name} must return a torch scalar computed from its arguments, "
            f"not {type(value).__name__}"
        )
    if value.numel() != 1:
        raise GradlabError(
            f"{name} returns shape {tuple(value.shape)}, not a scalar; "
            "sum or average over the anchors"
        )
    needs_gradient = torch.is_grad_enabled() and any(rows.requires_grad for rows in arguments)
    if needs_gradient and not value.requires_grad:
        raise GradlabError(
            f"{name} is not {differentiable}: its value carries no gradient; "
            "compute it with torch operations and without detach(), item() or no_grad()"
        )
    return value.reshape(())


class CheckedLoss:
    """A loss called on `Rows` with checks, and differentiated with respect to the first view.

    Attributes:
        side, fixed: names of the first and of the other view.
        batch: the batch, with the first view as anchors.
        own: own negatives of the original anchors.
        context: labels, teacher and the like, by the names of the function's arguments.
        rows: all vectors of the batch.
        by_products: whether calls run within `gradlab.gradient.pairs_as_products.PairsAsProducts`.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        name: str,
        side: str,
        batch: Batch,
        own: Float[Array, "n h d"] | None,
        context: Mapping[str, Any],
    ) -> None:
        self._function, self.name, self.side = function, name, side
        self._context, self.by_products = context, False
        self.fixed = "positives" if side == "anchors" else "anchors"
        self.batch, self.own, self.sentences = batch, own, batch.count
        d = batch.anchors.shape[1]
        arrays = [batch.anchors, batch.positives, batch.extra_negatives, own]
        blocks = [torch.as_tensor(block).reshape(-1, d) for block in arrays if block is not None]
        self.rows, self._sizes = torch.cat(blocks), [len(block) for block in blocks]
        # Drawable only if the decomposition takes longer than two seconds.
        self.progress = progress_bar(None, True, desc=f"decompose {name}", unit=" gradients")

    def split(self, rows: Rows) -> tuple[Float[Tensor, "_ d"], ...]:
        """Return the rows as first view, other view and, if present, extra and own negatives."""
        return torch.split(rows, self._sizes)

    def value(self, *rows: Float[Tensor, "_ d"]) -> Any:
        """Return the value of the function, given the rows in the order of `split`."""
        first, second, *negatives = rows
        views = (first, second) if self.side == "anchors" else (second, first)
        if self.own is None:
            return self._function(*views, *negatives, **self._context)
        own = negatives.pop().reshape(*self.own.shape[:2], -1)
        return self._function(*views, *negatives, own_negatives=own, **self._context)

    def __call__(self, rows: Rows) -> ValueAndGradient:
        """Return the value of the loss and its gradient; errors as in `gradlab.decompose`."""
        name, views = self.name, self.split(rows)
        with recording_gradients():
            leaf = views[0].detach().clone().requires_grad_()
            if self.side == "positives":  # a loss may hold its positives fixed
                views = (leaf, views[1].detach().clone().requires_grad_(), *views[2:])
            # Copies are not leaves, so an in-place change works and is found by comparison.
            copies = [view.clone() for view in (leaf, *views[1:])]
            function = pairs_as_products(self.value) if self.by_products else self.value
            value = scalar_of(function, name, copies, f"differentiable in the {self.side}")
            kinds = (self.side, self.fixed, "negatives", "negatives")
            for kind, original, copied in zip(kinds, views, copies, strict=False):
                if not torch.equal(original, copied):
                    raise GradlabError(f"{name} changes its {kind} in place; let it work on a copy")
            try:
                (gradient,) = torch.autograd.grad(
                    value, leaf, allow_unused=True, materialize_grads=self.side == "positives"
                )
            except Exception as error:
                raise GradlabError(
                    f"the backward pass of {name} raised {type(error).__name__}: "
                    f"{first_line(error)}"
                ) from error
        if gradient is None:
            raise GradlabError(
                f"{name} does not depend on the {self.side}; give loss_fn(anchors, positives)"
            )
        self.progress.update()
        evaluated = ValueAndGradient(float(value.detach()), gradient.detach().to(rows.dtype))
        if not math.isfinite(evaluated.value):
            raise GradlabError(
                f"{name} is {evaluated.value} on this batch; its value must be finite"
            )
        if bad := (~evaluated.gradient.isfinite()).any(dim=1).nonzero().flatten().tolist():
            further = f" and {len(bad) - 1} more" if len(bad) > 1 else ""
            raise GradlabError(
                f"the gradient of {name} is not finite at anchor {bad[0]}{further}: it has no "
                "derivative here (identical or opposite vectors are the usual cause)"
            )
        return evaluated


def lift(rows: Rows, delta: float) -> Float[Tensor, "rows lifted"]:
    """Return the rows, of unit length, in D + 2N + M coordinates; ``delta = 0`` appends zeros."""
    own = torch.eye(len(rows), dtype=rows.dtype, device=rows.device) * delta
    return torch.cat([rows * (1 - delta * delta) ** 0.5, own], dim=1)


def check_repeats(loss: CheckedLoss, evaluated: ValueAndGradient) -> None:
    """Raise GradlabError if the loss, ``evaluated`` before, is random or has a state.

    From now on its sums over all pairs are products, unless they give another gradient.
    """
    loss.by_products = True
    with contextlib.suppress(GradlabError):
        if evaluated.difference(loss(loss.rows)) <= REPEAT_TOLERANCE:
            return
    loss.by_products = False
    change = evaluated.difference(loss(loss.rows))
    if change > REPEAT_TOLERANCE:
        raise GradlabError(
            f"{loss.name} differs by {change:.2g} relative between two calls on the same batch: "
            "it is random or keeps a state; switch dropout off (.eval()), fix its seed inside, "
            "or rebuild its state in every call"
        )


def in_turned_axes(loss: CheckedLoss) -> tuple[Rows, ValueAndGradient]:
    """Rotate all rows together; return them and the loss there, with its gradient rotated back.

    The rotation acts in a random subspace of at most `TURNED` dimensions. It changes every
    coordinate, but costs two thin matrix products instead of an orthogonal D x D matrix.
    """
    rows, d = loss.rows, loss.rows.shape[1]
    k = min(d, TURNED)
    basis = torch.linalg.qr(_random_rows(rows.new_empty(d, k), seed=2)).Q
    rotation = torch.linalg.qr(_random_rows(rows.new_empty(k, k), seed=3)).Q
    change = (rotation - torch.eye(k, dtype=rotation.dtype, device=rotation.device)) @ basis.T
    # One product for each view, so that equal rows of both views stay equal to the last digit.
    turned = unit_rows(torch.cat([view + view @ basis @ change for view in loss.split(rows)]))
    evaluated = loss(turned)
    gradient = evaluated.gradient + evaluated.gradient @ change.T @ basis.T
    return turned, ValueAndGradient(evaluated.value, gradient)


def obstacle_to_lifting(loss: CheckedLoss, evaluated: ValueAndGradient, tolerance: float) -> str:
    """Return why a loss cannot be evaluated in extra coordinates, or an empty string if it can."""
    d = loss.rows.shape[1]
    try:
        padded = loss(lift(loss.rows, 0.0))
    except GradlabError as error:
        return f"works in {d} dimensions only ({error})"
    padded = ValueAndGradient(padded.value, padded.gradient[:, :d])
    if evaluated.agrees_with(padded, tolerance):
        return ""
    return (
        "depends on the number of dimensions (an average over coordinates?): "
        "appending zeros to every vector "
        f"changes its value or gradient by {evaluated.difference(padded):.2g} relative"
    )


def _random_rows(like: Float[Tensor, "n d"], seed: int) -> Float[Tensor, "n d"]:
    """Return random unit rows; a separate generator leaves the caller's random state unchanged."""
    generator = torch.Generator().manual_seed(seed)
    rows: Tensor = unit_rows(torch.randn(like.shape, generator=generator, dtype=like.dtype))
    return rows.to(like.device)
