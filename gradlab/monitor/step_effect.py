"""What does a step of the optimizer change, beside the gradient and the rate that it was given?"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from gradlab.monitor.movement import sample_of

# Numbers of the records: the change by a step relative to the size of the weights; relative to the
# learning rate, for optimizers like Adam, whose steps are of about that size; its cosine with the
# negative gradient; the root mean square of the gradient at the step; the share of the numbers with
# a gradient that stay exactly as they are, and of the weights in half precision; the share of the
# encoder's weights at less than a thousandth of its largest rate; and batches without a step after
# the record. The last four are noted where they are not 0.
STEP_SIZE, STEP_OF_RATE, STEP_COSINE = "step_size", "step_of_rate", "step_cosine"
STEP_GRADIENT, UNCHANGED, HALF = "step_gradient", "step_unchanged", "weights_in_half"
WITHOUT_RATE, WAITED = "weights_without_rate", "batches_without_step"
EFFECT_NUMBERS = (STEP_SIZE, STEP_OF_RATE, STEP_COSINE, STEP_GRADIENT, UNCHANGED, HALF,
                  WITHOUT_RATE, WAITED)  # fmt: skip
NO_RATE = 1e-3


class StepEffect:
    """The gradient at a step, for comparison with what the step changes."""

    def __init__(self, weights: Sequence[Tensor | None]) -> None:
        """Keep samples of the gradients of weights, and which are in half precision."""
        present = [weight for weight in weights if weight is not None]
        self._places = [id(weight) for weight in present]
        self._gradients = [_gradient_of(weight) for weight in present]
        self._half = [weight.dtype in (torch.float16, torch.bfloat16) for weight in present]
        self._sizes: dict[int, int] = {}
        self._adaptive: set[int] = set()

    def note(self, groups: Iterable[tuple[Mapping[str, Any], Sequence[Tensor]]]) -> None:
        """Take in the settings of the groups of an optimizer, with their weights."""
        for group, weights in groups:
            self._sizes |= {id(weight): weight.numel() for weight in weights}
            if "eps" in group and ("betas" in group or "alpha" in group):  # Adam, RMSprop
                self._adaptive |= {id(weight) for weight in weights}

    def numbers(
        self, before: Sequence[Tensor], after: Sequence[Tensor], rates: Mapping[int, float],
        own: set[int],
    ) -> dict[str, float]:  # fmt: skip
        """Return the numbers of a step.

        Args:
            before: samples of the weights before the step.
            after: the same after it.
            rates: learning rate of each weight that an optimizer holds.
            own: weights of the loss itself.
        """
        if not len(before) == len(after) == len(self._gradients):
            return {}
        held = {place: rate for place, rate in rates.items() if place not in own}
        largest, total = max(held.values(), default=0.0), sum(map(self._size, held))
        small = [place for place, rate in held.items() if rate < NO_RATE * largest]
        share = sum(map(self._size, small)) / max(1, total)
        numbers = {WITHOUT_RATE: share} if share else {}
        rows = [
            (new - old, old, gradient, place, half)
            for new, old, gradient, place, half in zip(
                after, before, self._gradients, self._places, self._half, strict=True
            )
            if gradient is not None and len(gradient) == len(old) and place in rates
        ]
        if not rows:
            return numbers
        measured, in_half, device = [], 0, rows[0][0].device
        for change, old, gradient, place, half in rows:
            alive = gradient != 0
            adapts = place in self._adaptive and rates[place] > 0
            values = [
                change.square().sum(), old.square().sum(), gradient.square().sum(),
                -(change * gradient).sum(), alive.sum(), (alive & (change == 0)).sum(),
                adapts * change.masked_fill(~alive, 0).square().sum() / (rates[place] or 1) ** 2,
                adapts * alive.sum(),
            ]  # fmt: skip
            measured.append(torch.stack([value.double() for value in values]).to(device))
            in_half += half * len(old)
        *sums, of_rate, adapted = torch.stack(measured).sum(0).tolist()  # the only wait for a GPU
        sums, relative = [*sums, in_half], [of_rate, adapted]
        return numbers | _ratios(sums, relative, sum(len(row[1]) for row in rows))

    def _size(self, place: int) -> int:
        return self._sizes.get(place, 0)


def _ratios(sums: Sequence[float], relative: Sequence[float], count: int) -> dict[str, float]:
    """Return the numbers of a step from sums over the sampled weights."""
    moved, size, gradient, downhill, alive, unchanged, half = sums
    numbers: dict[str, float] = {}
    if size > 0:
        numbers[STEP_SIZE] = math.sqrt(moved / size)
    if relative[1]:
        numbers[STEP_OF_RATE] = math.sqrt(relative[0] / relative[1])
    if moved > 0 and gradient > 0:
        numbers[STEP_COSINE] = downhill / math.sqrt(moved * gradient)
    if alive:
        numbers[STEP_GRADIENT] = math.sqrt(gradient / alive)
    if alive and unchanged:
        numbers[UNCHANGED] = unchanged / alive
    if half:
        numbers[HALF] = half / count
    return numbers


def _gradient_of(weight: Tensor) -> Tensor | None:
    """Return a sample of the gradient of a weight, at the places of the weight's own sample."""
    gradient = weight.grad
    if not isinstance(gradient, Tensor) or gradient.is_sparse:
        return None
    return sample_of(gradient)
