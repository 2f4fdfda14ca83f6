"""A recorded run in a few lines: text, HTML for notebooks, Markdown for trackers and cards."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from pathlib import Path

from gradlab._version import __version__
from gradlab.errors import counted
from gradlab.monitor.metrics import BATCH_LOSS, DIAGNOSTICS, EVALUATION, TRAIN, of_dataset
from gradlab.monitor.run_reader import Recording
from gradlab.monitor.score import readable
from gradlab.monitor.verdicts import Judgement
from gradlab.numbers import short
from gradlab.verdict import GRADES

# Quantities of a batch that are drawn, and their titles.
QUANTITIES = {
    "gradient_dissipation": "Still learning (dissipation)",
    "hardest_share": "Share of the hardest negative",
    "positive_cosine": "Cosine of positives",
    "negative_cosine": "Cosine of different sentences",
}
BLOCKS = "▁▂▃▄▅▆▇█"
MOST_BLOCKS = 24  # characters of a curve in text
WIDTH, HEIGHT = 120, 28  # pixels of a curve in a notebook
COLOURS = {"good": "#2a7f3f", "watch": "#9a6700", "bad": "#b3261e", "not judged": "#6b6b6b"}

Curve = tuple[str, list[int], list[float]]


def curves(run: Recording) -> list[Curve]:
    """Return titles, steps and finite values of a run's loss, scores and quantities of batches."""
    losses = list(run.losses) or [""]
    series = [("Loss", TRAIN, BATCH_LOSS)] if "" in losses else []
    for dataset in losses:
        group = of_dataset(DIAGNOSTICS, dataset)
        title = f" ({dataset})" if dataset else ""
        for name, words in QUANTITIES.items():
            recorded = run.history.recorded_as(group, name)
            words = words if recorded == name else readable(recorded)
            series.append((words + title, group, name))
    series += [(score.title, EVALUATION, score.name) for score in run.history.scores()[:1]]
    drawn = []
    for title, group, name in series:
        pairs = zip(*run.history.series(group, name), strict=True)
        finite = [(step, height) for step, height in pairs if math.isfinite(height)]
        if finite:
            drawn.append((title, [step for step, _ in finite], [height for _, height in finite]))
    return drawn


def as_cost(records: int, seconds: float, elapsed: float, folder: Path) -> str:
    """Return how many records a watch has made, what they cost, and how to see them."""
    share = seconds / max(elapsed, 1e-9)
    return (
        f"gradlab: {counted(records, 'record')} in {seconds:.2g} s, {share:.1%} of the run; "
        f"see them with: gradlab report {folder}"
    )


def as_line(run: Recording, judgement: Judgement | None) -> str:
    """Return what is watched, how far the recording is, and the headline of its judgement."""
    loss = run.settings.get("loss", "no loss")
    steps = f"last record at step {run.history.last_step()}" if judgement else "no record yet"
    total = f" of {run.history.total_steps}" if judgement and run.history.total_steps else ""
    state = run.status or "not begun"
    verdict = f" {GRADES[judgement.grade]} {judgement.headline}" if judgement else ""
    return f"Watch of {loss} in {run.folder}: {state}, {steps}{total}.{verdict}"


def as_html(run: Recording, judgement: Judgement | None) -> str:
    """Return the state, the headline and small curves as HTML without scripts."""
    if judgement is None:
        return f"<p>{escape(as_line(run, None))}</p>"
    colour = COLOURS[judgement.grade]
    cells = [
        f'<tr><td style="text-align:left">{escape(title)}</td><td>{short(heights[0])}</td>'
        f"<td>{_line(steps, heights)}</td><td>{short(heights[-1])}</td></tr>"
        for title, steps, heights in curves(run)
    ]
    return (
        f'<div><p style="margin:0">{escape(as_line(run, None).partition(":")[0])}: '
        f"{escape(run.status)}, step {run.history.last_step()}</p>"
        # White on the grade's colour, and all else in the notebook's own colours: dark ones too.
        f'<p style="margin:0"><b style="color:#fff;background:{colour};padding:0 4px">'
        f"{escape(judgement.grade)}</b> {escape(judgement.headline)}</p>"
        "<table><thead><tr><th></th><th>first</th><th></th>"
        f"<th>last</th></tr></thead><tbody>{''.join(cells)}</tbody></table></div>"
    )


def as_markdown(run: Recording, judgement: Judgement, *, whole: bool = False) -> str:
    """Return the verdicts as a Markdown table; a ``whole`` summary has curves and settings too."""
    lines = [f"**{judgement.grade}**: {_plain(judgement.headline)}", ""]
    lines += ["| question | grade | finding |", "|---|---|---|"]
    lines += [
        f"| {_plain(verdict.title)} | {verdict.grade} | {_plain(verdict.finding)} |"
        for verdict in judgement.verdicts
    ]
    if whole:
        lines += ["", "| quantity | first | course | last |", "|---|--:|:-:|--:|"]
        lines += [
            f"| {_plain(title)} | {short(heights[0])} | {sparkline(heights)} | "
            f"{short(heights[-1])} |"
            for title, _, heights in curves(run)
        ]
        settings = {**run.settings, "gradlab": __version__}
        lines += ["", "| setting | value |", "|---|---|"]
        lines += [f"| {_plain(name)} | {_plain(text)} |" for name, text in settings.items()]
    return "\n".join(lines)


def sparkline(heights: Sequence[float]) -> str:
    """Return a curve of finite heights as at most `MOST_BLOCKS` characters, from low to high."""
    size = math.ceil(len(heights) / MOST_BLOCKS)
    pieces = [heights[start : start + size] for start in range(0, len(heights), size)]
    means = [sum(piece) / len(piece) for piece in pieces]
    low, high = min(means), max(means)
    if high == low:
        return BLOCKS[len(BLOCKS) // 2] * len(means)
    top = len(BLOCKS) - 1
    return "".join(BLOCKS[round((mean - low) / (high - low) * top)] for mean in means)


def _line(steps: Sequence[int], heights: Sequence[float]) -> str:
    """Return a curve as SVG."""
    low, high = min(heights), max(heights)
    across = (WIDTH - 4) / max(steps[-1] - steps[0], 1)
    upwards = (HEIGHT - 4) / ((high - low) or 1.0)
    points = " ".join(
        f"{2 + (step - steps[0]) * across:.1f},{HEIGHT - 2 - (height - low) * upwards:.1f}"
        for step, height in zip(steps, heights, strict=True)
    )
    shape = f'<polyline points="{points}" fill="none" stroke="currentColor" stroke-width="1.5"/>'
    if len(steps) == 1:
        shape = f'<circle cx="2" cy="{HEIGHT - 2}" r="2" fill="currentColor"/>'
    return f'<svg width="{WIDTH}" height="{HEIGHT}" role="img">{shape}</svg>'


def _plain(text: str) -> str:
    """Return text for a cell of a Markdown table."""
    return " ".join(text.replace("|", "\\|").split())
