"""Every bound against the step taken: in float64 on random triples, in mpmath beside the bounds."""

from __future__ import annotations

import functools
import itertools
import math

import mpmath
import numpy as np
import pytest
import torch

import gradlab
from gradlab.batch import unit_rows as unit
from gradlab.errors import GradlabError
from gradlab.gradient.lemma import (
    KINDS,
    Triple,
    gets_closer,
    lemma_accuracy,
    many_negatives_bound,
    random_triples,
    ratio_bounds,
    sphere_bound,
    take_step,
    tangent_bounds,
)

PI = math.pi


def vectors_with_angles(theta_pos, theta_neg, alpha, dim, rng):
    """Anchor, positive and negative (n, dim) with these angles (n,), in a random frame each."""
    basis = np.linalg.qr(rng.standard_normal((len(theta_pos), dim, 3)))[0]
    first, second, third = np.moveaxis(basis, -1, 0)

    def combine(a, b, c):
        return unit(a[:, None] * first + b[:, None] * second + c[:, None] * third)

    positive = combine(np.cos(theta_pos), np.sin(theta_pos), np.zeros_like(theta_pos))
    negative = combine(
        np.cos(theta_neg), np.sin(theta_neg) * np.cos(alpha), np.sin(theta_neg) * np.sin(alpha)
    )
    return first, positive, negative


# --- an independent judge: the step in mpmath, from the definition --------------------------------


def mp_dot(a, b):
    return mpmath.fsum(x * y for x, y in zip(a, b, strict=True))


def mp_closer(anchor, positive, push, pull, step, kind):
    """Take the step in high precision: closer or not."""
    if kind == "unprojected":
        move = [pull * p - n for p, n in zip(positive, push, strict=True)]
    else:
        along_p, along_n = mp_dot(anchor, positive), mp_dot(anchor, push)
        flat_p = [p - along_p * a for p, a in zip(positive, anchor, strict=True)]
        flat_n = [n - along_n * a for n, a in zip(push, anchor, strict=True)]
        move = [pull * p - n for p, n in zip(flat_p, flat_n, strict=True)]
    if kind == "tangent":
        tangent = [p - step * m for p, m in zip(flat_p, move, strict=True)]
        return mp_dot(tangent, tangent) <= mp_dot(flat_p, flat_p)
    end = [a + step * m for a, m in zip(anchor, move, strict=True)]
    cosine = mp_dot(end, positive) / mpmath.sqrt(mp_dot(end, end))
    return cosine >= mp_dot(anchor, positive) / mpmath.sqrt(mp_dot(anchor, anchor))


def mp_frame(*angles):
    theta_pos, theta_neg, alpha = (mpmath.mpf(float(x)) for x in angles)
    anchor = [mpmath.mpf(1), mpmath.mpf(0), mpmath.mpf(0)]
    positive = [mpmath.cos(theta_pos), mpmath.sin(theta_pos), mpmath.mpf(0)]
    sine = mpmath.sin(theta_neg)
    negative = [mpmath.cos(theta_neg), sine * mpmath.cos(alpha), sine * mpmath.sin(alpha)]
    return anchor, positive, negative


def assert_bounds_flip(interval, judge, scale=1e-9):
    """Just inside each finite bound is judged closer, just outside not: by 1e-6 max(|r|, scale)."""
    checked = 0
    if not interval.feasible:
        return checked
    low, high, outside = float(interval.low), float(interval.high), bool(interval.outside)
    width = low - high if outside else high - low
    for bound, opposite, inward in ((low, high, 1), (high, low, -1)):
        delta = 1e-6 * max(abs(bound), scale)
        if not math.isfinite(bound) or (math.isfinite(opposite) and 2 * delta >= width):
            continue
        assert judge(bound + inward * delta), (bound, inward)
        assert not judge(bound - inward * delta), (bound, inward)
        checked += 1
    return checked


