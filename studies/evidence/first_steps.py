"""Features of the prediction on the encoder: trainings that are stopped after their first steps."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gradlab.batch import unit_rows
from gradlab.sweep import read_spec
from gradlab.train import Callback, Output, TrainerState, say
from studies.evidence.features import measure, summary
from studies.runs import RowFile, Stopped, train_until_stopped

SPECS = ("factorial", "prediction", "atlas")
STEPS = 11  # steps 0 to 10


class _FirstSteps(Callback):
    """Measures the batches that a training sees first, and ends it."""

    def __init__(self, steps: int) -> None:
        self.measured: list[dict[str, float]] = []
        self._steps = steps

    def on_step(self, trainer: TrainerState, output: Output) -> None:
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
