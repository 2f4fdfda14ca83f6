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
# encoder's weights at less than a thousandth of its largest rate; batches without a step after the
# record; and whether steps are multiples of the gradient, or shrink from step to step. The last
# five are noted where they are not 0.
STEP_SIZE, STEP_OF_RATE, STEP_COSINE = "step_size", "step_of_rate", "step_cosine"
STEP_GRADIENT, UNCHANGED, HALF = "step_gradient", "step_unchanged", "weights_in_half"
WITHOUT_RATE, WAITED = "weights_without_rate", "batches_without_step"
DESCENDS = "steps_of_gradient"
EFFECT_NUMBERS = (STEP_SIZE, STEP_OF_RATE, STEP_COSINE, STEP_GRADIENT, UNCHANGED, HALF,
                  WITHOUT_RATE, WAITED, DESCENDS)  # fmt: skip
NO_RATE = 1e-3
# Settings by which SGD, Adagrad and Adadelta are known.
OF_DESCENT = ("dampening", "lr_decay", "rho")


class StepEffect:
    """The gradient at a step, for comparison with what the step changes."""

    def __init__(self, weights: Sequence[Tensor | None]) -> None:
        """Keep samples of the gradients of weights, and which are in half precision."""
        present = [weight for weight in weights if weight is not None]
        self._weight_ids = [id(weight) for weight in present]
        self._gradients = [_gradient_of(weight) for weight in present]
        self._half = [weight.dtype in (torch.float16, torch.bfloat16) for weight in present]
        self._sizes: dict[int, int] = {}
        self._adaptive: set[int] = set()
        self._descends = False

    def note(self, groups: Iterable[tuple[Mapping[str, Any], Sequence[Tensor]]]) -> None:
        """Take in the settings of the groups of an optimizer, with their weights."""
        for group, weights in groups:
            self._sizes |= {id(weight): weight.numel() for weight in weights}
            self._descends |= any(name in group for name in OF_DESCENT)
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
        if not len(before) == len(after) == len(self._gradients):  # weights have come or gone
            return {}
        encoder_rates = {weight: rate for weight, rate in rates.items() if weight not in own}
        share = self._share_without_rate(encoder_rates)
        numbers = ({WITHOUT_RATE: share} if share else {}) | (
            {DESCENDS: 1.0} if self._descends else {}
        )
        samples = [
            (new - old, old, gradient, weight_id, is_half)
            for new, old, gradient, weight_id, is_half in zip(
                after, before, self._gradients, self._weight_ids, self._half, strict=True
            )
            if gradient is not None and len(gradient) == len(old) and weight_id in rates
        ]
        if not samples:
            return numbers
        sums, device = [], samples[0][0].device
        for change, old, gradient, weight_id, _ in samples:
            has_gradient, rate = gradient != 0, rates[weight_id]
            # Steps of other optimizers grow with the gradient, so that only these tell in rates.
            adapts = weight_id in self._adaptive and rate > 0
            adapted = change.masked_fill(~has_gradient, 0).square().sum()
            sums_of_weight = [
                change.square().sum(), old.square().sum(), gradient.square().sum(),
                -(change * gradient).sum(), has_gradient.sum(),
                (has_gradient & (change == 0)).sum(),
                adapts * adapted / (rate or 1) ** 2, adapts * has_gradient.sum(),
            ]  # fmt: skip
            sums.append(torch.stack([total.double() for total in sums_of_weight]).to(device))
        totals = torch.stack(sums).sum(0).tolist()  # the only wait for a GPU
        in_half = sum(len(old) for _, old, *_, is_half in samples if is_half)
        return numbers | _ratios(totals, in_half / sum(len(old) for _, old, *_ in samples))

    def _share_without_rate(self, rates: Mapping[int, float]) -> float:
        """Return the share of the weights whose rate is nearly none beside the largest."""
        largest = max(rates.values(), default=0.0)
        without_rate = [weight for weight, rate in rates.items() if rate < NO_RATE * largest]
        return sum(map(self._size, without_rate)) / max(1, sum(map(self._size, rates)))

    def _size(self, weight_id: int) -> int:
        return self._sizes.get(weight_id, 0)


def _ratios(sums: Sequence[float], half: float) -> dict[str, float]:
    """Return the numbers of a step from sums over the sampled weights.

    ``half`` is the share of the weights that are in half precision.
    """
    moved, size, gradient, downhill, with_gradient, unchanged, in_rates, adaptive = sums
    numbers: dict[str, float] = {}
    if size > 0:
        numbers[STEP_SIZE] = math.sqrt(moved / size)
    if adaptive:
        numbers[STEP_OF_RATE] = math.sqrt(in_rates / adaptive)
    if moved > 0 and gradient > 0:
        numbers[STEP_COSINE] = downhill / math.sqrt(moved * gradient)
    if with_gradient:
        numbers[STEP_GRADIENT] = math.sqrt(gradient / with_gradient)
    if with_gradient and unchanged:
        numbers[UNCHANGED] = unchanged / with_gradient
    if half:
        numbers[HALF] = half
    return numbers


def _gradient_of(weight: Tensor) -> Tensor | None:
    """Return a sample of the gradient of a weight, at the places of the weight's own sample."""
    gradient = weight.grad
    if not isinstance(gradient, Tensor) or gradient.is_sparse:
        return None
    return sample_of(gradient)
