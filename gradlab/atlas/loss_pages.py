"""One page a loss: its formula, components, settings, edges, numbers, and what is near it in the atlas."""

from __future__ import annotations

import dataclasses
import inspect
import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from gradlab.atlas.entries import COLUMNS, POSITIVE, SENTENCES, Entry, atlas_names, measure
from gradlab.atlas.page import cell, number
from gradlab.batch.similarity import Negatives, PairSimilarity
from gradlab.files import write_text
from gradlab.losses.base import BatchLoss, Loss, PairLoss
from gradlab.losses.candidate_loss import CandidateLoss
from gradlab.losses.combinator import Combinator
from gradlab.losses.notation import PARTS, formula_latex
from gradlab.losses.registry import combinator_names, get_loss, loss_class, loss_names, taught_names

BASE = "infonce"  # what combinators are shown on
GATE = (40, 50, 60, 70, 80, 90, 110, 130)  # degrees
# What an edge is, and the angles in degrees of the positive and of the hardest negative; the others are at 90.
EDGES = (
    ("usual", 30, 60),
    ("the positive coincides with the anchor", 0, 60),
    ("the positive is opposite", 180, 60),
    ("a negative coincides with the anchor", 30, 0),
    ("the hardest negative is at a right angle too", 30, 90),
)
MOVES = {
    "all": "The positives are pulled, and pushed as negatives of the other anchors.",
    "pull": "The positives are pulled; nothing pushes them.",
    "nothing": "The positives are held fixed.",
    "mirror": "Both views are treated alike: the positives have the components of anchors.",
}


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
    chosen = list(every if names is None else names)
    chosen = [loss_class(name).name for name in chosen]
    losses = {name: get_loss(loss_class(name).example or name) for name in every}
    measured = (*atlas_names(), "recombined", *combinator_names())
    entries = {name: measure(losses[name]) for name in measured}
    atlas = [entries[name] for name in atlas_names()]
    folder = Path(folder)
    found = [
        write_text(folder / f"{name}.md", loss_page(losses[name], entries.get(name), atlas))
        for name in chosen
    ]
    return [*found, write_text(folder / "index.md", _contents(chosen))]


def loss_page(loss: Loss, entry: Entry | None, atlas: Sequence[Entry]) -> str:
    """The page of a loss as Markdown.

    Args:
        loss: the loss.
        entry: its numbers; None of a loss of several positives or of a teacher, which the atlas does not have.
        atlas: those of the losses that are compared with it.
    """
    cls = type(loss)
    title = f"`{loss.name}`" if cls.title == loss.name else f"{cls.title} (`{loss.name}`)"
    lines = [
        f"# {title}",
        "",
        "<!-- Made by `gradlab atlas --write`; edit the loss's own file instead. -->",
        "",
    ]
    if cls.paper:
        lines += [f"{cls.paper}.", ""]
    lines += [*_docstring(cls), "", "## Value", "", "```math", formula_latex(cls.formula), "```", ""]
    lines += [
        "## Components",
        "",
        "The gradient of an anchor is `GD_i Σ_j W_ij (n_j − R_i h_i')`, in the tangent space."
        if not isinstance(loss, CandidateLoss)
        else "The gradient of an anchor is `GD_i (Σ_j W_ij n_j − R_i Σ_j W_ij Σ_p V_ip h_p)`, in the tangent space; `V` are the pull shares, "
        "`components(...).pull_shares`, of the sum 1.",
    ]
    lines += [_split(loss), ""]
    for name, symbol in PARTS:
        lines += ["```math", f"{symbol} = {cls.latex[name]}", "```", ""]
    lines += [
        *_settings(cls),
        "",
        *_conventions(loss),
        "",
        *_edges(loss),
    ]
    if entry is not None:
        lines += [*_numbers(entry), "", *_neighbours(entry, atlas), ""]
    if cls.bibtex:
        lines += ["## Citation", "", "```bibtex", cls.bibtex.strip(), "```", ""]
    return "\n".join(lines)


def _docstring(cls: type[Loss]) -> list[str]:
    """The docstring without sections of arguments; ``x`` becomes `x`."""
    text = inspect.cleandoc(cls.__doc__ or "").replace("``", "`")
    for section in ("\nArgs:", "\nAttributes:", "\nClass attributes:", "\nExample:", "\nRaises:"):
        text = text.split(section)[0]
    return text.strip().split("\n")


