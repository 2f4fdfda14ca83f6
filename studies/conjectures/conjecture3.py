"""Conjecture 3: a larger ratio meets Lemma 1's condition, brings positives closer (Figs. 6, 8)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from gradlab import PairSimilarity, components
from gradlab.batch import Triple
from gradlab.gradient import (
    KINDS,
    LEMMA_STEP,
    RatioInterval,
    gets_closer,
    ratio_bounds,
    tangent_bounds,
)
from studies.conjectures.conditions import BASELINE, baseline
from studies.conjectures.results import Results, Section, binned, comparisons, paired, summary
from studies.conjectures.settings import LEMMA_STEPS, RATIO, StudySettings
from studies.conjectures.verdicts import Claim
from studies.conjectures.views import HeldOutViews
from studies.statistics import Array

DYNAMIC = ("arccon", "met")
BINS = np.linspace(-1, 3, 81)
PROBES = (1.0, 1.5, 2.0)


def batch_triples(anchors: Array, positives: Array) -> Triple:
    """Triples (anchor i, its positive, j ≠ i of the other view) of unit rows (N, D): (N, N-1)."""
    count = len(anchors)
    pair = PairSimilarity.from_vectors(anchors, positives)
    cosine, sine = pair.cosine[:, None], pair.sine[:, None]
    radial = anchors @ positives.T
    toward = (positives @ positives.T - cosine * radial) / sine
    # A squared length that rounding made negative is zero.
    aside = np.sqrt(np.maximum(1 - radial**2 - toward**2, 0))
    others = ~np.eye(count, dtype=bool)
    fields = np.broadcast_arrays(cosine, sine, radial, toward, aside)
    return Triple(*(field[others].reshape(count, count - 1) for field in fields))


def published_filter(triple: Triple, step: float) -> Array:
    """Triples that the published figure shows: all cosines positive, and the lemma feasible."""
    feasible: Array = tangent_bounds(triple, step).feasible
    return feasible & (triple.positive_cosine > 0) & (triple.radial > 0) & (triple.toward > 0)


def section(results: Results, settings: StudySettings) -> Section | None:
    """Minimum ratios, dynamic-ratio steps, positive cosines under several ratios, performance."""
    bounds, distribution = _bounds(results)
    if bounds.empty:
        return None
    closer = _closer(results)
    ratios = [(ratio, baseline(ratio=ratio).name) for ratio in sorted({RATIO, *settings.ratios})]
    others = [(baseline(ratio=one).name, BASELINE) for one in settings.ratios if one != RATIO]
    tables = {
        "conjecture3-minimum-ratio": bounds,
        "conjecture3-minimum-ratio-distribution": distribution,
        "conjecture3-closer": closer,
        "conjecture3-performance": summary(results, ratios),
        "conjecture3-comparisons": comparisons(results, others),
    }
    return Section(tables, _claims(results, settings, closer))


def _claims(results: Results, settings: StudySettings, closer: pd.DataFrame) -> list[Claim]:
    claims = []
    for loss in DYNAMIC:
        rows = closer[(closer.condition == loss) & (closer.step == LEMMA_STEP)].sort_values("seed")
        for name in ("closer", "lemma"):
            gains = (rows[f"{name}_own"] - rows[f"{name}_one"]).to_list()
            claims.append(Claim.declared(name, gains, loss=loss, step=LEMMA_STEP))
    # What training with a larger ratio does, above the baseline's ratio and below it.
    largest, smallest = max(settings.ratios), min(settings.ratios)
    pairs = {"larger-ratio": (largest, RATIO), "smaller-ratio": (RATIO, smallest)}
    for name, (first, second) in pairs.items():
        if first <= second and name == "smaller-ratio":
            continue  # a claim that decides stays, inconclusive, where nothing was measured for it
        names = baseline(ratio=first).name, baseline(ratio=second).name
        cosines = []
        if first > second:
            cosines = paired(*(results.last(one, "positive_cosine") for one in names))
        claims += [
            Claim.declared(name, cosines, first=first, second=second),
            Claim.declared("ratio", results.differences(*names), first=first, second=second),
        ]
    return claims


def _bounds(results: Results) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Minimum ratios on the untuned and the tuned encoder; their distribution over all seeds."""
    rows: list[dict[str, Any]] = []
    parts: list[pd.DataFrame] = []
    for seed, encoder, views in results.kept(BASELINE):
        triple = all_triples(views)
        for step in LEMMA_STEPS:
            published = published_filter(triple, step)
            for rule in KINDS:
                interval = ratio_bounds(triple, step, rule)
                for triples, kept in (("all", np.ones_like(published)), ("published", published)):
                    key = {"encoder": encoder, "step": step, "rule": rule, "triples": triples}
                    rows.append({**key, "seed": seed, **_bound_statistics(rule, interval, kept)})
                    histogram = np.histogram(interval.low[kept & interval.feasible], BINS)[0]
                    part = binned(BINS, "found", histogram, **key)
                    parts.append(part.assign(count=int(kept.sum())))
    if not parts:
        return pd.DataFrame(), pd.DataFrame()
    keys = ["encoder", "step", "rule", "triples", "low", "high"]
    table = pd.concat(parts).groupby(keys, sort=False, as_index=False)[["found", "count"]].sum()
    table["share"] = table.found / table["count"].clip(lower=1)
    table = table.loc[table.share > 0, [*keys, "share", "count"]]
    return pd.DataFrame(rows), table.reset_index(drop=True)


