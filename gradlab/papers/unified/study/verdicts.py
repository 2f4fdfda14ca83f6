"""The rule by which a study says whether a conjecture holds: declared here, and nowhere else.

A claim is that a number, measured once a seed, is larger than a threshold that was fixed beforehand. With the 95% t
interval of its mean over seeds the claim is

- ``supported`` if the whole interval lies above the threshold,
- ``not supported`` if the whole interval lies at the threshold or below,
- ``inconclusive`` otherwise, and whenever fewer than two seeds were run.

A conjecture is supported if all claims that it consists of are, not supported if one of them is not, and inconclusive
otherwise. Claims about the performance on STS-B dev are judged by the same rule but do not decide a conjecture, which
says nothing of performance.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Sequence

import pandas as pd

from gradlab.papers.unified.study.statistics import Interval, over_seeds

SUPPORTED, NOT_SUPPORTED, INCONCLUSIVE = "supported", "not supported", "inconclusive"
CONJECTURE, PERFORMANCE, OBSERVATION = "conjecture", "performance", "observation"
STATEMENTS = {
    1: "gradient dissipation keeps the gap between anchor-negative and anchor-positive distance smaller",
    2: "the weight lets the hardest negative dominate the gradient",
    3: "a larger ratio meets the condition of Lemma 1 more often and brings anchor and positive closer",
}


@dataclasses.dataclass(frozen=True)
class Claim:
    """A number that is claimed to exceed a threshold.

    Attributes:
        conjecture: 1, 2 or 3.
        role: :data:`CONJECTURE` (decides it), :data:`PERFORMANCE` or :data:`OBSERVATION` (do not).
        text: what is claimed.
        statistic: what is measured once a seed, with its unit.
        values: one a seed.
        threshold: what it is claimed to exceed.
    """

    conjecture: int
    role: str
    text: str
    statistic: str
    values: Sequence[float]
    threshold: float = 0.0

    @property
    def interval(self) -> Interval:
        """Of the mean over seeds."""
        return over_seeds(self.values)

    @property
    def verdict(self) -> str:
        """By the rule of this module."""
        return judge(self.interval, self.threshold)


def judge(interval: Interval, threshold: float = 0.0) -> str:
    """The verdict on "the mean exceeds the threshold"; see the module for the rule."""
    if interval.count < 2 or math.isnan(interval.low):
        return INCONCLUSIVE
    if interval.low > threshold:
        return SUPPORTED
    return NOT_SUPPORTED if interval.high <= threshold else INCONCLUSIVE


def verdict(claims: Iterable[Claim]) -> str:
    """The verdict on a conjecture from its claims; those of other roles do not count."""
    found = [claim.verdict for claim in claims if claim.role == CONJECTURE]
    if NOT_SUPPORTED in found:
        return NOT_SUPPORTED
    return SUPPORTED if found and set(found) == {SUPPORTED} else INCONCLUSIVE


def claims_table(claims: Sequence[Claim]) -> pd.DataFrame:
    """One row a claim, with statistic, interval and verdict."""
    rows = []
    for claim in claims:
        found = claim.interval
        rows.append(
            {
                "conjecture": claim.conjecture,
                "role": claim.role,
                "claim": claim.text,
                "statistic": claim.statistic,
                "threshold": claim.threshold,
                "seeds": found.count,
                "mean": found.mean,
                "low": found.low,
                "high": found.high,
                "verdict": claim.verdict,
            }
        )
    return pd.DataFrame(rows)


def verdicts_table(claims: Sequence[Claim]) -> pd.DataFrame:
    """One row a conjecture that there are claims of."""
    numbers = sorted({claim.conjecture for claim in claims})
    return pd.DataFrame(
        [
            {
                "conjecture": number,
                "statement": STATEMENTS[number],
                "verdict": verdict([claim for claim in claims if claim.conjecture == number]),
            }
            for number in numbers
        ]
    )
