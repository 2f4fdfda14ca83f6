"""The baseline of Eq. 5 against loops, under both effective ratios."""

from __future__ import annotations

import pytest
import torch

import gradlab
from tests.losses.naive_losses import (
    KINDS,
    assert_same,
    batch,
    dots,
    nearest,
    others,
    plain_gradients,
    tangent,
)

MARGIN, TAU, RATIO = 0.3, 0.05, 1.4


def naive(fixed_negatives: bool):
    def value(anchors: torch.Tensor, positives: torch.Tensor) -> torch.Tensor:
        n = len(anchors)
        s = dots(anchors, positives)
        negatives = positives.detach() if fixed_negatives else positives
        values = []
        for i in range(n):
            gate = 1.0 if s[i][i] - s[i][nearest(s, i)] < MARGIN else 0.0
            exponentials = torch.tensor([s[i][k] / TAU for k in others(i, n)], dtype=torch.float64)
            weight = torch.softmax(exponentials, dim=0)
            total = 0
            for w, j in zip(weight, others(i, n), strict=True):
                total = total + w * (anchors[i] @ negatives[j] - RATIO * anchors[i] @ positives[i])
            values.append(gate * total)
        return torch.stack(values)

    return value


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("effective_ratio", ["r", "2r"])
def test_value_and_both_gradients(kind: str, effective_ratio: str) -> None:
    anchors, positives = batch(kind)
    loss = gradlab.get_loss("baseline", static_ratio=RATIO, effective_ratio=effective_ratio)
    reference = naive(effective_ratio == "2r")
    assert_same(loss(anchors, positives, reduction="none"), reference(anchors, positives))
    ours = plain_gradients(lambda h, other: loss(h, other, reduction="sum"), anchors, positives)
    theirs = plain_gradients(reference, anchors, positives)
    for left, right, rows in zip(ours, theirs, (anchors, positives), strict=True):
        assert_same(tangent(left, rows), tangent(right, rows))
    assert_same(tangent(ours[0], anchors), gradlab.components(loss, anchors, positives).gradient())
