"""Fused kernels, run by Triton's interpreter, against autograd of the plain loss in float64."""

from __future__ import annotations

import dataclasses
import importlib.util
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import torch
from array_api_compat import array_namespace
from blockwise_helpers import LargestTensor, exact, gradients, unit, views

import gradlab
from gradlab.batch.similarity import Negatives
from gradlab.losses.base import Loss
from gradlab.losses.link_loss import LinkLoss
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
    monkeypatch.setattr(triton_kernels, "TILES", 1)  # so that sums have several parts


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
        gradlab.blockwise(loss, 8, way="kernels"), rows, reduction, upstream, **context
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


@pytest.mark.parametrize("spec", ["infonce", "symmetric(tvmf)"])
def test_tiles_loaded_by_pointers(spec: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As where the GPU has no memory engine; other tests load by descriptors if D allows it."""
    from gradlab.scale import triton_kernels

    monkeypatch.setattr(triton_kernels, "DESCRIPTORS", False)
    assert_exact(spec, views(18, 3, 12, torch.float32))


@pytest.mark.parametrize("spec", ["infonce", "symmetric(infonce(temperature=0.01))"])
def test_results_do_not_depend_on_the_order_of_programs(
    spec: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from triton.runtime import interpreter

    builder = type(interpreter.interpreter_builder)
    rows, loss = views(34, 0, 8, torch.float32), gradlab.blockwise(spec, way="kernels")
    expected = gradients(loss, rows, "mean", torch.tensor(1.0))
    set_place = builder.set_grid_idx

    def last_first(self: Any, *place: int) -> None:
        set_place(self, *(size - 1 - at for size, at in zip(self.grid_dim, place, strict=True)))

    monkeypatch.setattr(builder, "set_grid_idx", last_first)
    computed = gradients(loss, rows, "mean", torch.tensor(1.0))
    assert torch.equal(computed[0], expected[0])
    assert all(map(torch.equal, computed[1], expected[1]))


@pytest.fixture
def products(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Matrix products of n x k x D by what makes them."""
    from gradlab.scale import kernels, triton_kernels

    counts: Counter[str] = Counter()

    def counted(owner: Any, name: str) -> None:
        function = getattr(owner, name)

        def wrapper(*arguments: Any, **options: Any) -> Any:
            counts[name] += 1
            return function(*arguments, **options)

        monkeypatch.setattr(owner, name, wrapper)

    for name in ("log_sum_exps", "coefficients"):
        counted(triton_kernels, name)
    counted(kernels.Operands, "add_product")
    return counts


@pytest.mark.parametrize(
    ("spec", "cosines", "differentiated"),
    [
        ("infonce", 1, 3),
        ("tvmf", 1, 3),
        ("infonce(temperature=0.01)", 1, 4),  # exponentials would underflow
        ("symmetric(infonce)", 1, 4),
        ("symmetric(tvmf)", 1, 4),
        ("symmetric(infonce, reverse=tvmf)", 2, 6),
        ("dhel", 1, 3),  # pairs within a view have one coefficient for both sentences
    ],
)
def test_products_of_a_value_and_of_a_gradient(
    products: Counter[str], spec: str, cosines: int, differentiated: int
) -> None:
    """2 N² D operations each; one direction computes each cosine once, both directions twice."""
    loss, rows = gradlab.blockwise(spec, way="kernels"), views(18, 0, 12, torch.float32)
    with torch.no_grad():
        loss(*rows)
    assert products == {"log_sum_exps": cosines}
    products.clear()
    loss(*rows).backward()
    assert products.total() == differentiated
    assert products["add_product"] == 2 * cosines - (spec == "dhel")


def test_bfloat16_rows_with_kernels_in_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    """What surrounds the kernels on a GPU: the interpreter multiplies no bfloat16."""
    from gradlab.scale import triton_kernels

    def cosines(rows: torch.Tensor, columns: torch.Tensor, own: int | None) -> torch.Tensor:
        assert rows.dtype == columns.dtype == torch.bfloat16
        similarities = rows.float() @ columns.float().T
        if own is not None:
            similarities.diagonal(own).fill_(-torch.inf)
        return similarities

    def log_sum_exps(rows: Any, columns: Any, own: Any, link: Any, **asked: bool) -> Any:
        logits = cosines(rows, columns, own) / 0.05
        terms = ((logits - link.reference).exp() / 0.05).bfloat16()
        return triton_kernels.Sums(
            logits.logsumexp(1),
            logits.logsumexp(0) if asked.get("column_sums") else None,
            terms if asked.get("exponentials") else None,
        )

    def coefficients(rows: Any, columns: Any, own: Any, _: Any, *softmaxes: Any) -> Any:
        logits = cosines(rows, columns, own) / 0.05
        (of_rows, by_rows), (of_columns, by_columns) = softmaxes
        terms = by_rows[:, None] * (logits - of_rows[:, None]).exp()
        return ((terms + by_columns * (logits - of_columns).exp()) / 0.05).bfloat16()

    def mm(left: Any, right: Any, *, out_dtype: torch.dtype) -> torch.Tensor:
        assert left.dtype == right.dtype == torch.bfloat16
        assert out_dtype == torch.float32
        return left.float() @ right.float()

    monkeypatch.setattr(triton_kernels, "log_sum_exps", log_sum_exps)
    monkeypatch.setattr(triton_kernels, "coefficients", coefficients)
    monkeypatch.setattr(torch, "mm", mm)
    monkeypatch.setattr(sys.modules["gradlab.scale.blockwise"], "check_rows", lambda rows: None)
    for spec in ("infonce", "symmetric(infonce)"):
        rows = [
            None if view is None else view.detach().bfloat16().requires_grad_()
            for view in views(20, 0, 12, torch.float32)
        ]
        loss = gradlab.get_loss(spec)
        expected = exact(loss, rows, "mean", torch.tensor(1.7))
        value, computed = gradients(
            gradlab.blockwise(loss, 8, way="kernels"), rows, "mean", torch.tensor(1.7)
        )
        for actual, reference in zip([value, *computed], expected, strict=True):
            assert float((actual - reference).abs().max() / reference.abs().max()) < 2 * 2**-8


def test_rows_all_around() -> None:
    """Cosines of any size and sign, rows requiring no gradient, gradients of rows across memory."""
    generator = torch.Generator().manual_seed(0)
    first, second = (unit(torch.randn(7, 18, generator=generator)).T for _ in range(2))
    anchors, positives = unit(first).requires_grad_(), unit(second).requires_grad_()
    assert_exact("symmetric(infonce(temperature=0.3))", [anchors, positives, None], "none")
    loss = gradlab.blockwise("infonce", way="kernels")
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
    value = gradlab.blockwise(spec, way="kernels")(*rows, **context)
    torch.testing.assert_close(value, expected)
    leaves = [*rows[:2], own]
    for actual, gradient in zip(
        torch.autograd.grad(value, leaves), torch.autograd.grad(expected, leaves), strict=True
    ):
        torch.testing.assert_close(actual, gradient, rtol=1e-5, atol=1e-7)


def test_float16_rows_are_multiplied_as_they_are() -> None:
    """Small coefficients included: each is a millionth of the largest float16."""
    rows = [tensor.detach().half().requires_grad_() for tensor in views(20, 3, 12, torch.float32)]
    value = gradlab.blockwise("infonce", way="kernels")(*rows)
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
        gradlab.blockwise(spec, way="kernels")(*views(8, 0, 5, torch.float32))


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
        gradlab.blockwise("infonce", way="kernels")(*rows)


def test_no_similarities_are_held() -> None:
    """Coefficients of at most 8 rows, which the interpreter copies as bytes; one block holds N²."""
    rows = views(34, 0, 3, torch.float32)
    for spec in ("symmetric(infonce)", "infonce"):
        loss = gradlab.blockwise(spec, 8, way="kernels")
        with LargestTensor() as largest:
            loss(*rows).backward()
        assert largest.entries <= 4 * 8 * 34
        with torch.no_grad(), LargestTensor() as largest:
            loss(*rows)
        assert largest.entries <= 4 * 3 * 34  # sums of each tile's columns
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
from gradlab.scale.logit_translation import link_of
link = kernels._function(link_of(gradlab.get_loss("tvmf").negative_logits).source)
options = dict(kernels.HALF)
launch = {name: options.pop(name) for name in ("num_warps", "num_stages")}
fixed = {"OWN": True, "LINK": link, "PRECISION": "tf32", "FIXED": True, "BY_ROWS": True,
  "BY_COLUMNS": True, "COLUMN_SUMS": True, "STORE": True, "ROUND": False, "FLATTEN": False,
  "TILES": 8} | options
for kernel, capability in ((kernels._sums, 90), (kernels._coefficients, 80)):
    described = capability == 90
    types = dict.fromkeys(kernel.arg_names, "i32") | {"reference": "fp32"}
    for name in ("of_rows", "of_columns", "total_i", "upstream_i", "total_j", "upstream_j"):
        types[name] = "*fp32"
    types["destination"] = types["exponentials"] = "*bf16"
    for name, side in (("rows", "ROWS"), ("columns", "COLUMNS")):
        tile = f"tensordesc<bf16[{options[side]},{options['DEPTH']}]>"
        types[name] = tile if described else "*bf16"
    values = {name: value for name, value in (fixed | {"DESCRIBED": described}).items()
      if name in kernel.arg_names}
    types = {name: "constexpr" if name in values else types[name] for name in kernel.arg_names}
    made = triton.compile(ASTSource(kernel, types, values),
      target=GPUTarget("cuda", capability, 32), options=launch)
    assert "mma" in made.asm["ptx"]
    assert ("cp.async.bulk.tensor" in made.asm["ptx"]) is described
"""


def test_they_compile_for_a_gpu_and_load_nothing_before() -> None:
    """With bfloat16 rows, which the interpreter does not multiply; compiling needs no GPU."""
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    process = subprocess.run(
        [sys.executable, "-c", COMPILES],
        capture_output=True, text=True, env=environment, cwd=ROOT, check=False,
    )  # fmt: skip
    assert process.returncode == 0, process.stderr[-2000:]
