"""Components of the non-contrastive losses before and after their repair, on sampled batches."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from gradlab.gradient.components_and_autograd import components
from gradlab.losses.base import Loss
from gradlab.losses.components import Components
from gradlab.losses.registry import get_loss
from gradlab.losses.vicreg import VICReg
from gradlab.plotting.colours import COLORS
from gradlab.plotting.figure_tables import Table, Tables, select, stack
from gradlab.plotting.style import (
    TEXT_WIDTH,
    add_key,
    draw_curve,
    empty_figure,
    key_line,
    pi_axis,
    style,
)
from gradlab.simulation.sphere import sample_views

BATCH_SIZE, DIMENSIONS, BATCHES, SEED = 128, 256, 8, 0
MU_POS, SIGMA_POS, SIGMA_NEG = np.pi / 6, 0.05, 0.10
# Below, a spread of 0.10 around the mean angle is impossible.
MU_NEG = np.linspace(0.14, 0.5, 13) * np.pi
REPAIRS = {
    "mhe": "modified_mhe",
    "mhs": "modified_mhs",
    "barlow_twins": "modified_barlow_twins",
    "vicreg": "modified_vicreg",
}
REFERENCE = "baseline"
QUANTITIES = {
    "gradient_dissipation": "gradient\ndissipation",
    "largest_share": "share of the\nlargest weight",
    "ratio": "ratio",
}
# Form of a loss -> (label, colour, line style).
FORMS: dict[str, tuple[str, str, Any]] = {
    "before": ("original", COLORS[1], "-"),
    "after": ("repaired", COLORS[0], (0, (6, 1.5, 1, 1.5))),
    "reference": ("baseline of Eq. 5 (contrastive)", "0.5", (0, (1, 1.5))),
}


def compute() -> Tables:
    """Compute each component of each loss at each mean angle: mean over batches and standard error.

    Losses have published settings: repaired losses those for BERT, VICReg the paper's coefficient.
    """
    losses: dict[str, Loss] = {}
    for before, after in REPAIRS.items():
        losses |= {before: get_loss(before), after: get_loss(after, preset="bert")}
    losses |= {"vicreg": VICReg.published(BATCH_SIZE, DIMENSIONS), REFERENCE: get_loss(REFERENCE)}
    rows = []
    for mu_neg in MU_NEG:
        views = sample_views(
            MU_POS, mu_neg, BATCH_SIZE, DIMENSIONS,
            sigma_pos=SIGMA_POS, sigma_neg=SIGMA_NEG, batches=BATCHES, seed=SEED,
        )  # fmt: skip
        for name, loss in losses.items():
            pairs = zip(views.anchors, views.positives, strict=True)
            summaries = [_summary(components(loss, *pair)) for pair in pairs]
            row: dict[str, Any] = {"loss": name, "mu_neg": mu_neg}
            for quantity in QUANTITIES:
                values = np.array([summary[quantity] for summary in summaries])
                row[quantity] = values.mean()
                row[f"{quantity}_error"] = values.std(ddof=1) / np.sqrt(BATCHES)
            rows.append(row)
    return {"": stack(rows)}


def draw_component(table: Table, loss: str, quantity: str, ax: Axes) -> None:
    """Draw a loss component before and after its repair, against the mean angle between anchors."""
    for form, name in (("reference", REFERENCE), ("before", loss), ("after", REPAIRS[loss])):
        rows = select(table, loss=name)
        look: Any = {"color": FORMS[form][1], "linestyle": FORMS[form][2], "linewidth": 1.6}
        draw_curve(ax, rows["mu_neg"], rows[quantity], rows[f"{quantity}_error"], **look)
    ax.set_xlim(0.13 * np.pi, 0.505 * np.pi)
    pi_axis(ax.xaxis)
    if quantity == "ratio":
        ax.set_yscale("symlog", linthresh=0.01, linscale=0.4)
        ax.set_ylim(-30, 30)
        ax.set_yticks([-10, -1, -0.1, 0, 0.1, 1, 10], ["−10", "−1", "−0.1", "0", "0.1", "1", "10"])
        ax.minorticks_off()
    else:
        ax.set_ylim(-0.05, 1.05)


@style()
def draw(tables: Tables) -> tuple[Figure, list[Axes]]:
    """Draw one column per loss and one row per component."""
    (table,) = tables.values()
    figure = empty_figure((TEXT_WIDTH, 5.4))
    grid = figure.subplots(len(QUANTITIES), len(REPAIRS), sharex=True, sharey="row")
    for column, loss in enumerate(REPAIRS):
        for row, (quantity, label) in enumerate(QUANTITIES.items()):
            ax = grid[row, column]
            draw_component(table, loss, quantity, ax)
            if column == 0:
                ax.set_ylabel(label)
            else:
                ax.tick_params(labelleft=False)
        grid[0, column].set_title(get_loss(loss).title)
    figure.supxlabel("mean angle between anchors $\\mu_{\\mathrm{neg}}$", fontsize=9)
    keys: dict[str, Any] = {label: key_line(color, line) for label, color, line in FORMS.values()}
    keys["± 2 standard errors"] = Patch(color="0.3", alpha=0.3, linewidth=0)
    add_key(figure, keys, loc="outside upper center", ncols=4)
    return figure, list(grid.ravel())


def facts(tables: Tables) -> dict[str, str]:
    """Return the range of each original loss's ratio at mean angles below 0.45π."""
    (table,) = tables.values()
    ratios = []
    for loss in REPAIRS:
        rows = select(table, loss=loss)
        below = rows["mu_neg"] < 0.45 * np.pi
        low, high = rows["ratio"][below].min(), rows["ratio"][below].max()
        ratios.append(f"{low:.3f} to {high:.3f} ({get_loss(loss).title})")
    return {"ratios": ", ".join(ratios)}


def _summary(components: Components) -> dict[str, float]:
    """Return anchors' mean dissipation and share, and median ratio (weights' sum can cross 0)."""
    size = np.abs(components.weight)
    return {
        "gradient_dissipation": float(np.mean(components.gradient_dissipation)),
        "largest_share": float(np.mean(size.max(axis=1) / size.sum(axis=1))),
        "ratio": float(np.median(components.scalar_ratio)),
    }
