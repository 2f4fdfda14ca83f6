"""One page a loss: its formula, components, settings, edges, numbers, and what is near it in the atlas."""

from __future__ import annotations

import dataclasses
import inspect
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from gradlab.atlas.entries import COLUMNS, SENTENCES, Entry, atlas_names, measure
from gradlab.atlas.page import cell, rendered
from gradlab.batch.similarity import Negatives, PairSimilarity
from gradlab.files import write_text
from gradlab.losses.base import BatchLoss, Loss, PairLoss
from gradlab.losses.candidate_loss import CandidateLoss
from gradlab.losses.combinator import Combinator
from gradlab.losses.notation import PARTS, formula_latex
from gradlab.losses.registry import combinator_names, get_loss, loss_class, loss_names, taught_names

GATE = (40, 50, 60, 70, 80, 90, 110, 130)  # degrees
# What an edge is, and the angles in degrees of the positive and of the hardest negative; the others are at 90.
EDGES = (
    ("usual", 30, 60),
    ("the positive coincides with the anchor", 0, 60),
    ("the positive is opposite", 180, 60),
    ("a negative coincides with the anchor", 30, 0),
    ("the hardest negative is at a right angle too", 30, 90),
)
# What counts as one step of each number: of angles and shares the number itself, of the others a factor of e.
SCALES = {
    "half_open": 30, "effective_negatives": 1, "ratio": 1, "ratio_both": 1, "own_view": 0.5, "hubness": 0.2,
    "hardest_share": 0.3,
}  # fmt: skip


def write_pages(folder: str | Path, names: Sequence[str] | None = None) -> list[Path]:
    """Write the pages of losses and combinators, and their table of contents.

    Args:
        folder: gets NAME.md and index.md.
        names: registered losses or combinators; None for all.

    Raises:
        GradlabError: an unknown name, or a folder that cannot be written.

    Returns:
        the files.
    """
    every = [*loss_names(), *taught_names(), *combinator_names()]
    classes = [loss_class(name) for name in (every if names is None else names)]
    losses = {name: get_loss(loss_class(name).example or name) for name in every}
    measured = (*atlas_names(), "recombined", *combinator_names())
    entries = {name: measure(losses[name]) for name in measured}
    atlas = [entries[name] for name in atlas_names()]
    folder, found = Path(folder), []
    for name in (cls.name for cls in classes):
        found.append(write_text(folder / f"{name}.md", loss_page(losses[name], entries.get(name), atlas)))
    return [*found, write_text(folder / "index.md", rendered("index.md", classes=classes))]


def loss_page(loss: Loss, entry: Entry | None, atlas: Sequence[Entry]) -> str:
    """The page of a loss as Markdown.

    Args:
        loss: the loss.
        entry: its numbers; None of a loss of several positives or of a teacher, which the atlas does not have.
        atlas: those of the losses that are compared with it.
    """
    cls, combined = type(loss), loss if isinstance(loss, Combinator) else None
    page = {
        "loss": loss,
        "cls": cls,
        "entry": entry,
        "docstring": _docstring(cls),
        "formula": formula_latex(cls.formula),
        "parts": PARTS,
        "several": isinstance(loss, CandidateLoss),
        "fields": [field for field in dataclasses.fields(cls) if "text" in field.metadata],
        "missing": dataclasses.MISSING,
        "whole_views": isinstance(combined.bases[0] if combined else loss, BatchLoss),
        "of_pairs": isinstance(loss, PairLoss),
        "sampled": loss.row_loss() is not None,
        "edges": _edges(loss) if isinstance(loss, PairLoss) else [],
    }
    return rendered("loss.md", **page, **({} if entry is None else _in_the_atlas(entry, atlas)))


def _in_the_atlas(entry: Entry, atlas: Sequence[Entry]) -> dict[str, Any]:
    """Its numbers, and what is near it, or of a combinator the loss that it changes."""
    base = measure(entry.loss.terms[0]) if isinstance(entry.loss, Combinator) else None
    inside = [angle for angle in GATE if entry.angles[0] <= angle <= entry.angles[-1]]
    changed = [
        (heading, cell(base, name), cell(entry, name)) for name, (heading, _) in COLUMNS.items() if base
    ]
    return {
        "numbers": [(heading, cell(entry, name)) for name, (heading, _) in COLUMNS.items()],
        "gate": [(at, f"{100 * float(np.interp(at, entry.angles, entry.gate)):.0f}") for at in inside],
        "base": base,
        "changed": [row for row in changed if row[1] != row[2]],
        "neighbours": _neighbours(entry, atlas) if base is None else [],
    }


def _docstring(cls: type[Loss]) -> str:
    """The docstring without sections of arguments; ``x`` becomes `x`."""
    text = inspect.cleandoc(cls.__doc__ or "").replace("``", "`")
    for section in ("\nArgs:", "\nAttributes:", "\nClass attributes:", "\nExample:", "\nRaises:"):
        text = text.split(section)[0]
    return text.strip()


def _edges(loss: PairLoss) -> list[tuple[str, list[str]]]:
    """Value and components where vectors coincide or are opposite, one anchor with 127 negatives."""
    found = []
    for what, positive, hardest in EDGES:
        angles = np.full(SENTENCES - 1, math.pi / 2)
        angles[0] = math.radians(hardest)
        negatives, pair = Negatives.from_angles(angles), PairSimilarity.from_angles(np.radians(positive))
        if positive == 180:  # which no number of radians is
            pair = PairSimilarity(np.array(2.0), np.array(0.0))
        with np.errstate(all="ignore"):
            parts = loss.components(pair, negatives)
            forces = (parts.gradient_dissipation, parts.canonical_dissipation, parts.pull)
            found.append((what, [_short(float(one)) for one in (loss.value(pair, negatives), *forces)]))
    return found


def _neighbours(entry: Entry, atlas: Sequence[Entry]) -> list[tuple[str, str, str, str]]:
    """The three nearest losses, what they differ most in, and its numbers."""
    others = [other for other in atlas if other.loss.name != entry.loss.name]
    found = []
    for other in sorted(others, key=lambda one: distance(entry, one))[:3]:
        name = max(SCALES, key=lambda key: _difference(entry, other, key))
        found.append((other.loss.name, COLUMNS[name][0], cell(other, name), cell(entry, name)))
    return found


def _difference(first: Entry, second: Entry, name: str) -> float:
    """By how many steps two losses differ; a gate that never closes is as far as 180 degrees."""
    values = [getattr(one, name) for one in (first, second)]
    if name == "half_open":
        values = [180.0 if math.isnan(value) else value for value in values]
    elif name in ("effective_negatives", "ratio", "ratio_both"):
        values = [math.log(max(abs(value), 1e-3)) for value in values]
    step = abs(values[0] - values[1]) / SCALES[name]
    return 0.0 if math.isnan(step) else step


def distance(first: Entry, second: Entry) -> float:
    """How far two losses are apart in the atlas: the root of the squared steps between their numbers."""
    return math.sqrt(sum(_difference(first, second, name) ** 2 for name in SCALES))


def _short(value: float) -> str:
    if math.isnan(value):
        return "–"
    return "∞" if math.isinf(value) else f"{value:.3g}"
