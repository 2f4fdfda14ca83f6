"""Line charts and histograms as SVG that takes its colours from the page."""

from __future__ import annotations

import html
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from matplotlib.ticker import MaxNLocator

from gradlab.monitor.numbers import short

Scale = Callable[[float], float]

WIDTH, HEIGHT = 340, 190
LEFT, RIGHT, TOP, BOTTOM = 40, 10, 8, 24
MOST_POINTS = 240
# A positive series that spans more than this is drawn on a logarithmic axis.
LOGARITHMIC = 100


@dataclass(frozen=True)
class Series:
    """One line."""

    label: str  # for the legend
    steps: Sequence[int]
    values: Sequence[float]  # those that are not finite are gaps
    reference: bool = False  # whether it is a line to compare with, drawn dashed


def line_chart(
    title: str, series: Sequence[Series], low: float | None = None, high: float | None = None
) -> str:
    """A chart over steps of at most three measured series and any references, with its legend, as HTML.

    The axis shows at least what lies between ``low`` and ``high``; the title names it for those who do not see it.
    """
    series = [_thin(one) for one in series]
    finite = [value for one in series for value in one.values if math.isfinite(value)]
    if not finite:
        return '<p class="empty">No finite values.</p>'
    measured = [v for one in series if not one.reference for v in one.values if math.isfinite(v)] or finite
    logarithmic = min(finite) > 0 and max(measured) > LOGARITHMIC * min(measured)
    if logarithmic:
        bottom, top = min(finite), max(max(finite), high or 0)
        first, last = math.ceil(math.log10(bottom) - 1e-9), math.floor(math.log10(top) + 1e-9)
        marks = [10.0**power for power in range(first, last + 1, max(1, math.ceil((last - first) / 4)))]
    else:
        bottom = min(finite) if low is None else min(*finite, low)
        top = max(finite) if high is None else max(*finite, high)
        margin = 0.05 * (top - bottom) or 0.1 * abs(top) or 1.0
        bottom -= margin if low is None or bottom < low else 0
        top += margin if high is None or top > high else 0
        marks = ticks(bottom, top, 4)
    steps = [step for one in series for step in one.steps]
    first, last = min(steps), max(max(steps), min(steps) + 1)
    x, y = _across(first, last), _upwards(bottom, top, logarithmic)
    parts = [_grid(marks, y, ticks(first, last, 4), x)]
    data: list[dict[str, object]] = []
    entries: list[tuple[str, str]] = []
    for one in series:
        points = [(s, v) for s, v in zip(one.steps, one.values, strict=True) if math.isfinite(v)]
        number = len(data) if not one.reference else len(entries) - len(data)
        colour = f"reference r{number}" if one.reference else f"c{number}"
        entries.append((one.label, colour))
        parts.append(f'<path class="{"" if one.reference else "line "}{colour}" d="{_path(one, x, y)}"/>')
        if len(points) == 1:
            at, value = points[0]
            parts.append(f'<circle class="dot {colour}" cx="{x(at):.1f}" cy="{y(value):.1f}" r="3"/>')
        if not one.reference:
            told = [[s, round(x(s), 1), short(v)] for s, v in zip(one.steps, one.values, strict=True)]
            data.append({"label": one.label, "points": told})
    legend = _legend(entries, "logarithmic axis" if logarithmic else "")
    return legend + _svg(_spoken(title, series), "".join(parts), data)


def histogram_chart(
    title: str, histograms: Mapping[str, Mapping[float, float]], low: float, high: float, bins: int
) -> str:
    """Histograms, label -> {lower edge: share}, over the same bins, drawn as steps over each other, as HTML with a legend."""
    width = (high - low) / bins
    used = [edge for shares in histograms.values() for edge, share in shares.items() if share > 0]
    left, right = min(used), max(used) + width
    margin = max(width, 0.05 * (right - left))
    left, right = max(low, left - margin), min(high, right + margin)
    top = 1.08 * max(share for shares in histograms.values() for share in shares.values())

    x, y = _across(left, right), _upwards(0, top)
    parts = [_grid(ticks(0, top, 3), y, ticks(left, right, 5), x, as_percent=True)]
    for number, shares in enumerate(histograms.values()):
        outline = [f"M{x(left):.1f} {y(0):.1f}"]
        for i in range(bins):
            edge = low + i * width
            if left - 1e-9 <= edge < right - 1e-9:
                share = next((s for e, s in shares.items() if abs(e - edge) < width / 2), 0.0)
                outline.append(f"L{x(edge):.1f} {y(share):.1f}L{x(edge + width):.1f} {y(share):.1f}")
        outline.append(f"L{x(right):.1f} {y(0):.1f}Z")
        parts.append(f'<path class="area c{number}" d="{"".join(outline)}"/>')
    legend = _legend([(label, f"c{number}") for number, label in enumerate(histograms)])
    return legend + _svg(f"{title}: distribution over a batch", "".join(parts))


