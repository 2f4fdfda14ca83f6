"""The report of one run, as a self-contained HTML page or as Markdown."""

from __future__ import annotations

import math
from typing import Any

from gradlab.gradient.statistics import ACTIVE
from gradlab.monitor.expected_loss import loss_at_first
from gradlab.monitor.metrics import TRAIN
from gradlab.monitor.run_reader import FINISHED, RUNNING, Recording
from gradlab.monitor.score import Score, readable
from gradlab.monitor.verdicts import judge_run
from gradlab.monitor.verdicts.records import ENOUGH_RECORDS, Records
from gradlab.monitor.verdicts.training_loss import course_of
from gradlab.numbers import percent, short
from gradlab.numbers import score as number
from gradlab.report import run_charts
from gradlab.templates import render
from gradlab.verdict import Verdict

# Statistics for researchers, by subject: their names, and the series whose ends follow.
TERMS = {
    "Learning": {
        "Mean gradient dissipation": "gradient_dissipation",
        "Mean relative push": "relative_push",
        f"The share of anchors above {ACTIVE:g}": "active",
    },
    "Hard negatives": {
        "The hardest negative's share of the weight": "hardest_share",
        "An equal share": "uniform_share",
    },
    "Pull and push": {
        "The median ratio": "ratio_median",
        "The share of triples that satisfy Lemma 1": "lemma_share",
        "Pull over push of both views together": "ratio_both_sides",
        "Hubness (Gini coefficient of what sentences receive as negatives)": "hubness",
    },
    "Spread": {
        "The effective rank of a batch": "effective_rank",
        "Before any head, different sentences' mean cosine": "encoder_cosine",
    },
}

# Settings of the loss that the heading of a page says.
HEADING = ("temperature", "scale", "margin")


def render_run(run: Recording, refresh: int | None = None, markdown: bool = False) -> str:
    """Return a run's page as HTML, or as Markdown without curves for a pull request or model card.

    While the run goes on, a browser reloads the page after ``refresh`` seconds.
    """
    history, scores, judgement = run.history, run.history.scores(), judge_run(run)
    content: dict[str, Any] = {
        "title": run.name,
        "facts": _facts(run),
        "score": scores[0].title if scores else "",
        "ends": _ends(scores[0]) if scores else [],
        "judgement": judgement,
        "notes": [
            *run.watch.get("notes", []),
            *([run.damage] if run.damage else []),
            *_clipping(run),
            *_cost(run),
        ],
    }
    if markdown:
        return render("gradlab.report", "run.md", **content, settings=run.settings)
    histories = {run.name: history}
    return render(
        "gradlab.report",
        "run.html",
        **content,
        terms=[_terms(run, verdict) for verdict in judgement.verdicts],
        refresh=refresh if run.status == RUNNING else None,
        sections={
            "Loss and scores": run_charts.training(histories, _references(run)),
            "Optimiser": run_charts.optimiser(histories),
            "Gradient and embeddings": run_charts.diagnostics(run),
        },
        folds={
            "For researchers": run_charts.diagnostics(run, run_charts.FOR_RESEARCHERS),
            "Distributions, at first and at last": run_charts.distributions(history),
            "More curves": run_charts.remaining(histories),
        },
        tables={"Settings": run.settings, "Versions": run.manifest.get("versions", {})},
    )


def score_line(run: Recording) -> str:
    """Return the main score of a run in one line; empty if there is none."""
    scores = run.history.scores()
    if not scores:
        return ""
    return f"{scores[0].title}: " + ", ".join(
        f"{when} {note} {value}" if when == "before" else f"{when} {value} at {note}"
        for when, value, note in _ends(scores[0])
    )


def _terms(run: Recording, verdict: Verdict) -> dict[str, str]:
    """Return the statistics behind a verdict by name: where they began and where they are."""
    records = Records(run.history, verdict.dataset)
    courses = {}
    for name, series in TERMS.get(verdict.subject, {}).items():
        recorded = records.recorded_as(series)
        courses[name if recorded == series else readable(recorded)] = records.ends(series)
    return {name: course_of(ends) for name, ends in courses.items() if ends}


def _ends(score: Score) -> list[tuple[str, str, str]]:
    """Return a score before training, at its best and at the end: (when, value, at which step)."""
    before = [] if score.before is None else [("before", number(score.before), "training")]
    best = "best"
    if score.best and score.before is not None and score.is_quality:
        best = "best after training began" if score.best[1] < score.before else best
    ends = ((best, score.best), ("last", score.last))
    return before + [(name, number(end[1]), f"step {end[0]}") for name, end in ends if end]


def _references(run: Recording) -> list[tuple[float, str]]:
    """Return the loss of guessing and the usual loss at the first record's cosines, with labels."""
    used = run.used.loss
    first = loss_at_first(used, run.history) if used and not used.surrogate else None
    references = [("guessing", run.guessing())]
    references += [(f"expected at the cosines of step {first[0]}", first[1])] if first else []
    return [(loss, f"{label}: {short(loss)}") for label, loss in references if loss is not None]


def _facts(run: Recording) -> str:
    settings, total = run.settings, run.history.total_steps
    of_loss = run.used.settings
    size = settings.get("per_device_train_batch_size", settings.get("batch_size"))
    facts = [
        f"loss {settings['loss']}" if "loss" in settings else "",
        *(f"{name} {short(of_loss[name])}" for name in HEADING if name in of_loss),
        f"{int(rows):,} rows" if (rows := settings.get("training_rows", "")).isdigit() else "",
        f"labels {settings['labels']}" if "labels" in settings else "",
        f"batches of {size}" if size else "",
        f"learning rate {settings['learning_rate']}" if "learning_rate" in settings else "",
        settings.get("model", ""),
        f"last record at step {run.history.last_step()}" + (f" of {total}" if total else ""),
        "finished" if run.status == FINISHED else "not finished" if run.status else "",
    ]
    return " · ".join(fact for fact in facts if fact)


def _clipping(run: Recording) -> list[str]:
    """Say that all logged gradients were clipped, if so; that is no fault with Adam."""
    limit = run.manifest.get("config", {}).get("max_grad_norm")
    norms = run.history.points(TRAIN, "grad_norm").values()
    finite = [norm for norm in norms if math.isfinite(norm)]
    if not isinstance(limit, int | float) or len(finite) < ENOUGH_RECORDS or not limit > 0:
        return []
    if min(finite) <= limit:
        return []
    return [
        f"All logged gradients were clipped: their norms are {short(min(finite))} to "
        f"{short(max(finite))}, and max_grad_norm is {short(limit)}. That is harmless with Adam; "
        "with SGD, steps are that much smaller."
    ]


def _cost(run: Recording) -> list[str]:
    results = run.manifest.get("results", {})
    seconds, whole = results.get("seconds"), results.get("run_seconds")
    if not run.watched or not seconds or not whole:
        return []
    return [f"Watching took {short(seconds)} s, {percent(seconds / whole)} of the run."]
