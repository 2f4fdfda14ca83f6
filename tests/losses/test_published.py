"""The losses people train with: against definitions in 30 digits, loops and other libraries."""

from __future__ import annotations

import math

import mpmath as mp
import numpy as np
import pytest
import torch

import gradlab
from gradlab.batch.cosine_gaps import gaps_of
from gradlab.batch.similarity import Negatives, PairSimilarity
from gradlab.gradient.verification import BATCHES
from gradlab.losses.components import project
from gradlab.losses.registry import loss_class
from tests.losses.naive_losses import KINDS, batch, dots, other_indices, plain_gradients

# --- definitions, of the cosines p and s_1 ... s_K ------------------------------------------------


def softmax_of(link):
    return lambda p, s: mp.log(1 + mp.fsum(mp.exp(link(cosine) - link(p)) for cosine in s))


def reweighted(tau, beta, prior):
    def value(p, s):
        total = mp.fsum(mp.exp(beta * cosine / tau) for cosine in s)
        mass = len(s) * mp.fsum(mp.exp((1 + beta) * cosine / tau) for cosine in s) / total
        left = (mass - len(s) * prior * mp.exp(p / tau)) / (1 - prior)
        return mp.log(1 + max(left, len(s) * mp.exp(-1 / tau)) * mp.exp(-p / tau))

    return value


def siglip(t, b):
    return lambda p, s: (
        mp.log(1 + mp.exp(-t * p - b)) + mp.fsum(mp.log(1 + mp.exp(t * cosine + b)) for cosine in s)
    )


def multi_similarity(alpha, beta, base):
    return lambda p, s: (
        mp.log(1 + mp.exp(-alpha * (p - base))) / alpha
        + mp.log(1 + mp.fsum(mp.exp(beta * (cosine - base)) for cosine in s)) / beta
    )


DEFINITIONS = {
    "cosface(temperature=0.05, margin=0.2)": lambda p, s: mp.log(
        1 + mp.fsum(mp.exp((cosine - p + mp.mpf(0.2)) / mp.mpf(0.05)) for cosine in s)
    ),
    "cosface(temperature=0.001)": lambda p, s: mp.log(
        1 + mp.fsum(mp.exp((cosine - p + mp.mpf(0.1)) / mp.mpf(0.001)) for cosine in s)
    ),
    "dcl": lambda p, s: (
        -p / mp.mpf(0.1) + mp.log(mp.fsum(mp.exp(cosine / mp.mpf(0.1)) for cosine in s))
    ),
    "siglip": siglip(1 / mp.mpf(0.1), -10),
    "siglip(temperature=0.01, bias=-13)": siglip(1 / mp.mpf(0.01), -13),
    "hcl": reweighted(mp.mpf(0.5), 1, 0),
    "hcl(temperature=0.05, beta=2.5)": reweighted(mp.mpf(0.05), mp.mpf(2.5), 0),
    "hcl(preset=released)": reweighted(mp.mpf(0.5), 1, mp.mpf(0.1)),
    "debiased": reweighted(mp.mpf(0.5), 0, mp.mpf(0.1)),
    "debiased(temperature=0.05, prior=0.02)": reweighted(mp.mpf(0.05), 0, mp.mpf(0.02)),
    "multi_similarity": multi_similarity(2, 50, mp.mpf(0.5)),
    "multi_similarity(preset=paper)": multi_similarity(2, 50, 1),
    "arctanh": softmax_of(lambda s: 2 * mp.atanh(s)),
    "tvmf": softmax_of(lambda s: ((1 + s) / (1 + 4 * (1 - s)) - 1) / mp.mpf(0.05)),
    "tvmf(concentration=0)": softmax_of(lambda s: s / mp.mpf(0.05)),
}
# Angles of the positive and of the negatives: usual ones, one negative, ties, near the ends.
EDGES = [
    (0.5, [0.9, 1.2, 1.7]),
    (1.5, [0.6, 0.6, 2.0, 0.6]),
    (0.3, [1.0]),
    (1e-4, [1e-3, 2e-3]),
    (1e-3, [1.4, 1.5, 1.6, 3.0]),
    (3.1, [3.0, 0.02]),
    (math.pi / 2, [math.pi / 2, math.pi - 1e-3]),
]


