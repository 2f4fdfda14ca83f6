"""An absent candidate changes nothing: values, both gradients and components stay as without it.

A candidate is absent by relation 0, by a mask, or as the own column of `same`. Here it is equal or
opposite to an anchor, and a teacher scores it far above or below the others.
"""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch

import gradlab
from gradlab.batch import unit_rows
from gradlab.losses.candidate_loss import CandidateLoss
from gradlab.losses.pair_loss import PairLoss
from gradlab.losses.registry import loss_names, taught_names
from tests.losses.naive_losses import assert_closed_form_is_autograd

N, M, H, D = 6, 3, 2, 4
NAMES = [
    name
    for name in (*loss_names(), *taught_names())
    if isinstance(gradlab.get_loss(name), PairLoss | CandidateLoss)
]
FORMS = (
    "{}",
    "symmetric({})",
    "mask({}, above=-2)",
    "pool({}, negatives=other+same)",
    "pool({}, negatives=same)",
    "pool({}, negatives=own)",
    "per_prefix({}, dims=2+4)",
)


def drawn(*shape: int, seed: int = 0) -> np.ndarray:
    return unit_rows(np.random.default_rng(seed).normal(size=shape))


def gradients(text: str, rows: tuple[np.ndarray, ...], **context) -> list[np.ndarray]:
    """Values of the anchors, and their sum's gradients of the rows."""
    leaves = [torch.from_numpy(array).requires_grad_() for array in rows]
    context = {
        name: torch.from_numpy(array) if name == "teacher" else array
        for name, array in context.items()
    }
    values = gradlab.get_loss(text)(*leaves, reduction="none", **context)
    slopes = torch.autograd.grad(values.sum(), leaves, allow_unused=True, materialize_grads=True)
    return [values.detach().numpy(), *(slope.numpy() for slope in slopes)]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("rule", ["relation", "mask"])
def test_an_absent_extra_negative_changes_nothing(name: str, rule: str) -> None:
    anchors, positives, extra = drawn(N, D), drawn(N, D, seed=1), drawn(M, D, seed=2)
    columns = N + M
    relation = np.where(np.eye(N, columns, dtype=int), 1, -1)
    mask = np.zeros((N, columns), dtype=bool)
    scores = np.random.default_rng(3).normal(size=(N, columns)) / 5
    text = f"mask({name}, by=given)" if rule == "mask" else name
    context = {"mask": mask} if rule == "mask" else {"relation": relation}
    if name in taught_names():
        context["teacher"] = scores
    expected = gradients(text, (anchors, positives, extra), **context)
    fill = {"mask": True, "relation": 0}
    for sign in (1, -1):
        for score in (0.0, 1e4, -1e4, 1e30) if "teacher" in context else (0.0,):
            wider = {
                name: np.concatenate(
                    [array, np.full((N, 1), fill.get(name, score), dtype=array.dtype)], axis=1
                )
                for name, array in context.items()
            }
            rows = (anchors, positives, np.concatenate([extra, sign * anchors[:1]]))
            values, by_anchors, by_positives, by_extra = gradients(text, rows, **wider)
            # A sum over one more column, which adds 0, may round otherwise.
            for array, reference in zip(
                (values, by_anchors, by_positives, by_extra[:-1]), expected, strict=True
            ):
                limit = 1e-12 * max(1, abs(reference).max())
                np.testing.assert_allclose(array, reference, rtol=0, atol=limit)
            assert not by_extra[-1].any()
            assert_closed_form_is_autograd(text, rows, **wider)


@pytest.mark.parametrize("name", taught_names()[:2])
@pytest.mark.parametrize("pools", ["same", "other+same"])
def test_a_teacher_does_not_score_the_own_column_of_the_own_view(name: str, pools: str) -> None:
    rows, inside = (drawn(N, D), drawn(N, D, seed=1)), pools == "other+same"
    teacher = np.random.default_rng(3).normal(size=(N, N * (1 + inside))) / 5
    text = f"pool({name}, negatives={pools})"
    expected = gradients(text, rows, teacher=teacher)
    if inside:
        teacher[np.arange(N), N + np.arange(N)] = 1e20
    for array, reference in zip(gradients(text, rows, teacher=teacher), expected, strict=True):
        np.testing.assert_array_equal(array, reference)
    assert_closed_form_is_autograd(text, rows, teacher=teacher)


@pytest.mark.parametrize("name", NAMES)
def test_closed_form_is_autograd_beside_absent_candidates(name: str) -> None:
    """Random relations, whose absent candidates are equal or opposite to their anchors."""
    rng = np.random.default_rng(0)
    for form in FORMS:
        anchors, positives, own = drawn(N, D), drawn(N, D, seed=1), drawn(N, H, D, seed=2)
        only_own = form == "pool({}, negatives=own)"
        columns = 1 + H if only_own else N * (2 if "other+same" in form else 1)
        relation = rng.choice([-1, -1, 0, 1], size=(N, columns))
        for row, column in np.argwhere(relation == 0):
            vector = rng.choice([-1, 1]) * anchors[row]
            if only_own and column:
                own[row, column - 1] = vector
            elif "same" not in form and not only_own and column != row:
                positives[column] = vector
        context = {"relation": relation} | ({"own_negatives": own} if only_own else {})
        if name in taught_names():
            teacher = rng.normal(size=relation.shape) / 5
            absent = relation == 0
            teacher[absent] = rng.choice([1e5, -1e5, 1e30], size=absent.sum())
            context["teacher"] = teacher
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "relation does not call|.*have no positive")
            assert_closed_form_is_autograd(form.format(name), (anchors, positives), **context)


def test_a_teacher_far_from_its_other_scores_is_a_finite_target() -> None:
    """By logarithms, as the shares of all candidates but the largest underflow."""
    anchors, positives = drawn(N, D), drawn(N, D, seed=1)
    teacher = np.where(np.eye(N), 0.0, -1e300)
    logits = anchors @ positives.T / 0.05
    expected = np.logaddexp.reduce(logits, axis=1) - np.diagonal(logits)
    values, *slopes = gradients("kl", (anchors, positives), teacher=teacher)
    np.testing.assert_allclose(values, expected, rtol=1e-12)
    assert all(np.isfinite(slope).all() for slope in slopes)
