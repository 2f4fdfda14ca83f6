"""Verdicts on what a study claims in ``claims.toml``.

A claim is that a number, measured once a seed, is larger than a threshold that was fixed
beforehand. `studies.statistics.judge` judges the claims of one role as a family. A conjecture is
supported if all claims that it consists of are, contradicted if one of them is, and inconclusive
otherwise. Claims about the performance on STS-B dev do not decide it: it says nothing of them.
"""

from __future__ import annotations

import dataclasses
import tomllib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from studies.statistics import CONTRADICTED, INCONCLUSIVE, SUPPORTED, Interval, judge, over_seeds

DECLARED = tomllib.loads(Path(__file__).with_name("claims.toml").read_text(encoding="utf-8"))
CONJECTURE, PERFORMANCE, OBSERVATION = "conjecture", "performance", "observation"
# A difference in Spearman's correlation that would matter, as in the evidence (single conditions).
PERFORMANCE_MARGIN = 0.03


@dataclasses.dataclass(frozen=True)
class Claim:
    """A number that is claimed to exceed a threshold.

    Attributes:
        role: :data:`CONJECTURE` (decides the conjecture), :data:`PERFORMANCE` or
            :data:`OBSERVATION` (do not).
        claim: what is claimed, in words.
        statistic: what is measured once a seed, with its unit; ``values`` has one a seed.
    """

    conjecture: int
    role: str
    claim: str
    statistic: str
    values: Sequence[float]
    threshold: float = 0.0

    @classmethod
    def declared(cls, name: str, values: Sequence[float], **named: Any) -> Claim:
        """One of ``claims.toml``, with the values of the study that its words name."""
        about: dict[str, Any] = {
            key: text.format(**named) if isinstance(text, str) else text
            for key, text in DECLARED[name].items()
        }
        return cls(**about, values=values)

    @property
    def margin(self) -> float | None:
        """Of a test of equivalence; None where nobody has said what would matter."""
        return PERFORMANCE_MARGIN if self.role == PERFORMANCE else None

    @property
    def interval(self) -> Interval:
        """Of the mean over seeds."""
        return over_seeds(self.values)


def judge_claims(claims: Sequence[Claim]) -> list[tuple[str, float]]:
    """Verdict on each claim and its p after Holm's correction over the claims of its role."""
    found: dict[int, tuple[str, float]] = {}
    for role in (CONJECTURE, PERFORMANCE, OBSERVATION):
        own = {place: claim for place, claim in enumerate(claims) if claim.role == role}
        judged = judge([(one.interval, one.threshold, one.margin) for one in own.values()])
        found |= {place: (one.verdict, one.p) for place, one in zip(own, judged, strict=True)}
    return [found[place] for place in range(len(claims))]


def claims_table(claims: Sequence[Claim]) -> pd.DataFrame:
    """One row a claim, with statistic, interval, corrected p and verdict."""
    about = ("conjecture", "role", "claim", "statistic", "threshold", "margin")
    rows = []
    for claim, (verdict, adjusted) in zip(claims, judge_claims(claims), strict=True):
        row = {name: getattr(claim, name) for name in about} | {"seeds": claim.interval.count}
        row |= claim.interval.columns("mean", "low", "high")
        rows.append(row | {"p_holm": adjusted, "verdict": verdict})
    return pd.DataFrame(rows)


def verdicts_table(claims: pd.DataFrame) -> pd.DataFrame:
    """One row a conjecture that there are claims of, from :func:`claims_table`."""
    rows = []
    for number, part in claims.groupby("conjecture") if len(claims) else ():
        verdict = _decide(part.verdict[part.role == CONJECTURE])
        statement = DECLARED["statements"][str(number)]
        rows.append({"conjecture": number, "statement": statement, "verdict": verdict})
    return pd.DataFrame(rows)


def _decide(found: Iterable[str]) -> str:
    verdicts = set(found)
    if CONTRADICTED in verdicts:
        return CONTRADICTED
    return SUPPORTED if verdicts == {SUPPORTED} else INCONCLUSIVE
