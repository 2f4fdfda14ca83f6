"""The history of a run: its metrics file, its numbers as series over steps, and its scores."""

from __future__ import annotations

import bisect
import csv
import itertools
import math
import operator
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from gradlab.errors import GradlabError
from gradlab.files import write_csv
from gradlab.quantities import OF_CODE

if TYPE_CHECKING:
    from pandas import DataFrame

# Groups of a metrics file: diagnostics of the loss, scores, the trainer's numbers, and histograms.
DIAGNOSTICS, EVALUATION, TRAIN, HISTOGRAM = "diagnostics", "evaluation", "train", "histogram"
# Name of the loss of a recorded batch.
BATCH_LOSS = "batch_loss"
METRICS, COLUMNS = "metrics.csv", ("step", "group", "name", "value")
Row = tuple[int, str, str, float]
Measurement = dict[str, dict[str, float]]  # numbers by name, by their group in a metrics file

NAMES = {
    "stsb_dev": "STS-B dev",
    "ndcg_at_10": "Retrieval nDCG@10",
    "eval_loss": "Evaluation loss",
    "relative_push": "Mean relative push",
    "pushed": "Share of sentences with a relative push of at least 0.01",
    "hardest_share_of_pushed": "Share of the hardest negative, of pushed sentences",
    "ratio_of_pushed": "Ratio of pushed sentences",
    "ratio_median_of_pushed": "Median ratio of pushed sentences",
}
# Endings of the names under which sentence-transformers' evaluators log their measures.
MEASURES = {
    "spearman_cosine": "Spearman of cosines",
    "pearson_cosine": "Pearson of cosines",
    "spearman": "Spearman",
    "pearson": "Pearson",
    "cosine_accuracy": "accuracy by cosine",
}
# Lowest and highest edges of bins: cosines begin at -1, ratios end at 3.
_LOWEST_EDGE, _HIGHEST_EDGE = -1.0, 3.0
# Parts of names that trainers log among their evaluations and that are not scores.
NO_SCORES = ("runtime", "per_second", "preparation_time", "_threshold")


def write_metrics(path: Path, rows: Sequence[Row]) -> None:
    """Replace a metrics file by these rows: one number a line, ``step, group, name, value``.

    ``group`` is diagnostics, evaluation, train, histogram, or watch (the cost of `gradlab.watch`).
    """
    columns = {name: [row[at] for row in rows] for at, name in enumerate(COLUMNS)}
    write_csv(path, columns, exact=True)


