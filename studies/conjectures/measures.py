"""What each part of a study measures on its runs: a function of tables for each."""

from __future__ import annotations

import itertools
import math
import tomllib
from collections import defaultdict
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from gradlab import PairSimilarity, components, get_loss
from gradlab.batch import Triple
from gradlab.gradient import KINDS, RatioInterval, gets_closer, ratio_bounds, tangent_bounds
from studies.conjectures.conditions import (
    BASELINE,
    CONTRASTIVE,
    LEMMA_STEPS,
    MARGIN,
    NO_DISSIPATION,
    RATIO,
    REPAIRS,
    SHARE_TEMPERATURES,
    TEMPERATURE,
    TWICE,
    StudySettings,
    baseline,
)
from studies.conjectures.results import (
    METRICS,
    Frames,
    Results,
    binned,
    comparison,
    comparisons,
    density,
    interval_columns,
    summary,
)
from studies.conjectures.views import HeldOutViews, moments
from studies.statistics import Array, over_seeds, over_sentences

DYNAMIC = ("arccon", "met")
# Bins of angles (radians), of minimum ratios and of standardised angles.
ANGLE_BINS, RATIO_BINS, STANDARD_BINS = (
    np.linspace(0, math.pi, 91),
    np.linspace(-1, 3, 81),
    np.linspace(-5, 5, 41),
)
# Ratios whose share of satisfied triples is told.
PROBES = (1.0, 1.5, 2.0)
# Li et al. 2024, Table 3, BERT-base: condition -> (STS, transfer average); and gains by repair.
PUBLISHED = tomllib.loads(Path(__file__).with_name("published.toml").read_text(encoding="utf-8"))


def conjecture1(results: Results, settings: StudySettings) -> Frames:
    """Angles with and without dissipation, and performance against the margin (Figs. 5, 6)."""
    angles = {
        (condition, seed): views.angles()
        for condition in (BASELINE, NO_DISSIPATION)
        for seed, views in results.tuned(condition)
    }
    seeds = [seed for name, seed in angles if name == BASELINE and (NO_DISSIPATION, seed) in angles]
    if not seeds:
        return {}
    gaps = [_gap(angles[NO_DISSIPATION, seed]) - _gap(angles[BASELINE, seed]) for seed in seeds]
    means = [float(gap.mean()) for gap in gaps]
    intervals = pd.DataFrame(map(interval_columns, (over_seeds(means), over_sentences(gaps))))
    intervals.insert(0, "difference", f"{NO_DISSIPATION} - {BASELINE}")
    margins = [(m, baseline(margin=m).name) for m in sorted({MARGIN, *settings.margins})]
    rivals = [NO_DISSIPATION, *(name for m, name in margins if m != MARGIN)]
    return {
        "conjecture1-angles": _angles_table(angles),
        "conjecture1-gap": intervals,
        "conjecture1-distribution": _distribution(angles),
        "conjecture1-performance": summary(results, [*margins, (math.inf, NO_DISSIPATION)]),
        "conjecture1-comparisons": comparisons(results, [(BASELINE, name) for name in rivals]),
    }


def conjecture2(results: Results, settings: StudySettings) -> Frames:
    """Shares on both encoders, and performance against the temperature (Figs. 6, 7)."""
    rows: list[dict[str, Any]] = []
    for seed, encoder, views in results.before_and_after(BASELINE):
        for temperature in SHARE_TEMPERATURES:
            batches = [hardest_shares(*batch, temperature) for batch in views.batches()]
            share, projection, gate = map(np.concatenate, zip(*batches, strict=True))
            for anchors, mask in (("gated", gate), ("all", np.ones_like(gate))):
                row = {"encoder": encoder, "temperature": temperature, "anchors": anchors}
                row["count"] = int(mask.sum())
                for name, values in (("share", share), ("projection", projection)):
                    row[name] = float(values[mask].mean()) if mask.any() else np.nan
                rows.append(row | {"seed": seed})
    if not rows:
        return {}
    temperatures = [
        (t, baseline(temperature=t).name) for t in sorted({TEMPERATURE, *settings.temperatures})
    ]
    rivals = [(BASELINE, name) for value, name in temperatures if value != TEMPERATURE]
    return {
        "conjecture2-share": pd.DataFrame(rows),
        "conjecture2-performance": summary(results, temperatures),
        "conjecture2-comparisons": comparisons(results, rivals),
    }


def conjecture3(results: Results, settings: StudySettings) -> Frames:
    """Minimum ratios, steps with dynamic ratios, performance against the ratio (Figs. 6, 8)."""
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


