"""`Inspection`: tables, numbers, advice, and the files that hold them."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from gradlab.batch.batch import Batch
from gradlab.drawing import Shown
from gradlab.errors import check_known
from gradlab.files import for_json, versions, write_csv, write_json, write_text
from gradlab.inspection.advice import Advice, Place, advise
from gradlab.inspection.candidate_pairs import (
    DUPLICATE,
    KINDS,
    NEAR_DUPLICATE,
    NEIGHBOUR,
    CandidatePairs,
)
from gradlab.inspection.gradient_share import BINS, CLOSED, PushTotals, measure, share_of_candidates
from gradlab.inspection.page import render
from gradlab.inspection.texts import Texts
from gradlab.losses.base import Loss
from gradlab.losses.registry import get_loss
from gradlab.settings import call_text

# Names of the tables; empty tables are not written.
TABLES = ("candidates", "pairs", "sentences", "hard-negatives", "neighbours")
_NEIGHBOURS = 1000
MOST_MASKED = 1_000_000
# Factors of the temperature, and cosines, for which numbers are given.
_FACTORS = (0.5, 1.0, 2.0, 4.0)
_LEVELS = (0.6, 0.7, 0.8, 0.85, 0.9, 0.95, 0.98, 0.99, 0.995, 0.999)
# Verdicts on a hard negative.
VERDICTS = FALSE, NEARER, MATTERS, EASY = (
    "looks like a positive",
    "nearer than the positive",
    "matters",
    "too easy",
)
# A hub is pushed by this share of a batch, and by at least two sentences.
MANY = 0.1


@dataclass(frozen=True, eq=False)
class Inspection(Shown):
    """Which pairs of sentences carry the gradient of a loss; see `gradlab.find_false_negatives`.

    `plot` draws how unevenly sentences are pushed.

    Attributes:
        loss: the loss.
        texts: the sentences; None if only embeddings were given.
        totals: sums over the batches.
        candidates: likely false negatives.
        meeting: push of candidates in a common batch, see `gradlab.inspection.gradient_share.meet`.
        views: the first batches, in float64.
        batch_size: number of sentences in a batch.
        seed: seed of batches and dropout.
        columns: names of text or embedding columns: ``sentence``, ``positive``, hard negatives.
    """

    artist = "gradlab.inspection.picture:draw_inspection"
    loss: Loss
    texts: Texts | None
    totals: PushTotals
    candidates: CandidatePairs
    meeting: pd.DataFrame
    views: list[Batch]
    batch_size: int
    seed: int
    columns: tuple[str, ...]

    @functools.cached_property
    def repeated(self) -> list[int]:
        """Rows whose positive has the words of its anchor."""
        return [] if self.texts is None else self.texts.repeated_positives()

    @property
    def can_mask(self) -> bool:
        """Whether there are pairs to mask, at most `MOST_MASKED`."""
        pairs = int(self.candidates.lines["rows"].sum()) + len(self.candidates.false_negatives)
        return 0 < pairs <= MOST_MASKED

    def table(self, name: str) -> pd.DataFrame:
        """Return a table of `TABLES`, such as ``candidates``, with the most important rows first.

        Raises:
            GradlabError: an unknown name.
        """
        check_known("table", name, TABLES)
        return pd.DataFrame(getattr(self, "_" + name.replace("-", "_"))())

    def text(self, number: int) -> str:
        """Return the text of a number; its row if texts are unknown."""
        return f"row {number % self.totals.count}" if self.texts is None else self.texts[number]

    def _place(self, numbers: pd.Series, side: str) -> dict[str, Any]:
        """Return columns that identify texts: row, column and text, as far as known."""
        column, row = np.divmod(numbers.to_numpy(), self.totals.count)
        columns = {f"{side}_row": row}
        if len(self.columns) > 1:
            columns[f"{side}_column"] = np.array(self.columns)[column]
        if self.texts is not None:
            columns[side] = np.array([self.texts[number] for number in numbers], dtype=object)
        return columns

    def _pair_table(self, pairs: pd.DataFrame, **columns: str) -> dict[str, Any]:
        """Return columns for texts ``first`` and ``second`` of pairs, and others by new name."""
        places = {**self._place(pairs["first"], "first"), **self._place(pairs["second"], "second")}
        return places | {name: pairs[old].to_numpy() for name, old in columns.items()}

    def _candidates(self) -> dict[str, Any]:
        lines = self.candidates.lines
        table = self._pair_table(
            lines.join(self.meeting), overlap="overlap", cosine="cosine", centred_cosine="centred",
            row_pairs="rows", push_when_met="push", share_when_met="share",
        )  # fmt: skip
        return {"kind": np.array(KINDS)[lines["kind"]], **table}

    def _neighbours(self) -> dict[str, Any]:
        near = self.candidates.near
        known = set(map(frozenset, self.candidates.lines[["first", "second"]].to_numpy().tolist()))
        others = (
            place for place, pair in enumerate(near.pairs.tolist()) if frozenset(pair) not in known
        )
        kept = np.array([*itertools.islice(others, _NEIGHBOURS)], dtype=np.int64)
        pairs = pd.DataFrame(near.pairs[kept], columns=["first", "second"])
        pairs = pairs.assign(cosine=near.cosine[kept], centred=near.centred[kept])
        return self._pair_table(pairs, cosine="cosine", centred_cosine="centred")

    def _pairs(self) -> dict[str, Any]:
        known = {name: name for name in ("push", "share", "cosine", "positive_cosine")}
        return self._pair_table(self.totals.strongest(1000), **known)

    def _sentences(self) -> dict[str, Any]:
        totals = self.totals
        rows = np.flatnonzero(totals.seen)
        rows = rows[np.argsort(-totals.mean("pull")[rows], kind="stable")]
        names = {
            "dissipation": "dissipation",
            "pull": "pull",
            "push_given": "given",
            "push_received": "received",
        }
        return {
            "row": rows,
            **({} if self.texts is None else {"sentence": self._place(pd.Series(rows), "x")["x"]}),
            "times_met": totals.seen[rows].astype(int),
            **{name: totals.mean(kind)[rows] for name, kind in names.items()},
            "pushers": totals.pushers[rows],
            "closed": totals.mean("closed")[rows],
        }

    @functools.cached_property
    def hard_negatives(self) -> pd.DataFrame:
        """Hard negatives by falling share: met in a batch, once each, or false by their words.

        One looks like a positive if its words say so (without texts, its embedding). One that is
        only nearer than the positive is either false or still to be learned. Any other matters if
        its anchor pushes it more than the average negative, and is too easy if not.
        """
        if not self.totals.hard:
            return pd.DataFrame()
        met = pd.concat(self.totals.hard).drop_duplicates(["row", "column"])
        false = pd.DataFrame(self.candidates.false_negatives - [0, 1], columns=["row", "column"])
        found = met.merge(false.assign(false=True), "outer", ["row", "column"])
        found["false"] = found["false"].notna()
        cases = [
            found["false"],
            found["cosine"] >= found["positive_cosine"],
            found["times_average"] > 1,
        ]
        found["verdict"] = np.select(cases, VERDICTS[:3], EASY)
        order = {"share": False, "column": True, "row": True}
        return found.sort_values([*order], ascending=[*order.values()], ignore_index=True)

    def _hard_negatives(self) -> dict[str, Any]:
        found, words = self.hard_negatives, {}
        if found.empty:
            return {"row": []}
        column = {"column": np.array(self.columns[2:])[found["column"]]}
        if self.texts is not None and self.texts.positives is not None:
            blocks: dict[str, Any] = {
                "sentence": 0,
                "positive": 1,
                "hard_negative": found["column"] + 2,
            }
            numbers = {
                name: found["row"] + block * self.totals.count for name, block in blocks.items()
            }
            words = {name: [self.texts[number] for number in one] for name, one in numbers.items()}
        names = ("verdict", "share", "times_average", "cosine", "positive_cosine")
        return {"row": found["row"], **column, **words, **{name: found[name] for name in names}}

    def to_frame(self) -> pd.DataFrame:
        """Return the table of candidates, likely false negatives; `table` returns the others."""
        return self.table("candidates")

    def headline(self) -> str:
        """Return the advice as text, one finding per line."""
        return "\n".join(f"{one.title} {one.text}" for one in self.advice)

    def brief(self) -> pd.DataFrame:
        """Return the first ten candidates."""
        return self.to_frame().head(10)

    @functools.cached_property
    def numbers(self) -> dict[str, Any]:
        """Numbers that the advice uses, ready for JSON; shares in [0, 1], NaN if not measurable."""
        totals, candidates, meeting = self.totals, self.candidates, self.meeting
        lines, push = candidates.lines, sum(totals.push)
        of_lines, row_pairs = candidates.once
        share, error = share_of_candidates(meeting, of_lines, totals, self.batch_size)
        met = totals.seen > 0
        received = totals.mean("received")
        # Copies have an advice of their own.
        copies = lines[["first", "second"]].to_numpy() % totals.count
        many = met & (totals.pushers >= max(2.0, MANY * (self.batch_size - 1)))
        hubs = np.sort(received[np.setdiff1d(np.flatnonzero(many), copies)])[::-1]
        top = max(1, int(met.sum()) // 100)
        duplicates = lines["kind"][meeting.index] == DUPLICATE
        by_dropout = self.texts is not None and self.texts.positives is None
        hard, false = self.hard_negatives, float("nan")
        # Cosines in the upper half of the nearest pairs.
        low = (
            float(np.quantile(candidates.near.cosine, 0.5))
            if len(candidates.near.cosine)
            else np.inf
        )
        levels = [level for level in _LEVELS if level >= low]
        kinds: dict[str, int] = {}
        if totals.hard:
            counts = hard["verdict"][hard["push"].notna()].value_counts()  # those that were met
            kinds = {kind: int(counts.get(kind, 0)) for kind in VERDICTS}
            of_false = pd.concat(totals.hard).merge(hard.loc[hard["false"], ["row", "column"]])
            false = _share(of_false["push"].sum(), push)
        return {
            "loss": call_text(self.loss),
            "sentences": totals.count,
            "batches": len(totals.push),
            "batch_size": self.batch_size,
            "sentences_met": int(met.sum()),
            "duplicates": candidates.repeats,
            "candidate_lines": len(lines),
            "candidate_row_pairs": row_pairs,
            "can_mask": self.can_mask,
            "near_duplicates": int((lines["kind"] == NEAR_DUPLICATE).sum()),
            "neighbours": int((lines["kind"] == NEIGHBOUR).sum()),
            "neighbours_from": float(candidates.threshold),
            "candidate_share_of_push": share,
            "candidate_share_error": error,
            "candidate_share_when_met": float(meeting["share"].median()),
            "pair_share_on_average": 1 / totals.negatives,
            "hidden_by_dropout": (
                float(meeting["hidden"][duplicates].mean()) if by_dropout else float("nan")
            ),
            "positives_that_repeat": len(self.repeated),
            "mask_above": candidates.mask_above,
            "mask_removes": self.push_above(candidates.mask_above),
            "cosine_levels": [
                {
                    "cosine": level,
                    "share_of_push": self.push_above(level),
                    "candidates": candidates.confirmed_above(level),
                }
                for level in levels
            ],
            **_gates(totals.dissipation, totals.closed, totals.share, totals.seen.sum()),
            "negative_cosine": totals.negative_cosine,
            "hubs": top,
            "hub_share": _share(hubs[:top].sum(), received[met].sum()),
            "temperatures": self._temperatures(),
            "hard_negatives": kinds,
            "hard_negatives_false": len(candidates.false_negatives),
            "hard_negatives_share": _share(totals.hard_push, push),
            "hard_negatives_false_share": false,
        }

    def push_above(self, cosine: float) -> float:
        """Return the share of the push on pairs of at least this cosine, to a tenth of a degree."""
        if np.isnan(cosine):
            return float("nan")
        bins = int(np.ceil(np.arccos(np.clip(cosine, -1, 1)) * (BINS / np.pi)))
        return _share(self.totals.by_angle[:bins].sum(), self.totals.by_angle.sum())

    def _temperatures(self) -> list[dict[str, float]]:
        """Measure the first batches at other temperatures; empty for a loss without one."""
        if "temperature" not in {field.name for field in dataclasses.fields(self.loss)}:
            return []
        found = []
        for factor in _FACTORS:
            value = self.loss.temperature * factor  # type: ignore[attr-defined]  # one of its fields
            batches = [measure(get_loss(self.loss, temperature=value), one) for one in self.views]
            dissipation = np.concatenate([one.dissipation for one in batches])
            gates = _gates(
                dissipation,
                dissipation < CLOSED,
                [one.hardest for one in batches],
                len(dissipation),
            )
            found.append({"temperature": float(value), **gates})
        return found

    @functools.cached_property
    def advice(self) -> list[Advice]:
        """What to do, in words, the most costly finding first."""
        return advise(self.numbers)

    def masked(self) -> list[str]:
        """Return row pairs, then rows with hard negatives, for `gradlab.losses.mask.read_pairs`."""
        parts = self.candidates.to_mask()
        return [",".join(map(str, numbers)) for part in parts for numbers in part.tolist()]

    def distinct_rows(self) -> NDArray[np.int64]:
        """Return rows without duplicates of earlier rows; see `CandidatePairs.distinct_rows`."""
        return self.candidates.distinct_rows()

    def write(
        self,
        folder: str | os.PathLike[str],
        settings: Mapping[str, str] | None = None,
        command: str = "",
    ) -> list[Path]:
        """Write tables as CSV, page ``inspect.html``, numbers ``inspect.json``, and ``mask.txt``.

        ``mask.txt`` lists the candidates for ``mask(LOSS, by=pairs, pairs=mask.txt)``, see
        `masked`. It is left out above a million pairs; it is then better to deduplicate the corpus.

        Args:
            folder: folder to write to, created if absent.
            settings: settings of the inspection, for ``inspect.json``; commands in the advice take
                ``model`` and ``train_file`` from them.
            command: command line of the inspection, for the advice.

        Raises:
            GradlabError: if the folder cannot be written.
        """
        folder, written, settings = Path(folder), [], dict(settings or {})
        for name in TABLES:
            rows = self.table(name)
            path = folder / f"{name}.csv"
            if len(rows):
                written.append(write_csv(path, dict(rows)))
            else:
                # An earlier inspection's file would pass for this one's.
                path.unlink(missing_ok=True)
        lines = self.masked() if self.can_mask else []
        if lines:
            lines = [f"# rows: {self.totals.count}", *lines]
            written.append(write_text(folder / "mask.txt", "".join(f"{line}\n" for line in lines)))
        else:
            (folder / "mask.txt").unlink(missing_ok=True)
        advice = self.advice_for(folder, settings, command)
        several = self.texts is not None and len(self.columns) > 1
        written.append(
            write_text(folder / "inspect.html", render(self.table, several, self.numbers, advice))
        )
        record = {
            "settings": settings,
            "results": for_json(self.numbers)
            | {"advice": [f"{one.title} {one.text}" for one in advice]},
            "versions": versions("numpy", "torch", "transformers", "rensa", "usearch"),
        }
        return [*written, write_json(folder / "inspect.json", record)]

    def advice_for(
        self, folder: str | os.PathLike[str], settings: Mapping[str, str], command: str = ""
    ) -> list[Advice]:
        """Return the advice with commands and code to paste; for the arguments see `write`."""
        known = {
            name: value
            for name in ("model", "train_file")
            if (value := settings.get(name, "None")) != "None"
        }
        return advise(self.numbers, Place(Path(folder), command, **known))


def _share(part: float, whole: float) -> float:
    return float(part / whole) if whole else float("nan")


def _gates(dissipation: Any, closed: Any, hardest: list[Any], anchors: float) -> dict[str, float]:
    """Return means over anchors: dissipation, share closed, and share of the hardest negative."""
    shares = np.concatenate(hardest)
    return {
        "dissipation": float(dissipation.sum() / anchors),
        "closed": float(closed.sum() / anchors),
        "hardest_share": _share(shares.sum(), len(shares)),
    }
