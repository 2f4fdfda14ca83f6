"""Compiled losses under Node against the library in numpy."""

from __future__ import annotations

import dataclasses
import math
import re
from typing import Any

import numpy as np
import pytest
from array_api_compat import array_namespace

import gradlab
from gradlab.explorer.compiler import Script, compile_script, numbers_of, replace_numbers
from gradlab.explorer.page_functions import (
    bounds,
    compile_scene,
    example,
    example_of_bounds,
    needs_batch,
    run_scene,
)
from gradlab.explorer.tracing import OPERATIONS
from gradlab.gradient.lemma import many_negatives_bound, take_step
from gradlab.losses.base import Loss
from gradlab.losses.infonce import InfoNCE
from gradlab.losses.registry import taught_names
from tests.node import run_compiled

# Without triplet, whose steps depend on how many positives there are.
NAMES = [name for name in [*gradlab.loss_names(), *taught_names()] if name != "triplet"]
COMPOUNDS = [
    gradlab.recombine(gate="infonce", weight="0.05 * infonce", ratio="arccon"),
    gradlab.recombine(gate="mpt(margin=0.3)", weight="mhe", ratio=1.5),
    gradlab.recombine(gate=1, weight="uniform", ratio="barlow_twins"),
    gradlab.get_loss("mhs", preset="as_published"),
    gradlab.get_loss("modified_mhe", preset="as_published"),
    gradlab.get_loss("dhel", preset="mirrored"),
    gradlab.get_loss("hardness(infonce, alpha=3)"),
    gradlab.get_loss("mask(infonce, above=0.8)"),
    gradlab.get_loss("symmetric(pool(arccon, negatives=other+same))"),
    gradlab.get_loss(
        "pool(mpt, negatives=other+same+positive_other+positive_same, denominators=separate)"
    ),
    gradlab.get_loss("triplet(mining=hard)"),
    gradlab.get_loss("symmetric(pool(supcon, negatives=other+same))"),
    gradlab.get_loss("sum(infonce, gor, weights=1+0.1)"),
    gradlab.get_loss("sum(kl, symmetric(embedding_distillation))"),
]


def moved(loss: Loss) -> tuple[Loss, dict[str, float]]:
    """The loss with every number changed by a fifth, and those numbers."""
    numbers = {path: 0.8 * value + 0.001 for path, value in numbers_of(loss).items()}
    return replace_numbers(loss, lambda path, _: numbers[path]), numbers


def assert_equal(actual: dict[str, Any], expected: dict[str, Any]) -> None:
    assert "error" not in actual, actual
    assert actual.keys() == expected.keys()
    sizes = [
        np.max(np.abs(value), initial=1, where=np.isfinite(value))
        for value in map(np.asarray, expected.values())
    ]
    largest = max(sizes)  # a small pull is what a projection leaves of a large one
    for name, value in expected.items():
        value = np.asarray(value, dtype=float)
        assert actual[name].shape == value.shape, name
        assert np.array_equal(np.isnan(actual[name]), np.isnan(value)), name
        with np.errstate(invalid="ignore"):
            different = np.abs(actual[name] - value)
        close = (different <= 1e-12 * largest) | (actual[name] == value) | np.isnan(value)
        assert close.all(), f"{name}: off by {np.nanmax(different):.2g} of {largest:.2g}"


def test_every_loss_computes_what_the_library_does() -> None:
    """At sizes and entries it was not compiled at, with its own and with other hyper-parameters.

    Also where positives and negatives are at tiny angles or almost opposite: triplet losses divide
    by their distances.
    """
    jobs, expected = [], []
    for loss in [*map(gradlab.get_loss, NAMES), *COMPOUNDS]:
        script, batch = compile_scene(loss), needs_batch(loss)
        moved_loss, numbers = moved(loss)
        assert script.numbers.keys() == numbers.keys(), "a number that is not adjustable"
        cases = [(loss, script.numbers, example(batch, 2))]
        cases += [(moved_loss, numbers, example(batch, variant)) for variant in (3, 4)]
        cases += [
            (loss, script.numbers, turned(batch, angle))
            for angle in (1e-6, 1e-3, 1.5, math.pi - 1e-3)
        ]
        for of, values, arrays in cases:
            jobs.append((script.text, arrays, values))
            expected.append(run_scene(of, **arrays))
    for compiled, right in zip(run_compiled(jobs), expected, strict=True):
        assert_equal(compiled, right)


