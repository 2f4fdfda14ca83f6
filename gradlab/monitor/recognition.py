"""Which gradlab loss somebody's loss object is, so that its components are known in closed form."""

from __future__ import annotations

from typing import Any

from gradlab.losses.base import Loss
from gradlab.losses.registry import get_loss

# Losses of sentence-transformers; those called cached compute the same in pieces, and the symmetric ones are the
# ranking loss with other defaults.
RANKING_LOSSES = {
    "MultipleNegativesRankingLoss",
    "CachedMultipleNegativesRankingLoss",
    "MultipleNegativesSymmetricRankingLoss",
    "CachedMultipleNegativesSymmetricRankingLoss",
}
GUIDED_LOSSES = {"GISTEmbedLoss", "CachedGISTEmbedLoss"}
POOLS = {
    "query_to_doc": "other",
    "query_to_query": "same",
    "doc_to_query": "positive_other",
    "doc_to_doc": "positive_same",
}
HARDNESS = {"in_batch_negatives": "in_batch", "hard_negatives": "hard", "all_negatives": "other"}


def recognise(loss: Any) -> Loss | None:
    """The gradlab loss that ``loss`` computes, or None.

    Known are gradlab's own (by name, as objects, blockwise, or as losses of sentence-transformers) and
    sentence-transformers' ``MultipleNegativesRankingLoss`` with cosines, in all of its directions, partition and
    hardness modes, its symmetric and cached forms, and ``GISTEmbedLoss``, plain and cached: InfoNCE, and
    combinators of it, at ``temperature = 1/scale``. Hard negatives belong to their row: the components ask for
    ``owners`` of the extra negatives, those of a guided loss for the guide's embeddings.

    Raises:
        GradlabError: a name that is not registered.
    """
    if isinstance(loss, str | Loss):
        known = get_loss(loss)
        return known if known.closed_form else None
    for attribute in ("definition", "loss"):  # EmbeddingLoss; BlockwiseLoss
        held = getattr(loss, attribute, None)
        if isinstance(held, Loss):
            return held
    kind = type(loss)
    if not kind.__module__.startswith("sentence_transformers."):
        return None
    if kind.__name__ in RANKING_LOSSES:
        return _ranking(loss)
    return _guided(loss) if kind.__name__ in GUIDED_LOSSES else None


def _ranking(loss: Any) -> Loss | None:
    directions = getattr(loss, "directions", None)
    if directions is None:  # older versions
        directions = ("query_to_doc",) if "Symmetric" not in type(loss).__name__ else ()
    if getattr(loss.similarity_fct, "__name__", "") != "cos_sim" or not set(directions) <= set(POOLS):
        return None
    plain = hardened = get_loss("infonce", temperature=1 / loss.scale)
    mode = getattr(loss, "hardness_mode", None)
    if mode is not None and loss.hardness_strength:
        if mode not in HARDNESS:
            return None
        hardened = get_loss("hardness", loss=plain, alpha=float(loss.hardness_strength), on=HARDNESS[mode])
    chosen = set(directions)
    if chosen == {"query_to_doc"}:
        return hardened
    if getattr(loss, "partition_mode", "joint") == "per_direction":
        if chosen != {"query_to_doc", "doc_to_query"}:
            return None
        # Nothing is added to the logits of the other direction.
        return get_loss("symmetric", loss=hardened, reverse="" if hardened is plain else plain)
    if "query_to_doc" not in chosen:
        return None
    return get_loss(
        "pool",
        loss=hardened,
        negatives="+".join(pool for direction, pool in POOLS.items() if direction in chosen),
        positive="twice" if "doc_to_query" in chosen else "once",
    )


def _guided(loss: Any) -> Loss | None:
    if type(loss.similarity_fct).__name__ != "CosineSimilarity":
        return None
    pools = ["other"]
    pools += ["same"] if getattr(loss, "contrast_anchors", True) else []
    pools += ["positive_same"] if getattr(loss, "contrast_positives", True) else []
    inner = get_loss("infonce", temperature=loss.temperature)
    if len(pools) > 1:
        inner = get_loss("pool", loss=inner, negatives="+".join(pools), extra_negatives="anchors")
    margin = float(getattr(loss, "margin", 0.0))
    kind = getattr(loss, "margin_strategy", "absolute")
    return get_loss("mask", loss=inner, by="guide", margin=margin, margin_kind=kind)
