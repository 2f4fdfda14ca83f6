"""Calls replayed as CUDA graphs, with a recorder that runs the computation again in its memory."""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable

import pytest
import torch
from blockwise_helpers import unit, views

from gradlab.errors import GradlabError
from gradlab.scale import block_loop, blocks, blockwise, cuda_graph
from tests.gpu.host_waits import counted_waits


@pytest.fixture
def recorded(monkeypatch) -> list[str]:
    """What is recorded (once a shape) and replayed, in place of a GPU."""
    calls: list[str] = []

    def record(compute: Callable, device: torch.device) -> tuple[Callable, tuple]:
        with counted_waits() as waits:
            outputs = compute()
        assert not waits, "a graph cannot wait for the host"
        calls.append("record")

        def replay() -> None:
            calls.append("replay")
            for output, memory in zip(compute(), outputs, strict=True):
                memory.copy_(output)

        return replay, outputs

    monkeypatch.setattr(cuda_graph, "record", record)
    module = sys.modules["gradlab.scale.blockwise"]  # not the function of that name
    monkeypatch.setattr(module, "is_recordable", lambda rows: True)
    for reader in (module, blocks, block_loop):
        monkeypatch.setattr(reader, "reading_is_free", lambda tensor: False)
    return calls


def gradients_of(loss, rows, reduction="mean", **options):
    leaves = [view.detach().clone().requires_grad_() for view in rows if view is not None]
    value = loss(*leaves, reduction=reduction, **options)
    return value, torch.autograd.grad(1.7 * value, leaves)


@pytest.mark.parametrize(
    "spec", ["infonce", "symmetric(infonce)", "arccon", "siglip(learnable=false)", "dhel"]
)
@pytest.mark.parametrize("normalize", [True, False])
def test_replays_equal_usual_calls(recorded, spec, normalize):
    replayed, eager = blockwise(spec, graph=True), blockwise(spec)
    for seed in range(4):
        generator = torch.Generator().manual_seed(seed)
        rows = [torch.randn(12, 6, generator=generator) for _ in range(2)]
        rows = [3 * view if normalize else unit(view) for view in rows]
        for reduction in ("mean", "sum"):
            value, computed = gradients_of(replayed, rows, reduction, normalize=normalize)
            expected = gradients_of(eager, rows, reduction, normalize=normalize)
            torch.testing.assert_close(value, expected[0])
            for actual, reference in zip(computed, expected[1], strict=True):
                torch.testing.assert_close(actual, reference, rtol=1e-4, atol=1e-6)
    assert recorded.count("record") == 2
    assert recorded.count("replay") == 6


def test_half_precision_rows_and_a_second_call_before_the_backward_pass(recorded):
    loss = blockwise("infonce", graph=True)
    batches = [
        [view.detach().bfloat16().requires_grad_() for view in views(10, 0, 6) if view is not None]
        for _ in range(3)
    ]
    values = [
        loss(*(view + place for view in rows), normalize=True) for place, rows in enumerate(batches)
    ]
    assert recorded == ["record", "replay", "replay"]
    values[1].backward()  # after the third call has replayed
    expected = [view.detach().clone().requires_grad_() for view in batches[1]]
    blockwise("infonce")(*(view + 1 for view in expected), normalize=True).backward()
    for actual, reference in zip(batches[1], expected, strict=True):
        assert actual.grad.dtype == torch.bfloat16
        torch.testing.assert_close(actual.grad, reference.grad, rtol=2e-2, atol=1e-4)


def test_what_is_wrong_raises_the_usual_error(recorded):
    loss, rows = blockwise("infonce", graph=True), [view.detach() for view in views(8)[:2]]
    for _ in range(2):
        gradients_of(loss, rows)
    with pytest.raises(GradlabError, match="not unit vectors"):
        gradients_of(loss, [2 * rows[0], rows[1]])
    with pytest.raises(GradlabError, match="NaN"):
        gradients_of(loss, [rows[0] * torch.nan, rows[1]])
    with pytest.raises(GradlabError, match="first derivatives only"):
        leaves = [view.clone().requires_grad_() for view in rows]
        torch.autograd.grad(loss(*leaves), leaves, create_graph=True)


def test_other_calls_run_as_usual(recorded, monkeypatch):
    loss, rows = blockwise("infonce", graph=True), [view.detach() for view in views(8)[:2]]
    for _ in range(3):
        with torch.no_grad():
            loss(*rows)
        gradients_of(loss, rows, own_negatives=torch.stack(rows, 1))
    assert not recorded
    assert loss.extra_repr().endswith("graph=True")

    def draws(*_):
        return torch.rand(1)

    monkeypatch.setattr(cuda_graph, "_random_states", draws)
    for _ in range(3):
        gradients_of(loss, rows)
    assert recorded == ["record"]  # as it draws random numbers, which a graph would repeat


def test_few_shapes_are_recorded_and_no_copy_has_them(recorded):
    loss = blockwise("infonce", graph=True)
    for size in (3, 4, 5, 6, 7, 8):
        for _ in range(2):
            gradients_of(loss, [view.detach() for view in views(size)[:2]])
    assert recorded.count("record") == cuda_graph.MOST_RECORDS
    copied = copy.deepcopy(loss)
    assert loss._graphs._records
    assert not copied._graphs._records


@pytest.mark.parametrize(
    ("options", "words"),
    [({"group": "world"}, "one process"), ({"loss": "infonce(learnable=true)"}, "learn nothing")],
)
def test_refused(options, words):
    with pytest.raises(GradlabError, match=f"graph=True is for .*{words}"):
        blockwise(**{"loss": "infonce", "graph": True} | options)
