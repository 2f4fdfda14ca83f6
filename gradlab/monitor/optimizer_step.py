"""What does a step of the optimizer do: its rates, the weights that it moves, what is left?"""

from __future__ import annotations

import itertools
import math
import weakref
from collections.abc import Callable, Sequence
from typing import Any

from torch import Tensor
from torch.optim.optimizer import (
    Optimizer,
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)

from gradlab.monitor.movement import sample_of
from gradlab.monitor.step_effect import WAITED, StepEffect
from gradlab.monitor.weak_hooks import weakly

# Numbers of the records: the largest learning rate, alone and relative to the one that it was set
# to at first; the mean factor between neighbouring rates of the encoder, where there are at least
# `FEWEST_RATES`; the share of the weights with a gradient that stay exactly as they are while
# others move, and of those which no optimizer holds; the share of a step that is undone before the
# next batch; how far weights have moved between the batch and the step, relative to the step, if
# they stay there; steps of the optimizer's state; its settings; whether all gradients are 0 at the
# step, and were as the backward pass brought them; what is left at the step of the gradient that it
# brought; and whether an optimizer that holds none of the weights makes steps instead. All but
# rates are noted where they are unusual.
RATE, RATE_SHARE, RATE_FACTOR = "optimizer_rate", "rate_share", "rate_factor"
STILL_WEIGHTS, NOT_HELD = "still_weights", "weights_not_held"
UNDONE, BY_HAND, STATE_STEPS = "step_undone", "moved_before_step", "state_steps"
DECAY, EPSILON, EMPTY, LOST = "weight_decay", "epsilon", "empty_step", "gradient_lost"
GRADIENT_LEFT, OTHER_OPTIMIZER = "gradient_left", "other_optimizer"
STEP_NUMBERS = (RATE, RATE_SHARE, RATE_FACTOR, STILL_WEIGHTS, NOT_HELD, UNDONE, BY_HAND,
                STATE_STEPS, DECAY, EPSILON, EMPTY, LOST, GRADIENT_LEFT,
                OTHER_OPTIMIZER)  # fmt: skip
FEWEST_RATES = 3
# Share of a step that is undone, and settings of the optimizer, from which on they are noted.
NOTED, LEAST = 0.1, {DECAY: 0.4, EPSILON: 2e-5}
# Tensors whose samples before, after and at the next batch are compared.
COMPARED = 32


