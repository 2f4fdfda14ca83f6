"""The report of the evidence: pictures first, then the numbers behind them, and what is missing."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from gradlab.files import write_csv, write_text
from gradlab.papers.unified.evidence.analysis import Frames, analyse, read_frames

_PLANNED = {
    "linear": {"tuning": 162, "factorial": 540, "open": 27, "exchanges": 272, "dissipation": 80, "features": 344, "prediction": 64, "atlas": 64},
    "encoder": {"recipes": 15, "collapse": 15, "precision": 5, "tuning": 54, "tuning-edges": 14, "factorial": 108, "longer": 48, "exchanges": 136, "setting": 20, "dissipation": 8,
                "dissipation-controls": 8, "features": 43, "prediction": 24, "atlas": 24},
}  # fmt: skip
_NAMES = {"encoder": "on the encoder", "linear": "on a linear head"}
_SHOWN_STEPS = (1, 2, 5, 10, 20, 60, 120)
_WORDS = {"estimate": "points", "low": "95% from", "high": "to", "omega2": "ω²", "adjusted": "p (Holm)",
          "equivalence": "p (equivalence)"}  # fmt: skip


def write_report(folder: Path) -> Path:
    """Analyse the rows in ``folder``, write tables and pictures there, and ``report.md``.

    Args:
        folder: where `collect` wrote.
    """
    from gradlab.papers.unified.evidence.figures import draw

    rows = {
        name: table
        for name, table in read_frames(folder).items()
        if name.count("-") == 1 or name.endswith(("controls", "tuning-edges"))
    }
    tables = {name: table for name, table in analyse(rows).items() if name not in rows}
    for name, table in tables.items():
        write_csv(folder / f"{name}.csv", {column: _rounded(table[column]) for column in table})
    pictures = draw({**rows, **tables}, folder)
    return write_text(folder / "report.md", _page(rows, tables, pictures, _manifests(folder)))


def _page(rows: Frames, tables: Frames, pictures: Mapping[str, Path], manifests: Mapping[str, Any]) -> str:
    parts = [
        "# What each component does: the evidence",
        "Spearman's correlation times 100 throughout, average of the seven STS sets at the last step unless said otherwise; intervals of 95% "
        "from a mixed model (a mean for each cell, a random intercept for each seed). What is tested was fixed before it was "
        "trained (`gradlab/papers/unified/evidence/contrasts.py`). How to run it, and what the papers' own tables come to: "
        "[docs/evidence.md](../../../docs/evidence.md).",
        _state(rows),
        *_recipes(rows, tables, pictures),
        *_of_each(_factorial, tables, pictures),
        *_longer(tables),
        *_of_each(_exchanges, tables, pictures),
        *_setting(rows, tables),
        *_of_each(_dissipation, tables, pictures),
        *_steps(rows),
        *_of_each(_prediction, tables, pictures),
        *_precision(tables),
        "## How it was made",
        *(f"- {name}: {_made(one)}" for name, one in manifests.items()),
    ]
    return (
        "\n\n".join(parts[: -len(manifests) or None])
        + "\n\n"
        + "\n".join(parts[len(parts) - len(manifests) :])
        + "\n"
    )


def _state(rows: Frames) -> str:
    lines = []
    for regime, planned in _PLANNED.items():
        for part, count in planned.items():
            done = len(rows.get(f"{regime}-{part}", ()))
            name = "linear head" if regime == "linear" else "encoder"
            lines.append(
                [name, part, done, count, "" if done >= count else "missing" if not done else "incomplete"]
            )
    return "## Finished of planned runs\n\n" + _table(["regime", "part", "finished", "planned", ""], lines)


def _recipes(rows: Frames, tables: Frames, pictures: Mapping[str, Path]) -> list[str]:
    if "encoder-recipes" not in rows:
        return []
    found = [
        "## MoCoSE trains",
        _picture(pictures, "recipes", "Each dot a seed, 80 steps of 64 sentences; the line their mean."),
    ]
    table = rows["encoder-recipes"]
    lines = [
        [label, len(one), _list(one.sts), f"{100 * one.sts.mean():.1f}", _list(one["stsb_dev"])]
        for label, one in table.groupby("label")
    ]
    found.append(_table(["recipe", "seeds", "STS average by seed", "mean", "STS-B dev by seed"], lines))
    if "encoder-recipes-effects" in tables:
        found.append(_effects(tables["encoder-recipes-effects"]))
    if "encoder-collapse" in rows:
        lines = [
            [label, len(one), _list(one["stsb_dev"]), _list(one["diagnostics/encoder_cosine"], 1)]
            for label, one in rows["encoder-collapse"].groupby("label")
        ]
        found.append(
            _table(["MoCoSE with", "seeds", "STS-B dev by seed", "mean cosine of different sentences"], lines)
        )
        if "encoder-collapse-effects" in tables:
            found += ["On STS-B dev:", _effects(tables["encoder-collapse-effects"])]
    return found


def _of_each(
    section: Callable[[Frames, str, Mapping[str, Path]], list[str]],
    tables: Frames,
    pictures: Mapping[str, Path],
) -> list[str]:
    """A section for each regime, from its tables without the regime's name."""
    found = []
    for regime in _NAMES:
        own = {
            name.removeprefix(f"{regime}-"): one for name, one in tables.items() if name.startswith(regime)
        }
        drawn = {
            name.removeprefix(f"{regime}-"): one for name, one in pictures.items() if name.startswith(regime)
        }
        found += section(own, _NAMES[regime], drawn)
    return found


