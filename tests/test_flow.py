"""Flows end where theory says that losses lead."""

import itertools
import math

import numpy as np
import pytest
import torch

import gradlab
from gradlab.flow import flow, synthetic_batch
from gradlab.flow.runge_kutta import runge_kutta_step
from gradlab.flow.velocity import VelocityField
from gradlab.losses.registry import get_loss


def unit(rows):
    return rows / np.linalg.norm(rows, axis=-1, keepdims=True)


def views(count, dim, seed=0, angle=0.3):
    """Random anchors, and positives at an angle from them in random directions."""
    rng = np.random.default_rng(seed)
    anchors = unit(rng.normal(size=(count, dim)))
    beside = rng.normal(size=(count, dim))
    beside -= (beside * anchors).sum(1, keepdims=True) * anchors
    return anchors, np.cos(angle) * anchors + np.sin(angle) * unit(beside)


def unmatched_cosines(ended):
    """Cosines of anchors and positives of other sentences."""
    cosines = ended.anchors @ ended.positives.T
    return cosines[~np.eye(len(cosines), dtype=bool)]


def matched(ended):
    return (ended.anchors * ended.positives).sum(1)


def all_pairs_infonce(anchors, positives):
    """InfoNCE at τ = .5 as code."""
    logits = anchors @ positives.T / 0.5
    return (torch.logsumexp(logits, 1) - logits.diagonal()).sum()


@pytest.mark.parametrize(
    "loss",
    [
        "infonce(temperature=0.5)",
        "symmetric(infonce(temperature=0.2))",
        "dcl(temperature=0.5)",
        "supcon(temperature=0.5)",
        all_pairs_infonce,
    ],
    ids=lambda loss: getattr(loss, "__name__", loss),
)
def test_pairs_end_in_the_simplex(loss):
    """Lu and Steinerberger 2020, Cho et al. 2023: N <= D + 1 pairs become a regular simplex."""
    ended = flow(loss, *views(8, 16))
    assert ended.end == "at rest"
    assert not ended.jump
    assert ended.descent is False
    np.testing.assert_allclose(matched(ended), 1, rtol=0, atol=1e-8)
    np.testing.assert_allclose(unmatched_cosines(ended), -1 / 7, rtol=0, atol=1e-8)
    assert ended.reference.name == "the simplex"
    np.testing.assert_allclose(ended.last["value"], ended.reference.value, rtol=1e-10)
    assert "lowest known" in ended.words
    assert "that of the simplex" in ended.words


def test_supcon_ends_with_a_point_per_class_and_the_points_a_simplex():
    """Graf et al. 2021, balanced classes."""
    labels = np.repeat(np.arange(4), 2)
    ended = flow("supcon(temperature=0.5)", *views(8, 6), labels=labels)
    same = labels[:, None] == labels
    for rows, columns in itertools.product((ended.anchors, ended.positives), repeat=2):
        np.testing.assert_allclose((rows @ columns.T)[same], 1, atol=1e-8)
        np.testing.assert_allclose((rows @ columns.T)[~same], -1 / 3, atol=1e-8)
    assert ended.reference.name == "the simplex of classes"
    np.testing.assert_allclose(ended.last["value"], ended.reference.value, rtol=1e-10)


def test_siglip_ends_in_the_double_constant_embedding():
    """Lee, Chang and Sohn 2024: positives stay apart at a fixed temperature and bias."""
    ended = flow("siglip(temperature=0.1, bias=-1)", *views(8, 16))
    assert ended.end == "at rest"
    assert ended.descent is False

    def mean_loss(square):  # of the family, with the distance δ² of the views from the simplex
        near, far = (1 - square) / (1 + square), (-1 / 7 - square) / (1 + square)
        return np.log1p(np.exp(-10 * near + 1)) + 7 * np.log1p(np.exp(10 * far - 1))

    squares = np.linspace(0, 1, 2_000_001)
    best = squares[mean_loss(squares).argmin()]
    np.testing.assert_allclose(matched(ended), (1 - best) / (1 + best), atol=1e-6)
    np.testing.assert_allclose(unmatched_cosines(ended), (-1 / 7 - best) / (1 + best), atol=1e-6)
    np.testing.assert_allclose(
        [matched(ended)[0], unmatched_cosines(ended)[0]], [0.4619, -0.3735], atol=5e-5
    )
    assert ended.reference.name == "the double-constant embedding"
    np.testing.assert_allclose(ended.last["value"], ended.reference.value, rtol=1e-10)


