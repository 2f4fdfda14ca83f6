"""Components on embeddings: conventions, shapes and bad input."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import gradlab
from gradlab.batch import unit_rows
from gradlab.batch.check import check_batch
from gradlab.gradient.statistics import first_components
from gradlab.gradient.verification import BATCHES


def views(seed: int = 0, count: int = 6, dim: int = 5) -> tuple[np.ndarray, np.ndarray]:
    return BATCHES["paired"](np.random.default_rng(seed), count, dim)


def test_infonce_gradient_is_equation_1() -> None:
    """A loop over the sums as the paper prints them."""
    anchors, positives = views()
    tau = 0.05
    components = gradlab.components("infonce", anchors, positives)
    for i in range(6):
        e = [np.exp(anchors[i] @ positives[j] / tau) for j in range(6)]
        push = sum(e[j] * (positives[j] - positives[i]) for j in range(6) if j != i)
        gradient = push / (tau * sum(e))
        np.testing.assert_allclose(components.gradient(tangent=False)[i], gradient, atol=1e-13)
        np.testing.assert_allclose(components.ratio[i], 1)
        tangent = gradient - anchors[i] * (anchors[i] @ gradient)
        np.testing.assert_allclose(components.gradient()[i], tangent, atol=1e-13)


def test_autograd_gradient_by_finite_differences() -> None:
    anchors, positives = views(count=4, dim=3)
    loss = gradlab.get_loss("arccon")
    gradient = gradlab.autograd_gradient(loss, anchors, positives)
    rng = np.random.default_rng(0)
    for i in range(4):
        direction = np.zeros_like(anchors)
        direction[i] = rng.normal(size=3)
        direction[i] -= anchors[i] * (anchors[i] @ direction[i])
        after, before = (
            loss(unit_rows(anchors + step * direction), positives, reduction="sum")
            for step in (1e-6, -1e-6)
        )
        slope = (after - before) / 2e-6
        assert slope == pytest.approx(gradient[i] @ direction[i], rel=1e-6, abs=1e-7)


def test_components_from_angles_make_no_gradient() -> None:
    components = gradlab.get_loss("infonce").components(
        gradlab.PairSimilarity.from_angles(np.array(0.5)),
        gradlab.Negatives.from_angles(np.array([1.0, 1.2])),
    )
    with pytest.raises(gradlab.GradlabError, match="came from angles"):
        components.gradient()


def unit(*shape: int) -> np.ndarray:
    return unit_rows(np.random.default_rng(0).normal(size=shape))


NAN = unit(4, 3)
NAN[1, 1] = np.nan


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((unit(4, 3), unit(5, 3)), r"\(4, 3\) but positives \(5, 3\)"),
        ((2 * unit(4, 3), unit(4, 3)), "normalize=True"),
        ((NAN, unit(4, 3)), "NaN"),
        ((unit(1, 3), unit(1, 3)), "no negatives"),
        ((unit(4, 3), torch.from_numpy(unit(4, 3))), "both"),
        ((unit(4, 3), unit(4, 3).astype(np.float32)), "one dtype"),
    ],
)
@pytest.mark.parametrize(
    "function",
    [
        lambda *rows: gradlab.components("infonce", *rows),
        lambda *rows: gradlab.autograd_gradient("infonce", *rows),
        gradlab.get_loss("infonce"),
    ],
    ids=["components", "autograd", "loss"],
)
def test_bad_input(function, arguments, message: str) -> None:
    with pytest.raises(gradlab.GradlabError, match=message):
        function(*arguments)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
def test_rows_normalised_in_a_dtype_pass_in_it(dtype: torch.dtype) -> None:
    half = dtype in (torch.bfloat16, torch.float16)
    rows = torch.randn(256, 768, generator=torch.Generator().manual_seed(0)).to(dtype)
    rows = unit_rows(rows.float() if half else rows).to(dtype)
    checked = check_batch(rows, rows).anchors
    assert checked.dtype == torch.float32 if half else checked is rows
    off = (rows.double() * 1.2).to(dtype)
    with pytest.raises(gradlab.GradlabError, match="not unit vectors"):
        check_batch(off, off)


RECOMBINED = [
    {"gate": "mpt", "weight": "infonce", "ratio": "met"},
    {"gate": "infonce", "weight": "met", "ratio": "arccon"},
    {"gate": "mpt", "weight": "mhe", "ratio": "mat"},
]


@pytest.mark.parametrize("coincident", ["positive", "opposite", "negative", "both"])
@pytest.mark.parametrize(
    "loss", ["arccon", "met", "mat", *(gradlab.recombine(**settings) for settings in RECOMBINED)]
)
@pytest.mark.filterwarnings("ignore:divide by zero", "ignore:invalid value")
def test_components_where_vectors_coincide_make_the_gradient_of_autograd(
    loss, coincident: str
) -> None:
    """Infinite ratios and slopes leave neither NaN nor a force, be the gate open or closed."""
    anchors, positives = (unit_rows(x) for x in np.random.default_rng(0).normal(size=(2, 8, 12)))
    if coincident == "opposite":
        positives[:4] = -anchors[:4]
    if coincident in ("positive", "both"):
        positives[:4] = anchors[:4]
    if coincident in ("negative", "both"):
        positives[7] = anchors[2]
    expected = gradlab.autograd_gradient(loss, anchors, positives)
    assert np.isfinite(expected).all()
    np.testing.assert_allclose(
        gradlab.components(loss, anchors, positives).gradient(), expected, atol=1e-11
    )
    rows = [torch.from_numpy(rows).requires_grad_() for rows in (anchors, positives)]
    value = gradlab.get_loss(loss)(*rows)
    assert bool(torch.isfinite(value))
    for gradient in torch.autograd.grad(value, rows, allow_unused=True):
        assert gradient is None or bool(torch.isfinite(gradient).all())


@pytest.mark.parametrize("spec", ["arccon", "mhe", "mask(infonce)", "hardness(infonce, alpha=3)"])
@pytest.mark.parametrize("numbered", ["all", "batch"])
def test_components_of_the_first_sentences(spec: str, numbered: str) -> None:
    """They are those of the whole batch; a batch that is cut is as one that is cut by hand."""
    rng = np.random.default_rng(5)
    anchors, positives = views(count=6)
    extra, guide_extra = (unit_rows(rng.standard_normal((4, 5))) for _ in range(2))
    loss, owners = gradlab.get_loss(spec), [0, 4, -1, 2]
    mask = rng.random((6, 10)) < 0.4
    mask[:, 8] = False  # nobody is left without a negative
    numbers = np.array([7, 8, 9, 9, 7, 8, 8, -1, 7, 9][: 10 if numbered == "all" else 6])
    context = {
        "owners": owners,
        "guide": (positives, anchors, guide_extra),
        "mask": mask,
        "sentences": numbers,
    }
    batch = check_batch(anchors, positives, extra, **context)
    components = first_components(loss, batch, 3)
    expected = loss.components_of(batch).gradient()
    np.testing.assert_allclose(components.gradient()[:3], expected[:3], atol=1e-13)
    columns = [0, 1, 2, 6, 8, 9]  # the extra negatives of owners 0, -1 and 2 follow the sentences
    cut = check_batch(
        anchors[:3], positives[:3], extra[[0, 2, 3]],
        owners=[0, -1, 2], guide=(positives[:3], anchors[:3], guide_extra[[0, 2, 3]]),
        mask=mask[:3][:, columns],
        sentences=numbers[[place for place in columns if place < len(numbers)]],
    )  # fmt: skip
    by_hand = loss.components_of(cut).gradient()
    np.testing.assert_allclose(loss.components_of(batch.first(3)).gradient(), by_hand, atol=1e-13)
    whole = first_components(loss, batch, 6)
    assert whole.counterpart is not None
    np.testing.assert_allclose(whole.gradient(), loss.components_of(batch).gradient(), atol=1e-13)


MASKED = "mask(infonce, above=1.0)"
COMBINED = [
    *(MASKED, "hardness(infonce)", "pool(infonce, negatives=other+same)", "symmetric(infonce)"),
    *("sum(infonce, gor, weights=1+0.1)", "per_prefix(infonce, dims=2+4)"),
    "mask(symmetric(infonce), above=0.5)",
]


@pytest.mark.parametrize("name", [*gradlab.loss_names(), *COMBINED])
def test_what_is_measured_of_a_large_batch_does_not_depend_on_the_class_of_its_loss(name) -> None:
    """The first anchors have the components that they have in the whole batch."""
    loss, generator = gradlab.get_loss(name), np.random.default_rng(0)
    anchors, noise = generator.standard_normal((2, 24, 8))
    batch = loss.batch(anchors, anchors + 0.7 * noise, normalize=True)
    whole, first = loss.sides_of(batch)[0], first_components(loss, batch, 8)
    for quantity in ("gradient_dissipation", "hardest_share", "scalar_ratio"):
        expected = getattr(whole, quantity)[:8]
        np.testing.assert_allclose(getattr(first, quantity)[:8], expected, rtol=1e-10, atol=1e-13)


def test_a_mask_that_masks_nothing_changes_nothing_of_what_is_recorded() -> None:
    generator = np.random.default_rng(0)
    anchors, noise = generator.standard_normal((2, 96, 8))
    plain, masked = (
        first_components(loss, loss.batch(anchors, anchors + noise, normalize=True), 12)
        for loss in map(gradlab.get_loss, ("infonce", MASKED))
    )
    np.testing.assert_array_equal(plain.gradient_dissipation, masked.gradient_dissipation)


def test_rows_may_run_backwards_or_come_from_inference_mode() -> None:
    rows = *views(), views(seed=1)[0]
    plain = [array[::-1].copy() for array in rows]
    expected = gradlab.autograd_gradient("infonce", *plain)
    backwards = [array[::-1] for array in rows]
    np.testing.assert_array_equal(gradlab.autograd_gradient("infonce", *backwards), expected)
    value = gradlab.get_loss("infonce")(*plain)
    assert gradlab.blockwise("infonce", block_size=2)(*backwards) == pytest.approx(value, rel=1e-14)
    with torch.inference_mode():
        encoded = [torch.tensor(array) for array in plain]
        within = gradlab.autograd_gradient("infonce", *encoded)
    np.testing.assert_array_equal(within, expected)
    np.testing.assert_array_equal(gradlab.autograd_gradient("infonce", *encoded), expected)
    mask = np.zeros((len(plain[0]), len(plain[1])), dtype=bool)
    mask[0, 2] = mask[3, 1] = True
    masked = gradlab.autograd_gradient("mask(infonce, by=given)", *plain[:2], mask=mask)
    with torch.inference_mode():
        mask_tensor = torch.tensor(mask)
        for either_mask in (mask, mask_tensor):
            gradient = gradlab.autograd_gradient(
                "mask(infonce, by=given)", *encoded[:2], mask=either_mask
            )
            np.testing.assert_array_equal(gradient, masked)
    gradient = gradlab.autograd_gradient("mask(infonce, by=given)", *encoded[:2], mask=mask_tensor)
    np.testing.assert_array_equal(gradient, masked)
