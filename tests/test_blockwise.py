"""Blockwise losses against automatic differentiation of the loss itself, and against loops."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
import torch
from array_api_compat import array_namespace
from blockwise_helpers import (
    LargestTensor,
    assert_equal_to_autograd,
    exact,
    gradients,
    reductions,
    unit,
    views,
)
from torch.utils._python_dispatch import TorchDispatchMode

import gradlab
from gradlab.losses.base import Loss
from gradlab.losses.batch_loss import BatchLoss
from gradlab.losses.pair_loss import PairLoss
from gradlab.losses.registry import loss_class
from gradlab.scale import log_sums, matrix_products
from gradlab.scale.matrix_products import in_tf32, tf32_allowed

PAIR_NAMES = [name for name in gradlab.loss_names() if issubclass(loss_class(name), PairLoss)]
RECOMBINED = [
    {"gate": "infonce", "weight": "met", "ratio": "arccon"},
    {"gate": "met", "weight": "arccon", "ratio": "mpt", "effective_ratio": "2r"},
    {"gate": "0.5", "weight": "uniform", "ratio": "0.0"},
]
PAIR_LOSSES = [gradlab.get_loss(name) for name in PAIR_NAMES] + [
    gradlab.get_loss("baseline", effective_ratio="2r"),
    *(gradlab.get_loss("recombined", **settings) for settings in RECOMBINED),
]
BATCH_NAMES = [name for name in gradlab.loss_names() if name not in PAIR_NAMES]
WITHOUT_SIMILARITIES = ("barlow_twins", "vicreg")
RECOMBINED_ON_VIEWS = [
    {"gate": "modified_mhe", "weight": "infonce", "ratio": "arccon"},
    {"gate": "infonce", "weight": "mhs", "ratio": "mhe", "effective_ratio": "2r"},
    {"gate": "1.0", "weight": "vicreg", "ratio": "2.0"},
    {"gate": "met", "weight": "2.0 * modified_barlow_twins", "ratio": "barlow_twins"},
]
BATCH_LOSSES = [
    *(gradlab.get_loss(name) for name in BATCH_NAMES),
    *(
        gradlab.get_loss(name, preset="as_published")
        for name in BATCH_NAMES
        if "as_published" in loss_class(name).presets
    ),
    *(gradlab.get_loss("recombined", **settings) for settings in RECOMBINED_ON_VIEWS),
    gradlab.get_loss("mhs(squared_distance_floor=0.1)"),
    gradlab.get_loss("modified_mhs(margin=0.25, squared_distance_floor=0.1)"),
]
LOSSES = PAIR_LOSSES + BATCH_LOSSES
# Losses whose gradient is that of their value: no surrogates, no other rows or factors held fixed.
SMOOTH = [loss for loss in PAIR_LOSSES if not (loss.surrogate or loss.name == "circle")] + [
    loss for loss in BATCH_LOSSES if loss.name in ("mhe", *WITHOUT_SIMILARITIES)
]
all_losses = pytest.mark.parametrize("loss", LOSSES, ids=str)

# One loss for each way of evaluation, to test what depends on the way and not on the formula.
WAYS = {
    "weights of all negatives": gradlab.get_loss("infonce"),
    "hardest negative by its chord": gradlab.get_loss("met"),
    "surrogate, one-hot weight, gate of all negatives": gradlab.get_loss(
        "recombined", **RECOMBINED[0]
    ),
    "surrogate, fixed negatives": gradlab.get_loss("baseline", effective_ratio="2r"),
    "all pairs of a view": gradlab.get_loss("mhe"),
    "softmax of rows and of columns": gradlab.get_loss("dhel", terms="both"),
    "weighted cosines": gradlab.get_loss("modified_mhs"),
    "no similarities": gradlab.get_loss("vicreg"),
}
all_ways = pytest.mark.parametrize("loss", WAYS.values(), ids=WAYS)
WAYS_REDUCED = [
    (loss, reduction)
    for loss in WAYS.values()
    for reduction in reductions(loss)
    if reduction != "sum"
]
all_ways_reduced = pytest.mark.parametrize(
    ("loss", "reduction"),
    WAYS_REDUCED,
    ids=[f"{loss}-{reduction}" for loss, reduction in WAYS_REDUCED],
)


@all_losses
def test_equals_autograd_in_float64(loss: Loss) -> None:
    """With extra negatives and a last block that is smaller."""
    assert_equal_to_autograd(loss, views(50, 7), 16, 1e-12)


@all_ways
@pytest.mark.parametrize(
    ("size", "extra", "in_batch", "block_size"),
    [
        pytest.param(48, 0, True, 16, id="blocks of one size"),
        pytest.param(50, 7, False, 20, id="extra negatives only"),
        pytest.param(2, 0, True, 1, id="N = 2, one row a block"),
        pytest.param(2, 1, True, None, id="N = 2"),
        pytest.param(1, 3, True, None, id="N = 1"),
    ],
)
def test_batches_and_blocks_of_any_size(
    loss: Loss, size: int, extra: int, in_batch: bool, block_size: int | None
) -> None:
    in_batch = in_batch or isinstance(loss, BatchLoss)  # which cannot do without them
    assert_equal_to_autograd(
        loss, views(size, extra), block_size, 1e-12, in_batch_negatives=in_batch
    )


@all_losses
def test_equals_autograd_in_float32(loss: Loss) -> None:
    assert_equal_to_autograd(loss, views(150, 20, 96, torch.float32), 64, 1e-5)


@all_ways
def test_more_columns_than_one_product_takes(monkeypatch: pytest.MonkeyPatch, loss: Loss) -> None:
    """Products are split at 1024 negatives on a CPU; here at 16, and the last one is smaller."""
    monkeypatch.setattr(matrix_products, "CPU_TILE", 16)
    assert_equal_to_autograd(loss, views(24, 19, 6), 10, 1e-12)


@pytest.mark.parametrize(
    "loss",
    [
        *WAYS.values(),
        "symmetric(infonce)",
        "sum(dhel, infonce(temperature=0.5), mhe(temperature=2))",
    ],
    ids=str,
)
def test_similarities_that_fit_into_one_block(
    monkeypatch: pytest.MonkeyPatch, loss: Loss | str
) -> None:
    """The second lap has those of the first; pairs within a view are split, here at 13 rows."""
    monkeypatch.setattr(log_sums, "FEWEST_ROWS", 8)
    assert_equal_to_autograd(gradlab.get_loss(loss), views(50, 7), None, 1e-12)


def test_all_stored_similarities_take_no_more_than_one_block(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Six prefixes stored six blocks: 100 MiB instead of 20 at 2,048 sentences."""
    stored, backward = [], log_sums.StreamedComparison.backward

    def measured(self: log_sums.StreamedComparison, *arguments: Any) -> None:
        stored.append(sum(tile.numel() for tiles in self._stored.values() for *_, tile in tiles))
        backward(self, *arguments)

    monkeypatch.setattr(log_sums.StreamedComparison, "backward", measured)
    loss = gradlab.get_loss("per_prefix(symmetric(infonce), dims=3+6+12)")
    assert_equal_to_autograd(loss, views(20), 20, 1e-12)
    # Blocks of 20 rows take one product, the default of 512 rows takes all three.
    assert set(stored) == {20 * 20, 3 * 20 * 20}


