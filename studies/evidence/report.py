"""The report of the evidence: pictures first, then the numbers behind them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from gradlab.files import write_csv, write_text
from gradlab.sweep import read_spec
from studies.evidence.analysis import Frames, analyse, rates_and_ratios, read_frames, weight_share

SWEEPS = Path(__file__).resolve().parents[1] / "sweeps" / "evidence"
NAMES = {"encoder": "on the encoder", "linear": "on a linear head"}
SHOWN_STEPS = (1, 2, 5, 10, 20, 60, 120)
INTRODUCTION = """# What each component does: the evidence

Scores are Spearman's correlation times 100, averaged over the seven STS test sets after the last step, unless a table says otherwise.
A contrast is computed within each seed; its 95% interval is Student's t over seeds, as the runs of one seed share data and order. All
{count} contrasts that get a verdict are one family of Holm's correction; their tests of equivalence are another. *Supported* and
*contradicted* say that a difference is clear of 0 in the direction that the paper predicts, or in the opposite one; *no effect of that
size*, that it lies within the margin. What was judged was declared in `studies/evidence/contrasts.py`; what was only explored has
intervals and no verdict. The page to read first is [docs/evidence.md](../../../docs/evidence.md)."""


def write_report(folder: Path) -> Path:
    """Analyse the rows in ``folder``, write tables and pictures there, and ``report.md``.

    Args:
        folder: where `collect` wrote.
    """
    from studies.evidence.figures import draw

    rows = read_frames(folder)
    committed = {path.stem: pd.read_csv(path) for path in folder.glob("*-predictions.csv")}
    tables = analyse(rows, committed)
    if "encoder-factorial" in rows:
        spec = read_spec(SWEEPS / "factorial.toml").with_base({"backbone": "bert-base"})
        rates = {point.label: float(point.settings["learning_rate"]) for point in spec.points({})}
        tables["encoder-rates"] = rates_and_ratios(rows["encoder-factorial"], rates)
    untrained = _untrained(folder)
    for name, table in tables.items():
        write_csv(folder / f"{name}.csv", {column: _rounded(table[column]) for column in table})
    pictures = draw(rows, tables, untrained, folder)
    sections = [
        INTRODUCTION.format(count=len(tables["contrasts"])),
        *_verdicts(tables, pictures),
        *_recipes(rows, untrained, pictures),
        *(part for regime in NAMES for part in _factorial(regime, rows, tables, pictures)),
        *_longer(tables),
        *(part for regime in NAMES for part in _exchanges(regime, tables, pictures)),
        *_setting(rows),
        *(part for regime in NAMES for part in _dissipation(regime, rows, tables)),
        *_steps(rows),
        *(part for regime in NAMES for part in _prediction(regime, tables, pictures)),
        *_precision(rows),
        "## How it was made",
        _manifests(folder),
    ]
    return write_text(folder / "report.md", "\n\n".join(sections) + "\n")


def _verdicts(tables: Frames, pictures: Mapping[str, Path]) -> Iterator[str]:
    yield "## Every contrast that was judged"
    for regime, name in NAMES.items():
        caption = (
            f"Contrasts {name}: mean and 95% interval over seeds. Grey: within the margin. Filled: clear of 0 after "
            "Holm's correction over all of them. A number stands where a difference lies beyond the axis."
        )
        yield from _picture(pictures, f"{regime}-contrasts", caption)
    table = tables["contrasts"]
    yield _table(
        ["regime", "part", "difference", "points", "95% interval", "seeds", "p (Holm)", "p (equivalence)", "verdict"],
        ([one.regime, one.part, one.name, f"{one.estimate:+.2f}", _interval(one), one.seeds, _p(one.holm),
          _p(one.equivalence), one.verdict] for one in _lines(table)),
    )  # fmt: skip
    yield (
        "The soft gate's mean is a mean of opposites: under uniform weights it gains 2.1 points, under softmax weights it loses 1.7 (below). "
        "Where the hard gate meets uniform weights it never closes, so that a third of its cells repeats those without a gate."
    )
    if "explored" in tables:
        yield "Explored after the results were known; intervals, no verdicts:"
        yield _table(
            ["regime", "difference", "points", "95% interval", "seeds"],
            ([one.regime, one.name, f"{one.estimate:+.2f}", _interval(one), one.seeds] for one in _lines(tables["explored"])),
        )  # fmt: skip


def _recipes(rows: Frames, untrained: pd.DataFrame, pictures: Mapping[str, Path]) -> Iterator[str]:
    if "encoder-recipes" not in rows:
        return
    yield "## The recipes"
    yield from _picture(
        pictures,
        "recipes",
        "Each dot is a seed, the bar their mean: 80 steps of 64 sentences, learning rate 1e-4, float32. Dashed: the untrained encoder.",
    )
    yield (
        "MoCoSE's heads begin as the identity; the MLP of SimCSE and of ESimCSE begins at random. With one seed the identity alone "
        "gave SimCSE 3.4 points on STS-B dev, where the whole gap to MoCoSE is 4.4: the difference between recipes is confounded with "
        "the beginning of their heads. A comparison of both is declared in `studies/second_round/declaration.toml`."
    )
    yield _table(
        ["recipe", "seeds", "STS average by seed", "mean", "STS-B dev by seed"],
        (
            [label, len(one), _list(one.sts), f"{100 * one.sts.mean():.1f}", _list(one.stsb_dev)]
            for label, one in rows["encoder-recipes"].groupby("label")
        ),
    )
    if len(untrained):
        yield "Without training:"
        yield _table(
            ["encoder", "STS average", "STS-B dev"],
            ([one.label, f"{100 * one.sts:.1f}", f"{100 * one.stsb_dev:.1f}"] for one in _lines(untrained)),
        )
    if "encoder-collapse" in rows:
        yield "MoCoSE without what keeps it from collapse:"
        yield _table(
            ["MoCoSE", "seeds", "STS-B dev by seed", "mean cosine of different sentences"],
            (
                [label, len(one), _list(one.stsb_dev), f"{one['diagnostics/encoder_cosine'].mean():.2f}"]
                for label, one in rows["encoder-collapse"].groupby("label")
                if label not in ("SimCSE", "ESimCSE")
            ),
        )


def _factorial(regime: str, rows: Frames, tables: Frames, pictures: Mapping[str, Path]) -> Iterator[str]:
    if f"{regime}-factorial-cells" not in tables:
        return
    yield f"## The factorial, {NAMES[regime]}"
    yield from _picture(
        pictures,
        f"{regime}-factorial",
        "The 27 cells: each dot is a seed, the lines join means. Dashed: the untrained encoder. Each cell of gate and weight has the "
        "learning rate that was best for it at ratio 1 on STS-B dev.",
    )
    share = weight_share(rows[f"{regime}-factorial"])
    yield (
        f"The weight makes {100 * share:.0f}% of the variance between all runs. That describes one level, uniform weights, which ends below "
        "the untrained encoder in every cell; it does not say that the weight matters that much between weights that people use."
    )
    if f"{regime}-rates" in tables:
        yield (
            "The best rate of one cell at τ = .05 was three times that of the others, and the ratio's effect depends on it. Weight x ratio "
            "is confounded with rate x ratio: mean scores at τ = .05,"
        )
        wide = tables[f"{regime}-rates"].pivot(index="rate", columns="ratio", values="score")
        yield _table(
            ["learning rate", *(f"ratio {ratio:g}" for ratio in wide)],
            ([f"{rate:g}", *(f"{value:.1f}" for value in line)] for rate, line in wide.iterrows()),
        )
    if f"{regime}-open-shares" in tables:
        yield (
            "Mean dissipation over a run. For a hard gate this is the share of anchors that are open; where it stays near 1 the gate never "
            "closes, and its cells repeat those without a gate:"
        )
        shares = tables[f"{regime}-open-shares"]
        yield _table(
            ["gate", "weight", "mean"],
            ([one.gate, one.weight, f"{one.mean:.3f}"] for one in _lines(shares[shares.gate != "none"])),
        )


def _longer(tables: Frames) -> Iterator[str]:
    if "encoder-longer-cells" not in tables:
        return
    yield "## Twelve cells again, over 150 steps"
    both = tables["encoder-longer-cells"].merge(
        tables["encoder-factorial-cells"], on=["gate", "weight", "ratio"], suffixes=("", "_short")
    )
    yield (
        "Of the three contrasts of the factorial that were repeated, the one of the temperatures moved most: at 80 steps τ = .05 and .3 were "
        "level, at 150 steps τ = .3 is a point ahead, which four seeds do not tell from nothing."
    )
    yield _table(
        ["gate", "weight", "ratio", "150 steps", "80 steps"],
        (
            [one.gate, one.weight, f"{one.ratio:g}", f"{one.score:.1f}", f"{one.score_short:.1f}"]
            for one in _lines(both)
        ),
    )


def _exchanges(regime: str, tables: Frames, pictures: Mapping[str, Path]) -> Iterator[str]:
    if f"{regime}-exchanges-shapley" not in tables:
        return
    yield f"## Repairs taken apart, {NAMES[regime]}"
    yield from _picture(
        pictures,
        f"{regime}-exchanges",
        "Gain of each repaired part, its Shapley value over all exchanges, and of all parts together: mean and 95% interval over "
        "seeds. Learning rate 1e-4, tuned for none of them.",
    )
    yield (
        "VICReg's exchanges are withdrawn. Its ratio is in the thousands at its own proportions, and in two of its arms 99.9% of the first "
        "gradients lie below the optimiser's eps, so that the arms differ in the size of their steps. Its rows stay in the CSV file."
    )
    yield _table(
        ["loss", "repaired part", "points", "95% interval"],
        ([one.loss, one.part, f"{one.estimate:+.1f}", _interval(one, 1)] for one in _lines(tables[f"{regime}-exchanges-shapley"])),
    )  # fmt: skip
    yield "Each original as published, beside its own three parts recombined:"
    yield _table(
        ["loss", "as published", "recombined", "difference", "95% interval"],
        ([one.loss, f"{one.native:.1f}", f"{one.recombined:.1f}", f"{one.estimate:+.1f}", _interval(one, 1)]
         for one in _lines(tables[f"{regime}-exchanges-native"])),
    )  # fmt: skip


def _setting(rows: Frames) -> Iterator[str]:
    if "encoder-setting" in rows:
        yield "## MHE in the setting of the older study"
        yield "One setting of the older study at a time, then all three. Two seeds: an interval over two values is nearly empty of information."
        yield _table(
            ["loss and setting", "STS average by seed", "mean"],
            (
                [label, _list(one.sts), f"{100 * one.sts.mean():.1f}"]
                for label, one in rows["encoder-setting"].groupby("label", sort=False)
            ),
        )


def _dissipation(regime: str, rows: Frames, tables: Frames) -> Iterator[str]:
    if f"{regime}-dissipation-angles" not in tables:
        return
    yield f"## Conjecture 1 with its controls, {NAMES[regime]}"
    scores = 100 * rows[f"{regime}-dissipation"].groupby("label").sts.mean()
    words = ", ".join(f"{arm} {score:.1f}" for arm, score in scores.items())
    yield (
        "*on*: a hard gate; *off*: none; *random*: as many anchors left out at random; *scaled*: the loss times that share. One learning "
        f"rate, tuned for none of them. Scores: {words}."
    )
    if regime == "encoder":
        yield (
            "These are runs of 500 steps. Without a gate the same setting scores 61.4 after 80 steps and 56.1 after 500: what the gate gains is "
            "that it trains less past the optimum, and a random gate does that as well."
        )
    yield _table(
        ["angle", "arm", "degrees", "under the gate", "difference", "95% interval"],
        ([one.angle, one.arm, f"{one.mean:.1f}", f"{one.gate:.1f}", f"{one.estimate:+.2f}", _interval(one)]
         for one in _lines(tables[f"{regime}-dissipation-angles"])),
    )  # fmt: skip


def _steps(rows: Frames) -> Iterator[str]:
    if "encoder-steps" not in rows:
        return
    table = rows["encoder-steps"]
    yield "## Conjecture 3: which λ training takes"
    yield (
        f"How far a training step turns an anchor under the same dropout masks ({table.seed.nunique()} seed, so that nothing is known of the spread), and the λ of Lemma 1 "
        "that turns it as far. Then, in per cent: triples that a step of that λ along the gradient would bring closer, with ratio 1 and with "
        "the loss's own; and anchors that did end closer to their positive, to where it was before the step and to where it is after. In "
        "step 1 ArcCon and MET bring 61% and 70% of the pairs closer, InfoNCE 1.6%."
    )
    shown = table[table.step.isin(SHOWN_STEPS)].groupby(["loss", "step"], as_index=False, sort=False).mean()
    columns = ("closer_one", "closer_own", "closer_anchor", "closer_both")
    yield _table(
        ["loss", "step", "degrees", "λ", "closer: ratio 1", "own ratio", "anchor alone", "both"],
        ([one["loss"], one["step"], f"{one['degrees']:.1f}", f"{one['lambda']:.2g}",
          *(f"{100 * one[name]:.1f}" for name in columns)] for _, one in shown.iterrows()),
    )  # fmt: skip


def _prediction(regime: str, tables: Frames, pictures: Mapping[str, Path]) -> Iterator[str]:
    if f"{regime}-atlas-losses" not in tables:
        return
    yield f"## Does the paradigm predict? {NAMES[regime].capitalize()}"
    yield from _picture(
        pictures,
        f"{regime}-prediction",
        "Losses that the factorial did not train: predicted from their first ten steps, and trained. Hollow: a feature of the loss lies "
        "outside the factorial's cells. Dotted line: the mean of the factorial's softmax cells.",
    )
    yield (
        "The predictions by components, by alignment and uniformity and by the factorial's mean were committed before the losses were trained. The two other "
        "rows were added afterwards. Features are of one seed, and the relative push is divided by its own start. Alignment and "
        "uniformity after ten steps are outcomes of training; components are causes. Errors are root mean squares in points; p is an exact "
        "permutation test of the order of the predictions."
    )
    for part, about in (("prediction", "losses with known results"), ("atlas", "losses without any result")):
        models, losses = tables[f"{regime}-{part}-models"], tables[f"{regime}-{part}-losses"]
        yield f"{about.capitalize()} ({int(losses.outside.sum())} of {len(losses)} lie outside the fitted range):"
        yield _table(
            ["predicted by", "error", "p"],
            ([one.model, f"{one.error:.1f}", _p(one.p)] for one in _lines(models)),
        )


def _precision(rows: Frames) -> Iterator[str]:
    if {"encoder-precision", "encoder-recipes"} <= rows.keys():
        half, full = (
            rows[f"encoder-{part}"].set_index("label").loc["SimCSE"] for part in ("precision", "recipes")
        )
        difference = 100 * (half.set_index("seed").sts - full.set_index("seed").sts)
        yield "## bfloat16 and float32"
        yield (
            f"SimCSE in bfloat16 minus float32, same seeds: {difference.mean():+.2f} points on average, {difference.abs().max():.2f} at most. The "
            "recipes and their collapse cases are in float32, the other parts of the encoder in bfloat16."
        )


def _manifests(folder: Path) -> str:
    lines = []
    for path in sorted(folder.glob("*-manifest.json")):
        manifest = json.loads(path.read_text(encoding="utf-8"))
        device = manifest.get("device", "")
        if isinstance(device, Mapping):
            device = device.get("name", "")
        lines.append([path.stem.removesuffix("-manifest"), device, manifest.get("commit", "")[:12]])
    return _table(["part", "processor", "commit"], lines)


def _untrained(folder: Path) -> pd.DataFrame:
    path = folder / "untrained.csv"
    return pd.read_csv(path) if path.exists() else pd.DataFrame()


def _lines(table: pd.DataFrame) -> Iterator[Any]:
    return table.itertuples(index=False)


def _rounded(column: pd.Series) -> list[Any]:
    return [float(f"{value:.6g}") if isinstance(value, float) else value for value in column.tolist()]


def _picture(pictures: Mapping[str, Path], name: str, caption: str) -> Iterator[str]:
    if name in pictures:
        yield f"![{name}]({pictures[name].name})\n\n*{caption}*"


def _interval(line: Any, digits: int = 2) -> str:
    return f"{line.low:+.{digits}f} to {line.high:+.{digits}f}"


def _list(values: pd.Series, digits: int = 1) -> str:
    return ", ".join(f"{100 * value:.{digits}f}" for value in values)


def _p(value: float) -> str:
    return "" if pd.isna(value) else "< .001" if value < 1e-3 else f"{value:.3f}".lstrip("0")


def _table(header: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(str(cell) for cell in line)} |" for line in lines)
