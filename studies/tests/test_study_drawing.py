"""Pictures of differences: all of each interval is inside its axis, and labels are words."""

from pathlib import Path

import pandas as pd
import pytest

from gradlab.plotting import plot_style
from studies.drawing import draw_differences, figure_legend, in_lines, panels
from studies.evidence.figures import in_words
from studies.second_round.figures import draw_claims

FIGURES = Path(__file__).resolve().parents[2] / "figures" / "study"


def test_every_interval_is_inside_its_axis():
    table = pd.read_csv(FIGURES / "evidence" / "contrasts.csv")
    encoder = table[(table.regime == "encoder") & (table.seeds > 2)]
    labels = [in_words(row.part, row.name) for row in encoder.itertuples(index=False)]
    claims = pd.read_csv(FIGURES / "second_round" / "contrasts.csv")
    for figure in (
        draw_differences(encoder.assign(label=labels), ""),
        draw_claims(claims, "claims"),
    ):
        large, small = figure.axes
        for axis in (large, small):
            low, high = axis.get_xlim()
            points = [x for line in axis.lines for x in line.get_xdata() if len(line.get_xdata())]
            assert low < min(points[2:])
            assert max(points[2:]) < high
        assert len(large.get_yticks()) + len(small.get_yticks()) in (24, 20)
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
    assert in_words(part, name) == words


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
