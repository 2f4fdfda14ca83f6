"""Lemma 1 compared with the exact bounds on the sphere and with actual steps, by step size."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from gradlab.batch.triple import Triple
from gradlab.figures.projection import POLE, sphere_point
from gradlab.gradient.lemma import KINDS, lemma_accuracy, random_triples, ratio_bounds, take_step
from gradlab.plotting.colours import COLORS
from gradlab.plotting.figure_tables import (
    Table,
    Tables,
    grid_of,
    grid_table,
    rounded,
    select,
    stack,
)
from gradlab.plotting.style import (
    TEXT_WIDTH,
    add_key,
    draw_curve,
    empty_figure,
    key_line,
    style,
)

STEP_KINDS = ("projected", "unprojected")
# Triple for the bounds: angles to positive and negative, and the dihedral angle between them.
THETA_POS, THETA_NEG, ALPHA = math.pi / 6, math.pi / 3, math.pi / 4
STEPS = np.linspace(0.02, 2.0, 100)
FINE_STEPS = np.linspace(0.005, 2.0, 400)
RATIOS = np.linspace(0.0, 5.0, 101)
# Random triples for the accuracy.
SAMPLES, SEED = 20_000, 0
RANDOM_STEPS = 10.0 ** (np.arange(-20, 6) / 10)
# Column -> (label, colour, line style).
RULES: dict[str, tuple[str, str, Any]] = {
    "published": ("r > r⁻, as published", COLORS[1], "-"),
    "completed": ("r⁻ ≤ r ≤ r⁺, completed", COLORS[0], (0, (6, 1.5, 1, 1.5))),
    "closer": ("always answering 'closer'", "0.5", (0, (1, 1.5))),
}


def compute() -> Tables:
    """Compute bounds over λ for a triple, steps by λ and r, and accuracies on random triples."""
    columns = {"step": FINE_STEPS}
    triple = Triple.from_angles(THETA_POS, THETA_NEG, ALPHA)
    for kind in KINDS:
        interval = ratio_bounds(triple, FINE_STEPS, kind)
        columns |= {f"{kind}_low": interval.low, f"{kind}_high": interval.high}
    return {"bounds": rounded(columns), "steps": _steps(), "accuracy": _accuracy()}


def draw_bounds(tables: Tables, kind: str, ax: Axes) -> None:
    """Shade the steps that end closer; draw this kind of step's exact bounds and the lemma's."""
    bounds, steps = tables["bounds"], dict(tables["steps"])
    steps["mu_pos"] = steps.pop("ratio")
    ratio, step, closer = grid_of(steps, kind)
    shades: Any = {"cmap": ListedColormap(["white", "0.82"]), "vmin": 0, "vmax": 1}
    ax.pcolormesh(step, ratio, closer, shading="nearest", rasterized=True, **shades)
    top = ratio[-1]
    for name, color, line in ((kind, "black", "-"), ("tangent", COLORS[1], (0, (4, 2)))):
        for end in ("low", "high"):
            bound = bounds[f"{name}_{end}"]
            visible = np.where(bound <= top, bound, np.nan)
            ax.plot(bounds["step"], visible, color=color, linestyle=line, linewidth=1.6)
    ax.set(xlim=(0, step[-1]), ylim=(0, top))
    ax.set_xticks([0, 0.5, 1, 1.5, 2])
    ax.set(xlabel="step size λ", ylabel="ratio r")


def draw_accuracy(table: Table, kind: str, ax: Axes) -> None:
    """Draw the share of random triples that each rule decides correctly, ± 2 standard errors."""
    rows = select(table, kind=kind)
    for name, (label, color, line) in RULES.items():
        look: Any = {"color": color, "linestyle": line, "linewidth": 1.6, "label": label}
        draw_curve(ax, rows["step"], rows[name], rows[f"{name}_error"], **look)
    ax.set(xscale="log", xlim=(rows["step"][0], rows["step"][-1]))
    ax.set_xticks([0.01, 0.1, 1], ["0.01", "0.1", "1"])
    ax.set(ylim=(0, 1.02), xlabel="step size λ", ylabel="share decided correctly")


@style()
def draw(tables: Tables) -> tuple[Figure, list[Axes]]:
    """Draw bounds for one triple above accuracy on random triples, one column per kind of step."""
    figure = empty_figure((TEXT_WIDTH, 5.6))
    grid = figure.subplots(2, 2, sharey="row")
    for column, kind in enumerate(STEP_KINDS):
        draw_bounds(tables, kind, grid[0, column])
        draw_accuracy(tables["accuracy"], kind, grid[1, column])
        grid[0, column].set_title(f"({'ab'[column]}) {kind} step: bounds for one triple")
        grid[1, column].set_title(f"({'cd'[column]}) {kind} step: random triples")
    for ax in grid[:, 1]:
        ax.set_ylabel("")
    keys = {
        "the step taken ends closer": Patch(color="0.82"),
        "exact bounds": key_line(),
        "bounds of Lemma 1, r⁻ and r⁺": key_line(COLORS[1], (0, (4, 2))),
    }
    add_key(grid[0, 0], keys, loc="lower right", frameon=True, framealpha=0.9, edgecolor="none")
    grid[1, 0].legend(loc="lower left")
    return figure, list(grid.ravel())


def facts(tables: Tables) -> dict[str, str]:
    """Return the published rule's accuracy, and the step from which always "closer" is better."""
    table = tables["accuracy"]
    shares, worse = [], []
    for kind in STEP_KINDS:
        rows = select(table, kind=kind)
        near, far = (int(np.argmin(abs(rows["step"] - step))) for step in (0.1, 1.0))
        shares.append(f"{rows['published'][near]:.1%} and {rows['published'][far]:.1%} ({kind})")
        rules = {"published": "the published rule", "completed": "the completed one"}
        for name, words in rules.items():
            beaten = rows["step"][rows[name] < rows["closer"]]
            if beaten.size:
                worse.append(f"{words} for {kind} steps from λ = {beaten.min():.2g} on")
    return {"shares": ", ".join(shares), "worse": ", ".join(worse)}


def _steps() -> Table:
    """Return whether each step (λ, r) ends closer to the positive, 1 or 0, without using bounds."""
    ratio, step = np.meshgrid(RATIOS, STEPS, indexing="ij")
    vectors = POLE, sphere_point(THETA_POS), sphere_point(THETA_NEG, ALPHA)
    anchor, positive, negative = (np.broadcast_to(vector, (*ratio.shape, 3)) for vector in vectors)
    steps = {kind: take_step(anchor, positive, negative, ratio, step, kind) for kind in STEP_KINDS}
    outcomes = {kind: end.closer.astype(int) for kind, end in steps.items()}
    table = grid_table(RATIOS, STEPS, outcomes)
    table["ratio"] = table.pop("mu_pos")
    return table


def _accuracy() -> Table:
    triple, ratio = random_triples(SAMPLES, SEED)
    rows = []
    for kind in STEP_KINDS:
        for step in RANDOM_STEPS:
            accuracy = lemma_accuracy(step, kind, triple, ratio)
            shares = {name: getattr(accuracy, name) for name in RULES}
            errors = {f"{name}_error": _error(share) for name, share in shares.items()}
            rows.append({"kind": kind, "step": step, **shares, **errors})
    return stack(rows)


def _error(share: float) -> float:
    return math.sqrt(share * (1 - share) / SAMPLES)
