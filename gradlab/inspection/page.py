"""The inspection as a self-contained HTML page with searchable, sortable tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from gradlab.inspection.advice import NOTHING, Advice

if TYPE_CHECKING:
    import pandas as pd

# title, table, hint, {column: heading}, column that selects rows or None for all, column to sort by or None
_Shown = tuple[str, str, str, dict[str, str], str | None, str | None]
_LISTS: tuple[_Shown, ...] = (
    ("Texts that say the same", "candidates",
     "Likely false negatives, looked for in the whole corpus. The two last columns are empty where the pair was not made to meet in a batch.",
     {"kind": "kind", "first": "one", "second": "other", "overlap": "words shared", "cosine": "cosine", "row_pairs": "pairs of rows",
      "share_when_met": "share when they meet", "push_when_met": "push when they meet"}, None, None),
    ("Hard negatives", "hard-negatives",
     "Times average: how often the push of the anchor's average negative it receives. Without numbers: no batch met it.",
     {"verdict": "verdict", "sentence": "anchor", "positive": "positive", "hard_negative": "hard negative", "share": "share of the anchor's push",
      "times_average": "times average", "cosine": "cosine", "positive_cosine": "cosine of the positive"}, None, None),
    ("Largest push", "pairs", "Pairs that the loss pushes apart most in one batch, and their share in all the push of the anchor.",
     {"first": "anchor", "second": "negative", "push": "push", "share": "share of the anchor's push", "cosine": "cosine",
      "positive_cosine": "cosine of the positive"}, None, None),
    ("Largest pull", "sentences", "Anchors that their positives pull most, over the batches in which they were met.",
     {"sentence": "anchor", "pull": "pull", "dissipation": "dissipation", "push_given": "push given", "times_met": "batches"}, None, "pull"),
    ("Most pushed", "sentences",
     "Sentences that receive most push as negatives of others, and of how many anchors it comes (effective number).",
     {"sentence": "sentence", "push_received": "push received", "pushers": "anchors that push it", "pull": "pull", "times_met": "batches"},
     None, "push_received"),
    ("Left alone", "sentences", "Anchors with a dissipation below 1%: the loss no longer moves them.",
     {"sentence": "anchor", "dissipation": "dissipation", "push_given": "push given", "times_met": "batches"}, "closed", "-dissipation"),
    ("Other near neighbours", "neighbours",
     "The nearest pairs by embedding that are not candidates, because their words or their numbers differ.",
     {"first": "one", "second": "other", "cosine": "cosine", "centred_cosine": "cosine without the mean"}, None, None),
)  # fmt: skip
MOST = 500


def render(
    table: Callable[[str], pd.DataFrame], several: bool, numbers: Mapping[str, Any], advice: Sequence[Advice]
) -> str:
    """Return the page of an `Inspection`'s tables, numbers and advice as HTML, with all sentences escaped.

    ``several`` says whether texts have several columns, whose names are then shown.
    """
    from gradlab.report.templates import render as fill
    from gradlab.report.templates import script_json

    lists = [one for entry in _LISTS if (one := _list(table, several, entry)) is not None]
    return fill(
        "gradlab.inspection",
        "inspect.html",
        n=numbers,
        advice=advice,
        nothing=NOTHING,
        lists=lists,
        data=script_json(lists),
    )


def _list(table: Callable[[str], pd.DataFrame], several: bool, shown: _Shown) -> dict[str, Any] | None:
    """Return what the page shows of a table; None if the table is empty."""
    title, name, hint, columns, only, by = shown
    rows = table(name)
    if only is not None:
        rows = rows[rows[only] > 0]
    if by is not None:
        rows = rows.sort_values(by.removeprefix("-"), ascending=by.startswith("-"), kind="stable")
    if not len(rows):
        return None
    total, rows = len(rows), rows.head(MOST)
    cells = {name: values for name in columns if (values := _cells(rows, name, several)) is not None}
    return {
        "title": title,
        "hint": hint,
        "total": total,
        "headings": [columns[name] for name in cells],
        "text": [name not in rows or rows[name].dtype.kind not in "fiu" for name in cells],
        "rows": [list(row) for row in zip(*cells.values(), strict=True)],
    }


def _cells(rows: pd.DataFrame, name: str, several: bool) -> list[Any] | None:
    """Return a column as texts with their places, numbers or words; None if there is no such column."""
    if name in ("first", "second"):
        places, roles = rows[f"{name}_row"], rows.get(f"{name}_column")
    elif name == "sentence" or (name in rows and name in ("positive", "hard_negative")):
        places, roles = rows["row"], rows["column"] if name == "hard_negative" else [name] * len(rows)
    else:
        return _values(rows[name]) if name in rows else None
    named = {"sentence": "anchor", "positive": "positive"}
    where = [f"row {row}" for row in places]
    if roles is not None and several:
        words = [named.get(role, f"hard negative ({role})") for role in roles]
        where = [f"{row}, {role}" for row, role in zip(where, words, strict=True)]
    return [list(pair) for pair in zip(where, rows[name], strict=True)] if name in rows else where


def _values(column: pd.Series) -> list[Any]:
    """Return values for JSON: four significant digits, and null for values that are not finite."""
    if column.dtype.kind != "f":
        return column.tolist()
    return [float(f"{value:.4g}") if np.isfinite(value) else None for value in column]
