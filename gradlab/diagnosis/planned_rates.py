"""The learning rates of a planned run: what a schedule makes of them, and what they mean.

A schedule is played on a stand-in of the optimizer, so that neither moves.
"""

from __future__ import annotations

import copy
import dataclasses
import math
import warnings
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn

# Steps at which a rate is computed; steps of a schedule that is computed step by step.
RATES, MOST_STEPS = 200, 20_000


@dataclasses.dataclass(frozen=True)
class PlannedRates:
    """Rates over a run, as shares of the first one, and the largest rate itself."""

    factors: list[float]
    largest: float


def groups_of(optimizer: Any) -> list[dict[str, Any]]:
    """Return the groups of weights of an optimizer; none without one, or of an unusual kind."""
    return [group for group in getattr(optimizer, "param_groups", ()) if "params" in group]


def rate_of(group: dict[str, Any], *, first: bool = True) -> float:
    """Return the rate of a group, before any step of a schedule with ``first``; 0 without one."""
    rate = group.get("initial_lr") if first else None
    rate = group.get("lr") if rate is None else rate
    return float(rate) if isinstance(rate, int | float | Tensor) else 0.0


def finds_rates(optimizer: Any) -> bool:
    """Return whether an optimizer finds its learning rates itself.

    Adafactor does without one, by the size of the weights; D-Adaptation and Prodigy multiply the
    given one, which is 1, by ``d``.
    """
    return any(
        group.get("relative_step") or group.get("lr", 0.0) is None
        or isinstance(group.get("d"), float)
        for group in groups_of(optimizer)
    )  # fmt: skip


def planned(scheduler: Any, optimizer: Any, steps: int, shared: Iterable[Any] = ()) -> PlannedRates:
    """Return the rates over the run; without factors if they cannot be known.

    Args:
        scheduler: a scheduler that has not begun, or where it stands.
        optimizer: the optimizer that it moves, if it does not tell.
        steps: steps of the run.
        shared: objects that are not copied with the scheduler, such as the model.
    """
    scheduler = getattr(scheduler, "scheduler", scheduler)  # of accelerate
    optimizer = getattr(scheduler, "optimizer", None) or optimizer
    groups = groups_of(optimizer)
    if scheduler is None or not groups:
        return PlannedRates([], 0.0)
    if groups[0].get("relative_step") or groups[0].get("lr", 0.0) is None:
        return PlannedRates([1.0], 0.0)  # it shows what the optimizer has found
    first = max(map(rate_of, groups))
    if isinstance(scheduler, torch.optim.lr_scheduler.LambdaLR):
        rows = [
            [float(function(step)) for function in scheduler.lr_lambdas]
            for step in range(0, steps, max(1, steps // RATES))
        ]
        begins = [rate_of(group) for group in groups]
        largest = [max(f * b for f, b in zip(row, begins, strict=False)) for row in rows]
        return PlannedRates([max(row) for row in rows], max(largest))
    rates = _played(scheduler, optimizer, groups, steps, shared) if steps <= MOST_STEPS else []
    largest_rate = max(rates, default=0.0)
    return PlannedRates([rate / (first or largest_rate or 1.0) for rate in rates], largest_rate)


def _played(
    scheduler: Any, optimizer: Any, groups: list[dict[str, Any]], steps: int, shared: Iterable[Any]
) -> list[float]:
    """Return the largest rate of each step; empty for a schedule of something else than steps."""
    weights = [{"params": [nn.Parameter(torch.zeros(1))]} for _ in groups]
    stand_in = torch.optim.SGD(weights, lr=1.0)
    stand_in.param_groups = [
        {**inner, **{n: copy.copy(v) for n, v in group.items() if n != "params"},
         "params": inner["params"]}
        for inner, group in zip(stand_in.param_groups, groups, strict=True)
    ]  # fmt: skip
    # A schedule made of others holds schedulers of its own, which would move the optimizer itself.
    memo = {id(optimizer): stand_in, **{id(value): value for value in shared}}
    rates = []
    try:
        clone = copy.deepcopy(scheduler, memo)
        with warnings.catch_warnings():  # that the stand-in makes no steps
            warnings.simplefilter("ignore")
            for _ in range(steps):
                rates.append(max(rate_of(group, first=False) for group in stand_in.param_groups))
                clone.step()
    except Exception:  # a schedule of a metric, or of something else
        return []
    return rates if all(map(math.isfinite, rates)) else []
