"""`gradlab.watch`: record a trainer of transformers or sentence-transformers, or your own loop."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from torch import nn

from gradlab.errors import GradlabError
from gradlab.losses.registry import get_loss
from gradlab.monitor.captured_views import Views, is_trainer
from gradlab.monitor.library_versions import require
from gradlab.monitor.watch import LoopWatch
from gradlab.monitor.watched_loss import WatchedLoss, WatchedModule
from gradlab.settings import names_arguments

__all__ = ["is_trainer", "watch"]


@names_arguments
def watch(
    target: Any = None,
    *,
    views: Views = None,
    loss: Any = None,
    every: int | None = None,
    output: str | Path | None = None,
    total_steps: int | None = None,
    evaluate_first: bool = True,
    model_card: bool = False,
) -> Any:
    """Watch a training run: record dissipation, hardest share, ratio and shape of the embeddings.

    Watching never changes gradients, the loss, random numbers or the saved model.

    Args:
        target: what to watch. A ``SentenceTransformerTrainer`` needs nothing else; a Hugging Face
            ``Trainer`` needs ``views``. For your own loop, pass its loss
            ``loss(anchors, positives[, extra_negatives])`` or the name of a gradlab loss, and call
            the returned object in its place, or pass None and call ``observe`` once per step.
        views: where the two views are. For a ``Trainer``: names of two (with extra negatives,
            three) fields of the model's output; the name of one field if the model is called once
            per view or returns (N, 2, D); the framework that the model is of, ``"tevatron"`` or
            ``"flagembedding"``; or a function of the model's outputs, one argument per call. For a
            loss: a function of its arguments. Functions return
            (anchors, positives[, extra_negatives]), each (N, D).
        loss: the loss that is trained, if the target does not tell: a gradlab loss, its name, such
            as ``"infonce(temperature=0.05)"``, or a pure function of the two views.
        every: steps between records; None is 25, or a twentieth of a run shorter than 500 steps.
        output: folder to record in; None: ``gradlab`` in a trainer's folder, or ``gradlab-watch``.
        total_steps: planned length of your own loop, in steps.
        evaluate_first: let a trainer that has an evaluator and evaluates during training also
            evaluate before it (``eval_on_start``), as no score is judged without that; training
            itself stays the same to the last bit.
        model_card: put verdicts, curves and settings into the model card that sentence-transformers
            writes when the trained model is saved.

    Returns:
        a `Watch`; for a loop of your own a `LoopWatch`, or for its loss a `WatchedLoss`.

    Raises:
        GradlabError: a target that is watched already or cannot be, or needs ``views``; an unknown
            name of a loss; or libraries that are too old.

    Example:
        >>> import torch, gradlab
        >>> criterion = gradlab.watch(gradlab.blockwise("infonce"), output="run")  # doctest: +SKIP
        >>> value = criterion(anchors, positives, normalize=True)  # doctest: +SKIP
    """
    if target is None and loss is None and output is None:
        raise GradlabError(
            "watch needs a Trainer; the loss of your own loop, to be called in its place; or "
            "loss='infonce', say, for batches that you pass to observe"
        )
    if is_trainer(target):
        require("transformers", "accelerate")
        from gradlab.monitor.watch_callback import WatchCallback

        callback = WatchCallback(
            views=views,
            loss=loss,
            every=every,
            output=output,
            evaluate_first=evaluate_first,
            model_card=model_card,
        )
        return callback.attach(target)
    if model_card:
        raise GradlabError("model_card=True belongs to a trainer of sentence-transformers")
    return _watch_loop(target, views, loss, every=every, output=output, total_steps=total_steps)


def _watch_loop(target: Any, views: Views, loss: Any, *, output: Any, **intervals: Any) -> Any:
    """Watch a loop of your own: return the observer, or the loss ``target`` to call in its place.

    Args:
        target, views, loss, output: as for `watch`.
        **intervals: ``every`` and ``total_steps`` of `watch`.

    Raises:
        GradlabError: names of views, or a target that is no loss or is watched already.
    """
    if views is not None and not callable(views):
        raise GradlabError(
            "names of views belong to a Trainer; for a loss give a function of its arguments"
        )
    if isinstance(target, str):
        target = get_loss(target)
    if target is not None and not callable(target):
        raise GradlabError(
            "watch takes a Trainer or a loss, loss(anchors, positives), not "
            f"{type(target).__name__}"
        )
    if isinstance(target, WatchedLoss):
        raise GradlabError("this loss is already watched")
    watched = LoopWatch(
        target if loss is None else loss,
        output="gradlab-watch" if output is None else output,
        named=loss is not None,
        **intervals,
    )
    if target is None:
        return watched
    return (WatchedModule if isinstance(target, nn.Module) else WatchedLoss)(target, watched, views)
