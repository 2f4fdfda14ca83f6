"""Hardness: terms that a loss adds to the logits of some negatives."""

from __future__ import annotations

from array_api_compat import array_namespace

from gradlab.arrays import Array, Bool, detach
from gradlab.batch.batch import Batch
from gradlab.batch.comparison import joined
from gradlab.batch.similarity import AllCosines, Negatives


def hardened(batch: Batch, negatives: Negatives, temperature: float) -> Negatives:
    """Return ``negatives`` with the hardness of `candidates`, detached, added to ``cos θ / τ``.

    Raises:
        GradlabError: the hardness concerns hard negatives, but `owners` is None.
    """
    xp, cosine = array_namespace(negatives.cosine), negatives.cosine
    added = 0.0 * batch.anchors[:, :1]
    for term in batch.candidates.hardness:
        amount = term.alpha * temperature * detach(cosine)
        if term.on != "all":
            amount = xp.where(_hard_columns(batch, term.on), amount, xp.zeros_like(amount))
        added = added + amount
    hardened = xp.where(xp.isinf(cosine), cosine, cosine + added)
    return AllCosines(hardened, negatives.measure)


def _hard_columns(batch: Batch, on: str) -> Bool[Array, "n k"]:
    xp, n = array_namespace(batch.anchors), batch.anchors.shape[0]
    acts = {"other": ("other", "in_batch"), "extra": ("other",), "own": ("other", "hard")}
    conditions = []
    for block in batch.candidate_blocks:
        if block.name == "extra" and on in ("in_batch", "hard"):
            conditions.append(batch.owned if on == "hard" else ~batch.owned)
            continue
        shape, chosen = (n, block.vectors.shape[-2]), on in acts.get(block.name, ())
        conditions.append(xp.full(shape, chosen, dtype=xp.bool, device=batch.anchors.device))
    return joined(conditions, axis=-1)
