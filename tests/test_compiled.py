"""Losses in `torch.compile`: a whole graph, the same numbers; bad rows still end the program."""

from __future__ import annotations

import functools

import pytest
import torch

import gradlab
from tests.processes import start

WHOLE = {
    "learnable": lambda: gradlab.learnable("infonce"),
    "mask": lambda: gradlab.get_loss("symmetric(mask(infonce, above=0.9))"),
    "prefixes": lambda: gradlab.get_loss("per_prefix(hcl, dims=2+4)"),
}

# What a call tells beside the rows.
CONTEXTS = {
    "kl": {"teacher": torch.linspace(-1, 1, 64, dtype=torch.float64).reshape(8, 8) ** 2},
    "margin_mse": {"teacher": torch.linspace(-1, 1, 64, dtype=torch.float64).reshape(8, 8)},
    "cosent": {"scores": torch.arange(8.0) % 3},
    "supcon": {"labels": torch.arange(8) // 2},
    "hardness(infonce, on=hard)": {
        "extra_negatives": torch.eye(4, dtype=torch.float64),
        "owners": torch.arange(4),
    },
    "infonce": {"relation": 2 * torch.eye(8, dtype=torch.int64) - 1},
}


def gradients(criterion, rows):
    value = criterion(rows[0], rows[1])
    return torch.stack([value.expand_as(rows), *torch.autograd.grad(value, rows)]).detach()


def compare():
    generator = torch.Generator().manual_seed(0)
    rows = torch.randn(2, 8, 4, generator=generator, dtype=torch.float64)
    rows = torch.nn.functional.normalize(rows, dim=-1).requires_grad_()
    for make in WHOLE.values():
        criterion = make()
        compiled = torch.compile(criterion, backend="eager", fullgraph=True)
        actual, expected = gradients(compiled, rows), gradients(criterion, rows)
        torch.testing.assert_close(actual, expected, rtol=1e-12, atol=1e-14)
        with pytest.raises(RuntimeError, match="anchors must be unit vectors"):
            compiled(2 * rows[0], rows[1])
    for name, context in CONTEXTS.items():
        criterion = gradlab.get_loss(name)
        compiled = torch.compile(
            functools.partial(criterion, **context), backend="eager", fullgraph=True
        )
        actual, expected = (
            gradients(compiled, rows),
            gradients(functools.partial(criterion, **context), rows),
        )
        torch.testing.assert_close(actual, expected, rtol=1e-12, atol=1e-14)
    criterion = gradlab.blockwise("infonce", 3)  # run as it stands, between two graphs
    assert torch.equal(
        gradients(torch.compile(criterion, backend="eager"), rows), gradients(criterion, rows)
    )


def test_compiled_losses_have_the_same_gradients(tmp_path):
    """In a process of its own: the shape checks that other tests run with cannot be traced."""
    process = start(compare, log=tmp_path / "log")
    process.join(300)
    assert process.exitcode == 0, (tmp_path / "log").read_text()
