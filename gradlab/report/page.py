"""The report: one HTML page that needs nothing but itself."""

from __future__ import annotations

import html
import math
import string
from collections.abc import Sequence
from importlib import resources

from gradlab._version import __version__
from gradlab.gradient.diagnostics import BINS
from gradlab.monitor.finding import Finding
from gradlab.monitor.findings import judged
from gradlab.monitor.history import DIAGNOSTICS, History
from gradlab.monitor.recording import Recording
from gradlab.report.charts import Series, histogram_chart, line_chart
from gradlab.report.numbers import percent, short
from gradlab.report.words import aspects

# title, hint, ((name, label), ...), reference (name, label) or (value, label), low, high
CHARTS: tuple[tuple[str, str, tuple[tuple[str, str], ...], tuple[str | float, str] | None, float | None, float | None], ...] = (
    ("Gradient dissipation", "1: the anchor learns at full strength; 0: it is left alone.",
     (("gradient_dissipation", "mean"), ("active", "share of anchors that learn")), None, 0, 1),
    ("Share of the hardest negative", "How much of the push comes from the one negative that is most similar.",
     (("hardest_share", "hardest"),), ("uniform_share", "all equal"), 0, 1),
    ("Ratio", "Pull on the positive over push from the negatives, of anchors that learn.",
     (("ratio_median", "median"), ("ratio", "mean")), (1.0, "equal"), None, None),
    ("Lemma 1", "Share of triples whose ratio is large enough to bring the anchor closer to its positive.",
     (("lemma_share", "satisfied"),), None, 0, 1),
    ("Cosines", "Two views of a sentence, and different sentences.",
     (("positive_cosine", "positives"), ("negative_cosine", "negatives")), None, 0, 1),
    ("Alignment", "Mean squared distance of positives; smaller is closer.",
     (("alignment", "alignment"),), None, 0, None),
    ("Uniformity", "Smaller is more evenly spread over the sphere.",
     (("uniformity", "uniformity"),), None, None, 0),
    ("Effective rank", "Dimensions that the embeddings of a batch make use of.",
     (("effective_rank", "effective rank"),), None, 0, None),
)  # fmt: skip
TITLES = {
    "gradient_dissipation": ("Gradient dissipation", "Over the anchors of a batch."),
    "hardest_share": ("Share of the hardest negative", "Over the anchors that learn."),
    "ratio": ("Ratio", "Over the anchors that learn; from 3 on in the last bar."),
    "positive_cosine": ("Cosine of positives", "Two views of a sentence."),
    "negative_cosine": ("Cosine of negatives", "Different sentences."),
}


def render(run: Recording) -> str:
    """The page of a run, as HTML."""
    found = run.findings
    sections = [
        _verdict(run, found),
        _section("What it shows", _aspects(run.history, found), "words"),
        '<p class="hint">In the curves, steps run from left to right. Touch a curve to read its values.</p>',
        _section("Loss and scores", _training(run.history)),
        _section("Gradient and embeddings", _diagnostics(run.history)),
        _section("Distributions, at first and at last", _distributions(run.history)),
        _more(run.history),
        _table("Settings", run.settings),
        _table("Versions", {name: str(text) for name, text in run.manifest.get("versions", {}).items()}),
    ]
    template = string.Template(_resource("page.html"))
    return template.substitute(
        title=html.escape(run.name),
        facts=html.escape(_facts(run)),
        version=__version__,
        css=_resource("page.css").rstrip(),
        js=_resource("page.js").rstrip(),
        body="\n".join(section for section in sections if section),
    )


def _resource(name: str) -> str:
    return (resources.files("gradlab.report") / name).read_text(encoding="utf-8")


def _facts(run: Recording) -> str:
    settings, history = run.settings, run.history
    steps = f"step {history.last_step()}"
    if history.total_steps:
        steps += f" of {history.total_steps}"
    status = run.manifest.get("status", "")
    parts = [
        f"loss {settings['loss']}" if "loss" in settings else "",
        settings.get("model", ""),
        steps,
        {"running": "not finished", "finished": "finished"}.get(str(status), ""),
    ]
    return " · ".join(part for part in parts if part)


def _verdict(run: Recording, found: Sequence[Finding]) -> str:
    subjects = judged(run.history)
    if found:
        title = "1 known failure" if len(found) == 1 else f"{len(found)} known failures"
        points = "".join(
            f"<p><b>{html.escape(one.headline)}</b> {html.escape(one.advice)} <span class='note'>(since step {one.step})</span></p>"
            for one in found
        )
        text = f'<div class="verdict bad"><p><strong>{title}</strong></p>{points}</div>'
    elif "learning" in subjects:
        sound = f"{_listed(subjects).capitalize()} look{'' if len(subjects) > 1 else 's'} sound."
        text = f'<div class="verdict good"><strong>No known failure seen.</strong> {sound}</div>'
    elif subjects:
        text = '<div class="verdict good">The loss\'s gradient was not recorded, so that only the embeddings are judged. <strong>They have not collapsed.</strong></div>'
    else:
        text = '<div class="verdict">Nothing was recorded that known failures are told from.</div>'
    notes = "".join(f'<p class="note">{html.escape(note)}</p>' for note in [*run.notes, *_cost(run)])
    return text + notes


