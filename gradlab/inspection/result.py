"""`Inspection`: tables, numbers, advice, and the files that hold them."""

from __future__ import annotations

import dataclasses
import functools
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from gradlab.batch.batch import Batch
from gradlab.data.training_file import TrainingFile
from gradlab.drawable import Drawable
from gradlab.errors import GradlabError, check_known
from gradlab.files import for_json, versions, write_csv, write_json, write_text
from gradlab.inspection.advice import advise, steps_of
from gradlab.inspection.candidate_pairs import (
    DUPLICATE,
    NEAR_DUPLICATE,
    NEIGHBOUR,
    SIDES,
    CandidatePairs,
)
from gradlab.inspection.gradient_share import BINS, CLOSED, PushTotals, measure, share_of_candidates
from gradlab.inspection.page import render
from gradlab.inspection.tables import TABLES, VERDICTS, CorpusTables, Sample
from gradlab.inspection.texts import Cuts, Texts, normalize
from gradlab.losses.base import Loss
from gradlab.losses.registry import get_loss
from gradlab.settings import call_text
from gradlab.verdict import Verdict

# Version of ``inspect.json``: in 1, the mean gradient dissipation was called dissipation.
FORMAT = 2
MOST_MASKED = 1_000_000
# Factors of the temperature, and cosines, for which numbers are given.
_FACTORS = (0.5, 1.0, 2.0, 4.0)
_LEVELS = (0.6, 0.7, 0.8, 0.85, 0.9, 0.95, 0.98, 0.99, 0.995, 0.999)
# A hub is pushed by this share of a batch, and by at least two sentences.
MANY = 0.1


