"""The page of a study's report, in Markdown, made of the tables beside it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from gradlab.losses.registry import get_loss
from gradlab.papers.unified.study.conditions import TWICE
from gradlab.papers.unified.study.repairs import PUBLISHED_GAINS
from gradlab.papers.unified.study.results import METRICS
from gradlab.papers.unified.study.settings import LEMMA_STEPS, TEMPERATURE
from gradlab.papers.unified.study.statistics import OVER_SEEDS, OVER_SENTENCES
from gradlab.papers.unified.study.verdicts import CONJECTURE

Frames = Mapping[str, pd.DataFrame]
# Up to so many seeds the report says that they are few.
FEW_SEEDS = 2


def page(
    tables: Frames, figures: Mapping[str, str], manifest: Mapping[str, Any], notes: Sequence[str]
) -> str:
    """The report as Markdown.

    Args:
        tables: the CSV files by name.
        figures: the pictures' names and captions.
        manifest: of the study.
        notes: what sections add in words.
    """
    blocks = [
        "# The three conjectures on a trained encoder",
        _setting(manifest),
        _verdicts(tables),
        _conjecture1(tables, figures),
        _conjecture2(tables, figures),
        _conjecture3(tables, figures),
        _assumptions(tables, figures, notes),
        _repairs(tables, figures),
        _scale(manifest),
        _files(tables, manifest),
    ]
    return "\n\n".join(block for block in blocks if block) + "\n"


def _setting(manifest: Mapping[str, Any]) -> str:
    settings, device = manifest["settings"], manifest["device"]
    steps = "one epoch" if settings["steps"] is None else f"{settings['steps']} steps"
    missing = manifest["runs"] - manifest["finished"]
    unfinished = f" **{missing} of {manifest['runs']} planned runs are not in it.**" if missing else ""
    return (
        f"Li et al. (ACL 2024), Figures 1 and 5 to 9 and Table 3, repeated with `{manifest['model']}` on "
        f"`{manifest['data']['file']}`: {manifest['finished']} trainings of {steps} of {settings['batch_size']} sentences "
        f"({settings['max_length']} tokens, learning rate {settings['learning_rate']:g}, pooler `{settings['pooler']}`, "
        f"{settings['precision']}) on {device['name']}.{unfinished} {100 * settings['held_out']:.0f}% of the sentences are held "
        f"out; angles, shares and ratios are measured on them in batches of {settings['analysis_batch']}, under dropout, as the "
        "loss sees them. STS-B dev counts at a run's best evaluation. Runs of one seed share held-out sentences, order and "
        "dropout masks, so that differences are paired.\n\n"
        f"Two kinds of intervals, both of 95%: **{OVER_SEEDS}** (Student's t of one value a seed; what another training would "
        f"give) and **{OVER_SENTENCES}** (bootstrap; what other sentences would give with these very trainings)."
    )


def _verdicts(tables: Frames) -> str:
    if "verdicts" not in tables:
        return ""
    rows = [[row.conjecture, row.statement, f"**{row.verdict}**"] for row in tables["verdicts"].itertuples()]
    claims = [
        [row.conjecture, row.role, row.claim, f"{row.statistic} > {row.threshold:g}", row.seeds,
         _interval(row, 1, 4), row.verdict]
        for row in tables["claims"].itertuples()
    ]  # fmt: skip
    return "\n\n".join(
        [
            "## Verdicts",
            _table(["", "conjecture", "verdict"], rows),
            "A claim is supported if the whole interval over seeds lies above its threshold, not supported if it lies at the "
            "threshold or below, inconclusive otherwise. A conjecture is supported if all claims of the role *conjecture* "
            "are, not supported if one of them is not. Spearman's correlations are on the scale of -1 to 1 here.",
            _few_seeds(tables["claims"]),
            _table(["", "role", "claim", "statistic > threshold", "seeds", "mean [interval over seeds]", "verdict"], claims),
        ]
    )  # fmt: skip


def _few_seeds(claims: pd.DataFrame) -> str:
    """A warning where intervals rest on hardly anything."""
    least = int(claims.seeds[claims.role == CONJECTURE].min())
    if least > FEW_SEEDS:
        return "No correction is made for the number of claims."
    return (
        f"**Deciding claims rest on as few as {least} seeds.** An interval of two values trusts one difference between "
        "them to stand for all trainings; read these verdicts as provisional. No correction is made for the number of claims."
    )


def _conjecture1(tables: Frames, figures: Mapping[str, str]) -> str:
    if "conjecture1-angles" not in tables:
        return ""
    angles = tables["conjecture1-angles"].groupby("condition", sort=False)
    rows = [
        [name, len(part), *(f"{math.degrees(part[column].mean()):.2f}" for column in
         ("theta_pos_mean", "theta_pos_std", "theta_neg_mean", "theta_neg_std", "gap"))]
        for name, part in angles
    ]  # fmt: skip
    gap = _gap_rows(tables["conjecture1-gap"])
    return "\n\n".join(
        [
            "## Conjecture 1: dissipation and the gap",
            _picture(figures, "figure-05-angles"),
            "Means over seeds, in degrees (`conjecture1-angles.csv` has radians and every seed):",
            _table(["", "seeds", "mean θ_ii'", "std", "mean θ_ij'", "std", "gap"], rows),
            _table(["difference of gaps, degrees", "interval", "of", "mean [95%]"], gap),
            _picture(figures, "figure-06-performance"),
            _comparisons(tables, "conjecture1-comparisons"),
        ]
    )


def _gap_rows(table: pd.DataFrame) -> list[list[Any]]:
    return [
        [
            row["difference"],
            row["interval"],
            _count(row),
            _interval_of(row, 180 / math.pi, 3),
        ]
        for _, row in table.iterrows()
    ]


def _conjecture2(tables: Frames, figures: Mapping[str, str]) -> str:
    if "conjecture2-share" not in tables:
        return ""
    table = tables["conjecture2-share"]
    rows = []
    for keys, part in table[table.anchors == "gated"].groupby(["encoder", "temperature"], sort=False):
        mean = part[["count", "projection", "share"]].mean()
        rows.append(
            [keys[0], f"{keys[1]:g}", f"{mean['count']:.0f}", f"{mean.projection:.3f}", f"{mean.share:.3f}"]
        )
    return "\n\n".join(
        [
            "## Conjecture 2: the hardest negative's share",
            _picture(figures, "figure-07-hardest-share"),
            "The published figure shows the projection `‖w_h v_h‖ cos(v_h, Σ w v)/‖Σ w v‖`, v_j the negatives in the tangent "
            f"space of the anchor; beside it, the plain share of the weight. The encoder was tuned at τ = {TEMPERATURE:g}; "
            "the other temperatures are read off the same embeddings. Means over seeds:",
            _table(["encoder", "τ", "anchors with open gate, a seed", "of the push", "of the weight"], rows),
            "Performance against τ is in the middle of Figure 6.",
            _comparisons(tables, "conjecture2-comparisons"),
        ]
    )


def _conjecture3(tables: Frames, figures: Mapping[str, str]) -> str:
    if "conjecture3-minimum-ratio" not in tables:
        return ""
    table = tables["conjecture3-minimum-ratio"]
    names = {"tangent": "Lemma 1", "projected": "exact, projected", "unprojected": "exact, unprojected"}
    rows = []
    for keys, part in table.groupby(["encoder", "triples", "step", "rule"], sort=False):
        mean = part.drop(columns=["encoder", "triples", "step", "rule"]).mean()
        shares = [
            f"{100 * mean[name]:.1f}" for name in ("feasible", "satisfied_1", "satisfied_1.5", "satisfied_2")
        ]
        rows.append([keys[0], keys[1], f"{keys[2]:g}", names[keys[3]], *shares, f"{mean['median']:.3f}"])
    closer = []
    if "conjecture3-closer" in tables:
        for keys, part in tables["conjecture3-closer"].groupby(["condition", "step"], sort=False):
            mean = part.drop(columns=["condition", "step"]).mean()
            closer.append(
                [get_loss(keys[0]).title, f"{keys[1]:g}", f"{mean.ratio_median:.2f}"]
                + [
                    f"{100 * mean[name]:.2f}"
                    for name in ("closer_one", "closer_own", "lemma_one", "lemma_own")
                ]
            )
    return "\n\n".join(
        [
            "## Conjecture 3: the ratio and the lemma",
            _picture(figures, "figure-08a-minimum-ratio"),
            "Per cent of triples for which a ratio exists, and for which the ratios 1, 1.5 and 2 satisfy the rule; median of the "
            f"minimum ratio where it exists. λ is the step size on the unit sphere ({', '.join(f'{s:g}' for s in LEMMA_STEPS)}). "
            "Triples *published* are those that the published figure keeps. Means over seeds:",
            _table(
                ["encoder", "triples", "λ", "rule", "exists", "r = 1", "r = 1.5", "r = 2", "median"], rows
            ),
            "Each loss on the encoder that it trained: per cent of triples that a step (exact, projected) brings closer, and that "
            "meet the lemma's condition, with ratio 1 and with the loss's own:",
            _table(["", "λ", "median ratio", "closer, 1", "closer, own", "lemma, 1", "lemma, own"], closer),
            _picture(figures, "figure-08bc-training"),
            "Performance against r is on the right of Figure 6.",
            _comparisons(tables, "conjecture3-comparisons"),
        ]
    )


def _assumptions(tables: Frames, figures: Mapping[str, str], notes: Sequence[str]) -> str:
    if "assumptions-angles" not in tables:
        return ""
    rows = []
    for keys, part in tables["assumptions-angles"].groupby(["encoder", "angle"], sort=False):
        mean = part.drop(columns=["encoder", "angle"]).mean()
        rows.append([*keys, *(f"{mean[name]:.3f}" for name in
                    ("mean", "std", "skewness", "excess_kurtosis", "distance_from_normal"))])  # fmt: skip
    return "\n\n".join(
        [
            "## Assumptions of the simulations",
            _picture(figures, "figure-09-assumptions"),
            "Angles of the baseline in radians, before and after training; means over seeds. The last column is Kolmogorov's "
            "distance from the fitted normal distribution, 0 for a normal one.",
            _table(["encoder", "angle", "mean", "std", "skewness", "excess kurtosis", "distance"], rows),
            *notes,
        ]
    )


def _repairs(tables: Frames, figures: Mapping[str, str]) -> str:
    if "repairs" not in tables:
        return ""
    rows = []
    for _, row in tables["repairs"].iterrows():
        cells = [row["type"], _title(row["condition"]), int(row["stsb_dev_count"])]
        cells += [_score(row, metric) for metric in METRICS]
        rows.append(
            [*cells, _published(row["published_sts_average"]), _published(row["published_transfer_average"])]
        )
    return "\n\n".join(
        [
            "## Repairs",
            _picture(figures, "figure-01-repairs"),
            f"Scores times 100: mean over seeds ± half of the 95% interval over seeds{_fewer(tables['repairs'])}. All losses "
            "have the same budget, and the hyper-parameters published for BERT-base. *Li et al.* are their published averages for "
            "BERT-base trained on a million sentences: another encoder, data and budget, for orientation only.",
            _table(["", "loss", "seeds", *METRICS.values(), "Li et al.: STS", "Li et al.: transfer"], rows),
            "Gain by the repair, paired by seed (Li et al., STS average, BERT-base: "
            + ", ".join(f"{get_loss(name).title} +{gain}" for name, gain in PUBLISHED_GAINS.items())
            + "):",
            _comparisons(tables, "repairs-gains"),
            "The published training let the positive move too, so that it pulled with about 2r; here the same with that option, "
            "minus without:",
            _comparisons(tables, "repairs-effective-ratio"),
        ]
    )


def _fewer(repairs: pd.DataFrame) -> str:
    """Which scores rest on fewer seeds than the column of seeds says."""
    most = {
        metric: int(repairs[f"{metric}_count"].max()) for metric in METRICS if f"{metric}_count" in repairs
    }
    words = [
        f"{METRICS[metric]} over {count} {'seed' if count == 1 else 'seeds'} at most"
        for metric, count in most.items()
        if 0 < count < most["stsb_dev"]
    ]
    return "".join(f"; {one}" for one in words)


def _scale(manifest: Mapping[str, Any]) -> str:
    settings = manifest["settings"]
    if settings["steps"] is None:
        return ""
    return (
        "## What this scale can show\n\n"
        f"A run sees {settings['steps'] * settings['batch_size']:,} sentences. That is enough to see which way a component "
        "pushes, whether angles and ratios behave as described while an encoder learns to tell sentences apart, and whether a "
        "repair helps an objective that is given the same budget. It is not enough for the values that a large encoder "
        "ends at after a million sentences, for optima of m, τ and r there, or for effects that need thousands of steps, such "
        "as the slow overfitting of objectives without dissipation: an effect that is absent here is not absent there. "
        "One learning rate serves all losses; tuned for each, differences between losses may shrink."
    )


def _files(tables: Frames, manifest: Mapping[str, Any]) -> str:
    names = ", ".join(f"[{name}.csv]({name}.csv)" for name in tables)
    return (
        "## Numbers\n\n"
        f"Everything above is in {names}; settings, versions, device and the hash of the sentences in "
        f"[manifest.json](manifest.json). Diverged runs have a note in `runs.csv` and count nowhere. The command:\n\n"
        f"```sh\n{manifest['command']}\n```"
    )


def _comparisons(tables: Frames, name: str) -> str:
    if name not in tables:
        return ""
    rows = []
    for _, row in tables[name].iterrows():
        p = row.get("p", math.nan)
        rows.append(
            [f"{_title(row['first'])} − {_title(row['second'])}", METRICS[row["metric"]], row["interval"],
             _count(row), _interval_of(row, 100, 2), "" if math.isnan(p) else f"{p:.2g}"]
        )  # fmt: skip
    return _table(["difference", "score x 100", "interval", "of", "mean [95%]", "p"], rows)


def _count(row: pd.Series) -> str:
    """How many seeds or sentences an interval is over."""
    count, unit = int(row["count"]), str(row["unit"])
    return f"{count} {unit.removesuffix('s') if count == 1 else unit}"


def _title(condition: str) -> str:
    """A loss's name in words; other conditions as they are."""
    from gradlab.losses.registry import loss_names

    name, suffix = (condition.removesuffix(TWICE), TWICE) if condition.endswith(TWICE) else (condition, "")
    return (get_loss(name).title if name in loss_names() and name != "baseline" else name) + suffix


