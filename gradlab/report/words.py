"""What a run shows, in plain words: one paragraph an aspect."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable
from dataclasses import dataclass

from gradlab.monitor.collapse import COLLAPSE, HARM
from gradlab.monitor.finding import Finding
from gradlab.monitor.findings import FALLEN
from gradlab.monitor.history import DIAGNOSTICS, History
from gradlab.monitor.scores import scores_of
from gradlab.report.numbers import percent, score, short


@dataclass(frozen=True)
class Aspect:
    """One thing that a run shows.

    Attributes:
        title: what it is about.
        text: what was seen, and what it means.
        failing: whether a known failure concerns it.
    """

    title: str
    text: str
    failing: bool


def aspects(history: History, found: list[Finding]) -> list[Aspect]:
    """What the run shows, group by group of diagnostics, then its scores."""
    names = {finding.name for finding in found}
    described = []
    for group in (group for group in history.groups() if group.startswith(DIAGNOSTICS)):
        suffix = group.removeprefix(DIAGNOSTICS).strip()
        for title, text, failure in (
            ("Learning", _dissipation(history, group), "nothing to learn"),
            ("Hard negatives", _hardest(history, group), "temperature too high"),
            ("Pull and push", _ratio(history, group), "ratio too low"),
            ("Both sides", _both_sides(history, group), ""),
            ("Spread", _spread(history, group), COLLAPSE),
        ):
            if text:
                described.append(Aspect(f"{title}, {suffix}" if suffix else title, text, failure in names))
    scores = _scores(history)
    return [*described, *([Aspect("Scores", scores, bool({HARM, FALLEN} & names))] if scores else [])]


def _ends(history: History, group: str, name: str) -> tuple[float, float] | None:
    """The first finite value of a series, and the middle one of its last three; None if there is none."""
    values = [value for value in history.series(group, name)[1] if math.isfinite(value)]
    return (values[0], statistics.median_low(values[-3:])) if values else None


def _went(ends: tuple[float, float], text: Callable[[float], str] = short) -> str:
    """``"went from 0.9 to 0.1"``, or ``"stayed at 1"``."""
    first, last = text(ends[0]), text(ends[1])
    return f"stayed at {first}" if first == last else f"went from {first} to {last}"


def _dissipation(history: History, group: str) -> str:
    mean, active = _ends(history, group, "gradient_dissipation"), _ends(history, group, "active")
    if mean is None or active is None:
        return ""
    if active[1] >= 0.5:
        meaning = "most anchors are still learning."
    elif active[1] >= 0.05:
        meaning = "most anchors are done, and the others go on learning."
    elif mean[1] > 0:
        meaning = "hardly any anchor of a batch still learns; what is left comes from a few hard ones."
    else:
        meaning = "no anchor of a batch learns any more."
    return (
        f"Mean gradient dissipation {_went(mean)}; the share of anchors that get a gradient "
        f"{_went(active, percent)}: {meaning}"
    )


def _hardest(history: History, group: str) -> str:
    share, uniform = _ends(history, group, "hardest_share"), _ends(history, group, "uniform_share")
    if share is None:
        return ""
    compared = f" (all being equal it would be {percent(uniform[1])})" if uniform else ""
    if uniform and uniform[1] < 1 and share[1] < 2.5 * uniform[1]:
        meaning = "the loss hardly tells hard negatives from easy ones."
    elif share[1] > 0.9:
        meaning = "almost only the hardest negative counts."
    elif share[1] > 0.3:
        meaning = "the hardest negatives dominate, as in the losses that work well."
    else:
        meaning = "many negatives count, the hard ones more."
    return f"The hardest negative's share of the weight {_went(share, percent)}{compared}: {meaning}"


def _ratio(history: History, group: str) -> str:
    ratio, share = _ends(history, group, "ratio_median"), _ends(history, group, "lemma_share")
    if ratio is None:
        return ""
    text = f"The median ratio of pull to push {_went(ratio)}."
    if share is None:
        return text
    meaning = (
        "steps bring anchors closer to their positives."
        if share[1] >= 0.9
        else "most steps bring anchors closer to their positives, some do not."
        if share[1] >= 0.5
        else "for most triples the push outweighs the pull, or the positive is so close that the lemma is silent."
    )
    return f"{text} It satisfies Lemma 1 in {percent(share[1])} of the triples: {meaning}"


def _both_sides(history: History, group: str) -> str:
    """What sentences receive as negatives of others, and their pull against all that pushes them."""
    received = _ends(history, group, "hubness")
    largest, ratio = _ends(history, group, "hubness_largest"), _ends(history, group, "ratio_both_sides")
    parts = []
    if received is not None:
        meaning = (
            "no sentence stands out as a hub"
            if received[1] < 0.35
            else "some sentences are pushed much more than others"
            if received[1] < 0.6
            else "a few hubs take most of the push"
        )
        most = f"; the most pushed one gets {short(largest[1])} equal shares" if largest else ""
        parts.append(
            f"Hubness (0: as negatives of others all are pushed alike; 1: one takes all) {_went(received)}: {meaning}{most}."
        )
    if ratio is not None:
        meaning = (
            "what pushes is the stronger"
            if ratio[1] < 0.8
            else "they are about as strong"
            if ratio[1] < 1.25
            else "the pull is the stronger"
        )
        parts.append(f"Pull over push of both views together {_went(ratio)} (median): {meaning}.")
    return " ".join(parts)


def _spread(history: History, group: str) -> str:
    positive, negative = (_ends(history, group, f"{kind}_cosine") for kind in ("positive", "negative"))
    rank = _ends(history, group, "effective_rank")
    parts = []
    if positive and negative:
        parts.append(
            f"Two views of a sentence have a mean cosine of {short(positive[1])} (at first {short(positive[0])}), "
            f"different sentences of {short(negative[1])} (at first {short(negative[0])})."
        )
    if rank:
        parts.append(f"The effective rank of a batch {_went(rank)}.")
    encoder = _ends(history, group, "encoder_cosine")
    if encoder:
        parts.append(
            f"As the encoder gives them, before any head, different sentences' mean cosine {_went(encoder)}."
        )
    if positive and negative:
        gap = positive[1] - negative[1]
        parts.append(
            "Sentences are clearly told apart."
            if gap > 0.3
            else "Sentences are told apart, though not by much."
            if gap > 0.05
            else "Different sentences look almost as similar as two views of one."
        )
    return " ".join(parts)


def _scores(history: History) -> str:
    """Each score before training, at best and at last; of losses, the lowest is the best."""
    parts = []
    for one in scores_of(history):
        before, best, last = one.before, one.best, one.last
        if best is None or last is None:
            continue
        start = f"{score(before)} before training, " if before is not None else ""
        end = f", last {score(last[1])}" if last != best else ""
        parts.append(f"{one.title}: {start}best {score(best[1])} at step {best[0]}{end}.")
    return " ".join(parts)