def test_barlow_twins_ends_with_orthogonal_rows():
    ended = flow("barlow_twins", *views(8, 16))
    assert ended.end == "at rest"
    np.testing.assert_allclose(matched(ended), 1, atol=1e-8)
    np.testing.assert_allclose(unmatched_cosines(ended), 0, atol=1e-7)


@pytest.mark.parametrize("loss", ["symmetric(infonce(temperature=0.5))", "mhe"])
def test_twice_as_many_sentences_as_dimensions_end_in_the_cross_polytope(loss):
    """Cohn and Kumar 2007: it is universally optimal."""
    ended = flow(loss, *views(8, 4))
    assert ended.end == "at rest"
    assert ended.descent is False
    np.testing.assert_allclose(matched(ended), 1, atol=1e-7)
    cosines = ended.anchors @ ended.positives.T
    assert ((np.abs(cosines + 1) < 1e-6).sum(1) == 1).all()  # one opposite each
    np.testing.assert_allclose(np.sort(cosines, axis=1)[:, 1:7], 0, atol=1e-6)
    assert ended.reference.name == "the cross-polytope"
    np.testing.assert_allclose(ended.last["value"], ended.reference.value, rtol=1e-10)


def test_the_average_of_all_minibatches_ends_where_the_whole_batch_does():
    """Cho et al. 2023: equivalent if all C(N, B) batches are seen."""
    batches = [list(batch) for batch in itertools.combinations(range(5), 3)]

    def average(anchors, positives):
        losses = [all_pairs_infonce(anchors[batch], positives[batch]) for batch in batches]
        return torch.stack(losses).mean()

    ended = flow(average, *views(5, 6))
    np.testing.assert_allclose(matched(ended), 1, atol=1e-8)
    np.testing.assert_allclose(unmatched_cosines(ended), -1 / 4, atol=1e-8)


def test_one_partition_leaves_sentences_of_different_batches_anywhere():
    """Cho et al. 2023: each batch of a fixed partition becomes a simplex of its own."""
    ended = flow("infonce(temperature=0.5)", *views(6, 8), batch_size=3, shuffle=False, steps=600)
    cosines = ended.anchors @ ended.positives.T
    for start in (0, 3):
        block = cosines[start : start + 3, start : start + 3]
        np.testing.assert_allclose(block, 1.5 * np.eye(3) - 0.5, atol=1e-5)
    assert np.abs(cosines[:3, 3:] + 1 / 5).max() > 0.1
    assert ended.end == "still moving"
    assert ended.reference is None


def test_shuffled_batches_come_closer_to_the_simplex_than_a_partition():
    setting = {"batch_size": 3, "steps": 200}
    shuffled = flow("infonce(temperature=0.5)", *views(6, 8), **setting)
    fixed = flow("infonce(temperature=0.5)", *views(6, 8), shuffle=False, **setting)
    assert (
        np.abs(unmatched_cosines(shuffled) + 0.2).max()
        < 0.5 * np.abs(unmatched_cosines(fixed) + 0.2).max()
    )
    repeated = flow("infonce(temperature=0.5)", *views(6, 8), **setting)
    np.testing.assert_array_equal(repeated.anchors, shuffled.anchors)


def test_the_velocity_is_minus_the_gradient_of_both_sides():
    anchors, positives = views(5, 4)
    loss = get_loss("infonce(temperature=0.2)")
    velocity_field = VelocityField(
        loss, {"anchors": anchors, "positives": positives}, ("anchors", "positives")
    )
    sides = gradlab.components(loss, anchors, positives, side="both")
    expected = np.concatenate([-side.gradient() for side in sides])
    np.testing.assert_allclose(velocity_field(velocity_field.start).rows, expected, atol=1e-12)


def test_steps_have_order_three_and_their_error_estimate_order_two():
    loss = get_loss("infonce(temperature=0.5)")
    anchors, positives = views(6, 4)
    velocity_field = VelocityField(
        loss, {"anchors": anchors, "positives": positives}, ("anchors", "positives")
    )

    def end_of(steps, time=0.4):
        rows, velocity = velocity_field.start, velocity_field(velocity_field.start)
        for _ in range(steps):
            rows, velocity, *_, error, _ = runge_kutta_step(
                velocity_field, rows, velocity, time / steps
            )
        return rows, error

    exact, _ = end_of(128)
    errors = [float((end_of(steps)[0] - exact).abs().max()) for steps in (4, 8, 16)]
    for coarse, fine in itertools.pairwise(errors):
        assert 2.7 < math.log2(coarse / fine) < 3.3
    estimates = [end_of(steps)[1] for steps in (8, 16)]
    assert 2.5 < math.log2(estimates[0] / estimates[1]) < 3.5  # of one step: its local order


