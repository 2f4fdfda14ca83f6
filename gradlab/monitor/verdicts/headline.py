"""What does a judgement of a run say first?"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from gradlab.monitor.verdicts.gradient import NOT_APPLICABLE
from gradlab.numbers import score as number
from gradlab.verdict import BAD, GOOD, WATCH, Verdict, graded, subjects, unjudged


def headline_of(verdicts: Sequence[Verdict], running: bool) -> str:
    """Return the change most likely to help, and what was judged, in a few sentences.

    ``verdicts`` are in the order from the worst to the best; ``running`` if the run goes on.
    """
    bad, watch = graded(verdicts, BAD), graded(verdicts, WATCH)
    sentences = []
    if bad or watch:
        first = verdicts[0]
        sentences.append(f"{first.title}: {_briefly(first.finding)} {first.change}".strip())
        sentences += _rising_score(verdicts)
        further = [verdict for verdict in bad if verdict.title != first.title]
        watched = [verdict for verdict in watch if verdict.title != first.title]
        also = "Also bad" if first.grade == BAD else "Bad"
        sentences += [f"{also}: {subjects(further)}."] if further else []
        sentences += [f"Keep an eye on: {subjects(watched)}."] if watched else []
    else:
        sound = [v for v in graded(verdicts, GOOD) if v.subject != "Run"]
        sentences.append(f"Nothing wrong was found{' so far' if running else ''}.")
        if sound:
            names = subjects(sound)
            sentences.append(f"{names.capitalize()} {_look(sound)} sound.")
            if any(verdict.name in ("no score", "no baseline") for verdict in verdicts):
                sentences.append("Whether the model improves is not known.")
        else:
            (standing,) = [verdict for verdict in verdicts if verdict.subject == "Run"]
            sentences = [f"Nothing can be said{' yet' if running else ''}. {standing.finding}"]
        sentences += [_briefly(v.finding) for v in verdicts if v.name == "gain within swing"]
    applicable = [verdict for verdict in verdicts if verdict.name != NOT_APPLICABLE]
    return " ".join([*sentences, unjudged(applicable)]).strip()


def _rising_score(verdicts: Sequence[Verdict]) -> list[str]:
    """Return by how much the score rose, whatever else is wrong."""
    for verdict in graded(verdicts, GOOD):
        before, last = (verdict.evidence.get(name, math.nan) for name in ("before", "last"))
        if verdict.name == "score" and last > before:
            return [f"The score rose all the same, from {number(before)} to {number(last)}."]
    return []


def _briefly(finding: str) -> str:
    """Return the first sentence of a finding."""
    return re.split(r"(?<=[.!?]) (?=[A-Z“])", finding, maxsplit=1)[0]


def _look(verdicts: Sequence[Verdict]) -> str:
    """Return the verb for the subjects of verdicts: scores look, and a loss looks."""
    is_single = len({verdict.title for verdict in verdicts}) == 1
    return "looks" if is_single and not re.search(r"[^s]s$", verdicts[0].subject) else "look"
