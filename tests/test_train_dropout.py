"""The CPU's dropout: its distribution, its gradient, and that a whole encoder uses it."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import stats

from gradlab.train.cpu_speed import dropout


@pytest.mark.parametrize(
    ("p", "dtype"),
    [(0.1, torch.float32), (0.15, torch.bfloat16), (0.5, torch.float64), (0.9, torch.float32)],
)
def test_share_and_scale(p, dtype):
    torch.manual_seed(0)
    count = 400_003  # no multiple of four
    out = dropout(torch.ones(count, dtype=dtype), p)
    nonzero = int((out != 0).sum())
    exact = round(p * 2**16) / 2**16
    assert abs(exact - p) <= 2**-17
    assert abs(nonzero - count * (1 - exact)) < 5 * (count * exact * (1 - exact)) ** 0.5
    assert set(out.unique().tolist()) == {0.0, torch.tensor(1 / (1 - exact), dtype=dtype).item()}


@pytest.mark.parametrize("p", [0.1, 0.5])
def test_entries_of_one_draw_are_independent(p):
    """All 16 patterns of four neighbours that share a draw, and of four apart, by chi-square."""
    torch.manual_seed(1)
    mask = (dropout(torch.ones(400_000), p) != 0).numpy()
    keep = 1 - round(p * 2**16) / 2**16
    for fours in (mask.reshape(-1, 4), mask.reshape(4, -1).T):
        patterns = np.bincount(fours @ [1, 2, 4, 8], minlength=16)
        bit_counts = np.array([bin(pattern).count("1") for pattern in range(16)])
        expected = len(fours) * keep**bit_counts * (1 - keep) ** (4 - bit_counts)
        assert stats.chisquare(patterns, expected).pvalue > 1e-4


def test_gradient_is_the_mask():
    torch.manual_seed(2)
    x = torch.randn(7, 5, dtype=torch.float64, requires_grad=True)
    out = dropout(x, 0.3)
    out.sum().backward()
    torch.testing.assert_close(x.grad * x.detach(), out.detach(), rtol=1e-15, atol=0)
    assert 0 < int((x.grad == 0).sum()) < x.numel()
    torch.manual_seed(2)
    assert torch.equal(dropout(torch.randn(7, 5, dtype=torch.float64), 0.3), out)


def test_nothing_is_dropped_in_evaluation_or_at_zero():
    x = torch.randn(10)
    state = torch.get_rng_state()
    assert dropout(x, 0.5, training=False) is x
    assert dropout(x, 0.0) is x
    assert torch.equal(torch.get_rng_state(), state)
    assert not dropout(x, 1.0).any()
    assert dropout(torch.empty(0, 3), 0.5).shape == (0, 3)
