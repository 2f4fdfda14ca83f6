"""The pictures of the front page and of the essays, computed by gradlab.

python docs/draw.py            # all, into docs/pictures
python docs/draw.py hubs       # one
"""

from __future__ import annotations

import io
import sys
import textwrap
import tomllib
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from PIL import Image

import gradlab
from gradlab.flow import synthetic_batch
from gradlab.gradient.statistics import gini
from gradlab.plotting.colours import ANCHOR, COLORS, NEGATIVE, POSITIVE
from gradlab.plotting.narrow import save_narrow
from gradlab.plotting.style import empty_figure, save, style
from gradlab.simulation.sphere import sample_views

FOLDER = Path(__file__).parent / "pictures"
STEPS = 44


def write(figure: Figure, name: str) -> None:
    """Write a picture, and its copy for narrow screens."""
    save_narrow(figure, save(figure, FOLDER / f"{name}.png"))


def placed(anchor: np.ndarray, angle: float, around: float) -> np.ndarray:
    """The point of the sphere at an angle from the anchor, in a direction around it."""
    side = np.cross(anchor, [0.0, 1.0, 0.0])
    side /= np.linalg.norm(side)
    tangent = np.cos(around) * side + np.sin(around) * np.cross(side, anchor)
    return np.cos(angle) * anchor + np.sin(angle) * tangent


def scene() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """An anchor, its positive and nine negatives, one of them closer to it than the positive."""
    anchor = np.array([-0.05, 0.05, 1.0])
    anchor /= np.linalg.norm(anchor)
    angles = [0.34, 0.75, 0.8, 0.9, 0.95, 1.05, 1.1, 1.2, 1.2]
    around = [2.7, 4.9, 3.4, 2.0, 4.2, 5.4, 2.7, 1.4, 3.9]
    negatives = [placed(anchor, *place) for place in zip(angles, around, strict=True)]
    return anchor, placed(anchor, 0.62, 0.2), np.array(negatives)


def descent(loss: str) -> list[tuple[np.ndarray, gradlab.Components]]:
    """The anchor's flow at times that are even in log time, with the components there."""
    anchor, positive, negatives = scene()
    views = {"anchors": anchor[None], "positives": positive[None], "extra_negatives": negatives}
    ended = gradlab.flow(loss, **views, side="anchors", in_batch_negatives=False)
    assert ended.end == "at rest"
    way = np.array([rows[0] for rows in ended.path[1:]])
    logs = np.log(ended.curves["time"][1:])
    moving = logs > logs[np.argmax(way @ anchor < np.cos(0.01))]
    still = logs > logs[np.argmax(way @ way[-1] > np.cos(0.002))]
    moments = np.linspace(logs[moving][0], logs[still][0], STEPS)
    points = np.stack([np.interp(moments, logs, column) for column in way.T], axis=1)
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    path = []
    for point in points:
        parts = gradlab.components(
            loss, point[None], positive[None], negatives, in_batch_negatives=False
        )
        path.append((point, parts))
    return path


def draw_sphere(ax: Axes, path: list[tuple[np.ndarray, gradlab.Components]], step: int) -> None:
    """The sphere from the front: the anchor's way so far, and its pull and pushes at this step."""
    _, positive, negatives = scene()
    anchor, parts = path[step]
    turn = np.linspace(0, 2 * np.pi, 200)
    ax.fill(np.cos(turn), np.sin(turn), color="#f4f6f8", ec="#c9ced4", lw=1)
    for height in (-0.6, 0.0, 0.6):
        radius = np.sqrt(1 - height**2)
        ax.plot(
            radius * np.cos(turn), height + 0.12 * radius * np.sin(turn), color="#dde1e6", lw=0.6
        )
    share = parts.weight[0] / parts.weight[0].sum()
    alive = float(parts.gradient_dissipation[0])
    lines = [
        (point, NEGATIVE, 9 * part, 0.55) for point, part in zip(negatives, share, strict=True)
    ]
    for point, color, width, alpha in [*lines, (positive, POSITIVE, 4.5, 0.75)]:
        look = {"color": color, "lw": width * alive, "alpha": alpha, "solid_capstyle": "round"}
        ax.plot(*zip(anchor[:2], point[:2], strict=True), **look)
    way = np.array([place for place, _ in path[: step + 1]])
    ax.plot(way[:, 0], way[:, 1], color="#000000", lw=1.2, ls=":")
    ax.scatter(*negatives[:, :2].T, s=42, color=NEGATIVE, ec="white", lw=0.8, zorder=3)
    ax.scatter(*positive[:2], s=64, color=POSITIVE, ec="white", lw=0.8, zorder=3)
    ax.scatter(*anchor[:2], s=76, color=ANCHOR, ec="white", lw=0.8, zorder=4)
    ax.set(xlim=(-1.03, 1.03), ylim=(-1.03, 1.03), aspect="equal")
    ax.axis("off")


