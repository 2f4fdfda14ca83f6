"""Triplets, graded pairs and teachers: against autograd, loops, other libraries, and in blocks."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from test_several_positives import LABELS, D, H, M, N, rows_with_duplicates

import gradlab
from gradlab.batch.batch import unit_rows
from gradlab.losses.registry import taught_names

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


def cases(text: str) -> list[tuple]:
    """Extra negatives, and what else a call is given, a teacher's scores or embeddings among it."""
    found = []
    *_, extra, own = rows_with_duplicates()
    whole = any(word in text for word in ("symmetric", "same", "gor"))
    for queue, mine, in_batch in (
        (None, None, True),
        (extra, None, True),
        (extra, own, True),
        (None, own, False),
    ):
        if (whole and not in_batch) or ("gor" in text and mine is not None):
            continue
        given = {"in_batch_negatives": in_batch} | ({} if mine is None else {"own_negatives": mine})
        if "triplet" in text:
            found += [(queue, given), (queue, {**given, "labels": LABELS})]
            continue
        found.append((queue, {**given, "teacher": embeddings(queue is not None, mine is not None)}))
        inside = 1 if not in_batch else N * (2 if "other+same" in text else 1)
        shape = (N, inside + (0 if queue is None else M) + (0 if mine is None else H))
        if "embedding" not in text:
            found.append((queue, {**given, "teacher": np.random.default_rng(1).normal(size=shape) / 10}))
    return found


@pytest.mark.parametrize("text", [*TEACHERS, *MINED])
def test_closed_form_is_autograd_on_both_sides_and_in_blocks(text: str) -> None:
    # Of a negative that is the positive, rounding decides whether it is semi-hard.
    anchors, positives, *_ = embeddings(False, False) if "semi_hard" in text else rows_with_duplicates()
    for extra, given in cases(text):
        pair = gradlab.components(text, anchors, positives, extra, side="both", **given)
        for tangent in (True, False):
            references = gradlab.autograd_gradient(
                text, anchors, positives, extra, side="both", tangent=tangent, **given
            )
            for parts, reference in zip(pair, references, strict=True):
                error = np.abs(parts.gradient(tangent=tangent) - reference).max()
                assert error <= 1e-12 * max(1.0, np.abs(reference).max()), given
        given = {name: in_torch(one) for name, one in given.items()}
        found = []
        for loss in (gradlab.get_loss(text), gradlab.blockwise(text, 4)):
            leaves = [
                None if rows is None else torch.from_numpy(rows).requires_grad_()
                for rows in (anchors, positives, extra)
            ]
            value = loss(*leaves, **given)
            gradients = torch.autograd.grad(
                value, [one for one in leaves if one is not None], allow_unused=True
            )
            found.append([value.detach(), *(torch.zeros(1) if one is None else one for one in gradients)])
        for one, other in zip(*found, strict=True):
            torch.testing.assert_close(other, one.expand_as(other), rtol=1e-12, atol=1e-12, check_dtype=False)


def in_torch(given):
    if isinstance(given, list):
        return [torch.from_numpy(one) for one in given]
    return torch.from_numpy(given) if isinstance(given, np.ndarray) else given


def test_values_by_loops() -> None:
    anchors, positives, extra, own = rows_with_duplicates()
    teacher = np.random.default_rng(1).normal(size=(N, 1 + M + H)) / 5
    given = {"own_negatives": own, "in_batch_negatives": False, "teacher": teacher}
    divergence = gradlab.get_loss("kl(temperature=0.3, teacher_temperature=0.7)")(
        anchors, positives, extra, "none", **given
    )
    margins = gradlab.get_loss("margin_mse")(anchors, positives, extra, "none", **given)
    parts = gradlab.components(
        "kl(temperature=0.3, teacher_temperature=0.7)", anchors, positives, extra, **given
    )
    for i in range(N):
        scores = [anchors[i] @ one for one in (positives[i], *extra, *own[i])]
        q, y = ([math.exp(x / t) for x in row] for row, t in ((scores, 0.3), (teacher[i], 0.7)))
        q, y = ([x / sum(row) for x in row] for row in (q, y))
        assert divergence[i] == pytest.approx(
            sum(b * math.log(b / a) for a, b in zip(q, y, strict=True)), rel=1e-11
        )
        apart = sum(abs(a - b) for a, b in zip(q, y, strict=True)) / 2
        # The own positive has no column to push in without in-batch columns: it weakens the pull instead.
        assert parts.gradient_dissipation[i] + 0.0 == pytest.approx(
            apart - max(0.0, q[0] - y[0]), rel=1e-11, abs=1e-14
        )
        errors = [
            (scores[0] - s) - (teacher[i][0] - t) for s, t in zip(scores[1:], teacher[i][1:], strict=True)
        ]
        assert margins[i] == pytest.approx(sum(e * e for e in errors) / len(errors), rel=1e-12)


def test_the_dissipation_of_kl_is_the_total_variation_and_its_roles_are_signs() -> None:
    anchors, positives, *_ = rows_with_duplicates()
    teacher = np.random.default_rng(1).normal(size=(N, N)) / 5
    parts = gradlab.components(
        "kl(temperature=0.2, teacher_temperature=0.3)", anchors, positives, teacher=teacher
    )
    q, y = (np.exp(x) / np.exp(x).sum(1, keepdims=True) for x in (anchors @ positives.T / 0.2, teacher / 0.3))
    np.testing.assert_allclose(parts.gradient_dissipation, abs(q - y).sum(1) / 2, rtol=1e-12)
    np.testing.assert_allclose(parts.ratio, 1, rtol=1e-12)
    np.testing.assert_array_equal(parts.weight > 0, q > y)
    np.testing.assert_array_equal(parts.pull_shares > 0, q < y)
    np.testing.assert_allclose(parts.pull_shares.sum(1), 1, rtol=1e-12)
    assert np.diagonal(parts.weight).any()  # a positive that the teacher finds less near
    same = gradlab.components("kl", anchors, positives, teacher=[anchors, positives])
    assert abs(same.gradient_dissipation).max() < 1e-13