def _factorial(tables: Frames, name: str, pictures: Mapping[str, Path]) -> list[str]:
    if "factorial-contrasts" not in tables:
        return []
    noise = tables["factorial-noise"].iloc[0]
    found = [
        f"## The factorial, {name}",
        _picture(pictures, "factorial", "Means of the 27 cells, with 95% intervals over seeds."),
        _picture(pictures, "contrasts", "The eight contrasts that were declared, with their verdicts."),
        f"{int(noise['count'])} seeds; the standard deviation of a run is {noise.residual:.2f} points, of a seed {noise.seeds:.2f}. "
        "*No effect of that size*: shown to lie within the margin (two one-sided tests); *supported* and *contradicted*: different "
        "from 0 after Holm's correction over the eight, with the sign that the paper lets one expect or the other.",
        _effects(tables["factorial-contrasts"]),
        "Shares of the variance over these levels and seeds (they depend on the levels that were chosen):",
        _shares(tables["factorial-shares"]),
        "The same among the cells whose weight is a softmax (not declared beforehand):",
        _shares(tables["factorial-softmax"]),
    ]
    if "open-shares" in tables:
        table = tables["open-shares"]
        columns = [one for one in ("mean", "last") if one in table]
        relative = ", relative to the first step" if "first" in table else ""
        lines = [
            [row.gate, row.weight, *(f"{getattr(row, one):.3f}" for one in columns)]
            for row in table.itertuples()
        ]
        found += [
            f"Dissipation of the cells over a run{relative} (means over the ratios): for a hard gate the share of anchors that are "
            "open. Where it stays near 1, the cell is hardly another than the one without a gate.",
            _table(["gate", "weight", "mean", *(["last step"] if "last" in table else [])], lines),
        ]
    return found


def _longer(tables: Frames) -> list[str]:
    if "encoder-longer-contrasts" not in tables:
        return []
    cells = tables["encoder-longer-cells"]
    lines = [
        [
            row.gate,
            row.weight,
            f"{row.ratio:g}",
            f"{row.score:.1f}",
            f"{row.short:.1f}" if "short" in cells else "",
        ]
        for row in cells.itertuples()
    ]
    return [
        "## Cells of the factorial, longer",
        f"{int(cells.seeds.min())} seeds, 150 steps; beside them the same seeds after 80 steps. Contrasts declared before these were trained.",
        _effects(tables["encoder-longer-contrasts"]),
        _table(["gate", "weight", "ratio", "STS, 150 steps", "80 steps"], lines),
    ]