@pytest.mark.parametrize(
    "loss", [*WAYS.values(), *map(gradlab.get_loss, ("siglip", "symmetric(infonce)"))], ids=str
)
def test_more_rows_than_are_worked_on_at_a_time(
    monkeypatch: pytest.MonkeyPatch, loss: Loss
) -> None:
    """A block is worked on some rows at a time, here two and seven; fewer at the end."""
    monkeypatch.setattr(matrix_products, "SUM_ENTRIES", 50)
    monkeypatch.setattr(matrix_products, "CPU_PAIRS", 7)
    assert_equal_to_autograd(loss, views(24, 0, 6), 11, 1e-12)


@pytest.mark.parametrize(("spread", "tolerance"), [(1e-2, 1e-10), (1e-6, 1e-12)])
def test_what_rows_nearly_equal_lack_to_1_is_known(
    monkeypatch: pytest.MonkeyPatch, spread: float, tolerance: float
) -> None:
    """ArcTanh divides by 1 less the cosine, of which a cosine near 1 knows nothing.

    It is taken from the rows where 1e-5 and less are left; of 1e-4 a cosine knows 1e-12, and the
    gradient has its square. Sums are over some rows at a time.
    """
    generator = torch.Generator().manual_seed(0)
    around = torch.randn(1, 12, generator=generator, dtype=torch.float64)
    rows: list[torch.Tensor | None] = [
        unit(
            around + spread * torch.randn(size, 12, generator=generator, dtype=torch.float64)
        ).requires_grad_()
        for size in (8, 8, 5)
    ]
    assert_equal_to_autograd(gradlab.get_loss("arctanh"), rows, 3, tolerance)


