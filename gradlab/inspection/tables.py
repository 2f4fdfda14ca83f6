"""Tables of an inspection: candidates, pairs, sentences, hard negatives, neighbours."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from gradlab.inspection.candidate_pairs import KINDS, SIDES, CandidatePairs
from gradlab.inspection.gradient_share import PushTotals
from gradlab.inspection.texts import Texts

# Names of the tables; empty tables are not written.
TABLES = ("candidates", "pairs", "sentences", "hard-negatives", "neighbours")
# Verdicts on a hard negative.
VERDICTS = FALSE, NEARER, MATTERS, EASY = (
    "looks like a positive",
    "nearer than the positive",
    "matters",
    "too easy",
)
_NEIGHBOURS = 1000


@dataclass(frozen=True)
class Sample:
    """Rows that were drawn from a corpus to be inspected.

    Attributes:
        rows: (n,) numbers of the rows, ascending.
        corpus: number N of rows in the corpus.
    """

    rows: NDArray[np.int64]
    corpus: int

    @property
    def pairs(self) -> float:
        """Share of all pairs of rows that are in the sample, ``n(n-1)/(N(N-1))``."""
        count = len(self.rows)
        return count * (count - 1) / (self.corpus * (self.corpus - 1))


@dataclass(frozen=True, eq=False)
class CorpusTables:
    """Tables of an inspected corpus; the attributes are those of `Inspection`."""

    texts: Texts | None
    totals: PushTotals
    candidates: CandidatePairs
    columns: tuple[str, ...]
    sample: Sample | None

    def table(self, name: str) -> pd.DataFrame:
        """Return a table of `TABLES`, with the most important rows first."""
        table: pd.DataFrame = getattr(self, "_" + name.replace("-", "_"))()
        return table

    def text(self, number: int) -> str:
        """Return the text of a number; its row if texts are unknown."""
        if self.texts is None:
            return f"row {self._rows(number % self.totals.count)}"
        return self.texts[number]

    @functools.cached_property
    def judged_hard_negatives(self) -> pd.DataFrame:
        """Hard negatives by falling share: met in a batch, once each, or false by their words.

        One looks like a positive if its words say so (without texts, its embedding). One that is
        only nearer than the positive is either false or still to be learned. Any other matters if
        its anchor pushes it more than the average negative, and is too easy if not.
        """
        if not self.totals.hard:
            return pd.DataFrame()
        meetings = pd.concat(self.totals.hard).drop_duplicates(["row", "column"])
        false = pd.DataFrame(self.candidates.false_negatives - [0, 1], columns=["row", "column"])
        table = meetings.merge(false.assign(false=True), "outer", ["row", "column"])
        table["false"] = table["false"].notna()
        cases = [
            table["false"],
            table["cosine"] >= table["positive_cosine"],
            table["times_average"] > 1,
        ]
        table["verdict"] = np.select(cases, VERDICTS[:3], EASY)
        order = {"share": False, "column": True, "row": True}
        return table.sort_values([*order], ascending=[*order.values()], ignore_index=True)

    def _rows(self, rows: Any) -> Any:
        """Return the numbers in the corpus of rows that were inspected."""
        return rows if self.sample is None else self.sample.rows[rows]

    def _table_of_pairs(self, pairs: pd.DataFrame, **columns: str) -> pd.DataFrame:
        """Return row, column and text of ``first`` and ``second``, as far as known.

        Other columns of the pairs, given by their new names, follow.
        """
        table: dict[str, Any] = {}
        for side in SIDES:
            column, row = np.divmod(pairs[side].to_numpy(), self.totals.count)
            table[f"{side}_row"] = self._rows(row)
            if len(self.columns) > 1:
                table[f"{side}_column"] = np.array(self.columns)[column]
            if self.texts is not None:
                table[side] = [self.texts[number] for number in pairs[side]]
        return pd.DataFrame(table | {name: pairs[old].to_numpy() for name, old in columns.items()})

    def _candidates(self) -> pd.DataFrame:
        lines = self.candidates.lines
        table = self._table_of_pairs(
            lines, overlap="overlap", cosine="cosine", centred_cosine="centred", row_pairs="rows",
            push_when_met="push", share_when_met="share",
        )  # fmt: skip
        table.insert(0, "kind", np.array(KINDS)[lines["kind"]])
        return table

    def _neighbours(self) -> pd.DataFrame:
        near, candidates = (
            pd.MultiIndex.from_frame(pairs[SIDES])
            for pairs in (self.candidates.near, self.candidates.lines)
        )
        neighbours = self.candidates.near[~near.isin(candidates)].head(_NEIGHBOURS)
        return self._table_of_pairs(neighbours, cosine="cosine", centred_cosine="centred")

    def _pairs(self) -> pd.DataFrame:
        measures = ("push", "share", "cosine", "positive_cosine")
        return self._table_of_pairs(self.totals.strongest, **{name: name for name in measures})

    def _sentences(self) -> pd.DataFrame:
        totals = self.totals
        rows = np.flatnonzero(totals.times_met)
        rows = rows[np.argsort(-totals.mean("pull")[rows], kind="stable")]
        texts = (
            {} if self.texts is None else {"sentence": [self.texts[row] for row in rows.tolist()]}
        )
        return pd.DataFrame(
            {
                "row": self._rows(rows),
                **texts,
                "times_met": totals.times_met[rows].astype(int),
                "gradient_dissipation": totals.mean("dissipation")[rows],
                "pull": totals.mean("pull")[rows],
                "push_given": totals.mean("sent")[rows],
                "push_received": totals.mean("received")[rows],
                "pushers": totals.pushers[rows],
                "closed": totals.mean("closed")[rows],
            }
        )

    def _hard_negatives(self) -> pd.DataFrame:
        negatives = self.judged_hard_negatives
        if negatives.empty:
            return pd.DataFrame({"row": []})
        table = {
            "row": self._rows(negatives["row"].to_numpy()),
            "column": np.array(self.columns[2:])[negatives["column"]],
        }
        if self.texts is not None:
            columns = {"sentence": 0, "positive": 1, "hard_negative": negatives["column"] + 2}
            for name, column in columns.items():
                numbers = negatives["row"] + column * self.totals.count
                table[name] = [self.texts[number] for number in numbers]
        names = ("verdict", "share", "times_average", "cosine", "positive_cosine")
        return pd.DataFrame(table | {name: negatives[name] for name in names})
