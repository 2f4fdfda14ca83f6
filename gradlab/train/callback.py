"""`Callback`: where a user's code acts during a run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from torch import Tensor

from gradlab.errors import GradlabError
from gradlab.losses.components import Components
from gradlab.train.objective_parts import Output


class Callback:
    """Base class of callbacks of a run; override the methods that you need.

    Callbacks run in every process. They receive the run as a `gradlab.train.trainer.Trainer`.
    Content that must survive a crash goes through :meth:`state`.
    """

    def on_start(self, trainer: Any) -> None:
        """Called once, before the first step of this process."""

    def on_step(self, trainer: Any, output: Output) -> None:
        """Called after each optimiser step, with the output of the last batch."""

    def statistics(
        self, anchors: Tensor, positives: Tensor, gradient: Components | None
    ) -> dict[str, float]:
        """Return numbers to record when the run measures its loss on embeddings.

        ``anchors`` and ``positives`` are (N, D) unit rows in float64. ``gradient`` holds the
        components of the loss on them, or is None if they are unknown.
        """
        return {}

    def on_end(self, trainer: Any) -> None:
        """Called once, after the last step."""

    def state(self) -> Any:
        """Return JSON-ready content for the checkpoint."""
        return None

    def restore(self, state: Any) -> None:
        """Restore what :meth:`state` returned."""


def states_of(callbacks: Iterable[Callback]) -> dict[str, Any]:
    """Return the states of callbacks that have one, by name, for a checkpoint."""
    states = {name: callback.state() for name, callback in _by_name(callbacks).items()}
    return {name: state for name, state in states.items() if state is not None}


def restore_callbacks(
    callbacks: Iterable[Callback], states: Mapping[str, Any], folder: str
) -> None:
    """Restore what `states_of` returned.

    Raises:
        GradlabError: a callback with a state is missing; ``folder`` is that of the checkpoint.
    """
    callbacks_by_name = _by_name(callbacks)
    for name, state in states.items():
        if name not in callbacks_by_name:
            raise GradlabError(f"{folder} was written with the callback {name}; pass it again")
        callbacks_by_name[name].restore(state)


def _by_name(callbacks: Iterable[Callback]) -> dict[str, Callback]:
    """Return callbacks by class name, numbered from the second of a class on."""
    callbacks_by_name: dict[str, Callback] = {}
    counts: dict[str, int] = {}
    for callback in callbacks:
        name = type(callback).__name__
        counts[name] = counts.get(name, 0) + 1
        callbacks_by_name[f"{name} {counts[name]}" if counts[name] > 1 else name] = callback
    return callbacks_by_name
