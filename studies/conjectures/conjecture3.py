"""Conjecture 3: a larger ratio meets Lemma 1's condition, brings positives closer (Figs. 6, 8)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from gradlab import PairSimilarity, components
from gradlab.batch import Triple
from gradlab.gradient import KINDS, RatioInterval, gets_closer, ratio_bounds, tangent_bounds
from studies.conjectures.conditions import BASELINE, baseline
from studies.conjectures.results import Results, binned, comparisons, summary
from studies.conjectures.settings import LEMMA_STEPS, RATIO, StudySettings
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
    off_diagonal = ~np.eye(count, dtype=bool)
    fields = np.broadcast_arrays(cosine, sine, radial, toward, aside)
    return Triple(*(field[off_diagonal].reshape(count, count - 1) for field in fields))


def published_filter(triple: Triple, step: float) -> Array:
    """Triples that the published figure shows: all cosines positive, and the lemma feasible."""
    feasible: Array = tangent_bounds(triple, step).feasible
    return feasible & (triple.positive_cosine > 0) & (triple.radial > 0) & (triple.toward > 0)


def tables_of(results: Results, settings: StudySettings) -> dict[str, pd.DataFrame]:
    """Minimum ratios, dynamic-ratio steps, and performance against the ratio."""
    bounds, distribution = _bounds(results)
    if bounds.empty:
        return {}
    ratios = [(ratio, baseline(ratio=ratio).name) for ratio in sorted({RATIO, *settings.ratios})]
    rivals = [(baseline(ratio=ratio).name, BASELINE) for ratio in settings.ratios if ratio != RATIO]
    return {
        "conjecture3-minimum-ratio": bounds,
        "conjecture3-minimum-ratio-distribution": distribution,
        "conjecture3-closer": _closer(results),
        "conjecture3-performance": summary(results, ratios),
        "conjecture3-comparisons": comparisons(results, rivals),
    }


def _bounds(results: Results) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Minimum ratios on the untuned and the tuned encoder; their distribution over all seeds."""
    rows: list[dict[str, Any]] = []
    histograms: list[pd.DataFrame] = []
    for seed, encoder, views in results.before_and_after(BASELINE):
        triple = all_triples(views)
        for step in LEMMA_STEPS:
            published = published_filter(triple, step)
            for rule in KINDS:
                interval = ratio_bounds(triple, step, rule)
                for triples, mask in (("all", np.ones_like(published)), ("published", published)):
                    key = {"encoder": encoder, "step": step, "rule": rule, "triples": triples}
                    rows.append({**key, "seed": seed, **_bound_statistics(rule, interval, mask)})
                    counts = np.histogram(interval.low[mask & interval.feasible], BINS)[0]
                    histogram = binned(BINS, "feasible", counts, **key)
                    histograms.append(histogram.assign(count=int(mask.sum())))
    if not histograms:
        return pd.DataFrame(), pd.DataFrame()
    keys = ["encoder", "step", "rule", "triples", "low", "high"]
    groups = pd.concat(histograms).groupby(keys, sort=False, as_index=False)
    table = groups[["feasible", "count"]].sum()
    table["share"] = table.feasible / table["count"].clip(lower=1)
    table = table.loc[table.share > 0, [*keys, "share", "count"]]
    return pd.DataFrame(rows), table.reset_index(drop=True)


def all_triples(views: HeldOutViews) -> Triple:
    """The triples of all batches, fields (batches, N, N-1)."""
    batches = [vars(batch_triples(*batch)) for batch in views.batches()]
    return Triple(**{name: np.stack([fields[name] for fields in batches]) for name in batches[0]})


def _bound_statistics(rule: str, interval: RatioInterval, mask: Array) -> dict[str, float]:
    """Shares of the masked triples that some ratio, and each of `PROBES`, satisfies; quantiles."""
    low, total = interval.low[mask & interval.feasible], int(mask.sum())
    shares = {"count": total, "feasible": len(low) / total if total else np.nan}
    for ratio in PROBES:
        # The published rule has no upper bound.
        satisfied = interval.low < ratio if rule == "tangent" else interval.contains(ratio)
        shares[f"satisfied_{ratio:g}"] = float(satisfied[mask].mean()) if total else np.nan
    quantiles = np.quantile(low, (0.05, 0.5, 0.95)) if len(low) else [np.nan] * 3
    return shares | dict(zip(("q05", "median", "q95"), map(float, quantiles), strict=True))


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
