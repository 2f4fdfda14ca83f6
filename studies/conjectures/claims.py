"""What a study claims in ``claims.toml``, with its numbers from the tables of a report; verdicts.

A claim is that a number, measured once a seed, is larger than a threshold. Claims of one role are
one family of `studies.statistics.judge`. A claim is not judged from fewer than `LEAST_SEEDS` seeds
or `LEAST_STEPS` steps, nor at its ceiling, where it cannot fail. A conjecture is supported if all
of its claims that are judged are, contradicted if one of them is, and inconclusive otherwise. It
says nothing of the performance on STS-B dev, so that claims about that do not decide it.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from gradlab import get_loss
from gradlab.gradient import LEMMA_STEP
from studies.conjectures.conditions import (
    BASELINE,
    MARGIN,
    NO_DISSIPATION,
    RATIO,
    TEMPERATURE,
    baseline,
)
from studies.conjectures.measures import DYNAMIC
from studies.conjectures.results import Frames, paired
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
    """A number, measured once a seed, that is claimed to exceed a threshold.

    ``claim`` and ``statistic`` say in words what is claimed and measured. Only the role
    `CONJECTURE` decides the conjecture. Without room to grow (``at_ceiling``), none is judged.
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

    Returns:
        A row a claim: words, unit, threshold and margin, seeds, mean with its interval; the verdict
        on the difference from the threshold with its p, and whether the mean is within the margin
        with its p; and the reason where it is not judged, such as too few ``steps`` (None: an
        epoch).
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
    runs = tables.get("runs", pd.DataFrame(columns=["condition", "seed", "stsb_dev", "diverged"]))
    scores = _Differences(runs[runs.diverged.isna()], "stsb_dev")
    claims = []
    if "conjecture1-angles" in tables:
        gaps = _Differences(tables["conjecture1-angles"], "gap")
        claims += _first(gaps, scores, settings["margins"])
    if "conjecture2-share" in tables:
        claims += _second(tables["conjecture2-share"], scores, settings["temperatures"])
    if "conjecture3-minimum-ratio" in tables:
        # Without a dynamic loss the table has no rows and is not there; its claims stay.
        unmeasured = pd.DataFrame({"condition": [], "step": []})
        claims += _dynamic(tables.get("conjecture3-closer", unmeasured))
        ends = tables["training"].groupby(["condition", "seed"], as_index=False).last()
        cosines = _Differences(ends, "positive_cosine")
        claims += _static(cosines, scores, settings["ratios"])
    return claims


class _Differences:
    """Differences of a measure between two conditions, for the seeds that have both."""

    def __init__(self, table: pd.DataFrame, column: str) -> None:
        self.wide = table.pivot(index="seed", columns="condition", values=column)

    def __call__(self, plus: str, minus: str) -> list[float]:
        if plus not in self.wide or minus not in self.wide:
            return []
        return paired(self.wide[plus], self.wide[minus])


def _first(gaps: _Differences, scores: _Differences, margins: Sequence[float]) -> list[Claim]:
    claims = [
        Claim.declared("gap", gaps(NO_DISSIPATION, BASELINE)),
        Claim.declared("dissipation", scores(BASELINE, NO_DISSIPATION)),
    ]
    # At m = 1 the gate hardly ever closes: those trainings are the ones without dissipation, and
    # would count twice.
    largest = max((margin for margin in margins if margin < 1), default=MARGIN)
    if largest > MARGIN:
        gain = scores(BASELINE, baseline(margin=largest).name)
        claims.append(Claim.declared("margin", gain, first=MARGIN, second=largest))
    return claims


def _second(
    shares: pd.DataFrame, scores: _Differences, temperatures: Sequence[float]
) -> list[Claim]:
    at_training = shares[shares.temperature == TEMPERATURE].set_index("seed")
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
    middle = min(temperatures, key=lambda temperature: abs(temperature - 0.3))
    for temperature in dict.fromkeys((middle, max(temperatures))):
        if temperature != TEMPERATURE:
            gain = scores(BASELINE, baseline(temperature=temperature).name)
            named: dict[str, Any] = {"first": TEMPERATURE, "second": temperature}
            claims.append(Claim.declared("temperature", gain, **named))
    return claims


def _dynamic(closer: pd.DataFrame) -> list[Claim]:
    claims = []
    for loss, step in itertools.product(DYNAMIC, STEPS):
        rows = closer[(closer.condition == loss) & (closer.step == step)]
        for name in ("closer", "lemma"):
            gains, at_ceiling = [], False
            if len(rows):
                gains = (rows[f"{name}_own"] - rows[f"{name}_one"]).to_list()
                at_ceiling = bool(rows[f"{name}_one"].min() > CEILING)
            title = get_loss(loss).title
            claims.append(Claim.declared(name, gains, at_ceiling, loss=title, step=step))
    return claims


def _static(cosines: _Differences, scores: _Differences, ratios: Sequence[float]) -> list[Claim]:
    """What training with a larger ratio does, above the baseline's ratio and below it."""
    claims = []
    pairs = {"larger-ratio": (max(ratios), RATIO), "smaller-ratio": (RATIO, min(ratios))}
    for name, (first, second) in pairs.items():
        if first <= second and name == "smaller-ratio":
            continue  # a claim that decides stays, unmeasured, where there is nothing to compare
        names = baseline(ratio=first).name, baseline(ratio=second).name
        differences = cosines(*names) if first > second else []
        claims += [
            Claim.declared(name, differences, first=first, second=second),
            Claim.declared("ratio", scores(*names), first=first, second=second),
        ]
    return claims


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
