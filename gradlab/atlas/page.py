"""The atlas as text: a table, what changes from one loss to another, and the page of the documentation."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from gradlab.atlas.entries import BATCHES, COLUMNS, DIMENSIONS, SENTENCES, SPREADS, Entry
from gradlab.atlas.models import SETTING, ModelEntry, aligned
from gradlab.losses.models import published_models


def cell(entry: Entry, name: str) -> str:
    """One number as people read it; ``–`` where there is none."""
    value: Any = getattr(entry, name)
    if isinstance(value, str):
        return value
    if name == "half_open" and math.isnan(value):
        return "never"
    if not math.isfinite(value):
        return "–" if math.isnan(value) else "∞"
    if name == "half_open":
        return f"{value:.0f}°"
    if name in ("hardest_share", "own_view"):
        return f"{100 * value:.0f}%"
    return f"{value:.2g}" if abs(value) < 10 else f"{value:.0f}"


def text_table(entries: Sequence[Entry]) -> str:
    """The table for a terminal."""
    headings = ["loss", "family", *(heading for heading, _ in COLUMNS.values())]
    rows = [[entry.name, entry.family, *(cell(entry, name) for name in COLUMNS)] for entry in entries]
    return "\n".join(aligned([headings, *rows], left=2))


def exchange(first: Entry, second: Entry) -> str:
    """What would change if the first loss were replaced by the second."""
    wide = max(len(heading) for heading, _ in COLUMNS.values())
    lines = [f"{first.name} -> {second.name}", ""]
    columns = {"family": ("family", ""), **COLUMNS}
    for name, (heading, _) in columns.items():
        before, after = cell(first, name), cell(second, name)
        mark = "" if before == after else _change(name, getattr(first, name), getattr(second, name))
        lines.append(f"{heading.ljust(wide)}  {before:>18} -> {after:<18} {mark}".rstrip())
    return "\n".join([*lines, "", *_sentences(first, second)])


def _change(name: str, before: Any, after: Any) -> str:
    if isinstance(before, str) or not (math.isfinite(before) and math.isfinite(after)):
        return "*"
    if name == "half_open":
        return f"{after - before:+.0f}°"
    if name in ("hardest_share", "own_view"):
        return f"{100 * (after - before):+.0f} points"
    return f"x {after / before:.2g}" if before * after > 0 else "*"


def _sentences(first: Entry, second: Entry) -> list[str]:
    """The changes that matter most, in words."""
    found = []
    if math.isnan(second.half_open) and not math.isnan(first.half_open):
        found.append("Anchors would never be left alone: the gate does not close any more.")
    elif math.isnan(first.half_open) and not math.isnan(second.half_open):
        found.append(f"Anchors would be left alone from {second.half_open:.0f}° on: there is a gate now.")
    elif abs(second.half_open - first.half_open) >= 1:
        sooner = "sooner" if second.half_open < first.half_open else "later"
        by = abs(second.half_open - first.half_open)
        found.append(
            f"Anchors would be left alone {sooner}: negatives {by:.0f}° {'nearer' if sooner == 'sooner' else 'farther'}."
        )
    spread = second.effective_negatives / first.effective_negatives
    if spread == spread and not 0.8 < spread < 1.25:
        more = "more" if spread > 1 else "fewer"
        found.append(
            f"The push would come from {more} negatives: {second.effective_negatives:.3g} instead of {first.effective_negatives:.3g}."
        )
    pull = second.ratio_both / first.ratio_both if first.ratio_both * second.ratio_both > 0 else math.nan
    if pull == pull and not 0.9 < pull < 1.1:
        found.append(
            f"Over both sides the pull would be {pull:.2g} times as strong against the push ({first.ratio_both:.2g} to {second.ratio_both:.2g})."
        )
    if second.own_view > first.own_view:
        found.append("Negatives would be of the anchor's own view.")
    if first.stops != second.stops:
        words = {
            "both": "both stop",
            "neither": "neither stops",
            "push": "the push stops, the pull goes on",
            "pull": "the pull stops, the push goes on",
        }
        found.append(f"Where little is left to learn, {words[second.stops]} (now: {words[first.stops]}).")
    return found or ["Nothing that this atlas measures would change much."]


def page(entries: Sequence[Entry], picture: str) -> str:
    """The page of the documentation.

    Args:
        entries: all losses.
        picture: path of the picture from the page.
    """
    return rendered(
        "atlas.md",
        picture=picture,
        rows=[(entry, [cell(entry, name) for name in COLUMNS]) for entry in entries],
        headings=[heading for heading, _ in COLUMNS.values()],
        columns=list(COLUMNS.values()),
    )


def models_page(entries: Sequence[ModelEntry], temperature: float, picture: str) -> str:
    """The page about the losses of published models; their sources are on `model_sources_page`.

    Args:
        entries: those that the stated batch can measure.
        temperature: of those that published none.
        picture: path of the picture from the page.
    """
    alike: dict[tuple[str, ...], list[str]] = {}
    for one in entries:
        shares = [one.percent(kind) for kind in ("other", "same", "hard")]
        numbers = (f"{100 * one.hardest_share:.0f}%", f"{one.effective_negatives:.3g}", f"{one.ratio:.2g}")
        alike.setdefault((*shares, *numbers, one.stop), []).append(f"`{one.name}`")
    content = {"entries": alike, "setting": SETTING, "temperature": temperature}
    return rendered("models.md", picture=picture, **content)


def model_sources_page() -> str:
    """The page of all published models, row by row, with where their losses were read."""
    return rendered("model-sources.md", rows=published_models())


def rendered(template: str, **content: Any) -> str:
    """A page of `gradlab.atlas`, from its template."""
    from gradlab.report.templates import render

    filters = {"number": number, "cell": lambda text: text.replace("|", "\\|")}
    setting = {"SENTENCES": SENTENCES, "SPREADS": SPREADS, "BATCHES": BATCHES, "DIMENSIONS": DIMENSIONS}
    return render("gradlab.atlas", template, filters, **setting, **content).rstrip("\n") + "\n"


def number(value: Any) -> str:
    """The value of a setting as people write it."""
    if isinstance(value, float):
        return f"{value:.4g}"
    return str(value).lower() if isinstance(value, bool) else str(value)
