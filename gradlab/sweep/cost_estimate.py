"""An estimate of the remaining cost of a sweep, from a few training steps on this device."""

from __future__ import annotations

import contextlib
import io
import math
import os
import statistics
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from gradlab.progress_bars import waiting
from gradlab.sweep.flat_settings import configure
from gradlab.sweep.trials import ENDED, Run
from gradlab.train.config import TrainConfig

# Steps of the trial, and the number of steps at its beginning that only warm up.
TRIAL_STEPS, WARM_UP = 8, 3


@dataclass(frozen=True)
class Speed:
    """Measured seconds: to start a run, train on one sentence, measure once and evaluate once.

    ``sentences`` is the number of sentences that a run trains on in one epoch.
    """

    start: float
    sentence: float
    measurement: float
    evaluation: float
    sentences: int

    def steps(self, config: TrainConfig) -> int:
        """Return the number of optimiser steps of a run."""
        batches = config.epochs * (self.sentences // config.batch_size)
        return config.max_steps or batches // config.accumulation

    def seconds(self, config: TrainConfig) -> float:
        """Return the time of a run in seconds, without its evaluation on test sets."""
        steps = self.steps(config)
        seconds = self.start + steps * config.accumulation * config.batch_size * self.sentence
        if config.diagnostics_every:
            seconds += (1 + math.ceil(steps / config.diagnostics_every)) * self.measurement
        if config.eval_data is not None:
            seconds += (config.eval_start + math.ceil(steps / config.eval_every)) * self.evaluation
        return seconds


@dataclass(frozen=True)
class Budget:
    """Remaining cost of a sweep.

    ``workers`` take ``steps`` in ``seconds``; ``ended`` of ``runs`` have ended. Evaluating
    ``tested`` encoders on test sets takes further time.
    """

    runs: int
    ended: int
    steps: int
    tested: int
    seconds: float
    workers: int
    device: str

    def text(self) -> str:
        """Return the estimate as text for display."""
        lines = [
            f"{self.runs} runs" + (f", {self.ended} of them done already" if self.ended else "")
        ]
        if self.runs > self.ended:
            hours, minutes = divmod(max(1, round(self.seconds / 60)), 60)
            duration = f"{hours} h {minutes} min" if hours else f"{minutes} min"
            lines.append(
                f"{self.runs - self.ended} to do: {self.steps:,} optimiser steps, about {duration} "
                f"on {self.device}, {self.workers} at a time"
            )
        if self.tested:
            lines.append(
                f"and evaluating {self.tested} encoders on test sets, which is not in this estimate"
            )
        return "\n".join(lines)


def estimate_cost(runs: Sequence[Run], workers: int) -> Budget:
    """Estimate the cost of the runs that have not ended, from a few steps of the first of them.

    Args:
        runs: runs from `gradlab.sweep.launch.known_runs`.
        workers: number of runs at a time, each with its share of the cores.

    Raises:
        GradlabError: the training cannot begin.
    """
    from gradlab.train import device_name, find_device, say
    from gradlab.train.hardware import using_threads

    remaining = [run for run in runs if run.state not in ENDED]
    configs = [configure(run.settings) for run in remaining]
    steps, seconds = 0, 0.0
    if remaining:
        say("Taking a few steps here, to estimate the time.")
        with using_threads(max(1, (os.cpu_count() or 1) // workers)):
            speed = measure(configs[0])
        steps, seconds = sum(map(speed.steps, configs)), sum(map(speed.seconds, configs))
    return Budget(
        runs=len(runs),
        ended=len(runs) - len(remaining),
        steps=steps,
        tested=sum(bool(run.point.evaluate) for run in remaining),
        seconds=seconds / workers,
        workers=workers,
        device=device_name(find_device(runs[0].settings.get("device", "auto"))),
    )


def measure(config: TrainConfig) -> Speed:
    """Train a run for a few steps in a temporary folder, with diagnostics and one evaluation."""
    from gradlab.monitor.metrics import TRAIN
    from gradlab.sweep.worker import encode_of
    from gradlab.train.trainer import Trainer

    end = TRIAL_STEPS
    intervals = ("max_steps", "save_every", "eval_every", "diagnostics_every")
    once: dict[str, Any] = dict.fromkeys(intervals, end)
    with (
        tempfile.TemporaryDirectory(prefix="gradlab-trial-") as folder,
        waiting("Training, measuring and evaluating"),
        contextlib.redirect_stderr(io.StringIO()),
    ):
        config = replace(
            config, output=folder, warmup_steps=0, eval_start=False, log_every=1, **once
        )
        Trainer(config)  # not timed: tokenising and imports, which happen once for all runs
        began = time.perf_counter()
        trainer = Trainer(config)
        trainer.run()
        seconds, evaluation = time.perf_counter() - began, 0.0
        if trainer.selection is not None:
            encode = encode_of(trainer.folder.encoder, trainer.config)
            began = time.perf_counter()
            trainer.selection.score(encode)
            evaluation = time.perf_counter() - began
    rates = trainer.history.series(TRAIN, "sentences_per_second")[1]
    training = end * config.batch_size * config.accumulation / statistics.fmean(rates)
    return Speed(
        start=max(0.0, seconds - training - trainer.recorder.seconds - evaluation),
        sentence=1 / statistics.median(rates[WARM_UP:]),
        measurement=trainer.recorder.seconds / 2,  # before the first step and after the last
        evaluation=evaluation,
        sentences=trainer.corpus.order.per_epoch * config.batch_size,
    )
