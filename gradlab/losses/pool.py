"""Other pools of negatives."""

from __future__ import annotations

from gradlab.batch.batch import Batch
from gradlab.batch.candidates import BESIDE, POOLS
from gradlab.errors import GradlabError, nearest
from gradlab.losses.base import Loss, PairLoss
from gradlab.losses.combinator import OtherCandidates
from gradlab.losses.components import Components
from gradlab.losses.registry import register
from gradlab.settings import setting


def check_pools(names: tuple[str, ...]) -> None:
    """Raise `GradlabError` unless all names are those of pools."""
    for name in names:
        if name not in (known := (*POOLS, *BESIDE)):
            raise GradlabError(
                f"unknown pool {name!r}; there are: {', '.join(known)}, joined by +.{nearest(name, known)}"
            )


@register("pool")
class Pool(OtherCandidates):
    """A loss with negatives of the views that are named, joined by ``+``:

    - ``other``: an anchor against the other view of other sentences (every loss's own default);
    - ``same``: an anchor against other anchors;
    - ``positive_other``: its positive against other anchors; ``positive_same``: its positive against other positives;
    - ``extra``, ``own``: an anchor against the extra negatives, or its own ones, without those of the batch.

    Extra and own negatives stand with ``other`` and ``same`` without being named; extra ones also, except for the sentence's own
    and unless ``extra_negatives="anchors"``, with ``positive_same``; an anchor left without negatives is treated as by ``mask``. A pair of the
    own view stands in the rows of both sentences, so that it pushes each of them twice. ``denominators="joint"`` puts all
    pools into one denominator, ``"separate"`` is the mean over the pools of a loss with each alone. The positive is in
    it as the loss has it (once in InfoNCE's denominator, not in dcl's); ``positive="twice"`` counts the pair among
    ``positive_other`` again, as sentence-transformers does: then the value of InfoNCE is at least log 2.

    SimCLR's NT-Xent is ``symmetric(pool(infonce, negatives=other+same))``; GTE's improved contrastive loss is
    ``pool(infonce, negatives=other+same+positive_other+positive_same, positive=twice)``; INSTRUCTOR's, whose queries are pushed
    by hard negatives alone, ``symmetric(pool(infonce, negatives=extra), reverse=infonce)``.
    """

    negatives: str = setting(
        "other+same",
        "pools, joined by +: other, same, positive_other, positive_same, extra, own",
        rule="text",
    )
    denominators: str = setting(
        "joint", "one denominator for all pools, or the mean of one each", choices=("joint", "separate")
    )
    positive: str = setting(
        "once", "whether the pair itself counts again among positive_other", choices=("once", "twice")
    )
    extra_negatives: str = setting(
        "all",
        "who has extra negatives: all pools that can, or the anchors alone",
        choices=("all", "anchors"),
    )

    acts_across_views = False
    title = "pool"
    paper = "Chen et al. (2020), Li et al. (2023)"
    formula = "L with negatives of the pools named"
    not_simulated = "a pair of the own view, or of the other direction, pushes in the rows of two sentences, and one anchor's angles tell one"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_pools(self.pools)
        beside = [name for name in self.pools if name in BESIDE]
        if beside and not {"other", "same"}.isdisjoint(self.pools):
            raise GradlabError(
                f"{beside[0]} negatives stand with other and same without being named; name {beside[0]} where neither is"
            )
        if len(set(self.pools)) < len(self.pools):
            raise GradlabError(f"negatives={self.negatives} names a pool twice")
        if self.positive == "twice" and "positive_other" not in self.pools:
            raise GradlabError("positive=twice needs the pool positive_other, where the pair stands again")
        if self.loss.has(Pool):
            raise GradlabError("pool cannot change a loss that already has a pool; name all pools in one")
        fixed = [base.name for base in self.bases if isinstance(base, PairLoss) and base.negatives_are_fixed]
        if fixed:
            raise GradlabError(f"pool takes losses whose negatives move; those of {fixed[0]} are fixed (2r)")

    @property
    def pools(self) -> tuple[str, ...]:
        return tuple(name.strip() for name in self.negatives.split("+"))

    def seen(self, views: Batch) -> Batch:
        return views.with_candidates(
            pools=self.pools,
            repeated=self.positive == "twice",
            extra_for_positives=self.extra_negatives == "all",
        )

    def terms_of(self, batch: Batch) -> list[tuple[float, Loss, Batch]]:
        seen = self.seen(batch)
        if self.denominators == "joint":
            return [(1.0, self.loss, seen)]
        return [(1 / len(self.pools), self.loss, seen.with_candidates(pools=(name,))) for name in self.pools]

    def components_of(self, views: Batch) -> Components:
        return super().components_of(views) if self.denominators == "joint" else self.sides_of(views)[0]

    def sides_of(self, views: Batch) -> tuple[Components, Components]:
        if self.denominators == "joint":
            return super().sides_of(views)
        return self._added(views, self.terms_of(views))
