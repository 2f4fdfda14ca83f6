"""Line charts and histograms as SVG, in colours that the page defines."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.ticker import MaxNLocator

from gradlab.numbers import short
from gradlab.templates import render

Scale = Callable[[float], float]

WIDTH, HEIGHT = 340, 190
LEFT, RIGHT, TOP, BOTTOM = 50, 10, 8, 24
MOST_POINTS = 240
# A positive series with a larger ratio of maximum to minimum has a logarithmic axis.
LOGARITHMIC = 100


@dataclass(frozen=True)
class Series:
    """One line of a chart."""

    label: str  # name in the legend
    steps: Sequence[int]
    values: Sequence[float]  # values that are not finite leave gaps
    reference: bool = False  # whether the line is drawn dashed, for comparison

    @property
    def points(self) -> list[tuple[int, float]]:
        return list(zip(self.steps, self.values, strict=True))


def line_chart(
    title: str,
    series: Sequence[Series],
    low: float | None = None,
    high: float | None = None,
    linear: bool = False,
) -> str:
    """Return a chart over steps with its legend, as HTML.

    It has at most three measured series, and any references. The axis includes ``low`` and
    ``high``, and is logarithmic for wide ranges unless ``linear``. The title becomes part of the
    text for screen readers.
    """
    longest = max((len(curve.steps) for curve in series), default=0)
    together = math.ceil(longest / MOST_POINTS)  # records that a point stands for
    label, series = _spoken(title, series), [_thin(curve, together) for curve in series]
    measured = [curve for curve in series if not curve.reference]
    references = [curve for curve in series if curve.reference]
    finite = _finite(series)
    if not finite:
        return '<p class="empty">No finite values.</p>'
    own = _finite(measured) or finite
    logarithmic = not linear and min(finite) > 0 and max(own) > LOGARITHMIC * min(own)
    bottom, top, marks = (
        _logarithmic_axis(finite, high) if logarithmic else _linear_axis(finite, low, high)
    )
    steps = [step for curve in series for step in curve.steps]
    first, last = min(steps), max(max(steps), min(steps) + 1)
    x, y = _across(first, last), _upwards(bottom, top, logarithmic)
    looks = [(curve, f"c{number}", "line ") for number, curve in enumerate(measured)]
    looks += [(curve, f"reference r{number}", "") for number, curve in enumerate(references)]
    lines, data = [], []
    for curve, colour, kind in looks:
        points = [(x(s), y(v)) for s, v in curve.points if math.isfinite(v)]
        line = {"label": curve.label, "colour": colour, "look": kind + colour}
        lines.append(
            line | {"path": _path(curve, x, y), "dots": points if len(points) == 1 else []}
        )
    for curve in measured:
        tooltip = [[s, round(x(s), 1), short(v)] for s, v in curve.points]
        data.append({"label": curve.label, "points": tooltip})
    notes = ["logarithmic axis"] if logarithmic else []
    notes += [f"means of {together} records"] if together > 1 else []
    return _chart_html(
        lines,
        data,
        label=label,
        rows=[(y(mark), text) for mark, text in zip(marks, labels(marks), strict=True)],
        columns=[(x(step), short(step)) for step in ticks(first, last, 4)],
        note=", ".join(notes),
    )


def histogram_chart(
    title: str, histograms: Mapping[str, Mapping[float, float]], low: float, high: float, bins: int
) -> str:
    """Return an HTML chart with legend of histograms {label: {lower edge: share}} of equal bins."""
    width = (high - low) / bins
    used = [edge for shares in histograms.values() for edge, share in shares.items() if share > 0]
    left, right = min(used), max(used) + width
    margin = max(width, 0.05 * (right - left))
    left, right = max(low, left - margin), min(high, right + margin)
    top = 1.08 * max(share for shares in histograms.values() for share in shares.values())

    x, y = _across(left, right), _upwards(0, top)
    lines: list[dict[str, object]] = []
    for label, shares in histograms.items():
        outline = [f"M{x(left):.1f} {y(0):.1f}"]
        for i in range(bins):
            edge = low + i * width
            if left - 1e-9 <= edge < right - 1e-9:
                share = next((s for e, s in shares.items() if abs(e - edge) < width / 2), 0.0)
                outline += [f"L{x(edge_x):.1f} {y(share):.1f}" for edge_x in (edge, edge + width)]
        outline.append(f"L{x(right):.1f} {y(0):.1f}Z")
        colour, path = f"c{len(lines)}", "".join(outline)
        lines.append({"label": label, "colour": colour, "look": f"area {colour}", "path": path})
    rows = [(y(mark), f"{100 * mark:.3g}%") for mark in ticks(0, top, 3)]
    columns = [(x(mark), short(mark)) for mark in ticks(left, right, 5)]
    label = f"{title}: distribution over a batch"
    return _chart_html(lines, None, label=label, rows=rows, columns=columns, note="")


def ticks(low: float, high: float, most: int) -> list[float]:
    """Return at most ``most`` + 1 round numbers in [low, high]."""
    marks = MaxNLocator(most, steps=[1, 2, 2.5, 5, 10]).tick_values(low, high)
    rounding = 1e-9 * (high - low)
    return [float(mark) for mark in marks if low - rounding <= mark <= high + rounding]


def labels(marks: Sequence[float]) -> list[str]:
    """Return the labels of an axis, with as many digits as tell them apart."""
    for digits in range(3, 12):
        texts = [short(mark, digits) for mark in marks]
        if len(set(texts)) == len(texts):
            break
    return texts


def _logarithmic_axis(
    numbers: Sequence[float], high: float | None
) -> tuple[float, float, list[float]]:
    """Return the ends of the axis, and powers of ten to mark."""
    bottom, top = min(numbers), max(max(numbers), high or 0)
    first, last = math.ceil(math.log10(bottom) - 1e-9), math.floor(math.log10(top) + 1e-9)
    powers = range(first, last + 1, max(1, math.ceil((last - first) / 4)))
    return bottom, top, [10.0**power for power in powers]


def _linear_axis(
    numbers: Sequence[float], low: float | None, high: float | None
) -> tuple[float, float, list[float]]:
    """Return the ends of the axis, with a margin beyond ``low`` and ``high``, and its marks."""
    bottom = min(numbers) if low is None else min(*numbers, low)
    top = max(numbers) if high is None else max(*numbers, high)
    margin = 0.05 * (top - bottom) or 0.1 * abs(top) or 1.0
    bottom -= margin if low is None or bottom < low else 0
    top += margin if high is None or top > high else 0
    return bottom, top, ticks(bottom, top, 4)


def _across(low: float, high: float) -> Scale:
    return lambda value: LEFT + (value - low) / (high - low) * (WIDTH - LEFT - RIGHT)


def _upwards(low: float, high: float, logarithmic: bool = False) -> Scale:
    height = HEIGHT - TOP - BOTTOM
    if logarithmic:
        return lambda value: HEIGHT - BOTTOM - math.log(value / low) / math.log(high / low) * height
    return lambda value: HEIGHT - BOTTOM - (value - low) / (high - low) * height


def _chart_html(lines: Sequence[Mapping[str, object]], data: object, **content: Any) -> str:
    """Draw lines on a grid; ``rows`` and ``columns`` are (place, text), ``data`` for tooltips."""
    frame: dict[str, Any] = {"width": WIDTH, "height": HEIGHT, "left": LEFT, "right": WIDTH - RIGHT}
    points = json.dumps(data, ensure_ascii=False) if data else ""
    return render("gradlab.report", "chart.html", lines=lines, data=points, **frame, **content)


def _finite(series: Sequence[Series]) -> list[float]:
    return [value for line in series for value in line.values if math.isfinite(value)]


def _path(line: Series, x: Scale, y: Scale) -> str:
    pen, strokes = "M", []
    for step, value in line.points:
        if math.isfinite(value):
            strokes.append(f"{pen}{x(step):.1f} {y(value):.1f}")
        pen = "L" if math.isfinite(value) else "M"
    return "".join(strokes)


def _thin(line: Series, size: int) -> Series:
    """Replace each ``size`` points by their mean, at the step of the last."""
    if size < 2:
        return line
    steps, values = [], []
    for start in range(0, len(line.steps), size):
        finite = [value for value in line.values[start : start + size] if math.isfinite(value)]
        steps.append(line.steps[start : start + size][-1])
        values.append(sum(finite) / len(finite) if finite else math.nan)
    return Series(line.label, steps, values, line.reference)


def _spoken(title: str, series: Sequence[Series]) -> str:
    strokes = [
        f"{line.label} from {short(line.values[0])} at step {line.steps[0]} "
        f"to {short(line.values[-1])} at step {line.steps[-1]}"
        for line in series
        if not line.reference
    ]
    return f"{title}: {'; '.join(strokes)}"
