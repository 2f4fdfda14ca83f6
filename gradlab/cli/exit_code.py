"""The options ``--json`` and ``--fail-on``, and the exit code that follows from a grade."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable
from typing import Any

import click

from gradlab.cli.options import option
from gradlab.verdict import BAD, GOOD, GRADES, NOT_JUDGED, WATCH, Grade

# Choices of --fail-on: the best grade that fails; those that are worse fail too.
LIMITS: dict[str, Grade | None] = {
    "bad": BAD,
    "watch": WATCH,
    "not-judged": NOT_JUDGED,
    "never": None,
}

json_option = option("--json as_json", "Print JSON, and nothing else.", False)


def fail_option(default: str | None, note: str = "") -> Callable[[Any], Any]:
    """Return the option ``--fail-on``; ``note`` stands in the help for a default that varies."""
    text = "Exit with code 1 if something has this grade or a worse one." + note
    return option("--fail-on", text, default, list(LIMITS))


def worst(grades: Iterable[Grade]) -> Grade:
    """Return the worst of some grades; `GOOD` without any."""
    return min(grades, key=list(GRADES).index, default=GOOD)


def print_json(grade: Grade, content: dict[str, Any]) -> None:
    """Print the outcome of a command, which begins with its grade, as JSON."""
    from gradlab.files import for_json

    click.echo(json.dumps(for_json({"grade": grade} | content), indent=2, ensure_ascii=False))


def end_with(grade: Grade, limit: str) -> None:
    """Exit with code 1 if a grade is not better than the limit of ``--fail-on``."""
    failing = LIMITS[limit]
    order = list(GRADES)
    if failing is not None and order.index(grade) <= order.index(failing):
        sys.exit(1)