def turned(batch: bool, angle: float) -> dict[str, Any]:
    """The positive at an angle from the anchor, a negative at twice that."""
    arrays = example(batch, 2)
    anchor, side = np.array([0.6, 0, 0.8]), np.array([0.8, 0, -0.6])
    arrays["anchors"][0] = anchor
    arrays["positives"][0] = math.cos(angle) * anchor + math.sin(angle) * side
    negatives = arrays["anchors" if batch else "negatives"]
    negatives[1] = math.cos(2 * angle) * anchor + math.sin(2 * angle) * np.array([0, 1.0, 0])
    return arrays


@pytest.mark.parametrize("name", NAMES)
def test_scene_is_what_the_rooms_say(name: str) -> None:
    """The scene against `components`, autograd-checked elsewhere, and a step taken by `lemma`."""
    loss = gradlab.get_loss(name)
    arrays = example(needs_batch(loss), 2)
    rows = [arrays[key] for key in ("positives", "negatives") if key in arrays]
    context = {key: arrays[key] for key in ("labels", "relation") if key in arrays}
    if "teacher" in loss.looks_at:
        context["teacher"] = (arrays["teacher"], *rows)
    components = gradlab.components(
        loss, arrays["anchors"], *rows, in_batch_negatives=len(rows) == 1, **context
    )
    scene, gradient = run_scene(loss, **arrays), components.gradient()
    largest = np.abs(gradient).max()
    np.testing.assert_allclose(scene["pull"] + scene["push"], -gradient[0], atol=1e-12 * largest)
    if (
        components.positive_weight.ndim > 1
        or components.extra_terms
        or {"pull_shares", "target"} & scene.keys()
    ):
        return
    step = take_step(
        arrays["anchors"][0],
        arrays["positives"][0],
        scene["negatives"],
        components.positive_weight[0],
        max(float(arrays["step"] * components.gradient_dissipation[0]), 1e-300),
        weight=components.weight[0],
    )
    np.testing.assert_allclose(scene["moved"], step.anchor, atol=1e-13)
    np.testing.assert_allclose(
        [scene["before"], scene["after"]], [step.before, step.after], atol=1e-13
    )


def test_bounds_are_the_lemmas() -> None:
    script = compile_script(bounds, None, example_of_bounds)
    arrays = [example_of_bounds(variant) for variant in range(2, 12)]
    jobs = [(script.text, scene, {}) for scene in [*arrays, arrays[0] | {"step": 0.0}]]
    *compiled, at_rest = run_compiled(jobs)
    for scene, limits in zip(arrays, compiled, strict=True):
        assert_equal(limits, bounds(None, **scene))
        rows = scene["anchor"], scene["positive"], scene["negatives"], scene["weight"]
        exact = many_negatives_bound(*rows, float(scene["step"]), bound="ratio")
        np.testing.assert_allclose(
            [limits["low"], limits["high"]], [exact.low, exact.high], rtol=1e-9
        )
    assert "not defined here" in at_rest["error"]


