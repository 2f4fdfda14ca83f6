"""A combinator that draws negatives from other pools, such as the anchors' own view."""

from __future__ import annotations

from gradlab.batch.batch import Batch
from gradlab.batch.candidates import BESIDE, POOLS
from gradlab.errors import GradlabError, check_known
from gradlab.losses.base import Loss
from gradlab.losses.combinator import OtherCandidates
from gradlab.losses.registry import register
from gradlab.settings import setting


def check_pools(names: tuple[str, ...]) -> None:
    """Raise `GradlabError` for a name that is not a pool's."""
    for name in names:
        check_known("pool", name, (*POOLS, *BESIDE))


@register("pool")
class Pool(OtherCandidates):
    """Take the negatives of a loss from the named pools, joined by ``+``:

    - ``other``: the anchor against the other view of other sentences (the default of every loss);
    - ``same``: the anchor against other anchors;
    - ``positive_other``, ``positive_same``: its positive against other anchors, or
      against other positives;
    - ``extra``, ``own``: the anchor against extra negatives, or its own ones.

    Extra and own negatives join ``other`` and ``same`` where neither is named; ``other+extra``
    leaves the own ones out, and ``own`` those of the batch, too. Extra negatives also join
    ``positive_same``, except for a sentence's own ones; ``extra_negatives="anchors"`` prevents
    that. Two sentences of the own view meet in both of their rows, so they push each other twice.
    ``denominators="joint"`` puts all pools into one denominator; ``"separate"`` averages one loss
    per pool. The loss decides whether the denominator has the positive (InfoNCE: once, dcl: never).
    ``positive="twice"`` counts it again in ``positive_other``, as in sentence-transformers: InfoNCE
    is then at least log 2. `mask` explains anchors without negatives.

    SimCLR's NT-Xent is ``symmetric(pool(infonce, negatives=other+same))``. GTE's improved
    contrastive loss is
    ``pool(infonce, negatives=other+same+positive_other+positive_same, positive=twice)``.
    INSTRUCTOR's queries are only pushed by hard negatives:
    ``symmetric(pool(infonce, negatives=extra), reverse=infonce)``.
    """

    negatives: str = setting(
        "other+same",
        "pools, joined by +: other, same, positive_other, positive_same, extra, own",
        rule="text",
    )
    denominators: str = setting(
        "joint",
        "one denominator for all pools, or the mean of one each",
        choices=("joint", "separate"),
    )
    positive: str = setting(
        "once",
        "whether the pair itself counts again among positive_other",
        choices=("once", "twice"),
    )
    extra_negatives: str = setting(
        "all",
        "who has extra negatives: all pools that can, or the anchors alone",
        choices=("all", "anchors"),
    )

    title = "pool"
    paper = "Chen et al. (2020), Li et al. (2023)"
    formula = "L with negatives of the pools named"
    not_simulated = (
        "a pair of the own view, or of the other direction, pushes in the rows of two sentences, "
        "and one anchor's angles tell one"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        check_pools(self.pools)
        if len(set(self.pools)) < len(self.pools):
            raise GradlabError(f"negatives={self.negatives} names a pool twice")
        if self.positive == "twice" and "positive_other" not in self.pools:
            raise GradlabError(
                "positive=twice needs the pool positive_other, where the pair stands again"
            )
        if self.loss.has(Pool):
            raise GradlabError(
                "pool cannot change a loss that already has a pool; name all pools in one"
            )
        if fixed := [base.name for base in self.bases if base.moves_positives != "all"]:
            raise GradlabError(
                f"pool takes losses whose negatives move; those of {fixed[0]} are fixed (2r)"
            )

    @property
    def pools(self) -> tuple[str, ...]:
        return tuple(name.strip() for name in self.negatives.split("+"))

    def inner_batch(self, batch: Batch) -> Batch:
        return batch.with_candidates(
            pools=self.pools,
            repeated=self.positive == "twice",
            extra_for_positives=self.extra_negatives == "all",
        )

    def terms_of(self, batch: Batch) -> list[tuple[float, Loss, Batch]]:
        candidates = self.inner_batch(batch)
        if self.denominators == "joint":
            return [(1.0, self.loss, candidates)]
        return [
            (1 / len(self.pools), self.loss, candidates.with_candidates(pools=(name,)))
            for name in self.pools
        ]
