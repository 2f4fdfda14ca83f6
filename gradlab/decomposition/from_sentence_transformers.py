"""Losses of sentence-transformers, called on embeddings instead of sentences."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from gradlab.arrays import Float, Int
from gradlab.errors import GradlabError

View = Float[Tensor, "n d"]
Extra = Float[Tensor, "m d"] | None
# Classes (or base classes) by what their `compute_loss_from_embeddings` expects.
LABELLED_PAIRS = {"ContrastiveLoss", "OnlineContrastiveLoss", "CosineSimilarityLoss", "CoSENTLoss"}
TRIPLETS = {"TripletLoss"}
NEED_A_TEACHER = {"MarginMSELoss", "DistillKLDivLoss", "EmbedDistillLoss"}


def adapt(loss: Any, name: str) -> Callable[..., Any]:
    """The loss as a function of (anchors, positives[, extra_negatives]); see `two_views` for the conventions.

    Raises:
        GradlabError: it is not a loss of two views of embeddings.
    """
    bases = {base.__name__ for base in type(loss).__mro__}
    if bases & NEED_A_TEACHER or hasattr(loss, "guide"):
        raise GradlabError(
            f"{name} needs a teacher besides the two views; wrap it in loss_fn(anchors, positives)"
        )
    if bases & TRIPLETS:
        return lambda *views: loss.compute_loss_from_embeddings(_triplet(*views), None)
    if bases & LABELLED_PAIRS:
        return lambda *views: loss.compute_loss_from_embeddings(*_all_pairs(name, *views))
    if hasattr(loss, "sentence_embedder"):
        return lambda *views: loss.compute_loss_from_embeddings(*_stacked(name, *views))
    if hasattr(loss, "compute_loss_from_embeddings"):
        return lambda *views: _total(loss.compute_loss_from_embeddings(_columns(*views), None))
    if hasattr(loss, "calculate_loss"):
        return lambda *views: loss.calculate_loss([[column] for column in _columns(*views)])
    raise GradlabError(
        f"{name} does not compute its loss from embeddings alone; decompose the loss inside it, "
        "or wrap it in loss_fn(anchors, positives)"
    )


def _total(value: Any) -> Any:
    """Some losses return a dict of terms, which the trainer adds up."""
    return sum(value.values()) if isinstance(value, dict) else value


def _columns(anchors: View, positives: View, extra_negatives: Extra = None) -> list[View]:
    if extra_negatives is None:
        return [anchors, positives]
    n = len(anchors)
    if len(extra_negatives) % n:
        raise GradlabError(
            f"sentence-transformers takes hard negatives in columns of {n} rows, one for each anchor; "
            f"{len(extra_negatives)} extra negatives are not whole columns"
        )
    return [anchors, positives, *torch.split(extra_negatives, n)]


def _triplet(anchors: View, positives: View, extra_negatives: Extra = None) -> list[View]:
    if extra_negatives is not None:
        return _columns(anchors, positives, extra_negatives)
    similarity = anchors.detach() @ positives.T
    similarity.fill_diagonal_(float("-inf"))
    return [anchors, positives, positives[similarity.argmax(dim=1)]]


def _all_pairs(
    name: str, anchors: View, positives: View, extra_negatives: Extra = None
) -> tuple[list[Float[Tensor, "pairs d"]], Float[Tensor, "pairs"]]:
    _no_extra(name, extra_negatives)
    n = len(anchors)
    labels = torch.eye(n, dtype=anchors.dtype, device=anchors.device).flatten()
    return [anchors.repeat_interleave(n, dim=0), positives.repeat(n, 1)], labels


def _stacked(
    name: str, anchors: View, positives: View, extra_negatives: Extra = None
) -> tuple[list[Float[Tensor, "rows d"]], Int[Tensor, "rows"]]:
    _no_extra(name, extra_negatives)
    labels = torch.arange(len(anchors), device=anchors.device).repeat(2)
    return [torch.cat([anchors, positives])], labels


def _no_extra(name: str, extra_negatives: Extra) -> None:
    if extra_negatives is not None:
        raise GradlabError(f"{name} takes no extra negatives; leave them out")
