"""The momentum branch against its closed form, and its schedule at the end points."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from torch import nn

from gradlab.encoder.model import Encoder
from gradlab.train.config import ModelSettings
from gradlab.train.momentum import MODULES, Momentum, decay, embedding_layer


def settings(**given) -> ModelSettings:
    return ModelSettings(model="-", **given)


def moved(module: nn.Module, generator: torch.Generator) -> None:
    with torch.no_grad():
        for parameter in module.parameters():
            parameter += torch.randn(parameter.shape, generator=generator, dtype=parameter.dtype)


def flat(module: nn.Module) -> torch.Tensor:
    return torch.cat([parameter.detach().flatten() for parameter in module.parameters()])


@pytest.mark.parametrize("eta", [0.0, 0.3, 0.75, 0.995, 1.0])
def test_average_equals_its_closed_form(eta):
    """``η^t θ_0 + (1 - η) Σ_k η^(t-1-k) θ_(k+1)`` for a sequence of weights."""
    generator = torch.Generator().manual_seed(0)
    online = nn.Linear(3, 4).double()
    momentum = Momentum({"head": online}, settings(momentum=eta))
    weights = [flat(online).clone()]
    for _ in range(9):
        moved(online, generator)
        weights.append(flat(online).clone())
        momentum.after_step()
    expected = eta**9 * weights[0] + (1 - eta) * sum(eta ** (8 - k) * weights[k + 1] for k in range(9))
    torch.testing.assert_close(flat(momentum.copies["head"]), expected, rtol=0, atol=1e-14)
    if eta == 0:
        assert torch.equal(flat(momentum.copies["head"]), weights[-1])
    if eta == 1:
        assert torch.equal(flat(momentum.copies["head"]), weights[0])


def test_scheduled_average_equals_a_plain_loop():
    generator = torch.Generator().manual_seed(0)
    online = nn.Linear(3, 4).double()
    momentum = Momentum(
        {"head": online}, settings(momentum=0.75, momentum_end=0.95, momentum_schedule="cosine"), 6
    )
    expected = flat(online).clone()
    for step in range(6):
        moved(online, generator)
        eta = 0.95 - 0.2 * (1 + math.cos(math.pi * step / 5)) / 2
        expected = eta * expected + (1 - eta) * flat(online)
        momentum.after_step()
        assert momentum.last_decay == pytest.approx(eta, abs=1e-15)
    torch.testing.assert_close(flat(momentum.copies["head"]), expected, rtol=0, atol=1e-14)


@pytest.mark.parametrize("schedule", ["cosine", "linear"])
def test_schedule_begins_and_ends_exactly(schedule):
    values = [decay(0.75, 0.95, schedule, step, 101) for step in range(103)]
    assert values[0] == 0.75
    assert values[100] == values[101] == values[102] == 0.95
    assert values[50] == pytest.approx(0.85, abs=1e-15)
    assert all(low <= high for low, high in itertools.pairwise(values))
    quarter = 0.95 - 0.2 * (1 + math.cos(math.pi / 4)) / 2 if schedule == "cosine" else 0.8
    assert values[25] == pytest.approx(quarter, abs=1e-15)


def test_constant_and_shortest_schedules():
    assert {decay(0.995, 1.0, "constant", step, 10) for step in range(12)} == {0.995}
    assert [decay(0.75, 0.95, "cosine", step, 1) for step in range(2)] == [0.75, 0.95]
    assert [decay(0.75, 0.95, "linear", step, 2) for step in range(2)] == [0.75, 0.95]


@pytest.mark.parametrize("averaged", [MODULES, ("encoder", "head"), ("embeddings",), ()])
def test_what_is_not_averaged_is_shared(bert, averaged):
    generator = torch.Generator().manual_seed(0)
    encoder, head = Encoder.load(bert), nn.Linear(3, 3)
    before = {"embeddings": flat(embedding_layer(encoder.model)).clone(), "encoder": flat(encoder.model.encoder).clone(),
              "head": flat(head).clone()}  # fmt: skip
    momentum = Momentum(
        {"encoder": encoder, "head": head}, settings(momentum=0.9, momentum_modules=",".join(averaged))
    )
    moved(encoder, generator)
    moved(head, generator)
    momentum.after_step()
    copied = momentum.copies["encoder"].model
    found = {"embeddings": flat(embedding_layer(copied)), "encoder": flat(copied.encoder),
             "head": flat(momentum.copies["head"])}  # fmt: skip
    online = {"embeddings": flat(embedding_layer(encoder.model)), "encoder": flat(encoder.model.encoder),
              "head": flat(head)}  # fmt: skip
    for name, value in found.items():
        if name in averaged:
            torch.testing.assert_close(value, 0.9 * before[name] + 0.1 * online[name])
        else:
            assert torch.equal(value, online[name])


def test_nothing_is_trained_and_dropout_is_as_ordered(bert):
    encoder = Encoder.load(bert).train()
    for dropout in (True, False):
        momentum = Momentum({"encoder": encoder}, settings(momentum=0.5, momentum_dropout=dropout)).train()
        assert momentum.copies["encoder"].model.embeddings.dropout.training is dropout
        assert not momentum.eval().copies["encoder"].model.embeddings.dropout.training
        assert not any(parameter.requires_grad for parameter in momentum.parameters())
    assert all(parameter.requires_grad for parameter in encoder.parameters())
    assert momentum.copies["encoder"].tokenizer is encoder.tokenizer


def test_state_is_all_of_it():
    online = nn.Linear(2, 2)
    schedule = settings(momentum=0.5, momentum_end=0.9, momentum_schedule="linear")
    one, other = (Momentum({"head": online}, schedule, 10) for _ in range(2))
    moved(online, torch.Generator().manual_seed(0))
    for _ in range(4):
        one.after_step()
    other.load_state_dict(one.state_dict())
    assert other.updates == 4
    one.after_step()
    other.after_step()
    assert one.last_decay == other.last_decay
    assert torch.equal(flat(one), flat(other))
