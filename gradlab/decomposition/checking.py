"""First step: somebody else's loss, called with checks, and what it must be to have the paradigm's components."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from tqdm import tqdm

from gradlab.arrays import Float
from gradlab.batch.batch import Batch
from gradlab.errors import GradlabError, first_line

# A gradient smaller than this, relative to what it is the sum of, may be rounding alone.
ROUNDING = 1e-12
# Two calls on the same batch may differ by this much relative (threads adding in another order), not more.
REPEAT_TOLERANCE = 1e-9
# Dimensions of the subspace that is rotated to see whether a loss depends on more than dot products.
TURNED = 256
KINDS = ("anchors", "positives", "extra_negatives")


@dataclasses.dataclass(frozen=True)
class ValueAndGradient:
    """Value of the loss and its gradient with respect to the anchors alone."""

    value: float
    gradient: Float[Tensor, "n d"]

    def difference(self, other: ValueAndGradient) -> float:
        """Relative change of the value, or of the gradient in norm, whichever is larger."""
        size = float(self.gradient.norm())
        by_gradient = float((self.gradient - other.gradient).norm())
        by_value = abs(self.value - other.value)
        scale = max(abs(self.value), size)
        return max(
            by_gradient / size if size > 0 else by_gradient, by_value / scale if scale > 0 else by_value
        )

    def agrees_with(self, other: ValueAndGradient, tolerance: float) -> bool:
        """Whether two evaluations are the same up to ``tolerance``, ties aside.

        The values must agree, and the gradients of at least half of the anchors that have one: at a tie a last
        digit decides which of two subgradients an anchor gets, and moves no value. Gradients that are rounding
        beside the value say nothing.
        """
        norms = torch.maximum(self.gradient.norm(dim=1), other.gradient.norm(dim=1))
        largest = float(norms.max())
        if abs(self.value - other.value) > tolerance * max(abs(self.value), largest):
            return False
        if largest <= ROUNDING * abs(self.value):
            return True
        change = (self.gradient - other.gradient).norm(dim=1)
        moved = change > tolerance * norms.clamp(min=tolerance * largest)
        return bool(2 * moved.sum() <= (norms > 0).sum())


def scalar_of(
    function: Callable[..., Any],
    name: str,
    arguments: Sequence[Tensor],
    differentiable: str = "differentiable",
) -> Float[Tensor, ""]:
    """What somebody else's loss returns.

    Raises:
        GradlabError: it raises, or returns no scalar, or none that carries the gradient which some argument requires.
    """
    try:
        value = function(*arguments)
    except GradlabError:
        raise
    except Exception as error:
        raise GradlabError(f"{name} raised {type(error).__name__}: {first_line(error)}") from error
    if not isinstance(value, torch.Tensor):
        raise GradlabError(
            f"{name} must return a torch scalar computed from its arguments, not {type(value).__name__}"
        )
    if value.numel() != 1:
        raise GradlabError(
            f"{name} returns shape {tuple(value.shape)}, not a scalar; sum or average over the anchors"
        )
    wanted = torch.is_grad_enabled() and any(rows.requires_grad for rows in arguments)
    if wanted and not value.requires_grad:
        raise GradlabError(
            f"{name} is not {differentiable}: its value carries no gradient; "
            "compute it with torch operations and without detach(), item() or no_grad()"
        )
    return value.reshape(())


class CheckedLoss:
    """A loss whose every call is checked: a finite differentiable scalar that leaves its input alone.

    Args:
        function: ``function(anchors, positives)``, or with a third argument where there are extra negatives; on the side of
            the positives they come first.
        name: what error messages call it.
        side: ``"anchors"`` or ``"positives"``: what comes first, and is differentiated.

    Attributes:
        moving, fixed: what messages call the rows that are differentiated, and those of the other view.
    """

    def __init__(self, function: Callable[..., Any], name: str, side: str = "anchors") -> None:
        self.function = function
        self.name, self.side = name, side
        rows = ("anchors, its first argument", "positives, its second argument")
        self.moving, self.fixed = rows if side == "anchors" else rows[::-1]
        # Shown only when the whole takes longer than two seconds.
        self.progress = tqdm(desc=f"decompose {name}", unit=" gradients", delay=2, leave=False)

    def __call__(self, batch: Batch) -> ValueAndGradient:
        """Value and anchor gradient of the loss at ``batch``.

        Raises:
            GradlabError: the loss raises, returns no scalar, is not differentiable in the anchors, changes its
                input, or gives a value or gradient that is not finite.
        """
        leaf = batch.anchors.detach().clone().requires_grad_()
        with torch.enable_grad():
            # Copies that are not leaves: an in-place change then works, and is found by comparing.
            given = batch.mapped(lambda kind, rows: (leaf if kind == "anchors" else rows).clone())
            value = scalar_of(self.function, self.name, kinds(given), f"differentiable in the {self.moving}")
            for name, mine, theirs in zip(KINDS, kinds(batch), kinds(given), strict=False):
                if not torch.equal(mine, theirs):
                    raise GradlabError(f"{self.name} changes its {name} in place; let it work on a copy")
            try:
                (gradient,) = torch.autograd.grad(value, leaf, allow_unused=True)
            except Exception as error:
                raise GradlabError(
                    f"the backward pass of {self.name} raised {type(error).__name__}: {first_line(error)}"
                ) from error
        if gradient is None:
            raise GradlabError(
                f"{self.name} does not depend on the {self.moving}; give loss_fn(anchors, positives)"
            )
        self.progress.update()
        evaluation = ValueAndGradient(float(value.detach()), gradient.detach().to(batch.anchors.dtype))
        self._check_finite(evaluation)
        return evaluation

    def _check_finite(self, evaluation: ValueAndGradient) -> None:
        bad = (~evaluation.gradient.isfinite()).any(dim=1).nonzero().flatten().tolist()
        if evaluation.value - evaluation.value != 0:
            raise GradlabError(f"{self.name} is {evaluation.value} on this batch; its value must be finite")
        if bad:
            raise GradlabError(
                f"the gradient of {self.name} is not finite at anchor {bad[0]}"
                + (f" and {len(bad) - 1} more" if len(bad) > 1 else "")
                + ": it has no derivative here (identical or opposite vectors are the usual cause)"
            )


def kinds(batch: Batch) -> list[Float[Tensor, "_ d"]]:
    """Anchors, positives and extra negatives, if there are any."""
    return [rows for rows in (batch.anchors, batch.positives, batch.extra_negatives) if rows is not None]


def vectors(batch: Batch) -> Float[Tensor, "columns d"]:
    """What the columns of `Reading.coefficients` stand for."""
    return torch.cat(kinds(batch))


def lift(batch: Batch, delta: float) -> Batch:
    """The batch in D + 2N + M coordinates, unit rows; ``delta = 0`` appends zeros."""
    every = vectors(batch)
    own = torch.eye(len(every), dtype=every.dtype, device=every.device) * delta
    lifted = torch.cat([every * (1 - delta * delta) ** 0.5, own], dim=1)
    parts = torch.split(lifted, [len(rows) for rows in kinds(batch)])
    found: dict[str, Any] = dict(zip(KINDS, parts, strict=False))
    return dataclasses.replace(batch, **found)


def check_repeats(loss: CheckedLoss, batch: Batch, here: ValueAndGradient) -> None:
    """Raise GradlabError for a loss that is random or keeps a state; ``here`` is an earlier call on the batch."""
    change = here.difference(loss(batch))
    if change > REPEAT_TOLERANCE:
        raise GradlabError(
            f"{loss.name} differs by {change:.2g} relative between two calls on the same batch: it is random or keeps "
            "a state; switch dropout off (.eval()), fix its seed inside, or rebuild its state in every call"
        )


def check_uses_both_views(loss: CheckedLoss, batch: Batch, here: ValueAndGradient) -> None:
    """Raise GradlabError for a loss that ignores the other view.

    A loss whose gates are all closed may well not notice other positives; any other loss must.
    """
    other = _random_rows(batch.positives, seed=1)
    there = loss(dataclasses.replace(batch, positives=other))
    if here.difference(there) == 0 and bool(here.gradient.any()):
        raise GradlabError(
            f"{loss.name} does not depend on the {loss.fixed}: others give the same "
            "value and gradient; give a loss of two views, the alignment term included"
        )


def turn(loss: CheckedLoss, batch: Batch) -> tuple[Batch, ValueAndGradient]:
    """Both views rotated together, and the loss there, its gradient rotated back.

    The rotation turns a random subspace of at most `TURNED` dimensions: it changes every coordinate, and
    costs two thin matrix products where a rotation of all dimensions would take an orthogonal D x D matrix.
    """
    d = batch.anchors.shape[1]
    k = min(d, TURNED)
    basis = torch.linalg.qr(_random_rows(batch.anchors.new_empty(d, k), seed=2)).Q
    rotation = torch.linalg.qr(_random_rows(batch.anchors.new_empty(k, k), seed=3)).Q
    change = (rotation - torch.eye(k, dtype=rotation.dtype, device=rotation.device)) @ basis.T

    def turned_rows(kind: str, rows: Float[Tensor, "n d"]) -> Float[Tensor, "n d"]:
        turned: Tensor = rows + rows @ basis @ change
        turned /= turned.norm(dim=1, keepdim=True)
        return turned

    turned = batch.mapped(turned_rows)
    there = loss(turned)
    back = there.gradient + there.gradient @ change.T @ basis.T
    return turned, ValueAndGradient(there.value, back)


def _random_rows(like: Float[Tensor, "n d"], seed: int) -> Float[Tensor, "n d"]:
    """Random unit rows from a generator of their own: the caller's random state stays."""
    generator = torch.Generator().manual_seed(seed)
    rows = torch.randn(like.shape, generator=generator, dtype=like.dtype).to(like.device)
    rows /= rows.norm(dim=1, keepdim=True)
    return rows


def obstacle_to_lifting(loss: CheckedLoss, batch: Batch, here: ValueAndGradient, tolerance: float) -> str:
    """Why the loss cannot be read in more coordinates than its batch has, or an empty string."""
    try:
        padded = loss(lift(batch, 0.0))
    except GradlabError as error:
        return f"works in {batch.anchors.shape[1]} dimensions only ({error})"
    padded = ValueAndGradient(padded.value, padded.gradient[:, : batch.anchors.shape[1]])
    if here.agrees_with(padded, tolerance):
        return ""
    return (
        "depends on the number of dimensions (an average over coordinates?): appending zeros to every vector "
        f"changes its value or gradient by {here.difference(padded):.2g} relative"
    )
