"""The two pictures at the head of the page of each loss.

python docs/loss_pictures.py              # all, into docs/pictures/losses; some minutes
python docs/loss_pictures.py infonce mhe  # these

A curve: how much of the push is alive while the negatives move away, the positive at 30°. A
heatmap: the same over both mean angles.
"""

from __future__ import annotations

import io
import math
import sys
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from PIL import Image

import gradlab
from gradlab.atlas.entries import POSITIVE, curve
from gradlab.losses.base import Loss
from gradlab.losses.registry import combinator_names, loss_class, loss_names
from gradlab.plotting.colours import ATTRACTED, COLORS, signed_colormap
from gradlab.plotting.style import empty_figure, style

FOLDER = Path(__file__).parent / "pictures" / "losses"
SIZE = (3.4, 2.7)  # inches; two stand side by side on a page, and one fills a phone
REFERENCE = "infonce"
# Loss by the similarities of one anchor, whose cells cost little, and of whole views.
GRIDS = {True: {"grid": (32, 48), "batches": 64}, False: {"grid": (8, 12), "batches": 8}}


def drawn_names() -> list[str]:
    """Names of the losses with pictures: all but those that need a teacher."""
    return [*loss_names(), *combinator_names()]


def example_of(name: str) -> Loss:
    """The loss of the page."""
    return gradlab.get_loss(loss_class(name).example or name)


def curve_picture(loss: Loss) -> Figure:
    """Relative push while the negatives move away, beside that of InfoNCE."""
    figure = empty_figure(SIZE)
    ax = figure.add_subplot()
    if loss.name != REFERENCE:
        ax.plot(*curve(gradlab.get_loss(REFERENCE))[:2], color="0.6", lw=1.2, label="InfoNCE")
    angles, push, error = curve(loss)
    ax.plot(angles, push, color=COLORS[0], lw=2.4, label=loss.name)
    if error is not None:
        ax.fill_between(angles, push - error, push + error, color=COLORS[0], alpha=0.25, lw=0)
    least = min(0.0, float(np.nanmin(push)))
    if least < -0.02:
        ax.axhline(0, color=ATTRACTED, lw=0.8)
    ticks = (30, 60, 90, 120, 150, 180)
    ax.set_xticks(ticks, [f"{angle}°" for angle in ticks])
    ax.set(xlim=(30, 180), ylim=(1.05 * least - 0.02, 1.03), yticks=(0, 0.5, 1))
    ax.set(xlabel="mean angle to the negatives", ylabel="relative push", title="Positive at 30°")
    ax.legend(loc="best")
    return figure


def map_picture(loss: Loss) -> Figure:
    """Relative push over both mean angles; the dashed row is that of the curve."""
    maps = gradlab.simulate(loss, "relative_push", progress=False, **GRIDS[bool(loss.row_loss())])
    figure = empty_figure(SIZE)
    ax = figure.add_subplot()
    degrees = np.degrees(maps.mu_neg), np.degrees(maps.mu_pos)
    attracts = float(np.nanmin(maps.value)) < -0.02
    look = {"cmap": signed_colormap(), "vmin": -1} if attracts else {"cmap": "viridis", "vmin": 0}
    mesh = ax.pcolormesh(*degrees, maps.value, vmax=1, shading="nearest", rasterized=True, **look)
    ax.axhline(math.degrees(POSITIVE), color="white", lw=1.2, ls=(0, (4, 3)))
    for axis, ticks in ((ax.xaxis, (30, 90, 150)), (ax.yaxis, (30, 60, 90))):
        axis.set_ticks(ticks, [f"{angle}°" for angle in ticks])
    ax.set(xlabel="mean angle to the negatives", ylabel="mean angle to the positive")
    ax.set_title("Relative push")
    figure.colorbar(mesh, ax=ax, ticks=(-1, 0, 1) if attracts else (0, 0.5, 1))
    return figure


def write_pictures(name: str, folder: Path = FOLDER) -> list[Path]:
    """Write both pictures of a loss, small; return their paths."""
    loss, files = example_of(name), []
    with style("screen"):
        for kind, figure in (("curve", curve_picture(loss)), ("map", map_picture(loss))):
            drawn, path = io.BytesIO(), folder / f"{name}-{kind}.png"
            figure.savefig(drawn, format="png", dpi=180)
            colors = Image.open(drawn).convert("RGB").quantize(64, dither=Image.Dither.NONE)
            colors.save(path, optimize=True)
            files.append(path)
    return files


if __name__ == "__main__":
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name in sys.argv[1:] or drawn_names():
        print(*write_pictures(name), flush=True)
