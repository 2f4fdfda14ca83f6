"""The sampler of whole batches: exact positive angles, derived spreads, and plain refusals."""

from __future__ import annotations

import math

import numpy as np
import pytest

from gradlab.errors import GradlabError
from gradlab.simulation.sphere import other_view_cosine, sample_views

PI = math.pi


def gram(first, second):
    """Cosines of the off-diagonal pairs, (batches, N, N - 1)."""
    cosine = first @ np.swapaxes(second, 1, 2)
    count = cosine.shape[-1]
    return cosine[:, ~np.eye(count, dtype=bool)].reshape(len(cosine), count, count - 1)


def angles_of(first, second):
    """Angles of rows to rows, by their chords."""
    return 2 * np.arctan2(*(np.linalg.norm(first + sign * second, axis=-1) for sign in (-1, 1)))


def normal_cosine_moments(mu, sigma):
    """Mean and standard deviation of cos Θ, Θ ~ N(mu, sigma²), by Gauss-Hermite quadrature."""
    node, weight = np.polynomial.hermite_e.hermegauss(60)
    weight = weight / weight.sum()
    cosine = np.cos(mu + sigma * node)
    mean = weight @ cosine
    return mean, math.sqrt(max(weight @ (cosine - mean) ** 2, 0.0))


def assert_mean(per_batch, expected):
    """The mean over independent batches is within five standard errors."""
    error = np.std(per_batch, ddof=1) / math.sqrt(len(per_batch))
    assert abs(np.mean(per_batch) - expected) <= 5 * error + 1e-14


@pytest.mark.parametrize("mu_pos", [0.0, 1e-6, 0.3, PI / 2, 3.1])
def test_positive_angles_are_those_drawn(mu_pos):
    anchors, positives = sample_views(mu_pos, 1.0, 20, 32, sigma_pos=0.0, batches=3, seed=1)
    assert anchors.shape == positives.shape == (3, 20, 32)
    for rows in (anchors, positives):
        np.testing.assert_allclose(np.linalg.norm(rows, axis=-1), 1, atol=4e-15)
    np.testing.assert_allclose(angles_of(anchors, positives), mu_pos, atol=2e-15)


@pytest.mark.parametrize(("mu_pos", "sigma_pos"), [(0.4, 0.05), (0.02, 0.05), (3.1, 0.1)])
def test_positive_angles_are_a_folded_normal(mu_pos, sigma_pos):
    views = sample_views(mu_pos, 1.0, 500, 16, sigma_pos=sigma_pos, batches=40, seed=2)
    angle = angles_of(*views)
    node, weight = np.polynomial.hermite_e.hermegauss(200)
    weight = weight / weight.sum()
    folded = np.arccos(np.cos(mu_pos + sigma_pos * node))
    for power in (1, 2):
        error = np.std(angle**power) / math.sqrt(angle.size)
        # The quadrature of a kink is good to a few 1e-4 of sigma, far below the sampling error.
        assert abs(np.mean(angle**power) - weight @ folded**power) < 5 * error


