"""Two views of a batch, and what each anchor is compared with beside its positive.

By default that is the other view of the other sentences, and the extra negatives. Combinators such as
`gradlab.losses.pool` change it: they evaluate a loss on the same views with other `Candidates`.
"""

from __future__ import annotations

import abc
import dataclasses
from typing import Protocol

from array_api_compat import array_namespace

from gradlab.arrays import Array, Bool, Float, Int
from gradlab.errors import GradlabError
from gradlab.geometry.similarity import PairSimilarity

# What combinators may ask for beside the embeddings; see `check_views`.
CONTEXT = ("owners", "guide", "mask", "sentences")
# What of two views is compared with what: anchors to the other view (S) and to their own (Q), positives to their other
# view, the anchors (S transposed), and to their own (Q').
POOLS = ("other", "same", "positive_other", "positive_same")


# The first rows, the second ones, and their dot products; of any numbers of rows.
Product = tuple[Float[Array, "_ d"], Float[Array, "_ d"], Float[Array, "_ _"]]


class Rule(Protocol):
    """Says which pairs are left out of the negatives."""

    def left_out(
        self, block: Block, cosine: Float[Array, "n k"], views: Embeddings
    ) -> Bool[Array, "n k"] | None:
        """Whether each pair of a block is left out; None for no pair."""

    @property
    def must_leave_negatives(self) -> bool:
        """Whether leaving an anchor no negative is a mistake."""


@dataclasses.dataclass(frozen=True)
class Block:
    """Columns of the negatives that are of one kind.

    Attributes:
        name: one of `POOLS`, ``"extra"`` (anchors to the extra negatives) or ``"positive_extra"``.
        rows: what is compared: anchors or positives.
        vectors: with what.
        columns: where they stand among the negatives.
        own: whether column i of row i is the sentence itself, which is no negative.
    """

    name: str
    rows: Float[Array, "n d"]
    vectors: Float[Array, "k d"]
    columns: slice
    own: bool


@dataclasses.dataclass(frozen=True)
class HardnessTerm:
    """``α sg(cos θ)`` added to the logits of some negatives.

    Attributes:
        alpha: α.
        on: ``"all"`` of them, those of the ``"other"`` view and the extra negatives, of these the ``"in_batch"`` ones
            (all but the hard negatives of the row's own sentence), or the ``"hard"`` negatives of the row's own sentence.
    """

    alpha: float
    on: str = "all"


@dataclasses.dataclass(frozen=True)
class Candidates:
    """What the negatives of an anchor are.

    Attributes:
        pools: of `POOLS`. Extra negatives join the anchors' pools, and, unless they are the sentence's own, the
            positives' own view.
        extra_for_positives: whether extra negatives stand in ``"positive_same"`` too.
        repeated: whether the pair itself stands among ``"positive_other"`` again.
        rules: which pairs are left out.
        hardness: what is added to the logits.
    """

    pools: tuple[str, ...] = ("other",)
    extra_for_positives: bool = True
    repeated: bool = False
    rules: tuple[Rule, ...] = ()
    hardness: tuple[HardnessTerm, ...] = ()


USUAL = Candidates()


@dataclasses.dataclass(frozen=True)
class Embeddings(abc.ABC):
    """Unit-norm embeddings of n sentences in two views, extra negatives, and what is known of them.

    Attributes:
        anchors: the rows ``h_i``.
        positives: the rows ``h_i'`` of the other view.
        extra_negatives: negatives of every anchor, such as a queue's.
        in_batch_negatives: whether the other sentences of the batch are negatives.
        owners: the row of the sentence whose hard negative each extra negative is, -1 for none.
        guide: embeddings of the same sentences by another model, or None.
        mask: (n, n) or (n, n + m), pairs of sentences that are no negatives of each other, or None.
        sentences: (n,) or (n + m,) whole numbers by which the sentences (and extra negatives) are known outside of the batch, or
            None.
        candidates: what else is a negative, or is none.
        known_products: matrix products that views of the same rows share; None keeps none.

    Owners, guide, mask and sentences are there for combinators that ask for them.
    """

    anchors: Float[Array, "n d"]
    positives: Float[Array, "n d"]
    extra_negatives: Float[Array, "m d"] | None = None
    in_batch_negatives: bool = True
    owners: Int[Array, "m"] | None = None
    guide: Embeddings | None = None
    mask: Bool[Array, "n _"] | None = None
    sentences: Int[Array, "k"] | None = None
    candidates: Candidates = USUAL
    known_products: list[Product] | None = dataclasses.field(default=None, repr=False, compare=False)

    @property
    def owned(self) -> Bool[Array, "n m"]:
        """Whether extra negative k is a hard negative of sentence i.

        Raises:
            GradlabError: nobody has said whose the extra negatives are.
        """
        if self.owners is None:
            raise GradlabError("whose hard negatives the extra negatives are is not known; give their owners")
        rows = array_namespace(self.anchors).arange(self.anchors.shape[0], device=self.anchors.device)
        return rows[:, None] == self.owners

    @abc.abstractmethod
    def pair(self, first: Float[Array, "*#n d"], second: Float[Array, "*#n d"]) -> PairSimilarity:
        """Rows to rows, or all of them to one row."""

    @abc.abstractmethod
    def products(self, first: Float[Array, "n d"], second: Float[Array, "k d"]) -> Float[Array, "n k"]:
        """All dot products of rows."""
