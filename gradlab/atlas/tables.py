"""The atlas as text: tables of losses and of models, and what changes from one loss to another."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

from gradlab.atlas.entries import COLUMNS, Entry
from gradlab.atlas.flow_ends import LEADS
from gradlab.atlas.models import KINDS, SETTING, ModelEntry
from gradlab.losses.published_models import PublishedModel

SHARES = ("hardest_share", "same_view_share")
# What stops where little is left to learn, and how a flow ends, in words.
STOPS = {
    "both": "both stop",
    "neither": "neither stops",
    "push": "the push stops, the pull goes on",
    "pull": "the pull stops, the push goes on",
}
ENDS = {
    "at rest": "comes to rest",
    "stopped learning": "stops learning",
    "still moving": "is still moving after 1,000 steps",
}


def cell(entry: Entry, name: str) -> str:
    """Return one number as text; NaN becomes ``–``, or "never" for the half-open angle."""
    value: Any = getattr(entry, name)
    if isinstance(value, str):
        return value
    if name in ("half_open", "push_halves"):
        return "never" if math.isnan(value) else f"{value:.0f}°"
    if not math.isfinite(value):
        return short(value)
    if name in SHARES:
        return f"{100 * value:.0f}%"
    return f"{value:.2g}" if abs(value) < 10 else f"{value:.0f}"


def short(value: float) -> str:
    """Return three digits of a number as text; NaN is ``–``."""
    if math.isnan(value):
        return "–"
    return "∞" if math.isinf(value) else f"{value:.3g}"


def aligned(rows: Sequence[Sequence[str]], left_columns: int) -> str:
    """Return a table for a terminal: ``left_columns`` left-aligned, the others right-aligned."""
    columns = []
    for place, column in enumerate(zip(*rows, strict=True)):
        width, side = max(map(len, column)), "<" if place < left_columns else ">"
        columns.append([f"{text:{side}{width}}" for text in column])
    return "\n".join("  ".join(row).rstrip() for row in zip(*columns, strict=True))


def text_table(entries: Sequence[Entry]) -> str:
    """Return the table of losses for a terminal."""
    headings = ["loss", "family", *(heading for heading, _ in COLUMNS.values()), LEADS]
    rows = [
        [entry.name, entry.family, *(cell(entry, name) for name in COLUMNS), str(entry.leads)]
        for entry in entries
    ]
    return aligned([headings, *rows], left_columns=2)


def models_table(rows: Sequence[PublishedModel]) -> str:
    """Return the table of published models for a terminal."""
    headings = ("model:NAME/STAGE", "year", "source", "loss")
    cells = [(row.key, str(row.year), row.confidence, row.expression) for row in rows]
    return aligned([headings, *cells], left_columns=4)


def exchange_models(first: ModelEntry, second: ModelEntry) -> str:
    """Return a table of the differences between two models' losses."""
    shares = [f"push of {text}" for text in KINDS.values()]
    scalars = "effective negatives", "pull/push", "half of the strength left at"
    headings = ("", *shares, "hardest negative", *scalars)
    columns = [(model.name, *model_cells(model)) for model in (first, second)]
    return "\n".join(
        [SETTING, "", aligned([*zip(headings, *columns, strict=True)], left_columns=3)]
    )


def model_cells(entry: ModelEntry) -> tuple[str, ...]:
    """Return the shares of the push, its effective negatives, the ratio and the gate as text."""
    shares = [f"{100 * share:.0f}%" for share in (*entry.shares.values(), entry.hardest_share)]
    stop = "never" if math.isnan(entry.half_open) else f"{entry.half_open:.0f}°"
    return (*shares, f"{entry.effective_negatives:.3g}", f"{entry.ratio:.2g}", stop)


def exchange(first: Entry, second: Entry) -> str:
    """Return a text on the changes if the second loss replaced the first."""
    wide = max(len(heading) for heading, _ in COLUMNS.values())
    lines = [f"{first.name} -> {second.name}", ""]
    for name, (heading, _) in {"family": ("family", ""), **COLUMNS}.items():
        before, after = cell(first, name), cell(second, name)
        mark = "" if before == after else _change(name, getattr(first, name), getattr(second, name))
        lines.append(f"{heading.ljust(wide)}  {before:>18} -> {after:<18} {mark}".rstrip())
    lines.append(f"{LEADS.ljust(wide)}  {first.leads} -> {second.leads}")
    words = list(_changes(first, second))
    return "\n".join(
        [*lines, "", *(words or ["Nothing that this atlas measures would change much."])]
    )


def _changes(first: Entry, second: Entry) -> Iterator[str]:
    """Yield sentences on what would change if the second loss replaced the first."""
    yield from _gate_change(first, second)
    spread = second.effective_negatives / first.effective_negatives
    if spread <= 0.8 or spread >= 1.25:
        yield (
            f"The push would come from {'more' if spread > 1 else 'fewer'} negatives: "
            f"{second.effective_negatives:.3g} instead of {first.effective_negatives:.3g}."
        )
    ratios = first.ratio_both_sides, second.ratio_both_sides
    pull = ratios[1] / ratios[0] if ratios[0] * ratios[1] > 0 else math.nan
    if pull <= 0.9 or pull >= 1.1:
        yield (
            f"Over both sides the pull would be {pull:.2g} times as strong against the push "
            f"({ratios[0]:.2g} to {ratios[1]:.2g})."
        )
    shares = first.same_view_share, second.same_view_share
    if abs(shares[1] - shares[0]) >= 0.01:
        yield (
            f"{shares[1]:.0%} of the push would come from the anchor's own view instead of "
            f"{shares[0]:.0%}."
        )
    if first.stops != second.stops:
        yield f"Where little is left to learn, {STOPS[second.stops]} (now: {STOPS[first.stops]})."
    yield from _leads_change(first, second)


def _gate_change(first: Entry, second: Entry) -> Iterator[str]:
    nearer = first.half_open - second.half_open
    if math.isnan(second.half_open) and not math.isnan(first.half_open):
        yield "Anchors would never be left alone: the gate does not close any more."
    elif math.isnan(first.half_open) and not math.isnan(second.half_open):
        yield f"Anchors would be left alone from {second.half_open:.0f}° on: there is a gate now."
    elif nearer >= 1:
        yield f"Anchors would be left alone sooner: negatives {nearer:.0f}° nearer."
    elif nearer <= -1:
        yield f"Anchors would be left alone later: negatives {-nearer:.0f}° farther."


def _leads_change(first: Entry, second: Entry) -> Iterator[str]:
    """Yield a sentence on where freely moving embeddings would end, if that differs."""
    former, new = first.leads, second.leads
    same_topic, different = new.same_topic - former.same_topic, new.different - former.different
    if abs(same_topic) >= 0.02 or abs(different) >= 0.02 or new.end != former.end:
        yield (
            "If embeddings moved freely, sentences on one topic would end at a mean cosine of "
            f"{new.cell('same_topic')} instead of {former.cell('same_topic')}, and different ones "
            f"at {new.cell('different')} instead of {former.cell('different')} (from 0.63 and "
            f"0.24): {first.name} {ENDS[former.end]}, {second.name} {ENDS[new.end]}."
        )


def _change(name: str, before: Any, after: Any) -> str:
    if isinstance(before, str) or not (math.isfinite(before) and math.isfinite(after)):
        return "*"
    if name in ("half_open", "push_halves"):
        return f"{after - before:+.0f}°"
    if name in SHARES:
        return f"{100 * (after - before):+.0f} points"
    return f"x {after / before:.2g}" if before * after > 0 else "*"
