"""The picture of an inspection: concentration of the push on sentences."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from gradlab.inspection.result import Inspection
from gradlab.plotting.style import figure_of, new_figure


def draw_inspection(inspection: Inspection, ax: Axes | None = None) -> tuple[Figure, Axes]:
    """Draw the share of all push on the most pushed sentences together, against equal push."""
    received = np.sort(inspection.totals.mean("received")[inspection.totals.times_met > 0])[::-1]
    figure, ax = new_figure() if ax is None else (figure_of(ax), ax)
    sentences = np.arange(len(received) + 1) / len(received)
    ax.plot(
        sentences, np.concatenate([[0], np.cumsum(received)]) / received.sum(), label="this corpus"
    )
    ax.plot([0, 1], [0, 1], color="0.65", ls=":", label="the same push on each")
    ax.set(
        xlabel="share of sentences, most pushed first",
        ylabel="share of the push",
        xlim=(0, 1),
        ylim=(0, 1),
    )
    ax.legend(loc="lower right")
    return figure, ax
