"""The same figure for a narrow screen: panels below each other, and names above their rows."""

from __future__ import annotations

import io
import itertools
import re
import textwrap
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.legend import Legend
from matplotlib.transforms import ScaledTranslation
from PIL import Image

from gradlab.files import atomic_path
from gradlab.plotting.style import style, wrapped

WIDTH = 3.5  # inches; on a screen of 390 pixels, 8 points then are 11 pixels
ROW = 0.36  # inches of a row with its name above it
# Characters of a name from which it does not fit beside its row.
LONG = 17
# Panels up to which one column holds them.
MOST_IN_COLUMN = 4
# Characters of a name that fit into a line of its own.
LINE = 54
LETTER = 0.075  # mean width of a letter in inches, at 9 points
SMALL, SMALL_LETTER = 8, 0.068  # points, and inches of a letter, where a text does not fit
OVERHANG = 0.2  # inches by which a title may be wider than its panel
POINTS = 72
GAP = 5  # pixels of a figure's screen between two words below an axis
# A formula of a label, and the letter that stands for it while lines are counted.
FORMULA, PLACE = re.compile(r"\$[^$]*\$"), "\ue000"


def restack(figure: Figure) -> Figure:
    """Lay the panels of a figure out anew for a narrow screen, and return the figure.

    Up to four panels stand below each other, more in two columns. A panel repeats titles and labels
    that it shared with its neighbours. Long names of rows stand above their rows.
    """
    figure.draw_without_rendering()
    panels = [ax for ax in figure.axes if ax.get_subplotspec() and not hasattr(ax, "_colorbar")]
    long_name_panels = [ax for ax in panels if _has_long_names(ax)]
    heights = [
        ROW * len(ax.get_yticks()) if ax in long_name_panels else _height(ax) for ax in panels
    ]
    if not any(_is_beside(ax, neighbour) for ax in long_name_panels for neighbour in panels):
        _repeat_labels(figure, panels)
        _place(figure, panels)
    for ax in long_name_panels:
        _name_above(ax)
    extra = (
        _shorten_titles(figure, panels) + _lay_legends(figure, panels) + _lay_bars(figure, panels)
    )
    figure.set_size_inches(WIDTH, _total(panels, heights) + extra)
    figure.draw_without_rendering()
    for ax in panels:
        if len(_plain(ax.get_ylabel())) * LETTER > ax.get_window_extent().height / figure.dpi:
            ax.set_ylabel(wrapped(ax.get_ylabel().replace("\n", " "), ax))
    figure.draw_without_rendering()
    for ax in panels:
        _thin_ticks(ax)
    _keep_inside(figure, panels)
    return figure


def save_narrow(figure: Figure, path: Path) -> Path:
    """Lay a figure out for a narrow screen, and write it beside the picture at ``path``."""
    with style():
        return write_narrow(restack(figure), path)