@dataclass(frozen=True, eq=False)
class Inspection(Drawable):
    """Which pairs of sentences carry the gradient of a loss; see `gradlab.find_false_negatives`.

    `plot` draws how unevenly sentences are pushed.

    Attributes:
        loss: the loss.
        texts: the sentences; None if only embeddings were given.
        totals: sums over the batches.
        candidates: likely false negatives.
        views: the first batches, in float64.
        batch_size: number of sentences in a batch.
        seed: seed of batches and dropout.
        columns: names of text or embedding columns: ``sentence``, ``positive``, hard negatives.
        cuts: texts that the model read in part; None if it did not embed them.
        sample: the rows that were drawn; None if all were inspected. Tables number rows as the
            corpus does.
    """

    artist = "gradlab.inspection.picture:draw_inspection"
    shown = (
        *("loss", "texts", "totals", "candidates", "columns", "batch_size", "seed", "sample"),
        *("advice", "numbers", "table", "hard_negatives", "repeated", "rows_left_out"),
        *("distinct_rows", "masked", "write", "to_frame", "plot"),
    )
    loss: Loss
    texts: Texts | None
    totals: PushTotals
    candidates: CandidatePairs
    views: list[Batch]
    batch_size: int
    seed: int
    columns: tuple[str, ...]
    cuts: Cuts | None = None
    sample: Sample | None = None

    @functools.cached_property
    def repeated(self) -> list[int]:
        """Rows whose positive has the words of its anchor."""
        pairs = enumerate(self._pairs_of_texts())
        return [row for row, pair in pairs if len(set(map(normalize, pair))) == 1]

    @property
    def can_mask(self) -> bool:
        """Whether all rows were inspected and there are pairs to mask, at most `MOST_MASKED`."""
        if self.sample is not None:
            return False
        pairs = int(self.candidates.lines["rows"].sum()) + len(self.candidates.false_negatives)
        return 0 < pairs <= MOST_MASKED

    def table(self, name: str) -> pd.DataFrame:
        """Return a table of `TABLES`, such as ``candidates``, with the most important rows first.

        Raises:
            GradlabError: an unknown name.
        """
        check_known("table", name, TABLES)
        return self._tables.table(name)

    def text(self, number: int) -> str:
        """Return the text of a number; its row if texts are unknown."""
        return self._tables.text(number)

    @property
    def hard_negatives(self) -> pd.DataFrame:
        """Hard negatives and their verdicts; see `CorpusTables.judged_hard_negatives`."""
        return self._tables.judged_hard_negatives

    def to_frame(self) -> pd.DataFrame:
        """Return the table of candidates, likely false negatives; `table` returns the others."""
        return self.table("candidates")

    def headline(self) -> str:
        """Return the advice as text, one finding per line."""
        return "\n".join(f"{finding.change} {finding.finding}" for finding in self.advice)

    def brief(self) -> pd.DataFrame:
        """Return the first ten candidates."""
        return self.to_frame().head(10)

    @functools.cached_property
    def numbers(self) -> dict[str, Any]:
        """Numbers that the advice uses, ready for JSON; shares in [0, 1], NaN if not measurable."""
        totals, candidates = self.totals, self.candidates
        return {
            "loss": call_text(self.loss),
            "sentences": totals.count,
            "batches": len(totals.push),
            "batch_size": self.batch_size,
            "sentences_met": int((totals.times_met > 0).sum()),
            **self._candidate_numbers(),
            "positives_that_repeat": len(self.repeated),
            "positives_that_are_equal": sum(a == b for a, b in self._pairs_of_texts()),
            "prompts": [] if self.texts is None else sorted(set(self.texts.prompts.values())),
            "alike_behind_prompts": 0 if self.texts is None else self.texts.alike_behind_prompts,
            "unreadable": {} if self.texts is None else self.texts.unreadable,
            "damaged": {} if self.texts is None else self.texts.damaged,
            "blanks": {} if self.texts is None else self.texts.blanks,
            "partners": {} if self.texts is None else self.texts.partners,
            "mask_above": candidates.mask_above,
            "mask_removes": self.push_above(candidates.mask_above),
            "cosine_levels": self._cosine_levels(),
            **_gates(totals.dissipation, totals.closed, totals.share, totals.times_met.sum()),
            "negative_cosine": totals.negative_cosine,
            **self._hub_numbers(),
            "temperatures": self._temperatures(),
            "max_length": self.cuts.max_length if self.cuts else None,
            "cut": self.cuts.cut if self.cuts else 0,
            "cut_share": self.cuts.cut / self.cuts.texts if self.cuts else 0.0,
            "alike_when_cut": self.cuts.alike if self.cuts else 0,
            **self._hard_negative_numbers(),
        }

    def push_above(self, cosine: float) -> float:
        """Return the share of the push on pairs of at least this cosine, to a tenth of a degree."""
        if np.isnan(cosine):
            return float("nan")
        bins = int(np.ceil(np.arccos(np.clip(cosine, -1, 1)) * (BINS / np.pi)))
        return _share(self.totals.by_angle[:bins].sum(), self.totals.by_angle.sum())

    @functools.cached_property
    def advice(self) -> list[Verdict]:
        """What to do, in words, the most costly finding first."""
        return advise(self.numbers)

    def masked(self) -> list[str]:
        """Return row pairs, then rows with hard negatives, for `gradlab.losses.mask.read_pairs`."""
        groups = self.candidates.to_mask()
        return [",".join(map(str, numbers)) for group in groups for numbers in group.tolist()]

    def rows_left_out(self) -> dict[str, int]:
        """Return how many rows a clean file leaves out, by the reason in words."""
        return {reason: len(rows) for reason, rows in self.candidates.rows_left_out().items()}

    def distinct_rows(self) -> NDArray[np.int64]:
        """Return rows without duplicates of earlier rows; see `CandidatePairs.distinct_rows`.

        Raises:
            GradlabError: only embeddings, or only a sample of the rows, are known.
        """
        if self.sample is not None:
            raise GradlabError(
                f"a sample of {len(self.sample.rows)} rows does not tell which of "
                f"{self.sample.corpus} repeat others; inspect all rows"
            )
        if self.texts is None:
            raise GradlabError(
                "embeddings alone do not tell which rows repeat others; inspect the sentences too"
            )
        return self.candidates.distinct_rows()

    def write(
        self,
        folder: str | os.PathLike[str],
        settings: Mapping[str, str] | None = None,
        command: str = "",
        file: TrainingFile | None = None,
    ) -> list[Path]:
        """Write tables as CSV, page ``inspect.html``, numbers ``inspect.json``, and ``mask.txt``.

        ``mask.txt`` lists the candidates for ``mask(LOSS, by=pairs, pairs=mask.txt)``, see
        `masked`. It is left out above a million pairs; it is then better to deduplicate the corpus.

        Args:
            folder: folder to write to, created if absent.
            settings: settings of the inspection, for ``inspect.json``; commands in the advice take
                the model from them.
            command: command line of the inspection, for the advice.
            file: the training file, for the advice.

        Raises:
            GradlabError: if the folder cannot be written.
        """
        folder, saved_files, settings = Path(folder), [], dict(settings or {})
        for name in TABLES:
            rows = self.table(name)
            if len(rows):
                saved_files.append(write_csv(folder / f"{name}.csv", dict(rows)))
        if self.can_mask:
            lines = [f"# rows: {self.totals.count}", *self.masked()]
            saved_files.append(
                write_text(folder / "mask.txt", "".join(f"{line}\n" for line in lines))
            )
        # An earlier inspection's file would pass for this one's.
        for name in ("mask.txt", *(f"{table}.csv" for table in TABLES)):
            if folder / name not in saved_files:
                (folder / name).unlink(missing_ok=True)
        advice = self.advice_for(folder, settings, command, file)
        several = self.texts is not None and len(self.columns) > 1
        saved_files.append(
            write_text(folder / "inspect.html", render(self.table, several, self.numbers, advice))
        )
        record = {
            "format": FORMAT,
            "settings": settings,
            "results": for_json(self.numbers)
            | {"advice": [f"{finding.change} {finding.finding}" for finding in advice]},
            "versions": versions("numpy", "torch", "transformers", "rensa"),
        }
        return [*saved_files, write_json(folder / "inspect.json", record)]

    def advice_for(
        self,
        folder: str | os.PathLike[str],
        settings: Mapping[str, str],
        command: str = "",
        file: TrainingFile | None = None,
    ) -> list[Verdict]:
        """Return the advice with commands and code to paste; for the arguments see `write`."""
        steps = steps_of(self.numbers, Path(folder), settings, command, file)
        return advise(self.numbers, steps)

    @functools.cached_property
    def _tables(self) -> CorpusTables:
        return CorpusTables(self.texts, self.totals, self.candidates, self.columns, self.sample)

    def _pairs_of_texts(self) -> Iterable[tuple[str, str]]:
        """Return anchors with their positives; nothing where dropout alone makes the views."""
        if self.texts is None or self.texts.positives is None:
            return ()
        return zip(self.texts.anchors, self.texts.positives, strict=True)

    def _candidate_numbers(self) -> dict[str, Any]:
        """Return how many likely false negatives there are, and what part of the push is theirs."""
        totals, candidates, lines = self.totals, self.candidates, self.candidates.lines
        share_of = functools.partial(share_of_candidates, totals=totals, batch_size=self.batch_size)
        share, error = share_of(lines)
        shared = candidates.shared(self.batch_size)
        hidden = float("nan")
        if self.texts is not None and self.texts.positives is None:
            hidden = float(lines["hidden"][lines["kind"] == DUPLICATE].mean())
        return {
            "duplicates": 0 if self.texts is None else candidates.repeats,
            "candidate_lines": len(lines),
            "candidate_row_pairs": candidates.row_pairs,
            "can_mask": self.can_mask,
            "rows_left_out": {} if self.texts is None or self.sample else self.rows_left_out(),
            "sampled_from": self.sample.corpus if self.sample else None,
            "pairs_seen": self.sample.pairs if self.sample else 1.0,
            "near_duplicates": int((lines["kind"] == NEAR_DUPLICATE).sum()),
            "neighbours": int((lines["kind"] == NEIGHBOUR).sum()),
            "neighbours_from": float(candidates.threshold),
            "candidate_share_of_push": share,
            "candidate_share_error": error,
            "shared_lines": int(shared.sum()),
            "shared_share_of_push": share_of(lines[shared])[0],
            "unshared_row_pairs": int(lines["rows"][~shared].sum()),
            "unshared_share_of_push": share_of(lines[~shared])[0],
            "candidate_share_when_met": float(lines["share"].median()),
            "pair_share_on_average": 1 / totals.negatives,
            "hidden_by_dropout": hidden,
        }

    def _cosine_levels(self) -> list[dict[str, float]]:
        """Return the push on pairs above some cosines, and how many of them are candidates."""
        near = self.candidates.near
        return [
            {
                "cosine": level,
                "share_of_push": self.push_above(level),
                "candidates": float(near["confirmed"][near["cosine"] >= level].mean()),
            }
            for level in _LEVELS
            if level >= near["cosine"].median()  # in the upper half of the nearest pairs
        ]

    def _hub_numbers(self) -> dict[str, Any]:
        """Return a hundredth of the sentences, and the push on as many that most others push."""
        totals, lines = self.totals, self.candidates.lines
        in_batches, received = totals.times_met > 0, totals.mean("received")
        # Copies have an advice of their own.
        group = self.candidates.groups.group
        copied = np.isin(group, group[lines[SIDES].to_numpy()])
        many = totals.pushers >= max(2.0, MANY * (self.batch_size - 1))
        hubs = received[in_batches & many & ~copied.reshape(-1, totals.count).any(0)]
        top = max(1, int(in_batches.sum()) // 100)
        return {
            "hubs": top,
            "hub_share": _share(np.sort(hubs)[-top:].sum(), received[in_batches].sum()),
        }

    def _hard_negative_numbers(self) -> dict[str, Any]:
        """Return how many hard negatives have each verdict, and what part of the push is theirs."""
        totals, push = self.totals, sum(self.totals.push)
        hard, false = self.hard_negatives, float("nan")
        kinds: dict[str, int] = {}
        if totals.hard:
            verdicts = hard["verdict"][hard["push"].notna()]  # of those that were met
            kinds = verdicts.value_counts().reindex(VERDICTS, fill_value=0).to_dict()
            of_false = pd.concat(totals.hard).merge(hard.loc[hard["false"], ["row", "column"]])
            false = _share(of_false["push"].sum(), push)
        return {
            "hard_negatives": kinds,
            "hard_negatives_false": len(self.candidates.false_negatives),
            "hard_negatives_share": totals.hard_share,
            "hard_negatives_false_share": false,
        }

    def _temperatures(self) -> list[dict[str, float]]:
        """Measure the first batches at other temperatures; empty for a loss without one."""
        if "temperature" not in {field.name for field in dataclasses.fields(self.loss)}:
            return []
        settings = []
        for factor in _FACTORS:
            value = self.loss.temperature * factor  # type: ignore[attr-defined]  # one of its fields
            batches = [
                measure(get_loss(self.loss, temperature=value), views) for views in self.views
            ]
            gates = np.concatenate([push.dissipation for push in batches])
            hardest = [push.hardest for push in batches]
            means = _gates(gates, gates < CLOSED, hardest, len(gates))
            settings.append({"temperature": float(value), **means})
        return settings


def _share(amount: float, whole: float) -> float:
    return float(amount / whole) if whole else float("nan")


def _gates(dissipation: Any, closed: Any, hardest: list[Any], anchors: float) -> dict[str, float]:
    """Return means over anchors: dissipation, share closed, and share of the hardest negative."""
    shares = np.concatenate(hardest)
    return {
        "gradient_dissipation": float(dissipation.sum() / anchors),
        "closed": float(closed.sum() / anchors),
        "hardest_share": _share(shares.sum(), len(shares)),
    }
