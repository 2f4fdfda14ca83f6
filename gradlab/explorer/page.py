"""`explore`: the interactive explorer of losses, as one self-contained HTML page."""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import html
import math
import os
from collections.abc import Iterable, Mapping
from importlib import resources
from pathlib import Path
from typing import Any

from markupsafe import Markup

from gradlab.errors import GradlabError
from gradlab.explorer.compiler import Script, compile_script
from gradlab.explorer.heatmap_data import heatmaps, metadata_at
from gradlab.explorer.page_functions import (
    bounds,
    compile_scene,
    example_of_bounds,
    first_points,
    needs_batch,
    stored_scenes,
)
from gradlab.explorer.play import flow_constants
from gradlab.files import write_text
from gradlab.flow.velocity import has_gate
from gradlab.losses.base import Loss
from gradlab.losses.formula_markup import formula_html
from gradlab.losses.registry import by_text, loss_names, taught_names
from gradlab.progress_bars import progress_bar
from gradlab.settings import call_text
from gradlab.templates import render, script_json

SCRIPTS = (
    "arrays.js",
    "state.js",
    "address.js",
    "page_tools.js",
    "linked_sliders.js",
    "sphere.js",
    "curves.js",
    "heatmap.js",
    "flow.js",
    "play.js",
    "presets.js",
    "legend.js",
    "page.js",
)


@dataclasses.dataclass(frozen=True)
class Page:
    """The explorer of some losses.

    Attributes:
        html: the page.
        losses: names of the losses on the page.
        left_out: reason for each loss that could not be compiled, by name.
    """

    html: str = dataclasses.field(repr=False)
    losses: tuple[str, ...]
    left_out: Mapping[str, str]

    def _repr_html_(self) -> str:
        """Show the page in a notebook, in a frame."""
        return (
            f'<iframe srcdoc="{html.escape(self.html)}" '
            'width="100%" height="860" frameborder="0"></iframe>'
        )

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the page, atomically.

        Raises:
            GradlabError: a folder that cannot be written to.
        """
        return write_text(path, self.html)


def explore(*losses: str | Loss, progress: bool | None = None) -> Page:
    """Make the explorer, an interactive page on losses.

    Args:
        *losses: names, texts such as ``"arccon(temperature=0.1)"``, or losses; empty for all
            registered ones.
        progress: show a bar if it takes over two seconds; None does so on a terminal.

    Raises:
        GradlabError: an unknown loss, a loss in ``losses`` that cannot be compiled, or two
            different losses of one name.

    Example:
        >>> page = explore("mpt", progress=False)
        >>> page.losses
        ('mpt',)
    """
    losses_by_text = by_text(losses or [*loss_names(), *taught_names()])
    scripts, left_out = {}, {}
    for name, loss in progress_bar(losses_by_text.items(), progress, unit="loss", desc="formulas"):
        try:
            stored = not loss.closed_form
            scripts[name] = (
                Script(script_json(stored_scenes(loss)), {}) if stored else compile_scene(loss)
            )
        except GradlabError as error:
            if losses:
                raise
            left_out[name] = str(error)
    compiled = {name: losses_by_text[name] for name in scripts}
    functions = ", ".join(
        f"{script_json(name)}: {_loss(loss, scripts[name])}" for name, loss in compiled.items()
    )
    start = script_json({name: value.tolist() for name, value in first_points().items()})
    script = "\n".join(
        [
            f"const LOSSES = {{{functions}}};",
            f"const BOUNDS = {compile_script(bounds, None, example_of_bounds).text};",
            f"const START = {start};",
            f"const FLOW = {script_json(flow_constants())};",
            f"const HEAT = {script_json(heatmaps(compiled, progress))};",
            *map(_resource, SCRIPTS),
        ]
    )
    style = render("gradlab", "shared.css") + _resource("page.css")
    page = render(
        "gradlab.explorer",
        "page.html",
        script=Markup(script),
        style=Markup(style),
        script_hash=_hash(script),
        style_hash=_hash(style),
    )
    return Page(page, tuple(scripts), left_out)


def _hash(text: str) -> str:
    """Return the hash by which a content security policy admits a script or style."""
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def _resource(name: str) -> str:
    return (resources.files("gradlab.explorer") / name).read_text(encoding="utf-8")


def _loss(loss: Loss, script: Script) -> str:
    text = call_text(loss)
    settings = f" ({text.partition('(')[2].removesuffix(')')})" if "(" in text else ""
    about = {
        "title": loss.title + settings,
        "formula": formula_html(loss.formula),
        "batch": needs_batch(loss),
        "taught": "teacher" in loss.looks_at,
        "gated": has_gate(loss),
        "why": loss.not_simulated,
        "numbers": [
            _number(loss, path, value, script.numbers) for path, value in script.numbers.items()
        ],
    }
    kind = "scene" if loss.closed_form else "stored"
    return f"{{...{script_json(about)}, {kind}: {script.text}}}"


def _number(loss: Loss, path: str, value: float, paths: Iterable[str]) -> dict[str, Any]:
    """Return the slider of a hyper-parameter; its range follows from its rule and its value."""
    *_, last = path.split(".")
    label = last if sum(number_path.split(".")[-1] == last for number_path in paths) == 1 else path
    metadata = metadata_at(loss, path)
    rule = metadata.get("rule", "any")
    size = abs(value) or 1.0
    if rule == "positive" and value > 0:
        low, high, log = value / 20, value * 20, True
    elif rule == "angle":
        low, high, log = 0.0, max(math.pi / 3, 2 * size), False
    else:
        low, high, log = min(0.0, 2 * value), 4 * size, False
    return {
        "path": path,
        "label": label.replace("_", " "),
        "text": metadata.get("text", ""),
        "value": value,
        "low": low,
        "high": high,
        "log": log,
        "angle": metadata.get("unit") == "radians",
    }
