"""Components against mpmath, straight from the definitions, where float64 has least to spare."""

from __future__ import annotations

import itertools
import math

import mpmath as mp
import numpy as np
import pytest
import torch

import gradlab
from gradlab.batch import unit_rows
from gradlab.batch.similarity import Negatives, PairSimilarity
from gradlab.losses.registry import combinator_names

mp.mp.dps = 50

# Each maps angles (positive; list of negatives) and hyper-parameters to (GD, [W], R), in 50 digits.


def softmax_reference(positive, negatives, temperature, margin=0):
    exponentials = [mp.exp(mp.cos(n) / temperature) for n in negatives]
    total = mp.fsum(exponentials)
    own = mp.exp(mp.cos(positive + margin) / temperature)
    ratio = mp.sin(positive + margin) / mp.sin(positive)
    return total / (total + own), [e / total / temperature for e in exponentials], ratio


def triplet_reference(distance, slope):
    def reference(positive, negatives, margin):
        hardest = max(range(len(negatives)), key=lambda k: mp.cos(negatives[k]))
        gate = mp.mpf(distance(negatives[hardest]) - distance(positive) < margin)
        weight = [slope(n) if k == hardest else mp.mpf(0) for k, n in enumerate(negatives)]
        return gate, weight, slope(positive) / slope(negatives[hardest])

    return reference


REFERENCES = {
    "infonce": softmax_reference,
    "arccon": softmax_reference,
    "mpt": triplet_reference(lambda t: -mp.cos(t), lambda t: mp.mpf(1)),
    "met": triplet_reference(
        lambda t: mp.sqrt(2 - 2 * mp.cos(t)), lambda t: 1 / mp.sqrt(2 - 2 * mp.cos(t))
    ),
    "mat": triplet_reference(lambda t: mp.acos(mp.cos(t)), lambda t: 1 / mp.sin(t)),
}


def parameters(loss) -> dict[str, mp.mpf]:
    names = ("temperature", "margin")
    return {name: mp.mpf(getattr(loss, name)) for name in names if hasattr(loss, name)}


def assert_relative(actual: float, expected: mp.mpf, tolerance: float, title: str) -> None:
    off = abs(mp.mpf(float(actual)) - expected)
    assert off <= tolerance * abs(expected), (title, actual, expected)


@pytest.mark.parametrize(
    ("name", "temperature"),
    [
        *itertools.product(("infonce", "arccon"), (0.01, 0.05, 1.0)),
        *((name, None) for name in ("mpt", "met", "mat")),
    ],
)
@pytest.mark.parametrize(
    "positive", [1e-7, 1e-6, 1e-4, 0.5, 1.5, 3.0, math.pi - 1e-6, math.pi - 1e-7]
)
def test_components_from_angles(name: str, positive: float, temperature: float | None) -> None:
    settings = {} if temperature is None else {"temperature": temperature}
    loss = gradlab.get_loss(name, **settings)
    for hardest in (1e-6, 0.3, 1.4):
        negatives = np.array([2.0, hardest, 1.9, 3.1])
        components = loss.components(
            PairSimilarity.from_angles(np.array(positive)), Negatives.from_angles(negatives)
        )
        expected = REFERENCES[name](
            mp.mpf(positive), [mp.mpf(n) for n in negatives], **parameters(loss)
        )
        # A softmax multiplies the rounding of cosines, 2e-16, by 1/τ.
        soft = 1e-10 if not settings else 1e-10 + 8e-16 / temperature
        assert_relative(components.gradient_dissipation, expected[0], soft, "dissipation")
        for actual, weight in zip(components.weight, expected[1], strict=True):
            assert_relative(actual, weight, soft, "weight")
        assert_relative(components.ratio, expected[2], 1e-10, "ratio")


def exact_angle(first: np.ndarray, second: np.ndarray) -> mp.mpf:
    """Angle of two float64 vectors, in 50 digits."""
    u, v = ([mp.mpf(float(x)) for x in vector] for vector in (first, second))
    nu, nv = (mp.sqrt(mp.fsum(x * x for x in w)) for w in (u, v))
    minus = mp.sqrt(mp.fsum((a / nu - b / nv) ** 2 for a, b in zip(u, v, strict=True)))
    plus = mp.sqrt(mp.fsum((a / nu + b / nv) ** 2 for a, b in zip(u, v, strict=True)))
    return 2 * mp.atan2(minus, plus)