def sphere_frame(
    paths: dict[str, list[tuple[np.ndarray, gradlab.Components]]], step: int, wide: bool = True
) -> Figure:
    """Two losses side by side at one step, with the dissipation until then below."""
    figure = empty_figure((7.2, 4.7) if wide else (3.6, 3.2))
    top, bottom = figure.subplots(2, len(paths), height_ratios=(3.6, 1))
    for (title, path), ball, curve in zip(paths.items(), top, bottom, strict=True):
        draw_sphere(ball, path, step)
        heading = title if wide else textwrap.fill(title.replace("\n", " "), 25)
        ball.set_title(heading, fontsize=9.5 if wide else 8.8)
        alive = [float(parts.gradient_dissipation[0]) for _, parts in path]
        curve.fill_between(range(step + 1), alive[: step + 1], color=COLORS[0], alpha=0.15, lw=0)
        curve.plot(range(step + 1), alive[: step + 1], color=COLORS[0])
        curve.set(xlim=(0, STEPS - 1), xticks=(), xlabel="time, logarithmic")
        curve.set(ylim=(0, 1.05), yticks=(0, 1))
    bottom[0].set_ylabel("dissipation")
    return figure


def sphere() -> None:
    """The animation of the front page, and its last frame as a still."""
    titles = {
        0.05: "Temperature 0.05: the nearest negative\nacts almost alone, until the force is gone",
        0.5: "Temperature 0.5: all push; the anchor passes\nits positive and rests 31° beyond it",
    }
    paths = {title: descent(f"infonce(temperature={value})") for value, title in titles.items()}
    for wide, name in ((True, "sphere"), (False, "sphere-narrow")):
        write_film(paths, wide, FOLDER / f"{name}.gif")
        save(sphere_frame(paths, STEPS // 4, wide), FOLDER / f"{name}.png")


def write_film(
    paths: dict[str, list[tuple[np.ndarray, gradlab.Components]]], wide: bool, path: Path
) -> None:
    """The frames of all steps as an animation; a narrow one has more pixels an inch."""
    frames = []
    for step in range(STEPS):
        memory = io.BytesIO()
        sphere_frame(paths, step, wide).savefig(memory, dpi=100 if wide else 180)
        frames.append(Image.open(memory).convert("RGB"))
    palette = Image.fromarray(np.vstack([frames[0], frames[STEPS // 3], frames[-1]])).quantize(
        128, Image.Quantize.MAXCOVERAGE
    )
    small = [frame.quantize(palette=palette, dither=Image.Dither.NONE) for frame in frames]
    times = [900] + [90] * (STEPS - 2) + [2500]
    film = {"save_all": True, "append_images": small[1:], "duration": times, "loop": 3}
    small[0].save(path, optimize=True, **film)


def one_anchor() -> None:
    """The three components of four losses while the negatives move away: when, which, how hard."""
    losses = {"InfoNCE": "infonce", "MPT": "mpt", "DCL": "dcl", "SigLIP": "siglip"}
    angles = np.radians(np.linspace(20, 100, 161))
    anchor = np.array([1.0, 0, 0])
    positive = np.array([np.cos(np.pi / 6), np.sin(np.pi / 6), 0])
    spread = np.radians(np.linspace(-10, 10, 11))
    figure = empty_figure((7.2, 2.6))
    axes = figure.subplots(1, 3)
    for name, loss in losses.items():
        rows = []
        for angle in angles:
            turn = np.linspace(0, 2 * np.pi, 11, endpoint=False)
            tilt = angle + spread
            negatives = np.stack(
                [np.cos(tilt), np.sin(tilt) * np.cos(turn), np.sin(tilt) * np.sin(turn)], axis=1
            )
            parts = gradlab.components(
                loss, anchor[None], positive[None], negatives, in_batch_negatives=False
            )
            rows.append((parts.gradient_dissipation[0], parts.hardest_share[0], parts.ratio[0]))
        shown = np.array(rows, dtype=float)
        shown[:, 0] /= shown[0, 0]
        style_of = {"DCL": "--", "SigLIP": "-."}.get(name, "-")
        for ax, values in zip(axes, shown.T, strict=True):
            ax.plot(np.degrees(angles), values, style_of, label=name)
    titles = {"Dissipation: when?": 1.05, "Hardest share: which?": 1.05, "Ratio: how hard?": 3}
    for ax, (title, top) in zip(axes, titles.items(), strict=True):
        ax.set(title=title, ylim=(0, top), xlabel="mean angle of the negatives (°)")
        ax.axvline(30, color="#999999", lw=0.8, ls=":")
    axes[0].legend()
    write(figure, "one-anchor")


def temperature() -> None:
    """What a temperature sets: where an anchor stops, and how many negatives share the push."""
    figure = empty_figure((7.2, 2.9))
    left, right = figure.subplots(1, 2)
    angles = np.radians(np.linspace(30, 120, 181))
    for value, color in zip((0.02, 0.05, 0.1, 0.2), COLORS, strict=False):
        result = gradlab.simulate(
            f"infonce(temperature={value})", mu_pos=[np.pi / 6], mu_neg=angles
        )
        left.plot(np.degrees(angles), result.value[0], color=color, label=f"τ = {value}")
    left.set(title="When: the anchor stops", ylabel="dissipation", ylim=(0, 1.05))
    left.set_xlabel("mean angle of 127 negatives (°)")
    left.legend()
    values = np.geomspace(0.01, 1, 40)
    views = sample_views(np.pi / 6, np.pi / 3, batch_size=128, dim=128, sigma_neg=0.1, seed=0)
    shares = []
    for value in values:
        weight = gradlab.components(
            f"infonce(temperature={value})", views.anchors[0], views.positives[0]
        ).weight
        share = weight / weight.sum(axis=1, keepdims=True)
        entropy = -(share * np.log(np.where(share > 0, share, 1))).sum(axis=1)
        shares.append(np.exp(entropy).mean())
    right.loglog(values, shares, color=COLORS[1])
    right.set(title="Which: negatives that share the push", xlabel="temperature τ")
    right.set_ylabel("effective negatives, of 127")
    right.set_yticks((1, 10, 127), ("1", "10", "127"))
    write(figure, "temperature")


def dilemma() -> None:
    """Where InfoNCE leads at each temperature: sentences on one topic, and different ones."""
    batch = synthetic_batch()
    values = np.geomspace(0.01, 1, 13)
    curves = ("same_group_cosine", "different_cosine")
    start, ends = {}, []
    for value in values:
        ended = gradlab.flow(
            f"infonce(temperature={value})", batch.anchors, batch.positives, groups=batch.topics
        )
        start = {name: ended.curves[name][0] for name in curves}
        ends.append([ended.last[name] for name in curves])
        print(f"{value:.3f} {ended.end}", *(round(number, 3) for number in ends[-1]))
    figure = empty_figure((7.2, 2.9))
    left, right = figure.subplots(1, 2)
    labels = ("same topic", "different topics")
    for label, name, curve, color in zip(labels, curves, np.transpose(ends), COLORS, strict=False):
        left.semilogx(values, curve, "o-", ms=3, color=color, label=label)
        left.axhline(start[name], color=color, lw=0.8, ls=":")
    left.set(title="Where the loss leads", xlabel="temperature τ", ylabel="mean cosine at the end")
    left.legend()
    together, apart = np.transpose(ends)
    right.plot(apart, together, "-", color="#999999", lw=1)
    right.scatter(apart, together, c=np.log(values), cmap="viridis", s=22, zorder=3)
    for at in (0, 3, 4, 5, 6):
        right.annotate(
            f"τ = {values[at]:.2g}",
            (apart[at], together[at]),
            fontsize=7,
            xytext=(5, -3),
            textcoords="offset points",
        )
    right.set(title="The dilemma", xlabel="cosine of different topics\n(uniformity: low)")
    right.set_ylabel("cosine within a topic\n(tolerance: high)")
    write(figure, "dilemma")


def hubs() -> None:
    """What each sentence of a batch receives as an anchor, and as a negative of the others."""
    rng = np.random.default_rng(0)
    size = 64
    sentences = rng.normal(size=(size, 64)) + 0.5 * rng.normal(size=64)
    middle = sentences.mean(axis=0)
    # Four sentences without much content of their own.
    sentences[:4] = 0.45 * sentences[:4] + 1.6 * middle
    anchors, positives = (sentences + 0.3 * rng.normal(size=sentences.shape) for _ in range(2))
    anchors, positives = (
        view / np.linalg.norm(view, axis=1, keepdims=True) for view in (anchors, positives)
    )
    own, others = gradlab.components("infonce(temperature=0.1)", anchors, positives, side="both")
    sent = own.gradient_dissipation * own.weight.sum(axis=1)
    received = others.gradient_dissipation * others.weight.sum(axis=1)
    order = np.argsort(-received)
    figure = empty_figure((7.2, 2.9))
    colors = [NEGATIVE if i < 4 else "#9fb4c7" for i in order]
    pushes = {"As an anchor": sent, "As a negative of the others": received}
    panels = figure.subplots(1, 2, sharey=True)
    for ax, (title, push) in zip(panels, pushes.items(), strict=True):
        ax.bar(range(size), push[order] / push.mean(), width=1, color=colors)
        ax.axhline(1, color="black", lw=0.8, ls=":")
        ax.set(title=f"{title} (Gini {gini(push):.2f})", xticks=())
        ax.set_xlabel("64 sentences, the same order")
    figure.axes[0].set_ylabel("push on the sentence,\nas a multiple of the mean")
    write(figure, "hubs")


def batch() -> None:
    """Rows and columns of a batch: what one anchor is compared with, and what a block is."""
    for wide, name in ((True, "batch"), (False, "batch-narrow")):
        figure = empty_figure((7.2, 3.0) if wide else (3.6, 2.6))
        ax = figure.subplots()
        draw_blocks(ax, wide)
        rows, key = (21.4, 5.0), (21.4, 7.4)
        if not wide:
            rows, key = (0.0, -1.6), (0.0, -3.8)
        ax.text(*rows, "batch.rows(2, 4):\ntwo anchors, all columns", va="center")
        text = "green: an anchor's positive\nhatched: itself, never a negative"
        ax.text(*key, text, va="center", fontsize=8, color="#444444")
        ax.set(
            xlim=(-1.4, 28.5 if wide else 21.2), ylim=(-0.3 if wide else -5, 9.4 if wide else 11)
        )
        ax.set_aspect("equal")
        ax.axis("off")
        save(figure, FOLDER / f"{name}.png")


def draw_blocks(ax: Axes, wide: bool) -> None:
    """The kinds of columns, the positive of each anchor, and two anchors' rows."""
    blocks = [
        ("positives h'", 8, "#dbe8f3"),
        ("anchors h (own view)", 8, "#eaf1e4"),
        ("extra negatives", 4, "#f7e8dc"),
    ]
    left = 0.0
    for name, width, color in blocks:
        ax.add_patch(Rectangle((left, 0), width, 8, fc=color, ec="white", lw=2))
        label = name if wide else textwrap.fill(name, 12)
        ax.text(left + width / 2, 8.35, label, ha="center", va="bottom")
        left += width + 0.5
    for i in range(8):
        ax.add_patch(Rectangle((i, 7 - i), 1, 1, fc=POSITIVE, ec="white"))
        ax.add_patch(Rectangle((8.5 + i, 7 - i), 1, 1, fc="white", ec="#cccccc", hatch="////"))
    ax.add_patch(Rectangle((-0.08, 4), 21.16, 2, fill=False, ec=ANCHOR, lw=2))
    ax.text(-0.4, 4, "anchors h", rotation=90, ha="right", va="center")


FLOORS = [
    ("data, batch", "files and tokens; rows against columns", "#dbe8f3"),
    ("losses", "values and components, one file a loss", "#dbe8f3"),
    ("gradient, simulation, decomposition", "what a loss does to a batch", "#dbe8f3"),
    ("scale", "large batches: blocks, processes", "#eaf1e4"),
    ("encoder, evaluate, monitor, train, sweep", "models, scores, records, training", "#eaf1e4"),
    ("plotting, figures, flow, atlas, explorer, report", "pictures and pages", "#f7e8dc"),
    ("inspection, diagnosis", "your sentences; what is wrong", "#f7e8dc"),
    ("cli, integrations", "commands; sentence-transformers", "#f7e8dc"),
]


def house() -> None:
    """The rooms of the package, floor by floor: each may use those below it in the picture."""
    for wide, name in ((True, "house"), (False, "house-narrow")):
        figure = empty_figure((7.2, 3.4) if wide else (3.6, 4.4))
        ax = figure.subplots()
        draw_floors(ax, wide)
        ax.text(7, len(FLOORS) + 0.35, "gradlab", ha="center", va="center", fontsize=10)
        studies = "studies\nexperiments, with\npublic names only"
        if wide:
            ax.add_patch(Rectangle((15, 0), 4.6, 2.92, fc="#eeeeee", ec="white"))
            ax.text(17.3, 1.46, studies, ha="center", va="center", fontsize=8)
        else:
            ax.add_patch(Rectangle((0, -1.2), 14, 0.92, fc="#eeeeee", ec="white"))
            ax.text(0.25, -0.74, studies.replace("\nexp", ": exp").replace("\n", " "), va="center")
        ax.set(
            xlim=(-0.5, 19.8 if wide else 14.5), ylim=(-0.1 if wide else -1.3, len(FLOORS) + 1.2)
        )
        ax.axis("off")
        save(figure, FOLDER / f"{name}.png")


def draw_floors(ax: Axes, wide: bool) -> None:
    """A floor for each row of rooms, with what they answer beside or below their names."""
    names = {"va": "center", "family": "monospace", "fontsize": 8.5 if wide else 7.2}
    for i, (rooms, what, color) in enumerate(FLOORS):
        ax.add_patch(Rectangle((0, i), 14, 0.92, fc=color, ec="white"))
        ax.text(0.25, i + (0.46 if wide else 0.68), rooms, **names)
        place = (13.75, i + 0.46) if wide else (0.25, i + 0.26)
        look = {"va": "center", "ha": "right" if wide else "left"}
        ax.text(*place, what, fontsize=8, color="#444444", **look)
    ax.fill([-0.4, 7, 14.4], [len(FLOORS), len(FLOORS) + 1.1, len(FLOORS)], color="#c9ced4")


BADGE = """<svg xmlns="http://www.w3.org/2000/svg" width="{whole}" height="20" role="img" \
aria-label="{left}: {right}">
<clipPath id="r"><rect width="{whole}" height="20" rx="3"/></clipPath>
<g clip-path="url(#r)"><rect width="{first}" height="20" fill="#555"/>\
<rect x="{first}" width="{second}" height="20" fill="#0072B2"/></g>
<g fill="#fff" font-family="Verdana,DejaVu Sans,sans-serif" font-size="11" text-anchor="middle">
<text x="{at_first}" y="14">{left}</text><text x="{at_second}" y="14">{right}</text></g></svg>
"""


def badges() -> None:
    """The README's badges, from what `pyproject.toml` says."""
    project = tomllib.loads((FOLDER.parents[1] / "pyproject.toml").read_text(encoding="utf-8"))[
        "project"
    ]
    torch = next(text for text in project["dependencies"] if text.startswith("torch>="))
    texts = {
        "python": project["requires-python"].removeprefix(">=") + " or newer",
        "pytorch": torch.removeprefix("torch>=") + " or newer",
        "licence": project["license"],
        "tests": "bash .ci/run",
    }
    for left, right in texts.items():
        first, second = (7 * len(text) + 12 for text in (left, right))
        whole, at_first, at_second = first + second, first / 2, first + second / 2
        text = BADGE.format(**locals())
        (FOLDER / f"badge-{left}.svg").write_text(text, encoding="utf-8")


PICTURES = {
    f.__name__.replace("_", "-"): f
    for f in (sphere, one_anchor, temperature, dilemma, hubs, batch, house, badges)
}

if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    with style():
        for name in sys.argv[1:] or PICTURES:
            PICTURES[name]()
