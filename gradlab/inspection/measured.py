"""What was measured of a corpus, and the tables that show it."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from gradlab.batch.batch import Batch
from gradlab.errors import GradlabError, nearest
from gradlab.inspection.candidate_pairs import KINDS, CandidatePairs
from gradlab.inspection.push import MeetingPush, PushTotals
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
        meeting: their push when they meet.
        views: of the first batches, in float64.
        repeated: rows whose positive has the words of its anchor.
        batch_size: sentences of a batch.
        seed: of batches and dropout.
    """

    loss: Loss
    texts: Texts | None
    totals: PushTotals
    candidates: CandidatePairs
    meeting: MeetingPush
    views: list[Batch]
    repeated: NDArray[np.int64]
    batch_size: int
    seed: int

    @property
    def can_mask(self) -> bool:
        """Whether there are pairs to mask, and few enough to list their rows."""
        return 0 < int(self.candidates.rows.sum()) + len(self.candidates.false_negatives) <= MOST_MASKED

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
        found = self.candidates
        push, share = np.full((2, len(found)), np.nan)
        push[self.meeting.line], share[self.meeting.line] = self.meeting.push, self.meeting.share
        return {
            "kind": np.array(KINDS)[found.kind],
            **self._place(found.first, "first"),
            **self._place(found.second, "second"),
            "overlap": found.overlap,
            "cosine": found.cosine,
            "centred_cosine": found.centred,
            "row_pairs": found.rows,
            "push_when_met": push,
            "share_when_met": share,
        }

    def _neighbours(self) -> dict[str, Any]:
        near = self.candidates.near
        if near is None:
            return {"first_row": [], "second_row": []}
        candidates = self.candidates.first.tolist(), self.candidates.second.tolist()
        known = set(map(frozenset, zip(*candidates, strict=True)))
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
        return {
            **self._place(top[:, 0].astype(np.int64), "first"),
            **self._place(top[:, 1].astype(np.int64), "second"),
            "push": top[:, 2],
            "share": top[:, 3],
            "cosine": top[:, 4],
            "positive_cosine": top[:, 5],
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

    def _hard_negatives(self) -> dict[str, Any]:
        from gradlab.inspection.hard_negatives import verdicts

        if not self.totals.hard:
            return {"row": []}
        false = self.candidates.false_negatives
        hard = np.concatenate(self.totals.hard)
        met, first = np.unique(hard[:, :2].astype(np.int64) @ [1, self.totals.count], return_index=True)
        hard = hard[first]
        unmet = false[~np.isin(false @ [1, self.totals.count] - self.totals.count, met)]
        unknown = np.full((len(unmet), 5), np.nan)
        hard = np.concatenate([hard, np.concatenate([unmet - [0, 1], unknown], axis=1)])
        hard = hard[np.argsort(-hard[:, 2], kind="stable")]
        rows, columns = hard[:, 0].astype(np.int64), hard[:, 1].astype(np.int64)
        numbers = rows + (columns + 2) * self.totals.count
        words = {}
        if self.texts is not None and self.texts.positives is not None:
            words = {
                "column": np.array(list(self.texts.negatives))[columns],
                "sentence": np.array([self.texts[row] for row in rows], dtype=object),
                "positive": np.array([self.texts.positives[row] for row in rows], dtype=object),
                "hard_negative": np.array([self.texts[number] for number in numbers], dtype=object),
            }
        return {
            "row": rows,
            **words,
            "verdict": verdicts(hard, false),
            "share": hard[:, 2],
            "times_average": hard[:, 3],
            "cosine": hard[:, 4],
            "positive_cosine": hard[:, 5],
        }
