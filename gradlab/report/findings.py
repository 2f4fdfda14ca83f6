"""Known failures of contrastive training, told from what a run recorded.

Thresholds are for what has gone wrong for good, not for what is merely not best. A healthy SimCSE run, for
comparison, begins with embeddings of cosine .92 to each other and shares of the hardest negative near uniform, and both
change within tens of steps; its mean dissipation falls below .01 within a hundred, which is what dissipation is for.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from gradlab.report.history import History

DIAGNOSTICS = "diagnostics"
# Dissipation so small that no anchor learns; within which part of the run (or how many records) that is early.
NOTHING, EARLY, EARLY_RECORDS = 1e-4, 0.1, 10
# The hardest negative counts less than this many times the average one, although embeddings are this far apart.
NEAR_UNIFORM, APART = 2.5, 0.9
# Among fewer negatives the hardest has a large share whatever the temperature.
ENOUGH = 8
# Different sentences with this mean cosine are one point.
ONE_POINT = 0.98
# Share of triples whose ratio satisfies the lemma; a positive this close leaves nothing to come closer to.
MOST, COINCIDE = 0.5, 0.99
# Records in a row that must show a failure; and those after which embeddings that came as one point are to have spread.
PERSISTENT, PATIENCE = 3, 10


@dataclass(frozen=True)
class Finding:
    """A failure that training shows.

    Attributes:
        name: a short name.
        step: where it was first seen for sure.
        headline: what is wrong, one sentence.
        advice: what to do about it.
    """

    name: str
    step: int
    headline: str
    advice: str


def findings(history: History) -> list[Finding]:
    """The failures that a run has shown so far, in order of appearance."""
    found = [
        check(history, group)
        for group in history.groups()
        if group.startswith(DIAGNOSTICS)
        for check in CHECKS
    ]
    unique = {finding.name: finding for finding in reversed(found) if finding is not None}
    return sorted(unique.values(), key=lambda finding: finding.step)


def nothing_to_learn(history: History, group: str) -> Finding | None:
    """Dissipation near zero early: negatives are all far enough, so that no anchor gets a gradient."""
    steps, values = history.series(group, "gradient_dissipation")
    early = len(steps[:EARLY_RECORDS])
    if history.total_steps:
        early = max(PERSISTENT, sum(step <= EARLY * history.total_steps for step in steps))
    at = _persists([value < NOTHING for value in values[:early]])
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
    uniform = [history.at(group, "uniform_share", step) or math.nan for step in steps]
    apart = [(history.at(group, "negative_cosine", step) or 0.0) < APART for step in steps]
    flat = [
        share < NEAR_UNIFORM * equal <= NEAR_UNIFORM / ENOUGH and far
        for share, equal, far in zip(shares, uniform, apart, strict=True)
    ]
    at = _persists(flat)
    if at is None:
        return None
    return Finding(
        "temperature too high",
        steps[at],
        f"The hardest negative has {shares[at]:.1%} of the weight, where all being equal would give it "
        f"{uniform[at]:.1%}: the loss hardly tells hard negatives from easy ones.",
        "Lower the temperature (published settings use 0.05).",
    )


def collapse(history: History, group: str) -> Finding | None:
    """Different sentences have nearly the same embedding."""
    steps, cosines = history.series(group, "negative_cosine")
    narrower = [cosine > ONE_POINT and 1 - cosine < (1 - cosines[0]) / 2 for cosine in cosines]
    at = _persists(narrower)
    if at is None:
        at = _persists([cosine > ONE_POINT for cosine in cosines], PATIENCE)
    if at is None:
        return None
    rank = history.at(group, "effective_rank", steps[at])
    return Finding(
        "collapse",
        steps[at],
        f"The embeddings collapse: different sentences have a mean cosine of {cosines[at]:.3f}"
        + (f" and an effective rank of {rank:.1f}." if rank is not None else "."),
        "The pull on the positives outweighs the push from the negatives: lower the ratio, use more negatives, or "
        "lower the learning rate.",
    )


def ratio_too_low(history: History, group: str) -> Finding | None:
    """For most triples the step does not bring the anchor closer to its positive (Lemma 1)."""
    steps, shares = history.series(group, "lemma_share")
    low = [share < MOST and _in_play(history, group, step) for step, share in zip(steps, shares, strict=True)]
    at = _persists(low)
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


CHECKS: tuple[Callable[[History, str], Finding | None], ...] = (
    nothing_to_learn,
    temperature_too_high,
    collapse,
    ratio_too_low,
)


def _in_play(history: History, group: str, step: int) -> bool:
    """Whether anchors move at all, and have positives to come closer to."""
    dissipation = history.at(group, "gradient_dissipation", step)
    cosine = history.at(group, "positive_cosine", step)
    return (dissipation or 0.0) >= NOTHING and (cosine is None or cosine < COINCIDE)


def _persists(failing: list[bool], records: int = PERSISTENT) -> int | None:
    """Index of the record at which a failure has been there for ``records`` in a row, or None."""
    run = 0
    for place, fails in enumerate(failing):
        run = run + 1 if fails else 0
        if run == records:
            return place
    return None
