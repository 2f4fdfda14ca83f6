"""Calling somebody else's loss: its value and its gradient with respect to the anchors, checked."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tqdm import tqdm

from gradlab.arrays import Float
from gradlab.errors import GradlabError, first_line

if TYPE_CHECKING:
    from torch import Tensor

# A gradient smaller than this, relative to what it is the sum of, may be rounding alone.
ROUNDING = 1e-12


@dataclasses.dataclass(frozen=True)
class LossInput:
    """Unit rows in float64; of extra negatives there may be none."""

    anchors: Float[Tensor, "n d"]
    positives: Float[Tensor, "n d"]
    extra_negatives: Float[Tensor, "m d"]

    @property
    def size(self) -> int:
        """N, the number of sentences."""
        return self.anchors.shape[0]

    @property
    def dimension(self) -> int:
        """D, the number of coordinates."""
        return self.anchors.shape[1]

    def map(self, function: Callable[[Tensor], Tensor]) -> LossInput:
        """The batch with ``function`` applied to each of its three arrays."""
        return LossInput(function(self.anchors), function(self.positives), function(self.extra_negatives))


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
        import torch

        norms = torch.maximum(self.gradient.norm(dim=1), other.gradient.norm(dim=1))
        largest = float(norms.max())
        if abs(self.value - other.value) > tolerance * max(abs(self.value), largest):
            return False
        if largest <= ROUNDING * abs(self.value):
            return True
        change = (self.gradient - other.gradient).norm(dim=1)
        moved = change > tolerance * norms.clamp(min=tolerance * largest)
        return bool(2 * moved.sum() <= (norms > 0).sum())


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

    def __call__(self, batch: LossInput) -> ValueAndGradient:
        """Value and anchor gradient of the loss at ``batch``.

        Raises:
            GradlabError: the loss raises, returns no scalar, is not differentiable in the anchors, changes its
                input, or gives a value or gradient that is not finite.
        """
        import torch

        leaf = batch.anchors.detach().clone().requires_grad_()
        with torch.enable_grad():
            # Copies that are not leaves: an in-place change then works, and is found by comparing.
            given = LossInput(leaf.clone(), batch.positives.clone(), batch.extra_negatives.clone())
            arguments = [given.anchors, given.positives]
            if len(batch.extra_negatives):
                arguments.append(given.extra_negatives)
            try:
                value = self.function(*arguments)
            except GradlabError:
                raise
            except Exception as error:
                raise GradlabError(
                    f"{self.name} raised {type(error).__name__}: {first_line(error)}"
                ) from error
            self._check_unchanged(batch, given)
            self._check_scalar(value)
            try:
                (gradient,) = torch.autograd.grad(value.reshape(()), leaf, allow_unused=True)
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

    def _check_unchanged(self, batch: LossInput, given: LossInput) -> None:
        import torch

        for field in dataclasses.fields(LossInput):
            if not torch.equal(getattr(given, field.name), getattr(batch, field.name)):
                raise GradlabError(f"{self.name} changes its {field.name} in place; let it work on a copy")

    def _check_scalar(self, value: Any) -> None:
        import torch

        if not isinstance(value, torch.Tensor):
            raise GradlabError(
                f"{self.name} must return a torch scalar computed from its arguments, not {type(value).__name__}"
            )
        if value.numel() != 1:
            raise GradlabError(
                f"{self.name} returns shape {tuple(value.shape)}, not a scalar; sum or average over the anchors"
            )
        if not value.requires_grad:
            raise GradlabError(
                f"{self.name} is not differentiable in the {self.moving}: its value carries no gradient; "
                "compute it with torch operations and without detach(), item() or no_grad()"
            )

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