def _listed(words: Sequence[str]) -> str:
    """``"a, b and c"``."""
    return " and ".join(part for part in (", ".join(words[:-1]), words[-1]) if part)


def _cost(run: Recording) -> list[str]:
    results = run.manifest.get("results", {})
    seconds, whole = results.get("seconds"), results.get("run_seconds")
    if run.manifest.get("kind") != "watched run" or not seconds or not whole:
        return []
    return [f"Watching took {short(seconds)} s, {percent(seconds / whole)} of the run."]


def _aspects(history: History, found: list[Finding]) -> str:
    return "".join(
        f'<div class="card{" failing" if one.failing else ""}"><h3>{html.escape(one.title)}</h3><p>{html.escape(one.text)}</p></div>'
        for one in aspects(history, found)
    )


def _training(history: History) -> str:
    cards = []
    loss = [
        Series(label, *history.series("train", name))
        for name, label in (("loss", "loss, averaged"), ("batch_loss", "loss of the recorded batches"))
        if history.series("train", name)[0]
    ]
    if loss:
        # The logged loss says the same in more points.
        cards.append(_card("Training loss", "", line_chart("Training loss", loss[:1])))
    for name in history.names("evaluation"):
        if not name.endswith(("runtime", "per_second")):
            title = name.removeprefix("eval_").replace("_", " ")
            chart = line_chart(title, [Series(title, *history.series("evaluation", name))])
            cards.append(_card(title[:1].upper() + title[1:], "Evaluation.", chart))
    return "".join(cards)


def _diagnostics(history: History) -> str:
    groups = [group for group in history.groups() if group.startswith(DIAGNOSTICS)]
    cards = []
    for title, hint, names, reference, low, high in CHARTS:
        for some in _in_threes([(group, name, label) for name, label in names for group in groups]):
            series = []
            for group, name, label in some:
                suffix = group.removeprefix(DIAGNOSTICS).strip()
                points = _finite(*history.series(group, name))
                if points[0]:
                    series.append(Series(f"{label}, {suffix}" if suffix else label, *points))
            if series:
                series += _reference(history, groups, series[0], reference)
                cards.append(_card(title, hint, line_chart(title, series, low, high)))
    return "".join(cards)


def _reference(
    history: History, groups: Sequence[str], first: Series, reference: tuple[str | float, str] | None
) -> list[Series]:
    if reference is None:
        return []
    what, label = reference
    if isinstance(what, str):
        steps, values = history.series(groups[0], what)
        return [Series(label, steps, values, True)] if steps else []
    return [Series(label, [first.steps[0], first.steps[-1]], [what, what], True)]


def _distributions(history: History) -> str:
    cards = []
    for name, (title, hint) in TITLES.items():
        found = history.histograms(name)
        if found:
            first, last = min(found), max(found)
            shown = {f"step {step}": found[step] for step in dict.fromkeys((first, last))}
            cards.append(_card(title, hint, histogram_chart(title, shown, *BINS[name])))
    return "".join(cards)


def _more(history: History) -> str:
    """Charts of whatever else was recorded."""
    shown = {name for chart in CHARTS for name, _ in chart[2]} | {"uniform_share", "loss", "batch_loss"}
    cards = []
    for group in history.groups():
        for name in history.names(group):
            if name in shown or (group == "evaluation" and not name.endswith(("runtime", "per_second"))):
                continue
            title = f"{name.replace('_', ' ')} ({group})"
            cards.append(_card(title, "", line_chart(title, [Series(name, *history.series(group, name))])))
    return (
        f'<details><summary>More curves</summary><div class="grid">{"".join(cards)}</div></details>'
        if cards
        else ""
    )


def _card(title: str, hint: str, content: str) -> str:
    words = f'<p class="hint">{html.escape(hint)}</p>' if hint else ""
    return f'<figure class="card"><h3>{html.escape(title)}</h3>{words}{content}</figure>'


def _section(title: str, cards: str, kind: str = "charts") -> str:
    if not cards:
        return ""
    return f'<section class="{kind}"><h2>{html.escape(title)}</h2><div class="grid">{cards}</div></section>'


def _table(title: str, rows: dict[str, str]) -> str:
    if not rows:
        return ""
    lines = "".join(f"<tr><td>{html.escape(k)}</td><td>{html.escape(v)}</td></tr>" for k, v in rows.items())
    return f"<section><h2>{title}</h2><table>{lines}</table></section>"


def _finite(steps: Sequence[int], values: Sequence[float]) -> tuple[list[int], list[float]]:
    points = [(s, v) for s, v in zip(steps, values, strict=True) if math.isfinite(v)]
    return [s for s, _ in points], [v for _, v in points]


def _in_threes(items: Sequence[tuple[str, str, str]]) -> list[Sequence[tuple[str, str, str]]]:
    return [items[start : start + 3] for start in range(0, len(items), 3)]
