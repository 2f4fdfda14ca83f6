"""What a record needs of a loss given as code: a copy of it, its values, its first sentences."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from gradlab.batch.batch import Batch
from gradlab.decomposition import two_views
from gradlab.decomposition.loss_copy import independent_copy
from gradlab.decomposition.own_loss import OwnLoss
from gradlab.decomposition.two_view_losses import gathers, name_of
from gradlab.errors import GradlabError
from gradlab.monitor.formula_trials import Values, values_on_known_batches
from gradlab.scale.processes import several_processes

# Sentences of a decomposition, each of which costs a gradient.
MOST_DECOMPOSED = 256


def copy_of(loss: Any, encoders: Sequence[nn.Module]) -> OwnLoss:
    """Return a copy of a loss given as code, whose calls leave the trained one as it is.

    Raises:
        GradlabError: a call by this process alone would wait for the others for ever.
    """
    if several_processes() and gathers(loss):
        raise GradlabError(
            "it gathers sentences of other processes, which are not asked for them here"
        )
    return OwnLoss(independent_copy(loss, encoders), name_of(loss))


def trial_of(code: OwnLoss, anchors: Tensor, further_columns: int) -> Values:
    """Return the `values_on_known_batches` of a loss that was given ``anchors``, (N, D)."""
    function: Callable[..., Any]
    function = independent_copy(code.original) if further_columns else two_views(code.original)[0]
    length = float(anchors.detach().double().norm(dim=1).mean())
    return values_on_known_batches(function, anchors.shape[1], length, further_columns)


def first_sentences(views: Batch) -> Batch:
    """Return the first `MOST_DECOMPOSED` sentences, each with its row of the hard negatives."""
    if (extra := views.extra_negatives) is not None:  # whole columns of hard negatives
        owners = torch.arange(len(extra), device=extra.device) % views.count
        views = dataclasses.replace(views, owners=owners)
    return views.first(MOST_DECOMPOSED)