def test_embedding_distillation_pulls_to_the_teachers_row() -> None:
    anchors, positives, *_ = rows_with_duplicates()
    teacher = embeddings(False, False)
    for distance, pull in (("cosine", 1.0), ("mse", 2.0)):
        text = f"embedding_distillation(distance={distance})"
        values = gradlab.get_loss(text)(anchors, positives, reduction="none", teacher=teacher)
        np.testing.assert_allclose(values, pull * (1 - (anchors * teacher[0]).sum(1)), rtol=1e-12)
        parts = gradlab.components(text, anchors, positives, teacher=teacher)
        assert (parts.pull == pull).all()
        assert not parts.weight.any()
        np.testing.assert_array_equal(parts.target, teacher[0])


SCORES = {"all different": np.arange(N) * 7 % N / N, "grades": np.arange(N) % 3, "all the same": np.ones(N)}


@pytest.mark.parametrize("kind", SCORES)
def test_graded_cosent(kind: str) -> None:
    """Against the definition, sentence-transformers, autograd, and in blocks."""
    anchors, positives, *_ = rows_with_duplicates()
    scores, tau = SCORES[kind], 0.2
    loss = gradlab.get_loss("cosent", temperature=tau)
    cosines = (anchors * positives).sum(1)
    total = 1 + sum(
        math.exp((cosines[b] - cosines[a]) / tau) for a in range(N) for b in range(N) if scores[a] > scores[b]
    )
    assert float(loss(anchors, positives, scores=scores)) == pytest.approx(
        math.log(total), rel=1e-12, abs=1e-15
    )
    for text in (
        "cosent(temperature=0.2)",
        "symmetric(cosent(temperature=0.2))",
        "sum(cosent(temperature=0.2), infonce)",
    ):
        pair = gradlab.components(text, anchors, positives, side="both", scores=scores)
        references = gradlab.autograd_gradient(text, anchors, positives, side="both", scores=scores)
        for parts, reference in zip(pair, references, strict=True):
            np.testing.assert_allclose(parts.gradient(), reference, atol=1e-11)
    parts = gradlab.components(loss, anchors, positives, scores=scores)
    np.testing.assert_allclose(parts.gradient_dissipation, 1 - 1 / total, rtol=1e-12, atol=1e-15)
    assert (parts.pull < 0).any() == (kind != "all the same")
    leaves = [torch.from_numpy(rows).requires_grad_() for rows in (anchors, positives)]
    found = [
        one(*leaves, scores=torch.from_numpy(scores), normalize=True)
        for one in (loss, gradlab.blockwise(loss, 4))
    ]
    library = pytest.importorskip("tests.sentence_training").losses
    if kind != "all the same" and hasattr(library.CoSENTLoss, "compute_loss_from_embeddings"):
        theirs = library.CoSENTLoss(torch.nn.Identity(), scale=1 / tau)
        found.append(theirs.compute_loss_from_embeddings(leaves, torch.from_numpy(scores).double()))
    gradients = [torch.autograd.grad(one, leaves, retain_graph=True) for one in found]
    for value, gradient in zip(found[1:], gradients[1:], strict=True):
        torch.testing.assert_close(value, found[0], rtol=1e-11, atol=1e-14)
        for one, other in zip(gradient, gradients[0], strict=True):
            torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(
    ("text", "given", "message"),
    [
        *((name, {}, f"{name} needs teacher=") for name in taught_names()),
        ("kl", {"teacher": np.ones((N, N + 2))}, r"teacher has shape \(9, 11\), but an anchor has 9 candidates"),
        ("kl", {"teacher": np.ones((N + 1, N))}, "the batch has 9 anchors"),
        ("kl", {"teacher": (np.ones((N, 3)),)}, "the teacher must be embeddings of anchors, positives"),
        ("kl", {"teacher": np.full((N, N), np.inf)}, "teacher contains NaN or infinite"),
        ("symmetric(pool(kl))", {"teacher": np.ones((N, 2 * N))}, "teacher has shape"),
        ("embedding_distillation", {"teacher": [np.ones((N, 3))] * 2}, "have 3 dimensions and the batch's 5"),
        ("embedding_distillation", {"teacher": np.ones((N, N))}, "a tuple of a teacher's embeddings"),
    ],
)  # fmt: skip
def test_bad_teachers_are_one_line(text: str, given: dict, message: str) -> None:
    anchors, positives, *_ = rows_with_duplicates()
    with pytest.raises(gradlab.GradlabError, match=message) as caught:
        gradlab.get_loss(text)(anchors, positives, **given)
    assert "\n" not in str(caught.value)


def test_graded_pairs_take_no_extra_negatives() -> None:
    anchors, positives, extra, _ = rows_with_duplicates()
    with pytest.raises(gradlab.GradlabError, match="extra negatives have no score, leave them out"):
        gradlab.get_loss("cosent")(anchors, positives, extra, scores=np.arange(N))


@pytest.mark.parametrize("name", taught_names())
def test_verify_brings_a_teacher(name: str) -> None:
    checks = gradlab.verify(name, batch_size=9, dim=6)
    assert all(check.passed for check in checks)
