"""The inspection as one HTML page that can be searched and sorted and needs nothing but itself."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from gradlab._version import __version__
from gradlab.inspection.advice import Advice, percent_exactly
from gradlab.inspection.measured import Measured
from gradlab.report.numbers import percent, short

if TYPE_CHECKING:
    import pandas as pd

# title, table, hint, columns of the table and their headings, rows of the table or None for all, sorted by
_LIKELY = ("Likely false negatives", "candidates", "Texts of the whole corpus that say the same. Push and share are empty where the pair was not made to meet.",
           {"kind": "kind", "first": "one", "second": "other", "overlap": "words shared", "cosine": "cosine", "row_pairs": "row pairs",
            "push_when_met": "push when met", "share_when_met": "share when met"}, None, None)  # fmt: skip
_LISTS: tuple[tuple[str, str, str, dict[str, str], str | None, str | None], ...] = (
    _LIKELY,
    ("Largest push", "pairs", "GD·W of the pair in one batch; share is that in all the push of its anchor.",
     {"first": "anchor", "second": "negative", "push": "push", "share": "share", "cosine": "cosine", "positive_cosine": "cosine of positive"},
     None, None),
    ("Largest pull", "sentences", "Anchors that their positives pull most, over the batches in which they were met.",
     {"sentence": "anchor", "pull": "pull", "dissipation": "dissipation", "push_given": "push given", "times_met": "batches"}, None, "pull"),
    ("Hubs", "sentences", "Sentences that receive most push as negatives of others. Pushers: how many anchors that comes from (effective number).",
     {"sentence": "sentence", "push_received": "push received", "pushers": "pushers", "pull": "pull", "times_met": "batches"}, None, "push_received"),
    ("Closed gates", "sentences", "Anchors with a dissipation below 1%: the loss leaves them alone.",
     {"sentence": "anchor", "dissipation": "dissipation", "push_given": "push given", "times_met": "batches"}, "closed", "-dissipation"),
    ("Hard negatives", "hard-negatives", "Times average: how often the mean push of the anchor's negatives it receives.",
     {"verdict": "verdict", "sentence": "anchor", "positive": "positive", "hard_negative": "hard negative", "share": "share",
      "times_average": "times average", "cosine": "cosine", "positive_cosine": "cosine of positive"}, None, None),
    ("Other near neighbours", "neighbours", "Nearest pairs by embedding that are no candidates: their words, or their numbers, differ.",
     {"first": "one", "second": "other", "cosine": "cosine", "centred_cosine": "centred cosine"}, None, None),
)  # fmt: skip
MOST = 500


def render(found: Measured, numbers: Mapping[str, Any], advice: Sequence[Advice]) -> str:
    """The page, as HTML; sentences are shown as text whatever they hold.

    Args:
        found: whose tables are shown.
        numbers: of `gradlab.inspection.numbers.summarize`.
        advice: drawn from them.
    """
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("gradlab.inspection", "templates"), autoescape=True, undefined=StrictUndefined
    )
    lists = [one for entry in _LISTS if (one := _list(found, *entry)) is not None]
    facts = [
        f"{numbers['sentences']:,} sentences",
        f"loss {numbers['loss']}",
        f"{numbers['batches']:,} batches of {numbers['batch_size']}",
    ]
    figures = [
        ("likely false negatives", f"{numbers['candidate_lines']:,}"),
        ("of all push goes to them", percent_exactly(numbers["candidate_share_of_push"])),
        ("of a pair's push where they meet", percent(numbers["candidate_share_when_met"])),
        ("of the anchors are closed", percent(numbers["closed"])),
        ("of an anchor's push is its hardest negative's", percent(numbers["hardest_share"])),
        ("mean dissipation", short(numbers["dissipation"])),
    ]
    return environment.get_template("inspect.html").render(
        version=__version__,
        facts=" · ".join(facts),
        figures=figures,
        advice=advice,
        lists=[{key: one[key] for key in ("title", "hint", "total")} for one in lists],
        data=_script(lists),
    )


def _list(
    found: Measured,
    title: str,
    table: str,
    hint: str,
    columns: dict[str, str],
    only: str | None,
    by: str | None,
) -> dict[str, Any] | None:
    """What the page shows of a table; None if that is empty."""
    rows = found.table(table)
    if only is not None:
        rows = rows[rows[only] > 0]
    if by is not None:
        rows = rows.sort_values(by.removeprefix("-"), ascending=by.startswith("-"), kind="stable")
    if not len(rows):
        return None
    total, rows = len(rows), rows.head(MOST)
    if "sentence" in columns and "sentence" not in rows:
        columns = {"row" if name == "sentence" else name: label for name, label in columns.items()}
    for name in ("first", "second"):
        if name in columns and name not in rows:
            columns = {f"{name}_row" if key == name else key: label for key, label in columns.items()}
    kept = {name: label for name, label in columns.items() if name in rows}
    return {
        "title": title,
        "hint": hint,
        "total": total,
        "headings": list(kept.values()),
        "text": [rows[name].dtype.kind not in "fiu" for name in kept],
        "rows": [list(row) for row in zip(*(_values(rows[name]) for name in kept), strict=True)],
    }


def _values(column: pd.Series) -> list[Any]:
    """Values for JSON: four significant digits, null for what is not a number."""
    if column.dtype.kind != "f":
        return column.tolist()
    return [float(f"{value:.4g}") if np.isfinite(value) else None for value in column]


def _script(lists: list[dict[str, Any]]) -> Any:
    """JSON that may stand in a script element: no text in it can end the element or begin another."""
    from markupsafe import Markup

    text = json.dumps(lists, ensure_ascii=False, allow_nan=False)
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(text)
