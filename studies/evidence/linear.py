"""The parts of the evidence in the second regime: the sweeps' own specifications, each run a linear head."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd

from gradlab import GradlabError, get_loss
from gradlab.sweep import Point, read_spec, unflatten
from gradlab.train import say
from studies.evidence.linear_head import DEV, CachedEmbeddings, train_head
from studies.runs import RowFile

# Steps on this head are cheap and its best rate is far from the encoder's.
RATES = (1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2)
TUNING_SEEDS = (101, 102, 103)
SEEDS = {
    "factorial": 20, "open": 1, "exchanges": 8, "dissipation": 20, "features": 8, "prediction": 8, "atlas": 8,
}  # fmt: skip
# Part -> the sweeps whose points it trains.
PARTS = {
    "tuning": ("tuning",),
    "factorial": ("factorial",),
    "open": ("factorial",),
    "exchanges": ("exchanges",),
    "dissipation": ("dissipation", "dissipation-controls"),
    "features": ("factorial", "prediction", "atlas"),
    "prediction": ("prediction",),
    "atlas": ("atlas",),
}
# How `train_head` makes the runs of a part, where that is not how it makes others.
HOW: dict[str, dict[str, Any]] = {
    "tuning": {"tasks": (DEV,)},
    "open": {"tasks": (), "records_shares": True},
    "features": {"only_features": True},
}


def run_part(
    part: str, data: CachedEmbeddings, sweeps: Path, output: Path, steps: int = 600, seeds: int | None = None
) -> Path:
    """Train what is missing of a part and return its table.

    All parts but "tuning" need it. No more than ``seeds`` are trained for now; more go on from there.

    Raises:
        GradlabError: if the tuning is not there, or a specification cannot be read.
    """
    table, shares = (RowFile.open(output / f"{name}.csv") for name in (part, "open-shares"))
    runs = list(_runs(part, sweeps, output, seeds))
    missing = [run for run in runs if not table.has(label=run[0], learning_rate=run[2], seed=run[3])]
    say(f"{part}: {len(runs)} runs, {len(missing)} to do")
    for count, (label, point, rate, seed) in enumerate(missing, start=1):
        result = train_head(data, _loss(point), rate, seed, steps, **_how(part, label, point, seed, shares))
        found = result.measured
        if part == "open":
            opened = result.open_shares
            found = {"first": opened[0], "mean": statistics.fmean(opened), "last": opened[-1]}
        elif part == "dissipation" and label == "on":
            shares.add(
                *(
                    {"seed": seed, "step": step, "share": one}
                    for step, one in enumerate(result.open_shares, 1)
                )
            )
        table.add({"label": label, "learning_rate": rate, "seed": seed, "steps": steps} | found)
        if count % 50 == 0:
            say(f"{part}: {count} of {len(missing)}")
    return table.path


def _runs(
    part: str, sweeps: Path, output: Path, seeds: int | None
) -> Iterator[tuple[str, Point, float, int]]:
    """Label, point, learning rate and seed of each run, all points of a seed before the next seed."""
    points = [point for name in PARTS[part] for point in read_spec(sweeps / f"{name}.toml").points({})]
    if part == "tuning":
        # Its own rates: a point for each cell.
        cells = {point.label.rpartition(", ")[0]: point for point in points}
        for seed, (label, point), rate in itertools.product(TUNING_SEEDS[:seeds], cells.items(), RATES):
            yield label, point, rate, seed
        return
    rates, common = tuned_rates(output / "tuning.csv"), common_rate(output / "tuning.csv")
    for seed, point in itertools.product(range(1, min(SEEDS[part], seeds or SEEDS[part]) + 1), points):
        cell = "hard / softmax .05" if part == "dissipation" else point.label.partition(",")[0]
        yield point.label, point, rates.get(cell, common), seed


def tuned_rates(path: Path) -> dict[str, float]:
    """Cell of gate and weight -> its learning rate: the best mean STS-B dev over the tuning's seeds."""
    means = _tuning(path).groupby(["label", "learning_rate"])[DEV].mean()
    return {label: float(rate) for label, rate in means.groupby("label").idxmax()}


def common_rate(path: Path) -> float:
    """The learning rate whose mean over all cells is best, for losses that have no cell."""
    return float(_tuning(path).groupby("learning_rate")[DEV].mean().idxmax())


def _tuning(path: Path) -> pd.DataFrame:
    if not path.exists():
        raise GradlabError(f"there is no {str(path)!r}; run the part 'tuning' first")
    return pd.read_csv(path)


def _loss(point: Point) -> Any:
    settings = unflatten(point.settings)
    return get_loss(settings["loss"], **settings.get("loss_settings", {}))


def _how(part: str, label: str, point: Point, seed: int, shares: RowFile) -> dict[str, Any]:
    """How `train_head` makes a run of a part; controls have the open shares of "on" with the same seed."""
    if part != "dissipation":
        return HOW.get(part, {})
    use = point.settings.get("open_shares_use", "random")
    own = [float(row["share"]) for row in shares.rows if row["seed"] == str(seed)]
    used = own if "open_shares" in point.settings else []
    return {"records_shares": label == "on", "shares": used, "shares_use": use}
