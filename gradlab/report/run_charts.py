"""Charts of what runs recorded, each with a title and a hint on how to read it."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from gradlab.files import read_packaged
from gradlab.gradient.statistics import BINS
from gradlab.monitor.expected_loss import expected_component
from gradlab.monitor.metrics import (
    BATCH_LOSS,
    DIAGNOSTICS,
    EVALUATION,
    HISTOGRAM,
    TRAIN,
    History,
)
from gradlab.monitor.run_reader import Recording
from gradlab.monitor.score import readable
from gradlab.quantities import OF_CODE
from gradlab.report.svg_charts import Series, histogram_chart, line_chart
from gradlab.settings.module import LEARNED


@dataclass(frozen=True)
class Card:
    """A chart with its title and hint, whose axis includes ``low`` and ``high``."""

    title: str
    hint: str = ""
    # Name of the quantity of each line -> its label.
    names: Mapping[str, str] = field(default_factory=dict)
    low: float | None = None
    high: float | None = None
    linear: bool = False  # whether the axis is never logarithmic
    # Lines to compare with: a name or value, and a label.
    references: Sequence[tuple[str | float, str]] = ()
    chart: str = ""  # the chart as HTML, once it is drawn


_READ = read_packaged("gradlab.report", "run_charts.toml")
PLANS, FOR_RESEARCHERS = (
    [Card(**entry) for entry in _READ[kind]] for kind in ("plans", "for_researchers")
)
# Quantity -> title and hint of its histogram.
DISTRIBUTIONS = {
    name: (entry["title"], entry["hint"]) for name, entry in _READ["distributions"].items()
}
# Quantities whose usual values are simulated.
SIMULATED = ("gradient_dissipation", "hardest_share")
# Numbers of the optimiser that trainers record, with the titles of their charts.
OPTIMISER = {
    "learning_rate": "Learning rate",
    "grad_norm": "Gradient norm",
    "gradient_norm": "Gradient norm",
}
DRAWN = {name for plan in (*PLANS, *FOR_RESEARCHERS) for name in plan.names}
DRAWN |= {"uniform_share", "loss", BATCH_LOSS, "seconds", "run_seconds", "epoch", "not_finite"}
DRAWN |= OPTIMISER.keys() | set(OF_CODE.values())
# Hint of a chart of a loss given as code.
OF_PUSHED = "Of the first sentences of a batch, by the push relative to its largest."
# Prefix of the name of a dataset's own loss.
OWN_LOSS = f"{BATCH_LOSS} "
# Names and labels of the training loss; limit on the lines in a chart of several runs.
LOSSES, MOST_LINES = {"loss": "mean since the last log", BATCH_LOSS: "recorded batches"}, 10
# A chart of several runs shows one quantity; these plans are split into one chart per quantity.
APART = ("Cosines",)


def training(
    histories: dict[str, History], references: Sequence[tuple[str | float, str]] = ()
) -> list[Card]:
    """Return charts of training loss, with references, and every score, for one run or several."""
    plan = Card("Training loss", references=references)
    if len(histories) == 1:
        (history,) = histories.values()
        lines = [_series(history, TRAIN, name, label) for name, label in LOSSES.items()]
        cards = _chart_cards(plan, history, TRAIN, lines)
    else:
        cards = _overlay(plan, histories, TRAIN, *LOSSES)
    for name in _names(histories, TRAIN):
        if name.startswith(OWN_LOSS):
            title = f"Loss of recorded batches, {name.removeprefix(OWN_LOSS)}"
            cards += _overlay(Card(title), histories, TRAIN, name)
    scores = {score.name: score for h in histories.values() for score in h.scores()}
    for name, score in scores.items():
        plan = Card(readable(name), "Evaluation.", linear=not score.is_loss)
        cards += _overlay(plan, histories, EVALUATION, name)
    return cards


def optimiser(histories: dict[str, History]) -> list[Card]:
    """Return charts of learning rate, gradient norm and the loss's learned settings if recorded."""
    titles = dict(OPTIMISER)
    for name in _names(histories, TRAIN):
        if name.startswith(LEARNED):
            learned = name.removeprefix(LEARNED).replace("_gradient", ", its gradient")
            titles[name] = f"Learned {learned}"
    plans = {name: Card(title) for name, title in titles.items()}
    return [c for name, plan in plans.items() for c in _overlay(plan, histories, TRAIN, name)]


def diagnostics(run: Recording, plans: Sequence[Card] = PLANS) -> list[Card]:
    """Return charts of one run's loss and embeddings, at most three lines per chart."""
    history, loss = run.history, run.used.loss
    groups = [group for group in history.groups() if group.startswith(DIAGNOSTICS)]
    cards = []
    for plan in plans:
        lines, usually = [], []
        for name, label in plan.names.items():
            for group in groups:
                dataset = group.removeprefix(DIAGNOSTICS).strip()
                label_here = f"{label}, {dataset}" if dataset else label
                lines.append(_series(history, group, name, label_here))
        quantity = next(iter(plan.names))
        plan = _of_code(plan, quantity, [history], next(iter(groups), DIAGNOSTICS))
        if quantity in SIMULATED and groups == [DIAGNOSTICS] and loss is not None:
            steps, values = expected_component(loss, quantity, history)
            usually = [Series("expected at these cosines", steps, values, True)] if steps else []
        for start in range(0, len(lines), 3):
            cards += _chart_cards(plan, history, groups[0], lines[start : start + 3], usually)
    return cards


