"""`LoopWatch` watches a training loop of your own."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from gradlab.monitor.probe import Snapshot
from gradlab.monitor.watch import Watch, caution

MANY_WITHOUT_GRADIENT = 10


class LoopWatch(Watch):
    """Watches a loop of your own, whose steps it counts."""

    _step, _counts = 0, True  # updates so far, and whether each call counts as one
    _without_gradient = 0  # calls of the loss before any with a gradient
    _has_gradient = False  # whether a call had one

    def start(self, step: int = 0, total_steps: int | None = None) -> None:
        """Begin or continue a recording; see `Watch.start`."""
        if _is_first_process():
            super().start(step, total_steps)
        self._step = step

    def wants(self, step: int, dataset: str = "") -> bool:
        """Return whether to record a batch; see `Watch.wants`. Only the first process records."""
        return _is_first_process() and super().wants(step, dataset)

    @property
    def step(self) -> int:
        """Updates before the next batch: the calls so far, until your loop begins to set it.

        Set it at each step where a step has several batches, as with accumulated gradients.
        """
        return self._step

    @step.setter
    def step(self, step: int) -> None:
        self._step, self._counts = step, False

    def observe(
        self,
        anchors: Tensor,
        positives: Tensor,
        extra_negatives: Tensor | None = None,
        value: Tensor | float | None = None,
    ) -> None:
        """Record a batch if it is due; call this once per step.

        Args:
            anchors: (N, D) embeddings, of any length.
            positives: (N, D), row i is the other view of sentence i.
            extra_negatives: (M, D) or None.
            value: the loss that was computed from them, for comparison.
        """
        self.look(lambda: Snapshot(anchors, positives, extra_negatives, value=value))

    def look_without_gradient(self, find: Callable[[], Snapshot]) -> None:
        """Count a call without a gradient; many before any with one are warned of, and recorded.

        A few are those of an evaluation before training.
        """
        self._without_gradient += not self._has_gradient
        if self._without_gradient == MANY_WITHOUT_GRADIENT:
            caution(
                f"The watched loss was called {MANY_WITHOUT_GRADIENT} times, never with a "
                "gradient, so that nothing is learned: embed with gradient, outside of "
                "torch.no_grad() and model.encode."
            )
        if self._without_gradient >= MANY_WITHOUT_GRADIENT and not self._has_gradient:
            self._look(find)

    def look(self, find: Callable[[], Snapshot]) -> None:
        """Count a step, and record the batch that ``find`` returns if it is due."""
        self._has_gradient = True
        self._look(find)

    def _look(self, find: Callable[[], Snapshot]) -> None:
        step = self._step
        self._step += self._counts
        if self.wants(step):
            self.record(step, find)


def _is_first_process() -> bool:
    distributed = torch.distributed
    running = distributed.is_available() and distributed.is_initialized()
    return not running or distributed.get_rank() == 0
