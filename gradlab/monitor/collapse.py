"""Collapse, told from what a run recorded, with what in its configuration lets it happen.

Each check gives the first step at which it is seen for sure, whatever comes after: a warning that was given while
training went stands.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Mapping
from typing import Any

from gradlab.monitor.finding import PERSISTENT, Finding, persists
from gradlab.monitor.history import DIAGNOSTICS, History

COLLAPSE, HARM = "collapse", "training hurts"
# Different sentences with this mean cosine are one point; records after which embeddings that came as one are to have
# spread.
ONE_POINT, PATIENCE = 0.98, 10
# Squared distance of a sentence's views, as a share of that of different sentences: a healthy run begins near .75, for
# dropout alone, and falls from there.
INDISTINCT = 0.9
# Records that must show it, which need not follow each other since such runs oscillate; more of them where new heads
# make it so from the beginning.
RECORDS, RECORDS_OF_NEW_HEADS = PERSISTENT, 6
# Training hurts for good if the score is below this share of the one before training, twice in a row.
RUINED = 0.75
ADVICE = "Lower the learning rate, or use other negatives."


def one_point(history: History, group: str) -> Finding | None:
    """Different sentences have nearly the same embedding: the encoder's, where heads make the loss see another."""
    names = ("encoder_cosine", "encoder_rank")
    if not history.series(group, names[0])[0]:
        names = ("negative_cosine", "effective_rank")
    steps, cosines = history.series(group, names[0])
    narrower = [cosine > ONE_POINT and 1 - cosine < (1 - cosines[0]) / 2 for cosine in cosines]
    seen = [persists(narrower), persists([cosine > ONE_POINT for cosine in cosines], PATIENCE)]
    at = min((place for place in seen if place is not None), default=None)
    if at is None:
        return None
    rank = history.at(group, names[1], steps[at])
    return Finding(
        COLLAPSE,
        steps[at],
        f"The embeddings collapse: different sentences have a mean cosine of {cosines[at]:.3f}"
        + (f" and an effective rank of {rank:.1f}." if rank is not None else "."),
        "The pull on the positives outweighs the push from the negatives: lower the ratio, use more negatives, or "
        "lower the learning rate.",
    )


def indistinct(history: History, group: str = DIAGNOSTICS) -> Finding | None:
    """The two views of a sentence are no closer to each other than to other sentences."""
    positives = dict(zip(*history.series(group, "positive_cosine"), strict=True))
    negatives = dict(zip(*history.series(group, "negative_cosine"), strict=True))
    steps = sorted(positives.keys() & negatives.keys())
    shown = [1 - positives[step] > INDISTINCT * (1 - negatives[step]) for step in steps]
    # New heads know nothing; once they have told sentences apart, falling back counts like everything else.
    new = shown.index(False) if False in shown else len(shown)
    if new >= RECORDS_OF_NEW_HEADS:
        at = RECORDS_OF_NEW_HEADS - 1
    elif new == len(shown) >= RECORDS and steps[-1] + (steps[-1] - steps[-2]) > (
        history.total_steps or math.inf
    ):
        at = new - 1  # the run is over, and they never were told apart
    else:
        fallen = [place for place in range(new, len(shown)) if shown[place]]
        if len(fallen) < RECORDS:
            return None
        at = fallen[RECORDS - 1]
    step = steps[at]
    return Finding(
        COLLAPSE,
        step,
        f"The loss's embeddings collapse: a sentence's own view has a cosine of {positives[step]:.3f}, the views of "
        f"others {negatives[step]:.3f}.",
        ADVICE,
    )


def ruined(scores: Mapping[int, float]) -> Finding | None:
    """The score on STS-B dev has fallen far below the one before training, twice in a row (MoCoSE, A.2, judges by this).

    Args:
        scores: step -> Spearman's correlation, NaN of constant embeddings; step 0 is before training.
    """
    if 0 not in scores or not scores[0] > 0:
        return None
    steps = sorted(step for step in scores if step > 0)
    low = [not scores[step] >= RUINED * scores[0] for step in steps]
    for (_, before), (step, after) in itertools.pairwise(zip(steps, low, strict=True)):
        if before and after:
            return Finding(
                HARM,
                step,
                f"STS-B dev was {scores[0]:.3f} before training and is {scores[step]:.3f}: training hurts the encoder.",
                ADVICE,
            )
    return None


def explained(finding: Finding, config: Mapping[str, Any] | None) -> Finding:
    """A finding with advice for the configuration, where that is known to let it happen."""
    known = reason(config) if config is not None and finding.name in (COLLAPSE, HARM) else None
    return finding if known is None else dataclasses.replace(finding, advice=known)


def reason(config: Mapping[str, Any]) -> str | None:
    """What in a configuration is known to let embeddings collapse; None if nothing is.

    Args:
        config: settings of `gradlab train` by name; what is missing is as without a queue and a momentum branch.
    """
    if not config.get("queue_size") or config.get("in_batch_negatives", True):
        return None
    shared = (
        "All negatives come from earlier steps (in_batch_negatives is off): moving all sentences together, away from the "
        "queue, lowers the loss as well as telling them apart does. "
    )
    at_once = config.get("momentum_schedule", "constant") == "constant" and config.get("momentum") == 0
    if not at_once or config.get("momentum_use", "positives") != "positives":
        return shared + "Turn in_batch_negatives on, lower the learning rate, or raise momentum."
    if not config.get("predictor_layers"):
        return (
            shared
            + "Both branches are the same, since momentum is 0 and there is no predictor, so that nothing holds the "
            "keys back (MoCoSE, A.2). Raise momentum, add predictor_layers, or turn in_batch_negatives on."
        )
    return (
        shared
        + "The momentum branch has no inertia, since momentum is 0, and the predictor alone need not suffice "
        "(MoCoSE, A.2). Raise momentum, or turn in_batch_negatives on."
    )
