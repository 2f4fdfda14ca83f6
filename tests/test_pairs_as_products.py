"""Sums over all pairs as matrix products: plain values and gradients, without N x N x D entries."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from gradlab.gradient.pairs_as_products import PairsAsProducts, pairs_as_products
from gradlab.gradient.vectorised import GradientsAt, _LargestArray

N, M, D = 6, 5, 40


def rows(count=N, dim=D, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(count, dim, dtype=torch.float64, generator=generator)


def concatenated(a, b):
    z = torch.cat([a, b])
    cosines = F.cosine_similarity(z[:, None], z[None], dim=-1)
    return cosines.masked_fill(torch.eye(len(z), dtype=torch.bool), -9.0)


FAST = {
    "cosine_similarity": lambda a, b: F.cosine_similarity(a.unsqueeze(1), b.unsqueeze(0), dim=-1),
    "CosineSimilarity": lambda a, b: torch.nn.CosineSimilarity(dim=2)(a[:, None], b[None]),
    "cosine of expanded": lambda a, b: torch.cosine_similarity(
        a[:, None].expand(-1, len(b), -1), b[None].expand(len(a), -1, -1), -1
    ),
    "cosine of repeated": lambda a, b: F.cosine_similarity(
        a.unsqueeze(1).repeat(1, len(b), 1), b.unsqueeze(0).repeat(len(a), 1, 1), dim=2
    ),
    "concatenated": concatenated,
    "product": lambda a, b: (a[:, None] * b[None]).sum(-1),
    "product of fewer axes": lambda a, b: torch.mul(a[:, None], b).sum(dim=2),
    "mean of products": lambda a, b: (a.unsqueeze(1) * b).mean(-1, keepdim=True),
    "norm": lambda a, b: (a[:, None] - b[None]).norm(dim=-1),
    "norm, kept": lambda a, b: torch.norm(a[:, None] - b[None], p=2, dim=2, keepdim=True),
    "linalg.norm": lambda a, b: torch.linalg.norm(a[:, None] - b[None], dim=-1),
    "vector_norm": lambda a, b: torch.linalg.vector_norm(a[:, None] - b, dim=-1),
    "squares": lambda a, b: ((a[:, None] - b[None]) ** 2).sum(-1),
    "square": lambda a, b: (a[:, None] - b[None]).square().sum(2, keepdim=True),
    "difference twice": lambda a, b: (lambda d: (d * d).sum(-1))(a[:, None] - b[None]),
    "pairwise_distance": lambda a, b: F.pairwise_distance(a[:, None], b[None]),
    "rows of all pairs": lambda a, b: F.cosine_similarity(
        a.repeat_interleave(len(b), dim=0), b.repeat(len(a), 1)
    ),
    "products of rows": lambda a, b: (a.repeat(len(b), 1) * b.repeat_interleave(len(a), 0)).sum(1),
    "distances of rows": lambda a, b: F.pairwise_distance(
        torch.repeat_interleave(a, len(b), 0), b.repeat(len(a), 1), keepdim=True
    ),
    "own distances": lambda a, b: (a[:, None] - a[None]).norm(dim=-1).exp(),
    "masked sum": lambda a, b: ((a @ b.T > 0).to(a)[:, :, None] * b[None]).sum(1),
}
# Computed plainly: other sums, in-place changes, views and parts of what was postponed.
PLAIN = {
    "absolute": lambda a, b: (a[:, None] - b[None]).abs().sum(-1),
    "norm of order 1": lambda a, b: (a[:, None] - b[None]).norm(p=1, dim=-1),
    "sum of all": lambda a, b: (a[:, None] * b[None]).sum(),
    "norm of products": lambda a, b: (a[:, None] * b[None]).norm(dim=-1),
    "sum of differences": lambda a, b: (a[:, None] - b[None]).sum(-1),
    "cube": lambda a, b: (a[:, None] - b[None]).pow(3).sum(-1),
    "part": lambda a, b: (a[:, None] - b[None])[..., :3].norm(dim=-1),
    "transposed": lambda a, b: (a[:, None] * b[None]).mT.sum(1),
    "in place": lambda a, b: (a[:, None] - b[None]).mul_(2).norm(dim=-1),
    "repeated differently": lambda a, b: (
        a[:4].repeat_interleave(5, 0) * torch.cat([b[:4]] * 5)
    ).sum(1),
    "rows by coordinates": lambda a, b: (a.repeat(len(b), 1) * b.repeat_interleave(len(a), 0)).sum(
        0
    ),
    "two uses": lambda a, b: (lambda d: d.norm(dim=-1) + d.abs().sum(-1))(a[:, None] - b[None]),
    "joined": lambda a, b: torch.cat([a[:, None] - b[None], a[:, None] * b[None]]).sum(-1),
}


def changed_in_place(a, b):
    difference = a[:, None] - b[None]
    difference += 1
    return difference.norm(dim=-1)


def begun_without_gradient(a, b):
    with torch.no_grad():
        difference = a[:, None] - b[None]
    return difference.norm(dim=-1) * (a @ b.T)


def looked_at_without_gradient(a, b):
    difference = a[:, None] - b[None]
    with torch.no_grad():
        largest = difference.abs().amax()
    return difference.norm(dim=-1) / largest


PLAIN["changed in place"] = changed_in_place
PLAIN["begun without gradient"] = begun_without_gradient
PLAIN["looked at without gradient"] = looked_at_without_gradient


def value_and_derivatives(function, *, second):
    """Return the value, gradients, and second derivatives along a direction."""
    a, b = (rows(count, seed=count).requires_grad_() for count in (N, M))
    value = function(a, b)
    weighted = (value * torch.linspace(1, 2, value.numel(), dtype=value.dtype).view_as(value)).sum()
    gradients = torch.autograd.grad(
        weighted, (a, b), create_graph=second, allow_unused=True, materialize_grads=True
    )
    arrays = [value, *gradients]
    if second and gradients[0].requires_grad:
        total = sum((gradient * gradient.detach().cos()).sum() for gradient in gradients)
        arrays += torch.autograd.grad(total, (a, b), allow_unused=True, materialize_grads=True)
    return arrays


def assert_equal(arrays, expected):
    for array, plain in zip(arrays, expected, strict=True):
        torch.testing.assert_close(array, plain, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", [*FAST, *PLAIN])
def test_values_and_derivatives_are_the_plain_ones(name):
    function = (FAST | PLAIN)[name]
    second = name not in ("own distances", "concatenated")  # with distances or angles of 0
    expected = value_and_derivatives(function, second=second)
    for exact in (True, False):
        by_products = pairs_as_products(function, exact=exact)
        assert_equal(value_and_derivatives(by_products, second=second), expected)


@pytest.mark.parametrize("name", FAST)
def test_no_array_holds_the_coordinates_of_all_pairs(name):
    a, b = (rows(count, seed=count).requires_grad_() for count in (N, M))
    with _LargestArray() as largest:
        FAST[name](a, b).sum().backward()
    assert largest.entries >= N * M * D
    with _LargestArray() as largest:
        pairs_as_products(FAST[name])(a, b).sum().backward()
    assert largest.entries <= max(2 * N * D + 2 * M * D, (N + M) ** 2)


@pytest.mark.parametrize(
    "name", ["cosine of repeated", "rows of all pairs", "norm", "own distances", "squares"]
)
def test_vectorised(name):
    a = torch.stack([rows(seed=seed) for seed in range(3)])
    b = rows(M, seed=9)

    def value(a, b):
        return FAST[name](a, b).square().sum()

    gradients = torch.func.vmap(
        torch.func.grad(pairs_as_products(value, exact=False)), in_dims=(0, None)
    )(a, b)
    plain = [torch.func.grad(value)(a[i], b) for i in range(3)]
    torch.testing.assert_close(gradients, torch.stack(plain), rtol=1e-12, atol=1e-12)


def test_small_distances_have_all_their_digits():
    a = rows().requires_grad_()
    b = (a.detach() + 1e-9 * rows(seed=7)).requires_grad_()

    def gradients(function):
        distances = function(a, b)
        return torch.autograd.grad(distances.log().sum(), (a, b))

    assert_equal(gradients(pairs_as_products(FAST["norm"])), gradients(FAST["norm"]))


class Opaque(torch.autograd.Function):
    @staticmethod
    def forward(context, tensor):
        context.shape = tensor.shape
        return tensor.square().sum(-1)

    @staticmethod
    def backward(context, gradient):
        return gradient[..., None].expand(context.shape)


def test_a_loss_that_hides_its_operations_is_called_plainly():
    def value(leaf, points):
        return Opaque.apply(leaf[:, None] * torch.ones(6, 1, 1).double() - points[None]).sum()

    leaves, points = rows(4, 6), rows(20, 4, seed=3).reshape(4, 5, 4)

    def of_row(leaf, points):
        return Opaque.apply((leaf[None, None] - points[:, None]).expand(5, 6, 4)).sum()

    leaves = rows(4, 4)
    gradients = GradientsAt(of_row)(leaves, (points,), progress=False)
    plain = [torch.autograd.functional.jacobian(lambda x, i=i: of_row(x, points[i]), leaves[i])
             for i in range(4)]  # fmt: skip
    torch.testing.assert_close(gradients, torch.stack(plain))


def test_shapes_are_known_without_numbers():
    with PairsAsProducts():
        difference = rows()[:, None] - rows(M)[None]
        assert difference.shape == (N, M, D)
        assert (len(difference), difference.size(1), difference.ndim) == (N, M, 3)
        assert difference.dtype == torch.float64
        assert not difference.isnan().any()
