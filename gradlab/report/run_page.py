"""The report of one run, as a self-contained HTML page or as Markdown."""

from __future__ import annotations

from typing import Any

from gradlab.monitor.expected_loss import loss_at_first
from gradlab.monitor.history import Score
from gradlab.monitor.numbers import percent, score, short
from gradlab.monitor.run_reader import FINISHED, RUNNING, Recording
from gradlab.monitor.verdicts import judge_run
from gradlab.report import cards
from gradlab.report.templates import render


def render_run(run: Recording, refresh: int | None = None, markdown: bool = False) -> str:
    """Return a run's page as HTML, or as Markdown without curves for a pull request or model card.

    While the run goes on, a browser reloads the page after ``refresh`` seconds.
    """
    history, scores = run.history, run.history.scores()
    content: dict[str, Any] = {
        "title": run.name,
        "facts": _facts(run),
        "score": scores[0].title if scores else "",
        "ends": _ends(scores[0]) if scores else [],
        "judgement": judge_run(run),
        "notes": [*run.watch.get("notes", []), *([run.damage] if run.damage else []), *_cost(run)],
    }
    if markdown:
        return render("gradlab.report", "run.md", **content, settings=run.settings)
    alone = {run.name: history}
    return render(
        "gradlab.report",
        "run.html",
        **content,
        refresh=refresh if run.status == RUNNING else None,
        sections={
            "Loss and scores": cards.training(alone, _references(run)),
            "Optimiser": cards.optimiser(alone),
            "Gradient and embeddings": cards.diagnostics(run),
        },
        folds={
            "For researchers": cards.diagnostics(run, cards.FOR_RESEARCHERS),
            "Distributions, at first and at last": cards.distributions(history),
            "More curves": cards.others(alone),
        },
        tables={"Settings": run.settings, "Versions": run.manifest.get("versions", {})},
    )


def headline(run: Recording) -> str:
    """Return the main score of a run in one line; empty if there is none."""
    scores = run.history.scores()
    if not scores:
        return ""
    return f"{scores[0].title}: " + ", ".join(
        f"{when} {note} {value}" if when == "before" else f"{when} {value} at {note}"
        for when, value, note in _ends(scores[0])
    )


def _ends(one: Score) -> list[tuple[str, str, str]]:
    """Return a score before training, at its best and at the end: (when, value, at which step)."""
    known = [] if one.before is None else [("before", score(one.before), "training")]
    ends = (("best", one.best), ("last", one.last))
    return known + [(name, score(point[1]), f"step {point[0]}") for name, point in ends if point]


def _references(run: Recording) -> list[tuple[float, str]]:
    """Return the loss of guessing and the usual loss at the first record's cosines, with labels."""
    loss = run.used.loss
    first = loss_at_first(loss, run.history) if loss and not loss.surrogate else None
    found = [("guessing", run.guessing())]
    found += [(f"usual at the cosines of step {first[0]}", first[1])] if first else []
    return [(value, f"{label}: {short(value)}") for label, value in found if value is not None]


def _facts(run: Recording) -> str:
    settings, total = run.settings, run.history.total_steps
    parts = [
        f"loss {settings['loss']}" if "loss" in settings else "",
        settings.get("model", ""),
        f"last record at step {run.history.last_step()}" + (f" of {total}" if total else ""),
        "finished" if run.status == FINISHED else "not finished" if run.status else "",
    ]
    return " · ".join(part for part in parts if part)


def _cost(run: Recording) -> list[str]:
    results = run.manifest.get("results", {})
    seconds, whole = results.get("seconds"), results.get("run_seconds")
    if not run.watched or not seconds or not whole:
        return []
    return [f"Watching took {short(seconds)} s, {percent(seconds / whole)} of the run."]
