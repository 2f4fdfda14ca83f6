"""The relative push: one number for a loss by name, as code and by autograd, in every function."""

from __future__ import annotations

import contextlib
import math

import numpy as np
import pytest
import torch

import gradlab
from gradlab.arrays import partners_at_angle
from gradlab.errors import GradlabError
from gradlab.gradient.relative_push import relative_push
from gradlab.gradient.statistics import diagnose, gradient_statistics
from gradlab.gradient.vectorised import GradientsAt
from gradlab.gradient.verification import BATCHES, paired_batch
from gradlab.losses.components import ANGLES_AWAY
from gradlab.losses.registry import get_loss, loss_names

COMBINATORS = (
    "symmetric(infonce)",
    "symmetric(siglip)",
    "symmetric(infonce, reverse=mpt)",
    "symmetric(dcl)",
    "pool(infonce, negatives=other+same)",
    "pool(infonce, negatives=same)",
    "symmetric(pool(infonce, negatives=other+same))",
    "mask(infonce, above=0.5)",
    "hardness(infonce, alpha=2)",
    "sum(infonce, gor)",
    "sum(infonce, mpt, weights=1+0.5)",
    "sum(symmetric(infonce), mhe)",
)
# Losses whose positives act on their own rows only, and losses whose positives act on other rows.
AT_ONCE = (
    *("symmetric(infonce)", "symmetric(siglip)", "symmetric(infonce, reverse=mpt)"),
    *("mask(infonce, above=0.5)", "hardness(infonce, alpha=2)", "mask(supcon, above=0.5)"),
    *("infonce", "supcon", "sum(infonce, mpt, weights=1+0.5)", "sum(supcon, symmetric(infonce))"),
    *("per_prefix(infonce, dims=4+12)", "sum(per_prefix(symmetric(infonce), dims=12), infonce)"),
)
BY_ROW = (
    *("mhe", "symmetric(mhe)", "symmetric(supcon)", "per_prefix(mhe, dims=4+8)"),
    *("pool(infonce, negatives=other+same)", "symmetric(pool(infonce, negatives=other+same))"),
    *("sum(infonce, gor)", "sum(symmetric(infonce), mhe)", "sum(per_prefix(mhe, dims=4), infonce)"),
)
# `decompose` refuses these as code: they depend on coordinates.
NOT_AS_CODE = ("barlow_twins", "vicreg")
AS_CODE = [*(name for name in loss_names() if name not in NOT_AS_CODE), *COMBINATORS]


def batch(kind="paired", count=9, dim=12):
    return BATCHES[kind](np.random.default_rng(0), count, dim)


@pytest.mark.parametrize("text", AS_CODE)
def test_a_loss_has_one_relative_push_by_every_route(text):
    loss, views = get_loss(text), batch()

    def mean(anchors, positives):
        return loss(anchors, positives)

    def total(anchors, positives):
        return loss(anchors, positives, reduction="sum")

    closed = gradlab.components(loss, *views)
    as_code = [gradlab.components(function, *views) for function in (mean, total)]
    routes = [
        *(components.relative_push for components in as_code),
        gradlab.components(loss, *views, method="autograd").relative_push,
        gradlab.decompose(total, *views).relative_push,
        relative_push(loss, loss.batch(*views)),
    ]
    for pushes in routes:
        np.testing.assert_allclose(pushes, closed.relative_push, rtol=1e-6, atol=1e-9)
    recorded = diagnose(loss, *views)["relative_push"]
    assert recorded == pytest.approx(np.nanmean(closed.relative_push), rel=1e-12)
    for components in as_code:
        assert gradient_statistics(components)["relative_push"] == pytest.approx(recorded, rel=1e-6)


@pytest.mark.parametrize("text", AT_ONCE)
def test_all_rows_at_once_as_one_by_one(text):
    loss, views = get_loss(text), get_loss(text).batch(*batch())
    pushes = loss.displaced_pushes(views)
    assert pushes is not None
    one_by_one = loss.displaced_pushes_one_by_one(views, 9, "anchors")
    np.testing.assert_allclose(pushes, one_by_one, rtol=1e-12)


@pytest.mark.parametrize("text", BY_ROW)
def test_positives_that_act_on_other_rows_are_not_moved_at_once(text):
    loss = get_loss(text)
    assert loss.displaced_pushes(loss.batch(*batch())) is None


def test_infonce_from_its_definition():
    anchors, positives = batch()
    tau, cosines = 0.5, anchors @ positives.T

    def push(i, own):
        logits = np.where(np.arange(9) == i, own, cosines[i]) / tau
        share = np.exp(logits) / np.exp(logits).sum()
        return share[np.arange(9) != i].sum() / tau

    shares = [push(i, cosines[i, i]) / push(i, math.cos(ANGLES_AWAY[-1])) for i in range(9)]
    components = gradlab.components("infonce(temperature=0.5)", anchors, positives)
    np.testing.assert_allclose(components.relative_push, shares, rtol=1e-12)
    np.testing.assert_allclose(
        components.total_push, [push(i, cosines[i, i]) for i in range(9)], rtol=1e-12
    )


