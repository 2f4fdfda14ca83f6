"""Triplets, graded pairs and teachers: against autograd, loops, other libraries, and in blocks."""

from __future__ import annotations

import math

import numpy as np
import pytest

import gradlab
from gradlab.batch import unit_rows
from gradlab.losses.registry import taught_names
from tests.losses.naive_losses import assert_closed_form_is_autograd
from tests.losses.test_several_positives import (
    LABELS,
    D,
    H,
    M,
    N,
    assert_blocks_are_the_plain_loss,
    rows_with_duplicates,
    settings,
)

TEACHERS = (
    "kl(temperature=0.2)",
    "margin_mse",
    "pool(kl, negatives=other+same)",
    "pool(margin_mse, negatives=same)",
    "symmetric(kl)",
    "mask(kl, above=0.3)",
    "sum(infonce, kl, gor, embedding_distillation, weights=1+2+3+4)",
    "symmetric(sum(embedding_distillation(distance=mse), infonce))",
)
MINED = (
    "triplet",
    "triplet(mining=hard, margin=0.4)",
    "triplet(mining=semi_hard)",
    "symmetric(pool(triplet, negatives=other+same))",
)


def embeddings(extra: bool, own: bool, seed: int = 3) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    shapes = [(N, D), (N, D), *([(M, D)] if extra else []), *([(N, H, D)] if own else [])]
    return [unit_rows(rng.normal(size=shape)) for shape in shapes]


@pytest.mark.parametrize("text", [*TEACHERS, *MINED])
def test_closed_form_is_autograd_and_blocks_are_the_plain_loss(text: str) -> None:
    # Of a negative that is the positive, rounding decides whether it is semi-hard.
    anchors, positives, *_ = (
        embeddings(False, False) if "semi_hard" in text else rows_with_duplicates()
    )
    for extra, context, shape in settings(text):
        if "triplet" in text:
            contexts = [{}, {"labels": LABELS}]
        else:
            contexts = [{"teacher": embeddings(extra is not None, "own_negatives" in context)}]
        if text in TEACHERS and "embedding" not in text:
            contexts.append({"teacher": np.random.default_rng(1).normal(size=shape) / 10})
        for targets in contexts:
            rows = (anchors, positives, extra)
            assert_closed_form_is_autograd(text, rows, **context, **targets)
            assert_blocks_are_the_plain_loss(text, rows, context | targets)


def test_values_by_loops() -> None:
    anchors, positives, extra, own = rows_with_duplicates()
    teacher = np.random.default_rng(1).normal(size=(N, 1 + M + H)) / 5
    context = {"own_negatives": own, "in_batch_negatives": False, "teacher": teacher}
    kl = gradlab.get_loss("kl(temperature=0.3, teacher_temperature=0.7)")
    divergence = kl(anchors, positives, extra, "none", **context)
    margins = gradlab.get_loss("margin_mse")(anchors, positives, extra, "none", **context)
    components = gradlab.components(kl, anchors, positives, extra, **context)
    for i in range(N):
        scores = np.array([anchors[i] @ vector for vector in (positives[i], *extra, *own[i])])
        q, y = np.exp(scores / 0.3), np.exp(teacher[i] / 0.7)
        q, y = q / q.sum(), y / y.sum()
        assert divergence[i] == pytest.approx((y * np.log(y / q)).sum(), rel=1e-11)
        assert components.gradient_dissipation[i] == pytest.approx(abs(q - y).sum() / 2, rel=1e-11)
        errors = (scores[0] - scores[1:]) - (teacher[i][0] - teacher[i][1:])
        assert margins[i] == pytest.approx((errors**2).mean(), rel=1e-12)


def test_the_dissipation_of_kl_is_the_total_variation_and_its_roles_are_signs() -> None:
    anchors, positives, *_ = rows_with_duplicates()
    teacher = np.random.default_rng(1).normal(size=(N, N)) / 5
    components = gradlab.components(
        "kl(temperature=0.2, teacher_temperature=0.3)", anchors, positives, teacher=teacher
    )
    q, y = (
        np.exp(x) / np.exp(x).sum(1, keepdims=True)
        for x in (anchors @ positives.T / 0.2, teacher / 0.3)
    )
    np.testing.assert_allclose(components.gradient_dissipation, abs(q - y).sum(1) / 2, rtol=1e-12)
    pushed = components.weight.any(axis=1)
    np.testing.assert_allclose(components.ratio[pushed], 1, rtol=1e-12)
    assert np.isinf(components.ratio[~pushed]).all()
    own = np.eye(N, dtype=bool)
    np.testing.assert_array_equal(components.weight > 0, (q > y) & ~own)
    np.testing.assert_array_equal(components.pull_shares > 0, q < y)
    np.testing.assert_allclose(components.pull_shares.sum(1), pushed, atol=1e-12)
    repels = np.diagonal(q > y)  # a positive that the teacher finds less near
    assert repels.any()
    np.testing.assert_array_equal(np.diagonal(components.pull_shares) < 0, repels)
    same = gradlab.components("kl", anchors, positives, teacher=[anchors, positives])
    assert abs(same.gradient_dissipation).max() < 1e-13