@all_ways
def test_rows_of_any_layout(loss: Loss) -> None:
    """Transposed and strided rows, one tensor as both views, and rows whose graph goes on."""
    raw = torch.randn(
        12, 40, dtype=torch.float64, generator=torch.Generator().manual_seed(0), requires_grad=True
    )

    def train(function: Any) -> torch.Tensor:
        rows = unit(raw.T)
        value = function(rows[::2], rows[1::2]) + function(rows, rows, rows[:3].contiguous())
        (gradient,) = torch.autograd.grad(value, raw)
        return gradient

    torch.testing.assert_close(
        train(gradlab.blockwise(loss, 7)), train(loss), rtol=1e-12, atol=1e-13
    )


@all_losses
def test_duplicates_coincidences_and_ties(loss: Loss) -> None:
    """Rows of ±1/2: exact cosines, so ties are ties in any order of summation; the first counts."""
    signs = torch.tensor(
        [[1 if index >> bit & 1 else -1 for bit in range(4)] for index in range(16)]
    )
    anchors = (signs[[0, 1, 2, 3, 3, 5, 6, 6, 15, 0]].double() / 2).requires_grad_()
    positives = (signs[[0, 1, 3, 2, 12, 5, 9, 6, 0, 7]].double() / 2).requires_grad_()
    assert_equal_or_refused(loss, [anchors, positives, None], 1e-12, 1e-2)


@all_losses
def test_all_rows_equal(loss: Loss) -> None:
    row = torch.tensor([[0.5, -0.5, 0.5, 0.5]], dtype=torch.float64).repeat(6, 1)
    rows = [row.clone().requires_grad_(), row.clone().requires_grad_(), None]
    assert_equal_or_refused(loss, rows, 1e-13, 10.0)  # terms of size 1/τ cancel


def assert_equal_or_refused(
    loss: Loss, rows: list[torch.Tensor | None], tolerance: float, smallest_scale: float
) -> None:
    if loss(*rows).isfinite():
        assert_equal_to_autograd(loss, rows, 3, tolerance, smallest_scale)
        return
    assert (
        loss.surrogate or loss.name == "arctanh"
    )  # an infinite weight times its cosine, or an infinite logit
    with pytest.raises(
        gradlab.GradlabError, match=rf"{loss.name} is (nan|inf|-inf)( at anchor| on these)"
    ):
        gradlab.blockwise(loss, 3)(*rows)


@pytest.mark.parametrize(
    ("loss", "reduction"), [(loss, reduction) for loss, reduction in WAYS_REDUCED if loss in SMOOTH]
)
def test_gradcheck_through_normalisation(loss: Loss, reduction: str) -> None:
    raw = [3 * rows.detach() for rows in views(4, 2, 3)]
    blocks = gradlab.blockwise(loss, 4)
    assert torch.autograd.gradcheck(
        lambda *rows: blocks(*rows, reduction, normalize=True),
        [rows.requires_grad_() for rows in raw],
    )


@all_ways_reduced
@pytest.mark.parametrize(
    "needs_gradients", [(True, False, False), (False, True, False), (False, False, True)]
)
def test_only_the_wanted_gradients(
    loss: Loss, needs_gradients: tuple[bool, ...], reduction: str
) -> None:
    rows = [
        tensor.detach().requires_grad_(needs_gradient)
        for tensor, needs_gradient in zip(views(20, 5), needs_gradients, strict=True)
    ]
    leaf = rows[needs_gradients.index(True)]
    value = loss(*rows, reduction).sum()
    expected = (
        torch.autograd.grad(value, leaf)[0] if value.requires_grad else torch.zeros_like(leaf)
    )
    gradient = torch.autograd.grad(gradlab.blockwise(loss, 8)(*rows, reduction).sum(), leaf)[0]
    torch.testing.assert_close(gradient, expected, rtol=1e-11, atol=1e-13)
    assert all(tensor.grad is None for tensor in rows)


@all_ways
def test_without_gradients_there_is_no_graph(loss: Loss) -> None:
    rows = views(20, 3)
    blocks = gradlab.blockwise(loss, 8)
    with torch.no_grad():
        value = blocks(*rows)
    with torch.inference_mode():
        assert float(blocks(*rows)) == pytest.approx(float(value), rel=1e-15)
    detached = blocks(*(tensor.detach() for tensor in rows))
    assert not value.requires_grad
    assert not detached.requires_grad
    assert float(detached) == pytest.approx(float(loss(*rows).detach()), rel=1e-12)


