"""Pages of the losses and of the atlas: ``python docs/loss_pages.py [LOSS ...]``.

Without names it writes docs/losses, docs/atlas.md, docs/models.md, docs/reference/models.md and
their pictures; with names only the pages of these losses. The page of a loss has its formula,
components, settings, edge cases, numbers and nearest losses.
"""

from __future__ import annotations

import dataclasses
import inspect
import math
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

# Set before numpy is imported: with small matrices, its threads would only wait for each other.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
import numpy as np

from gradlab.atlas.entries import (
    BATCHES,
    COLUMNS,
    DIMENSIONS,
    SENTENCES,
    SPREADS,
    Atlas,
    Entry,
    atlas,
    atlas_names,
    measure,
)
from gradlab.atlas.flow_ends import HEADINGS, STARTS, stored_leads
from gradlab.atlas.models import SETTING, TEMPERATURE, measurable_models
from gradlab.atlas.picture import draw_models
from gradlab.atlas.tables import cell, model_cells, short
from gradlab.batch.similarity import Negatives, PairSimilarity
from gradlab.files import write_text
from gradlab.losses.base import Loss
from gradlab.losses.batch_loss import BatchLoss
from gradlab.losses.candidate_loss import CandidateLoss
from gradlab.losses.combinator import Combinator
from gradlab.losses.formula_markup import COMPONENT_SYMBOLS, formula_latex
from gradlab.losses.pair_loss import PairLoss
from gradlab.losses.published_models import published_models
from gradlab.losses.registry import combinator_names, get_loss, loss_class, loss_names, taught_names
from gradlab.plotting.style import save
from gradlab.settings import call_text
from gradlab.templates import render

TEMPLATES = Path(__file__).parent / "_templates" / "losses"
# Edge case, angles of positive and hardest negative in degrees; other negatives are at 90.
EDGES = (
    ("usual", 30, 60),
    ("the positive on the anchor", 0, 60),
    ("the positive opposite", 180, 60),
    ("a negative on the anchor", 30, 0),
    ("the hardest negative at 90°", 30, 90),
)
# A step of a number in `distance`: a difference for angles and shares, else the log of a factor.
SCALES = {
    "half_open": 30, "effective_negatives": 1, "ratio": 1, "ratio_both_sides": 1,
    "same_view_share": 0.5, "hubness": 0.2, "hardest_share": 0.3,
}  # fmt: skip


def atlas_page(entries: Sequence[Entry]) -> str:
    """Return the documentation's page of the atlas, of all losses, as Markdown."""
    return rendered(
        "atlas.md",
        rows=[(entry, [cell(entry, name) for name in COLUMNS]) for entry in entries],
        columns=COLUMNS.values(),
    )


def write_tables(entries: Atlas) -> list[Path]:
    """Write docs/atlas.md, the pages of the models, and both pictures; return the paths.

    Raises:
        GradlabError: a folder cannot be written to.
    """
    models = measurable_models()
    alike: dict[tuple[str, ...], list[str]] = {}
    for model in models:
        alike.setdefault(model_cells(model), []).append(f"`{model.name}`")
    content = {"entries": alike, "setting": SETTING, "temperature": TEMPERATURE}
    texts = {
        "docs/atlas.md": atlas_page(entries),
        "docs/models.md": rendered("models.md", **content),
        "docs/reference/models.md": rendered("model-sources.md", rows=published_models()),
    }
    files = [write_text(place, text) for place, text in texts.items()]
    pictures = {"atlas": entries.plot()[0], "models": draw_models(models)[0]}
    saved = [save(figure, Path("figures") / f"{name}.png") for name, figure in pictures.items()]
    return [*files, *saved]


def rendered(template: str, **content: Any) -> str:
    """Render a page from a template of these pages."""
    filters = {"number": number, "cell": lambda text: text.replace("|", "\\|")}
    setting = {"SENTENCES": SENTENCES, "SPREADS": SPREADS}
    setting |= {"BATCHES": BATCHES, "DIMENSIONS": DIMENSIONS}
    return render(TEMPLATES, template, filters, **setting, **content).rstrip("\n") + "\n"


def number(value: Any) -> str:
    """Return the value of a setting as text."""
    if isinstance(value, float):
        return f"{value:.4g}"
    return str(value).lower() if isinstance(value, bool) else str(value)


def write_pages(folder: str | Path, names: Sequence[str] | None = None) -> list[Path]:
    """Write the pages of losses and combinators, of all by default, and index.md; return the paths.

    Raises:
        GradlabError: a name is unknown, or the folder cannot be written to.
    """
    all_names = [*loss_names(), *taught_names(), *combinator_names()]
    classes = [loss_class(name) for name in (all_names if names is None else names)]
    atlas = {name: measure(name) for name in atlas_names()}
    texts = {cls.name: loss_page(cls, atlas) for cls in classes}
    texts["index"] = rendered("index.md", classes=classes)
    return [write_text(Path(folder) / f"{name}.md", text) for name, text in texts.items()]


