"""Pictures of differences: all of each interval is inside its axis, and labels are words."""

from collections import defaultdict

import pandas as pd
import pytest

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
