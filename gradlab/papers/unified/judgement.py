"""Verdicts on effects that were declared together: Holm's correction, and a test of equivalence."""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Sequence

from scipy import stats

from gradlab.errors import missing

SUPPORTED, CONTRADICTED = "supported", "contradicted"
NO_EFFECT, INCONCLUSIVE = "no effect of that size", "inconclusive"
# Of all tests together, and of each interval.
ALPHA = 0.05


def require_statsmodels() -> None:
    """Say how it is installed before anything long is begun.

    Raises:
        GradlabError: if it is not.
    """
    if importlib.util.find_spec("statsmodels") is None:
        raise missing("statsmodels", "evidence")


def judge(
    estimates: Sequence[float], p: Sequence[float], equivalence: Sequence[float], alpha: float = ALPHA
) -> list[tuple[str, float]]:
    """Verdict on each of several effects, and its p after Holm's correction over all that are known.

    Equivalence comes first: an effect shown to be within its margin is *no effect of that size*, whatever its sign. Otherwise
    it is *supported* (an estimate above 0) or *contradicted* (below) if it differs from 0 after the correction, else
    *inconclusive*.

    Args:
        estimates: with the sign that is expected counted positive.
        p: two-sided, of no difference; NaN where nothing could be tested.
        equivalence: of :func:`within`; NaN where there is no margin.
    """
    from statsmodels.stats.multitest import multipletests

    known = [place for place, value in enumerate(p) if not math.isnan(value)]
    adjusted = dict.fromkeys(range(len(p)), math.nan)
    if known:
        corrected = multipletests([p[place] for place in known], alpha, method="holm")[1]
        adjusted |= dict(zip(known, map(float, corrected), strict=True))
    found = []
    for place, (estimate, equal) in enumerate(zip(estimates, equivalence, strict=True)):
        if equal < alpha:
            verdict = NO_EFFECT
        elif adjusted[place] < alpha:
            verdict = SUPPORTED if estimate > 0 else CONTRADICTED
        else:
            verdict = INCONCLUSIVE
        found.append((verdict, adjusted[place]))
    return found


def within(estimate: float, error: float, freedom: float, margin: float | None) -> float:
    """The larger p of the two one-sided t tests that an estimate lies within ±``margin``; NaN without one or without an error."""
    if margin is None or math.isnan(error):
        return math.nan
    if error == 0:
        return float(abs(estimate) >= margin)
    t = (margin - abs(estimate)) / error
    return float(stats.t.sf(t, freedom))
