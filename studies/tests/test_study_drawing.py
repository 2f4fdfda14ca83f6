"""Pictures of differences: all of each interval is inside its axis, and labels are words."""

from collections import defaultdict

import pandas as pd
import pytest

from gradlab.plotting import plot_style
from studies.drawing import figure_legend, in_lines, panels
from studies.evidence import pictures
from studies.evidence.declarations import FIRST_ROUND, SECOND_ROUND, read_second_round


@pytest.mark.parametrize(("name", "count"), [("encoder-contrasts", 24), ("claims", 20)])
def test_every_interval_is_inside_its_axis(name, count):
    tables = defaultdict(lambda: pd.DataFrame(columns=["label"]))
    folder = FIRST_ROUND if name == "encoder-contrasts" else SECOND_ROUND
    tables["contrasts"] = pd.read_csv(folder / "contrasts.csv")
    if folder == FIRST_ROUND:
        drawings = pictures.first_round(tables, tables, pd.Series())
    else:
        drawings = pictures.second_round(read_second_round(), tables, pd.DataFrame())
    draw, *content = drawings[name]
    figure = draw(*content)
    for axis in figure.axes:
        low, high = axis.get_xlim()
        points = [x for line in axis.lines for x in line.get_xdata() if len(line.get_xdata())]
        assert low < min(points[2:])
        assert max(points[2:]) < high
    assert sum(len(axis.get_yticks()) for axis in figure.axes) == count
    assert figure.get_size_inches()[1] <= 7  # a screen, at the width of a page


@pytest.mark.parametrize(
    ("part", "name", "words"),
    [
        ("factorial", "softmax .05 − uniform", "softmax at 0.05, not uniform weights"),
        ("factorial", "ratio 1 − .5", "ratio of 1, not 0.5"),
        (
            "longer",
            "ratio 1.75 − 1 at softmax .3",
            "ratio of 1.75, not 1, softmax at 0.3, longer runs",
        ),
        ("collapse", "MoCoSE − predictor, no inertia", "MoCoSE, not without inertia"),
        ("dissipation", "on − off", "gate as it is, not always open"),
    ],
)
def test_contrasts_are_in_words(part, name, words):
    assert pictures.in_words(part, name) == words


def test_panels_are_below_each_other_in_a_column():
    layout = {"sharey": True, "width_ratios": (1, 2, 1)}
    with plot_style("paper", "column"):
        figure, axes = panels(3.0, 1, 3, **layout)
        figure_legend(figure, axes[0], "upper center", ncols=4)
        figure.canvas.draw()
    assert figure.get_size_inches()[0] == 3.03
    tops = [axis.get_position().y1 for axis in axes]
    assert tops == sorted(tops, reverse=True)
    assert len({round(axis.get_position().x0, 6) for axis in axes}) == 1
    assert axes[0].get_shared_y_axes().joined(*axes[:2])
    with plot_style():
        _, beside = panels(3.0, 1, 3, **layout)
    assert len({round(axis.get_position().y1, 6) for axis in beside}) == 1


def test_long_texts_have_lines_in_a_column_only():
    text = "one two three four five six seven eight nine ten eleven twelve"
    assert in_lines(text) == text
    with plot_style("paper", "column"):
        assert in_lines(text).replace("\n", " ") == text
        assert max(map(len, in_lines(text).splitlines())) <= 44