CASES = {
    "wider than random, small mean": dict(mu_neg=0.4, sigma_neg=0.08, batch_size=32, dim=40),
    "wider than random": dict(mu_neg=1.0, sigma_neg=0.15, batch_size=32, dim=64),
    "right angle": dict(mu_neg=PI / 2, sigma_neg=0.2, batch_size=32, dim=64),
    "more sentences than dimensions": dict(mu_neg=1.2, sigma_neg=0.2, batch_size=64, dim=24),
    "narrower than random": dict(mu_neg=1.0, sigma_neg=0.06, batch_size=16, dim=26),
    "no spread": dict(mu_neg=1.0, sigma_neg=0.0, batch_size=16, dim=64),
    "above a right angle": dict(mu_neg=1.6, sigma_neg=0.02, batch_size=16, dim=64),
    "three, far apart": dict(mu_neg=2.0, sigma_neg=0.01, batch_size=3, dim=64),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_cosines_have_the_stated_and_the_derived_moments(case):
    """Same view: those of cos N(mu_neg, sigma_neg²); other view: those that follow from it."""
    views = sample_views(0.5, batches=400, sigma_pos=0.1, seed=4, **case)
    same = normal_cosine_moments(case["mu_neg"], case["sigma_neg"])
    other_view = other_view_cosine(0.5, case["mu_neg"], case["dim"], 0.1, case["sigma_neg"])
    for rows, (mean, spread) in ((views.anchors, same), (views.positives, other_view)):
        cosine = gram(views.anchors, rows)
        assert_mean(cosine.mean(axis=(1, 2)), mean)
        assert_mean(((cosine - mean) ** 2).mean(axis=(1, 2)), spread**2)
    report = views.angles()
    # In angles the match is to leading order in the spread; rank limits and curvature add a few %.
    assert report.same_view[0] == pytest.approx(case["mu_neg"], abs=0.1 * case["sigma_neg"] + 1e-12)
    assert report.same_view[1] == pytest.approx(case["sigma_neg"], rel=0.1, abs=1e-12)


@pytest.mark.parametrize("mu_neg", [0.2, 0.8, PI / 2])
def test_natural_spread(mu_neg):
    views = sample_views(0.4, mu_neg, 64, 200, batches=40, seed=5)
    report = views.angles()
    assert report.same_view[0] == pytest.approx(mu_neg, abs=2e-3)
    assert report.same_view[1] == pytest.approx(math.tan(mu_neg / 2) / math.sqrt(199), rel=0.03)
    mean, _ = other_view_cosine(0.4, mu_neg, 200)
    assert_mean(gram(views.anchors, views.positives).mean(axis=(1, 2)), mean)


def test_the_widest_possible_angle_is_reached_and_none_beyond():
    limit = math.acos(-1 / 7)
    views = sample_views(0.3, limit, 8, 20, sigma_pos=0.0)
    np.testing.assert_allclose(gram(views.anchors, views.anchors), -1 / 7, atol=1e-14)
    with pytest.raises(GradlabError, match="impossible: 8 unit vectors"):
        sample_views(0.3, limit + 1e-6, 8, 20)
    opposite = sample_views(0.3, PI, 2, 20)
    assert gram(opposite.anchors, opposite.anchors).max() == pytest.approx(-1, abs=1e-14)


def test_report_counts_every_pair():
    views = sample_views(0.3, 1.0, 5, 12, batches=2, seed=6)
    report = views.angles()
    h, g = views
    pairs = [(b, i, j) for b in range(2) for i in range(5) for j in range(5) if i != j]
    expected = {
        "positive": [h[b, i] @ g[b, i] for b in range(2) for i in range(5)],
        "same_view": [h[b, i] @ h[b, j] for b, i, j in pairs],
        "other_view": [h[b, i] @ g[b, j] for b, i, j in pairs],
    }
    for name, cosines in expected.items():
        angles = np.arccos(cosines)
        assert getattr(report, name) == pytest.approx((angles.mean(), angles.std()), rel=1e-12)


def test_orientation_is_random():
    """No coordinate is special, also for the common direction (covariance losses look at them)."""
    anchors = np.array([sample_views(0.3, 0.5, 8, 10, seed=seed).anchors[0] for seed in range(300)])
    for coordinate in range(10):
        assert_mean(anchors[..., coordinate].mean(axis=1), 0.0)
        assert_mean((anchors[..., coordinate] ** 2).mean(axis=1), 0.1)  # 1/D


def test_seed_decides():
    first, repeated, other_seed = (sample_views(0.3, 1.0, 6, 10, seed=seed) for seed in (7, 7, 8))
    assert np.array_equal(first.anchors, repeated.anchors)
    assert np.array_equal(first.positives, repeated.positives)
    assert not np.array_equal(first.anchors, other_seed.anchors)
    generator = np.random.default_rng(7)
    assert np.array_equal(first.anchors, sample_views(0.3, 1.0, 6, 10, seed=generator).anchors)
    assert not np.array_equal(first.anchors, sample_views(0.3, 1.0, 6, 10, seed=generator).anchors)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (dict(mu_neg=2.0), "impossible: 128 unit vectors"),
        (dict(mu_neg=1.0, sigma_neg=0.3), "too wide"),
        (dict(mu_neg=1.0, sigma_neg=0.01, dim=100), "narrower than random vectors"),
        (dict(mu_neg=1.575, dim=64), "takes dim >= 128"),
    ],
)
def test_refusals_are_one_line(arguments, message):
    with pytest.raises(GradlabError, match=message):
        sample_views(**{"mu_pos": 0.3, **arguments})
