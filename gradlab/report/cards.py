"""Charts of what runs recorded, each with its title and a line that says how to read it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from gradlab.gradient.diagnostics import BINS
from gradlab.monitor.advice import LossInUse
from gradlab.monitor.history import DIAGNOSTICS, EVALUATION, TRAIN, History
from gradlab.monitor.recording import Recording
from gradlab.monitor.reference import usual
from gradlab.monitor.scores import readable, scores_of
from gradlab.report.charts import Series, histogram_chart, line_chart


@dataclass(frozen=True)
class Plan:
    """What a chart of diagnostics shows.

    Attributes:
        title, hint: above the chart.
        names: (name, label) of each line.
        references: (name or value, label) of each line to compare with.
        low, high: what the axis shows at least.
    """

    title: str
    hint: str
    names: tuple[tuple[str, str], ...]
    references: tuple[tuple[str | float, str], ...] = ()
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Card:
    """A chart with its title.

    Attributes:
        title, hint: above the chart.
        chart: HTML.
    """

    title: str
    hint: str
    chart: str


PLANS = (
    Plan(
        "Gradient dissipation",
        "The fraction of the gradient that is still alive: 1, a sentence learns at full strength; 0, it is left alone.",
        (("gradient_dissipation", "mean"), ("active", "share of sentences that learn")),
        (),
        0,
        1,
    ),
    Plan(
        "Share of the hardest negative",
        "How much of the push on a sentence comes from its most similar negative.",
        (("hardest_share", "hardest"),),
        (("uniform_share", "equal share"),),
        0,
        1,
    ),
    Plan(
        "Cosines",
        "Two views of a sentence, and different sentences.",
        (("positive_cosine", "positives"), ("negative_cosine", "negatives")),
        (),
        0,
        1,
    ),
    Plan(
        "Effective rank",
        "How many dimensions the embeddings of a batch really use.",
        (("effective_rank", "effective rank"),),
        (),
        0,
    ),
)
FOR_RESEARCHERS = (
    Plan("Ratio", "Pull to the positive over push from the negatives, for anchors that learn.",
         (("ratio_median", "median"), ("ratio", "mean")), ((1.0, "equal"),)),
    Plan("Lemma 1", "Share of triples whose ratio is large enough to bring the anchor closer to its positive.",
         (("lemma_share", "satisfied"),), (), 0, 1),
    Plan("Ratio of both sides", "Pull over push of a sentence, as an anchor, as a positive and as a negative of others.",
         (("ratio_both_sides", "both views"), ("ratio_positives", "positives")), ((1.0, "equal"),)),
    Plan("Hubness", "How unevenly sentences are pushed: 0, all alike; towards 1, one of them takes all.",
         (("hubness", "as negatives of others"), ("push_spread", "as anchors")), (), 0, 1),
    Plan("Largest hub", "What the most pushed sentence receives as a negative of others, in equal shares.",
         (("hubness_largest", "largest"),), ((1.0, "equal"),), 0),
    Plan("Alignment", "Mean squared distance between the two views of a sentence.", (("alignment", "alignment"),), (), 0),
    Plan("Uniformity", "The smaller, the more evenly the embeddings cover the sphere.",
         (("uniformity", "uniformity"),), (), None, 0),
)  # fmt: skip
# The quantities of which a simulation says what is usual.
SIMULATED = {"gradient_dissipation": "mean", "hardest_share": "hardest"}
# What trainers record of the optimiser, and the losses that learn settings of their own.
OPTIMISER = {"learning_rate": "Learning rate", "grad_norm": "Gradient norm", "gradient_norm": "Gradient norm"}
LEARNED = "learned_"
DISTRIBUTIONS = {
    "gradient_dissipation": ("Gradient dissipation", "Over the anchors of a batch."),
    "hardest_share": ("Share of the hardest negative", "Over the anchors that learn."),
    "ratio": ("Ratio", "Over the anchors that learn; from 3 on in the last bar."),
    "positive_cosine": ("Cosine of positives", "Two views of a sentence."),
    "negative_cosine": ("Cosine of negatives", "Different sentences."),
}
SHOWN = {name for plan in (*PLANS, *FOR_RESEARCHERS) for name, _ in plan.names}
SHOWN |= {"uniform_share", "loss", "batch_loss", "seconds", "run_seconds", "epoch", "not_finite", *OPTIMISER}
# Several runs in one chart, and how many of them.
LOSSES, MOST_LINES = {"loss": "mean since the last log", "batch_loss": "recorded batches"}, 10
# In a chart of several runs there is room for one quantity; of a plan with two lines these are drawn apart.
APART = {"Cosines": (DISTRIBUTIONS["positive_cosine"], DISTRIBUTIONS["negative_cosine"])}


def training(histories: dict[str, History], references: Sequence[tuple[str, float]] = ()) -> list[Card]:
    """The loss of training and every score, a line a run.

    Args:
        histories: by label.
        references: values of the loss to compare with, with their labels.
    """
    cards = []
    plan = Plan("Training loss", "", tuple(LOSSES.items()), tuple((v, label) for label, v in references))
    if len(histories) == 1:
        (history,) = histories.values()
        lines = [one for name, label in plan.names for one in _series(history, TRAIN, name, label)]
        if lines:
            lines += _references(history, TRAIN, lines[-1], plan)
            cards.append(Card(plan.title, "", line_chart(plan.title, lines)))
    else:
        names = {
            label: next((n for n in LOSSES if h.series(TRAIN, n)[0]), "loss")
            for label, h in histories.items()
        }
        cards += [card for card in [_overlay(plan.title, "", histories, TRAIN, names)] if card.chart]
    scores = [score.name for history in histories.values() for score in scores_of(history)]
    for name in dict.fromkeys(scores):
        cards.append(_overlay(readable(name), "Evaluation.", histories, EVALUATION, name))
    return cards


def optimiser(histories: dict[str, History]) -> list[Card]:
    """Learning rate, gradient norm and what the loss learns of its own settings, where they were recorded."""
    names = list(dict.fromkeys(name for history in histories.values() for name in history.names(TRAIN)))
    learned = {n: n.removeprefix(LEARNED) for n in names if n.startswith(LEARNED)}
    titles = OPTIMISER | {
        n: f"Learned {one.replace('_gradient', ', its gradient')}" for n, one in learned.items()
    }
    return [_overlay(title, "", histories, TRAIN, name) for name, title in titles.items() if name in names]


def diagnostics(run: Recording, plans: Sequence[Plan] = PLANS) -> list[Card]:
    """What the loss of one run does to the embeddings; of several datasets at most three a chart."""
    history = run.history
    groups = [group for group in history.groups() if group.startswith(DIAGNOSTICS)]
    cards = []
    for plan in plans:
        lines = [(group, name, label) for name, label in plan.names for group in groups]
        for start in range(0, len(lines), 3):
            series = []
            for group, name, label in lines[start : start + 3]:
                suffix = group.removeprefix(DIAGNOSTICS).strip()
                series += _series(history, group, name, f"{label}, {suffix}" if suffix else label)
            if series:
                series += _references(history, groups[0], series[0], plan)
                if start == 0 and plan.names[0][0] in SIMULATED and groups == [DIAGNOSTICS]:
                    series += _usual(run, plan.names[0][0])
                chart = line_chart(plan.title, series, plan.low, plan.high)
                cards.append(Card(plan.title, plan.hint, chart))
    return cards


def _usual(run: Recording, name: str) -> list[Series]:
    """What the loss usually does at the cosines of the run."""
    loss = run.losses.get("", LossInUse()).loss
    steps, values = usual(loss, name, run.history, DIAGNOSTICS) if loss is not None else ([], [])
    return [Series("usual at these cosines", steps, values, True)] if steps else []


def overlaid(histories: dict[str, History], plans: Sequence[Plan] = PLANS) -> list[Card]:
    """What the losses of several runs do to the embeddings: a chart a quantity, a line a run."""
    cards = []
    for plan in plans:
        (_, label), *others = plan.names
        whole = plan.hint if not others else f"{plan.hint} Here: {label}."
        apart = APART.get(plan.title, ((plan.title, whole),))
        for (title, hint), (quantity, _) in zip(apart, plan.names, strict=False):
            cards.append(_overlay(title, hint, histories, DIAGNOSTICS, quantity, plan))
    return [card for card in cards if card.chart]


def distributions(history: History) -> list[Card]:
    """Histograms of the first record and the last."""
    cards = []
    for name, (title, hint) in DISTRIBUTIONS.items():
        found = history.histograms(name)
        if found:
            shown = {f"step {step}": found[step] for step in dict.fromkeys((min(found), max(found)))}
            cards.append(Card(title, hint, histogram_chart(title, shown, *BINS[name])))
    return cards


def others(histories: dict[str, History]) -> list[Card]:
    """Whatever else was recorded."""
    known = {(group, name) for h in histories.values() for group in h.groups() for name in h.names(group)}
    scores = {score.name for history in histories.values() for score in scores_of(history)}
    cards = []
    for group, name in sorted(known):
        if (
            name not in SHOWN
            and not name.startswith(LEARNED)
            and not (group == EVALUATION and name in scores)
        ):
            cards.append(_overlay(readable(name), f"{group.capitalize()}.", histories, group, name))
    return [card for card in cards if card.chart]


def average(histories: Sequence[History]) -> History:
    """The mean of several runs, at the steps at which all of them recorded."""
    mean = History(max((h.total_steps or 0 for h in histories), default=0) or None)
    for group in histories[0].groups():
        for name in histories[0].names(group):
            points = [dict(zip(*history.series(group, name), strict=True)) for history in histories]
            for step in sorted(set.intersection(*(set(one) for one in points))):
                mean.add(step, group, {name: sum(one[step] for one in points) / len(points)})
    return mean


def _overlay(
    title: str,
    hint: str,
    histories: dict[str, History],
    group: str,
    name: str | dict[str, str],
    plan: Plan | None = None,
) -> Card:
    """One quantity, a line a run; a run that has not recorded it keeps its colour for the other charts."""
    names = dict.fromkeys(histories, name) if isinstance(name, str) else name
    found = {label: _series(history, group, names[label], label) for label, history in histories.items()}
    measured = [one for some in found.values() for one in some]
    if not measured:
        return Card(title, hint, "")
    if len(histories) == 1:
        series = [Series(title, measured[0].steps, measured[0].values)]
    else:
        nothing = measured[0].steps[:1], [math.nan]
        series = [(some or [Series(f"{label} (not recorded)", *nothing)])[0] for label, some in found.items()]
    if plan is not None:
        first = next(history for label, history in histories.items() if found[label])
        series += _references(first, group, measured[0], plan)
    low, high = (plan.low, plan.high) if plan else (None, None)
    return Card(title, hint, line_chart(title, series, low, high))


def _series(history: History, group: str, name: str, label: str) -> list[Series]:
    """The finite points of a series; none if there is none."""
    points = [(s, v) for s, v in zip(*history.series(group, name), strict=True) if math.isfinite(v)]
    return [Series(label, [s for s, _ in points], [v for _, v in points])] if points else []


def _references(history: History, group: str, first: Series, plan: Plan) -> list[Series]:
    found = []
    for what, label in plan.references:
        if isinstance(what, str):
            steps, values = history.series(group, what)
            found += [Series(label, steps, values, True)] if steps else []
        else:
            found.append(Series(label, [first.steps[0], first.steps[-1]], [what, what], True))
    return found