# --- the bounds -----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dim", [3, 8, 64])
def test_bounds_decide_as_the_step_taken(kind, dim):
    rng = np.random.default_rng(dim)
    n = 20_000
    # Angles of every regime, steps from tiny to huge, ratios of both signs.
    theta_pos, theta_neg, alpha = (rng.uniform(0.02, PI - 0.02, n) for _ in range(3))
    vectors = vectors_with_angles(theta_pos, theta_neg, alpha, dim, rng)
    ratio, step = rng.uniform(-3, 3, n), 10 ** rng.uniform(-3, 2, n)
    taken = take_step(*vectors, ratio, step, kind)
    predicted = gets_closer(ratio, Triple.from_vectors(*vectors), step, kind)
    # Ten roundings of a length of the order of 1 to 100.
    clear = np.abs(taken.after - taken.before) > 1e-12
    assert clear.mean() > 0.999
    assert np.array_equal(predicted[clear], taken.closer[clear])
    for low, high in itertools.pairwise((0, PI / 4, PI / 2, 3 * PI / 4, PI)):
        inside = taken.closer[(theta_pos > low) & (theta_pos < high)]
        assert 0.02 < inside.mean() < 0.999  # both answers occur in every regime


THETA_POS = [
    1e-6,
    0.6,
    PI / 4 - 1e-3,
    PI / 4 + 1e-3,
    PI / 2,
    2.0,
    3 * PI / 4 - 1e-3,
    3.0,
    PI - 1e-6,
]
THETA_NEG = [0.0, 1e-6, 0.5, PI / 2, 2.5, PI]
ALPHA = [0.0, 1e-3, 1.1, PI / 2, 2.8, PI]
STEPS = [1e-8, 1e-2, 0.7, 5.0, 1e6]


@pytest.mark.parametrize("kind", KINDS)
def test_ratios_beside_the_bounds_flip_the_outcome(kind):
    """1e-6 on either side of every finite bound, in all edge regimes, judged in high precision."""
    checked = dict.fromkeys(THETA_POS, 0)
    with mpmath.workdps(80):
        for theta_pos, theta_neg, alpha, step in itertools.product(
            THETA_POS, THETA_NEG, ALPHA, STEPS
        ):
            triple = Triple.from_angles(theta_pos, theta_neg, alpha)
            vectors = mp_frame(theta_pos, theta_neg, alpha)
            judge = functools.partial(mp_closer, *vectors, step=step, kind=kind)
            checked[theta_pos] += assert_bounds_flip(ratio_bounds(triple, step, kind), judge)
    assert min(checked.values()) >= 50


def test_published_formulas():
    """The lemma as printed, and the sphere's bound in the form with X, where nothing cancels."""
    rng = np.random.default_rng(3)
    theta_pos, theta_neg, alpha = rng.uniform(0.5, 2.5, (3, 500))
    triple, lam = Triple.from_angles(theta_pos, theta_neg, alpha), rng.uniform(0.1, 0.4, 500)
    s, c, f, d = np.sin(theta_pos), np.cos(theta_pos), np.sin(theta_neg), np.cos(theta_neg)
    middle = 1 / lam + f * np.cos(alpha) / s
    root = np.sqrt(1 / lam**2 - f**2 * np.sin(alpha) ** 2 / s**2)
    lemma = tangent_bounds(triple, lam)
    assert lemma.feasible.all()
    np.testing.assert_allclose(lemma.low, middle - root, atol=1e-13)
    np.testing.assert_allclose(lemma.high, middle + root, atol=1e-13)
    e = c * d + s * f * np.cos(alpha)
    x = (-2 * (d - c * e) + lam * (1 - e**2)) / s**2
    sphere = e + c * x / (1 + np.sqrt(1 + lam * x))
    np.testing.assert_allclose(sphere_bound(triple, lam).low, sphere, atol=1e-13)
    np.testing.assert_allclose(triple.cross_cosine, e, atol=1e-15)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("negative", [np.eye(4)[0], -np.eye(4)[0], unit(np.ones(4))])
def test_anchor_on_the_positive_and_opposite_to_it(negative, kind):
    """Nothing is decided by 0/0: an anchor on its positive has no ratio, one opposite every one."""
    h = np.eye(4)[0]
    assert not ratio_bounds(Triple.from_vectors(h, h, negative), 0.3, kind).feasible
    if kind != "tangent":
        opposite = ratio_bounds(Triple.from_vectors(h, -h, negative), 0.3, kind)
        assert opposite.contains(np.array([-1e6, 0.0, 1e6])).all()


# --- many negatives -------------------------------------------------------------------------------


