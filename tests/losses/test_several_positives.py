"""Losses of several positives: against autograd, loops, other libraries, and in blocks."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
import torch

import gradlab
from gradlab.batch import unit_rows
from gradlab.losses.combinator import OtherCandidates
from gradlab.losses.registry import taught_names
from tests.losses.naive_losses import assert_closed_form_is_autograd, plain_gradients

N, M, H, D = 9, 4, 3, 5
LABELS = np.array([0, 1, 1, 0, 2, 2, 1, 3, 0])
NAMES = ("supcon", "sincere", "mil_nce")
FORMS = (
    "{}",
    "symmetric({})",
    "pool({}, negatives=other+same)",
    "pool({}, negatives=same)",
    "symmetric(pool({}, negatives=other+same))",
    "mask({}, above=0.3)",
    "sum({}, infonce, gor, weights=2+1+0.5)",
)


def rows_with_duplicates(seed: int = 0) -> tuple[np.ndarray, ...]:
    """Anchors, positives, extra and own negatives; two sentences coincide in or across views."""
    rng = np.random.default_rng(seed)
    anchors = unit_rows(rng.normal(size=(N, D)))
    positives = unit_rows(anchors + 0.7 * rng.normal(size=(N, D)))
    positives[3], anchors[4], positives[6] = positives[1], anchors[5], anchors[6]
    return (
        anchors,
        positives,
        unit_rows(rng.normal(size=(M, D))),
        unit_rows(rng.normal(size=(N, H, D))),
    )


def settings(text: str) -> list[tuple[np.ndarray | None, dict, tuple[int, int]]]:
    """Extra negatives, a call's other arguments, the shape of what is said of each candidate."""
    calls = []
    *_, extra, own = rows_with_duplicates()
    whole = any(word in text for word in ("symmetric", "same", "gor"))
    for queue, own_negatives, inside in (
        (None, None, N),
        (extra, None, N),
        (extra, own, N),
        (None, own, 1),
    ):
        if (whole and inside == 1) or ("gor" in text and own_negatives is not None):
            continue
        context = {"in_batch_negatives": inside == N} | (
            {} if own_negatives is None else {"own_negatives": own_negatives}
        )
        width = inside * (2 if "other+same" in text else 1)
        shape = (N, width + (0 if queue is None else M) + (0 if own_negatives is None else H))
        calls.append((queue, context, shape))
    return calls


def in_torch(argument):
    if isinstance(argument, list):
        return [torch.from_numpy(array) for array in argument]
    return torch.from_numpy(argument) if isinstance(argument, np.ndarray) else argument


def assert_blocks_are_the_plain_loss(text: str, rows: tuple, context: dict) -> None:
    context = {name: in_torch(array) for name, array in context.items()}
    evaluations = []
    for loss in (gradlab.get_loss(text), gradlab.blockwise(text, 4)):
        leaves = [
            None if array is None else torch.from_numpy(array).requires_grad_() for array in rows
        ]
        value = loss(*leaves, **context)
        embeddings = [array for array in leaves if array is not None]
        gradients = torch.autograd.grad(
            value, embeddings, allow_unused=True, materialize_grads=True
        )
        evaluations.append([value.detach(), *gradients])
    torch.testing.assert_close(*evaluations, rtol=1e-12, atol=1e-12)


@pytest.mark.filterwarnings("ignore:.*rows of relation have no positive")
@pytest.mark.parametrize(
    "text",
    [
        *(form.format(name) for form in FORMS for name in NAMES),
        "symmetric(infonce)",
        "pool(met, negatives=other+same)",
        "siglip",
    ],
)
def test_closed_form_is_autograd_and_blocks_are_the_plain_loss(text: str) -> None:
    anchors, positives, *_ = rows_with_duplicates()
    for extra, context, shape in settings(text):
        relation = np.random.default_rng(0).integers(-1, 2, size=shape)
        for roles in ({}, {"labels": LABELS}, {"relation": relation}):
            rows = (anchors, positives, extra)
            assert_closed_form_is_autograd(text, rows, **context, **roles)
            assert_blocks_are_the_plain_loss(text, rows, context | roles)


@pytest.mark.parametrize("name", [*NAMES, "kl"])
@pytest.mark.parametrize("pools", ["own", "extra", "extra+own"])
def test_pools_beside_the_batch(name: str, pools: str) -> None:
    """The positive comes first where there are no in-batch columns."""
    anchors, positives, extra, own = rows_with_duplicates()
    shape = (N, 1 + M * ("extra" in pools) + H * ("own" in pools))
    rng = np.random.default_rng(2)
    relation = rng.integers(-1, 2, size=shape)
    relation[:, 0] = 1
    context = {"teacher": rng.normal(size=shape) / 5} if name == "kl" else {"relation": relation}
    text, rows = f"pool({name}, negatives={pools})", (anchors, positives, extra)
    assert_closed_form_is_autograd(text, rows, own_negatives=own, **context)


