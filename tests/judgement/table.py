"""The table of the labelled set in docs/watch.md."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.judgement import scoring
from tests.judgement.case import HALVES

PAGE = Path(__file__).parents[2] / "docs" / "watch.md"
BEGIN, END = "<!-- judgement: begin -->", "<!-- judgement: end -->"
HEAD = (
    "| set | faulty | found | cause named | sound | false *bad* | false *watch* | not judged |\n"
    "|---|--:|--:|--:|--:|--:|--:|--:|"
)
NAMES = {"first": "first half", "held_out": "held-out half"}
AT_FIRST = {"first": "at first", "held_out": "first score"}
NOW = {"first": "now", "held_out": "mended since, no estimate"}


def table() -> str:
    """Return the table of the first score and of the present one."""
    rows = [HEAD]
    for path, times in ((scoring.FIRST_SCORE, AT_FIRST), (scoring.SCORE, NOW)):
        outcomes = scoring.read(path) if path.exists() else {}
        for half in HALVES:
            of_half = {
                key: outcome for key, outcome in outcomes.items() if key.startswith(f"{half}/")
            }
            if of_half:
                rows.append(_row(f"{NAMES[half]}, {times[half]}", of_half))
    return "\n".join(rows)


def page(text: str) -> str:
    """Return the page with the table between its markers."""
    before, _, tail = text.partition(BEGIN)
    _, _, after = tail.partition(END)
    return f"{before}{BEGIN}\n{table()}\n{END}{after}"


def _row(title: str, outcomes: Mapping[str, Mapping[str, Any]]) -> str:
    counts = scoring.counts(outcomes)
    faults, good = counts["found"][1], counts["false bad"][1]
    open_ = sum("report" in outcome["not judged"] for outcome in outcomes.values())
    cells = [
        title, str(faults), _share(*counts["found"]), _share(*counts["named"]),
        str(good), _share(*counts["false bad"]), _share(*counts["false watch"]),
        _share(open_, len(outcomes)),
    ]  # fmt: skip
    return f"| {' | '.join(cells)} |"


def _share(count: int, of: int) -> str:
    low, high = scoring.interval(count, of)
    return f"{count} ({low:.0%} to {high:.0%})"