def many(rng, n=300, k=6, dim=7, signs=True):
    anchor, positive = unit(rng.standard_normal((n, dim))), unit(rng.standard_normal((n, dim)))
    negatives = unit(rng.standard_normal((n, k, dim)))
    weight = rng.standard_normal((n, k)) if signs else rng.uniform(0, 1, (n, k))
    return anchor, positive, negatives, weight


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("signs", [True, False])
def test_many_negatives_decide_as_the_step_taken(kind, signs):
    rng = np.random.default_rng(11)
    anchor, positive, negatives, weight = many(rng, 20_000, signs=signs)
    pull, step = rng.normal(0, 2, 20_000), 10 ** rng.uniform(-3, 1, 20_000)
    taken = take_step(anchor, positive, negatives, pull, step, kind, weight)
    predicted = many_negatives_bound(anchor, positive, negatives, weight, step, kind).contains(pull)
    clear = np.abs(taken.after - taken.before) > 1e-12
    assert clear.mean() > 0.999
    assert np.array_equal(predicted[clear], taken.closer[clear])
    assert 0.1 < taken.closer.mean() < 0.9
    if not signs:
        total = weight.sum(axis=-1)
        rows = anchor, positive, negatives, weight
        interval = many_negatives_bound(*rows, step, kind, bound="ratio")
        assert np.array_equal(interval.contains(pull / total)[clear], taken.closer[clear])


# --- geometry, kinds of arrays, claims ------------------------------------------------------------


@pytest.mark.parametrize("theta_pos", [1e-6, 0.3, 2.0, PI - 1e-6])
@pytest.mark.parametrize("theta_neg", [1e-6, 1.0, PI - 1e-6])
def test_vectors_are_measured_accurately(theta_pos, theta_neg):
    """Against mpmath on the very same (rounded) vectors."""
    rng = np.random.default_rng(5)
    angles = (np.full(20, angle) for angle in (theta_pos, theta_neg, 0.8))
    vectors = vectors_with_angles(*angles, 12, rng)
    triple = Triple.from_vectors(*vectors)
    with mpmath.workdps(50):
        for i in range(20):
            h, p, n = ([mpmath.mpf(x) for x in rows[i]] for rows in vectors)
            h, p, n = ([x / mpmath.sqrt(mp_dot(v, v)) for x in v] for v in (h, p, n))
            flat_p = [x - mp_dot(h, p) * a for x, a in zip(p, h, strict=True)]
            s = mpmath.sqrt(mp_dot(flat_p, flat_p))
            toward = mp_dot(n, flat_p) / s
            size = mpmath.sqrt(1 - mp_dot(h, n) ** 2)
            assert triple.positive_sine[i] == pytest.approx(float(s), rel=2e-15)
            # A norm off by a rounding shows where the negative's tangent part is itself tiny.
            assert triple.toward[i] == pytest.approx(float(toward), abs=4e-15 * float(size))
            aside = float(mpmath.sqrt(size**2 - toward**2))
            assert triple.aside[i] == pytest.approx(aside, abs=4e-15 * float(size))
    np.testing.assert_allclose(triple.theta_pos, theta_pos, rtol=1e-9)
    np.testing.assert_allclose(triple.theta_neg, theta_neg, rtol=1e-9)
    np.testing.assert_allclose(triple.alpha, 0.8, rtol=1e-9)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_numpy_and_torch_agree_and_keep_their_dtype(kind, dtype):
    rng = np.random.default_rng(6)
    vectors = [unit(rng.standard_normal((50, 9)).astype(dtype)) for _ in range(3)]
    tensors = [torch.from_numpy(v) for v in vectors]
    tolerance = 50 * np.finfo(dtype).eps
    bounds_by_numpy, bounds_by_torch = (
        ratio_bounds(Triple.from_vectors(*rows), 0.2, kind) for rows in (vectors, tensors)
    )
    assert bounds_by_numpy.low.dtype == np.dtype(dtype)
    assert bounds_by_torch.low.dtype == getattr(torch, dtype)
    np.testing.assert_allclose(
        bounds_by_numpy.low, bounds_by_torch.low.numpy(), rtol=tolerance, atol=tolerance
    )
    np.testing.assert_array_equal(bounds_by_numpy.feasible, bounds_by_torch.feasible.numpy())
    step_by_numpy, step_by_torch = (take_step(*rows, 1.1, 0.2, kind) for rows in (vectors, tensors))
    assert step_by_numpy.anchor.dtype == np.dtype(dtype)
    np.testing.assert_allclose(step_by_numpy.after, step_by_torch.after.numpy(), atol=tolerance)


