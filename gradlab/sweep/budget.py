"""What is left of a sweep will cost: runs and steps, counted, and the time that a short trial on this device predicts."""

from __future__ import annotations

import contextlib
import itertools
import math
import os
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from gradlab.sweep.board import ENDED, Run
from gradlab.sweep.settings import configure
from gradlab.waiting import waiting

if TYPE_CHECKING:
    from gradlab.train.config import TrainConfig

# Steps of the trial, and those at its beginning that only warm up.
TRIAL_STEPS, WARM_UP = 8, 3


@dataclass(frozen=True)
class Speed:
    """What the trial measured, in seconds.

    Attributes:
        start: everything before the first step.
        sentence: training, a sentence.
        measurement: one measurement of diagnostics.
        evaluation: one evaluation on the development set.
        tests: evaluation on a task's test set, by the name of the task; transfer tasks are not measured.
        sentences: that a run trains on in one epoch.
    """

    start: float
    sentence: float
    measurement: float
    evaluation: float
    tests: dict[str, float]
    sentences: int

    def steps(self, config: TrainConfig) -> int:
        """Optimiser steps of a run."""
        batches = config.epochs * (self.sentences // config.batch_size)
        return config.max_steps or batches // config.accumulation

    def seconds(self, run: Run) -> float:
        """Of one run, without transfer tasks."""
        config = configure(run.settings)
        steps = self.steps(config)
        seconds = self.start + steps * config.accumulation * config.batch_size * self.sentence
        if config.diagnostics_every:
            seconds += (1 + math.ceil(steps / config.diagnostics_every)) * self.measurement
        if config.sts is not None:
            seconds += (config.eval_start + math.ceil(steps / config.eval_every)) * self.evaluation
        return seconds + sum(self.tests.get(task, 0.0) for task in _tasks(run))


@dataclass(frozen=True)
class Budget:
    """The cost of what is left.

    Attributes:
        runs: all that are known by now.
        done: those that have ended before.
        steps: optimiser steps still to take.
        transfer: encoders that are still to be scored on transfer tasks.
        seconds: estimated, without the transfer tasks.
        workers: runs side by side.
        device: where they run.
    """

    runs: int
    done: int
    steps: int
    transfer: int
    seconds: float
    workers: int
    device: str

    def text(self) -> str:
        """For people."""
        left = self.runs - self.done
        lines = [f"{self.runs} runs" + (f", {self.done} of them done already" if self.done else "")]
        if left:
            lines.append(
                f"{left} to do: {self.steps:,} optimiser steps, about {_duration(self.seconds)} on "
                f"{self.device}, {self.workers} at a time"
            )
        if self.transfer:
            lines.append(f"then the transfer tasks for {self.transfer} encoders, some minutes each")
        return "\n".join(lines)


def budget(runs: Sequence[Run], workers: int) -> Budget:
    """The cost of these runs, of which those that have not ended are still to be made; the first of them is tried here.

    Args:
        runs: of `gradlab.sweep.launch.known_runs`.
        workers: runs side by side, each with its share of the cores.

    Raises:
        GradlabError: for what a training cannot begin with.
    """
    from gradlab.evaluate.report import TRANSFER_TASKS
    from gradlab.train.distributed import find_device
    from gradlab.train.machine import device_name, using_threads
    from gradlab.train.progress import say

    left = [run for run in runs if run.state not in ENDED]
    steps, seconds = 0, 0.0
    if left:
        say("Taking a few steps here, to estimate the time.")
        with using_threads(max(1, (os.cpu_count() or 1) // workers)):
            speed = measure(left)
        steps = sum(speed.steps(configure(run.settings)) for run in left)
        seconds = sum(map(speed.seconds, left)) / workers
    return Budget(
        runs=len(runs),
        done=len(runs) - len(left),
        steps=steps,
        transfer=sum(bool(set(_tasks(run)) & set(TRANSFER_TASKS)) for run in left),
        seconds=seconds,
        workers=workers,
        device=device_name(find_device(runs[0].settings.get("device", "auto"))),
    )


def measure(runs: Sequence[Run]) -> Speed:
    """Train the first of these runs for some steps, with all that goes with them, in a folder that is deleted again."""
    from gradlab.evaluate.sts import load_stsb_dev
    from gradlab.train.loop import Trainer

    clock, end = _clock(), TRIAL_STEPS
    config = configure(runs[0].settings)
    with tempfile.TemporaryDirectory(prefix="gradlab-trial-") as folder:
        config = replace(
            config, output=folder, max_steps=end, save_every=end, eval_every=end, eval_start=False, diagnostics_every=end
        )  # fmt: skip
        Trainer(config)  # sentences are tokenised and libraries imported once, not once a run
        began = time.perf_counter()
        with waiting("Training, measuring and evaluating"), _quiet():
            trainer = Trainer(config, callbacks=[clock])
            trainer.run()
    tests: dict[str, float] = {}
    if config.sts is not None and any(map(_tasks, runs)):
        sentence = clock.evaluation / len(set(load_stsb_dev(config.sts).sentences))
        with waiting("Reading the STS sets"):
            tests = {task: count * sentence for task, count in _test_sentences(config.sts).items()}
    return Speed(
        start=clock.first - began,
        sentence=clock.step / (config.batch_size * config.accumulation),
        measurement=trainer.recorder.seconds / 2,  # before the first step and after the last
        evaluation=clock.evaluation,
        tests=tests,
        sentences=trainer.corpus.order.per_epoch * config.batch_size,
    )


def _tasks(run: Run) -> list[str]:
    from gradlab.evaluate.suite import task_names

    return task_names(run.point.evaluate) if run.point.evaluate else []


def _test_sentences(data: str) -> dict[str, int]:
    """How many different sentences each STS task has."""
    from gradlab.evaluate.folder import MissingFile, downstream
    from gradlab.evaluate.report import STS_TASKS
    from gradlab.evaluate.sts import load_sts

    found = {}
    for task in STS_TASKS:
        with contextlib.suppress(MissingFile):
            pairs = load_sts(downstream(data), task)
            found[task] = len({sentence for one in pairs for sentence in one.sentences})
    return found


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Without the bars and messages of the trial."""
    with open(os.devnull, "w", encoding="utf-8") as nowhere, contextlib.redirect_stderr(nowhere):
        yield


def _duration(seconds: float) -> str:
    minutes = max(1, round(seconds / 60))
    hours, rest = divmod(minutes, 60)
    return f"{hours} h {rest} min" if hours else f"{minutes} min"


def _clock() -> Any:
    """A callback that times steps, and what follows the last; made here, so that the budget needs no torch to import."""
    from gradlab.train import Callback

    class Clock(Callback):
        def on_start(self, trainer: Any) -> None:
            self.first = time.perf_counter()
            self.times: list[float] = []

        def on_step(self, trainer: Any, output: Any) -> None:
            float(output.loss.detach())  # an accelerator has finished the step then
            self.times.append(time.perf_counter())

        def on_end(self, trainer: Any) -> None:
            times = [later - earlier for earlier, later in itertools.pairwise(self.times)]
            self.step = statistics.median(times[WARM_UP - 1 :])
            self.evaluation = time.perf_counter() - self.times[-1]

    return Clock()
