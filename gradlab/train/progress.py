"""Progress bar of a run, with loss, throughput and remaining time, and messages above it."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Iterable, Iterator
from typing import Any

from torch import Tensor
from tqdm.auto import tqdm

from gradlab.waiting import EVERY_LINE_OF_TRAINING, bar_interval


def say(message: str) -> None:
    """Print a line on standard error, above the progress bar if there is one."""
    tqdm.write(message, file=sys.stderr)


class Progress(tqdm):  # type: ignore[type-arg]  # no generic at run time
    """A progress bar over steps; also measures mean loss and throughput between measurements."""

    def __init__(self, sentences: int, losses: Iterable[float] = (), **bar: Any) -> None:
        """Set ``sentences`` per step (all processes), resumed ``losses``, and tqdm's options."""
        super().__init__(
            unit="step", desc="Training", mininterval=bar_interval(EVERY_LINE_OF_TRAINING), **bar
        )
        self._sentences = sentences
        self._losses: list[Tensor | float] = [*losses]
        self._seconds, self._steps = 0.0, 0

    @contextlib.contextmanager
    def working(self) -> Iterator[None]:
        """Time one training step; throughput excludes the time of evaluation and diagnostics."""
        began = time.perf_counter()
        yield
        self._seconds += time.perf_counter() - began
        self._steps += 1

    def add(self, loss: Tensor) -> None:
        """Store the loss of a batch without waiting for the device to compute it."""
        self._losses.append(loss.detach())

    @property
    def losses(self) -> list[float]:
        """Losses of the batches since the last measurement."""
        return list(map(float, self._losses))

    def measure(self) -> dict[str, float]:
        """Return the mean loss and the sentences per second since the last call."""
        began = time.perf_counter()
        loss = sum(self.losses) / len(self._losses)
        self._seconds += time.perf_counter() - began  # summing waits until the device has finished
        rate = self._steps * self._sentences / self._seconds
        self._losses, self._seconds, self._steps = [], 0.0, 0
        self.set_postfix_str(f"loss {loss:.4f}, {rate:.0f} sentences/s", refresh=False)
        return {"loss": loss, "sentences_per_second": rate}
