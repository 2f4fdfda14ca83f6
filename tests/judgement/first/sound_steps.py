"""Sound loops of one's own with optimizers, schedules and steps of other kinds than usual."""

from __future__ import annotations

from typing import Any

import torch
from torch.optim.lr_scheduler import LambdaLR, OneCycleLR

from tests.judgement.case import sound
from tests.judgement.first.reported_loops import Columns, Loop, embed, gains
from tests.judgement.stage import Stage


def both_directions(model: Any, criterion: Any, columns: Columns) -> torch.Tensor:
    """The loss of both directions, by two calls of the criterion."""
    first, second = (embed(model, column) for column in columns)
    return (criterion(first, second) + criterion(second, first)) / 2


@sound("criterion called twice")
def two_calls_of_a_criterion_for_a_step(stage: Stage) -> None:
    gains(stage, Loop(step=both_directions))


@sound("accumulation in a loop")
def four_batches_for_a_step(stage: Stage) -> None:
    """Gradients are cleared after each step only, and each call counts as a step of the watch."""
    batches: list[int] = []

    class Accumulating(torch.optim.AdamW):
        def zero_grad(self, set_to_none: bool = True) -> None:
            if len(batches) % 4 == 0:
                super().zero_grad(set_to_none)

    def update(optimizer: torch.optim.Optimizer, value: torch.Tensor) -> None:
        (value / 4).backward()
        batches.append(1)
        if len(batches) % 4 == 0:
            optimizer.step()

    make = lambda weights: Accumulating(weights, lr=1e-3)  # noqa: E731
    gains(stage, Loop(optimizer=make, update=update, steps=160))


@sound("slow weights")
def slow_weights_every_five_steps(stage: Stage) -> None:
    """Lookahead: every five steps the weights go half of the way back to the slow ones."""
    slow: dict[str, torch.Tensor] = {}

    def after(model: Any, number: int) -> None:
        weights = {name: row.clone() for name, row in model.state_dict().items()}
        slow.update({} if slow else weights)
        if number % 5 == 4:
            slow.update({
                name: (slow[name] + row) / 2 if row.is_floating_point() else row
                for name, row in weights.items()
            })  # fmt: skip
            model.load_state_dict(slow)

    make = lambda weights: torch.optim.AdamW(weights, lr=1e-3)  # noqa: E731
    gains(stage, Loop(optimizer=make, after=after))


@sound("schedule that returns rates")
def rate_of_one_and_a_schedule_of_rates(stage: Stage) -> None:
    """The optimizer has a rate of 1, and the schedule returns the rate itself."""
    gains(
        stage,
        Loop(
            optimizer=lambda weights: torch.optim.Adam(weights, lr=1.0),
            schedule=lambda optimizer: LambdaLR(
                optimizer, lambda step: 5e-4 * min(1.0, (step + 1) / 6)
            ),
        ),
    )


@sound("one cycle")
def one_cycle_as_long_as_the_run(stage: Stage) -> None:
    gains(stage, Loop(schedule=lambda optimizer: OneCycleLR(optimizer, 1e-3, total_steps=61)))


@sound("other optimizers")
def loop_with_rectified_adam(stage: Stage) -> None:
    """RAdam begins with steps of momentum, which overshoot now and then."""
    gains(stage, Loop(optimizer=lambda weights: torch.optim.RAdam(weights, lr=2e-3)))


@sound("other optimizers")
def loop_with_adagrad(stage: Stage) -> None:
    gains(stage, Loop(optimizer=lambda weights: torch.optim.Adagrad(weights, lr=5e-3)))


@sound("other optimizers")
def loop_with_adadelta(stage: Stage) -> None:
    gains(stage, Loop(optimizer=lambda weights: torch.optim.Adadelta(weights, lr=1.0)))


@sound("weights in bfloat16")
def loop_in_bfloat16_at_a_high_rate(stage: Stage) -> None:
    make = lambda weights: torch.optim.AdamW(weights, lr=3e-3)  # noqa: E731
    gains(stage, Loop(optimizer=make), model=stage.model().bfloat16())