ARRAYS = {
    "a": np.array([[1.5, -2.0, 0.25], [0.0, 3.0, -0.75]]),
    "b": np.array([0.5, -1.0, 2.0]),
    "c": np.linspace(-1.7, 2.3, 24).reshape(2, 3, 4),
}
FORMULAS = {
    "unary": lambda xp, a, b, c: [
        getattr(xp, name)(a)
        for name in (
            "exp", "expm1", "sin", "cos", "tan", "atan", "sinh", "cosh", "tanh", "floor", "ceil",
            "trunc",
        )
    ]
    + [
        getattr(xp, name)(0.3 + xp.abs(a))
        for name in ("log", "log1p", "sqrt", "square", "sign", "isfinite")
    ]
    + [getattr(xp, name)(a / 4) for name in ("asin", "acos", "atanh")]
    + [xp.isinf(1 / a), xp.isnan(a / a), -a, +a, abs(a), ~(a > 0)],
    "binary": lambda xp, a, b, c: [
        a + b, a - b, 2 - a, a * b, a / b, 1 / b, a // b, a % b, abs(a) ** 1.5, 2**b, a**2, a < b,
        a <= b, a > b, a >= b, a == b, a != 0, (a > 0) & (b > 0), (a > 0) | (b > 0),
        xp.logical_xor(a > 0, b > 0), xp.atan2(a, b), xp.hypot(a, b), xp.maximum(a, b),
        xp.minimum(a, 0.1), xp.logaddexp(a, b), xp.logaddexp(a, a), xp.clip(a, -1, 1),
        xp.clip(a, min=0.2), xp.where(a > 0, b, -1.0), xp.where(a > b, a, xp.inf),
        a[:, :1] + b[None, :],
    ],
    "reductions": lambda xp, a, b, c: [
        getattr(xp, name)(c, **options)
        for name in ("sum", "prod", "mean", "max", "min", "argmax", "argmin")
        for options in ({}, {"axis": 1}, {"axis": -1, "keepdims": True})
    ]
    + [
        xp.sum(c, axis=(0, 2)), xp.all(c > -2), xp.any(c > 2, axis=0),
        xp.count_nonzero(c > 0, axis=1), xp.max(xp.where(c > 0, c, xp.nan), axis=2),
    ]
    + [xp.linalg.vector_norm(c, axis=axis) for axis in (0, 1, -1, None)],
    "products": lambda xp, a, b, c: [
        a @ b, b @ a.T, a @ a.T, a @ c, c @ c[0].T, xp.vecdot(a, b), a.mT, xp.matrix_transpose(c),
        xp.permute_dims(c, (2, 0, 1)), xp.linalg.diagonal(c), xp.tril(c), xp.triu(c, k=1),
    ],
    "shapes": lambda xp, a, b, c: [
        xp.reshape(c, (-1, 4)), xp.reshape(a, a.shape), xp.reshape(c, (-1,)),
        xp.broadcast_to(b, (4, 3)), xp.expand_dims(a, axis=1), xp.squeeze(a[:, None, :], axis=1),
        xp.concat([a, a + 1], axis=0), xp.concat([a, b[None, :] + a], axis=1),
        xp.stack([a, 2 * a], axis=1), *xp.broadcast_arrays(a, b, b[None, :]), xp.zeros_like(a),
        xp.ones_like(a), xp.full_like(a, 3.5), xp.asarray(a),
        xp.eye(3) + xp.zeros((3, 3)) + xp.ones(3) + xp.full((1, 3), 2.0) + b,
        xp.astype(a > 0, a.dtype), xp.astype(a, xp.int64) + 0.5 * a,
    ],
    "indices": lambda xp, a, b, c: [
        c[0], c[-1, 1], c[..., 0], c[:, None, 1:], c[:, ::2, ::-1], c[1, ..., -1:], a[:1, :],
        b[None, :, None], c[xp.argmax(b) - 1 + xp.arange(1)], c[:, xp.asarray([2, 0, 2])],
        xp.take(c, xp.argmax(c[:, 0, :], axis=1), axis=2),
        xp.take_along_axis(c, xp.argmax(c, axis=-1)[..., None], axis=-1),
        xp.take_along_axis(c, xp.argmin(c, axis=1)[:, None, :], axis=1),
        b[xp.arange(b.shape[0]) - 1], xp.arange(1, 7, 2) * 1.0, xp.arange(c.shape[2] - 1) + b,
    ],
}  # fmt: skip


