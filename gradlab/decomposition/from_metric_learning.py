"""Losses of pytorch-metric-learning, called with the other view as reference embeddings."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from gradlab.arrays import Float
from gradlab.errors import GradlabError


def adapt(loss: Any, name: str) -> Callable[..., Any]:
    """The loss as a function of (anchors, positives[, extra_negatives]); see `two_views` for the conventions.

    Raises:
        GradlabError: it is not a loss of two views of embeddings.
    """
    bases = {base.__name__ for base in type(loss).__mro__}
    if "SelfSupervisedLoss" in bases:
        whole: Callable[..., Any] = loss
        return whole
    if "BaseMetricLossFunction" not in bases:
        raise GradlabError(
            f"{name} of pytorch-metric-learning is not a plain loss of embeddings; decompose the loss inside it, "
            "or wrap it in loss_fn(anchors, positives)"
        )
    weights = [f"{label} of shape {tuple(p.shape)}" for label, p in loss.named_parameters() if p.ndim > 1]
    if weights:
        raise GradlabError(
            f"{name} compares embeddings with parameters of their size ({', '.join(weights)}), not with each other; "
            "decompose takes losses of two views"
        )
    if "VICRegLoss" in bases:
        return lambda anchors, positives: loss(anchors, ref_emb=positives)

    def labelled(
        anchors: Float[Tensor, "n d"],
        positives: Float[Tensor, "n d"],
        extra_negatives: Float[Tensor, "m d"] | None = None,
    ) -> Any:
        labels = torch.arange(len(anchors), device=anchors.device)
        if extra_negatives is None:
            try:
                return loss(anchors, labels, ref_emb=positives, ref_labels=labels.clone())
            except ValueError as error:
                if "ref_emb is not supported" not in str(error):
                    raise
            return loss(torch.cat([anchors, positives]), labels.repeat(2))
        reference = torch.cat([positives, extra_negatives])
        return loss(
            anchors, labels, ref_emb=reference, ref_labels=torch.arange(len(reference), device=anchors.device)
        )

    return labelled
