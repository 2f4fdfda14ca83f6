"""The negatives of a batch, kind by kind: pools of vectors without the pairs that rules leave out, and hardness."""

from __future__ import annotations

from array_api_compat import array_namespace

from gradlab.arrays import Array, Bool, Float, Int, Shaped, detach
from gradlab.errors import GradlabError
from gradlab.geometry.embeddings import POOLS, Block, Embeddings
from gradlab.geometry.similarity import Negatives, PairSimilarity, gaps_of


def blocks_of(views: Embeddings) -> list[Block]:
    """The columns of the negatives of some views, kind by kind.

    Raises:
        GradlabError: there are none.
    """
    anchors, positives, extra = views.anchors, views.positives, views.extra_negatives
    pools = views.candidates.pools
    compared = {
        "other": (anchors, positives),
        "same": (anchors, anchors),
        "positive_other": (positives, anchors),
        "positive_same": (positives, positives),
    }
    kinds = [(name, *compared[name]) for name in POOLS if name in pools and views.in_batch_negatives]
    if extra is not None and ("other" in pools or "same" in pools):
        kinds.append(("extra", anchors, extra))
    if extra is not None and "positive_same" in pools and views.candidates.extra_for_positives:
        kinds.append(("positive_extra", positives, extra))
    if not kinds:
        raise GradlabError(f"the pool {'+'.join(pools)} has no negatives without those of the batch")
    found, start = [], 0
    for name, rows, vectors in kinds:
        columns = slice(start, start + vectors.shape[0])
        own = name in POOLS and not (name == "positive_other" and views.candidates.repeated)
        found.append(Block(name, rows, vectors, columns, own))
        start = columns.stop
    return found


def pooled(views: Embeddings) -> Negatives:
    """The negatives of each anchor, (n, k); -inf where a column is none.

    Raises:
        GradlabError: there are none, or a rule that must leave each anchor some leaves one without.
    """
    blocks = blocks_of(views)
    xp = array_namespace(views.anchors)
    cosines = [_without_own(block, views) for block in blocks]
    for rule in sorted(views.candidates.rules, key=lambda rule: not rule.must_leave_negatives):
        for at, block in enumerate(blocks):
            out = rule.left_out(block, detach(cosines[at]), views)
            if out is not None:
                out = xp.asarray(out, device=block.rows.device)  # a rule may answer in numpy
                if views.candidates.repeated and block.name == "positive_other":
                    out = out & ~_eye(out)
                cosines[at] = xp.where(out, -xp.inf, cosines[at])
        if rule.must_leave_negatives:
            _check_some_are_left(cosines)
    cosine = cosines[0] if len(cosines) == 1 else xp.concat(cosines, axis=-1)
    vectors = blocks[0].vectors if len(blocks) == 1 else xp.concat([b.vectors for b in blocks], axis=0)
    of_positives = [block.columns for block in blocks if block.name.startswith("positive")]

    def measure(index: Int[Array, "n"]) -> PairSimilarity:
        rows = views.anchors
        for columns in of_positives:
            inside = (index >= columns.start) & (index < columns.stop)
            rows = xp.where(inside[:, None], views.positives, rows)
        return views.pair(rows, vectors[index])

    def gaps() -> Float[Array, "n k"]:
        parts = [gaps_of(b.rows, b.vectors, one) for b, one in zip(blocks, cosines, strict=True)]
        return parts[0] if len(parts) == 1 else xp.concat(parts, axis=-1)

    return Negatives(cosine, measure, gaps=gaps)


def hardened(negatives: Negatives, views: Embeddings, temperature: float) -> Negatives:
    """Cosines whose logits at a temperature have the hardness added, (n, k); it has no derivative.

    Raises:
        GradlabError: hardness of hard negatives of which nobody has said whose they are.
    """
    xp, cosine = array_namespace(negatives.cosine), negatives.cosine
    added = 0.0 * views.anchors[:, :1]
    for one in views.candidates.hardness:
        amount = one.alpha * temperature * detach(negatives.cosine)
        if one.on != "all":
            amount = xp.where(_hard_columns(one.on, views), amount, xp.zeros_like(amount))
        added = added + amount
    return Negatives(xp.where(xp.isinf(cosine), cosine, cosine + added), negatives.measure)


def _hard_columns(on: str, views: Embeddings) -> Bool[Array, "n k"]:
    """Whether hardness acts on a pair."""
    xp, parts = array_namespace(views.anchors), []
    n = views.anchors.shape[0]
    for block in blocks_of(views):
        size = block.vectors.shape[0]
        chosen = on != "hard" if block.name == "other" else on == "other" and block.name == "extra"
        part = xp.full((n, size), chosen, dtype=xp.bool, device=views.anchors.device)
        if block.name == "extra" and on in ("in_batch", "hard"):
            own = views.owned
            part = own if on == "hard" else ~own
        parts.append(part)
    return parts[0] if len(parts) == 1 else xp.concat(parts, axis=-1)


def _without_own(block: Block, views: Embeddings) -> Float[Array, "n k"]:
    xp = array_namespace(block.rows)
    cosine = views.products(block.rows, block.vectors)
    if block.own:
        return xp.where(_eye(cosine), -xp.inf, cosine)
    if block.name == "positive_extra" and views.owners is not None:
        return xp.where(views.owned, -xp.inf, cosine)
    return cosine


def _eye(square: Shaped[Array, "n n"]) -> Bool[Array, "n n"]:
    xp = array_namespace(square)
    index = xp.arange(square.shape[0], device=square.device)
    return index[:, None] == index


def _check_some_are_left(cosines: list[Float[Array, "n _"]]) -> None:
    xp = array_namespace(cosines[0])
    left = xp.zeros_like(cosines[0][:, 0], dtype=xp.bool)
    for cosine in cosines:
        left = left | xp.any(~xp.isinf(cosine), axis=-1)
    if not bool(xp.all(left)):
        alone = int(xp.argmax(xp.astype(~left, cosines[0].dtype)))
        raise GradlabError(f"the mask leaves anchor {alone} no negative; leave it at least one")
