"""What the recipes do to a small BERT: curves, a table and a figure from the runs of `studies/sweeps/recipes.toml`.

    gradlab sweep studies/sweeps/recipes.toml --light --output runs/recipes --set model=FOLDER --set train_file=FILE --set sts=FOLDER
    python tests/benchmarks/recipes.py runs/recipes [--output figures/recipes]

Runs that are not finished are left out. What is written holds measured numbers and settings, no paths.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path

from gradlab.files import write_csv, write_json
from gradlab.monitor.metrics import read_metrics
from gradlab.plotting.style import COLORS, empty_figure, save, style
from gradlab.sweep.settings import configure
from gradlab.sweep.spec import Point, read_spec

ROOT = Path(__file__).resolve().parents[2]
# Written for every record; names of the metrics file.
CURVES = (
    "stsb_dev", "loss", "encoder_cosine", "encoder_rank", "negative_cosine", "positive_cosine", "effective_rank", "alignment", "uniformity",
    "gradient_dissipation", "hardest_share", "queue_age_mean", "queue_age_max", "queue_random_share", "momentum_decay",
    "fgsm_changed",
)  # fmt: skip
Series = dict[str, dict[int, float]]
PLACES = ("model", "train_file", "sts", "output")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sweep", type=Path, metavar="FOLDER")
    parser.add_argument("--spec", type=Path, default=ROOT / "studies" / "sweeps" / "recipes.toml")
    parser.add_argument("--output", type=Path, default=ROOT / "figures" / "recipes")
    arguments = parser.parse_args()
    runs = read_runs(arguments.sweep)
    spec = read_spec(arguments.spec, light=True)
    spec = spec.with_base({"model": "-", "train_file": "-", "backbone": "bert-base"})
    found = {point.label: kept for point in spec.points({}) if (kept := runs_of(point, runs))}
    settings = {point.label: point.settings for point in spec.points({})}
    write_tables(found, arguments.output)
    own = {label: {key: one for key, one in settings[label].items() if key not in PLACES} for label in found}
    write_json(arguments.output / "settings.json", own)
    draw(found, arguments.output / "stsb-dev.png")


def read_runs(sweep: Path) -> list[tuple[dict[str, object], Series]]:
    """Configuration and series of every finished run in the folder of a sweep."""
    runs = []
    for manifest in sorted(sweep.glob("runs/*/manifest.json")):
        content = json.loads(manifest.read_text(encoding="utf-8"))
        if content["status"] != "finished":
            continue
        series: Series = {}
        for step, _, name, value in read_metrics(manifest.parent / "metrics.csv"):
            series.setdefault(name, {})[step] = value
        # Without heads the loss compares what the encoder gives.
        for name, of_loss in {"encoder_cosine": "negative_cosine", "encoder_rank": "effective_rank"}.items():
            series.setdefault(name, series[of_loss])
        runs.append((content["config"], series))
    return runs


def runs_of(point: Point, runs: Sequence[tuple[dict[str, object], Series]]) -> dict[int, Series]:
    """Seed -> series of the runs of one point: those whose settings are the point's."""
    wanted = {key: value for key, value in configure(point.settings).to_dict().items() if key not in PLACES}
    del wanted["seed"]
    return {
        int(str(config["seed"])): series
        for config, series in runs
        if {key: config[key] for key in wanted} == wanted
    }


def write_tables(found: Mapping[str, Mapping[int, Series]], output: Path) -> None:
    """`curves.csv` and `summary.csv`."""
    rows = [
        (label, seed, step, name, value)
        for label, seeds in found.items()
        for seed, series in sorted(seeds.items())
        for name in CURVES
        for step, value in sorted(series.get(name, {}).items())
    ]
    names = ("recipe", "seed", "step", "name", "value")
    write_csv(output / "curves.csv", dict(zip(names, zip(*rows, strict=True), strict=True)))
    summary: dict[str, list[object]] = {}
    for label, seeds in found.items():
        for name, value in {"recipe": label, **summarise(seeds)}.items():
            summary.setdefault(name, []).append(value)
    write_csv(output / "summary.csv", summary)


def summarise(seeds: Mapping[int, Series]) -> dict[str, float]:
    """Mean and standard deviation over seeds of the best and last score, and how spread the embeddings are at the end."""
    scores = [series["stsb_dev"] for series in seeds.values()]
    numbers = {
        "best": [max(value for step, value in one.items() if step) for one in scores],
        "last": [one[max(one)] for one in scores],
    }
    for name in ("encoder_cosine", "encoder_rank", "alignment", "uniformity"):
        numbers[name] = [series[name][max(series[name])] for series in seeds.values()]
    table: dict[str, float] = {"seeds": len(seeds), "before": scores[0][0]}
    for name, values in numbers.items():
        table[name] = statistics.fmean(values)
        table[f"{name}_deviation"] = statistics.stdev(values) if len(values) > 1 else float("nan")
    return table


def draw(found: Mapping[str, Mapping[int, Series]], path: Path) -> None:
    """Mean over seeds with the range between the lowest and the highest seed."""
    panels = {
        "stsb_dev": "Spearman's correlation, STS-B dev",
        "encoder_cosine": "mean cosine of different sentences",
    }
    with style():
        figure = empty_figure((7.0, 3.6))
        axes = figure.subplots(1, len(panels))
        for ax, (name, words) in zip(axes, panels.items(), strict=True):
            for color, (label, seeds) in zip(COLORS, found.items(), strict=False):
                curves = [series[name] for series in seeds.values()]
                steps = sorted(set.intersection(*(set(curve) for curve in curves)))
                values = [[curve[step] for curve in curves] for step in steps]
                ax.plot(steps, [statistics.fmean(one) for one in values], color=color, label=label)
                ax.fill_between(steps, [min(one) for one in values], [max(one) for one in values], color=color,
                                alpha=0.2, linewidth=0)  # fmt: skip
            ax.set_xlabel("step")
            ax.set_ylabel(words)
        figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=2)
    save(figure, path)


if __name__ == "__main__":
    main()
