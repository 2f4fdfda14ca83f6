"""What a study will cost: counted runs and steps, and the time that a short trial on this device predicts."""

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
from typing import Any

from gradlab.papers.unified.study.runs import STS, TRANSFER, Task
from gradlab.waiting import waiting

# Steps of the trial, and those at its beginning that only warm up.
TRIAL_STEPS, WARM_UP = 8, 3


@dataclass(frozen=True)
class Speed:
    """What the trial measured, in seconds.

    Attributes:
        step: one optimiser step.
        measure: one measurement on held-out sentences.
        sentence: evaluation, a sentence.
        start: everything before the first step.
        dev: sentences of STS-B dev.
        sts: sentences of the seven STS sets.
        steps: optimiser steps of a run.
    """

    step: float
    measure: float
    sentence: float
    start: float
    dev: int
    sts: int
    steps: int

    def run(self, task: Task) -> float:
        """Seconds of one run."""
        settings = task.settings
        evaluations = 1 + math.ceil(self.steps / settings.eval_every)  # the best encoder's once more
        measurements = 1 + math.ceil(self.steps / settings.watch_every)
        seconds = self.start + self.steps * self.step + measurements * self.measure
        seconds += evaluations * self.dev * self.sentence
        if task.planned.embeddings:
            seconds += 2 * self.measure * settings.analysis_batches / settings.watch_batches
        return seconds

    def scores(self, task: Task) -> float:
        """Seconds of scoring its encoder on the STS sets."""
        return self.sts * self.sentence if task.planned.sts else 0.0


@dataclass(frozen=True)
class Budget:
    """The cost of what is still to do.

    Attributes:
        runs: runs of the study.
        done: those that were finished before.
        steps: optimiser steps still to take.
        transfer: encoders that the transfer tasks are still to be scored for.
        seconds: estimated, without the transfer tasks.
        jobs: runs side by side.
        device: where they run.
        lost: encoders that were deleted before the scores that are now asked for.
    """

    runs: int
    done: int
    steps: int
    transfer: int
    seconds: float
    jobs: int
    device: str
    lost: int = 0

    def text(self) -> str:
        """For people."""
        left = self.runs - self.done
        lines = [f"{self.runs} runs" + (f", {self.done} of them done already" if self.done else "")]
        if left:
            lines.append(
                f"{left} to do: {self.steps:,} optimiser steps, about {_duration(self.seconds)} on "
                f"{self.device}, {self.jobs} at a time"
            )
        if self.transfer:
            lines.append(f"then the transfer tasks for {self.transfer} encoders, some minutes each")
        if self.lost:
            lines.append(
                f"{self.lost} finished runs have no encoder left for the scores that are asked for now; delete their folders "
                "in runs/ to have them made again"
            )
        return "\n".join(lines)


def measure(tasks: Sequence[Task]) -> Speed:
    """Train the first of these runs for some steps, with all that goes with them, in a folder that is deleted again."""
    from gradlab.evaluate.folder import MissingFile, downstream
    from gradlab.evaluate.sts import load_sts, load_stsb_dev
    from gradlab.evaluate.suite import GROUPS
    from gradlab.train.loop import Trainer

    task, clock, end = tasks[0], _clock(), TRIAL_STEPS
    with tempfile.TemporaryDirectory(prefix="gradlab-trial-") as folder:
        config = replace(
            task.config, output=folder, max_steps=end, save_every=end, eval_every=end, diagnostics_every=end
        )
        Trainer(config)  # sentences are tokenised and libraries imported once, not once a run
        began = time.perf_counter()
        with waiting("Training, measuring and evaluating"), _quiet():
            trainer = Trainer(config, callbacks=[clock])
            trainer.run()
    pairs = []
    with waiting("Reading the STS sets"):
        for name in GROUPS["sts"]:
            with contextlib.suppress(MissingFile):
                pairs += load_sts(downstream(task.sts), name)
    dev = len(set(load_stsb_dev(task.sts).sentences))
    return Speed(
        step=clock.step,
        measure=trainer.recorder.seconds / 2,  # before the first step and after the last
        sentence=clock.evaluation / dev,
        start=clock.first - began,
        dev=dev,
        sts=len({sentence for one in pairs for sentence in one.sentences}),
        steps=task.config.max_steps or trainer.corpus.order.per_epoch,
    )


def budget(tasks: Sequence[Task], jobs: int, device: str, speed: Speed | None) -> Budget:
    """The cost of these runs; without ``speed`` the time is not known."""
    left = [task for task in tasks if task.result() is None]
    unscored = [task for task in tasks if task not in left and STS in task.missing()]
    seconds = [speed.run(task) + speed.scores(task) if speed else math.nan for task in left]
    seconds += [speed.scores(task) if speed else math.nan for task in unscored]
    steps = speed.steps if speed else 0
    return Budget(
        runs=len(tasks),
        done=len(tasks) - len(left),
        steps=steps * len(left),
        transfer=sum(
            task.planned.transfer and (task in left or TRANSFER in task.missing()) for task in tasks
        ),
        seconds=sum(seconds) / jobs,
        jobs=jobs,
        device=device,
        lost=sum(bool(task.lost()) for task in tasks),
    )


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