def by_loops(name: str, positives: list[float], negatives: list[float]) -> float:
    """From the definitions."""
    p, n = [math.exp(x) for x in positives], [math.exp(x) for x in negatives]
    if name == "supcon":
        return -sum(math.log(exponential / (sum(p) + sum(n))) for exponential in p) / len(p)
    if name == "sincere":
        return -sum(math.log(exponential / (exponential + sum(n))) for exponential in p) / len(p)
    return -math.log(sum(p) / (sum(p) + sum(n)))


@pytest.mark.parametrize("name", NAMES)
def test_values_by_loops(name: str) -> None:
    anchors, positives, extra, own = rows_with_duplicates()
    loss = gradlab.get_loss(name, temperature=0.3)
    plain = loss(anchors, positives, extra, "none", labels=LABELS, own_negatives=own)
    pooled = gradlab.get_loss("pool", loss=loss)(anchors, positives, extra, "none", labels=LABELS)
    for i in range(N):
        across, same, queue, own_logits = (
            rows @ anchors[i] / 0.3 for rows in (positives, anchors, extra, own[i])
        )
        mates, alone = LABELS[i] == LABELS, np.arange(N) == i
        expected = by_loops(name, across[mates], [*across[~mates], *queue, *own_logits])
        assert plain[i] == pytest.approx(expected, rel=1e-12)
        pulls = [*across[mates], *same[mates & ~alone]]
        expected = by_loops(name, pulls, [*across[~mates], *same[~mates], *queue])
        assert pooled[i] == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("context", [{}, {"labels": np.arange(N)}])
def test_without_labels_they_are_infonce(name: str, context: dict) -> None:
    anchors, positives, extra, _ = rows_with_duplicates()
    components = gradlab.components(
        f"{name}(temperature=0.2)", anchors, positives, extra, **context
    )
    expected = gradlab.components("infonce(temperature=0.2)", anchors, positives, extra)
    for attribute in ("gradient_dissipation", "weight"):
        np.testing.assert_allclose(
            getattr(components, attribute), getattr(expected, attribute), rtol=1e-10, atol=1e-14
        )
    np.testing.assert_allclose(components.ratio, 1, rtol=1e-12)


@pytest.mark.parametrize("name", NAMES)
def test_pull_shares_say_who_pulls_and_whom_supcon_repels(name: str) -> None:
    anchors, positives, *_ = rows_with_duplicates()
    mates = LABELS[:, None] == LABELS
    exponentials = np.exp(anchors @ positives.T / 0.1)
    crowded = mates & (
        exponentials / exponentials.sum(1, keepdims=True) > 1 / mates.sum(1, keepdims=True)
    )
    assert crowded.any()
    components = gradlab.components(f"{name}(temperature=0.1)", anchors, positives, labels=LABELS)
    np.testing.assert_allclose(components.pull_shares.sum(1), 1, rtol=1e-9)
    assert not components.pull_shares[~mates].any()
    assert not components.weight[mates].any()
    np.testing.assert_array_equal(components.pull_shares < 0, crowded & (name == "supcon"))
    np.testing.assert_allclose(components.towards, components.pull_shares @ positives, rtol=1e-13)
    if name == "mil_nce":
        expected = np.where(mates, exponentials, 0)
        expected /= expected.sum(1, keepdims=True)
        np.testing.assert_allclose(components.pull_shares, expected, rtol=1e-11, atol=1e-15)


@pytest.mark.parametrize("kind", ["labels", "relation"])
@pytest.mark.parametrize(
    "name", ["met", "siglip", "pool(arccon, negatives=other+same)", "symmetric(dcl)"]
)
def test_losses_of_one_positive_leave_the_others_out(name: str, kind: str) -> None:
    """As a mask of the same pairs does."""
    anchors, positives, *_ = rows_with_duplicates()
    mates = LABELS[:, None] == LABELS
    wide = np.concatenate([mates, mates], axis=1) if "same" in name else mates
    context = {"labels": LABELS} if kind == "labels" else {"relation": np.where(wide, 1, -1)}
    masked = f"mask({name}, by=given)"
    sides = gradlab.components(name, anchors, positives, side="both", **context)
    expected = gradlab.components(masked, anchors, positives, side="both", mask=mates)
    for components, reference in zip(sides, expected, strict=True):
        np.testing.assert_array_equal(components.gradient(), reference.gradient())
        np.testing.assert_array_equal(components.weight, reference.weight)
    value = gradlab.get_loss(masked)(anchors, positives, mask=mates)
    assert gradlab.get_loss(name)(anchors, positives, **context) == value


