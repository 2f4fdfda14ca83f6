"""Calling conventions: a function, a gradlab loss, or a loss object of another library, as a loss of two views."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Iterable
from typing import Any

from gradlab.decomposition import from_metric_learning, from_sentence_transformers
from gradlab.errors import GradlabError, first_line
from gradlab.losses.base import Loss
from gradlab.losses.registry import get_loss

TwoViewLoss = Callable[..., Any]


def two_views(loss: Any) -> tuple[TwoViewLoss, str]:
    """``loss`` as a function of (anchors, positives[, extra_negatives]), and its name.

    - A callable is taken as it is.
    - A gradlab loss, or the name of one, is summed over the anchors.
    - A loss of **sentence-transformers** is called on embeddings, its model is not used. Losses of columns get
      [anchors, positives] and the extra negatives as further columns of N rows; ``TripletLoss`` without extra negatives
      gets each anchor's hardest other positive (largest cosine) as its third column. Losses of labelled pairs
      (``ContrastiveLoss``, ``CoSENTLoss`` ...) get all N x N pairs, labelled 1 for a sentence's own two views and else 0.
      Losses of labelled sentences (``BatchHardTripletLoss`` ...) get both views stacked, labelled by sentence.
    - A loss of **pytorch-metric-learning** gets anchors labelled 0 ... N-1 and the positives as ``ref_emb`` with the same
      labels (extra negatives: further reference rows with labels of their own); losses that take no ``ref_emb`` get
      both views stacked. ``SelfSupervisedLoss`` is called as it is.

    Neither library is imported unless the object comes from it.

    Raises:
        GradlabError: not callable, or a loss object that is not a loss of two views (it needs a teacher's scores,
            the model's layers, class weights or a memory).
    """
    if isinstance(loss, str):
        loss = get_loss(loss)
    if isinstance(loss, Loss):
        return functools.partial(loss, reduction="sum"), str(loss)
    library = _library(loss)
    name = name_of(loss)
    if library == "sentence_transformers" or hasattr(loss, "compute_loss_from_embeddings"):
        return from_sentence_transformers.adapt(loss, name), name
    if library == "pytorch_metric_learning":
        return from_metric_learning.adapt(loss, name), name
    if not callable(loss):
        raise GradlabError(
            f"loss_fn must be callable, loss_fn(anchors, positives), not {type(loss).__name__}"
        )
    return loss, name


def apart(loss: Any, encoders: Iterable[Any] = ()) -> Any:
    """A loss as it is now, to be called at will: what it keeps, such as a queue, stays the caller's own.

    Args:
        loss: a function, which is taken as it is, or a torch module, of which this is a copy in float64 on the CPU.
        encoders: modules within it that are neither to be copied nor touched.

    Raises:
        GradlabError: it cannot be copied.
    """
    from torch import nn

    if not isinstance(loss, nn.Module):
        return loss
    try:
        return copy.deepcopy(loss, {id(encoder): None for encoder in encoders}).double().cpu()
    except Exception as error:
        raise GradlabError(f"it cannot be copied ({first_line(error)})") from error


def gathers(loss: Any) -> bool:
    """Whether a loss, or one that it holds, takes sentences of other processes, as those of sentence-transformers can."""
    parts = loss.modules() if hasattr(loss, "modules") else [loss]
    return any(getattr(part, "gather_across_devices", False) for part in parts)


def held_parameters(loss: Any, dimension: int) -> str:
    """`` (it holds ...)`` for the tensors of a module that have the embeddings' dimension, or an empty string."""
    named = getattr(loss, "named_parameters", None)
    if named is None:
        return ""
    found = [
        f"{name} of shape {tuple(p.shape)}" for name, p in named() if dimension in p.shape and p.ndim > 1
    ]
    return f" (it holds parameters of the embeddings' size: {', '.join(found[:3])})" if found else ""


def _library(loss: Any) -> str:
    """Top-level package of the first base class that comes from a library known here, or an empty string."""
    known = ("sentence_transformers", "pytorch_metric_learning")
    for base in type(loss).__mro__:
        package = base.__module__.split(".")[0]
        if package in known:
            return package
    return ""


def name_of(loss: Any) -> str:
    """What to call a loss, of any library."""
    return getattr(loss, "__name__", None) or type(loss).__name__