def _setting(rows: Frames, tables: Frames) -> list[str]:
    if "encoder-setting-effects" not in tables:
        return []
    table = rows["encoder-setting"]
    lines = [
        [label, len(one), _list(one.sts), f"{100 * one.sts.mean():.1f}"]
        for label, one in table.groupby("label", sort=False)
    ]
    return [
        "## MHE in the setting of the older study",
        "Both losses as published, with one setting of the older study at a time (clipping at 1, 100 steps, 32 tokens), and with all three.",
        _table(["loss and setting", "seeds", "STS average by seed", "mean"], lines),
        _effects(tables["encoder-setting-effects"]),
    ]


def _shares(table: pd.DataFrame) -> str:
    lines = [
        [row.term, row.df, _share(row.omega2), _share(row.low), _share(row.high)]
        for row in table.itertuples()
    ]
    return _table(["term", "df", "ω², %", "95% from", "to"], lines)


def _exchanges(tables: Frames, name: str, pictures: Mapping[str, Path]) -> list[str]:
    if "exchanges-shapley" not in tables:
        return []
    split, native = tables["exchanges-shapley"], tables["exchanges-native"]
    lines = [[row.loss, row.part, *_three(row), f"{row.residual:.2f}"] for row in split.itertuples()]
    own = [
        [row.loss, f"{row.native:.1f}", f"{row.recombined:.1f}", *_three(row)] for row in native.itertuples()
    ]
    return [
        f"## Repairs taken apart, {name}",
        _picture(
            pictures,
            "exchanges",
            "Gain of each repaired part: its Shapley value over all exchanges, and of all parts together.",
        ),
        _table(["loss", "repaired part", "points", "95% from", "to", "noise"], lines),
        "Noise: the standard deviation of a run around its condition and seed; each loss has a model of its own.",
        "Each native original beside its own parts recombined; the difference is what the paradigm, the gradient of "
        "the anchor alone, leaves out:",
        _table(["loss", "native", "recombined", "difference", "95% from", "to"], own),
    ]


def _dissipation(tables: Frames, name: str, pictures: Mapping[str, Path]) -> list[str]:
    if "dissipation-gaps" not in tables:
        return []
    gaps = tables["dissipation-gaps"]
    lines = [[row.measure, row.name, *_three(row)] for row in gaps.rename(columns={"name": "difference"})
             .rename(columns={"difference": "name"}).itertuples(index=False)]  # fmt: skip
    means = [
        [row.label, f"{100 * row.sts:.1f}", f"{row.gap:.1f}", f"{row.positives:.1f}", f"{row.negatives:.1f}"]
        for row in tables["dissipation-means"].itertuples()
    ]
    return [
        f"## Conjecture 1 with its controls, {name}",
        "on: a hard gate; off: none; random: as many random anchors; scaled: the loss by that share.",
        _table(["arm", "STS", "gap (degrees)", "positives", "negatives"], means),
        _table(["angle (degrees)", "difference", "degrees", "95% from", "to"], lines),
        _effects(tables["dissipation-effects"]),
    ]


def _precision(tables: Frames) -> list[str]:
    if "encoder-precision-effects" not in tables:
        return []
    return [
        "## bfloat16 and float32",
        "SimCSE of the recipes in both, same seeds; the recipes and their collapse cases are in float32, the other parts of the encoder in "
        "bfloat16, training and scoring.",
        _effects(tables["encoder-precision-effects"]),
    ]


def _steps(rows: Frames) -> list[str]:
    if "encoder-steps" not in rows:
        return []
    table = rows["encoder-steps"]
    means = table.drop(columns="seed").groupby(["loss", "step"], as_index=False, sort=False).mean()
    lines = [
        [row["loss"], row["step"], f"{row['degrees']:.2f}", f"{row['lambda']:.2g}", f"{row['along_gradient']:.2f}",
         *(f"{100 * row[name]:.1f}" for name in ("closer_one", "closer_own", "closer_anchor", "closer_both"))]
        for _, row in means[means.step.isin(_SHOWN_STEPS)].iterrows()
    ]  # fmt: skip
    seeds = table.seed.nunique()
    return [
        "## Conjecture 3: which λ training takes",
        f"How far a step of training (150 steps, {seeds} seed{'s' * (seeds > 1)}) turns an anchor under the same dropout masks, the λ of "
        "Lemma 1 that turns it as far in the unit gauge (both medians over the batch), and the cosine between the anchor's way and its negative gradient. Then, "
        "in per cent: triples that a step of that λ along the gradient would bring closer, with ratio 1 and with the loss's own; and anchors that did "
        "end closer to their positive, to where it was before the step and to where it is after. All measured steps are in "
        "[encoder-steps.csv](encoder-steps.csv).",
        _table(
            ["loss", "step", "degrees", "λ", "along gradient", "closer, ratio 1", "own ratio", "anchor moved", "both moved"],
            lines,
        ),
    ]  # fmt: skip


