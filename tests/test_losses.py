"""What every registered loss must do; a new loss is covered by these tests without an edit here."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
import torch

import gradlab
from gradlab.batch.similarity import Negatives, PairSimilarity
from gradlab.gradient.verification import BATCHES
from gradlab.losses.batch_loss import BatchLoss
from gradlab.losses.pair_loss import PairLoss
from gradlab.losses.registry import loss_class

NAMES = gradlab.loss_names()
PAIR_NAMES = [name for name in NAMES if issubclass(loss_class(name), PairLoss)]
EDGE = [1e-7, 1e-6, 1e-3, 0.4, 1.2, math.pi / 2, 2.5, math.pi - 1e-3, math.pi - 1e-7]
all_losses = pytest.mark.parametrize("name", NAMES)
pair_losses = pytest.mark.parametrize("name", PAIR_NAMES)


def with_temperatures() -> list[PairLoss]:
    """Every pair loss at its defaults, and those with a temperature at extreme ones too."""
    losses = [gradlab.get_loss(name) for name in PAIR_NAMES]
    warm = [
        loss
        for loss in losses
        if "temperature" in {field.name for field in dataclasses.fields(loss)}
    ]
    return losses + [gradlab.get_loss(loss, temperature=t) for loss in warm for t in (0.001, 3.0)]


def grid_of_angles() -> tuple[np.ndarray, np.ndarray]:
    """Positives (9, 9), negatives (9, 9, 5): all pairs of edge angles, the hardest at the edge."""
    positive, hardest = np.meshgrid(EDGE, EDGE, indexing="ij")
    farther = hardest[..., None] + (math.pi - hardest[..., None]) * np.array(
        [0, 0.11, 0.3, 0.7, 0.99]
    )
    return positive, farther[..., [2, 0, 1, 4, 3]]


def similarities(positive: np.ndarray, negatives: np.ndarray, dtype: torch.dtype = torch.float64):
    return (
        PairSimilarity.from_angles(torch.as_tensor(positive).to(dtype)),
        Negatives.from_angles(torch.as_tensor(negatives).to(dtype)),
    )


@pair_losses
def test_declared_split_is_what_autograd_fixes(name: str) -> None:
    """``GD·W = ∂L/∂S_ij`` and ``GD·Σ W R = -∂L/∂S_ii`` at every edge angle, relatively."""
    loss = gradlab.get_loss(name)
    pair, negatives = similarities(*grid_of_angles())
    push, pull = gradlab.autograd_split(loss, pair, negatives)
    components = loss.components(pair, negatives)
    torch.testing.assert_close(
        components.gradient_dissipation[..., None] * components.weight,
        push,
        rtol=1e-12,
        atol=1e-300,
    )
    torch.testing.assert_close(components.pull, pull, rtol=1e-10, atol=1e-300)
    assert components.gradient_dissipation.max() > 0.5


@pytest.mark.parametrize("loss", with_temperatures(), ids=repr)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_finite_at_every_angle_and_temperature(loss: PairLoss, dtype: torch.dtype) -> None:
    pair, negatives = similarities(*grid_of_angles(), dtype)
    components = loss.components(pair, negatives)
    for array in (
        components.gradient_dissipation,
        components.weight,
        components.pull,
        loss.value(pair, negatives),
    ):
        assert array.dtype == dtype
        assert bool(torch.isfinite(array).all())
    # A ratio is infinite only where the push is too small to divide the pull by.
    push = components.gradient_dissipation * components.total_weight
    vanishing = push.abs() * torch.finfo(dtype).max < components.pull.abs()
    assert bool((torch.isfinite(components.ratio) | vanishing | (push == 0)).all())
    for array in gradlab.autograd_split(loss, pair, negatives):
        assert bool(torch.isfinite(array).all())


@all_losses
@pytest.mark.parametrize(("batch_size", "dim"), [(16, 8), (24, 48)])
def test_closed_form_equals_autograd_where_declared(name: str, batch_size: int, dim: int) -> None:
    checks = gradlab.verify(name, batch_size=batch_size, dim=dim)
    assert {check.batch for check in checks} >= set(BATCHES)
    assert any(check.declared for check in checks)
    for check in checks:
        assert check.passed, check


@all_losses
def test_a_trainable_scalar(name: str) -> None:
    anchors, positives = (
        torch.from_numpy(x) for x in BATCHES["clustered"](np.random.default_rng(2), 16, 24)
    )
    loss = gradlab.get_loss(name)
    raw = (3 * anchors).requires_grad_()
    value = loss(raw, positives, normalize=True)
    assert value.shape == ()
    (gradient,) = torch.autograd.grad(value, raw)
    assert bool(torch.isfinite(gradient).all())
    assert bool(gradient.any())
    total = loss(anchors, positives, reduction="sum")
    if loss.value_of(gradlab.batch.batch.Batch(anchors, positives)).ndim:
        values = loss(anchors, positives, reduction="none")
        assert values.shape == (16,)
        torch.testing.assert_close(total, values.sum())
        torch.testing.assert_close(value, values.mean())
    else:
        torch.testing.assert_close(total, value)
        with pytest.raises(gradlab.GradlabError, match="whole batch"):
            loss(anchors, positives, reduction="none")


@all_losses
@pytest.mark.parametrize(("kind", "dtype"), [("numpy", "float32"), ("torch", "float64")])
def test_same_kind_and_dtype_out(name: str, kind: str, dtype: str) -> None:
    views = [
        gradlab.batch.unit_rows(x.astype(dtype))
        for x in BATCHES["paired"](np.random.default_rng(3), 8, 5)
    ]
    if kind == "torch":
        views = [torch.from_numpy(x) for x in views]
    components, reference = (
        gradlab.components(name, *views),
        gradlab.autograd_gradient(name, *views),
    )
    for array in (
        components.gradient_dissipation,
        components.weight,
        components.scalar_ratio,
        components.gradient(),
        reference,
    ):
        assert type(array) is type(views[0])
        assert array.dtype == views[0].dtype


@pytest.mark.parametrize("name", ["mpt", "met", "mat"])
def test_ties_give_the_first_hardest_negative(name: str) -> None:
    pairs = similarities(np.array(0.5), np.array([0.9, 0.6, 0.6, 1.0]))
    assert gradlab.get_loss(name).components(*pairs).weight.nonzero().tolist() == [[1]]


@pytest.mark.parametrize(
    "name", [name for name in NAMES if issubclass(loss_class(name), BatchLoss)]
)
def test_a_batch_loss_needs_its_batch(name: str) -> None:
    anchors, positives = BATCHES["random"](np.random.default_rng(0), 6, 4)
    with pytest.raises(gradlab.GradlabError, match="cannot do without in-batch negatives"):
        gradlab.components(name, anchors, positives, anchors, in_batch_negatives=False)


def test_a_text_is_read_once_until_a_loss_is_registered(request) -> None:
    from gradlab.losses import registry

    request.addfinalizer(lambda: registry._registry.classes.pop("loss_registered_later", None))
    text = "symmetric(infonce(temperature=0.1))"
    loss = gradlab.get_loss(text)
    assert gradlab.get_loss(text) is loss
    assert gradlab.get_loss(text, reverse="mpt") != loss == gradlab.get_loss(text)

    @registry.register("loss_registered_later")
    class Later(type(gradlab.get_loss("infonce"))):
        formula = "0"

    assert gradlab.get_loss(text) == loss
    assert gradlab.get_loss(text) is not loss
    # Other people's losses may hold anything, so that each is a loss of its own.
    first, second = (gradlab.get_loss("symmetric(loss_registered_later)") for _ in range(2))
    assert first == second
    assert first is not second


def test_a_mask_of_a_file_is_read_again(tmp_path) -> None:
    file = tmp_path / "pairs.txt"
    file.write_text("0,1\n", encoding="utf-8")
    text = f"mask(infonce, by=pairs, pairs={file})"
    gradlab.get_loss(text)
    file.write_text("no pairs\n", encoding="utf-8")
    with pytest.raises(gradlab.GradlabError, match="pairs"):
        gradlab.get_loss(text)


@pytest.mark.parametrize("number", [math.nan, -math.inf])
def test_a_softmax_after_a_log_sum_exp_is_the_softmax(number: float) -> None:
    generator = np.random.default_rng(0)
    cosine = generator.uniform(-1, 1, (5, 7))
    cosine[1, 2:5] = cosine[3] = -np.inf
    cosine[2, 3] = number
    torch_cosine = torch.tensor(cosine)
    with np.errstate(invalid="ignore"):
        negatives = Negatives.from_cosines(cosine)
        for temperature in (0.05, 1.0):
            before, sums = negatives.softmax(temperature), negatives.log_sum_exp(temperature)
            expected = torch.softmax(torch_cosine / temperature, -1).numpy()
            np.testing.assert_allclose(before, expected, rtol=1e-14)
            for _ in range(2):  # from the exponentials of the sum, and computed again
                np.testing.assert_array_equal(negatives.softmax(temperature), before)
            log_sums = torch.logsumexp(torch_cosine / temperature, -1)
            np.testing.assert_allclose(sums, log_sums, rtol=1e-14)
    np.testing.assert_array_equal(negatives.cosine, cosine)
