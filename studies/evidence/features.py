"""A loss's three components in the first steps of a training, on one scale for all losses."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
from torch import Tensor

from gradlab import Loss, components
from gradlab.batch import unit_rows
from gradlab.gradient import alignment, uniformity
from gradlab.sweep import read_spec
from gradlab.train import Callback, Output, Trainer, say
from studies.runs import RowFile, Stopped, train_until_stopped

# What a prediction is made from, declared before it, and its rivals.
FEATURES = ("push", "hardest_share", "pull", "pull_squared")
RIVALS = ("alignment", "uniformity")
SPECS = ("factorial", "prediction", "atlas")
STEPS = 11  # steps 0 to 10


def summary(steps: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Features of a loss from what :func:`measure` gives in each of the first steps.

    They are ``push`` in the second half of the steps, relative to the first step; means of the
    others; and the square of ``pull``.
    """
    table = pd.DataFrame(steps)
    later = table.push[len(table) // 2 :].mean(skipna=False)
    found = table.mean(skipna=False).to_dict() | {"push": later / table.push[0]}
    return found | {"pull_squared": found["pull"] ** 2}


def measure(loss: Loss, anchors: Tensor, positives: Tensor) -> dict[str, float]:
    """Of one batch of unit rows (N, D), means over anchors.

    Returns:
        ``push``: ``GD_i Σ_j |W_ij|``; ``hardest_share``: ``max_j |W_ij| / Σ_j |W_ij|``; ``pull``:
        the pull's share, ``ρ/(1 + ρ)`` with ``ρ`` the size of ``Σ_j W_ij R_i`` (of a diagonal ratio
        along the positive) by ``Σ_j |W_ij|``; and alignment and uniformity.
    """
    parts = components(loss, anchors, positives)
    size = parts.weight.abs().sum(-1)
    pull = parts.positive_weight
    if pull.ndim > 1:
        pull = (pull * positives * positives).sum(-1)
    pushed = size > 0
    rho = pull[pushed].abs() / size[pushed]
    share = parts.weight.abs().amax(-1)[pushed] / size[pushed]
    return {
        "push": float((parts.gradient_dissipation * size).mean()),
        "hardest_share": float(share.mean()),
        "pull": float((rho / (1 + rho)).mean()),
        "alignment": alignment(anchors, positives),
        "uniformity": uniformity(anchors),
    }


class _FirstSteps(Callback):
    """Measures the batches that a training sees first, and ends it."""

    def __init__(self, steps: int) -> None:
        self.measured: list[dict[str, float]] = []
        self._steps = steps

    def on_step(self, trainer: Trainer, output: Output) -> None:
        views = (unit_rows(rows.detach().double()) for rows in (output.anchors, output.positives))
        self.measured.append(measure(trainer.objective.loss, *views))
        if len(self.measured) == self._steps:
            raise Stopped


def measure_first_steps(
    sweeps: Path, output: Path, changes: Mapping[str, Any], seeds: int, steps: int = STEPS
) -> Path:
    """Write ``encoder-features.csv``: a row for each seed of each loss.

    Losses are those of the factorial, and those to be predicted. Rows that are there already are
    kept. Seeds are 1 and up, as those of the trainings themselves.
    """
    table = RowFile(output / "encoder-features.csv")
    specs = [read_spec(sweeps / f"{name}.toml").with_base(changes) for name in SPECS]
    points = [point for spec in specs for point in spec.points({})]
    for seed, point in itertools.product(range(1, seeds + 1), points):
        if table.has(label=point.label, seed=seed):
            continue
        say(f"First steps: {point.label}, seed {seed}")
        first = _FirstSteps(steps)
        config = train_until_stopped(point, seed, first, sts=None)
        about = {"label": point.label, "learning_rate": config.learning_rate, "seed": seed}
        table.add(about, summary(first.measured))
    return table.path