def loss_page(cls: type[Loss], atlas: Mapping[str, Entry]) -> str:
    """Return the page of a loss as Markdown, compared with the losses of the atlas by name."""
    loss = get_loss(cls.example or cls.name)
    entry, combined = atlas.get(cls.name), loss if isinstance(loss, Combinator) else None
    if combined or cls.name == "recombined":
        entry = measure(loss)
    page = {
        "loss": loss,
        "cls": cls,
        "entry": entry,
        "docstring": inspect.cleandoc(cls.__doc__ or "").replace("``", "`"),
        "formula": formula_latex(cls.formula),
        "parts": COMPONENT_SYMBOLS,
        "several": isinstance(loss, CandidateLoss),
        "fields": [field for field in dataclasses.fields(cls) if "text" in field.metadata],
        "missing": dataclasses.MISSING,
        "whole_views": isinstance(combined.bases[0] if combined else loss, BatchLoss),
        "of_pairs": isinstance(loss, PairLoss),
        "sampled": loss.row_loss() is not None,
        "pictured": "teacher" not in loss.looks_at,
        "lead": stored_leads().get(call_text(loss)),
        "lead_rows": [(name, HEADINGS[name], start) for name, start in STARTS.items()],
        "edges": _edges(loss) if isinstance(loss, PairLoss) else [],
    }
    if entry is not None:
        page |= _in_the_atlas(entry, list(atlas.values()))
    return rendered("loss.md", **page)


def _in_the_atlas(entry: Entry, atlas: Sequence[Entry]) -> dict[str, Any]:
    """Return numbers of a loss and its nearest losses, or the loss that a combinator changes."""
    base = measure(entry.loss.terms[0]) if isinstance(entry.loss, Combinator) else None
    numbers = {heading: cell(entry, name) for name, (heading, _) in COLUMNS.items()}
    before = {heading: cell(base or entry, name) for name, (heading, _) in COLUMNS.items()}
    return {
        "numbers": numbers.items(),
        "base": base,
        "changed": [
            (key, before[key], after) for key, after in numbers.items() if before[key] != after
        ],
        "neighbours": _neighbours(entry, atlas) if base is None else [],
    }


def _edges(loss: PairLoss) -> list[tuple[str, list[str]]]:
    """Return value and components in the cases of `EDGES`, for one anchor with 127 negatives."""
    cases = []
    for case, positive, hardest in EDGES:
        angles = np.full(SENTENCES - 1, math.pi / 2)
        angles[0] = math.radians(hardest)
        negatives = Negatives.from_angles(angles)
        pair = PairSimilarity.from_angles(np.radians(positive))
        if positive == 180:  # no float of radians is exactly π
            pair = PairSimilarity(np.array(2.0), np.array(0.0))
        with np.errstate(all="ignore"):
            components = loss.components(pair, negatives)
            forces = components.gradient_dissipation, components.total_push, components.pull
            numbers = loss.value(pair, negatives), *forces
        cases.append((case, [short(float(number)) for number in numbers]))
    return cases


def _neighbours(entry: Entry, atlas: Sequence[Entry]) -> list[tuple[str, str, str, str]]:
    """Return the three nearest losses, the number in which each differs most, and both values."""
    candidates = [neighbour for neighbour in atlas if neighbour.loss.name != entry.loss.name]
    neighbours = []
    for neighbour in sorted(candidates, key=lambda candidate: distance(entry, candidate))[:3]:
        name = max(SCALES, key=lambda key: _difference(entry, neighbour, key))
        neighbours.append(
            (neighbour.loss.name, COLUMNS[name][0], cell(neighbour, name), cell(entry, name))
        )
    return neighbours


def _difference(first: Entry, second: Entry, name: str) -> float:
    """Return the difference of two losses in steps; a gate that never closes counts as 180°."""
    values = [getattr(first, name), getattr(second, name)]
    if name == "half_open":
        values = [180.0 if math.isnan(value) else value for value in values]
    elif name in ("effective_negatives", "ratio", "ratio_both_sides"):
        values = [math.log(max(abs(value), 1e-3)) for value in values]
    step = abs(values[0] - values[1]) / SCALES[name]
    return 0.0 if math.isnan(step) else step


def distance(first: Entry, second: Entry) -> float:
    """Return the distance of two losses in the atlas: the root of the summed squares of steps."""
    return math.sqrt(sum(_difference(first, second, name) ** 2 for name in SCALES))


def main() -> None:
    """Write the pages that the arguments name, or all pages with the tables and pictures."""
    names = sys.argv[1:]
    written = write_pages("docs/losses", names or None)
    written += [] if names else write_tables(atlas())
    for path in written:
        print(f"Wrote {path}")


if __name__ == "__main__":
    main()