@pytest.mark.parametrize(("name", "rate"), [("infonce", 0.4), ("met", 1.5)])
def test_bound_tells_what_a_step_of_gradient_descent_does(name, rate):
    """Components of a loss on a batch against one step along the gradient from autograd."""
    rng = np.random.default_rng(15)
    anchors = unit(rng.standard_normal(16) + rng.standard_normal((64, 16)))
    positives = unit(anchors + 0.25 * rng.standard_normal((64, 16)))
    components = gradlab.components(name, anchors, positives)
    moving = components.gradient_dissipation > 0
    step = rate * components.gradient_dissipation[moving]
    rows = anchors[moving], positives[moving], positives, components.weight[moving]
    predicted = many_negatives_bound(*rows, step).contains(components.positive_weight[moving])
    moved = unit(anchors - rate * gradlab.autograd_gradient(name, anchors, positives))
    closer = (moved * positives).sum(-1) >= (anchors * positives).sum(-1)
    assert np.array_equal(predicted, closer[moving])
    assert 0.1 < closer[moving].mean() < 0.9


@pytest.mark.parametrize("kind", ["projected", "unprojected"])
def test_accuracy_counts_agree_with_steps_taken(kind):
    triple, ratio = random_triples(3000, seed=1)
    angles = triple.theta_pos, triple.theta_neg, triple.alpha
    closer = take_step(
        *vectors_with_angles(*angles, 5, np.random.default_rng(0)), ratio, 1.5, kind
    ).closer
    s, f = np.sin(triple.theta_pos), np.sin(triple.theta_neg)
    with np.errstate(invalid="ignore"):
        root = np.sqrt(1 / 1.5**2 - (f * np.sin(triple.alpha) / s) ** 2)
    middle = 1 / 1.5 + f * np.cos(triple.alpha) / s
    above, below = ratio > middle - root, ratio < middle + root
    got = lemma_accuracy(1.5, kind, triple, ratio)
    assert got.published == np.mean(above == closer)
    assert got.completed == np.mean((above & below) == closer)
    assert got.closer == closer.mean()
    assert got.undefined == np.isnan(root).mean() > 0.1
    assert got.false_yes == np.mean(above & ~closer)
    assert got.published + got.false_yes + got.false_no == pytest.approx(1, abs=1e-12)


# --- bad input ------------------------------------------------------------------------------------

H = np.eye(3)
GOOD = Triple.from_angles(0.5, 1.0, 1.0)
THREE = Triple.from_angles(np.full(3, 0.5), 1.0, 1.0)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: tangent_bounds(GOOD, 0.0), "positive and finite"),
        (lambda: Triple.from_angles(-0.1, 1, 1), r"theta_pos must lie in \[0, π\]"),
        (lambda: gets_closer(1, GOOD, 0.1, "projectd"), "'projected'"),
        (lambda: Triple.from_vectors(2 * H[0], H[1], H[2]), "anchor must have unit rows"),
        (lambda: Triple.from_vectors(H[0], H[1, :2], H[2]), r"positive must have shape \(..., D\)"),
        (lambda: many_negatives_bound(H[0], H[1], H, np.ones(2), 0.1), "weight must have shape"),
        (
            lambda: many_negatives_bound(H[0], H[1], H, [1.0, -2.0, 0.5], 0.1, bound="ratio"),
            "positive sum",
        ),
        (
            lambda: Triple.from_angles(np.ones(3), np.ones(2), 0.1),
            r"theta_pos \(3,\) and theta_neg \(2,\)",
        ),
        (lambda: tangent_bounds(THREE, np.ones(2)), r"positive_cosine \(3,\).* and step \(2,\)"),
        (lambda: gets_closer(np.ones(4), THREE, 0.1), r"ratio \(4,\) and interval \(3,\)"),
        (
            lambda: take_step(H, H[:2], H, 1.0, 0.1),
            r"rows of anchor \(3,\), rows of positive \(2,\)",
        ),
        (lambda: take_step(H, H, H, np.ones(2), 0.1), r"ratio \(2,\)"),
        (lambda: many_negatives_bound(H, H, H, np.ones((2, 3)), 0.1), r"rows of weight \(2,\)"),
        (
            lambda: many_negatives_bound(H, H, H, np.ones((3, 3)), np.ones(2), bound="ratio"),
            r"step \(2,\)",
        ),
        (lambda: lemma_accuracy(0.1, "projected", THREE, np.ones(2)), r"ratio \(2,\)"),
        (lambda: lemma_accuracy([0.1, 0.2]), "step must be one number"),
    ],
)
def test_bad_input_is_one_line(call, message):
    with pytest.raises(GradlabError, match=message) as refusal:
        call()
    assert "\n" not in str(refusal.value)