def append_metrics(path: Path, step: int, groups: Mapping[str, Mapping[str, float]]) -> None:
    """Append the numbers of one step, by group and name, to a metrics file.

    Raises:
        GradlabError: if the file cannot be written.
    """
    try:
        with path.open("a", encoding="utf-8", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerows(
                [
                    (step, group, name, repr(float(value)))
                    for group, values in groups.items()
                    for name, value in values.items()
                ]
            )
    except OSError as error:
        raise GradlabError(f"cannot write {path}: {error.strerror or error}") from error


def read_metrics(path: str | Path) -> list[Row]:
    """Return the rows ``(step, group, name, value)`` of a metrics file, without any other lines."""
    return scan_metrics(path)[0]


def scan_metrics(path: str | Path) -> tuple[list[Row], list[int]]:
    """Return the rows of a metrics file, and numbers (from 1) of lines that are not whole rows."""
    rows, left_out = [], []
    with Path(path).open(encoding="utf-8", errors="replace", newline="") as file:
        for number, line in enumerate(file, start=1):
            row = _row_of(line)
            if row is not None:
                rows.append(row)
            elif line.rstrip("\r\n") != ",".join(COLUMNS):
                left_out.append(number)
    return rows, left_out


@dataclass
class History:
    """Numbers by group, name and step, as in metrics files of `gradlab train` and watched runs."""

    total_steps: int | None = None  # planned length of the run in steps; None if unknown
    primary: str = ""  # name, or end of the name, of the score that its evaluator calls primary
    evaluated: int = 0  # queries, pairs or triplets of its evaluator; 0 if unknown
    _series: dict[tuple[str, str], dict[int, float]] = field(default_factory=dict)

    @classmethod
    def of(
        cls, rows: Iterable[Row], total_steps: int | None = None, primary: str = "",
        evaluated: int = 0,
    ) -> History:  # fmt: skip
        """Return the history of rows ``(step, group, name, value)``.

        The last of repeated rows counts.
        """
        history = cls(total_steps, primary, evaluated)
        for step, group, name, value in rows:
            history.add(step, group, {name: value})
        return history

    def add(self, step: int, group: str, values: Mapping[str, float]) -> None:
        self.add_groups(step, {group: values})

    def add_groups(self, step: int, groups: Mapping[str, Mapping[str, float]]) -> None:
        for group, values in groups.items():
            for name, value in values.items():
                self._series.setdefault((group, name), {})[step] = value

    def rows(self) -> list[Row]:
        """Return all numbers as rows ``(step, group, name, value)``."""
        return [
            (at, *key, float(v)) for key, points in self._series.items() for at, v in points.items()
        ]

    def records(self) -> list[tuple[int, str, dict[str, float]]]:
        """Return (step, group, values) of each moment in the order of steps."""
        moments: dict[tuple[int, str], dict[str, float]] = {}
        for step, group, name, value in self.rows():
            moments.setdefault((step, group), {})[name] = value
        return [(*at, moments[at]) for at in sorted(moments, key=operator.itemgetter(0))]

    def latest(self, group: str) -> tuple[int, dict[str, float]]:
        """Return the last step of a group and its values there; -1 and nothing without any."""
        series = [(name, self.points(group, name)) for name in self.names(group)]
        step = max((max(points) for _, points in series if points), default=-1)
        return step, {name: points[step] for name, points in series if step in points}

    def points(self, group: str, name: str) -> dict[int, float]:
        """Return the values of a series by step, in the order in which they were added.

        Of a loss given as code, those of the series that takes its place; see `OF_CODE`.
        """
        return self._series.get((group, self.recorded_as(group, name)), {})

    def series(self, group: str, name: str) -> tuple[list[int], list[float]]:
        """Return the steps and values of a series in order, or two empty lists."""
        points = dict(sorted(self.points(group, name).items()))
        return list(points), list(points.values())

    def recorded_as(self, group: str, name: str) -> str:
        """Return the name of the series that `points` returns."""
        of_code = OF_CODE.get(name, name)
        only_of_code = (group, name) not in self._series and (group, of_code) in self._series
        return of_code if only_of_code else name

    def names(self, group: str) -> list[str]:
        return [name for kind, name in self._series if kind == group]

    def groups(self) -> list[str]:
        """Return the groups in order of appearance, without histograms."""
        groups = dict.fromkeys(group for group, _ in self._series)
        return [group for group in groups if group != HISTOGRAM]

    def last_step(self) -> int:
        return max((max(points) for points in self._series.values()), default=0)

    def histograms(self, quantity: str) -> dict[int, dict[float, float]]:
        """Return the histograms of a quantity by step, each as {lower edge of a bin: share}.

        Without bins that are empty, or whose edge or share is no number; a histogram of zeros is
        left out.
        """
        histograms: dict[int, dict[float, float]] = {}
        if not any(name.startswith(f"{quantity}:") for name in self.names(HISTOGRAM)):
            quantity = OF_CODE.get(quantity, quantity)
        for name in self.names(HISTOGRAM):
            kind, _, edge = name.partition(":")
            for step, share in self.points(HISTOGRAM, name).items() if kind == quantity else ():
                if _LOWEST_EDGE <= (low := _number(edge)) <= _HIGHEST_EDGE and 0 < share < math.inf:
                    histograms.setdefault(step, {})[low] = share
        return {step: dict(sorted(shares.items())) for step, shares in sorted(histograms.items())}

    def at(self, group: str, name: str, step: int) -> float | None:
        """Return the value recorded at ``step`` or last before it; None if there is none."""
        steps, values = self.series(group, name)
        place = bisect.bisect_right(steps, step)
        return values[place - 1] if place else None

    def score(self, name: str) -> Score:
        points = tuple(sorted(self.points(EVALUATION, name).items()))
        is_primary = bool(self.primary) and name.endswith(self.primary)
        return Score(name, points, is_primary, self.evaluated)

    def scores(self) -> list[Score]:
        """Return all scores that are ever finite: `primary` first, then qualities; losses last."""
        names = [name for name in self.names(EVALUATION) if not name.endswith(NO_SCORES)]
        scores = [self.score(name) for name in names]
        finite = [s for s in scores if any(math.isfinite(value) for _, value in s.points)]
        return sorted(finite, key=self._rank)

    @staticmethod
    def _rank(score: Score) -> tuple[bool, bool, bool]:
        return not score.is_primary, not score.is_quality, score.is_loss

    def to_frame(self) -> DataFrame:
        """Return the records as a pandas DataFrame indexed by step, one row per record.

        Columns are called ``name`` for diagnostics, else ``group/name``. A number logged between
        two records goes into the row of the earlier one. Without diagnostics, each step has a row.
        """
        import pandas as pd

        names = [(group, name) for group in self.groups() for name in self.names(group)]
        measured = [self.points(*key) for key in names if key[0].startswith(DIAGNOSTICS)]
        records = sorted(set().union(*measured))
        columns = {}
        for group, name in names:
            steps, values = self.series(group, name)
            if records:
                steps = [records[max(bisect.bisect_right(records, at) - 1, 0)] for at in steps]
            column = name if group == DIAGNOSTICS else f"{group}/{name}"
            columns[column] = pd.Series(dict(zip(steps, values, strict=True)), dtype=float)
        return pd.DataFrame(columns).sort_index().rename_axis("step")


def of_dataset(name: str, dataset: str) -> str:
    """Return the name of a group or number of one dataset, such as ``"batch_loss quora"``."""
    return f"{name} {dataset}".strip()


def histogram_rows(distributions: Mapping[str, Mapping[float, float]]) -> dict[str, float]:
    """Return histograms as values for the group `HISTOGRAM`: {``quantity:lower edge``: share}."""
    return {
        f"{name}:{low:g}": share
        for name, shares in distributions.items()
        for low, share in shares.items()
    }


def mean_of(measurements: Sequence[Measurement]) -> Measurement:
    """Return the mean of each number over the measurements that have it, by group.

    A bin is named ``quantity:lower edge``; measurements with other bins of the quantity count as 0.
    """
    means: Measurement = {}
    for group in dict.fromkeys(group for measured in measurements for group in measured):
        moments = [measured.get(group, {}) for measured in measurements]
        quantities = [{name.partition(":")[0] for name in moment} for moment in moments]
        means[group] = {}
        for name in dict.fromkeys(name for moment in moments for name in moment):
            measured = [name.partition(":")[0] in measured for measured in quantities]
            numbers = [moment.get(name, 0.0) for moment in itertools.compress(moments, measured)]
            means[group][name] = float(np.mean(numbers))
    return means


@dataclass(frozen=True)
class Score:
    """One score of a run: (step, value) in order; a value is NaN if embeddings were constant."""

    name: str
    points: tuple[tuple[int, float], ...]
    is_primary: bool = False  # whether its evaluator calls it primary
    count: int = 0  # queries, pairs or triplets that it is of; 0 if unknown

    @property
    def title(self) -> str:
        return readable(self.name)

    @property
    def is_loss(self) -> bool:
        """Whether smaller values are better."""
        return self.name.endswith("loss")  # an ending, because eval_glossary_spearman is not a loss

    @property
    def is_quality(self) -> bool:
        """Whether it selects encoders: primary, a correlation with judgements, or an nDCG."""
        return self.is_primary or any(
            kind in self.name for kind in ("stsb_dev", "spearman", "pearson", "ndcg")
        )

    @property
    def is_correlation(self) -> bool:
        return "spearman" in self.name or "pearson" in self.name

    def error_of(self, value: float) -> float:
        """Return the standard error of a value by its count, at most; 0 if unknown.

        A correlation over n pairs has (1 - r²)/√(n - 1), a mean of n numbers between 0 and 1 at
        most √(p(1 - p)/n).
        """
        if self.count < 2 or not abs(value) <= 1:
            return 0.0
        if self.is_correlation:
            return (1 - value**2) / math.sqrt(self.count - 1)
        return math.sqrt(max(value * (1 - value), 0.0) / self.count)

    @property
    def before(self) -> float | None:
        """Score before training; None if it was not evaluated."""
        return dict(self.points).get(0)

    @property
    def best(self) -> tuple[int, float] | None:
        """Step and value of the best finite score after step 0, the first of equals, or None."""
        trained = [point for point in self.points if point[0] > 0 and math.isfinite(point[1])]
        sign = 1 if self.is_loss else -1
        return min(trained, key=lambda point: (sign * point[1], point[0]), default=None)

    @property
    def last(self) -> tuple[int, float] | None:
        """Step and value of the last score; None if there is none after step 0."""
        return self.points[-1] if self.points and self.points[-1][0] > 0 else None


def readable(name: str) -> str:
    """Return a recorded name in a form for people.

    ``"eval_sts-dev_spearman"`` becomes ``"sts-dev, Spearman"``.
    """
    if name in NAMES:
        return NAMES[name]
    plain = name.removeprefix("eval_")
    for ending, words in MEASURES.items():
        if plain.endswith(ending):
            subject = plain.removesuffix(ending).strip("_").replace("_", " ")
            return f"{subject}, {words}" if subject else words[:1].upper() + words[1:]
    plain = plain.replace("_", " ")
    return plain[:1].upper() + plain[1:]


def _row_of(line: str) -> Row | None:
    """Return the row of a complete line, or None; a lone quote must not swallow later lines."""
    if not line.endswith("\n") or "\ufffd" in line:  # the replacement for bytes that are not UTF-8
        return None
    try:
        ((step, group, name, value),) = csv.reader([line])
        # Digits that ran together from two lines are no step either.
        return (int(step), group, name, float(value)) if 0 <= int(step) < 2**53 else None
    except (ValueError, csv.Error):
        return None


def _number(text: str) -> float:
    """Return the number of a text; NaN if it is none."""
    try:
        return float(text)
    except ValueError:
        return math.nan
