"""`WatchedLoss`: a loss that records its own calls, for a training loop of your own."""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from gradlab.batch.check import CONTEXT
from gradlab.decomposition.two_view_losses import parameters_of
from gradlab.errors import GradlabError
from gradlab.losses.base import Loss
from gradlab.monitor.batch_measurement import Snapshot
from gradlab.monitor.label_signs import LabelSigns, order_of_labels
from gradlab.monitor.label_trials import (
    HAS_LABELS,
    IGNORED,
    TARGETS,
    classes_of,
    label_trials,
    labels_in,
)
from gradlab.monitor.library_losses import classes_in_order
from gradlab.monitor.run_reader import NAME_VIEWS
from gradlab.monitor.watch import LoopWatch, caution
from gradlab.settings.module import LossModule

if TYPE_CHECKING:
    from pandas import DataFrame

# Calls without a gradient, before any with one, that are more than those of an evaluation.
MANY_WITHOUT_GRADIENT = 10


class WatchedLoss:
    """A loss that records its calls; values and attributes are those of the loss.

    Attributes set on it are set on the loss, such as a temperature that follows a schedule.
    """

    loss: Callable[..., Any]  # the loss itself
    watch: LoopWatch  # the watch that records
    _views: Callable[..., Any] | None
    _signs: LabelSigns
    _asks_again: bool  # whether labels had no part in the loss so far

    def __init__(
        self, loss: Callable[..., Any], watch: LoopWatch, views: Callable[..., Any] | None
    ) -> None:
        """For the arguments see `gradlab.watch`."""
        vars(self).update(
            loss=loss, watch=watch, _views=views, _signs=LabelSigns(), _asks_again=False
        )

    def finish(self) -> str:
        """End the recording; return what it cost and found, in a few lines."""
        return self.watch.finish()

    def to_frame(self) -> DataFrame:
        """Return the records so far; see `LoopWatch.to_frame`."""
        return self.watch.to_frame()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the loss; a call whose value requires gradients counts as a step."""
        value = self.loss(*args, **kwargs)
        if isinstance(value, Tensor):
            take_snapshot = functools.partial(self._marked_snapshot, value, args, kwargs)
            if value.requires_grad:
                self.watch.look(take_snapshot)
            elif torch.is_grad_enabled() and not self.watch.has_gradient:
                self._look_without_gradient(take_snapshot)
        return value

    def _look_without_gradient(self, take_snapshot: Callable[[], Snapshot]) -> None:
        """Count a call without a gradient; many before any with one are warned of, and recorded.

        A few are those of an evaluation before training.
        """
        self.watch.calls_without_gradient += 1
        if self.watch.calls_without_gradient == MANY_WITHOUT_GRADIENT:
            caution(
                f"The watched loss was called {MANY_WITHOUT_GRADIENT} times, never with a "
                "gradient, so that nothing is learned: embed with gradient, outside of "
                "torch.no_grad() and model.encode."
            )
        if self.watch.calls_without_gradient >= MANY_WITHOUT_GRADIENT:
            self.watch.look(take_snapshot, has_gradient=False)

    def _marked_snapshot(self, value: Tensor, args: Any, kwargs: Any) -> Snapshot:
        """Return a snapshot that says whether a gradient reaches any argument."""
        rows = [entry for entry in (*args, *kwargs.values()) if isinstance(entry, Tensor)]
        rows = [entry for entry in rows if entry.is_floating_point()]
        detached = bool(rows) and not any(entry.requires_grad for entry in rows)
        snapshot = self._snapshot(value, args, kwargs)
        views = [snapshot.anchors, snapshot.positives, snapshot.extra_negatives]
        sources = [view for view in views if view is not None]
        if not all(any(view is entry for entry in rows) for view in sources):
            sources = rows if len(rows) == 1 else []  # views that are cut from the only argument
        count = len(snapshot.anchors)
        arguments = (*args, *kwargs.values())
        # Views may be cut from the rows of one argument, each of which has a label.
        counts = {count, *(len(entry) for entry in rows if entry.ndim == 2)}
        labels = labels_in(arguments, counts)
        trials = {HAS_LABELS: 1.0} if labels else {}
        # A term of labels may come in later, and weights of classes may all begin with one value.
        if labels and (not self.watch.begun or self._asks_again):
            of_labels = label_trials(self.loss, args, kwargs, count)
            trials |= ({IGNORED: 0.0} if self._asks_again else {}) | of_labels
            vars(self)["_asks_again"] = bool(of_labels.get(IGNORED))
        trials |= {TARGETS: 1.0} if _are_targets(snapshot.extra_negatives, snapshot.anchors) else {}
        classes = classes_of(arguments, snapshot.anchors) if snapshot.positives is None else None
        signs = self._signs.of(classes, labels, sources) | order_of_labels(labels, sources)
        return dataclasses.replace(
            snapshot, detached=detached, sources=sources, label_trials=trials, label_signs=signs
        )

    def _snapshot(self, value: Tensor, args: Any, kwargs: Any) -> Snapshot:
        whole = value if value.ndim == 0 else None
        if self._views is None and isinstance(self.loss, Loss | LossModule):
            call = _CALL.bind(self.loss, *args, **kwargs)
            call.apply_defaults()
            if call.arguments["reduction"] == "sum":
                whole = None  # what is measured is the mean
            names = ("anchors", "positives", "extra_negatives", "in_batch_negatives", "context")
            return Snapshot(**{name: call.arguments[name] for name in names}, value=whole)
        views, context = named_arguments(self.loss, args, kwargs)
        anchors, positives, *extra = (
            self._views(*args, **kwargs) if self._views else _first_tensors(views)
        )
        extra_negatives = context.pop("extra_negatives", extra[0] if extra else None)
        further = 0 if self._views or kwargs else _further_columns(self.loss, args)
        order = None
        if positives is None and (
            (classes := classes_of((*args, *kwargs.values()), anchors)) is not None
        ):
            order = classes_in_order(anchors.detach(), classes)
        return Snapshot(
            anchors, positives, extra_negatives, value=whole, context=context,
            further_columns=further, order=order,
        )  # fmt: skip

    def __repr__(self) -> str:
        return f"{self.loss!r}, watched ({self.watch!r})"

    def _repr_html_(self) -> str:
        return self.watch._repr_html_()

    def _ipython_display_(self) -> None:
        self.watch._ipython_display_()

    def __getattr__(self, name: str) -> Any:
        if name in WatchedLoss.__annotations__:  # not set yet, as during unpickling
            raise AttributeError(name)
        return getattr(self.loss, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self.loss, name, value)

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)


class WatchedModule(WatchedLoss, nn.Module):
    """A watched loss module, for models that contain it and train, move and save its parameters.

    It has no state of its own: parameters, buffers and modules are the loss's, by the same names.
    """


# Signature of a call of a gradlab loss, as a module or not.
_CALL = inspect.signature(Loss.__call__)


def named_arguments(
    loss: Any, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> tuple[list[Any], dict[str, Any]]:
    """Return the arguments of a call without a name of their own, and those of a batch by name.

    These are extra negatives, own negatives and what `CONTEXT` names (labels, a teacher ...).
    """
    names = (*CONTEXT, "extra_negatives", "own_negatives")
    positional = dict(zip(parameters_of(loss), args, strict=False))
    context = {name: positional[name] for name in names if positional.get(name) is not None}
    context |= {name: kwargs[name] for name in names if kwargs.get(name) is not None}
    places = [name for name in positional if name in context]
    views = [value for name, value in positional.items() if name not in places]
    views += args[len(positional) :]
    return [*views, *(value for name, value in kwargs.items() if name not in names)], context


def _are_targets(rows: Tensor | None, anchors: Tensor) -> bool:
    """Return whether a third column is what rows are drawn to, as by a frozen encoder or teacher.

    It has a row for each anchor, and no gradient, which negatives of the batch have.
    """
    if rows is None or rows.shape != anchors.shape:
        return False
    return anchors.requires_grad and not rows.requires_grad


def _first_tensors(arguments: Sequence[Any]) -> list[Any]:
    """Return anchors, positives and further candidates; no positives of a loss of one view.

    The views of one tensor of shape (N, 2, D), as supervised contrast takes it, are its two rows.
    """
    rows = [entry for entry in arguments if isinstance(entry, Tensor) and entry.is_floating_point()]
    tensors = [entry for entry in rows if entry.ndim == 2]
    if len(tensors) >= 2:
        return list(tensors[:3])
    if len(rows) == 1 and rows[0].ndim == 3 and rows[0].shape[1] == 2:
        return list(rows[0].unbind(1))
    if tensors:
        return [tensors[0], None]
    raise GradlabError(
        f"the watched loss was not called with embeddings, (N, D) each; {NAME_VIEWS}, a function "
        "of the loss's arguments that returns (anchors, positives)"
    )


def _further_columns(loss: Any, args: Sequence[Any]) -> int:
    """Return the number of columns behind anchors and positives; 0 if arguments are of other kinds.

    A second parameter that is named after negatives is no column of positives.
    """
    if not all(isinstance(entry, Tensor) and entry.ndim == 2 for entry in args):
        return 0
    names = [name.lower() for name in parameters_of(loss)]
    if len(names) > 1 and (names[1] == "n" or names[1].startswith("neg")):
        return 0
    return len(args) - 2 if len({entry.shape for entry in args}) == 1 else 0