def assumptions(results: Results, settings: StudySettings) -> Frames:
    """Moments of the angles and their distance from normality on both encoders (Fig. 9)."""
    rows: list[dict[str, Any]] = []
    standard = defaultdict(list)
    for seed, encoder, views in results.before_and_after(BASELINE):
        angles = views.angles()
        # Also less the mean of their anchor.
        negative = angles["negative"]
        angles["negative of one anchor"] = negative - negative.mean(axis=-1, keepdims=True)
        for angle, values in angles.items():
            flat = values.ravel()
            rows.append({"encoder": encoder, "seed": seed, "angle": angle, **normality(flat)})
            standard[encoder, angle].append((flat - flat.mean()) / flat.std())
    if not rows:
        return {}
    table = pd.concat(
        [
            density(STANDARD_BINS, of_seeds, encoder=encoder, angle=angle)
            for (encoder, angle), of_seeds in standard.items()
        ]
    )
    return {
        "assumptions-angles": pd.DataFrame(rows),
        "assumptions-distribution": table[table.density > 0].reset_index(drop=True),
    }


def repairs(results: Results, settings: StudySettings) -> Frames:
    """Scores of every loss, gains by repair, effect of the doubled ratio (Fig. 1, Table 3)."""
    kinds = {
        "contrastive": list(CONTRASTIVE),
        "original": list(REPAIRS),
        "repaired": list(REPAIRS.values()),
        "repaired, 2r": [f"{name}{TWICE}" for name in REPAIRS.values()],
    }
    rows = [
        {"type": kind, "condition": condition} | _scores(results, condition)
        for kind, conditions in kinds.items()
        for condition in conditions
        if len(results.scores(condition))
    ]
    if not rows:
        return {}
    gains, variants = [], []
    for metric in METRICS:
        for before, after in REPAIRS.items():
            gains += comparison(results, after, before, metric)
            variants += comparison(results, after + TWICE, after, metric)
        variants += comparison(results, BASELINE + TWICE, BASELINE, metric)
    return {
        "repairs": pd.DataFrame([*_untuned(results), *rows]),
        "repairs-gains": pd.DataFrame(gains),
        "repairs-effective-ratio": pd.DataFrame(variants),
    }


# Part of a study -> the function that makes its tables.
TABLES: Mapping[str, Callable[[Results, StudySettings], Frames]] = {
    function.__name__: function
    for function in (conjecture1, conjecture2, conjecture3, assumptions, repairs)
}


def hardest_shares(
    anchors: Array, positives: Array, temperature: float
) -> tuple[Array, Array, Array]:
    """Two measures of the hardest negative's share in the baseline's gradient, and where it exists.

    Args:
        anchors, positives: (N, D) unit rows.
        temperature: τ of the softmax weight.

    Returns:
        the share of the weight ``max_j W_ij / Σ_j W_ij``, (N,); the projection
        ``‖w_h v_h‖ cos(v_h, Σ_j w_j v_j)/‖Σ_j w_j v_j‖`` with ``v_j = T_i h_j'``, (N,), which is
        what the published figure shows; and whether the gate is open, (N,).
    """
    split = components(
        get_loss("baseline", margin=MARGIN, temperature=temperature), anchors, positives
    )
    weight, cosine = split.weight, anchors @ positives.T
    push = weight @ positives
    push -= (push * anchors).sum(axis=1, keepdims=True) * anchors
    own = np.eye(len(anchors), dtype=bool)
    hardest = np.where(own, -np.inf, cosine).argmax(axis=1)
    along = (positives[hardest] * push).sum(axis=1)
    share = weight[np.arange(len(anchors)), hardest] * along / (push * push).sum(axis=1)
    return split.hardest_share, share, split.gradient_dissipation > 0


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


def all_triples(views: HeldOutViews) -> Triple:
    """The triples of all batches, fields (batches, N, N-1)."""
    batches = [vars(batch_triples(*batch)) for batch in views.batches()]
    return Triple(**{name: np.stack([fields[name] for fields in batches]) for name in batches[0]})


def normality(values: Array) -> dict[str, float]:
    """Their `moments`, and Kolmogorov's distance from the fitted normal distribution, in [0, 1]."""
    shape = moments(values)
    distance = stats.kstest(values, "norm", args=(shape["mean"], shape["std"])).statistic
    shape["excess_kurtosis"] = shape.pop("kurtosis")
    return {"count": len(values), **shape, "distance_from_normal": float(distance)}


