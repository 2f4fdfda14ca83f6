"""The result of an evaluation: its numbers, the table that papers print, and JSON."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any

from gradlab.errors import check_known
from gradlab.evaluate.tasks import STS_TASKS, TRANSFER_TASKS
from gradlab.files import write_json

STYLES = ("text", "markdown", "latex")


@dataclass(frozen=True)
class EvaluationResult:
    """Scores of an encoder, with everything that decided them.

    Attributes:
        scores: task -> score name -> value. Correlations are in [-1, 1] and accuracies in [0, 1]; only the table
            multiplies by 100. STS tasks have "all", "mean", "wmean", "subset/NAME" and "pairs" (their number); transfer tasks have "devacc",
            "chosen" (the regularisation), and on the test split "acc" (MRPC also "f1").
        model: what was evaluated, in the caller's words.
        pooler: how sentences were pooled, in the caller's words.
        split: "test" or "dev".
        aggregation: how the sub-sets of an STS task become one number: "all", "mean" or "wmean".
        classifier: classifier of the transfer tasks, in words; empty if there were none.
        folds: folds of the transfer tasks, outer and inner.
        seed: seed of folds and classifier.
        not_evaluated: task -> why it was left out.
        versions: of gradlab and the packages it used.
    """

    scores: dict[str, dict[str, Any]]
    model: str = "unnamed"
    pooler: str = "unnamed"
    split: str = "test"
    aggregation: str = "all"
    classifier: str = ""
    folds: int = 10
    seed: int = 1111
    not_evaluated: dict[str, str] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)

    @property
    def sts(self) -> dict[str, float]:
        """Spearman's correlation of each STS task, by the chosen aggregation."""
        return {task: self.scores[task][self.aggregation] for task in STS_TASKS if task in self.scores}

    def transfer(self, score: str | None = None) -> dict[str, float]:
        """Accuracy of each transfer task: "acc" (default on the test split) or "devacc" (default on dev)."""
        score = score or ("acc" if self.split == "test" else "devacc")
        return {task: self.scores[task][score] for task in TRANSFER_TASKS if task in self.scores}

    @property
    def averages(self) -> dict[str, float]:
        """Mean over the STS tasks and over the transfer tasks that were evaluated, seven each when complete."""
        groups = {"sts": self.sts, "transfer": self.transfer()}
        return {name: fmean(values.values()) for name, values in groups.items() if values}

    def table(self, style: str = "text") -> str:
        """Tables as papers print them: one row of numbers times 100, tasks in the usual order, the average last.

        Args:
            style: "text", "markdown" or "latex" (rows for a tabular environment).

        Raises:
            GradlabError: for another style.
        """
        check_known("table style", style, STYLES)
        blocks = [f"Model {self.model}, pooler {self.pooler}, {self.split} split"]
        if self.sts:
            title = f"STS: Spearman's correlation x 100, aggregation {self.aggregation!r}"
            blocks.append(_block(title, {"Spearman": self.sts}, style))
        if self.transfer():
            title = f"Transfer: accuracy in %, {self.classifier}, {self.folds} folds, seed {self.seed}"
            wanted = ("acc", "devacc") if self.split == "test" else ("devacc",)
            blocks.append(_block(title, {score: self.transfer(score) for score in wanted}, style))
        if self.not_evaluated:
            reasons = "\n".join(f"  {task}: {reason}" for task, reason in self.not_evaluated.items())
            blocks.append(f"Not evaluated:\n{reasons}")
        return "\n\n".join(blocks)

    def to_dict(self) -> dict[str, Any]:
        """Everything, with the averages, ready for JSON; a correlation that does not exist is None."""
        content: dict[str, Any] = _without_nan({**asdict(self), "averages": self.averages})
        return content

    def to_json(self) -> str:
        """:meth:`to_dict` as indented JSON."""
        return json.dumps(self.to_dict(), indent=2, allow_nan=False)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write :meth:`to_json` to a file, whole or not at all."""
        return write_json(path, self.to_dict())

    def __str__(self) -> str:
        return self.table()


def _without_nan(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nan(item) for key, item in value.items()}
    return None if isinstance(value, float) and math.isnan(value) else value


def _block(title: str, rows: dict[str, dict[str, float]], style: str) -> str:
    """One table; ``rows`` maps a row's name to its values by task."""
    tasks = list(next(iter(rows.values())))
    average = "Avg." if len(tasks) == 7 else f"Avg. of {len(tasks)}"
    cells = [["", *tasks, average]]
    for name, values in rows.items():
        numbers = [*values.values(), fmean(values.values())]
        cells.append([name, *("-" if math.isnan(x) else f"{100 * x:.2f}" for x in numbers)])
    return "\n".join([title, *_ruled(cells, style)])


def _ruled(cells: list[list[str]], style: str) -> Sequence[str]:
    if style == "latex":
        return [" & ".join(row) + r" \\" for row in cells]
    widths = [max(len(row[column]) for row in cells) for column in range(len(cells[0]))]
    lines = [
        [row[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(row[1:], widths[1:], strict=True))]
        for row in cells
    ]
    if style == "text":
        return ["  ".join(line).rstrip() for line in lines]
    rule = ["-" * widths[0], *("-" * (width - 1) + ":" for width in widths[1:])]
    return ["", *("| " + " | ".join(line) + " |" for line in [lines[0], rule, *lines[1:]])]