def all_triples(views: HeldOutViews) -> Triple:
    """The triples of all batches, fields (batches, N, N-1)."""
    found = [vars(batch_triples(*batch)) for batch in views.batches()]
    return Triple(**{name: np.stack([one[name] for one in found]) for name in found[0]})


def _bound_statistics(rule: str, interval: RatioInterval, kept: Array) -> dict[str, float]:
    """Shares of the kept triples that some ratio, and each of `PROBES`, satisfies; quantiles."""
    low, total = interval.low[kept & interval.feasible], int(kept.sum())
    found = {"count": total, "feasible": len(low) / total if total else np.nan}
    for ratio in PROBES:
        # The published rule has no upper bound.
        ok = interval.low < ratio if rule == "tangent" else interval.contains(ratio)
        found[f"satisfied_{ratio:g}"] = float(ok[kept].mean()) if total else np.nan
    quantiles = np.quantile(low, (0.05, 0.5, 0.95)) if len(low) else [np.nan] * 3
    return found | dict(zip(("q05", "median", "q95"), map(float, quantiles), strict=True))


def closer_shares(triple: Triple, own: Array, step: float) -> dict[str, float]:
    """Shares of triples that a step brings closer, exactly and by the lemma: own ratios, and 1."""
    low = tangent_bounds(triple, step).low
    return {
        "closer_own": float(gets_closer(own, triple, step).mean()),
        "closer_one": float(gets_closer(1.0, triple, step).mean()),
        "lemma_own": float((own > low).mean()),
        "lemma_one": float((low < 1).mean()),
    }


_CLOSER = (
    "condition", "seed", "step", "ratio_mean", "ratio_median",
    "closer_own", "closer_one", "lemma_own", "lemma_one",
)  # fmt: skip


def _closer(results: Results) -> pd.DataFrame:
    """`closer_shares` of the triples of each dynamic loss's own trained encoder."""
    rows = []
    for loss in DYNAMIC:
        for seed, views in results.tuned(loss):
            triple = all_triples(views)
            ratio = np.stack([components(loss, *batch).scalar_ratio for batch in views.batches()])
            own = np.broadcast_to(ratio[..., None], triple.radial.shape)
            for step in LEMMA_STEPS:
                row = {"condition": loss, "seed": seed, "step": step}
                row |= {"ratio_mean": float(ratio.mean()), "ratio_median": float(np.median(ratio))}
                rows.append(row | closer_shares(triple, own, step))
    return pd.DataFrame(rows, columns=list(_CLOSER))
