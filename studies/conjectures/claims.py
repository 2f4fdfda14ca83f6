"""What a study claims in ``claims.toml``, with its numbers from the tables of a report; verdicts.

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
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from gradlab import get_loss
from gradlab.gradient import LEMMA_STEP
from studies.conjectures.conditions import BASELINE, NO_DISSIPATION, baseline
from studies.conjectures.measures import DYNAMIC
from studies.conjectures.results import Frames, paired
from studies.conjectures.settings import MARGIN, RATIO, TEMPERATURE
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
# From here on a share has no room left to grow.
CEILING = 0.99
# Step sizes of the lemma at which triples are counted: the paper's, and one at which steps fail.
STEPS = (LEMMA_STEP, 0.3)
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
        few = _too_few(self.interval.count, LEAST_SEEDS, "seed")
        return few or ("at its ceiling" if self.at_ceiling else "")


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
    few = "" if steps is None else _too_few(steps, LEAST_STEPS, "step", " a run")
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


def verdicts_table(claims: pd.DataFrame) -> pd.DataFrame:
    """Decide every conjecture that :func:`claims_table` has claims of."""
    rows = []
    for number, own in claims.groupby("conjecture") if len(claims) else ():
        verdict, reason = _decide(own[own.role == CONJECTURE])
        about = {"conjecture": number, "statement": DECLARED["statements"][str(number)]}
        rows.append(about | {"verdict": verdict, "reason": reason})
    return pd.DataFrame(rows)


def claims_of(tables: Frames, settings: Mapping[str, Any]) -> list[Claim]:
    """Return the claims of all conjectures whose tables are there, for a study's settings."""
    claims = []
    if "conjecture1-angles" in tables:
        claims += _first(tables, settings)
    if "conjecture2-share" in tables:
        claims += _second(tables, settings)
    if "conjecture3-minimum-ratio" in tables:
        claims += _third(tables, settings)
    return claims


def _first(tables: Frames, settings: Mapping[str, Any]) -> list[Claim]:
    gaps = by_seed(tables["conjecture1-angles"], "gap")
    claims = [
        Claim.declared("gap", gaps(NO_DISSIPATION, BASELINE)),
        Claim.declared("dissipation", scores(tables)(BASELINE, NO_DISSIPATION)),
    ]
    # At m = 1 the gate hardly ever closes: those trainings are the ones without dissipation, and
    # would count twice.
    largest = max((margin for margin in settings["margins"] if margin < 1), default=MARGIN)
    if largest > MARGIN:
        gain = scores(tables)(BASELINE, baseline(margin=largest).name)
        claims.append(Claim.declared("margin", gain, first=MARGIN, second=largest))
    return claims


def _second(tables: Frames, settings: Mapping[str, Any]) -> list[Claim]:
    table = tables["conjecture2-share"]
    at_training = table[table.temperature == TEMPERATURE].set_index("seed")
    tuned, untuned = (at_training[at_training.encoder == name] for name in ("tuned", "untuned"))
    gated, before = (rows[rows.anchors == "gated"] for rows in (tuned, untuned))
    whole = tuned[tuned.anchors == "all"]
    measured = {
        "projection": gated.projection,
        "share": gated.share,
        "projection-of-all": whole.projection,
        "share-of-all": whole.share,
        "tuning": gated.projection - before.projection,
    }
    claims = [
        Claim.declared(name, values.dropna().to_list(), temperature=TEMPERATURE)
        for name, values in measured.items()
    ]
    temperatures = settings["temperatures"]
    middle = min(temperatures, key=lambda temperature: abs(temperature - 0.3))
    for temperature in dict.fromkeys((middle, max(temperatures))):
        if temperature != TEMPERATURE:
            gain = scores(tables)(BASELINE, baseline(temperature=temperature).name)
            named = {"first": TEMPERATURE, "second": temperature}
            claims.append(Claim.declared("temperature", gain, **named))
    return claims


def _third(tables: Frames, settings: Mapping[str, Any]) -> list[Claim]:
    claims = []
    # Without a dynamic loss the table has no rows and is not there; its claims stay, unmeasured.
    closer = tables.get("conjecture3-closer", pd.DataFrame({"condition": [], "step": []}))
    for loss in DYNAMIC:
        for step in STEPS:
            rows = closer[(closer.condition == loss) & (closer.step == step)]
            for name in ("closer", "lemma"):
                gains, at_ceiling = [], False
                if len(rows):
                    gains = (rows[f"{name}_own"] - rows[f"{name}_one"]).to_list()
                    at_ceiling = bool(rows[f"{name}_one"].min() > CEILING)
                title = get_loss(loss).title
                claims.append(Claim.declared(name, gains, at_ceiling, loss=title, step=step))
    # What training with a larger ratio does, above the baseline's ratio and below it.
    largest, smallest = max(settings["ratios"]), min(settings["ratios"])
    ends = tables["training"].groupby(["condition", "seed"], as_index=False).positive_cosine.last()
    cosines = by_seed(ends, "positive_cosine")
    pairs = {"larger-ratio": (largest, RATIO), "smaller-ratio": (RATIO, smallest)}
    for name, (first, second) in pairs.items():
        if first <= second and name == "smaller-ratio":
            continue  # a claim that decides stays, unmeasured, where there is nothing to compare
        names = baseline(ratio=first).name, baseline(ratio=second).name
        differences = cosines(*names) if first > second else []
        claims += [
            Claim.declared(name, differences, first=first, second=second),
            Claim.declared("ratio", scores(tables)(*names), first=first, second=second),
        ]
    return claims


def scores(tables: Frames) -> Any:
    """Return `by_seed` of STS-B dev, over the runs that did not diverge."""
    runs = tables["runs"]
    return by_seed(runs[runs.diverged.isna()], "stsb_dev")


def by_seed(table: pd.DataFrame, column: str) -> Any:
    """Return a function of two conditions: their differences, for the seeds that have both."""
    wide = table.pivot(index="seed", columns="condition", values=column)

    def differences(plus: str, minus: str) -> list[float]:
        if plus not in wide or minus not in wide:
            return []
        return paired(wide[plus], wide[minus])

    return differences


def _decide(deciding: pd.DataFrame) -> tuple[str, str]:
    """Return the verdict on a conjecture, and why it is not judged if it is not."""
    seeds = int(deciding.seeds.min()) if len(deciding) else 0
    if few := _too_few(seeds, LEAST_SEEDS, "seed"):
        return NOT_JUDGED, few
    verdicts = set(deciding.verdict) - {NOT_JUDGED}
    if not verdicts:
        return NOT_JUDGED, deciding.reason.iloc[0]
    if CONTRADICTED in verdicts:
        return CONTRADICTED, ""
    return (SUPPORTED if verdicts == {SUPPORTED} else INCONCLUSIVE), ""


def _too_few(count: int, least: int, unit: str, suffix: str = "") -> str:
    """Why a claim on so many of a unit is not judged; empty if they are enough."""
    if count >= least:
        return ""
    return f"{count} {unit}{'' if count == 1 else 's'}{suffix}, at least {least} needed"