@pytest.mark.parametrize("spec", DEFINITIONS)
@pytest.mark.parametrize(("angle", "angles"), EDGES)
def test_value_and_components_are_those_of_the_definition(
    spec: str, angle: float, angles: list[float]
) -> None:
    """Value, ``∂L/∂s_j = GD W_j`` and ``-∂L/∂p`` in 40 digits, of the angles."""
    loss, define = gradlab.get_loss(spec), DEFINITIONS[spec]
    similarities = (
        PairSimilarity.from_angles(np.array(angle)),
        Negatives.from_angles(np.array(angles)),
    )
    components = loss.components(*similarities)
    with mp.workdps(40):
        cosines = [mp.cos(mp.mpf(radians)) for radians in (angle, *angles)]
        value, step, slopes = define(cosines[0], cosines[1:]), mp.mpf(10) ** -14, []
        for j in range(len(cosines)):
            ends = [[*cosines[:j], cosines[j] + sign * step, *cosines[j + 1 :]] for sign in (1, -1)]
            slopes.append(
                float(
                    (define(ends[0][0], ends[0][1:]) - define(ends[1][0], ends[1][1:])) / (2 * step)
                )
            )
    # A cosine carries 1e-16, times the slope in its logit: at most 1000 here, or 1/(1 - s).
    tolerance = 1e-13 * max(1.0, *map(abs, slopes))
    assert float(loss.value(*similarities)) == pytest.approx(float(value), rel=3e-13, abs=1e-13)
    push = components.gradient_dissipation * components.weight
    np.testing.assert_allclose(push, slopes[1:], rtol=3e-12, atol=tolerance)
    assert float(components.pull) == pytest.approx(-slopes[0], rel=3e-12, abs=tolerance)


@pytest.mark.parametrize(("angle", "angles"), EDGES)
def test_circle_is_a_softmax_with_fixed_factors(angle: float, angles: list[float]) -> None:
    """In 30 digits, the factors being those of the point and not differentiated."""
    gamma, m, loss = mp.mpf(80), mp.mpf(0.4), gradlab.get_loss("circle")
    positive = PairSimilarity.from_angles(np.array(angle))
    negatives = Negatives.from_angles(np.array(angles))
    components = loss.components(positive, negatives)
    with mp.workdps(30):
        p, s = mp.cos(mp.mpf(angle)), [mp.mpf(float(cosine)) for cosine in negatives.cosine]
        own_factor, factors = max(1 + m - p, 0), [max(cosine + m, 0) for cosine in s]
        energies = [
            mp.exp(gamma * (a * (cosine - m) - own_factor * (p - 1 + m)))
            for a, cosine in zip(factors, s, strict=True)
        ]
        total = mp.fsum(energies)
        value, gate = mp.log(1 + total), total / (1 + total)
        pushes = [
            float(gate * e / total * gamma * a) for e, a in zip(energies, factors, strict=True)
        ]
    assert float(loss.value(positive, negatives)) == pytest.approx(
        float(value), rel=1e-12, abs=1e-14
    )
    np.testing.assert_allclose(
        components.gradient_dissipation * components.weight, pushes, rtol=1e-11, atol=1e-13
    )
    assert float(components.pull) == pytest.approx(
        float(gate * gamma * own_factor), rel=1e-11, abs=1e-13
    )


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("threshold", "weight"), [(0.0, 0.7), (2.0, 0.7), (0.05, 0.0)])
def test_gor_by_loops(kind: str, threshold: float, weight: float) -> None:
    anchors, positives = batch(kind)
    own = dots(anchors, anchors)
    pairs = [own[i][j] for i in range(7) for j in other_indices(i, 7)]
    square, mean = (math.fsum(s**power for s in pairs) / 42 for power in (2, 1))
    loss_value = gradlab.get_loss("gor", threshold=threshold, mean_weight=weight)(
        anchors, positives
    )
    expected = max(0.0, square - threshold) + weight * mean**2
    assert float(loss_value) == pytest.approx(expected, rel=1e-12, abs=1e-14)


# --- what a mask leaves nothing -------------------------------------------------------------------


PAIR_NAMES = [
    name for name in gradlab.loss_names() if issubclass(loss_class(name), gradlab.PairLoss)
]


@pytest.mark.parametrize("name", PAIR_NAMES)
def test_anchors_without_negatives(name: str) -> None:
    """SigLIP and multi-similarity keep their pull; others have no push, no pull and the value 0."""
    anchors, positives = batch("clustered")
    anchors.requires_grad_()
    loss = gradlab.get_loss(f"mask({name}, above=-2)")
    values = loss(anchors, positives, reduction="none")
    (gradient,) = torch.autograd.grad(
        values.sum(), anchors, allow_unused=True, materialize_grads=True
    )
    cosines = [dots(anchors, positives)[i][i] for i in range(7)]
    alone = {
        "siglip": lambda p: math.log1p(math.exp(-10 * p + 10)),
        "multi_similarity": lambda p: math.log1p(math.exp(-2 * (p - 0.5))) / 2,
    }.get(name, lambda p: 0.0)
    np.testing.assert_allclose(values.detach(), [alone(p) for p in cosines], rtol=1e-12, atol=0)
    assert bool(torch.isfinite(gradient).all())
    assert bool(gradient.any()) == (name in ("siglip", "multi_similarity"))
    components = gradlab.components(loss, anchors.detach(), positives)
    assert not components.weight.any()
    np.testing.assert_allclose(
        components.gradient(), project(gradient, anchors.detach()), atol=1e-13
    )