@pytest.mark.filterwarnings("ignore:.*rows of relation have no positive")
@pytest.mark.parametrize("name", ["infonce", "siglip", "supcon"])
def test_a_row_without_a_positive_is_left_out_counted_and_said(name: str) -> None:
    anchors, positives, *_ = rows_with_duplicates()
    relation = 2 * np.eye(N, dtype=int) - 1
    relation[2, 2] = relation[5, 5] = -1
    with pytest.warns(UserWarning, match="2 of 9 rows of relation have no positive"):
        values = gradlab.get_loss(name)(anchors, positives, reduction="none", relation=relation)
    components = gradlab.components(name, anchors, positives, relation=relation)
    reference = gradlab.autograd_gradient(name, anchors, positives, relation=relation)
    assert values[[2, 5]].tolist() == [0, 0]
    assert (values[[0, 1, 3]] > 0).all()
    np.testing.assert_allclose(components.gradient(), reference, atol=1e-12)
    assert not components.gradient()[[2, 5]].any()
    assert components.statistics["without_positives"] == pytest.approx(2 / 9)


def test_margin_mse_leaves_out_an_anchor_whose_own_pair_is_no_positive() -> None:
    """By loops, with a declared negative and a pair that is neither as own pairs."""
    anchors, positives, *_ = rows_with_duplicates()
    teacher = np.random.default_rng(1).normal(size=(N, N)) / 5
    relation = 2 * np.eye(N, dtype=int) - 1
    relation[2, 2], relation[5, 5], relation[2, 3], relation[5, 0] = 0, -1, 1, 1
    relation[0, 4] = 0
    with pytest.warns(UserWarning, match="own pair of 2 of 9 anchors a positive: margin_mse"):
        values = gradlab.get_loss("margin_mse")(
            anchors, positives, reduction="none", relation=relation, teacher=teacher
        )
    cosines = anchors @ positives.T
    for i in range(N):
        if relation[i, i] != 1:
            assert values[i] == 0
            continue
        errors = [
            (cosines[i, i] - cosines[i, j]) - (teacher[i, i] - teacher[i, j])
            for j in range(N)
            if relation[i, j] == -1
        ]
        assert values[i] == pytest.approx(np.mean(np.square(errors)), rel=1e-12)
    assert_closed_form_is_autograd(
        "margin_mse", (anchors, positives), relation=relation, teacher=teacher
    )
    components = gradlab.components(
        "margin_mse", anchors, positives, relation=relation, teacher=teacher
    )
    assert components.statistics["without_positives"] == pytest.approx(2 / 9)


@pytest.mark.parametrize(
    "text", ["infonce", "mpt", "symmetric(infonce)", "supcon", "pool(siglip, negatives=other+same)"]
)
@pytest.mark.parametrize("columns", [1, 3, N - 1, N + 5])
def test_a_relation_of_another_width_is_refused_in_a_line(text: str, columns: int) -> None:
    anchors, positives, *_ = rows_with_duplicates()
    relation = np.where(np.eye(N, columns, dtype=int), 1, -1)
    relation[:, 0] = 1
    for function in (gradlab.get_loss(text), gradlab.blockwise(text, 4)):
        rows = map(torch.from_numpy, (anchors, positives))
        with pytest.raises(gradlab.GradlabError, match=rf"relation .* of shape \(9, {columns}\)"):
            function(*rows, relation=relation)
    with pytest.raises(gradlab.GradlabError, match=rf"relation .* of shape \(9, {columns}\)"):
        gradlab.components(text, anchors, positives, side="both", relation=relation)


@pytest.mark.filterwarnings("error")
def test_the_own_pair_is_the_first_column_of_a_pool_beside_the_batch() -> None:
    anchors, positives, _, own = rows_with_duplicates()
    relation = -np.ones((N, 1 + H), dtype=int)
    relation[:, 0] = 1
    loss = gradlab.get_loss("pool(infonce, negatives=own)")
    assert loss(anchors, positives, own_negatives=own, relation=relation) == loss(
        anchors, positives, own_negatives=own
    )


