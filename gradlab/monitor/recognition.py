"""Which gradlab loss somebody's loss object is, so that its components are known in closed form."""

from __future__ import annotations

from typing import Any

from gradlab.losses.base import Loss
from gradlab.losses.registry import get_loss

# InfoNCE under other names; the second computes the same in pieces.
RANKING_LOSSES = {"MultipleNegativesRankingLoss", "CachedMultipleNegativesRankingLoss"}


def recognise(loss: Any) -> Loss | None:
    """The gradlab loss that ``loss`` computes, or None.

    Known are gradlab's own (by name, as objects, blockwise, or as losses of sentence-transformers) and
    sentence-transformers' ``MultipleNegativesRankingLoss``, plain or cached, with cosines and its default direction: that
    is InfoNCE at ``temperature = 1/scale``.

    Raises:
        GradlabError: a name that is not registered.
    """
    if isinstance(loss, str | Loss):
        return get_loss(loss)
    for attribute in ("definition", "loss"):  # EmbeddingLoss; BlockwiseLoss
        held = getattr(loss, attribute, None)
        if isinstance(held, Loss):
            return held
    kind = type(loss)
    if kind.__name__ in RANKING_LOSSES and kind.__module__.startswith("sentence_transformers."):
        return _ranking(loss)
    return None


def _ranking(loss: Any) -> Loss | None:
    plain = (
        getattr(loss.similarity_fct, "__name__", "") == "cos_sim"
        and tuple(getattr(loss, "directions", ("query_to_doc",))) == ("query_to_doc",)
        and (getattr(loss, "hardness_mode", None) is None or not loss.hardness_strength)
    )
    return get_loss("infonce", temperature=1 / loss.scale) if plain else None