@all_losses
def test_no_matrix_of_all_similarities(loss: Loss, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither of a value nor of the values of each anchor, where there are such."""
    # Differences of near rows are taken this many entries at a time; here fewer than a block has.
    monkeypatch.setattr("gradlab.batch.cosine_gaps._NEAR_ENTRIES", 100)
    rows = views(100, 50, 4)
    held = loss.name not in WITHOUT_SIMILARITIES
    for reduction in {reductions(loss)[0], reductions(loss)[-1]} - {"sum"}:
        with LargestTensor() as largest:
            gradlab.blockwise(loss, 25)(*rows, reduction).sum().backward()
        assert (25 * 100 if held else 0) <= largest.entries < 26 * 150
    with LargestTensor() as largest:
        loss(*rows)
    assert (largest.entries >= 100 * 150) == held


@all_ways
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_computes_in_float32(loss: Loss, dtype: torch.dtype) -> None:
    """Equal to the loss of the same rows in float64, up to float32 and the gradient's rounding."""
    rows = [
        tensor.detach().to(dtype).requires_grad_() for tensor in views(60, 8, 32, torch.float32)
    ]
    value = gradlab.blockwise(loss, 16)(*rows, "sum")
    value.backward()
    expected, *references = exact(loss, rows, "sum", torch.tensor(1.0))
    assert value.dtype == torch.float32
    assert value.item() == pytest.approx(expected.item(), rel=1e-5)
    limits = torch.finfo(dtype)
    for tensor, reference in zip(rows, references, strict=True):
        assert tensor.grad.dtype == dtype
        error, worst = float((tensor.grad - reference).abs().max()), float(reference.abs().max())
        # The last term is that of subnormals.
        assert error <= (limits.eps + 1e-5) * worst + limits.tiny * limits.eps


@all_ways
def test_autocast_changes_nothing(loss: Loss) -> None:
    rows = views(60, 8, 32, torch.float32)
    blocks = gradlab.blockwise(loss, 16)
    for reduction in reductions(loss):
        upstream = torch.ones(60 if reduction == "none" else ())
        plain = gradients(blocks, rows, reduction, upstream)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            cast = gradients(blocks, rows, reduction, upstream)
        for actual, expected in zip((cast[0], *cast[1]), (plain[0], *plain[1]), strict=True):
            assert torch.equal(actual, expected)


class AllowedTF32(TorchDispatchMode):
    """Records whether torch would multiply in TF32 on a GPU, at each matrix product."""

    def __init__(self) -> None:
        super().__init__()
        self.states = set[bool]()

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        if str(function.overloadpacket) in ("aten.mm", "aten.addmm", "aten.addmm_"):
            self.states.add(tf32_allowed())
        return function(*args, **(kwargs or {}))


@pytest.mark.parametrize("allowed", ["no", "older name", "newer name"])
@pytest.mark.parametrize(
    ("rows", "autocast", "coarse"),
    [
        (torch.float32, None, False),
        (torch.float16, None, False),
        (torch.bfloat16, None, True),
        (torch.float32, torch.bfloat16, True),
        (torch.float32, torch.float16, False),
    ],
)
def test_tf32_where_bfloat16_is_good_enough(allowed, rows, autocast, coarse) -> None:
    """And where it was allowed; what is allowed does not change."""
    matmul = torch.backends.cuda.matmul
    if allowed == "newer name" and not hasattr(matmul, "fp32_precision"):
        pytest.skip("torch before 2.9")
    matmul.allow_tf32 = allowed == "older name"
    try:
        if allowed == "newer name":
            matmul.fp32_precision = "tf32"
        leaves = [
            tensor.detach().to(rows).requires_grad_()
            for tensor in views(9, 0, 5, torch.float32)[:2]
        ]
        for spec in ("arccon", "symmetric(infonce)"):
            criterion = gradlab.blockwise(spec, 4)
            with (
                torch.autocast("cpu", autocast, enabled=autocast is not None),
                AllowedTF32() as allowed_tf32,
            ):
                value = criterion(*leaves, reduction="none").sum()
                value.backward()
            assert allowed_tf32.states == {coarse or allowed != "no"}
            assert tf32_allowed() is (allowed != "no")
    finally:
        matmul.allow_tf32 = False


def test_tf32_is_as_it_was_after_an_error() -> None:
    matmul = torch.backends.cuda.matmul
    before = getattr(matmul, "fp32_precision", matmul.allow_tf32)
    with pytest.raises(KeyError), in_tf32():
        assert tf32_allowed()
        raise KeyError
    assert getattr(matmul, "fp32_precision", matmul.allow_tf32) == before


@pytest.mark.parametrize(
    ("name", "reduction"),
    [("infonce", "none"), ("mhe", "mean")],
)
def test_backward_twice(name: str, reduction: str) -> None:
    rows = views(20, 3)
    value = gradlab.blockwise(name, 8)(*rows, reduction).sum()
    value.backward(retain_graph=True)
    once = [leaf.grad.clone() for leaf in rows]
    value.backward()
    for leaf, first in zip(rows, once, strict=True):
        torch.testing.assert_close(leaf.grad, 2 * first, rtol=1e-15, atol=0)
    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        value.backward()


@pytest.mark.parametrize("name", ["infonce", "mhs"])
def test_second_derivatives_are_refused(name: str) -> None:
    rows = views(10)
    value = gradlab.blockwise(name)(*rows)
    with pytest.raises(gradlab.GradlabError, match="first derivatives only"):
        torch.autograd.grad(value, rows[0], create_graph=True)


@dataclasses.dataclass(frozen=True)
class Unregistered(PairLoss):
    """Softmaxes over all negatives, the hardest one's squared chord and its sine, and cosines."""

    def value(self, positive, negatives):
        xp = array_namespace(negatives.cosine)
        hardest = (
            xp.exp(xp.max(negatives.cosine, axis=-1) - positive.cosine) * negatives.hardest.sine
        )
        hinge = (2 - negatives.hardest.chord) ** 2
        return (
            negatives.log_sum_exp(0.1)
            + negatives.log_sum_exp(0.5)
            - 3 * positive.angle
            + hinge
            + hardest
        )

    def summary(self, negatives):
        raise AssertionError("the value is differentiated, not this")

    dissipation = weight = ratio = summary


def test_a_new_loss_is_served() -> None:
    assert_equal_to_autograd(Unregistered(), views(30, 4), 8, 1e-12)


def test_gradients_that_are_not_finite_are_refused() -> None:
    class Steep(Unregistered):
        def value(self, positive, negatives):
            return positive.chord.sqrt() + negatives.log_sum_exp(0.1)

    anchors, positives, _ = views(6)
    with pytest.raises(gradlab.GradlabError, match=r"gradient of .* is not finite"):
        gradlab.blockwise(Steep(), 4)(anchors, torch.cat([anchors[:1].detach(), positives[1:]]))


@all_ways
def test_numpy_values(loss: Loss) -> None:
    rows = [tensor.detach().numpy() for tensor in views(20, 3)]
    for reduction in reductions(loss):
        value = gradlab.blockwise(loss, 8)(*rows, reduction)
        expected = loss(*rows, reduction)
        assert type(value) is type(expected)
        np.testing.assert_allclose(value, expected, rtol=1e-12)


@pytest.mark.parametrize("reduction", ["mean", "none"])
def test_a_mask_that_changes_before_the_backward_pass_is_an_error(reduction: str) -> None:
    rows = torch.nn.functional.normalize(torch.randn(2, 6, 8, dtype=torch.float64), dim=-1)
    anchors, place = rows[0].clone().requires_grad_(), torch.arange(6)
    mask = (place[:, None] - place).abs() == 2
    criterion = gradlab.blockwise("mask(infonce, by=given)")
    value = criterion(anchors, rows[1], None, reduction, mask=mask).sum()
    value.backward(retain_graph=True)
    mask.zero_()
    with pytest.raises(RuntimeError, match="inplace operation"):
        value.backward()


def test_passes_over_the_similarities_of_a_softmax() -> None:
    """Product, exponentials, sums, and the two products of the gradients; the diagonal is apart."""
    rows, passes = views(40, 0, 8), []

    class Passes(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            tensors = [tensor for tensor in args if isinstance(tensor, torch.Tensor)]
            outcome = function(*args, **(kwargs or {}))
            tensors += [outcome] if isinstance(outcome, torch.Tensor) else []
            name = str(function.overloadpacket).partition(".")[2]
            if any(tensor.shape == (40, 40) for tensor in tensors):
                passes.append(name)
            return outcome

    with Passes():
        gradlab.blockwise("infonce")(*rows).backward()
    views_only = {"new_empty", "t", "permute", "transpose", "diagonal", "detach", "alias", "slice"}
    assert [name for name in passes if name not in views_only] == [
        "mm", "exp_", "sum", "mm", "addmm_",
    ]  # fmt: skip
