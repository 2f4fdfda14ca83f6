"""The report of one run: a page of HTML that needs nothing but itself."""

from __future__ import annotations

from collections.abc import Sequence

from gradlab._version import __version__
from gradlab.monitor.findings import judged
from gradlab.monitor.recording import Recording
from gradlab.monitor.scores import Score, scores_of
from gradlab.report import cards, numbers
from gradlab.report.numbers import percent, short
from gradlab.report.templates import render
from gradlab.report.words import aspects

PACKAGE = "gradlab.report"


def render_run(run: Recording) -> str:
    """The page of a run, as HTML."""
    history, found = run.history, run.findings
    subjects, scores = judged(history), scores_of(history)
    alone = {run.name: history}
    return render(
        PACKAGE,
        "run.html",
        title=run.name,
        facts=_facts(run),
        version=__version__,
        score=scores[0].title if scores else "",
        ends=ends(scores[0]) if scores else [],
        findings=found,
        subjects=subjects,
        listed=listed(subjects),
        notes=[*run.notes, *_cost(run)],
        aspects=aspects(history, found),
        sections={
            "Loss and scores": cards.training(alone),
            "Gradient and embeddings": cards.diagnostics(history),
            "Distributions, at first and at last": cards.distributions(history),
        },
        more=cards.others(alone),
        tables={"Settings": run.settings, "Versions": run.manifest.get("versions", {})},
    )


def ends(score: Score) -> list[tuple[str, str, str]]:
    """A score before training, at best and at last: (when, value, at which step)."""
    known = [] if score.before is None else [("before", numbers.score(score.before), "training")]
    for name, point in (("best", score.best), ("last", score.last)):
        known += [] if point is None else [(name, numbers.score(point[1]), f"step {point[0]}")]
    return known


def headline(run: Recording) -> str:
    """The scores of a run in one line; empty if there are none."""
    scores = scores_of(run.history)
    if not scores:
        return ""
    return f"{scores[0].title}: " + ", ".join(
        f"{when} {note} {value}" if when == "before" else f"{when} {value} at {note}"
        for when, value, note in ends(scores[0])
    )


def listed(words: Sequence[str]) -> str:
    """``"a, b and c"``."""
    return " and ".join(part for part in (", ".join(words[:-1]), *words[-1:]) if part)


def _facts(run: Recording) -> str:
    settings, history = run.settings, run.history
    steps = f"step {history.last_step()}"
    if history.total_steps:
        steps += f" of {history.total_steps}"
    status = run.manifest.get("status", "")
    parts = [
        f"loss {settings['loss']}" if "loss" in settings else "",
        settings.get("model", ""),
        steps,
        {"running": "not finished", "finished": "finished"}.get(str(status), ""),
    ]
    return " · ".join(part for part in parts if part)


def _cost(run: Recording) -> list[str]:
    results = run.manifest.get("results", {})
    seconds, whole = results.get("seconds"), results.get("run_seconds")
    if not run.watched or not seconds or not whole:
        return []
    return [f"Watching took {short(seconds)} s, {percent(seconds / whole)} of the run."]
