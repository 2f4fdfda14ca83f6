"""The report of several runs: differing settings, scores, and curves of all runs."""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gradlab import numbers
from gradlab.errors import listed
from gradlab.monitor.metrics import History
from gradlab.monitor.run_reader import RUNNING, Recording
from gradlab.monitor.score import Score
from gradlab.monitor.verdicts import Judgement, judge_run
from gradlab.report import run_charts
from gradlab.templates import render
from gradlab.verdict import BAD, NOT_JUDGED, WATCH, Verdict, graded, subjects

# Settings that say where a run is, and the setting that distinguishes repetitions of a run.
PLACES, SEED = {"output"}, "seed"
# Longest label in a legend; limit on the runs of a failure that are named.
LONGEST_LABEL, MOST_NAMES = 32, 6


@dataclass(frozen=True)
class ComparedRun:
    """One of several runs, with the settings that differ and the score that most runs have."""

    run: Recording
    label: str  # name in legends
    settings: dict[str, str]
    score: Score | None
    judgement: Judgement

    @property
    def point(self) -> dict[str, str]:
        return {name: value for name, value in self.settings.items() if name != SEED}


def render_runs(runs: Sequence[Recording], title: str, markdown: bool = False) -> str:
    """Return the page of several runs as HTML, or as Markdown without curves."""
    entries = _compared(runs)
    # Watched runs and runs of `gradlab train` have different settings, so they never share a group.
    points: dict[tuple[bool, str], list[ComparedRun]] = {}
    for entry in entries:
        points.setdefault((entry.run.watched, str(entry.point)), []).append(entry)
    groups = list(points.values())
    lines, notes = _lines(entries, groups)
    notes += [f"{run.name}: {run.damage}" for run in runs if run.damage]
    content: dict[str, Any] = {
        "title": title,
        "facts": _facts(runs, title),
        "count": len(runs),
        "headline": _headline(groups),
        "judgements": _judged(entries),
        "open": _not_judged(entries),
        "notes": notes,
        "groups": _table_of_groups(groups if len(groups) < len(entries) else []),
        "runs": _table_of_runs(entries, list(lines)),
    }
    if markdown:
        return render("gradlab.report", "runs.md", **content)
    first, *further = (run.settings for run in runs)
    common = {n: text for n, text in first.items() if all(own.get(n) == text for own in further)}
    return render(
        "gradlab.report",
        "runs.html",
        **content,
        sections={
            "Loss and scores": run_charts.training(lines),
            "Optimiser": run_charts.optimiser(lines),
            "Gradient and embeddings": run_charts.overlaid(lines),
        },
        folds={
            "For researchers": run_charts.overlaid(lines, run_charts.FOR_RESEARCHERS),
            "More curves": run_charts.remaining(lines),
        },
        tables={"Settings of all": common},
    )


def _compared(runs: Sequence[Recording]) -> list[ComparedRun]:
    scores = [{score.name: score for score in run.history.scores()} for run in runs]
    recorded = [name for by_name in scores for name in by_name]
    main = max(dict.fromkeys(recorded), key=recorded.count, default="")
    settings = [run.settings for run in runs]
    names = dict.fromkeys(name for own in settings for name in own if name not in PLACES)
    # A setting that some runs lack is of another version; a loss's settings have defaults there.
    shared = [name for name in names if "." in name or all(name in own for own in settings)]
    differing = [name for name in shared if len({own.get(name) for own in settings}) > 1]
    entries: list[ComparedRun] = []
    labels: set[str] = set()
    for run, own, by_name in zip(runs, settings, scores, strict=True):
        different = {name: own.get(name, "default") for name in differing}
        label = _unused(_label(different, run.name), labels)
        labels.add(label)
        entries.append(ComparedRun(run, label, different, by_name.get(main), judge_run(run)))
    return entries


def _unused(label: str, labels: set[str]) -> str:
    """Return a label, with a number if another run has it."""
    numbered = (f"{label} ({number})" for number in itertools.count(2))
    return next(text for text in itertools.chain([label], numbered) if text not in labels)


def _label(settings: dict[str, str], otherwise: str) -> str:
    """Label settings in words, such as ``learning rate 3e-05``; ``otherwise`` if too long."""
    words = _in_words(list(settings))
    label = ", ".join(f"{words[name]} {text}" for name, text in settings.items())
    return label if 0 < len(label) <= LONGEST_LABEL else otherwise


def _in_words(names: Sequence[str]) -> dict[str, str]:
    """Return settings' names in words, without the groups that they are in unless two are alike."""
    last = [name.rsplit(".", 1)[-1] for name in names]
    short = [end if last.count(end) == 1 else name for name, end in zip(names, last, strict=True)]
    words = [name.replace("_", " ").replace(".", ": ") for name in short]
    return dict(zip(names, words, strict=True))


def _name(group: list[ComparedRun]) -> str:
    return _label(group[0].point, group[0].label)


def _name_of_mean(group: list[ComparedRun]) -> str:
    return _name(group) + (f", mean of {len(group)} runs" if len(group) > 1 else "")


def _lines(
    entries: list[ComparedRun], groups: list[list[ComparedRun]]
) -> tuple[dict[str, History], list[str]]:
    """Return histories to draw by label: of each run or, if too many, means of the best groups."""
    if len(entries) <= run_charts.MOST_LINES:
        return {entry.label: entry.run.history for entry in entries}, []
    best = sorted(groups, key=_rank)[: run_charts.MOST_LINES]
    best_groups = [group for group in groups if group in best]
    lines = {
        _name_of_mean(group): run_charts.average([entry.run.history for entry in group])
        for group in best_groups
    }
    fewer = (
        f", of the {len(best_groups)} settings with the best scores"
        if len(best_groups) < len(groups)
        else ""
    )
    return lines, [f"Curves are means over runs of the same settings{fewer}."]