def _gap(angles: dict[str, Any]) -> Any:
    """One number a held-out sentence: mean angle to its negatives minus that to its positive."""
    return (angles["negative"].mean(axis=-1) - angles["positive"]).ravel()


def _angles_table(by_run: dict[tuple[str, int], dict[str, Any]]) -> pd.DataFrame:
    names = "gap", "gap_low_over_sentences", "gap_high_over_sentences", "sentences"
    rows = []
    for (condition, seed), angles in by_run.items():
        row: dict[str, Any] = {"condition": condition, "seed": seed}
        for short, pair in (("pos", "positive"), ("neg", "negative")):
            row[f"theta_{short}_mean"] = angles[pair].mean()
            row[f"theta_{short}_std"] = angles[pair].std(ddof=1)
        rows.append(row | over_sentences([_gap(angles)]).columns(*names))
    return pd.DataFrame(rows)


def _distribution(by_run: dict[tuple[str, int], dict[str, Any]]) -> pd.DataFrame:
    """Densities over all seeds together, 1/radian; bins that are empty everywhere are left out."""
    densities = []
    for condition, pair in itertools.product((BASELINE, NO_DISSIPATION), ("positive", "negative")):
        own = [angles[pair].ravel() for (name, _), angles in by_run.items() if name == condition]
        densities.append(density(ANGLE_BINS, own, condition=condition, pair=pair))
    table = pd.concat(densities, ignore_index=True)
    used = table.groupby("low")["density"].transform("max") > 0
    return table[used].reset_index(drop=True)


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
                    counts = np.histogram(interval.low[mask & interval.feasible], RATIO_BINS)[0]
                    histogram = binned(RATIO_BINS, "feasible", counts, **key)
                    histograms.append(histogram.assign(count=int(mask.sum())))
    if not histograms:
        return pd.DataFrame(), pd.DataFrame()
    keys = ["encoder", "step", "rule", "triples", "low", "high"]
    groups = pd.concat(histograms).groupby(keys, sort=False, as_index=False)
    table = groups[["feasible", "count"]].sum()
    table["share"] = table.feasible / table["count"].clip(lower=1)
    table = table.loc[table.share > 0, [*keys, "share", "count"]]
    return pd.DataFrame(rows), table.reset_index(drop=True)


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


def _closer(results: Results) -> pd.DataFrame:
    """Shares of triples that a step brings closer, exactly and by the lemma: own ratios, and 1.

    The triples are those of each dynamic loss's own trained encoder.
    """
    rows = []
    for loss in DYNAMIC:
        for seed, views in results.tuned(loss):
            triple = all_triples(views)
            ratio = np.stack([components(loss, *batch).scalar_ratio for batch in views.batches()])
            own = np.broadcast_to(ratio[..., None], triple.radial.shape)
            for step in LEMMA_STEPS:
                row = {"condition": loss, "seed": seed, "step": step}
                row |= {"ratio_mean": float(ratio.mean()), "ratio_median": float(np.median(ratio))}
                low = tangent_bounds(triple, step).low
                row |= {
                    "closer_own": float(gets_closer(own, triple, step).mean()),
                    "closer_one": float(gets_closer(1.0, triple, step).mean()),
                    "lemma_own": float((own > low).mean()),
                    "lemma_one": float((low < 1).mean()),
                }
                rows.append(row)
    return pd.DataFrame(rows)


def _scores(results: Results, condition: str) -> dict[str, Any]:
    row: dict[str, Any] = {}
    for metric in METRICS:
        interval = over_seeds(results.scores(condition, metric).to_numpy())
        columns = {"count": interval.count} | interval.columns("mean", "low", "high")
        row |= {f"{metric}_{name}": value for name, value in columns.items()}
    return row | _published(condition)


def _untuned(results: Results) -> list[dict[str, Any]]:
    rows = []
    for pooler, scores in results.untuned.items():
        row: dict[str, Any] = {"type": "untuned", "condition": f"untuned, {pooler}"}
        row |= {"stsb_dev_count": 1, "stsb_dev_mean": scores["stsb_dev"]}
        for name in ("sts", "transfer"):
            values = list(scores.get(name, {}).values())
            row[f"{name}_average_count"] = len(values) and 1
            row[f"{name}_average_mean"] = sum(values) / len(values) if values else None
        rows.append(row | _published("untuned" if pooler == "first_last" else ""))
    return rows


def _published(condition: str) -> dict[str, Any]:
    sts, transfer = PUBLISHED["averages"].get(condition, (None, None))
    return {"published_sts_average": sts, "published_transfer_average": transfer}
