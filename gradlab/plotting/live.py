"""An interactive heatmap for notebooks, recomputed by the exact engine while its sliders move."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

from gradlab.errors import GradlabError, require_package
from gradlab.losses.base import Loss
from gradlab.losses.registry import get_loss
from gradlab.plotting.heatmap import heatmap, loss_label
from gradlab.plotting.style import close
from gradlab.simulation import SimulationResult, simulate

QUANTITY = "gradient_dissipation"


class LiveHeatmap:
    """A heatmap of a loss's mean dissipation, drawn once and then updated in place.

    Attributes:
        result: the displayed simulation.
        figure, ax: the figure and its axis.
    """

    def __init__(self, loss: str | Loss = "arccon", grid: int = 100) -> None:
        """Draw ``loss`` with its own settings on ``grid`` x ``grid`` mean angles.

        Raises:
            GradlabError: the loss has no exact form, or a value is bad.
        """
        self.loss, self.grid = get_loss(loss), grid
        if self.loss.exact_gate() is None:
            raise GradlabError(
                f"{self.loss.name} has no exact form of {QUANTITY}, which sliders need"
            )
        self.result = simulate(self.loss, QUANTITY, "exact", grid=grid)
        self.figure, self.ax = heatmap(self.result)

    def update(self, **settings: Any) -> SimulationResult:
        """Simulate again and update the colours.

        Args:
            **settings: hyper-parameters of the loss, ``sigma_pos``, ``sigma_neg``, ``negatives``.
                The defaults are the loss's own and the paper's values.

        Raises:
            GradlabError: bad values.
        """
        fields = {field.name for field in dataclasses.fields(self.loss)}
        own = {name: settings.pop(name) for name in fields & settings.keys()}
        self.result = simulate(
            get_loss(self.loss, **own), QUANTITY, "exact", grid=self.grid, **settings
        )
        self.ax.collections[0].set_array(self.result.value)
        self.ax.set_title(loss_label(self.result.loss, only=("temperature", "margin")))
        return self.result


def explore(loss: str | Loss = "arccon", grid: int = 100) -> LiveHeatmap:
    """Show a heatmap with sliders in a notebook (needs ``gradlab[notebooks]``).

    Sliders set both spreads, the number of negatives, and the loss's temperature and margin if any.

    Args:
        loss: a loss with an exact form, or its name.
        grid: number of mean angles per axis.

    Raises:
        GradlabError: the loss has no exact form, or ipywidgets or threadpoolctl is missing.
    """
    ipywidgets, threadpoolctl = (require_package(name) for name in ("ipywidgets", "threadpoolctl"))
    from IPython.display import display

    live = LiveHeatmap(loss, grid)
    sliders = _sliders(live.loss, ipywidgets)
    display(ipywidgets.VBox(list(sliders.values())))
    picture = display(live.figure, display_id=True)
    close(live.figure)  # otherwise the notebook shows it again at the end of the cell

    # One thread: matrices are small, and several would wait for each other on a busy machine.
    threads = threadpoolctl.ThreadpoolController()

    def follow(_: Any) -> None:
        with threads.limit(limits=1, user_api="blas"):
            live.update(**{name: slider.value for name, slider in sliders.items()})
        picture.update(live.figure)

    for slider in sliders.values():
        slider.observe(follow, names="value")
    return live


def _sliders(loss: Loss, widgets: Any) -> dict[str, Any]:
    """Create a slider for each setting that affects the dissipation."""
    sliders: dict[str, Any] = {}

    def add(name: str, slider: Any, text: str, **options: Any) -> None:
        look = {"style": {"description_width": "11em"}, "layout": {"width": "34em"}}
        sliders[name] = slider(description=text, **options, **look)

    for field in dataclasses.fields(loss):
        value = getattr(loss, field.name)
        if field.name == "temperature":
            limits = {"min": -2, "max": 0, "step": 0.05, "readout_format": ".3f"}
            add(field.name, widgets.FloatLogSlider, "temperature τ", value=value, **limits)
        elif field.name == "margin":
            unit = " (radians)" if field.metadata.get("unit") == "radians" else ""
            limits = {"min": 0, "max": math.pi / 2 if unit else 1.5, "step": 0.01}
            add(field.name, widgets.FloatSlider, f"margin{unit}", value=value, **limits)
    for name, value, of in (("sigma_pos", 0.05, "positive"), ("sigma_neg", 0.10, "negative")):
        limits = {"min": 0.01, "max": 0.4, "step": 0.01}
        add(name, widgets.FloatSlider, f"spread, {of} (radians)", value=value, **limits)
    counts = [1, 3, 7, 15, 31, 63, 127, 255, 511, 1023, 4095]
    add("negatives", widgets.SelectionSlider, "negatives", value=127, options=counts)
    return sliders