def ticks(low: float, high: float, most: int) -> list[float]:
    """Round numbers in [low, high], at most ``most`` + 1 of them."""
    marks = MaxNLocator(most, steps=[1, 2, 2.5, 5, 10]).tick_values(low, high)
    rounding = 1e-9 * (high - low)
    return [float(mark) for mark in marks if low - rounding <= mark <= high + rounding]


def labels(marks: Sequence[float]) -> list[str]:
    """Texts of an axis's marks, with as many digits as it takes to tell them apart."""
    for digits in range(3, 12):
        texts = [short(mark, digits) for mark in marks]
        if len(set(texts)) == len(texts):
            break
    return texts


def _across(low: float, high: float) -> Scale:
    return lambda value: LEFT + (value - low) / (high - low) * (WIDTH - LEFT - RIGHT)


def _upwards(low: float, high: float, logarithmic: bool = False) -> Scale:
    height = HEIGHT - TOP - BOTTOM
    if logarithmic:
        return lambda value: HEIGHT - BOTTOM - math.log(value / low) / math.log(high / low) * height
    return lambda value: HEIGHT - BOTTOM - (value - low) / (high - low) * height


def _svg(label: str, content: str, data: object = None) -> str:
    points = f' data-series="{html.escape(json.dumps(data, ensure_ascii=False))}"' if data else ""
    return f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{html.escape(label)}"{points}>{content}</svg>'


def _grid(
    marks: Sequence[float], y: Scale, steps: Sequence[float], x: Scale, as_percent: bool = False
) -> str:
    parts = []
    texts = [f"{100 * mark:.3g}%" for mark in marks] if as_percent else labels(marks)
    for at, text in zip(map(y, marks), texts, strict=True):
        line = f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{at:.1f}" y2="{at:.1f}"/>'
        parts.append(f"{line}{_tick(LEFT - 5, f'{at + 3.5:.1f}', 'end', text)}")
    for step in steps:
        anchor = "end" if x(step) > WIDTH - RIGHT - 12 else "middle"
        parts.append(_tick(f"{x(step):.1f}", HEIGHT - 8, anchor, short(step)))
    return "".join(parts)


def _tick(x: float | str, y: float | str, anchor: str, text: str) -> str:
    return f'<text class="tick" x="{x}" y="{y}" text-anchor="{anchor}">{text}</text>'


def _path(one: Series, x: Scale, y: Scale) -> str:
    pen, parts = "M", []
    for step, value in zip(one.steps, one.values, strict=True):
        if math.isfinite(value):
            parts.append(f"{pen}{x(step):.1f} {y(value):.1f}")
        pen = "L" if math.isfinite(value) else "M"
    return "".join(parts)


def _legend(entries: Sequence[tuple[str, str]], note: str = "") -> str:
    """Labels with their colours; of a single one the title says it."""
    parts = [f'<li><i class="{colour}"></i>{html.escape(label)}</li>' for label, colour in entries]
    parts = parts if len(parts) > 1 else []
    parts += [f'<li class="note">{html.escape(note)}</li>'] if note else []
    return f'<ul class="legend">{"".join(parts)}</ul>' if parts else ""


def _thin(one: Series) -> Series:
    """At most `MOST_POINTS` points: means of equally many neighbours."""
    size = math.ceil(len(one.steps) / MOST_POINTS)
    if size < 2:
        return one
    steps, values = [], []
    for start in range(0, len(one.steps), size):
        part = [value for value in one.values[start : start + size] if math.isfinite(value)]
        steps.append(one.steps[min(start + size, len(one.steps)) - 1])
        values.append(sum(part) / len(part) if part else math.nan)
    return Series(one.label, steps, values, one.reference)


def _spoken(title: str, series: Sequence[Series]) -> str:
    parts = [
        f"{one.label} from {short(one.values[0])} at step {one.steps[0]} to {short(one.values[-1])} at step {one.steps[-1]}"
        for one in series
        if not one.reference
    ]
    return f"{title}: {'; '.join(parts)}"