def _prediction(tables: Frames, name: str, pictures: Mapping[str, Path]) -> list[str]:
    found = []
    for part, about in (
        (
            "prediction",
            "ArcCon, MPT, MET, MAT and the originals, whose results of the older study were known.",
        ),
        ("atlas", "Losses of the atlas, of which there was no result of any kind."),
    ):
        if f"{part}-losses" not in tables:
            continue
        losses, models = tables[f"{part}-losses"], tables[f"{part}-models"]
        predictors = ["components", "alignment and uniformity", "mean"]
        lines = [
            [row["loss"], f"{row['score']:.1f}", *(f"{row[one]:.1f}" for one in predictors)]
            for _, row in losses.iterrows()
        ]
        errors = [[row["model"], f"{row['error']:.2f}", _p(row["p"])] for _, row in models.iterrows()]
        found += [
            about + " Predicted from their first ten steps, then trained:",
            _table(["loss", "trained", *(f"by {one}" for one in predictors)], lines),
            _table(["predicted by", "error", "p"], errors),
        ]
    if not found:
        return []
    return [
        f"## Does the paradigm predict? {name.capitalize()}",
        _picture(
            pictures,
            "prediction",
            "Losses that the factorial did not train: predicted from their first ten steps, and trained.",
        ),
        "Errors are root mean squares in points; p of an exact permutation test of the predictions' order (small: better than chance).",
        *found,
    ]


def _effects(table: pd.DataFrame) -> str:
    lines = [[row.name_, *_three(row), _p(row.adjusted), _p(row.equivalence), row.verdict]
             for row in table.rename(columns={"name": "name_"}).itertuples()]  # fmt: skip
    return _table(
        [
            "difference",
            *(_WORDS[one] for one in ("estimate", "low", "high", "adjusted", "equivalence")),
            "verdict",
        ],
        lines,
    )


def _manifests(folder: Path) -> dict[str, Any]:
    return {
        path.stem.removesuffix("-manifest"): json.loads(path.read_text(encoding="utf-8"))
        for path in sorted(folder.glob("*-manifest.json"))
    }


def _made(manifest: Mapping[str, Any]) -> str:
    device = manifest.get("device", "")
    if isinstance(device, Mapping):
        device = f"{device.get('processor', device.get('name', ''))}, {device.get('threads')} thread, {device.get('precision')}"
    commit = manifest.get("commit", "")
    return f"{device}; torch {manifest.get('versions', {}).get('torch', '')}; {f'commit {commit}' if commit else ''}"


def _rounded(column: pd.Series) -> list[Any]:
    return [float(f"{value:.6g}") if isinstance(value, float) else value for value in column.tolist()]


def _picture(pictures: Mapping[str, Path], name: str, caption: str) -> str:
    return f"![{name}]({pictures[name].name})\n\n*{caption}*" if name in pictures else ""


def _three(row: Any) -> list[str]:
    return [f"{row.estimate:+.2f}", f"{row.low:+.2f}", f"{row.high:+.2f}"]


def _list(values: pd.Series, digits: int = 1) -> str:
    return ", ".join(f"{100 * value:.{digits}f}" for value in values)


def _share(value: float) -> str:
    return "" if pd.isna(value) else f"{100 * value:.1f}"


def _p(value: float) -> str:
    return "" if pd.isna(value) else "< .0001" if value < 1e-4 else f"{value:.4f}"


def _table(header: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(str(cell) for cell in line)} |" for line in lines)
