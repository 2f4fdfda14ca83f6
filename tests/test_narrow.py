"""Pictures for narrow screens: what is laid out anew, and that each picture of a page has one."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from PIL import Image

from gradlab.plotting.narrow import WIDTH, restack, save_narrow
from gradlab.plotting.style import empty_figure, save, style

ROOT = Path(__file__).resolve().parents[1]
PHONE = 358  # pixels of a figure on a screen of 390
SMALLEST = 9  # pixels of a letter


@pytest.fixture
def panels() -> Figure:
    """Two rows of three panels that share labels and numbers, with a colour bar and a legend."""
    with style():
        figure = empty_figure((7.0, 4.0))
        axes = figure.subplots(2, 3, sharex=True, sharey=True)
        for index, ax in enumerate(axes.ravel()):
            mesh = ax.pcolormesh(np.arange(12.0).reshape(3, 4))
            ax.set(title=f"panel {index}", xlabel="across", ylabel="up")
            ax.label_outer()
        figure.colorbar(mesh, ax=axes, label="size")
        figure.legend([Patch()], ["a patch"], loc="outside upper center")
    return figure


def letters(figure: Figure) -> list[float]:
    """Heights in pixels on a phone of all texts that are seen."""
    texts = [text for text in figure.findobj(match=lambda artist: hasattr(artist, "get_fontsize"))]
    visible = [text for text in texts if text.get_visible() and text.get_text()]
    return [text.get_fontsize() / 72 * PHONE / figure.get_figwidth() for text in visible]


def test_panels_stand_in_two_columns_with_their_labels(panels):
    assert min(letters(panels)) < SMALLEST
    panel_axes = panels.axes[:6]
    with style():
        restack(panels)
    boxes = [ax.get_window_extent() for ax in panel_axes]
    assert panels.get_figwidth() == WIDTH
    assert min(letters(panels)) >= SMALLEST
    assert len({round(box.x0) for box in boxes}) == 2
    assert not any(a.overlaps(b) for i, a in enumerate(boxes) for b in boxes[:i])
    assert {(ax.get_xlabel(), ax.get_ylabel()) for ax in panel_axes} == {("across", "up")}
    # Two rows become two columns: what stood above each other stands side by side.
    assert round(boxes[0].y0) == round(boxes[3].y0)
    bar = panels.axes[-1]
    assert bar.get_xlabel() == "size"
    assert bar.get_window_extent().y1 < min(box.y0 for box in boxes)


def test_titles_and_labels_stay_inside_the_figure():
    with style():
        figure = empty_figure((7.0, 4.0))
        for ax in figure.subplots(2, 4).ravel():
            ax.set(title="Alignment and uniformity", xlabel="mean angle between the anchors")
            ax.set(ylabel="gradient dissipation", yticks=[0.25, 1000.25])
        restack(figure)
        figure.draw_without_rendering()
    for ax in figure.axes:
        for text in (ax.title, ax.xaxis.label):
            box = text.get_window_extent()
            assert box.x0 >= 0
            assert box.x1 <= figure.bbox.x1


def test_long_names_stand_above_their_rows():
    names = ["a name that needs more than its share of the width", "another long name of a row"]
    with style():
        figure = empty_figure((7.0, 2.0))
        ax = figure.subplots()
        ax.plot([3.0, 4.0], [0, 1], "o")
        ax.set_yticks([0, 1], names)
        before = ax.get_window_extent().width / figure.get_figwidth()
        restack(figure)
    assert [text.get_text() for text in ax.texts] == names
    assert ax.get_window_extent().width / figure.get_figwidth() > 1.2 * before
    for name, at in zip(ax.texts, (0, 1), strict=True):
        row = ax.transData.transform((3.0, at))[1]
        assert row < (name.get_window_extent().y0 + name.get_window_extent().y1) / 2


def test_a_copy_stands_beside_the_picture(tmp_path):
    figure = empty_figure((7.0, 2.0))
    figure.subplots(1, 2)
    wide = save(figure, tmp_path / "panels.png")
    copy = save_narrow(figure, wide)
    assert copy == tmp_path / "panels-narrow.png"
    wide, narrow = Image.open(wide), Image.open(copy)
    assert narrow.height / narrow.width > wide.height / wide.width


def test_each_wide_picture_of_a_page_has_a_narrow_copy():
    lacking = set()
    for page in [*ROOT.glob("docs/**/*.md"), ROOT / "figures" / "captions.md"]:
        text = page.read_text(encoding="utf-8")
        for name in re.findall(r"!\[[^]]*\]\(([^)]+)\)|\{image\} (\S+)", text):
            path = (page.parent / "".join(name)).resolve()
            if path.suffix not in (".png", ".gif") or not path.is_file():
                continue
            if Image.open(path).width >= 720 and not path.with_stem(f"{path.stem}-narrow").exists():
                lacking.add(path.relative_to(ROOT).as_posix())
    assert not lacking
