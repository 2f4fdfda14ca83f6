"""Rows and texts of a loop's batches that have no gradient, beside plain definitions of them."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from gradlab.monitor.label_signs import LabelSigns
from gradlab.monitor.optimizer_step import NextStep
from gradlab.monitor.row_gradients import RowGradients
from gradlab.monitor.token_signs import TokenGradients


def test_places_without_gradient_are_counted_over_the_records():
    by_row, slopes = RowGradients(), torch.zeros(3, 8, 4)
    slopes[0, 2], slopes[1, 2], slopes[2, 2], slopes[2, 5] = 1.0, 1.0, 1.0, 1e-3
    views = [torch.randn(8, 4)]
    numbers = [by_row.of({0: slope}, views) for slope in slopes]
    places = [[bool(slope[at].any()) for slope in slopes] for at in range(8)]
    for count, noted in enumerate(numbers, 1):
        busy = [sum(place[:count]) / count for place in places if any(place[:count])]
        assert noted["idle_places"] == pytest.approx(1 - len(busy) / 8)
        assert noted["busy_places"] == pytest.approx(sum(busy) / len(busy))


def test_the_view_with_the_most_places_without_gradient_counts():
    slopes = torch.zeros(6, 4), torch.ones(6, 4)
    slopes[0][:2] = 1.0
    views = [torch.eye(6, 4), torch.randn(6, 4)]
    numbers = RowGradients().of(dict(enumerate(slopes)), views)
    assert numbers["idle_places"] == pytest.approx(4 / 6)
    assert "idle_places" not in RowGradients().of({0: slopes[1]}, views)
    assert RowGradients().of({0: torch.zeros(6, 4)}, views) == {}


def test_a_last_batch_of_fewer_rows_shortens_the_places():
    by_row, slope = RowGradients(), torch.ones(8, 4)
    slope[0] = 0.0
    by_row.of({0: slope}, [])
    assert by_row.of({0: slope[:4]}, [])["idle_places"] == 0.25


def test_rows_without_gradient_are_told_by_the_rank_of_their_positive():
    torch.manual_seed(0)
    views = [torch.randn(12, 3), torch.randn(12, 3)]
    slope = torch.rand(12, 3) * (torch.arange(12) % 3 > 0)[:, None]
    numbers = RowGradients().of({0: slope}, views)
    wrong, right = list[bool](), list[bool]()
    for row, anchor in enumerate(views[0]):
        cosines = [float(F.cosine_similarity(anchor, other, dim=0)) for other in views[1]]
        (right if cosines[row] == max(cosines) else wrong).append(row % 3 == 0)
    assert numbers["wrong_rows"] == pytest.approx(len(wrong) / 12)
    assert numbers["wrong_rows_idle"] == pytest.approx(sum(wrong) / len(wrong))
    assert numbers["right_rows_idle"] == pytest.approx(sum(right) / len(right))
    assert "wrong_rows" not in RowGradients().of({0: slope}, [*views, views[1]])


def test_rows_alone_with_their_class():
    labels = torch.tensor([3, 5, 9, 9, 11, 12, 13, 14, 15, 16, 17, 18])
    assert LabelSigns().of(labels, [], []) == {"rows_alone_in_class": 10 / 12}
    assert LabelSigns().of(labels[1:5], [], []) == {}


@pytest.mark.parametrize("first", [True, False])
def test_texts_without_gradient_where_the_rows_are_tokens_of_one(first):
    words = torch.nn.Embedding(30, 6)
    tokens = torch.arange(1, 25).reshape(4, 6)
    states = words(tokens)
    rows = states[0] if first else states.mean(1)
    told = dict[str, float]()
    value = rows.square().sum()
    TokenGradients(value, told.update, len(rows))
    value.backward()
    assert told.get("idle_texts") == (0.75 if first else None)


@pytest.mark.parametrize("restored", ["before the step", "after the step", "never"])
def test_weights_that_are_moved_before_the_step(restored):
    torch.manual_seed(0)
    weight, told = torch.nn.Parameter(torch.randn(5)), dict[str, float]()
    optimizer, push = torch.optim.SGD([weight], lr=0.1), 0.2 * torch.ones(5)
    step = NextStep([weight], [], [], told.update)
    weight.grad = torch.randn(5)
    with torch.no_grad():
        weight += push
        if restored == "before the step":
            weight -= push
    optimizer.step()
    with torch.no_grad():
        if restored == "after the step":
            weight -= push
    assert step.conclude()
    distance = float(push.norm() / (0.1 * weight.grad.norm()))
    expected = pytest.approx(distance, rel=1e-4) if restored == "never" else None
    assert told.get("moved_before_step") == expected
