"""The elementary losses of a combinator, and which of them run on all rows at once."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor

from gradlab.batch.batch import Batch
from gradlab.batch.candidates import DEFAULT_CANDIDATES
from gradlab.losses.base import Loss
from gradlab.losses.candidate_loss import CandidateLoss
from gradlab.losses.combinator import Combinator
from gradlab.losses.pair_loss import PairLoss


class Term(NamedTuple):
    """An elementary loss with its weight in the sum, and the batch that it compares."""

    weight: float
    loss: Loss
    batch: Batch


def terms_of(loss: Loss, batch: Batch, weight: float) -> list[Term]:
    """Return the elementary losses of a loss, with the batches that they see."""
    if not isinstance(loss, Combinator):
        return [Term(weight, loss, batch)]
    return [
        term
        for factor, nested, candidates in loss.terms_of(batch)
        for term in terms_of(nested, candidates, weight * factor)
    ]


def needs_all_rows(term: Term, sharing: list[Term], *, only_equal_losses: bool) -> bool:
    """Whether a term runs on all rows at once: a batch loss, or one of two ``sharing`` directions.

    ``only_equal_losses``: whether only equal losses can share their cosines.
    """
    if not isinstance(term.loss, PairLoss | CandidateLoss):
        return True
    anchors, positives = term.batch.anchors, term.batch.positives
    return any(term is direction for direction in sharing) and any(
        anchors is opposite.batch.positives
        and positives is opposite.batch.anchors
        and (not only_equal_losses or term.loss == opposite.loss)
        for opposite in sharing
    )


def is_softmax(term: Term) -> bool:
    """Whether a loss uses only the log-sum-exp of the usual negatives."""
    loss = term.loss
    return (
        is_default_pair(term)
        and isinstance(loss, PairLoss)
        and loss.takes_hardness
        and not isinstance(getattr(loss, "temperature", None), Tensor)
    )


def is_default_pair(term: Term) -> bool:
    """Whether a loss of pairs takes the usual negatives, as both directions of a loss may."""
    return (
        isinstance(term.loss, PairLoss)
        and term.batch.candidates == DEFAULT_CANDIDATES
        and term.batch.in_batch_negatives
        and term.batch.count > 1
    )