def _best(group: list[ComparedRun]) -> list[tuple[int, float, Score]]:
    """Return step and value of each run's best score, and the score.

    Runs without a score since training began are left out.
    """
    return [(*entry.score.best, entry.score) for entry in group if entry.score and entry.score.best]


def _rank(group: list[ComparedRun]) -> float:
    """Return a key that sorts better scores first; infinite without scores."""
    best = [value if score.is_loss else -value for _, value, score in _best(group)]
    return statistics.fmean(best) if best else math.inf


def _headline(groups: list[list[ComparedRun]]) -> str:
    group = min(groups, key=_rank)
    best = _best(group)
    if not best:
        return ""
    step, value, score = best[0]
    if len(best) == 1:
        name = group[0].label if len(group) == 1 else _name(group)
        return f"Best: {name}, with {score.title} {numbers.score(value)} at step {step}."
    subject = f"{score.title} at its best, mean:"
    if len(groups) > 1:
        subject = f"Best: {_name(group)}, with a mean {score.title} of"
    return f"{subject} {_spread([value for _, value, _ in best])} over {len(best)} runs."


def _spread(values: Sequence[float]) -> str:
    if len(set(values)) > 1:
        # Unlike that of `statistics`, this standard deviation may be NaN.
        mean, spread = statistics.fmean(values), float(np.std(values, ddof=1))
        return f"{numbers.score(mean)} ± {numbers.score(spread)}"
    return numbers.score(values[0]) if values else "–"


def _table_of_groups(groups: list[list[ComparedRun]]) -> dict[str, Any]:
    """Return a table of groups of equal settings: head, rows of cells; ``best`` marks the best."""
    head = _score_head([entry for group in groups for entry in group])
    first, rows = min(groups, key=_rank, default=None), []
    for group in groups:
        cells = [*_scored(group)[: len(head)], str(len(group)), *group[0].point.values()]
        rows.append({"cells": cells, "colour": None, "best": group is first and bool(head)})
    settings = groups[0][0].point if groups else ()
    return {"head": [*head, "runs", *_in_words(list(settings)).values()], "rows": rows}


def _table_of_runs(entries: list[ComparedRun], lines: list[str]) -> dict[str, Any]:
    """Return a table of runs like :func:`_table_of_groups`; ``colour`` indexes a run's lines."""
    head = _score_head(entries)
    best, rows = min(entries, key=lambda entry: _rank([entry])), []
    for entry in entries:
        grade, problems = entry.judgement.grade, graded(entry.judgement.verdicts, BAD, WATCH)
        verdict = f"{grade}: {subjects(graded(problems, grade))}" if problems else grade
        scored = _scored([entry])[: len(head)]
        cells = [entry.run.name, *scored, *entry.settings.values(), verdict]
        colour = lines.index(entry.label) if entry.label in lines else None
        rows.append({"cells": cells, "colour": colour, "best": entry is best and bool(head)})
    settings = _in_words(list(entries[0].settings)).values()
    return {"head": ["run", *head, *settings, "verdict"], "rows": rows}


def _scored(group: list[ComparedRun]) -> list[str]:
    """Return the best, last and first score; of several runs the means, of one also the steps."""
    scores = [entry.score for entry in group if entry.score]
    cells = []
    for ends in ([score.best for score in scores], [score.last for score in scores]):
        measured = [end for end in ends if end]
        place = f" (step {measured[0][0]})" if len(group) == 1 and measured else ""
        cells.append(_spread([number for _, number in measured]) + place)
    return [*cells, _spread([score.before for score in scores if score.before is not None])]


def _score_head(entries: list[ComparedRun]) -> list[str]:
    """Return the headings of the score's columns; empty if no run has a score."""
    score = next((entry.score for entry in entries if entry.score), None)
    return [f"{score.title}, best", "last", "before training"] if score else []


def _judged(entries: list[ComparedRun]) -> list[tuple[str, Verdict]]:
    """Return each problem once, worst first: its runs' names, and the verdict on the first run."""
    problems: dict[tuple[str, str], list[tuple[str, Verdict]]] = {}
    for entry in entries:
        for verdict in graded(entry.judgement.verdicts, BAD, WATCH):
            problems.setdefault((verdict.grade, verdict.title), []).append(
                (entry.run.name, verdict)
            )
    judged = []
    for _, affected in sorted(problems.items(), key=lambda problem: problem[0][0] != BAD):
        hidden = len(affected) - MOST_NAMES
        unnamed = f" and {hidden} more" if hidden > 0 else ""
        judged.append(
            (listed([name for name, _ in affected[:MOST_NAMES]]) + unnamed, affected[0][1])
        )
    return judged


def _not_judged(entries: list[ComparedRun]) -> str:
    """Return a sentence on the runs of which important questions were not judged."""
    grey = [entry.run.name for entry in entries if entry.judgement.grade == NOT_JUDGED]
    if not grey:
        return ""
    names = listed(grey[:MOST_NAMES]) + (
        f" and {len(grey) - MOST_NAMES} more" if len(grey) > MOST_NAMES else ""
    )
    return f"Too little was measured to call good: {names}."


def _facts(runs: Sequence[Recording], title: str) -> str:
    losses = list(dict.fromkeys(run.settings["loss"] for run in runs if "loss" in run.settings))
    models = {run.settings.get("model") for run in runs}
    running = sum(run.status == RUNNING for run in runs)
    facts = [
        f"{len(runs)} runs" if title != f"{len(runs)} runs" else "",
        f"loss {listed(losses)}" if 0 < len(losses) <= 3 else "",
        models.pop() if len(models) == 1 else None,
        f"{running} not finished" if running else "",
    ]
    return " · ".join(fact for fact in facts if fact)