def nearly_collapsed(spread: float, count: int, dim: int) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    centre = unit_rows(rng.normal(size=(1, dim)))
    return [unit_rows(centre + spread * rng.normal(size=(count, dim))) for _ in range(2)]


@pytest.mark.parametrize("name", REFERENCES)
@pytest.mark.parametrize("spread", [1e-6, 1e-5, 1e-2])
def test_components_of_nearly_collapsed_embeddings(name: str, spread: float) -> None:
    """From embeddings whose angles are all about ``spread``: relative error at most 1e-10."""
    views = nearly_collapsed(spread / 4, 6, 16)
    loss = gradlab.get_loss(name)
    components = gradlab.components(loss, *views)
    for i in range(6):
        candidates = [j for j in range(6) if j != i]
        negatives = [exact_angle(views[0][i], views[1][j]) for j in candidates]
        positive = exact_angle(views[0][i], views[1][i])
        expected = REFERENCES[name](positive, negatives, **parameters(loss))
        assert_relative(components.gradient_dissipation[i], expected[0], 1e-10, "dissipation")
        for j, weight in zip(candidates, expected[1], strict=True):
            assert_relative(components.weight[i, j], weight, 1e-10, "weight")
        assert_relative(components.ratio[i], expected[2], 1e-10, "ratio")


def test_chords_at_the_smallest_angles() -> None:
    for angle in (1e-7, 1e-6, 1e-3, 1.0, 3.0, math.pi - 1e-6):
        pair = PairSimilarity.from_angles(np.array(angle))
        exact = mp.mpf(angle)
        assert_relative(pair.sine, mp.sin(exact), 1e-15 if angle < 3 else 2e-10, "sine")
        assert_relative(pair.one_minus_cosine, 1 - mp.cos(exact), 1e-15, "1 - cosine")
        assert_relative(pair.angle, exact, 1e-15, "angle")
        assert abs(float(pair.cosine) - float(mp.cos(exact))) <= 4e-16


def crowded_batch(kind: str, count: int = 6, dim: int = 24) -> list[np.ndarray]:
    """Rows (nearly) equal or opposite, and three extra negatives, the first an anchor."""
    rng = np.random.default_rng(4)
    rows, centre = unit_rows(rng.normal(size=(count, dim))), unit_rows(rng.normal(size=(1, dim)))
    near = unit_rows(centre + 0.005 * rng.normal(size=(count, dim)))
    views = {
        "near pairs": (rows, unit_rows(rows + 0.005 * rng.normal(size=(count, dim)))),
        "nearer": (unit_rows(centre + 1e-5 * near), unit_rows(centre + 1e-5 * rows)),
        "collapsed": (np.repeat(centre, count, 0), np.repeat(centre, count, 0)),
        "opposite pairs": (rows, -rows),
    }[kind]
    return [*views, np.concatenate([views[0][:1], unit_rows(rng.normal(size=(2, dim)))])]


def results(loss, rows: list) -> dict[str, np.ndarray]:
    """Values, components of both sides and gradients, where nothing acts without the ratio."""
    tensors = {"value": loss(*rows, reduction="sum")}
    for side in gradlab.components(loss, *rows, side="both"):
        for name in ("gradient_dissipation", "weight", "pull"):
            tensors[f"{name} of the {side.side}"] = getattr(side, name)
        tensors[f"gradient of the {side.side}"] = side.gradient()
    if isinstance(rows[0], torch.Tensor):
        gradients = gradlab.autograd_gradient(loss, *rows, side="both")
        tensors |= {
            "autograd of the anchors": gradients[0],
            "autograd of the positives": gradients[1],
        }
    return {
        name: np.asarray(array.double() if isinstance(array, torch.Tensor) else array)
        for name, array in tensors.items()
    }


NAMES = [name for name in gradlab.loss_names() if name not in combinator_names()]