def test_khoslas_loss_of_two_views() -> None:
    """pytorch-metric-learning's SupCon of 2N rows, and its gradient."""
    library = pytest.importorskip("pytorch_metric_learning.losses")
    views = [torch.from_numpy(rows) for rows in rows_with_duplicates()[:2]]
    ours = gradlab.get_loss("symmetric(pool(supcon(temperature=0.2), negatives=other+same))")
    library_loss, labels = library.SupConLoss(temperature=0.2), torch.from_numpy(LABELS).repeat(2)
    evaluations = [
        [value(*views), *plain_gradients(value, *views)]
        for value in (
            lambda a, b: ours(a, b, labels=LABELS, normalize=True),
            lambda a, b: library_loss(torch.cat([a, b]), labels),
        )
    ]
    torch.testing.assert_close(*evaluations, rtol=1e-10, atol=1e-10)


@dataclasses.dataclass(frozen=True)
class WithoutNeighbours(OtherCandidates):
    """Leaves out the sentences beside one's own; the rule answers in numpy."""

    must_leave_negatives = False

    def inner_batch(self, views):
        return views.with_candidates(rules=(*views.candidates.rules, self))

    def left_out(self, block, cosine, views):
        rows = np.arange(len(cosine))
        return abs(rows[:, None] - rows) <= 1


def test_a_rule_in_numpy_serves_tensors() -> None:
    anchors, positives, *_ = rows_with_duplicates()
    loss = WithoutNeighbours("supcon")
    loss_value = loss(*map(torch.from_numpy, (anchors, positives)), labels=LABELS)
    assert float(loss_value) == pytest.approx(loss(anchors, positives, labels=LABELS), rel=1e-12)
    assert float(loss_value) != pytest.approx(
        loss.loss(anchors, positives, labels=LABELS), rel=1e-3
    )


@pytest.mark.parametrize(
    ("text", "context", "message"),
    [
        (
            "supcon", {"labels": LABELS[:5]},
            r"labels must be whole numbers of shape \(9,\), not int64 of shape \(5,\); "
            r"there are 9 anchors",
        ),
        ("supcon", {"labels": LABELS, "relation": np.ones((N, N), dtype=int)}, "give one of them"),
        (
            "supcon", {"relation": 2 * np.ones((N, N), dtype=int)},
            r"must be 1 \(positive\), -1 \(negative\) or 0",
        ),
        *((name, {}, f"{name} needs teacher=") for name in taught_names()),
        (
            "kl", {"teacher": np.ones((N, N + 2))},
            r"teacher must be numbers of shape \(9, 9\) or \(9, 18\), not float64",
        ),
        ("kl", {"teacher": np.full((N, N), np.inf)}, "teacher contains NaN or infinite"),
        (
            "embedding_distillation", {"teacher": [np.ones((N, 3))] * 2},
            "have 3 dimensions and the batch's 5",
        ),
    ],
)  # fmt: skip
def test_bad_input_is_one_line(text: str, context: dict, message: str) -> None:
    anchors, positives, *_ = rows_with_duplicates()
    with pytest.raises(gradlab.GradlabError, match=message):
        gradlab.get_loss(text)(anchors, positives, **context)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_supcon_of_one_positive_keeps_its_digits_where_the_softmax_is_nearly_one(
    dtype: str,
) -> None:
    """1 - q is below the rounding of 1; the reference adds up the negatives' shares instead."""
    rng = np.random.default_rng(0)
    anchors = unit_rows(rng.normal(size=(N, 32)))
    positives = unit_rows(anchors + 0.03 * rng.normal(size=(N, 32)))
    h, g = (torch.from_numpy(unit_rows(rows.astype(dtype))) for rows in (anchors, positives))
    exact, exact_positives = h.double(), g.double()
    leads = (exact @ exact_positives.T - (exact * exact_positives).sum(1, keepdim=True)) / 0.01
    odds = leads.exp().fill_diagonal_(0)
    share = odds / (1 + odds.sum(1, keepdim=True))
    assert share.sum(1).max() < torch.finfo(h.dtype).eps
    pushed = (share[..., None] * (exact_positives[None] - exact_positives[:, None])).sum(1) / 0.01
    expected = pushed - (pushed * exact).sum(1, keepdim=True) * exact
    size = expected.norm()
    for labels in (None, torch.arange(N)):
        components = gradlab.components("supcon(temperature=0.01)", h, g, labels=labels)
        assert (components.gradient() - expected).norm() < 1e-3 * size
        if labels is not None:
            assert torch.equal(components.pull_shares, torch.eye(N, dtype=h.dtype))
        gradient = gradlab.autograd_gradient("supcon(temperature=0.01)", h, g, labels=labels)
        assert (gradient - expected).norm() < 1e-3 * size
        value = gradlab.get_loss("supcon(temperature=0.01)")(h, g, reduction="sum", labels=labels)
        assert float(value) == pytest.approx(float(torch.log1p(odds.sum(1)).sum()), rel=1e-3)
