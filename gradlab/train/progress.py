"""What people see of a run while it goes: a bar with loss, throughput and time left, messages, and that steps are too slow."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Iterator
from types import TracebackType
from typing import Self

import torch
from torch import Tensor, nn
from tqdm.auto import tqdm

from gradlab.train.machine import Precision, matrix_rate, using_threads
from gradlab.waiting import bar_interval

# A step over SLOW seconds that reaches less than SHARE of the rate of one float32 matrix product is told of:
# training as a whole reaches .25 to .6 of it.
SLOW, SHARE = 2.0, 0.1


def say(message: str) -> None:
    """Print a line on standard error, above the bar if there is one."""
    tqdm.write(message, file=sys.stderr)


class Progress:
    """A progress bar over steps that also measures mean loss and throughput between two measurements."""

    def __init__(self, step: int, steps: int, sentences: int, *, visible: bool = True) -> None:
        """``sentences`` are those of one step, of all processes."""
        self._sentences = sentences
        interval, disable = bar_interval(), not visible
        self._bar = tqdm(
            total=steps, initial=step, unit="step", desc="Training", mininterval=interval, disable=disable
        )
        self._losses: list[Tensor] = []
        self._seconds, self._steps = 0.0, 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.close()

    @contextlib.contextmanager
    def working(self) -> Iterator[None]:
        """Time one step of training (evaluation and diagnostics are not throughput)."""
        began = time.perf_counter()
        yield
        self._seconds += time.perf_counter() - began
        self._steps += 1

    def add(self, loss: Tensor) -> None:
        """Note a batch's loss without waiting for the device to compute it."""
        self._losses.append(loss.detach())

    def measure(self) -> dict[str, float]:
        """Mean loss and sentences per second since the last call."""
        began = time.perf_counter()
        loss = sum(float(loss) for loss in self._losses) / len(self._losses)
        self._seconds += time.perf_counter() - began  # an accelerator finishes its steps here
        rate = self._steps * self._sentences / self._seconds
        self._losses, self._seconds, self._steps = [], 0.0, 0
        self._bar.set_postfix_str(f"loss {loss:.4f}, {rate:.0f} sentences/s", refresh=False)
        return {"loss": loss, "sentences_per_second": rate}

    def advance(self) -> None:
        """One step is done."""
        self._bar.update()


class Pace:
    """Tells once, in words, that steps take far longer than this machine's measured rate allows."""

    def __init__(self, encoder: nn.Module, precision: Precision, device: torch.device) -> None:
        # A multiplication and an addition each forward, twice that backward.
        weights = sum(m.weight.numel() for m in encoder.modules() if isinstance(m, nn.Linear))
        self._work = 6 * weights
        self._precision, self._device = precision, device
        self._times: list[float] = []
        self._told = False

    def judge(self, seconds: float, tokens: int) -> str | None:
        """What to tell after a step that took so long, for so many tokens of both views; None most of the time."""
        if self._told or self._device.type != "cpu" or seconds < SLOW:
            return None
        self._times.append(seconds)
        if len(self._times) < 3:  # the first steps prepare
            return None
        self._told = True
        seconds = min(self._times)
        with using_threads(1):
            rate = matrix_rate("float32", self._device)
        threads = torch.get_num_threads()
        share = self._work * tokens / seconds / (rate * threads)
        if share >= SHARE:
            return None
        cores = os.cpu_count() or 1
        words = (
            f"A step takes {seconds:.1f} s, and reaches {100 * share:.1g}% of this machine's rate of matrix products "
            f"({rate * threads / 1e9:.0f} GFLOP/s on {threads} thread{'s' if threads > 1 else ''}; 25 to 60% is usual)."
        )
        if self._precision.is_slow:
            return f"{words} bfloat16 is emulated here: use --precision auto."
        if threads > 1:
            return f"{words} Other programs may want the {cores} cores: try --threads 1."
        return f"{words} Other programs may want the {cores} cores."
