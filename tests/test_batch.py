"""What `check_batch` refuses and converts, and what a batch computes once."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch
from blockwise_helpers import LargestTensor, unit, views

import gradlab
from gradlab.batch.check import check_batch
from gradlab.batch.comparison import PLAIN

CALLS = {
    "plain": lambda loss, *rows, **context: gradlab.get_loss(loss)(*rows, **context),
    "blockwise": lambda loss, *rows, **context: gradlab.blockwise(loss, 3)(*rows, **context),
    "components": lambda loss, *rows, **context: gradlab.components(loss, *rows, **context).weight,
}


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("loss", ["infonce", "mpt", "symmetric(infonce)", "supcon", "triplet"])
@pytest.mark.parametrize("width", [0, 1, 5, 8, 13])
def test_a_relation_has_one_column_for_each_candidate(call, loss, width):
    anchors, positives, _ = views(6)
    relation = np.where(np.eye(6, width), 1, -1)
    with pytest.raises(
        gradlab.GradlabError, match=r"relation must be whole numbers of shape \(6, 6\) or \(6, 12\)"
    ):
        CALLS[call](loss, anchors, positives, relation=relation)


def test_scores_of_a_teacher_have_one_column_for_each_candidate():
    anchors, positives, extra = views(6, 3)
    for width in (6, 10, 3):
        with pytest.raises(gradlab.GradlabError, match=r"\(6, 9\) or \(6, 15\) or \(6, 4\)"):
            CALLS["plain"]("kl", anchors, positives, extra, teacher=np.zeros((6, width)))


@pytest.mark.parametrize("in_batch", [True, False])
def test_the_own_pair_comes_first_in_a_relation_without_columns_of_the_batch(in_batch):
    """Whatever the number of extra negatives: no warning that pairs are left out."""
    for extra in (2, 9):
        rows = views(6, extra)
        relation = np.where(np.arange(1 + extra) == 0, 1, -1) * np.ones((6, 1), dtype=int)
        loss = gradlab.get_loss("pool(infonce, negatives=extra)")
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            value = loss(*rows, relation=relation, in_batch_negatives=in_batch)
        torch.testing.assert_close(value, loss(*rows, in_batch_negatives=in_batch))


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize(
    ("loss", "name"),
    [
        ("kl", "teacher"),
        ("margin_mse", "teacher"),
        ("embedding_distillation", "teacher"),
        ("symmetric(kl)", "teacher"),
        ("mask(infonce, by=guide)", "guide"),
    ],
)
@pytest.mark.parametrize("rows_dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_another_model_embeds_in_any_dtype(call, loss, name, rows_dtype):
    """Results have the dtype of the rows, float32 for half precision, and the values of a cast."""
    rows = views(6, 0, 8, rows_dtype)[:2]
    teacher = [tensor.detach() for tensor in views(6, 0, 8)[:2]]
    expected = torch.float32 if rows_dtype == torch.bfloat16 else rows_dtype
    cast = CALLS[call](loss, *rows, **{name: [unit(tensor).to(expected) for tensor in teacher]})
    for dtype in (torch.float64, torch.float32, torch.float16):
        teacher_rows = [tensor.to(dtype) for tensor in teacher]
        embedded = CALLS[call](loss, *rows, **{name: teacher_rows})
        assert embedded.dtype == expected
        if call != "components":  # whose weights jump where a teacher's score is the student's
            torch.testing.assert_close(embedded, cast, rtol=2e-2, atol=1e-3)
    assert check_batch(*rows, **{name: teacher_rows}).anchors.dtype == expected


@pytest.mark.parametrize("size", [1e-25, 1e-21, 1e19, 1e25, 1e38])
def test_rows_of_any_norm_are_normalised(size):
    anchors, positives, _ = views(6, 0, 12, torch.float32)
    expected = check_batch(anchors, positives).anchors
    normalized = check_batch(anchors * size, positives, normalize=True)
    torch.testing.assert_close(normalized.anchors, expected, rtol=0, atol=3e-7)
    as_numpy = (anchors * size).detach().numpy()
    np.testing.assert_allclose(
        check_batch(as_numpy, positives.detach().numpy(), normalize=True).anchors,
        expected.detach().numpy(),
        rtol=0,
        atol=3e-7,
    )
    with pytest.raises(gradlab.GradlabError, match="anchors are not unit vectors"):
        check_batch(anchors * size, positives)


def test_what_is_wrong_with_a_row_is_named():
    anchors, positives, _ = views(6)
    zero, wrong = anchors.detach().clone(), positives.detach().clone()
    zero[2], wrong[3, 1] = 0, torch.inf
    for normalize in (True, False):
        with pytest.raises(gradlab.GradlabError, match="anchors contain a row of zeros"):
            check_batch(zero, positives, normalize=normalize)
        with pytest.raises(gradlab.GradlabError, match="positives contain NaN or infinite"):
            check_batch(anchors, wrong, normalize=normalize)
    cast = [tensor.detach().double() for tensor in views(6, 0, 12, torch.float32)[:2]]
    with pytest.raises(
        gradlab.GradlabError, match=r"as float32 rounds it\); divide rows by their norms in float64"
    ):
        check_batch(*cast)


class Products(LargestTensor):
    """Counts the entries of all matrix products."""

    entries = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        product = function(*args, **(kwargs or {}))
        if function.overloadpacket is torch.ops.aten.mm:
            self.entries += product.numel()
        return product


@pytest.mark.parametrize(
    "loss", ["symmetric(sum(infonce, dcl))", "sum(infonce, sum(dcl, symmetric(infonce)))"]
)
def test_combinators_share_one_product(loss):
    anchors, positives, _ = views(20)
    with Products() as products, torch.no_grad():
        gradlab.get_loss(loss)(anchors, positives)
    assert products.entries == 20 * 20


def test_a_shared_product_keeps_the_order_of_its_memory():
    first, second = (rows.detach().numpy() for rows in views(5, 0, 4)[:2])
    comparison = PLAIN.sharing()
    cosines, exchanged = comparison.cosines(first, second, 0), comparison.cosines(second, first, 0)
    np.testing.assert_array_equal(exchanged, cosines.T)
    assert exchanged.flags.f_contiguous  # else sums of both directions are ten times slower
    assert np.isneginf(np.diagonal(cosines)).all()
    np.testing.assert_array_equal(comparison.cosines(first, second), first @ second.T)


@pytest.mark.parametrize("counted", ["active", "positives"])
def test_a_number_of_the_whole_batch_is_counted_once(counted):
    """In blocks, too: the products take twice the entries, the second time to count."""
    anchors, positives, _ = views(60)
    with Products() as products, torch.no_grad():
        gradlab.blockwise(f"triplet(mean_over={counted})", 6)(anchors, positives)
    assert products.entries == 2 * 60 * 60