def evaluate(formulas: Any, arrays: dict[str, Any]) -> dict[str, Any]:
    with np.errstate(all="ignore"):
        return {
            f"f{i}": value
            for i, value in enumerate(formulas(array_namespace(arrays["a"]), **arrays))
        }


def compile_formulas(formulas: Any) -> Script:
    return compile_script(
        lambda _, **arrays: evaluate(formulas, arrays), None, lambda variant: ARRAYS
    )


@pytest.mark.parametrize("group", FORMULAS)
def test_every_operation_is_numpys(group: str) -> None:
    compiled = run_compiled([(compile_formulas(FORMULAS[group]).text, ARRAYS, {})])[0]
    assert_equal(compiled, evaluate(FORMULAS[group], ARRAYS))


def test_all_operations_are_tested() -> None:
    """Those that the formulas above and the losses use are all there are."""
    scripts = [compile_formulas(formulas) for formulas in FORMULAS.values()]
    scripts += [compile_scene(gradlab.get_loss(name)) for name in NAMES]
    used = {name for script in scripts for name in re.findall(r"\$\.(\w+)\(", script.text)}
    assert {name.replace(".", "_") for name in OPERATIONS} == used - {"require"}


@dataclasses.dataclass(frozen=True)
class Strange(InfoNCE):
    """A user's loss, with a number that decides and one that only counts."""

    hardness: float = 0.5
    switch: float = 1.0
    form: str = "scale"

    def positive_logit(self, positive: Any) -> Any:
        cosine = positive.cosine
        ways = {
            "scale": lambda: cosine * (self.hardness if self.switch > 0.3 else 1.0),
            "ufunc": lambda: np.cos(positive.angle) * math.exp(self.hardness),
            "rounded": lambda: cosine * int(99 * self.hardness),
            "float": lambda: float(cosine[0]),
            "unknown": lambda: array_namespace(cosine).cumulative_sum(cosine),
        }
        return ways[self.form]() / self.temperature


def test_a_users_loss_and_its_choices() -> None:
    """A comparison of a number is kept as a condition, what Python makes of one is fixed."""
    script, ufunc = compile_scene(Strange()), compile_scene(Strange(form="ufunc"))
    assert set(script.numbers) == {"temperature", "hardness", "switch"}
    arrays = example(False, 2)
    held, shifted, broken = run_compiled(
        [
            (script.text, arrays, {**script.numbers, "hardness": 0.7}),
            (ufunc.text, arrays, {**ufunc.numbers, "hardness": 0.2}),
            (script.text, arrays, {**script.numbers, "switch": 0.1}),
        ]
    )
    assert_equal(held, run_scene(Strange(hardness=0.7), **arrays))
    assert_equal(shifted, run_scene(Strange(form="ufunc", hardness=0.2), **arrays))
    assert "not defined here" in broken["error"]
    assert set(compile_scene(Strange(form="rounded", hardness=0.45)).numbers) == {
        "temperature",
        "switch",
    }


@pytest.mark.parametrize(
    ("loss", "message"),
    [
        (Strange(form="float"), r"infonce cannot be compiled: TypeError: float\(\) argument"),
        (Strange(form="unknown"), "'cumulative_sum'"),
    ],
)
def test_what_cannot_be_compiled_is_named(loss: Loss, message: str) -> None:
    with pytest.raises(gradlab.GradlabError, match=message):
        compile_scene(loss)


@pytest.mark.parametrize(
    ("count", "message"),
    [(lambda x: len(range(x.shape[0])), "depends on sizes"), (lambda x: x.shape[0] & 1, "bits")],
)
def test_what_python_makes_of_a_size_is_refused(count: Any, message: str) -> None:
    with pytest.raises(gradlab.GradlabError, match=message):
        compile_script(
            lambda _, x: {"y": x * count(x)}, None, lambda variant: {"x": np.ones(3 + variant)}
        )
