"""What a candidate is to a row: its role by labels or a relation, and scores by other models."""

from __future__ import annotations

import dataclasses

from array_api_compat import array_namespace

from gradlab.arrays import Array, Bool, Float, Int, Shaped
from gradlab.batch.batch import Batch
from gradlab.batch.candidates import POOLS, Block
from gradlab.batch.comparison import joined, own_pairs
from gradlab.errors import GradlabError


def roles_of(batch: Batch, block: Block) -> Int[Array, "n k"]:
    """Return the role of each pair of a block: 1 if positive, -1 if negative, 0 if neither."""
    xp, supervision = array_namespace(batch.anchors), batch.supervision
    labels, relation = supervision.labels, supervision.relation
    if relation is not None:
        shift = int(not positive_is_inside(batch))
        columns = slice(block.columns.start + shift, block.columns.stop + shift)
        return of_candidates(batch, relation, "relation")[:, columns]
    shape = (batch.anchors.shape[0], block.vectors.shape[-2])
    negative = xp.full(shape, -1, dtype=xp.int64, device=batch.anchors.device)
    if labels is None or block.name not in POOLS:
        return negative
    mates = labels[_rows(batch)][:, None] == labels
    return xp.where(mates, xp.ones_like(negative), negative)


def own_role(batch: Batch) -> Int[Array, "n"]:
    """Return the role of each anchor's own positive: 1, unless a relation says otherwise."""
    xp, relation = array_namespace(batch.anchors), batch.supervision.relation
    if relation is None:
        return xp.ones(batch.anchors.shape[0], dtype=xp.int64, device=batch.anchors.device)
    rows = of_candidates(batch, relation, "relation")
    return xp.linalg.diagonal(rows, offset=batch.start) if positive_is_inside(batch) else rows[:, 0]


@dataclasses.dataclass(frozen=True)
class Labelled:
    """Leaves out candidates that labels or relation exclude, for losses of one positive."""

    must_leave_negatives = False

    def left_out(
        self, block: Block, cosine: Float[Array, "n k"], batch: Batch
    ) -> Bool[Array, "n k"]:
        """Return True for candidates whose role is positive or neither."""
        return roles_of(batch, block) != -1


def teacher_scores(batch: Batch, name: str) -> Float[Array, "n c"]:
    """Return the teacher's scores of all candidates, or else the cosines of its embeddings.

    Raises:
        GradlabError: there is no teacher, or its scores belong to other candidates.
    """
    xp, scores = array_namespace(batch.anchors), batch.supervision.teacher
    if scores is not None:
        return of_candidates(batch, scores, "teacher")
    if batch.teacher is None:
        raise GradlabError(
            f"{name} needs teacher=: scores of the candidates, or a teacher's embeddings of "
            "the batch"
        )
    pairs = [guide_cosines(batch, block, batch.teacher) for block in batch.candidate_blocks]
    positive, cosines = pairs[0][1][:, None], joined([cosine for cosine, _ in pairs], axis=-1)
    if not positive_is_inside(batch):
        return xp.concat([positive, cosines], axis=-1)
    return xp.where(own_pairs(cosines, batch.start), positive, cosines)


def guide_cosines(
    batch: Batch, block: Block, model: Batch | None = None
) -> tuple[Float[Array, "n k"], Float[Array, "n"]]:
    """Return the cosines of a block's pairs and of positives by the guide, or by ``model``."""
    guide = batch.guide if model is None else model
    assert guide is not None
    guide = dataclasses.replace(
        guide, candidates=batch.candidates, in_batch_negatives=batch.in_batch_negatives
    )
    (of_guide,) = (pairs for pairs in guide.candidate_blocks if pairs.name == block.name)
    # The positives come from the same kind of product, so that equal texts get equal cosines.
    if block.name == "own":
        xp = array_namespace(guide.anchors)
        vectors = xp.concat([of_guide.vectors, guide.positives[:, None, :]], axis=1)
        cosines = xp.sum(guide.anchors[:, None, :] * vectors, axis=-1)
        return cosines[:, :-1], cosines[:, -1]
    cosines = guide.comparison.cosines(of_guide.rows, of_guide.vectors)
    positive = guide.comparison.cosines(guide.anchors, guide.whole.positives)
    return cosines, array_namespace(cosines).linalg.diagonal(positive, offset=batch.start)


def of_candidates(batch: Batch, scores: Shaped[Array, "all c"], name: str) -> Shaped[Array, "n c"]:
    """Return this batch's rows of an array that has one column per candidate.

    Raises:
        GradlabError: the loss has other candidates, or another number of them.
    """
    blocks = batch.candidate_blocks
    words = {
        "other": "of the other view",
        "same": "of the own view",
        "extra": "extra negatives",
        "own": "own negatives",
    }
    if not all(block.name in words for block in blocks):
        raise GradlabError(
            f"{name} is of candidates of the anchors; the pool {blocks[-1].name} compares positives"
        )
    count = blocks[-1].columns.stop + (not positive_is_inside(batch))
    if scores.shape[1] != count:
        kinds = [f"{block.vectors.shape[-2]} {words[block.name]}" for block in blocks]
        kinds = kinds if positive_is_inside(batch) else ["its positive", *kinds]
        raise GradlabError(
            f"{name} has shape {tuple(scores.shape)}, but an anchor has {count} candidates: "
            f"{', '.join(kinds)}"
        )
    return scores[_rows(batch)]


def positive_is_inside(batch: Batch) -> bool:
    """Return whether the positive is candidate j = i; otherwise it comes first."""
    return batch.candidate_blocks[0].own is not None


def _rows(batch: Batch) -> slice:
    return slice(batch.start, batch.start + batch.anchors.shape[0])