def overlaid(histories: dict[str, History], plans: Sequence[Card] = PLANS) -> list[Card]:
    """Return charts of several runs' losses and embeddings: one per quantity, one line per run."""
    cards = []
    for plan in plans:
        (name, label), *further = plan.names.items()
        titles = {name: (plan.title, f"{plan.hint} Here: {label}." if further else plan.hint)}
        if plan.title in APART:
            titles = {name: DISTRIBUTIONS[name] for name in plan.names}
        for name, (title, hint) in titles.items():
            card = dataclasses.replace(plan, title=title, hint=hint)
            card = _of_code(card, name, histories.values(), DIAGNOSTICS)
            cards += _overlay(card, histories, DIAGNOSTICS, name)
    return cards


def distributions(history: History) -> list[Card]:
    """Return histograms of the first and the last record."""
    cards = []
    for name, (title, hint) in DISTRIBUTIONS.items():
        histograms = history.histograms(name)
        edges = history.names(HISTOGRAM)
        if name in OF_CODE and any(edge.startswith(f"{OF_CODE[name]}:") for edge in edges):
            title = readable(OF_CODE[name])
        if histograms:
            ends = {f"step {step}": histograms[step] for step in (min(histograms), max(histograms))}
            cards.append(Card(title, hint, chart=histogram_chart(title, ends, *BINS[name])))
    return cards


def remaining(histories: dict[str, History]) -> list[Card]:
    """Return charts of all other recorded numbers."""
    scores = {score.name for history in histories.values() for score in history.scores()}
    cards = []
    for group in sorted({group for history in histories.values() for group in history.groups()}):
        for name in sorted(_names(histories, group)):
            scored = group == EVALUATION and name in scores
            has_chart = scored or name in DRAWN or name.startswith((LEARNED, OWN_LOSS))
            if not has_chart and _varies(histories, group, name):
                plan = Card(readable(name), f"{group.capitalize()}.")
                cards += _overlay(plan, histories, group, name)
    return cards


def average(histories: Sequence[History]) -> History:
    """Return the mean of several runs, at the steps that all of them recorded."""
    mean = History(max((h.total_steps or 0 for h in histories), default=0) or None)
    for group in histories[0].groups():
        for name in histories[0].names(group):
            points = [history.points(group, name) for history in histories]
            for step in sorted(set(points[0]).intersection(*points)):
                mean.add(
                    step, group, {name: sum(by_step[step] for by_step in points) / len(points)}
                )
    return mean


def _of_code(plan: Card, name: str, histories: Iterable[History], group: str) -> Card:
    """Return a chart titled by what runs record of a loss given as code, if one has such a loss."""
    recorded = {history.recorded_as(group, name) for history in histories}
    if recorded <= {name} or not recorded <= {name, OF_CODE[name]}:
        return plan
    title = readable(OF_CODE[name])
    if name in recorded:
        title = f"{plan.title}; {title} of losses given as code"
    return dataclasses.replace(plan, title=title, hint=OF_PUSHED)


def _varies(histories: dict[str, History], group: str, name: str) -> bool:
    """Whether a series is not 0 throughout.

    Trainers log rates of 0 samples per second if evaluators bring their own data.
    """
    return any(any(history.series(group, name)[1]) for history in histories.values())


def _names(histories: dict[str, History], group: str) -> list[str]:
    """Return the names of a group in all histories, in order of appearance."""
    return list(dict.fromkeys(n for history in histories.values() for n in history.names(group)))


def _chart_cards(
    plan: Card,
    history: History,
    group: str,
    lines: Sequence[Series | None],
    usually: Sequence[Series] = (),
) -> list[Card]:
    """Return a chart of the existing lines, with the plan's references; no chart without lines."""
    series = [line for line in lines if line]
    if not series:
        return []
    ends = [min(line.steps[0] for line in series), max(line.steps[-1] for line in series)]
    for quantity, label in plan.references:
        steps, values = (
            history.series(group, quantity)
            if isinstance(quantity, str)
            else (ends, [quantity, quantity])
        )
        series += [Series(label, steps, values, True)] if steps else []
    chart = line_chart(plan.title, [*series, *usually], plan.low, plan.high, plan.linear)
    return [dataclasses.replace(plan, chart=chart)]


def _overlay(plan: Card, histories: dict[str, History], group: str, *names: str) -> list[Card]:
    """Return a chart of the first of some quantities that each run recorded, if any did.

    A run that recorded none still takes a colour, so that runs have the same one in all charts.
    """
    lines_of_runs = {}
    for label, history in histories.items():
        lines = (_series(history, group, name, label) for name in names)
        lines_of_runs[label] = next(filter(None, lines), None)
    measured = {label: line for label, line in lines_of_runs.items() if line}
    if not measured:
        return []
    label, first = next(iter(measured.items()))
    absent = first.steps[:1], [math.nan]
    series = [
        line or Series(f"{label} (not recorded)", *absent) for label, line in lines_of_runs.items()
    ]
    if len(histories) == 1:
        series = [dataclasses.replace(first, label=plan.title)]
    return _chart_cards(plan, histories[label], group, series)


def _series(history: History, group: str, name: str, label: str) -> Series | None:
    """Return the finite points of a series; None if there are none."""
    points = [(s, v) for s, v in zip(*history.series(group, name), strict=True) if math.isfinite(v)]
    return Series(label, [s for s, _ in points], [v for _, v in points]) if points else None
