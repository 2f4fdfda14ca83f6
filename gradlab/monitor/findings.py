"""Known failures of contrastive training, told from what a run recorded.

Thresholds are for what has gone wrong for good, not for what is merely not best. A healthy SimCSE run, for
comparison, begins with embeddings of cosine .92 to each other and shares of the hardest negative near uniform, and both
change within tens of steps; its mean dissipation falls below .01 within a hundred, which is what dissipation is for.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from gradlab.monitor.collapse import explained, indistinct, one_point, ruined
from gradlab.monitor.finding import PERSISTENT, Finding, persists
from gradlab.monitor.history import DIAGNOSTICS, EVALUATION, History
from gradlab.monitor.scores import FALL, scores_of

# Dissipation so small that no anchor learns; within which part of the run (or how many records) that is early.
NOTHING, EARLY, EARLY_RECORDS = 1e-4, 0.1, 10
# The hardest negative counts less than this many times the average one, although embeddings are this far apart.
NEAR_UNIFORM, APART = 2.5, 0.9
FALLEN = "score fell"
# Among fewer negatives the hardest has a large share whatever the temperature.
ENOUGH = 8
# Share of triples whose ratio satisfies the lemma; a positive this close leaves nothing to come closer to.
MOST, COINCIDE = 0.5, 0.99


@dataclass(frozen=True)
class Failure:
    """A failure to look for in the diagnostics.

    Attributes:
        subject: what is sound if it is not found.
        needs: series without which it cannot be found.
        find: takes a history and a group of diagnostics.
    """

    subject: str
    needs: tuple[str, ...]
    find: Callable[[History, str], Finding | None]


def findings(history: History, config: Mapping[str, Any] | None = None) -> list[Finding]:
    """The failures that a run has shown so far, in order of appearance; of several with one name the first.

    Args:
        history: what it recorded.
        config: settings by name of a run of `gradlab train`; None for any other. They tell why a run may collapse; and that views of a
            sentence are not told from those of others is a failure of such a run alone, since the pairs of any other
            may be as far apart as different sentences before they are learned.
    """
    finds = [failure.find for failure in FAILURES] + ([indistinct] if config is not None else [])
    found = [find(history, group) for group in _groups(history) for find in finds]
    stsb_dev = dict(zip(*history.series(EVALUATION, "stsb_dev"), strict=True))
    found.append(ruined(stsb_dev) or fallen(history, kept=config is not None))
    unique: dict[str, Finding] = {}
    for finding in sorted(filter(None, found), key=lambda one: one.step):
        unique.setdefault(finding.name, finding)
    return [explained(finding, config) for finding in unique.values()]


def judged(history: History) -> list[str]:
    """Subjects of the failures that could have been found in what was recorded."""

    def known(group: str, failure: Failure) -> bool:
        return all(any(map(math.isfinite, history.series(group, name)[1])) for name in failure.needs)

    subjects = [
        failure.subject for failure in FAILURES if any(known(group, failure) for group in _groups(history))
    ]
    return subjects + (
        ["score"] if any(score.is_quality and score.last for score in scores_of(history)) else []
    )


def fallen(history: History, kept: bool = False) -> Finding | None:
    """At the end of the run a correlation or nDCG is below its best by more than `FALL`.

    Where the planned length is not known, and so the end is not, it takes several evaluations in a row.

    Args:
        history: what was recorded.
        kept: whether the best encoder was kept, as `gradlab train` does.
    """
    for score in scores_of(history):
        best, last = score.best, score.last
        if not score.is_quality or best is None or last is None or last[1] >= best[1] - FALL:
            continue
        steps = [step for step, _ in score.points]
        to_come = last[0] + (last[0] - steps[-2]) <= (history.total_steps or 0)
        low = [not value >= best[1] - FALL for _, value in score.points[-PERSISTENT:]]
        if to_come or (history.total_steps is None and sum(low) < PERSISTENT):
            continue
        advice = (
            f"The encoder of step {best[0]} is kept, in the folder best; to end there, train for fewer steps or at a lower learning rate."
            if kept
            else f"Use the encoder of about step {best[0]}; to end there, train for fewer steps or at a lower learning rate."
        )
        return Finding(
            FALLEN,
            last[0],
            f"{score.title} was best at step {best[0]} ({best[1]:.3f}) and has fallen since, to {last[1]:.3f}."
            if math.isfinite(last[1])
            else f"{score.title} was best at step {best[0]} ({best[1]:.3f}); the embeddings have become constant since.",
            advice,
        )
    return None


def nothing_to_learn(history: History, group: str) -> Finding | None:
    """Dissipation near zero early: negatives are all far enough, so that no anchor gets a gradient."""
    steps, values = history.series(group, "gradient_dissipation")
    early = len(steps[:EARLY_RECORDS])
    if history.total_steps:
        early = max(PERSISTENT, sum(step <= EARLY * history.total_steps for step in steps))
    at = persists([value < NOTHING for value in values[:early]])
    if at is None:
        return None
    return Finding(
        "nothing to learn",
        steps[at],
        f"Gradient dissipation is near zero already (mean {values[at]:.1g}): almost no anchor gets a gradient.",
        "The task is too easy for this loss: use harder negatives or larger batches, stronger augmentation, a higher "
        "temperature or a larger margin.",
    )


def temperature_too_high(history: History, group: str) -> Finding | None:
    """The hardest negative counts hardly more than any other."""
    steps, shares = history.series(group, "hardest_share")
    uniform = [value or math.nan for value in history.at_each(group, "uniform_share", steps)]
    apart = [(value or 0.0) < APART for value in history.at_each(group, "negative_cosine", steps)]
    flat = [
        share < NEAR_UNIFORM * equal <= NEAR_UNIFORM / ENOUGH and far
        for share, equal, far in zip(shares, uniform, apart, strict=True)
    ]
    at = persists(flat)
    if at is None:
        return None
    return Finding(
        "temperature too high",
        steps[at],
        f"The hardest negative has {shares[at]:.1%} of the weight, where all being equal would give it "
        f"{uniform[at]:.1%}: the loss hardly tells hard negatives from easy ones.",
        "Lower the temperature (published settings use 0.05).",
    )


def ratio_too_low(history: History, group: str) -> Finding | None:
    """For most triples the step does not bring the anchor closer to its positive (Lemma 1)."""
    steps, shares = history.series(group, "lemma_share")
    # Whether anchors move at all, and have positives to come closer to.
    in_play = [
        (dissipation or 0.0) >= NOTHING and (cosine is None or cosine < COINCIDE)
        for dissipation, cosine in zip(
            history.at_each(group, "gradient_dissipation", steps),
            history.at_each(group, "positive_cosine", steps),
            strict=True,
        )
    ]
    at = persists([share < MOST and moving for share, moving in zip(shares, in_play, strict=True)])
    if at is None:
        return None
    ratio = history.at(group, "ratio_median", steps[at])
    return Finding(
        "ratio too low",
        steps[at],
        f"Only {shares[at]:.0%} of the triples have a ratio above the bound of Lemma 1"
        + (f" (median ratio {ratio:.2f})" if ratio is not None and math.isfinite(ratio) else "")
        + "; in the others the push from the negative outweighs the pull on the positive.",
        "Raise the ratio (of the loss, or its margin), or use views of a sentence that are closer to each other.",
    )


FAILURES = (
    Failure("learning", ("gradient_dissipation",), nothing_to_learn),
    Failure("temperature", ("hardest_share", "uniform_share"), temperature_too_high),
    Failure("ratio", ("lemma_share", "gradient_dissipation"), ratio_too_low),
    Failure("spread", ("negative_cosine",), one_point),
)


def _groups(history: History) -> list[str]:
    return [group for group in history.groups() if group.startswith(DIAGNOSTICS)]
