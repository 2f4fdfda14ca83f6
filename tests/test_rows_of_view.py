"""Which rows of one forward pass a view holds, against indexing the rows themselves."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from gradlab.monitor.rows_of_view import rows_of_view

CUTS = {
    "chunks": lambda rows: rows.chunk(2)[1],
    "a split": lambda rows: rows.split([5, 7])[1],
    "a slice": lambda rows: rows[:6],
    "the second half": lambda rows: rows[6:],
    "alternate rows": lambda rows: rows[1::2],
    "the first axis": lambda rows: rows.view(2, 6, 4)[1],
    "the second axis": lambda rows: rows.view(6, 2, 4)[:, 1],
    "unbound rows": lambda rows: rows.view(6, 2, 4).unbind(1)[1],
    "unbound views": lambda rows: rows.view(2, 6, 4).unbind(0)[1],
    "an index": lambda rows: rows[torch.tensor([3, 0, 7])],
    "a tensor split": lambda rows: rows.tensor_split(3)[1],
}


def rows_with_graph(count: int = 12) -> tuple[Tensor, Tensor]:
    """Rows whose first dimension is their number, as a leaf and behind a step of an encoder."""
    leaf = torch.randn(count, 4)
    leaf[:, 0] = torch.arange(count)
    return leaf, leaf.requires_grad_() * 1.0


@pytest.mark.parametrize("cut", CUTS.values(), ids=CUTS)
@pytest.mark.parametrize("normalised", ["before", "behind", "never"])
def test_rows_of_a_cut(cut, normalised):
    _, rows = rows_with_graph()
    expected = cut(rows).detach()[:, 0].long()
    rows = torch.nn.functional.normalize(rows, dim=1) if normalised == "before" else rows
    view = cut(rows)
    view = torch.nn.functional.normalize(view, dim=1) if normalised == "behind" else view
    assert torch.equal(rows_of_view(view, 12), expected)


def test_nothing_of_rows_that_are_not_cut():
    _, rows = rows_with_graph()
    assert rows_of_view(rows, 12) is None
    assert rows_of_view(rows[:, :2], 12) is None  # dimensions
    assert rows_of_view(rows.detach(), 12) is None


def test_a_cut_within_the_encoder_is_not_that_of_the_batch():
    states = torch.randn(12, 5, 4, requires_grad=True)
    first = states[:, 0]
    assert rows_of_view(first, 12) is None
    assert torch.equal(rows_of_view(first[4:], 12), torch.arange(4, 12))