def test_a_student_ahead_of_its_teacher_learns_though_no_negative_pushes() -> None:
    anchors, positives, _, own = rows_with_duplicates()
    context = {"own_negatives": own[:, :1], "in_batch_negatives": False}
    errors = (anchors * positives).sum(1) - (anchors * own[:, 0]).sum(1) + 2
    components = gradlab.components(
        "margin_mse", anchors, positives, **context, teacher=np.tile([-2.0, 0.0], (N, 1))
    )
    assert (errors > 0).all()
    np.testing.assert_allclose(components.gradient_dissipation, 2 * errors, rtol=1e-12)
    assert not components.weight.any()
    assert np.isnan(components.hardest_share).all()
    # Its pulls cancel: the positive is pushed away as hard as the negative is pulled.
    whole = gradlab.components(
        "sum(infonce, margin_mse, weights=1+0.3)",
        anchors,
        positives,
        **context,
        teacher=np.tile([-2.0, 0.0], (N, 1)),
    )
    alone = gradlab.components("infonce", anchors, positives, **context)
    np.testing.assert_allclose(whole.pull, alone.pull, rtol=1e-11)
    np.testing.assert_allclose(whole.pull_shares.sum(1), 1, rtol=1e-11)


@pytest.mark.parametrize(("distance", "pull"), [("cosine", 1.0), ("mse", 2.0)])
def test_embedding_distillation_pulls_to_the_teachers_row(distance: str, pull: float) -> None:
    anchors, positives, *_ = rows_with_duplicates()
    teacher = embeddings(False, False)
    loss = gradlab.get_loss("embedding_distillation", distance=distance)
    values = loss(anchors, positives, reduction="none", teacher=teacher)
    np.testing.assert_allclose(values, pull * (1 - (anchors * teacher[0]).sum(1)), rtol=1e-12)
    components = gradlab.components(loss, anchors, positives, teacher=teacher)
    assert (components.pull == pull).all()
    assert not components.weight.any()
    np.testing.assert_array_equal(components.target, teacher[0])


SCORES = {
    "all different": np.arange(N) * 7 % N / N,
    "grades": np.arange(N) % 3,
    "all the same": np.ones(N),
}


@pytest.mark.parametrize("kind", SCORES)
def test_graded_cosent(kind: str) -> None:
    """By definition, by autograd and in blocks; sentence-transformers has a file of its own."""
    anchors, positives, *_ = rows_with_duplicates()
    scores, tau = SCORES[kind], 0.2
    loss = gradlab.get_loss("cosent", temperature=tau)
    cosines = (anchors * positives).sum(1)
    total = 1 + sum(
        math.exp((cosines[b] - cosines[a]) / tau)
        for a in range(N)
        for b in range(N)
        if scores[a] > scores[b]
    )
    value = loss(anchors, positives, scores=scores)
    assert float(value) == pytest.approx(math.log(total), rel=1e-12, abs=1e-15)
    components = gradlab.components(loss, anchors, positives, scores=scores)
    np.testing.assert_allclose(
        components.gradient_dissipation, 1 - 1 / total, rtol=1e-12, atol=1e-15
    )
    assert (components.pull < 0).any() == (kind != "all the same")
    for text in ("cosent(temperature=0.2)", "sum(symmetric(cosent(temperature=0.2)), infonce)"):
        assert_closed_form_is_autograd(text, (anchors, positives), scores=scores)
        assert_blocks_are_the_plain_loss(text, (anchors, positives), {"scores": scores})


@pytest.mark.parametrize("name", taught_names())
def test_verify_brings_a_teacher(name: str) -> None:
    checks = gradlab.verify(name, batch_size=9, dim=6)
    assert all(check.passed for check in checks)