def write_narrow(figure: Figure, path: Path) -> Path:
    """Write a figure as ``NAME-narrow.png`` beside ``path``, in few colours."""
    narrow, png_buffer = path.with_name(f"{path.stem}-narrow.png"), io.BytesIO()
    figure.savefig(png_buffer, format="png", dpi=220)
    with atomic_path(narrow) as temporary:
        colors = (
            Image.open(png_buffer)
            .convert("RGB")
            .quantize(256, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
        )
        colors.save(temporary, format="png", optimize=True)
    return narrow


def _place_of(ax: Axes) -> tuple[int, int]:
    """Row and column of a panel."""
    spec = ax.get_subplotspec()
    assert spec is not None
    return spec.rowspan.start, spec.colspan.start


def _height(ax: Axes) -> float:
    """Height in inches that keeps the shape of a panel, within what a screen holds."""
    box = ax.get_window_extent()
    return float(min(max(2.7 * box.height / box.width, 1.5), 2.7))


def _plain(label: str) -> str:
    """Return a label with a letter for each formula."""
    return FORMULA.sub(PLACE, label)


def _total(panels: list[Axes], heights: list[float]) -> float:
    """Inches of all rows, and set their proportions."""
    rows: dict[int, float] = {}
    for ax, height in zip(panels, heights, strict=True):
        spec = ax.get_subplotspec()
        assert spec is not None
        share = height / spec.get_gridspec().ncols if spec.get_gridspec().ncols > 1 else height
        share = max(share, 1.4) if not _has_names_above(ax) else height
        rows[_place_of(ax)[0]] = max(rows.get(_place_of(ax)[0], 0.0), share)
    grid = panels[0].get_subplotspec().get_gridspec()  # type: ignore[union-attr]
    grid.set_height_ratios([rows[row] for row in sorted(rows)])
    return sum(rows.values()) + 0.62 * len(rows)


def _is_beside(ax: Axes, neighbour: Axes) -> bool:
    """Whether another panel shows the same rows."""
    return ax is not neighbour and ax.get_shared_y_axes().joined(ax, neighbour)


def _place(figure: Figure, panels: list[Axes]) -> None:
    """Move panels to a grid of one column, or of two; two rows become two columns."""
    places = sorted({_place_of(ax) for ax in panels})
    columns = 1 if len(places) <= MOST_IN_COLUMN else 2
    if columns == 2 and max(row for row, _ in places) == 1:
        places.sort(key=lambda place: (place[1], place[0]))
    grid = figure.add_gridspec(-(-len(places) // columns), columns)
    for ax in panels:
        index = places.index(_place_of(ax))
        ax.set_subplotspec(grid[index // columns, index % columns])


def _repeat_labels(figure: Figure, panels: list[Axes]) -> None:
    """Give each panel the title, the labels and the numbers that it shared with its neighbours."""
    below = figure.get_supxlabel()
    if below:
        figure.supxlabel("")
    for ax in panels:
        row, column = _place_of(ax)
        of_row = [neighbour for neighbour in panels if _place_of(neighbour)[0] == row]
        of_column = [neighbour for neighbour in panels if _place_of(neighbour)[1] == column]
        ax.set_title(ax.get_title() or of_column[0].get_title())
        alike = [
            neighbour
            for neighbour in [*of_column, *panels]
            if neighbour.get_xlim() == ax.get_xlim()
        ]
        ax.set_xlabel(
            ax.get_xlabel() or _first(neighbour.get_xlabel() for neighbour in alike) or below
        )
        alike = [neighbour for neighbour in of_row if neighbour.get_ylim() == ax.get_ylim()]
        ax.set_ylabel(ax.get_ylabel() or _first(neighbour.get_ylabel() for neighbour in alike))
        ax.tick_params(labelbottom=True, labelleft=True)


def _first(labels: Iterable[str]) -> str:
    """Return the first label that is not empty, or else an empty one."""
    return next(filter(None, labels), "")


def _has_long_names(ax: Axes) -> bool:
    return any(len(text.get_text()) > LONG for text in ax.get_yticklabels())


def _has_names_above(ax: Axes) -> bool:
    return any(text.get_gid() == "name" for text in ax.texts)


def _name_above(ax: Axes) -> None:
    """Write the names of rows above them, at the left edge of the panel."""
    names = [text.get_text() for text in ax.get_yticklabels()]
    up = ScaledTranslation(0, 0.16 * ROW, ax.figure.dpi_scale_trans)
    look: Any = {"fontsize": 8, "va": "bottom", "ha": "left", "linespacing": 1.0}
    for at, name in zip(ax.get_yticks(), names, strict=True):
        # The offset is on the screen: an axis may run downwards.
        place = ax.get_yaxis_transform() + up
        text = ax.text(0, at, textwrap.fill(name, LINE), transform=place, gid="name", **look)
        text.set_in_layout(False)
    ax.set_yticks(ax.get_yticks(), [""] * len(names))
    ax.tick_params(axis="y", length=0)


def _thin_ticks(ax: Axes) -> None:
    """Turn words below an axis that meet, and leave out every other number."""
    labels = [label for label in ax.get_xticklabels() if label.get_text()]
    boxes = [label.get_window_extent() for label in labels]
    if not any(a.x1 + GAP > b.x0 and b.x1 > a.x0 for a, b in itertools.pairwise(boxes)):
        return
    if any(re.search("[a-zA-Z]{2}", label.get_text()) for label in labels):
        words = [label.get_text().replace("\n", " ") for label in labels]
        ax.set_xticks(ax.get_xticks(), words, rotation=40, ha="right", rotation_mode="anchor")
    else:
        ticks, texts = ax.get_xticks(), [label.get_text() for label in ax.get_xticklabels()]
        ax.set_xticks(ticks[::2], texts[::2])


def _keep_inside(figure: Figure, panels: list[Axes]) -> None:
    """Set titles, or labels, smaller if one ends outside the figure, as wide as their panels."""
    letters = [
        int((ax.get_window_extent().width / figure.dpi + OVERHANG) / SMALL_LETTER) for ax in panels
    ]
    for texts in ([ax.title for ax in panels], [ax.xaxis.label for ax in panels]):
        boxes = [text.get_window_extent() for text in texts]
        if all(box.x0 >= 0 and box.x1 <= figure.bbox.x1 for box in boxes):
            continue
        for text, longest in zip(texts, letters, strict=True):
            text.set_fontsize(SMALL)
            text.set_text(_filled(text.get_text().replace("\n", " "), longest))


def _shorten_titles(figure: Figure, panels: list[Axes]) -> float:
    """Wrap titles and labels; return the inches that the further lines take."""
    columns = len({_place_of(ax)[1] for ax in panels})
    letters = int(0.85 * WIDTH / columns / LETTER)
    extra: dict[int, float] = {}
    for ax in panels:
        title, below = _filled(ax.get_title(), letters), _filled(ax.get_xlabel(), letters)
        ax.set_title(title)
        ax.set_xlabel(below)
        row = _place_of(ax)[0]
        lines = title.count("\n") + below.count("\n")
        extra[row] = max(extra.get(row, 0.0), 0.15 * lines)
    suptitle_height = 0.0
    if text := figure.get_suptitle():
        lines_of_all = _filled(text, int(WIDTH / LETTER))
        figure.suptitle(lines_of_all, x=0.01, ha="left", fontsize=9.5)
        suptitle_height = 0.2 * (1 + lines_of_all.count("\n"))
    return sum(extra.values()) + suptitle_height


def _filled(text: str, letters: int) -> str:
    """Wrap each line of a text, with a formula as long as a letter."""
    formulas = iter(FORMULA.findall(text))
    lines = FORMULA.sub(PLACE, text).split("\n")
    filled = "\n".join(textwrap.fill(line, letters) for line in lines)
    return re.sub(PLACE, lambda _: next(formulas), filled)


def _legends_below(figure: Figure, panels: list[Axes]) -> list[Legend]:
    """Return the legends of a figure, and in two columns those of its panels, which fill them."""
    inside = [legend for ax in panels if (legend := ax.get_legend())]
    is_wide = len({_place_of(ax)[1] for ax in panels}) == 1
    return [*figure.legends, *([] if is_wide else inside)]


def _lay_legends(figure: Figure, panels: list[Axes]) -> float:
    """Set one legend below the panels, in as many columns as fit; return its inches."""
    # The artists themselves, which know their markers; a legend holds copies without them.
    artists = {
        text: handle
        for ax in figure.axes
        for handle, text in zip(*ax.get_legend_handles_labels(), strict=True)
    }
    entries: dict[str, Any] = {}
    titles: list[str] = []
    for legend in _legends_below(figure, panels):
        for text, handle in zip(legend.get_texts(), legend.legend_handles, strict=True):
            words = text.get_text()
            entries[words] = artists.get(words, handle)
        titles.append(legend.get_title().get_text())
        legend.remove()
    if not entries:
        return 0.0
    title = _first(titles)
    longest = max(len(_plain(line)) for text in entries for line in text.split("\n"))
    count = max(1, min(len(entries), int(WIDTH / (0.45 + 0.062 * longest))))
    figure.legend(
        list(entries.values()),
        list(entries),
        loc="outside lower center",
        ncols=count,
        title=title or None,
    )
    size = float(matplotlib.rcParams["legend.fontsize"]) / POINTS
    return 1.35 * size * (-(-len(entries) // count) + bool(title)) + 0.1


def _lay_bars(figure: Figure, panels: list[Axes]) -> float:
    """Lay colour bars below the panels; return the inches that they take."""
    bars = [ax._colorbar for ax in figure.axes if hasattr(ax, "_colorbar")]
    for bar in bars:
        mesh, extend, label = bar.mappable, bar.extend, bar.ax.get_ylabel()
        bar.remove()
        laid = figure.colorbar(
            mesh, ax=panels, location="bottom", extend=extend, aspect=26, pad=0.02
        )
        laid.set_label(label.replace("\n", " "))
    return 0.6 * len(bars)
