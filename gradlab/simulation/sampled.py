"""Relative push, ratio and hardest share of any loss, from one anchor in batches at drawn angles.

These quantities need no formula, so that a loss by name and the same loss given as code have the
same numbers, draw by draw. `gradlab.simulation.forces` computes what acts on the anchor.
"""

from __future__ import annotations

import sys

import numpy as np

from gradlab.arrays import Float, divide, finite
from gradlab.losses.base import Loss
from gradlab.losses.components import ANGLES_AWAY, as_share
from gradlab.progress_bars import progress_bar
from gradlab.seeds import random_generator
from gradlab.simulation.forces import PROBES, probes_first, row_forces, vector_forces
from gradlab.simulation.grid_and_result import AngleGrid
from gradlab.simulation.monte_carlo import PASS, Estimate, median_and_error, moments_of

QUANTITIES = ("relative_push", "total_push", "ratio", "hardest_share")
# Distance from 0 and 1 below which a gate counts as closed and open.
SHARP = 1e-6
# Number of gradients from which their number is announced.
MANY = 2000


def sampled(
    loss: Loss,
    angle_grid: AngleGrid,
    *,
    batches: int,
    generator: np.random.Generator | int = 0,
    progress: bool | None = None,
) -> dict[str, Estimate]:
    """Return every quantity of `QUANTITIES` over the grid, and shares of batches.

    ``"open"`` is the share of batches with a relative push of 1, ``"graded"`` the share of those
    in which it is neither 0 nor 1 (up to `SHARP`).

    All cells use the same draws. The positives' angles are drawn from equal strata of their
    distribution, one batch per stratum, which makes means more accurate than the stated errors.
    """
    if progress is None and not loss.closed_form:
        progress = True  # seconds to minutes: shown without a terminal too
    generator = random_generator(generator)
    forces = row_forces(loss) if loss.closed_form else None
    if forces is None:
        forces = vector_forces(loss, angle_grid)
        announce(loss, angle_grid, batches, progress)
    positive, negative = draw(angle_grid, batches, generator)
    shape = (angle_grid.mu_pos.size, angle_grid.mu_neg.size, batches)
    push, displaced, pull, share = (np.empty(shape) for _ in range(4))
    with progress_bar(None, progress, total=shape[0] * shape[1], unit="cell") as bar:
        for column, mean in enumerate(angle_grid.mu_neg):
            forces_at = forces(angle_grid.means(mean) + angle_grid.spreads * negative)
            for row in probes_first(angle_grid.mu_pos.size):
                at, near = (row, column), angle_grid.mu_pos[row] + angle_grid.sigma_pos * positive
                push[at], displaced[at], pull[at], share[at] = forces_at(near)
                bar.update()
    relative = as_share(push, displaced)
    relative[np.isnan(relative)] = 0.0  # no negative acts
    open_, closed = np.abs(relative) > 1 - SHARP, np.abs(relative) < SHARP
    means = {name: moments_of(values) for name, values in (("relative", relative), ("push", push))}
    passing = moments_of(finite(share), (relative >= PASS) & np.isfinite(share))
    mean = np.where(passing.count > 0, passing.mean, np.nan)  # no batch passes: NaN
    return {
        "relative_push": Estimate(means["relative"].mean, means["relative"].standard_error),
        "total_push": Estimate(means["push"].mean, means["push"].standard_error),
        "ratio": Estimate(*median_and_error(divide(pull, push))),
        "hardest_share": Estimate(mean, passing.standard_error, passing.count / batches),
        "open": Estimate(open_.mean(-1)),
        "graded": Estimate((~open_ & ~closed).mean(-1)),
    }


def draw(
    angle_grid: AngleGrid, batches: int, generator: np.random.Generator
) -> tuple[Float[np.ndarray, "b sentences"], Float[np.ndarray, "b k"]]:
    """Draw standard normal deviations of the angles of all positives and of the negatives."""
    from scipy.special import ndtri  # the import takes a sixth of a small simulation

    positive = generator.standard_normal((batches, 1 + angle_grid.columns))
    strata = (generator.permutation(batches) + generator.random(batches)) / batches
    positive[:, 0] = ndtri(strata)
    return positive, generator.standard_normal((batches, angle_grid.columns))


def announce(loss: Loss, angle_grid: AngleGrid, batches: int, progress: bool | None) -> None:
    """Say on standard error how many gradients will be computed, if there are many.

    ``progress`` says whether; None does so on a terminal.
    """
    rows, columns = angle_grid.mu_pos.size, angle_grid.mu_neg.size
    most = (1 + len(ANGLES_AWAY)) * rows * columns * batches
    least = (rows + len(ANGLES_AWAY) * min(PROBES, rows)) * columns * batches
    number = f"{most:,}" if least == most else f"{least:,} to {most:,}"
    if most >= MANY and (sys.stderr.isatty() if progress is None else progress):
        print(
            f"{loss}: {number} gradients of batches of {angle_grid.columns + 1} sentences "
            f"({rows} x {columns} cells, {batches} batches); "
            "fewer cells cost less",
            file=sys.stderr,
        )
