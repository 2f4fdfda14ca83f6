"""Fused kernels, run by Triton's interpreter, against autograd of the plain loss in float64."""

from __future__ import annotations

import dataclasses
import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from array_api_compat import array_namespace
from blockwise_helpers import LargestTensor, exact, gradients, unit, views

import gradlab
from gradlab.batch.similarity import Negatives
from gradlab.losses.base import Loss
from gradlab.losses.softmax_family import LinkLoss
from tests.gpu.machine import matrix_products

if importlib.util.find_spec("triton") is None:
    pytest.skip("there is no Triton beside Linux", allow_module_level=True)

ROOT = Path(gradlab.__file__).parents[1]
SMALL = {"ROWS": 16, "COLUMNS": 16, "DEPTH": 16}  # tiles, of which small batches have several
# One loss for each way that log-sum-exps are asked for, and for each link.
SERVED = (
    "infonce",
    "tvmf",
    "circle",
    "hcl",
    "cosent",
    "dhel(terms=both)",
    "symmetric(infonce(temperature=0.02), reverse=tvmf)",
    "pool(infonce, negatives=other+same)",
    "per_prefix(symmetric(infonce), dims=5+12)",
    "sum(infonce, dhel, weights=1+0.5)",
)


@pytest.fixture(autouse=True)
def interpreter(monkeypatch):
    """In place of a GPU (conftest.py tells Triton); small batches have several of its tiles."""
    from gradlab.scale import triton_kernels

    for name in ("HALF", "TF32", "FLOAT32"):
        monkeypatch.setattr(triton_kernels, name, getattr(triton_kernels, name) | SMALL)


def assert_exact(
    spec: str | Loss,
    rows: list[Any],
    reduction: str = "mean",
    tolerance: float = 1e-5,
    **context: Any,
) -> None:
    """Value and gradients, relative to the largest entry of each."""
    loss = gradlab.get_loss(spec)
    upstream = torch.linspace(-1, 2, len(rows[0])) if reduction == "none" else torch.tensor(1.7)
    expected = exact(loss, rows, reduction, upstream, **context)
    value, computed = gradients(
        gradlab.blockwise(loss, 8, kernels=True), rows, reduction, upstream, **context
    )
    for actual, reference in zip([value, *computed], expected, strict=True):
        largest = float(reference.abs().max())
        torch.testing.assert_close(actual.double(), reference, rtol=0, atol=tolerance * largest)


@pytest.mark.parametrize("spec", SERVED)
def test_equals_autograd_in_float64(spec: str) -> None:
    """Neither rows nor dimensions are a multiple of a tile."""
    assert_exact(spec, views(18, 3, 12, torch.float32), "sum")


@pytest.mark.parametrize(
    ("spec", "size", "dimensions"),
    [("infonce", 2, 5), ("symmetric(infonce)", 16, 16), ("dhel", 17, 18)],
)
def test_batches_of_any_size(spec: str, size: int, dimensions: int) -> None:
    assert_exact(spec, views(size, 0, dimensions, torch.float32))


def test_rows_all_around() -> None:
    """Cosines of any size and sign, rows requiring no gradient, gradients of rows across memory."""
    generator = torch.Generator().manual_seed(0)
    first, second = (unit(torch.randn(7, 18, generator=generator)).T for _ in range(2))
    anchors, positives = unit(first).requires_grad_(), unit(second).requires_grad_()
    assert_exact("symmetric(infonce(temperature=0.3))", [anchors, positives, None], "none")
    loss = gradlab.blockwise("infonce", kernels=True)
    (of_positives,) = torch.autograd.grad(loss(anchors.detach(), positives), positives)
    (of_both,) = torch.autograd.grad(loss(anchors, positives), positives)
    assert torch.equal(of_positives, of_both)


@pytest.mark.parametrize("spec", ["tvmf", "symmetric(infonce)"])
def test_own_negatives(spec: str) -> None:
    own = unit(torch.randn(18, 3, 12, generator=torch.Generator().manual_seed(0))).requires_grad_()
    assert_exact(spec, views(18, 4, 12, torch.float32), own_negatives=own)


@pytest.mark.parametrize("spec", ["infonce", "tvmf", "pool(infonce, negatives=own)"])
def test_own_negatives_as_the_only_ones(spec: str) -> None:
    own = unit(torch.randn(9, 3, 12, generator=torch.Generator().manual_seed(0))).requires_grad_()
    rows = views(9, 0, 12, torch.float32)
    context = {"own_negatives": own, "in_batch_negatives": "pool" in spec}
    expected = gradlab.get_loss(spec)(*rows, **context)
    value = gradlab.blockwise(spec, kernels=True)(*rows, **context)
    torch.testing.assert_close(value, expected)
    leaves = [*rows[:2], own]
    for actual, gradient in zip(
        torch.autograd.grad(value, leaves), torch.autograd.grad(expected, leaves), strict=True
    ):
        torch.testing.assert_close(actual, gradient, rtol=1e-5, atol=1e-7)