def _split(loss: Loss) -> str:
    if loss.is_combinator:
        return "They follow from those of the loss that is changed; GD is the sum of all that pushes (the canonical split)."
    return (
        "`n_j` are the sentences of the other view."
        if loss.negative_view == "other"
        else "`n_j` are the other anchors."
    )


def _settings(cls: type[Loss]) -> list[str]:
    fields = [field for field in dataclasses.fields(cls) if "text" in field.metadata]
    lines = ["## Settings", ""]
    if not fields:
        return [*lines, "None."]
    lines += ["| setting | default | |", "|---|---|---|"]
    for field in fields:
        default = field.default if field.default is not dataclasses.MISSING else ""
        shown = f"`{number(default)}`" if default != "" else ""
        lines.append(f"| `{field.name}` | {shown} | {_cell(field.metadata['text'])} |")
    if cls.settings_source:
        lines += ["", cls.settings_source]
    for name, preset in cls.presets.items():
        values = ", ".join(f"{key} = {number(value)}" for key, value in preset.hyperparameters.items())
        training = [
            f"{what} {value:g}"
            for what, value in (("batches of", preset.batch_size), ("learning rate", preset.learning_rate))
            if value
        ]
        lines += ["", f"Preset `{name}`: {'; '.join([values, preset.source, *training])}."]
    return lines


def _conventions(loss: Loss) -> list[str]:
    base = loss.bases[0] if loss.is_combinator else loss  # type: ignore[attr-defined]  # a combinator has them
    pair = base if isinstance(base, PairLoss) else None
    lines = [
        "## Conventions",
        "",
        "- The gradient is that of the sum over anchors; training with the mean divides it by N."
        if not isinstance(base, BatchLoss)
        else "- A loss that compares whole views: extra negatives are further sentences of the batch to it.",
    ]
    if not loss.is_combinator:
        lines.append(f"- {MOVES[loss.moves_positives]}")
    if loss.surrogate:
        lines.append(
            "- Its value is a stop-gradient surrogate and means nothing; its gradient is the paradigm's."
        )
    if pair is not None and not loss.is_combinator:
        alone = "keeps its pull" if pair.pulls_alone else "is at rest, with the value 0"
        lines.append(f"- An anchor that a mask leaves without negatives {alone}.")
    if loss.learned:
        lines.append(f"- `gradlab train` also learns: {', '.join(f'`{name}`' for name in loss.learned)}.")
    exact = loss.exact_gate() is not None
    lines.append(
        "- `gradlab simulate` computes its dissipation exactly."
        if exact
        else "- `gradlab simulate` samples its dissipation."
        if isinstance(loss, PairLoss) or (isinstance(loss, Combinator) and loss.row_loss() is not None)
        else f"- `gradlab simulate` does not draw it: {loss.not_simulated}."
    )
    return lines


def _edges(loss: Loss) -> list[str]:
    """Value and components where vectors coincide or are opposite, one anchor with 127 negatives."""
    if not isinstance(loss, PairLoss):
        return []
    lines = [
        "## Edges",
        "",
        f"One anchor, its positive at 30° and the hardest of {SENTENCES - 1} negatives at 60° but where said, the others at 90°.",
        "",
        "| | value | dissipation | push | pull |",
        "|---|---:|---:|---:|---:|",
    ]
    for what, positive, hardest in EDGES:
        angles = np.full(SENTENCES - 1, math.pi / 2)
        angles[0] = math.radians(hardest)
        negatives, pair = (
            Negatives.from_angles(angles),
            PairSimilarity.from_angles(np.array(math.radians(positive))),
        )
        if positive == 180:  # which no number of radians is
            pair = PairSimilarity(np.array(2.0), np.array(0.0))
        with np.errstate(all="ignore"):
            parts = loss.components(pair, negatives)
            numbers = (
                loss.value(pair, negatives),
                parts.gradient_dissipation,
                parts.canonical_dissipation,
                parts.pull,
            )
        lines.append("| " + " | ".join([what, *(_short(float(one)) for one in numbers)]) + " |")
    if loss.surrogate:
        lines += ["", "The value is that of the surrogate."]
    return [
        *lines,
        "",
        "Where vectors coincide or are opposite a force has no direction in the tangent space; an infinite one counts as 0.",
        "",
    ]