class NextStep:
    """Looks at the next step of the optimizers that hold trained weights, once.

    Hooks on all optimizers stay until the batch after that step, so that other steps cost nothing.
    """

    def __init__(
        self,
        weights: Sequence[Tensor],
        own: Sequence[Tensor],
        still: Sequence[Tensor],
        tell: Callable[[dict[str, float]], None],
    ) -> None:
        """Begin to look.

        Args:
            weights: trained weights, by the graph of the loss.
            own: those of the loss itself, such as a classifier, whose rate may differ.
            still: those that are as they were at the record before.
            tell: is called with the numbers, at the batch after the step.
        """
        self._sizes = {id(weight): weight.numel() for weight in weights}
        self._own, self._tell = {id(weight) for weight in own}, tell
        places = range(0, len(weights), max(1, len(weights) // COMPARED))
        self._weights = [weakref.ref(weights[at]) for at in places]
        self._still = [weakref.ref(weight) for weight in still]
        self._at_record = self._samples()
        self._before: list[Tensor] = []
        self._after: list[Tensor] = []
        self._unmoved: set[int] = set()
        self._held: dict[int, float] = {}  # rate of each weight that an optimizer holds
        self._numbers: dict[str, float] = {}
        self._effect: StepEffect | None = None
        self._is_over = False  # whether the step has been made
        self.waited = 0  # batches since the record, none of which was followed by a step
        self._foreign_steps = 0  # steps of optimizers that hold none of the weights
        self._brought: dict[int, Tensor] = {}  # gradients that the latest backward pass has left
        self._hooks = [
            *(
                weight.register_post_accumulate_grad_hook(weakly(self._after_backward))
                for weight in map(weights.__getitem__, places)
                if weight.is_leaf
            ),
            register_optimizer_step_pre_hook(weakly(self._before_step)),
            register_optimizer_step_post_hook(weakly(self._after_step)),
        ]

    def conclude(self, is_derived: bool = False) -> bool:
        """Tell what the step has done, at the batch after it; return whether there was one.

        ``is_derived`` says whether the batch of the record has had its backward pass.
        """
        if not self._after:
            # The second pass of sharpness-aware steps is at weights that were moved by hand.
            is_moved = _distance(self._at_record, self._samples()) > 0
            self.waited += is_derived and not is_moved
            return False
        self.end()
        numbers = self._numbers | ({WAITED: float(self.waited)} if self.waited else {})
        if self._effect is not None:
            numbers |= self._effect.numbers(self._before, self._after, self._held, self._own)
        undone = _distance(self._after, self._samples()), _distance(self._before, self._after)
        if undone[1] > 0 and undone[0] > NOTED * undone[1]:
            numbers[UNDONE] = undone[0] / undone[1]
        numbers |= self._by_hand()
        total = sum(self._sizes.values())
        still = [weight for weight in self._unmoved if weight in self._sizes]
        if 0 < len(still) < len(self._sizes):
            numbers[STILL_WEIGHTS] = sum(self._sizes[weight] for weight in still) / total
            free = [weight for weight in still if weight not in self._held]
            numbers[NOT_HELD] = sum(self._sizes[weight] for weight in free) / total
        rates = sorted({rate for w, rate in self._held.items() if rate > 0 and w not in self._own})
        if len(rates) >= FEWEST_RATES:
            numbers[RATE_FACTOR] = (rates[0] / rates[-1]) ** (1 / (len(rates) - 1))
        self._tell(numbers)
        return True

    def _by_hand(self) -> dict[str, float]:
        """Return how far weights have moved before the step, if that is not taken back after it."""
        step, moved = _distance(self._before, self._after), _distance(self._at_record, self._before)
        if not (step > 0 and moved > NOTED * step):
            return {}
        rows = zip(self._at_record, self._before, self._after, self._samples(), strict=True)
        shifts = [
            ((before - recorded) + (current - after), recorded)
            for recorded, before, after, current in rows
        ]
        left = _distance(
            [recorded + shift for shift, recorded in shifts], [recorded for _, recorded in shifts]
        )
        return {BY_HAND: left / step} if left > NOTED * step else {}

    def give_up(self) -> None:
        """Tell after how many batches there is still no step."""
        if not self._after:
            foreign = {OTHER_OPTIMIZER: 1.0} if self._foreign_steps else {}
            self._tell({WAITED: float(self.waited)} | foreign)

    def end(self) -> None:
        """Stop looking."""
        for hook in self._hooks:
            hook.remove()

    def _after_backward(self, weight: Tensor) -> None:
        if not self._before and isinstance(weight.grad, Tensor) and not weight.grad.is_sparse:
            self._brought[id(weight)] = sample_of(weight.grad)

    def _gradient_left(self, weights: Sequence[Tensor]) -> dict[str, float]:
        """Return what is left of the gradient of the backward pass, if that is little."""
        pairs = [(sample_of(weight.grad), self._brought[id(weight)]) for weight in weights
                 if id(weight) in self._brought and isinstance(weight.grad, Tensor)]  # fmt: skip
        if not pairs:
            return {}
        left, brought = (_norm(samples) for samples in zip(*pairs, strict=True))
        return {GRADIENT_LEFT: left / brought} if 0 < left < NOTED * brought < math.inf else {}

    def _before_step(self, optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        if self._is_over or self._before:
            return
        if not self._holds(optimizer):
            self._foreign_steps += 1
            return
        self._before = self._samples()
        self._effect = StepEffect([weight() for weight in self._weights])
        compared = [weight for reference in self._weights if (weight := reference()) is not None]
        if not any(weight.grad is not None and bool(weight.grad.any()) for weight in compared):
            self._numbers[EMPTY] = 1.0
            if self._brought and not any(bool(row.any()) for row in self._brought.values()):
                self._numbers[LOST] = 1.0
        self._numbers |= self._gradient_left(compared)
        weights = (reference() for reference in self._still)
        self._unmoved = {
            id(weight) for weight in weights
            if weight is not None and weight.grad is not None and _has_gradient(weight)
        }  # fmt: skip

    def _after_step(self, optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        if self._is_over or not self._holds(optimizer):
            return
        # Without a look before it, the batch came from a closure, in the middle of this step.
        self._is_over = not self._before
        self._after = self._samples()
        groups = [
            (group, [w for w in group["params"] if id(w) in self._sizes])
            for group in optimizer.param_groups
        ]
        groups = [(group, weights) for group, weights in groups if weights]
        self._held |= {id(w): float(group["lr"]) for group, weights in groups for w in weights}
        for name, key in ((DECAY, "weight_decay"), (EPSILON, "eps")):
            settings = [group.get(key) for group, _ in groups]
            values = [float(value) for value in settings if isinstance(value, int | float)]
            if max(values, default=0.0) > LEAST[name]:
                self._numbers[name] = max(values)
        largest = max(groups, key=lambda entry: float(entry[0]["lr"]))[0]
        self._numbers[RATE] = max(self._numbers.get(RATE, 0.0), float(largest["lr"]))
        # OneCycleLR begins at a part of the rate that it is to reach.
        rate_to_reach = float(largest.get("max_lr") or largest.get("initial_lr") or 0.0)
        if rate_to_reach > 0:
            self._numbers[RATE_SHARE] = float(largest["lr"]) / rate_to_reach
        if self._effect is not None:
            self._effect.note(groups)
        states = (optimizer.state.get(w, {}).get("step") for _, weights in groups for w in weights)
        steps = [float(step) for step in itertools.islice(states, 1) if step is not None]
        self._numbers |= {STATE_STEPS: steps[0]} if steps and steps[0] <= 1 else {}

    def _holds(self, optimizer: Optimizer) -> bool:
        return any(id(w) in self._sizes for group in optimizer.param_groups
                   for w in group["params"])  # fmt: skip

    def _samples(self) -> list[Tensor]:
        weights = (reference() for reference in self._weights)
        return [sample_of(weight) for weight in weights if weight is not None]


def _distance(first: Sequence[Tensor], second: Sequence[Tensor]) -> float:
    """Return the norm of the difference of samples; NaN where they are not of the same weights."""
    if [len(rows) for rows in first] != [len(rows) for rows in second]:
        return math.nan
    return _norm([new - old for old, new in zip(first, second, strict=True)])


def _norm(samples: Sequence[Tensor]) -> float:
    squares = [rows.square().sum() for rows in samples]
    return math.sqrt(float(sum(square.to(squares[0].device) for square in squares)))


def _has_gradient(weight: Tensor) -> bool:
    """Return whether the gradient of a weight is not 0, at the places of its sample."""
    gradient = weight.grad
    return (
        isinstance(gradient, Tensor) and not gradient.is_sparse and bool(sample_of(gradient).any())
    )
