"""Progress bar of a run, with loss, throughput and remaining time, and messages above it."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from typing import Any

from torch import Tensor
from tqdm.auto import tqdm

from gradlab.progress_bars import EVERY_LINE_OF_TRAINING, bar_interval


def say(message: str) -> None:
    """Print a line on standard error, above the progress bar if there is one."""
    tqdm.write(message, file=sys.stderr)


class Progress(tqdm):  # type: ignore[type-arg]  # no generic at run time
    """A progress bar over steps, beside which stand mean loss and throughput."""

    def __init__(self, sentences: int, **bar: Any) -> None:
        """Set ``sentences`` per step (all processes), and tqdm's options."""
        super().__init__(
            unit="step", desc="Training", mininterval=bar_interval(EVERY_LINE_OF_TRAINING), **bar
        )
        self._sentences = sentences

    def show(self, losses: Sequence[Tensor | float], seconds: Sequence[float]) -> dict[str, float]:
        """Return the mean loss of batches, and the sentences per second of steps that took so long.

        The seconds are of training alone, without evaluation and diagnostics.
        """
        began = time.perf_counter()
        loss = sum(map(float, losses)) / len(losses)
        waited = time.perf_counter() - began  # summing waits until the device has finished
        rate = len(seconds) * self._sentences / (sum(seconds) + waited)
        self.set_postfix_str(f"loss {loss:.4f}, {rate:.0f} sentences/s", refresh=False)
        return {"loss": loss, "sentences_per_second": rate}
