"""Measures whether the modules behind an encoder pass a gradient on, for JSON.

The function returns the arguments of that of the same name in `gradlab.diagnosis.encoder_verdicts`,
or None where there is nothing to measure.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from gradlab.diagnosis.observation import Observation
from gradlab.seeds import random_state_kept

STATES, EMBEDDING = "token_embeddings", "sentence_embedding"
TEXTS = 16  # texts of a batch that are embedded
# Change of an embedding, relative to its length, that is none.
NO_CHANGE = 1e-3
Numbers = dict[str, Any]


def flat(observation: Observation) -> Numbers | None:
    """Return the share of a module's change that its derivative foretells; of the lowest module.

    A text's input of the module, which are states of tokens or an embedding, is replaced by that of
    the text before it. ``share`` is the change along the real one by the derivative, over the real
    one, in the median of the texts. None where nothing before the module is trained.
    """
    model, columns = observation.trainer.model, observation.batches[0].columns
    if not isinstance(model, nn.Sequential) or len(model) < 2 or not columns:
        return None
    shares, trained = list[tuple[float, str]](), False
    few = {
        name: value[:TEXTS] if isinstance(value, Tensor) and value.ndim > 1 else value
        for name, value in columns[0].items()
    }
    # A module of one's own may take something else.
    with _evaluation(model), contextlib.suppress(Exception):
        with torch.no_grad():
            features, before = model[0](few), model[0]
        for module in list(model)[1:]:
            trained |= any(weight.requires_grad for weight in before.parameters())
            share = _share_foretold(module, features) if trained else None
            if share is not None:
                shares.append((share, type(module).__name__))
            with torch.no_grad():
                features, before = module(dict(features)), module
    if not shares:
        return None
    share, name = min(shares, key=lambda measured: abs(measured[0]))
    return {"share": share, "module": name}


@contextlib.contextmanager
def _evaluation(model: nn.Module) -> Iterator[None]:
    """Put a model in evaluation mode within the block."""
    modes = [(module, module.training) for module in model.modules()]
    with random_state_kept(), torch.enable_grad():
        model.eval()
        try:
            yield
        finally:
            for module, mode in modes:
                module.training = mode


def _share_foretold(module: nn.Module, features: Mapping[str, Any]) -> float | None:
    """Return the median share of a text's change that the derivative of a module foretells."""
    name = EMBEDDING if EMBEDDING in features else STATES
    states = features[name].detach().float().requires_grad_()
    change = states.detach().roll(1, 0) - states.detach()
    before = _output(module, {**features, name: states})
    after = _output(module, {**features, name: states.detach() + change})
    if before is None or after is None or not before.requires_grad:
        return None
    real = (after - before).detach()
    (gradient,) = torch.autograd.grad((before * real).sum(), states)
    squares = real.double().square().sum(1)
    moved = squares > NO_CHANGE**2 * before.detach().double().square().sum(1)
    if not bool(moved.any()):
        return None
    foretold = (gradient * change).double().flatten(1).sum(1)
    return float((foretold[moved] / squares[moved]).median())


def _output(module: nn.Module, features: dict[str, Any]) -> Tensor | None:
    """Return the embeddings that a module gives; its states of tokens where it gives none."""
    features = module(features)
    rows = features.get(EMBEDDING, features.get(STATES))
    return rows.flatten(1) if isinstance(rows, Tensor) else None


OF_TRAINER = (flat,)
