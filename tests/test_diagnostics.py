"""Diagnostics against naive loops straight from their definitions."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

import gradlab
from gradlab.batch import unit_rows
from gradlab.gradient.statistics import (
    ACTIVE,
    BINS,
    alignment,
    diagnose,
    distributions,
    effective_rank,
    gradient_statistics,
    lemma_share,
    ranking_accuracy,
    uniformity,
)

OFF_DIAGONAL = ~np.eye(9, dtype=bool)


def batch(count=9, dimension=6, noise=0.3, seed=0):
    generator = np.random.default_rng(seed)
    base = generator.normal(size=(count, dimension))
    return tuple(unit_rows(base + noise * generator.normal(size=base.shape)) for _ in range(2))


@pytest.fixture(params=["numpy", "torch"])
def views(request):
    pair = batch()
    return pair if request.param == "numpy" else tuple(torch.from_numpy(rows) for rows in pair)


def like(views, *arrays):
    """Arrays or tensors, as the views are."""
    return tuple(map(np.asarray if isinstance(views[0], np.ndarray) else torch.as_tensor, arrays))


def hardest(rows, columns, negative):
    """Largest cosine of each row to the columns that are its negatives."""
    return np.where(negative, np.asarray(rows) @ np.asarray(columns).T, -np.inf).max(1)


def hardest_of_table(components):
    return components.to_frame()["hardest_negative_cosine"]


def test_alignment_and_uniformity(views):
    h, g = (np.asarray(rows) for rows in views)
    expected = np.mean([sum((a - b) ** 2) for a, b in zip(h, g, strict=True)])
    assert alignment(*views) == pytest.approx(expected, rel=1e-12)
    assert alignment(*views, alpha=1) == pytest.approx(
        np.mean([math.dist(a, b) for a, b in zip(h, g, strict=True)]), rel=1e-12
    )
    squares = [math.dist(h[k], h[j]) ** 2 for k in range(9) for j in range(k)]
    expected = math.log(np.mean([math.exp(-2 * square) for square in squares]))
    assert uniformity(views[0]) == pytest.approx(expected, rel=1e-12)
    # A plain sum underflows; the nearest pair decides.
    assert uniformity(views[0], 500) == pytest.approx(-500 * min(squares) - math.log(36), rel=1e-3)


def test_effective_rank_of_known_spectra():
    assert effective_rank(np.eye(5)) == pytest.approx(5, rel=1e-12)
    assert effective_rank(np.tile(np.eye(5)[:1], (7, 1))) == pytest.approx(1, rel=1e-12)
    # Two orthogonal directions with 9 and 1 rows: singular values 3 and 1.
    rows = np.concatenate([np.tile(np.eye(4)[:1], (9, 1)), np.eye(4)[1:2]])
    assert effective_rank(rows) == pytest.approx(
        math.exp(-0.75 * math.log(0.75) - 0.25 * math.log(0.25)), rel=1e-12
    )


def test_ranking_accuracy_counts_comparisons(views):
    h, g = (np.asarray(rows) - np.asarray(rows).mean(0) for rows in views)
    expected = np.mean(
        [sum(h[i] @ g[i] > h[i] @ g[j] for j in range(9) if j != i) / 8 for i in range(9)]
    )
    assert 0.5 < expected < 1
    assert ranking_accuracy(*views) == pytest.approx(expected, rel=1e-12)
    # A direction in common changes nothing, nor does a sentence that is near to all.
    shifted = like(views, np.asarray(views[0]) + 30.0, np.asarray(views[1]) - 7.0)
    assert ranking_accuracy(*shifted) == pytest.approx(expected, rel=1e-12)
    equal = like(views, np.ones((4, 3)))
    assert ranking_accuracy(*equal * 2) == 0.5
    assert math.isnan(ranking_accuracy(views[0][:1], views[1][:1]))


@pytest.mark.parametrize("name", ["infonce", "arccon", "mhe", "siglip"])
def test_statistics_are_those_of_the_components(name, views):
    statistics = diagnose(name, *views)
    components = gradlab.components(name, *views)
    dissipation, weight = np.asarray(components.gradient_dissipation), np.asarray(components.weight)
    ratio = np.asarray(components.scalar_ratio)
    active = [i for i in range(9) if dissipation[i] >= ACTIVE]
    assert statistics["gradient_dissipation"] == pytest.approx(sum(dissipation) / 9, rel=1e-12)
    assert statistics["active"] == pytest.approx(len(active) / 9)
    assert active
    shares = [max(abs(weight[i])) / sum(abs(weight[i])) for i in active]
    assert statistics["hardest_share"] == pytest.approx(np.mean(shares), rel=1e-10)
    assert statistics["ratio"] == pytest.approx(np.mean(ratio[active]), rel=1e-10)
    assert statistics["ratio_median"] == pytest.approx(np.median(ratio[active]), rel=1e-10)
    h, g = (np.asarray(rows) for rows in views)
    assert statistics["positive_cosine"] == pytest.approx(
        np.mean([h[i] @ g[i] for i in range(9)]), rel=1e-12
    )
    negative_cosines = [h[i] @ g[j] for i in range(9) for j in range(9) if i != j]
    assert statistics["negative_cosine"] == pytest.approx(
        np.mean(negative_cosines), rel=1e-10, abs=1e-14
    )


def lemma_by_the_paper(anchor, positive, negative, ratio, step):
    """Lemma 1 as printed, angles by arccos and the dihedral angle by projection."""
    theta, phi = math.acos(anchor @ positive), math.acos(anchor @ negative)
    p = positive - (anchor @ positive) * anchor
    n = negative - (anchor @ negative) * anchor
    alpha = math.acos(p @ n / np.linalg.norm(p) / np.linalg.norm(n))
    under = 1 / step**2 - (math.sin(phi) * math.sin(alpha) / math.sin(theta)) ** 2
    return under >= 0 and ratio > 1 / step + math.sin(phi) * math.cos(alpha) / math.sin(
        theta
    ) - math.sqrt(under)


@pytest.mark.parametrize(
    ("name", "step", "extra"),
    [
        *(
            (name, step, False)
            for name in ("infonce", "arccon", "met", "mhe")
            for step in (0.1, 1.0)
        ),
        *((name, 0.1, True) for name in ("infonce", "mhs", "vicreg")),
    ],
)
def test_lemma_share_counts_triples_as_the_paper_does(name, step, extra, views):
    extra_rows = like(views, batch(4, seed=8)[0]) if extra else ()
    components = gradlab.components(name, *views, *extra_rows)
    h, g = (np.asarray(rows) for rows in views)
    negatives = h if components.negative_view == "same" else g
    decided = [
        lemma_by_the_paper(h[i], g[i], negative, float(components.scalar_ratio[i]), step)
        for i in range(9)
        for negative in [*np.delete(negatives, i, 0), *(np.asarray(extra_rows[0]) if extra else ())]
    ]
    if not extra and (name, step) != ("mhe", 1.0):  # whose ratios are too small for such a step
        assert 0 < sum(decided) < len(decided)
    assert lemma_share(components, step) == pytest.approx(np.mean(decided), abs=1e-12)


@pytest.mark.parametrize(
    ("name", "in_batch"), [("infonce", True), ("infonce", False), ("mhe", True)]
)
def test_equal_weights_have_the_uniform_share(name, in_batch, views):
    """Counted by hand; and where all negatives coincide, they have equal weights."""
    (extra,) = like(views, batch(4, seed=8)[0])
    statistics = diagnose(name, *views, extra, in_batch_negatives=in_batch)
    negatives = [j for j in range(9) if in_batch and j != 0] + list(range(4))
    assert statistics["uniform_share"] == pytest.approx(1 / len(negatives), rel=1e-15)
    assert diagnose(name, *views)["uniform_share"] == pytest.approx(1 / 8, rel=1e-15)
    alike = diagnose("infonce(temperature=1.0)", *views, extra[[0] * 6], in_batch_negatives=False)
    assert alike["hardest_share"] == pytest.approx(1 / 6, rel=1e-12)


@pytest.mark.parametrize("name", ["supcon", "infonce"])
def test_sentences_with_the_anchors_label_are_no_negatives_of_the_uniform_share(name, views):
    labels = [0, 0, 0, 1, 1, 2, 3, 4, 5]
    own = batch(18, seed=8)[0].reshape(9, 2, -1)
    context = dict(zip(("labels", "own_negatives"), like(views, labels, own), strict=True))
    components = gradlab.components(name, *views, **context)
    counts = [sum(label != candidate for candidate in labels) + 2 for label in labels]
    expected = np.mean([1 / count for count in counts])
    assert gradient_statistics(components)["uniform_share"] == pytest.approx(expected, rel=1e-15)


def test_what_a_mask_leaves_out_is_no_negative():
    """By hand: of the shares, the triples of Lemma 1 and the hardest negative of the table."""
    h, g = batch()
    components = gradlab.components("mask(infonce, above=0.2)", h, g)
    cosines = h @ g.T
    negative = (cosines <= 0.2) & OFF_DIAGONAL
    assert gradient_statistics(components)["uniform_share"] == pytest.approx(
        np.mean(1 / negative.sum(1)), rel=1e-15
    )
    decided = [
        lemma_by_the_paper(h[i], g[i], g[j], 1.0, 0.1)
        for i, j in zip(*np.nonzero(negative), strict=True)
    ]
    assert lemma_share(components) == pytest.approx(np.mean(decided), abs=1e-12)
    np.testing.assert_allclose(hardest_of_table(components), hardest(h, g, negative), rtol=1e-12)


@pytest.mark.parametrize(
    ("text", "directions"),
    [
        ("symmetric(mask(infonce, above=0.2))", ["near"]),
        ("symmetric(mask(mpt, by=guide))", ["anchors", "positives"]),
        ("mask(symmetric(mpt), by=guide)", ["anchors", "positives"]),
        ("symmetric(mask(infonce, above=0.2), reverse=mask(mpt, by=guide))", ["near", "positives"]),
        ("sum(mask(mpt, by=guide), mask(infonce, above=0.2))", ["anchors", "near"]),
        ("sum(symmetric(mask(mpt, by=guide)), gor)", ["anchors", "positives"]),
        ("mask(pool(mpt, negatives=positive_other), by=guide)", ["positives"]),
        ("mask(pool(mpt, negatives=other+positive_other), by=guide)", ["anchors", "positives"]),
        (
            "pool(mask(mpt, by=guide), negatives=other+positive_other, denominators=separate)",
            ["anchors", "positives"],
        ),
    ],
)
def test_a_pair_is_left_out_if_every_part_of_a_loss_leaves_it_out(text, directions, views):
    """Of both sides: what one direction or one term leaves out can be a negative of another."""
    h, g = map(np.asarray, views)
    guides = batch(noise=1.0, seed=4)
    cosines, guided = h @ g.T, guides[0] @ guides[1].T
    own = np.diag(guided)
    masks = {"near": cosines <= 0.2, "anchors": guided <= own[:, None], "positives": guided <= own}
    negative = np.logical_or.reduce([masks[direction] for direction in directions]) & OFF_DIAGONAL
    assert 0 < negative.sum() < 72
    context = {"guide": like(views, *guides)} if "guide" in text else {}
    for components, pushed in zip(
        gradlab.components(text, *views, side="both", **context),
        (negative, negative.T),
        strict=True,
    ):
        of_other = np.asarray(components.negative_cosines)[:, :9]
        side_cosines = cosines if pushed is negative else cosines.T
        np.testing.assert_allclose(of_other, np.where(pushed, side_cosines, -np.inf), rtol=1e-12)


@pytest.mark.parametrize("name", ["infonce", "symmetric(infonce)", "mhe"])
def test_extra_negatives_push_no_positive(name, views):
    (extra,) = like(views, batch(4, seed=8)[0])
    components = gradlab.components(name, *views, extra, side="positives")
    expected = hardest(*views[::-1], OFF_DIAGONAL) if name != "mhe" else np.full(9, np.nan)
    np.testing.assert_allclose(hardest_of_table(components), expected, rtol=1e-12)


@pytest.mark.parametrize("in_batch", [True, False])
def test_the_hardest_negative_of_the_table_may_be_an_own_one(in_batch, views):
    noise = batch(18, seed=8)[0].reshape(9, 2, -1)
    # Nearer than most sentences of the batch.
    (own,) = like(views, unit_rows(np.asarray(views[0])[:, None] + noise))
    components = gradlab.components(
        "infonce", *views, own_negatives=own, in_batch_negatives=in_batch
    )
    expected = np.einsum("nd,nhd->nh", *map(np.asarray, (views[0], own))).max(1)
    if in_batch:
        expected = np.maximum(expected, hardest(*views, OFF_DIAGONAL))
    np.testing.assert_allclose(hardest_of_table(components), expected, rtol=1e-12)


def test_positives_by_labels_are_not_the_hardest_negative_of_the_table(views):
    h, g = map(np.asarray, views)
    nearest = int(np.argmax(np.where(np.arange(9) == 0, -np.inf, h[0] @ g.T)))
    labels = [0 if j in (0, nearest) else j for j in range(9)]
    (row_labels,) = like(views, labels)
    negative = np.not_equal.outer(labels, labels)
    sides = gradlab.components("infonce", *views, labels=row_labels, side="both")
    for components, rows in zip(sides, (views, views[::-1]), strict=True):
        np.testing.assert_allclose(
            hardest_of_table(components), hardest(*rows, negative), rtol=1e-12
        )


def test_positives_that_are_nobodys_negatives_have_a_table():
    h, g = batch()
    own = batch(18, seed=8)[0].reshape(9, 2, -1)
    context = {"own_negatives": own, "in_batch_negatives": False, "side": "positives"}
    frame = gradlab.components("infonce", h, g, **context).to_frame()
    assert frame[["hardest_share", "hardest_negative_cosine"]].isna().all(axis=None)


def test_losses_of_whole_views_do_not_go_by_labels(views):
    (labels,) = like(views, [0, 0, 0, 1, 1, 2, 3, 4, 5])
    components = gradlab.components("mhe", *views, labels=labels)
    assert gradient_statistics(components)["uniform_share"] == pytest.approx(1 / 8, rel=1e-15)


def test_a_relation_says_who_is_a_negative_of_the_uniform_share():
    anchors, positives = (batch(4, seed=seed)[0] for seed in (1, 2))
    relation = np.array([[1, -1, 0, -1], [-1, 1, -1, -1], [0, 1, 1, 0], [1, 0, -1, 1]])
    components = gradlab.components("supcon", anchors, positives, relation=relation)
    # The third anchor has no negatives.
    assert gradient_statistics(components)["uniform_share"] == pytest.approx(
        (1 / 2 + 1 / 3 + 1) / 3, rel=1e-15
    )


def test_anchors_without_weight_do_not_count():
    h, g = batch()
    h[1] = h[0]  # weights one over distance leave these two out
    statistics = diagnose("modified_mhs", h, g)
    components = gradlab.components("modified_mhs", h, g)
    assert np.isnan(components.hardest_share).any()
    assert statistics["hardest_share"] == pytest.approx(1)
    assert statistics["ratio"] == statistics["ratio_median"] == pytest.approx(components.ratio[-1])
    assert 0 <= statistics["lemma_share"] <= 1


@pytest.mark.parametrize(
    "name", ["embedding_distillation", "symmetric(embedding_distillation(distance=mse))"]
)
def test_a_loss_that_only_pulls_has_no_gate_that_closes(name):
    h, g = batch()
    statistics = diagnose(name, h, g, teacher=(g, h))
    undefined = ("gradient_dissipation", "active", "hardest_share", "ratio", "lemma_share")
    assert all(math.isnan(statistics[name]) for name in undefined)
    components = gradlab.components(name, h, g, teacher=(g, h))
    assert distributions(h, g, components).keys() == {"positive_cosine", "negative_cosine"}
    sum_statistics = diagnose(f"sum(infonce, {name})", h, g, teacher=(g, h))
    assert sum_statistics["gradient_dissipation"] == pytest.approx(
        diagnose("infonce", h, g)["gradient_dissipation"] / 2
    )


def test_anchors_that_are_only_pulled_have_no_part_in_the_lemma():
    """Pairs with scores are pulled together or apart, and have no negatives."""
    h, g = batch()
    assert math.isnan(diagnose("cosent", h, g, scores=np.linspace(0, 1, len(h)))["lemma_share"])


def test_nothing_active_is_nan_and_not_zero():
    h, g = batch(noise=1e-3)
    statistics = gradient_statistics(gradlab.components(gradlab.get_loss("mpt", margin=1e-6), h, g))
    assert statistics["active"] == 0
    assert statistics["gradient_dissipation"] == 0
    assert math.isnan(statistics["hardest_share"])
    assert math.isnan(statistics["ratio"])


def test_distributions_count_every_value_once(views):
    h, g = views
    components = gradlab.components("arccon", h, g)
    histograms = distributions(h, g, components)
    assert set(histograms) == set(BINS)
    cosines = np.asarray(h) @ np.asarray(g).T
    off_diagonal = cosines[OFF_DIAGONAL]
    for low, share in histograms["negative_cosine"].items():
        inside = (off_diagonal >= low - 1e-12) & (off_diagonal < low + 0.05 - 1e-12)
        assert share == pytest.approx(inside.mean(), abs=1e-12)
    for shares in histograms.values():
        assert sum(shares.values()) == pytest.approx(1, rel=1e-12)


def test_distributions_put_outliers_in_the_outer_bins_and_leave_out_nan():
    h, g = batch()
    ratio = np.array([-1.0, 0.0, 2.95, 3.0, 100.0, np.inf, -np.inf, np.nan, 1.05])
    gradient = gradlab.Components(np.ones(9), np.ones((9, 8)), 8 * ratio)
    assert distributions(h, g, gradient)["ratio"] == {0.0: 3 / 8, 1.0: 1 / 8, 2.9: 4 / 8}
    closed = gradlab.Components(np.zeros(9), np.ones((9, 8)), 8 * ratio)
    assert "ratio" not in distributions(h, g, closed)
    assert distributions(h, g, closed)["gradient_dissipation"] == {0.0: 1.0}


def softmax_gate(h, g, temperature=0.05, same=False):
    """``1 - P(positive)`` of each row, by a loop."""
    gates = []
    for i in range(len(h)):
        scores = [float(h[i] @ g[j]) for j in range(len(h))]
        own = scores[i]
        scores += [float(h[i] @ h[j]) for j in range(len(h)) if j != i] if same else []
        gates.append(1 - 1 / sum(math.exp((score - own) / temperature) for score in scores))
    return np.array(gates)


@pytest.mark.parametrize(
    "text",
    [
        "infonce",
        "sum(infonce)",
        "sum(infonce, infonce, weights=0.1+3)",
        "mask(infonce, above=0.999999)",
    ],
)
def test_one_gradient_in_two_splits_is_as_active(text):
    h, g = batch(noise=0.05)
    statistics, gate = diagnose(text, h, g), softmax_gate(h, g)
    assert statistics["gradient_dissipation"] == pytest.approx(gate.mean(), rel=1e-9)
    assert statistics["active"] == pytest.approx((gate >= ACTIVE).mean())
    assert 0 < statistics["active"] < 1


def test_gates_of_both_directions_and_of_pools():
    h, g = batch(noise=0.05)
    mean_gate = (softmax_gate(h, g) + softmax_gate(g, h)) / 2
    for text in ("symmetric(infonce)", "sum(symmetric(infonce))"):
        np.testing.assert_allclose(gradlab.components(text, h, g).gate, mean_gate, rtol=1e-9)
    # Extra negatives are the anchors' alone, which takes the route of a sum.
    extra = -h[:1]
    anchors = gradlab.components("infonce", h, g, extra).gradient_dissipation
    gate = gradlab.components("symmetric(infonce)", h, g, extra).gate
    np.testing.assert_allclose(gate, (anchors + softmax_gate(g, h)) / 2, rtol=1e-9)
    pooled = gradlab.components("pool(infonce, negatives=other+same)", h, g).gate
    np.testing.assert_allclose(pooled, softmax_gate(h, g, same=True), rtol=1e-9)