def test_float16_rows_are_multiplied_as_they_are() -> None:
    """Small coefficients included: each is a millionth of the largest float16."""
    rows = [tensor.detach().half().requires_grad_() for tensor in views(20, 3, 12, torch.float32)]
    value = gradlab.blockwise("infonce", kernels=True)(*rows)
    assert value.dtype == torch.float32
    assert rows[0].grad is None
    value.backward(torch.tensor(1e-4))
    expected = exact(gradlab.get_loss("infonce"), rows, "mean", torch.tensor(1e-4))[1]
    assert rows[0].grad.dtype == torch.float16
    limits = torch.finfo(torch.float16)
    error = float((rows[0].grad.double() - expected).abs().max())
    assert error <= 2 * limits.eps * float(expected.abs().max()) + limits.tiny * limits.eps


def test_tf32_where_torch_allows_it() -> None:
    rows = views(20, 3, 12, torch.float32)
    with matrix_products("tf32"):
        assert_exact("symmetric(infonce)", rows, tolerance=1e-2)
        with pytest.raises(AssertionError):
            assert_exact("symmetric(infonce)", rows, tolerance=1e-5)


@dataclasses.dataclass(frozen=True)
class Bent(LinkLoss):
    """A link that nobody registered: steeper above a cosine of 0.2, and bent below."""

    name = "bent"

    def link(self, cosine):
        xp = array_namespace(cosine)
        return xp.where(
            cosine > 0.2, 9 * cosine**2, xp.exp(-(cosine**2)) / (2 - cosine) + xp.sqrt(2 + cosine)
        )

    def slope(self, cosine):
        raise AssertionError("the link is differentiated, not this")


def test_a_new_link_is_served() -> None:
    assert_exact(Bent(), views(18, 2, 7, torch.float32, spread=1.0))


@dataclasses.dataclass(frozen=True)
class Asking(LinkLoss):
    """Takes a logit of its negatives that depends on how many there are."""

    name = "asking"

    def link(self, cosine):
        return cosine

    slope = link

    def negative_logits(self, negatives: Negatives):
        return negatives.cosine / negatives.cosine.shape[-1]


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        (Asking(), "depends on sizes or on other cosines"),
        ("met", "log-sum-exps from their negatives; met takes something else"),
        ("infonce(learnable=true)", "this one learns values.log_temperature"),
    ],
)
def test_losses_that_are_not_served_are_refused(spec: str | Loss, words: str) -> None:
    with pytest.raises(gradlab.GradlabError, match=words):
        gradlab.blockwise(spec, kernels=True)(*views(8, 0, 5, torch.float32))


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        (views(6, 0, 4)[:2], "kernels compute in float32"),
        (
            [tensor.detach().bfloat16() for tensor in views(6, 0, 4)[:2]],
            "interpreter multiplies no bfloat16",
        ),
    ],
)
def test_rows_that_are_not_served_are_refused(rows: list[Any], words: str) -> None:
    with pytest.raises(gradlab.GradlabError, match=words):
        gradlab.blockwise("infonce", kernels=True)(*rows)


def test_no_similarities_are_held() -> None:
    """Coefficients of at most 8 rows, which the interpreter copies as bytes; one block holds N²."""
    rows = views(34, 0, 3, torch.float32)
    with LargestTensor() as largest:
        gradlab.blockwise("symmetric(infonce)", 8, kernels=True)(*rows).backward()
    assert largest.entries <= 4 * 8 * 34
    with LargestTensor() as largest:
        gradlab.blockwise("symmetric(infonce)")(*rows).backward()
    assert largest.entries >= 34 * 34


COMPILES = """
import sys
import gradlab
import gradlab.scale
assert "triton" not in sys.modules, "loaded before it is asked for"
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from gradlab.scale import triton_kernels as kernels
from gradlab.scale.links import link_of
link = kernels._function(link_of(gradlab.get_loss("tvmf").negative_logits))
options = dict(kernels.HALF)
launch = {name: options.pop(name) for name in ("num_warps", "num_stages")}
fixed = {"OWN": True, "LINK": link, "PRECISION": "tf32", "BY_ROWS": True,
  "BY_COLUMNS": True, "ROUND": False} | options
for kernel in (kernels._log_sum_exps, kernels._coefficients):
    types = dict.fromkeys(kernel.arg_names, "i32") | {"rows": "*bf16", "columns": "*bf16"}
    for name in ("total_i", "upstream_i", "total_j", "upstream_j"):
        types[name] = "*fp32"
    types["destination"] = "*fp32" if kernel is kernels._log_sum_exps else "*bf16"
    types = {name: "constexpr" if name in fixed else types[name] for name in kernel.arg_names}
    values = {name: value for name, value in fixed.items() if name in kernel.arg_names}
    made = triton.compile(ASTSource(kernel, types, values),
      target=GPUTarget("cuda", 80, 32), options=launch)
    assert "mma" in made.asm["ptx"]
"""


def test_they_compile_for_a_gpu_and_load_nothing_before() -> None:
    """With bfloat16 rows, which the interpreter does not multiply; compiling needs no GPU."""
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    process = subprocess.run(
        [sys.executable, "-c", COMPILES],
        capture_output=True, text=True, env=environment, cwd=ROOT, check=False,
    )  # fmt: skip
    assert process.returncode == 0, process.stderr[-2000:]