@pytest.mark.parametrize("loss", ["arccon", "siglip"])
def test_halved_steps_agree(loss):
    """Errors of steps fall by 8 in tolerance; the ends at one time agree to it."""
    batch = synthetic_batch(topics=5, sentences=3, dim=12, duplicates=2)
    ends = [
        flow(loss, batch.anchors, batch.positives, last_time=0.5, tolerance=tolerance)
        for tolerance in (1e-4, 1e-4 / 8, 1e-7)
    ]
    coarse, fine, exact = (np.concatenate([end.anchors, end.positives]) for end in ends)
    assert np.abs(coarse - fine).max() < 2e-3
    assert np.abs(fine - exact).max() < 0.4 * np.abs(coarse - exact).max()
    assert [end.last["time"] for end in ends] == [0.5] * 3


def test_code_flows_as_the_registered_loss():
    registered, by_code = (
        flow(loss, *views(6, 5), steps=40)
        for loss in ("infonce(temperature=0.5)", all_pairs_infonce)
    )
    np.testing.assert_allclose(registered.anchors, by_code.anchors, atol=1e-10)
    np.testing.assert_array_equal(registered.curves["steps"], by_code.curves["steps"])


@pytest.mark.parametrize("loss", ["siglip", "mhe", "symmetric(arccon)"])
def test_a_common_rotation_turns_the_whole_flow(loss):
    """A loss of dot products does not see it."""
    turn = np.linalg.qr(np.random.default_rng(5).normal(size=(6, 6)))[0]
    anchors, positives = views(7, 6)
    plain = flow(loss, anchors, positives, steps=30)
    turned = flow(loss, unit(anchors @ turn), unit(positives @ turn), steps=30)
    np.testing.assert_allclose(turned.anchors, plain.anchors @ turn, atol=1e-9)


def test_one_side_moves_and_the_other_rests():
    anchors, positives = views(6, 5)
    for side, fixed, rows in (
        ("anchors", "positives", positives),
        ("positives", "anchors", anchors),
    ):
        ended = flow("infonce(temperature=0.5)", anchors, positives, side=side, steps=5)
        assert np.abs(getattr(ended, side) - getattr(ended, fixed)).max() > 0.1
        np.testing.assert_array_equal(getattr(ended, fixed), rows)


def test_exchanged_views_flow_alike_under_a_symmetric_loss():
    anchors, positives = views(6, 5)
    ended = flow("symmetric(infonce(temperature=0.3))", anchors, positives, steps=50)
    exchanged = flow("symmetric(infonce(temperature=0.3))", positives, anchors, steps=50)
    np.testing.assert_allclose(exchanged.positives, ended.anchors, atol=1e-9)


def test_hard_gates_stop_and_leave_embeddings_where_they_are():
    batch = synthetic_batch(topics=4, sentences=2, dim=16, duplicates=2)
    for loss in ("mpt", "met", "mat", "triplet"):
        ended = flow(loss, batch.anchors, batch.positives, groups=batch.topics)
        assert ended.end == "stopped learning", loss
        assert ended.last["speed"] == 0
        assert ended.last["value"] == 0
        assert ended.last["learning"] == 0


def test_rest_at_a_jump_is_said():
    """The nearest negative of MHS changes at every step, so its gradient never vanishes."""
    ended = flow("mhs", *views(8, 5))
    assert ended.end == "at rest"
    assert ended.jump
    assert ended.descent is None
    assert ended.last["speed"] > 0.1
    assert "jumps" in ended.words


def test_a_collapsed_batch_is_a_saddle():
    rows = np.tile(unit(np.ones((1, 5))), (6, 1))
    ended = flow("infonce(temperature=0.5)", rows, rows)
    assert ended.end == "at rest"
    assert ended.descent is True
    assert "saddle" in ended.words


def test_a_closed_gate_is_no_rest():
    anchors, positives = views(8, 16, angle=0.1)
    ended = flow("infonce(temperature=0.01)", anchors, positives)
    assert ended.end == "stopped learning"
    assert np.abs(ended.anchors - anchors).max() < 0.1
    assert "above that of the simplex" in ended.words


@pytest.mark.parametrize("steps", [1, 3])
def test_few_steps_end_in_motion_and_say_how_fast(steps):
    ended = flow("dcl", *views(8, 16), steps=steps)
    assert ended.end == "still moving"
    assert "while time doubles" in ended.words
    assert ended.last["steps"] == steps