# --- other libraries ------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("ours", "name", "options", "tolerance"),
    [
        ("infonce(temperature=0.07)", "NTXentLoss", {"temperature": 0.07}, 1e-10),
        ("circle(scale=8, margin=0.25)", "CircleLoss", {"m": 0.25, "gamma": 8}, 1e-10),
        # Its softplus is the identity from 20 on; the logits of the smaller scale stay below.
        ("circle(scale=80, margin=0.25)", "CircleLoss", {"m": 0.25, "gamma": 80}, 3e-9),
        ("multi_similarity", "MultiSimilarityLoss", {"alpha": 2, "beta": 50, "base": 0.5}, 1e-10),
    ],
)
def test_pytorch_metric_learning(
    kind: str, ours: str, name: str, options: dict, tolerance: float
) -> None:
    """In one direction: the other view as references, with labels of their own."""
    library = pytest.importorskip("pytorch_metric_learning.losses")
    reducers = pytest.importorskip("pytorch_metric_learning.reducers")
    library_loss = getattr(library, name)(**options, reducer=reducers.MeanReducer())
    loss, labels = gradlab.get_loss(ours), torch.arange(12)
    results = []
    for value in (
        lambda a, b: loss(a, b, normalize=True),
        lambda a, b: library_loss(a, labels, ref_emb=b, ref_labels=labels.clone()),
    ):
        views = batch(kind, 12, 9)
        results.append([value(*views), *plain_gradients(value, *views)])
    for computed, expected in zip(*results, strict=True):
        scale = max(1.0, float(expected.abs().max()))
        assert float((computed - expected).abs().max()) <= tolerance * scale


@pytest.mark.parametrize("sign", [1, -1], ids=["near", "opposite"])
def test_arctanh_of_nearly_collapsed_batches(monkeypatch, sign: int) -> None:
    """Value, coefficients and autograd against 40 digits, where float64's cosines have lost 11."""
    anchors, positives = BATCHES["nearly collapsed"](np.random.default_rng(0), 6, 5)
    positives = sign * positives
    values = gradlab.get_loss("arctanh")(anchors, positives, reduction="none")
    components = gradlab.components("arctanh", anchors, positives)
    with mp.workdps(40):
        rows = [[mp.matrix(row.tolist()) for row in view] for view in (anchors, positives)]
        rows = [[row / mp.norm(row) for row in view] for view in rows]
        odds = [[mp.exp(2 * mp.atanh((a.T * b)[0])) for b in rows[1]] for a in rows[0]]
        for i in range(6):
            total = mp.fsum(odds[i])
            assert float(values[i]) == pytest.approx(float(mp.log(total / odds[i][i])), rel=1e-9)
            for j in other_indices(i, 6):
                expected = (odds[i][j] + 1) ** 2 / 2 / total
                coefficient = mp.mpf(components.gradient_dissipation[i]) * mp.mpf(
                    components.weight[i, j]
                )
                assert abs(coefficient - expected) <= mp.mpf("1e-9") * expected, (i, j)
    cosine = anchors @ positives.T
    few = gaps_of(anchors, positives, cosine)
    monkeypatch.setattr("gradlab.batch.cosine_gaps._NEAR_ENTRIES", 40)  # some pairs at a time
    np.testing.assert_allclose(gaps_of(anchors, positives, cosine), few, rtol=1e-14)
    largest = np.abs(components.gradient_dissipation[:, None] * components.weight).max()
    assert largest > 1e9
    error = np.abs(
        components.gradient() - gradlab.autograd_gradient("arctanh", anchors, positives)
    ).max()
    assert error <= 1e-14 * largest


def test_arctanh_where_vectors_coincide_or_are_opposite() -> None:
    """Infinite where the loss is; no number is lost to it; what has no direction does not act."""
    loss, e = gradlab.get_loss("arctanh"), np.eye(3)
    anchors, positives = e[[0, 0, 2]], np.stack([e[1], e[0], -e[0]])
    values = loss(anchors, positives, reduction="none")  # touched, coinciding, at right angles
    assert values.tolist() == [math.inf, 0, pytest.approx(math.log(3))]
    for side in ("anchors", "positives"):
        components = gradlab.components(loss, anchors, positives, side=side)
        reference = gradlab.autograd_gradient(loss, anchors, positives, side=side)
        np.testing.assert_allclose(components.gradient(), reference, atol=1e-15)
    np.testing.assert_allclose(
        gradlab.components(loss, anchors, positives).gradient()[0], -2 * e[1]
    )