@pytest.mark.parametrize("angle", ANGLES_AWAY)
def test_rows_at_an_angle_are_on_the_great_circle(angle):
    anchors, positives = batch()
    displaced = partners_at_angle(anchors, positives, angle)
    np.testing.assert_allclose(np.arccos((anchors * displaced).sum(1)), angle, rtol=1e-9)
    for rows in zip(anchors, positives, displaced, strict=True):
        assert np.linalg.matrix_rank(np.stack(rows), tol=1e-6) == 2
    np.testing.assert_allclose(partners_at_angle(anchors, anchors, angle), -anchors, atol=1e-15)


def test_a_push_that_is_largest_at_a_right_angle():
    """With the squared cosine of the positive, an opposite positive closes the gate again."""

    def squares(anchors, positives):
        cosines = anchors @ positives.T
        own = torch.eye(len(cosines), dtype=torch.bool)
        logits = torch.where(own, cosines**2, cosines) / 0.05
        return torch.nn.functional.cross_entropy(logits, torch.arange(len(cosines)))

    anchors, positives = batch("clustered")
    pushes = gradlab.components(squares, anchors, positives).relative_push
    shares = np.exp(anchors @ positives.T / 0.05)
    np.fill_diagonal(shares, 0)
    negative_sum, own = shares.sum(1), np.exp((anchors * positives).sum(1) ** 2 / 0.05)
    np.testing.assert_allclose(
        pushes, negative_sum / (negative_sum + own) * (negative_sum + 1) / negative_sum, rtol=1e-6
    )


def test_attraction_is_negative_and_no_negatives_are_nan():
    anchors, positives = batch("random")
    pushes = gradlab.components("gor", anchors, positives).relative_push
    assert (pushes == -1).any()
    assert set(np.round(pushes, 12)) <= {-1.0, 1.0}
    masked = gradlab.components("mask(infonce, above=-1)", anchors, positives).relative_push
    assert np.isnan(masked).all()


def test_components_of_angles_have_no_relative_push():
    loss = get_loss("infonce")
    pair = gradlab.PairSimilarity.from_angles(np.array(0.5))
    components = loss.components(pair, gradlab.Negatives.from_angles(np.array([1.0, 2.0])))
    with pytest.raises(GradlabError, match="simulate"):
        _ = components.relative_push


def test_a_loss_in_a_loop_has_the_numbers_of_a_vectorised_one():
    calls = []

    def vectorised(anchors, positives):
        calls.append(1)
        return (
            torch.logsumexp(anchors @ positives.T / 0.3, 1).sum()
            - (anchors * positives).sum() / 0.3
        )

    def looping(anchors, positives):
        if float(anchors.sum()) > 1e9:  # a value that torch.vmap cannot know
            return anchors.sum()
        return vectorised(anchors, positives)

    views = paired_batch(np.random.default_rng(0), 12, 8)
    calls.clear()
    fast = gradlab.decompose(vectorised, *views).relative_push
    few = len(calls)
    calls.clear()
    slow = gradlab.decompose(looping, *views).relative_push
    np.testing.assert_allclose(fast, slow, rtol=1e-12)
    assert few + 9 <= len(calls)


def test_a_loss_of_large_arrays_runs_few_calls_together(monkeypatch):
    """Of a loss written with broadcasting, all 12 calls at once would hold 12 N² D entries."""
    monkeypatch.setattr("gradlab.gradient.vectorised.CHUNK_ENTRIES", 3 * 6 * 6 * 5)
    steps = []

    class Bar:
        def update(self, count=1):
            steps.append(count)

    @contextlib.contextmanager
    def bar(*args, **options):
        yield Bar()

    monkeypatch.setattr("gradlab.gradient.vectorised.progress_bar", bar)

    def value(leaf, rows):
        products = rows[:, None, :] * rows[None, :, :] * leaf
        return (products.sum(-1) ** 2).sum()

    rows = torch.linspace(-1, 1, 12 * 6 * 5, dtype=torch.float64).reshape(12, 6, 5)
    leaves = torch.linspace(0.5, 1, 60, dtype=torch.float64).reshape(12, 5)
    gradients = GradientsAt(value)(leaves, (rows,), progress=False)
    assert steps == [1, 3, 3, 3, 2]
    exact = torch.stack(
        [
            torch.autograd.functional.jacobian(lambda leaf, i=i: value(leaf, rows[i]), leaves[i])
            for i in range(12)
        ]
    )
    torch.testing.assert_close(gradients, exact)


def test_gradients_at_each_point():
    leaves = torch.linspace(-1, 1, 5, dtype=torch.float64)[:, None]
    factors = torch.arange(5.0, dtype=torch.float64)

    def value(leaf, factor):
        return factor * (leaf**3).sum()

    gradients = GradientsAt(value)(leaves, (factors,), progress=False)
    torch.testing.assert_close(gradients, 3 * factors[:, None] * leaves**2)
