"""The momentum branch against its closed form, and its schedule at the end points."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from torch import nn

from gradlab.encoder.model import Encoder
from gradlab.train.momentum import MODULES, Momentum, decay, embedding_layer
from gradlab.train.settings import ModelSettings


def make_momentum(online: dict[str, nn.Module], steps: int = 1, **settings) -> Momentum:
    return Momentum(online, ModelSettings(model="-", **settings), steps)


def move(module: nn.Module, generator: torch.Generator) -> None:
    with torch.no_grad():
        for parameter in module.parameters():
            parameter += torch.randn(parameter.shape, generator=generator, dtype=parameter.dtype)


def flat(module: nn.Module) -> torch.Tensor:
    return torch.cat([parameter.detach().flatten() for parameter in module.parameters()])


def test_scheduled_average_equals_a_plain_loop():
    generator = torch.Generator().manual_seed(0)
    online = nn.Linear(3, 4).double()
    settings = {"momentum": 0.75, "momentum_end": 0.95, "momentum_schedule": "cosine"}
    momentum = make_momentum({"head": online}, steps=6, **settings)
    expected = flat(online).clone()
    for step in range(6):
        move(online, generator)
        eta = 0.95 - 0.2 * (1 + math.cos(math.pi * step / 5)) / 2
        expected = eta * expected + (1 - eta) * flat(online)
        momentum.after_step()
        assert momentum.last_decay == pytest.approx(eta, abs=1e-15)
        # Its state is all of it.
        fresh = make_momentum({"head": online}, steps=6, **settings)
        fresh.load_state_dict(momentum.state_dict())
        momentum = fresh
    torch.testing.assert_close(flat(momentum.copies["head"]), expected, rtol=0, atol=1e-14)


@pytest.mark.parametrize("schedule", ["cosine", "linear"])
def test_schedule_begins_and_ends_exactly(schedule):
    values = [decay(0.75, 0.95, schedule, step, 101) for step in range(103)]
    assert values[0] == 0.75
    assert values[100] == values[101] == values[102] == 0.95
    assert all(low <= high for low, high in itertools.pairwise(values))
    quarter = 0.95 - 0.2 * (1 + math.cos(math.pi / 4)) / 2 if schedule == "cosine" else 0.8
    assert values[25] == pytest.approx(quarter, abs=1e-15)
    assert [decay(0.75, 0.95, schedule, step, 1) for step in range(2)] == [0.75, 0.95]
    assert {decay(0.995, 1.0, "constant", step, 10) for step in range(12)} == {0.995}


@pytest.mark.parametrize("averaged", [MODULES, ("encoder", "head"), ("embeddings",), ()])
def test_what_is_not_averaged_is_shared(bert, averaged):
    generator = torch.Generator().manual_seed(0)
    encoder, head = Encoder.load(bert), nn.Linear(3, 3)

    def weights(encoder, head):
        modules = {
            "embeddings": embedding_layer(encoder.model),
            "encoder": encoder.model.encoder,
            "head": head,
        }
        return {name: flat(layer) for name, layer in modules.items()}

    before = weights(encoder, head)
    online = {"encoder": encoder, "head": head}
    momentum = make_momentum(online, momentum=0.9, momentum_modules=",".join(averaged))
    for module in online.values():
        move(module, generator)
    momentum.after_step()
    online_weights, momentum_weights = weights(**online), weights(**momentum.copies)
    for name, value in momentum_weights.items():
        if name in averaged:
            torch.testing.assert_close(value, 0.9 * before[name] + 0.1 * online_weights[name])
        else:
            assert torch.equal(value, online_weights[name])


@pytest.mark.parametrize("dropout", [True, False])
def test_nothing_is_trained_and_dropout_is_as_ordered(bert, dropout):
    encoder = Encoder.load(bert).train()
    momentum = make_momentum({"encoder": encoder}, momentum=0.5, momentum_dropout=dropout).train()
    assert momentum.copies["encoder"].model.embeddings.dropout.training is dropout
    assert not momentum.eval().copies["encoder"].model.embeddings.dropout.training
    assert not any(parameter.requires_grad for parameter in momentum.parameters())
    assert all(parameter.requires_grad for parameter in encoder.parameters())
