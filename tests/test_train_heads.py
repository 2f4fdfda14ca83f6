"""Heads: what they compute, how they begin, their learning rate, the gradient through the keys."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.functional import layer_norm, normalize, pad

from gradlab.train import TrainConfig, train
from gradlab.train.heads import MLP, predictor, projection
from gradlab.train.optimiser import build_optimiser
from tests.tiny_models import make_sentences
from tests.train_helpers import MOCOSE, make_objective, sequences_of, small_config, write_stsb


@pytest.mark.parametrize("layers", [1, 2, 3])
def test_heads_are_matrix_products_with_norms_between(layers):
    def naive_norm(rows):
        return (rows - rows.mean(1, keepdims=True)) / np.sqrt(rows.var(1, keepdims=True) + 1e-5)

    rows = np.random.default_rng(0).normal(size=(4, 5))
    for head, behind in ((projection(layers, 5, 7), layers), (predictor(layers, 5, 7), layers - 1)):
        head = head.double().eval()
        expected = rows
        for place, layer in enumerate(layer for layer in head if isinstance(layer, nn.Linear)):
            assert float(layer.bias.detach().abs().sum()) == 0
            expected = expected @ layer.weight.detach().numpy().T
            expected = naive_norm(expected) if place < behind else np.tanh(expected)
        embeddings = head(torch.from_numpy(rows)).detach().numpy()
        np.testing.assert_allclose(embeddings, expected, atol=1e-13)
        assert sum(isinstance(layer, nn.Dropout) for layer in head) == behind


def test_identity_heads_pass_on_what_they_get():
    rows = torch.randn(5, 8, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    assert torch.equal(MLP(8, "identity", "none").double()(rows), rows)
    assert torch.equal(MLP(8, "identity", "tanh").double()(rows), rows.tanh())
    module = projection(2, 8, initial="identity", dropout=0.0).double()
    torch.testing.assert_close(
        module(rows), layer_norm(layer_norm(rows, (8,)), (8,)), rtol=0, atol=1e-12
    )
    module = predictor(2, 8, width=12, initial="identity", dropout=0.0).double()
    wide = layer_norm(pad(rows, (0, 4)), (12,))
    torch.testing.assert_close(module(rows), wide[:, :8].tanh(), rtol=0, atol=1e-12)


def test_heads_have_their_own_learning_rate(bert):
    settings = {**MOCOSE, "head_rate": 10.0, "weight_decay": 0.5}
    objective = make_objective(bert, **settings)
    groups = build_optimiser(objective, TrainConfig("-", "-", "-", **settings)).param_groups
    factor = {
        id(weight): (g["factor"], g["weight_decay"]) for g in groups for weight in g["params"]
    }
    for name, parameter in objective.named_parameters():
        if name.startswith("momentum."):
            assert id(parameter) not in factor
        elif parameter.requires_grad:
            expected = 10.0 if name.split(".")[0] in ("head", "projection", "predictor") else 1.0
            assert factor[id(parameter)] == (expected, 0.5 if parameter.ndim > 1 else 0.0), name


def test_gradient_through_the_keys_is_that_of_one_shared_layer(bert):
    """Against autograd of the same two branches with one embedding layer, written out."""
    objective = make_objective(bert, **MOCOSE | {"fgsm": 0.0}, keys_gradient=True)
    sequences = sequences_of(bert, make_sentences(6))
    table = objective.encoder.model.get_input_embeddings().weight

    # A branch with the same weights, whose embedding layer is the trained one itself.
    target = copy.deepcopy(objective.encoder)
    target.model.embeddings = objective.encoder.model.embeddings

    def embed(encoder):
        rows = [encoder(torch.from_numpy(row)[None], torch.ones(1, len(row))) for row in sequences]
        return objective.projection(objective.head(torch.cat(rows)))

    anchors, positives = (
        normalize(objective.predict(embed(objective.encoder))),
        normalize(embed(target)),
    )
    queue = normalize(objective.queue.rows[:5])
    logits = torch.cat([(anchors * positives).sum(1, keepdim=True), anchors @ queue.T], 1) / 0.05
    (expected,) = torch.autograd.grad(-torch.log_softmax(logits, 1)[:, 0].mean(), table)

    output = objective(objective.prepare(sequences))
    assert not output.keys.requires_grad
    output.loss.backward()
    alone = table.grad.clone()
    objective.before_step()
    torch.testing.assert_close(table.grad, expected, rtol=0, atol=1e-12)
    assert not torch.allclose(alone, expected, rtol=0, atol=1e-6)  # the keys' part is not nothing
    assert all(parameter.grad is None for parameter in objective.momentum.parameters())


def test_evaluation_before_the_first_step_can_be_left_out(bert, tmp_path):
    config = small_config(
        bert, tmp_path, eval_data=str(write_stsb(tmp_path)), eval_every=4, eval_start=False
    )
    result = train(config)
    assert list(result.scores) == [4, 6]
    assert result.best_step == max(result.scores, key=result.scores.__getitem__)
