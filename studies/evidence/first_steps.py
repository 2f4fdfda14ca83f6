"""Features of the prediction on the encoder: trainings that are stopped after their first steps."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from gradlab.sweep import configure, read_spec
from gradlab.train import Callback, Output, TrainerState, say, train
from studies.evidence.features import Features
from studies.evidence.linear import RowFile

SPECS = ("factorial", "prediction", "atlas")
STEPS = 11  # steps 0 to 10


class _Measured(Exception):
    """The first steps are done."""


class _FirstSteps(Callback):
    """Adds up the features of the batches that a training sees first, and ends it."""

    def __init__(self, steps: int) -> None:
        self.features, self._left = Features(), steps

    def on_step(self, trainer: TrainerState, output: Output) -> None:
        """Measure what this step was taken on.

        Raises:
            _Measured: after the last.
        """
        self.features.add(trainer.objective.loss, output.anchors.detach(), output.positives.detach())
        self._left -= 1
        if not self._left:
            raise _Measured


def measure_first_steps(
    sweeps: Path, output: Path, changes: Mapping[str, Any], seeds: int, steps: int = STEPS
) -> Path:
    """Write ``encoder-features.csv``: a row for each seed of each loss of the factorial and of what is to be predicted.

    Rows that are there already are kept.

    Args:
        sweeps: folder of the specifications.
        output: where the table goes.
        changes: settings that the sweeps are given by ``--set``.
        seeds: of each loss, 1 and up: those of the trainings themselves.
        steps: that are measured.
    """
    table = RowFile.open(output / "encoder-features.csv")
    points = [
        point for name in SPECS for point in read_spec(sweeps / f"{name}.toml").with_base(changes).points({})
    ]
    for seed in range(1, seeds + 1):
        for point in points:
            if table.has(label=point.label, seed=seed):
                continue
            say(f"First steps: {point.label}, seed {seed}")
            first = _FirstSteps(steps)
            with tempfile.TemporaryDirectory() as folder:
                config = replace(
                    configure(dict(point.settings) | {"seed": seed}, folder),
                    sts=None, diagnostics_every=0, save_every=10**6,
                )  # fmt: skip
                with contextlib.suppress(_Measured):
                    train(config, callbacks=[first])
            row = {name: f"{value:.6g}" for name, value in first.features.summary().items()}
            table.add({"label": point.label, "learning_rate": config.learning_rate, "seed": seed} | row)
    return table.path
