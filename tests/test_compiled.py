"""Losses within `torch.compile`: a whole graph, the same numbers, and bad rows still end the program."""

from __future__ import annotations

import pytest
import torch

import gradlab
from tests.processes import start

WHOLE = {
    "learnable": lambda: gradlab.learnable("infonce"),
    "mask": lambda: gradlab.get_loss("symmetric(mask(infonce, above=0.9))"),
    "prefixes": lambda: gradlab.get_loss("per_prefix(hcl, dims=2+4)"),
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
        found, expected = gradients(compiled, rows), gradients(criterion, rows)
        torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-14)
        with pytest.raises(RuntimeError, match="anchors must be unit vectors"):
            compiled(2 * rows[0], rows[1])
    criterion = gradlab.blockwise("infonce", 3)  # run as it stands, between two graphs
    assert torch.equal(gradients(torch.compile(criterion, backend="eager"), rows), gradients(criterion, rows))


def test_compiled_losses_have_the_same_gradients(tmp_path):
    """In a process of its own: the checks of shapes, which other tests run with, cannot be traced."""
    process = start(compare, log=tmp_path / "log")
    process.join(300)
    assert process.exitcode == 0, (tmp_path / "log").read_text()
