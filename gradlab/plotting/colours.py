"""The colours and colour maps of all figures; ``explorer/heatmap.js`` repeats the map."""

from __future__ import annotations

from typing import Any

import matplotlib
import numpy as np

from gradlab.plotting.style import SETTINGS

# Colours of lines, in the order in which they are drawn.
COLORS = tuple(SETTINGS["axes.prop_cycle"].by_key()["color"])
ANCHOR, POSITIVE, NEGATIVE = "#000000", "#009E73", "#D55E00"
# Colour of anchors that their negatives attract; the colour map below 0 ends in it.
ATTRACTED = "#B2182B"
# Map of every quantity from 0 up, perceptually uniform.
COLORMAP = "viridis"


def signed_colormap() -> Any:
    """Return colours for -1 to 1: those of `COLORMAP` from 0 on, and reds below."""
    from matplotlib.colors import ListedColormap

    share = np.linspace(1, 0, 128)[:, None]
    reds = np.array([110, 0, 60]) + share * np.array([125, 40, 0])
    above = matplotlib.colormaps[COLORMAP](np.linspace(0, 1, 128))[:, :3]
    return ListedColormap(np.vstack([reds / 255, above]), name="attraction and push")
