"""`gradlab.watch`: attach a watch to a trainer or to the loss of a loop of your own."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from torch import Tensor

from gradlab.errors import GradlabError
from gradlab.monitor.snapshot import Snapshot
from gradlab.monitor.watch import LoopWatch
from gradlab.settings import names_arguments


class WatchedLoss:
    """A loss that is watched while it is called; it returns what the loss returns, and passes everything else on.

    Attributes:
        watch: what records.
        loss: the loss itself.
    """

    def __init__(self, loss: Callable[..., Any], watch: LoopWatch, views: Callable[..., Any] | None) -> None:
        """See `gradlab.watch`."""
        self.loss, self.watch, self._views = loss, watch, views

    def finish(self) -> str:
        """End the recording: what it cost and found, in a few lines."""
        return self.watch.finish()

    @property
    def watcher(self) -> LoopWatch:
        """The old name of `watch`."""
        warnings.warn("watcher is now called watch", DeprecationWarning, stacklevel=2)
        return self.watch

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the loss; a call that gradients can flow from is a step."""
        value = self.loss(*args, **kwargs)
        if isinstance(value, Tensor) and value.requires_grad:
            self.watch.look(functools.partial(self._snapshot, value, args, kwargs))
        return value

    def _snapshot(self, value: Tensor, args: Any, kwargs: Any) -> Snapshot:
        views = self._views(*args, **kwargs) if self._views else _first_tensors(*args, **kwargs)
        anchors, positives, *extra = views
        whole = value if value.ndim == 0 else None
        return Snapshot(anchors, positives, extra[0] if extra else None, value=whole)

    def __getattr__(self, name: str) -> Any:
        if name in {"loss", "watch", "_views"}:  # not there yet, as while unpickling
            raise AttributeError(name)
        return getattr(self.loss, name)


def _first_tensors(*args: Any, **kwargs: Any) -> list[Tensor]:
    tensors = [value for value in [*args, *kwargs.values()] if isinstance(value, Tensor) and value.ndim == 2]
    if len(tensors) < 2:
        raise GradlabError(
            "the watched loss was not called with two tensors of embeddings; name them with views=, a function of "
            "the loss's arguments that returns (anchors, positives)"
        )
    return tensors[:3]


@names_arguments()
def watch(
    target: Any = None,
    *,
    views: Callable[..., Any] | Sequence[str] | str | None = None,
    loss: Any = None,
    every: int | None = None,
    output: str | Path | None = None,
    total_steps: int | None = None,
) -> Any:
    """Watch a training run: record dissipation, hardest share, ratio and the shape of the embeddings while it trains.

    Nothing of the training changes: not the gradients, the loss, the random numbers or the saved model.

    Args:
        target: what to watch. A ``SentenceTransformerTrainer``: everything is found by itself. A Hugging Face ``Trainer``:
            give ``views``. A loss ``loss(anchors, positives[, extra_negatives])`` of a loop of your own: call what is
            returned in its place. None: call ``observe`` of what is returned, once a step.
        views: where the two views are. For a ``Trainer``: the names of two (or, with extra negatives, three) fields
            of the model's output; the name of one field, where the model is called once for each view or gives (N, 2, D);
            or a function of the model's outputs, one argument a call. For a loss: a function of its arguments. It
            returns (anchors, positives) or (anchors, positives, extra_negatives), each (N, D).
        loss: the loss that is trained, where the target does not tell: a gradlab loss or its name, such as
            ``"infonce(temperature=0.05)"``, or any function of the two views, which must be pure.
        every: steps between records; None is 25, or a twentieth of a run that is shorter than 500 steps.
        output: folder of the recording; None is ``gradlab`` in the trainer's output folder, or ``gradlab-watch``.
        total_steps: planned length of a loop of your own.

    Returns:
        a `Watch`, of a loop of your own a `LoopWatch`; for a loss, a `WatchedLoss` to be called in its place.

    Raises:
        GradlabError: a target that cannot be watched, is watched already, or needs ``views``.

    Example:
        >>> import torch, gradlab
        >>> criterion = gradlab.watch(gradlab.blockwise("infonce"), output="run")  # doctest: +SKIP
        >>> value = criterion(anchors, positives, normalize=True)  # doctest: +SKIP
    """
    from gradlab.monitor import trainers

    if target is None and loss is None and output is None:
        raise GradlabError(
            "watch needs a Trainer; the loss of your own loop, to be called in its place; or "
            "loss='infonce', say, for batches that you pass to observe"
        )
    if trainers.is_trainer(target):
        return trainers.attach(target, views=views, loss=loss, every=every, output=output)
    if isinstance(views, str) or (views is not None and not callable(views)):
        raise GradlabError("names of views belong to a Trainer; for a loss give a function of its arguments")
    if target is not None and not callable(target):
        raise GradlabError(
            f"watch takes a Trainer or a loss, loss(anchors, positives), not {type(target).__name__}"
        )
    watched = LoopWatch(
        target if loss is None else loss,
        output="gradlab-watch" if output is None else output,
        every=every,
        total_steps=total_steps,
        named=loss is not None,
    )
    return watched if target is None else WatchedLoss(target, watched, views)