def _numbers(entry: Entry) -> list[str]:
    lines = [
        "## In the atlas",
        "",
        f"`{entry.name}`, family *{entry.family}*, at the setting of [the atlas](../atlas.md).",
        "",
        "| | | |",
        "|---|---:|---|",
        *(
            f"| {heading} | {cell(entry, name)} | {_cell(text)} |"
            for name, (heading, text) in COLUMNS.items()
        ),
        "",
        "Dissipation by the mean angle of the negatives, as a share of that at the positive's own angle "
        f"({math.degrees(POSITIVE):.0f}°):",
        "",
    ]
    inside = [angle for angle in GATE if entry.angles[0] <= angle <= entry.angles[-1]]
    shares = [f"{100 * float(np.interp(angle, entry.angles, entry.gate)):.0f}%" for angle in inside]
    return [
        *lines,
        "| " + " | ".join(f"{angle}°" for angle in inside) + " |",
        "|" + "---:|" * len(inside),
        "| " + " | ".join(shares) + " |",
    ]


def _neighbours(entry: Entry, atlas: Sequence[Entry]) -> list[str]:
    """The three nearest losses, or of a combinator the loss that it changes."""
    loss = entry.loss
    if loss.is_combinator:
        base = measure(loss.terms[0])  # type: ignore[attr-defined]  # a combinator has them
        lines = ["## What it changes", "", f"From `{base.name}` to `{entry.name}`:", ""]
        rows = [(heading, cell(base, name), cell(entry, name)) for name, (heading, _) in COLUMNS.items()]
        changed = [
            f"| {heading} | {before} | {after} |" for heading, before, after in rows if before != after
        ]
        if not changed:
            return [*lines, "Nothing at this setting, whose batch has nothing that it acts on."]
        return [*lines, "| | before | after |", "|---|---:|---:|", *changed]
    others = sorted(
        (other for other in atlas if other.loss.name != loss.name), key=lambda one: distance(entry, one)
    )
    lines = ["## Neighbours", "", "The nearest in the atlas, and in what they differ most.", ""]
    for other in others[:3]:
        name = max(_scales(), key=lambda key: _difference(entry, other, key))
        heading = COLUMNS[name][0]
        lines.append(
            f"- [`{other.loss.name}`]({other.loss.name}.md): {heading} {cell(other, name)} instead of {cell(entry, name)}"
        )
    return [
        *lines,
        "",
        f"`gradlab atlas --from {BASE if loss.name != BASE else 'dcl'} --to {loss.name}` says what else would change.",
    ]


def _scales() -> dict[str, float]:
    """What counts as one step of each number: of angles and shares the number itself, of the others a factor of e."""
    return {
        "half_open": 30, "effective_negatives": 1, "ratio": 1, "ratio_both": 1, "own_view": 0.5, "hubness": 0.2,
        "hardest_share": 0.3,
    }  # fmt: skip


def _difference(first: Entry, second: Entry, name: str) -> float:
    """By how many steps two losses differ; a gate that never closes is as far as 180 degrees."""
    values = [getattr(one, name) for one in (first, second)]
    if name == "half_open":
        values = [180.0 if math.isnan(value) else value for value in values]
    elif name in ("effective_negatives", "ratio", "ratio_both"):
        values = [math.log(max(abs(value), 1e-3)) for value in values]
    step = abs(values[0] - values[1]) / _scales()[name]
    return 0.0 if math.isnan(step) else step


def distance(first: Entry, second: Entry) -> float:
    """How far two losses are apart in the atlas: the root of the squared steps between their numbers."""
    return math.sqrt(sum(_difference(first, second, name) ** 2 for name in _scales()))


def _contents(names: Sequence[str]) -> str:
    lines = ["# Losses and combinators, one by one", "", "| | | |", "|---|---|---|"]
    for name in names:
        cls = loss_class(name)
        lines.append(f"| [`{name}`]({name}.md) | {cls.title} | {_cell(cls.paper)} |")
    return "\n".join([*lines, "", "```{toctree}", ":hidden:", *names, "```", ""])


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _short(value: float) -> str:
    if math.isnan(value):
        return "–"
    return "∞" if math.isinf(value) else f"{value:.3g}"
