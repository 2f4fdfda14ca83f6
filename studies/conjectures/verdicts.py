"""Verdicts on what a study claims in ``claims.toml``.

A claim is that a number, measured once a seed, is larger than a threshold. Claims of one role are
one family of `studies.statistics.judge`. A claim is not judged from fewer than `LEAST_SEEDS` seeds
or `LEAST_STEPS` steps, nor at its ceiling, where it cannot fail. A conjecture is supported if all
of its claims that are judged are, contradicted if one of them is, and inconclusive otherwise. It
says nothing of the performance on STS-B dev, so that claims about that do not decide it.
"""

from __future__ import annotations

import dataclasses
import math
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from studies.statistics import (
    CONTRADICTED,
    INCONCLUSIVE,
    NOT_JUDGED,
    SUPPORTED,
    Interval,
    Judgement,
    judge,
    over_seeds,
)

DECLARED = tomllib.loads(Path(__file__).with_name("claims.toml").read_text(encoding="utf-8"))
CONJECTURE, PERFORMANCE, OBSERVATION = "conjecture", "performance", "observation"
# A difference in points that would matter, as in the evidence (single conditions).
PERFORMANCE_MARGIN = 3.0
# What a verdict needs: an interval of two values trusts one difference between them to stand for
# all trainings, and an encoder of fewer steps has hardly moved.
LEAST_SEEDS, LEAST_STEPS = 3, 50
# Factor from a table's unit (radians, shares, correlations) to that of a claim.
FACTORS = {"degrees": 180 / math.pi, "percent": 100.0, "percentage points": 100.0, "points": 100.0}


@dataclasses.dataclass(frozen=True)
class Claim:
    """A number that is claimed to exceed a threshold.

    Attributes:
        role: :data:`CONJECTURE` (decides the conjecture), :data:`PERFORMANCE` or
            :data:`OBSERVATION` (do not).
        claim: what is claimed, in words.
        statistic: what is measured once a seed; ``values`` has one a seed.
        unit: of the values and the threshold; empty for a number without one.
        at_ceiling: whether the number has no room left to grow, so that the claim cannot be judged.
    """

    conjecture: int
    role: str
    claim: str
    statistic: str
    values: Sequence[float]
    threshold: float = 0.0
    unit: str = ""
    at_ceiling: bool = False

    @classmethod
    def declared(
        cls, name: str, values: Sequence[float], at_ceiling: bool = False, **named: Any
    ) -> Claim:
        """Return a claim of ``claims.toml``, with the values of the study that its words name.

        The ``values`` are in the unit of the tables: radians, shares or correlations.
        """
        about: dict[str, Any] = {
            key: text.format(**named) if isinstance(text, str) else text
            for key, text in DECLARED[name].items()
        }
        factor = FACTORS.get(about.get("unit", ""), 1.0)
        return cls(**about, values=[factor * value for value in values], at_ceiling=at_ceiling)

    @property
    def margin(self) -> float | None:
        """Margin of a test of equivalence; None where nobody has said what would matter."""
        return PERFORMANCE_MARGIN if self.role == PERFORMANCE else None

    @property
    def interval(self) -> Interval:
        """Interval of the mean over seeds."""
        return over_seeds(self.values)

    @property
    def reason(self) -> str:
        """Why the claim is not judged; empty if it is."""
        if self.interval.count < LEAST_SEEDS:
            return few_seeds(self.interval.count)
        return "at its ceiling" if self.at_ceiling else ""


def few_seeds(count: int) -> str:
    """Return why a claim with so many seeds is not judged."""
    return f"{count} {'seed' if count == 1 else 'seeds'}, at least {LEAST_SEEDS} needed"


def claims_table(claims: Sequence[Claim], steps: int | None) -> pd.DataFrame:
    """Judge claims, each role as a family of its own.

    Args:
        claims: what is claimed.
        steps: optimiser steps of a run; None is an epoch.

    Returns:
        A row a claim: words, unit, threshold and margin, seeds, mean with its interval; the verdict
        on the difference from the threshold with its p, and whether the mean is within the margin
        with its p; and the reason where the claim is not judged.
    """
    few = "" if steps is None or steps >= LEAST_STEPS else few_steps(steps)
    reasons = [claim.reason or few for claim in claims]
    judgements: dict[int, Judgement] = {}
    for role in (CONJECTURE, PERFORMANCE, OBSERVATION):
        family = [
            place for place, claim in enumerate(claims) if claim.role == role and not reasons[place]
        ]
        measured = [claims[place] for place in family]
        judged = judge([(claim.interval, claim.threshold, claim.margin) for claim in measured])
        judgements |= dict(zip(family, judged, strict=True))
    about = ("conjecture", "role", "claim", "statistic", "unit", "threshold", "margin")
    rows = []
    for place, claim in enumerate(claims):
        row = {name: getattr(claim, name) for name in about} | {"seeds": claim.interval.count}
        row |= claim.interval.columns("mean", "low", "high")
        judgement = judgements.get(place, Judgement(NOT_JUDGED, math.nan, math.nan))
        row |= {"p_holm": judgement.p, "verdict": judgement.verdict}
        row |= {"p_equivalence": judgement.equivalence, "within_margin": judgement.within_margin}
        rows.append(row | {"reason": reasons[place]})
    return pd.DataFrame(rows)


def few_steps(steps: int) -> str:
    """Return why claims on runs of so many steps are not judged."""
    return f"{steps} {'step' if steps == 1 else 'steps'} a run, at least {LEAST_STEPS} needed"


def verdicts_table(claims: pd.DataFrame) -> pd.DataFrame:
    """Decide every conjecture that :func:`claims_table` has claims of."""
    rows = []
    for number, own in claims.groupby("conjecture") if len(claims) else ():
        verdict, reason = _decide(own[own.role == CONJECTURE])
        about = {"conjecture": number, "statement": DECLARED["statements"][str(number)]}
        rows.append(about | {"verdict": verdict, "reason": reason})
    return pd.DataFrame(rows)


def _decide(deciding: pd.DataFrame) -> tuple[str, str]:
    """Return the verdict on a conjecture, and why it is not judged if it is not."""
    seeds = int(deciding.seeds.min()) if len(deciding) else 0
    if seeds < LEAST_SEEDS:
        return NOT_JUDGED, few_seeds(seeds)
    verdicts = set(deciding.verdict) - {NOT_JUDGED}
    if not verdicts:
        return NOT_JUDGED, deciding.reason.iloc[0]
    if CONTRADICTED in verdicts:
        return CONTRADICTED, ""
    return (SUPPORTED if verdicts == {SUPPORTED} else INCONCLUSIVE), ""