def _score(row: pd.Series, metric: str) -> str:
    mean, low = row.get(f"{metric}_mean", math.nan), row.get(f"{metric}_low", math.nan)
    if math.isnan(mean):
        return ""
    return f"{100 * mean:.2f}" + ("" if math.isnan(low) else f" ± {100 * (mean - low):.2f}")


def _published(value: float) -> str:
    return "" if value is None or math.isnan(value) else f"{value:.2f}"


def _interval(row: Any, scale: float, digits: int) -> str:
    return _interval_of({"mean": row.mean, "low": row.low, "high": row.high}, scale, digits)


def _interval_of(row: Mapping[str, float] | pd.Series, scale: float, digits: int) -> str:
    mean, low, high = (scale * float(row[name]) for name in ("mean", "low", "high"))
    if math.isnan(mean):
        return ""
    return f"{mean:+.{digits}f}" + ("" if math.isnan(low) else f" [{low:+.{digits}f}, {high:+.{digits}f}]")


def _picture(figures: Mapping[str, str], name: str) -> str:
    return f"![{name}]({name}.png)\n\n*{figures[name]}*" if name in figures else ""


def _table(header: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    if not rows:
        return ""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(
        "| " + " | ".join(str(cell).replace("|", "\\|") for cell in line) + " |" for line in lines
    )
