"""What was measured of a corpus, and the tables that show it."""

from __future__ import annotations

import functools
import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from gradlab.batch.batch import Batch
from gradlab.errors import GradlabError, nearest
from gradlab.inspection.candidate_pairs import KINDS, CandidatePairs
from gradlab.inspection.gradient_share import PushTotals
from gradlab.inspection.hard_negatives import verdicts
from gradlab.inspection.texts import Texts
from gradlab.losses.base import Loss

if TYPE_CHECKING:
    import pandas as pd

# Name -> what it holds, for people; a table without rows is not written.
TABLES = {
    "candidates": "likely false negatives: pairs of the whole corpus that say the same",
    "pairs": "pairs with the largest push",
    "sentences": "pull, push and gate of each sentence that was met",
    "hard-negatives": "hard negatives: which matter, which are too easy, which look like positives",
    "neighbours": "nearest pairs by embedding that are not candidates",
}
_NEIGHBOURS = 1000
MOST_MASKED = 1_000_000


@dataclass(frozen=True, eq=False)
class Measured:
    """What an inspection measured.

    Attributes:
        loss: the loss.
        texts: the sentences; None where only embeddings were given.
        totals: sums over the batches.
        candidates: likely false negatives.
        meeting: their push when they meet, see `gradlab.inspection.gradient_share.meet`.
        views: of the first batches, in float64.
        repeated: rows whose positive has the words of its anchor.
        batch_size: sentences of a batch.
        seed: of batches and dropout.
    """

    loss: Loss
    texts: Texts | None
    totals: PushTotals
    candidates: CandidatePairs
    meeting: pd.DataFrame
    views: list[Batch]
    repeated: NDArray[np.int64]
    batch_size: int
    seed: int

    @property
    def can_mask(self) -> bool:
        """Whether there are pairs to mask, and few enough to list their rows."""
        return (
            0 < int(self.candidates.lines["rows"].sum()) + len(self.candidates.false_negatives) <= MOST_MASKED
        )

    def table(self, name: str) -> pd.DataFrame:
        """One of the tables, the most important rows first: ``candidates``, ``pairs``, ``sentences``, ``hard-negatives`` or
        ``neighbours``.

        Raises:
            GradlabError: no such table.
        """
        import pandas as pd

        if name not in TABLES:
            raise GradlabError(f"no table {name!r}; there are {', '.join(TABLES)}.{nearest(name, TABLES)}")
        return pd.DataFrame(getattr(self, "_" + name.replace("-", "_"))())

    def text(self, number: int) -> str:
        """The text of a number; its row where texts are unknown."""
        return f"row {number % self.totals.count}" if self.texts is None else self.texts[number]

    def _place(self, numbers: NDArray[np.int64], side: str) -> dict[str, Any]:
        """Columns that say which texts these are."""
        count = self.totals.count
        names = ["sentence"] if self.texts is None else list(self.texts.columns)
        columns = {f"{side}_row": numbers % count}
        if len(names) > 1:
            columns[f"{side}_column"] = np.array(names)[numbers // count]
        if self.texts is not None:
            columns[side] = np.array([self.texts[int(number)] for number in numbers], dtype=object)
        return columns

    def _candidates(self) -> dict[str, Any]:
        lines = self.candidates.lines
        met = self.meeting.reindex(range(len(lines)))
        return {
            "kind": np.array(KINDS)[lines["kind"]],
            **self._place(lines["first"].to_numpy(), "first"),
            **self._place(lines["second"].to_numpy(), "second"),
            "overlap": lines["overlap"],
            "cosine": lines["cosine"],
            "centred_cosine": lines["centred"],
            "row_pairs": lines["rows"],
            "push_when_met": met["push"],
            "share_when_met": met["share"],
        }

    def _neighbours(self) -> dict[str, Any]:
        near = self.candidates.near
        known = set(map(frozenset, self.candidates.lines[["first", "second"]].to_numpy().tolist()))
        others = (place for place, pair in enumerate(near.pairs.tolist()) if frozenset(pair) not in known)
        kept = np.array([*itertools.islice(others, _NEIGHBOURS)], dtype=np.int64)
        return {
            **self._place(near.pairs[kept, 0], "first"),
            **self._place(near.pairs[kept, 1], "second"),
            "cosine": near.cosine[kept],
            "centred_cosine": near.centred[kept],
        }

    def _pairs(self) -> dict[str, Any]:
        top = self.totals.strongest(1000)
        known = ("push", "share", "cosine", "positive_cosine")
        return {
            **self._place(top["first"].to_numpy(), "first"),
            **self._place(top["second"].to_numpy(), "second"),
            **{name: top[name].to_numpy() for name in known},
        }

    def _sentences(self) -> dict[str, Any]:
        totals = self.totals
        rows = np.flatnonzero(totals.seen)
        pull = totals.mean("pull")[rows]
        order = np.argsort(-pull, kind="stable")
        rows = rows[order]
        names = {"pull": "pull", "push_given": "given", "push_received": "received"}
        return {
            "row": rows,
            **({} if self.texts is None else {"sentence": self._place(rows, "x")["x"]}),
            "times_met": totals.seen[rows].astype(int),
            "dissipation": totals.mean("dissipation")[rows],
            **{name: totals.mean(kind)[rows] for name, kind in names.items()},
            "pushers": totals.pushers[rows],
            "closed": totals.mean("closed")[rows],
        }

    @functools.cached_property
    def hard_negatives(self) -> pd.DataFrame:
        """Hard negatives, those with the largest share first: those that were met, each once, and those that are false by their words."""
        import pandas as pd

        if not self.totals.hard:
            return pd.DataFrame()
        met = pd.concat(self.totals.hard).drop_duplicates(["row", "column"])
        false = pd.DataFrame(self.candidates.false_negatives - [0, 1], columns=["row", "column"])
        found = met.merge(false.assign(false=True), "outer", ["row", "column"])
        found["false"] = found["false"].notna()
        found["verdict"] = verdicts(found)
        found = found.sort_values(["column", "row"])
        return found.sort_values("share", ascending=False, kind="stable", ignore_index=True)

    def _hard_negatives(self) -> dict[str, Any]:
        found, words = self.hard_negatives, {}
        if found.empty:
            return {"row": []}
        if self.texts is not None and self.texts.positives is not None:
            numbers = {"sentence": found["row"], "positive": found["row"] + self.totals.count}
            numbers["hard_negative"] = found["row"] + (found["column"] + 2) * self.totals.count
            words = {name: [self.texts[number] for number in column] for name, column in numbers.items()}
            words = {"column": np.array(list(self.texts.negatives))[found["column"]], **words}
        names = ("verdict", "share", "times_average", "cosine", "positive_cosine")
        return {"row": found["row"], **words, **{name: found[name] for name in names}}