@pytest.mark.filterwarnings("ignore:overflow encountered in cast")
@pytest.mark.parametrize("kind", ["near pairs", "nearer", "collapsed", "opposite pairs"])
@pytest.mark.parametrize("name", NAMES)
def test_nothing_is_nan_that_a_dtype_can_hold(name: str, kind: str) -> None:
    """Against float64 on the same rows, in numpy and torch.

    What is finite and in range there is finite in every dtype.
    """
    takes_temperature = "temperature" in gradlab.get_loss(name).__dataclass_fields__
    tight = f"{name}(temperature=0.01)" if takes_temperature else name
    views = crowded_batch(kind)
    for text in dict.fromkeys([name, tight, f"symmetric({tight})"]):
        loss = gradlab.get_loss(text)
        for dtype in (torch.float32, torch.float16, torch.bfloat16):
            rows = [torch.from_numpy(view).to(dtype) for view in views]
            exact = results(loss, [torch.nn.functional.normalize(view.double()) for view in rows])
            kinds = [rows] if dtype == torch.bfloat16 else [rows, [view.numpy() for view in rows]]
            for outcome in (results(loss, rows_of_kind) for rows_of_kind in kinds):
                for name, values in outcome.items():
                    held = np.isfinite(exact[name]) & (np.abs(exact[name]) < 1e37)
                    assert np.isfinite(values[held]).all(), (text, dtype, name)


@pytest.mark.parametrize(
    "text",
    [
        "infonce(temperature=0.01)",
        "symmetric(infonce(temperature=0.01))",
        "cosent(temperature=0.01)",
    ],
)
def test_clips_temperature_in_float32(text: str) -> None:
    """Totals below the smallest normal number, of which the reciprocal is infinite."""
    rng = np.random.default_rng(0)
    anchors = unit_rows(rng.normal(size=(32, 768)))
    positives = unit_rows(anchors + 0.005 * rng.normal(size=anchors.shape))
    whole, single = (
        gradlab.components(text, anchors.astype(dtype), positives.astype(dtype), side="both")
        for dtype in (np.float64, np.float32)
    )
    for exact, actual in zip(whole, single, strict=True):
        assert np.isfinite(actual.weight).all()
        tolerance = 1e-30 + 1e-3 * np.abs(exact.gradient()).max()
        np.testing.assert_allclose(actual.gradient(), exact.gradient(), atol=tolerance)
        # Of totals that have all digits the shares have them too.
        normal = exact.gradient_dissipation > 1e-37
        np.testing.assert_allclose(
            actual.weight[normal].sum(1), exact.weight[normal].sum(1), rtol=1e-5
        )


@pytest.mark.parametrize("name", ["infonce(temperature=0.01)", "mpt", "mhe", "siglip"])
def test_autocast_does_not_change_the_precision_of_a_loss(name) -> None:
    rows = [
        unit_rows(view)
        for view in torch.randn(2, 16, 32, generator=torch.Generator().manual_seed(0))
    ]
    loss, computed = gradlab.get_loss(name), []
    for half in (False, True):
        ends = [view.clone().requires_grad_() for view in rows]
        with torch.autocast("cpu", torch.bfloat16, enabled=half):
            value = loss(*ends)
            components = gradlab.components(loss, *rows)
            gradient = gradlab.autograd_gradient(loss, *rows)
        computed.append(
            (
                value,
                *torch.autograd.grad(value, ends),
                components.gradient(),
                components.weight,
                gradient,
            )
        )
    torch.testing.assert_close(*computed, rtol=0, atol=0)


@pytest.mark.parametrize("name", ["kl", "margin_mse", "embedding_distillation"])
def test_no_gradient_reaches_a_teacher(name) -> None:
    drawn = torch.randn(4, 8, 4, generator=torch.Generator().manual_seed(0)).double()
    a, p, *teacher = (unit_rows(drawn_rows).requires_grad_() for drawn_rows in drawn)
    gradients = []
    for loss in (gradlab.get_loss(name), gradlab.blockwise(name)):
        value = loss(a, p, teacher=tuple(teacher))
        options = {"allow_unused": True, "retain_graph": True}
        assert torch.autograd.grad(value, teacher, **options) == (None, None)
        gradients.append(torch.autograd.grad(value, (a, p), materialize_grads=True, **options))
    torch.testing.assert_close(*gradients, rtol=0, atol=1e-12)
