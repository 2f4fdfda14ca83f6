"""A gradient cache gives the gradient of the same chunks with kept activations, dropout and all."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch

from gradlab.scale.gradient_cache import GradientCache, deferred, saved_bytes
from gradlab.seeds import seed_everything
from gradlab.train.batches import pack
from gradlab.train.branch import takes_broadcast_masks, tokens_in
from gradlab.train.objective import Objective, freeze_unused
from tests.gpu.host_waits import counted_waits
from tests.sentence_training import columns_of, features_of, load_model, relative_difference
from tests.tiny_models import make_sentences
from tests.train_helpers import gradients, make_objective, sequences_of

adapter = pytest.importorskip("gradlab.integrations.sentence_transformers")

SETTINGS = {
    "simcse": {"pooler": "cls_mlp"},
    "batch loss": {"loss": "modified_mhe"},
    "heads": {"projection_layers": 1, "predictor_layers": 1, "queue_size": 20, "queue_initial": 5},
    "momentum": {"momentum": 0.9, "momentum_modules": "encoder", "keys_gradient": True},
    "momentum queue": {
        "momentum": 0.9,
        "momentum_use": "queue",
        "queue_size": 9,
        "queue_initial": 9,
    },
    "augmented embeddings": {"augment": "token_cutoff"},
    "augmented tokens": {"augment": "subword_repetition"},
    "memory": {"chunk_size": None, "chunk_memory": 2e-4},
}


@pytest.fixture(scope="module")
def sequences(bert):
    return sequences_of(bert, make_sentences(17, longest=9))


def make(bert, dtype: torch.dtype, **settings) -> Objective:
    seed_everything(0)
    objective = make_objective(bert, None, dtype, **{"chunk_size": 5} | settings)
    freeze_unused(objective)
    return objective


@pytest.mark.parametrize(
    ("name", "dtype", "tolerance"),
    [*((name, torch.float64, 1e-12) for name in SETTINGS), ("simcse", torch.float32, 1e-5)],
)
def test_gradients_are_those_of_the_chunks_with_their_activations(
    bert, sequences, name, dtype, tolerance
):
    """Two batches, so that the second adds to gradients that are there."""
    steps = []
    for cached in (False, True):
        objective = make(bert, dtype, **SETTINGS[name])
        values = []
        for _ in range(2):
            batch = objective.prepare(sequences)
            if cached:
                values.append(float(objective.backward_in_chunks(batch, 0.7).loss.detach()))
            else:
                output = objective(batch)
                (0.7 * output.loss).backward()
                values.append(float(output.loss.detach()))
        steps.append((values, gradients(objective), torch.get_rng_state()))
    (values, expected, state), (cached_values, cached_gradients, cached_state) = steps
    assert cached_values == pytest.approx(values, rel=tolerance)
    assert torch.equal(state, cached_state)
    assert cached_gradients.keys() == expected.keys()
    largest = max(float(gradient.abs().max()) for gradient in expected.values())
    for key, gradient in expected.items():
        torch.testing.assert_close(
            cached_gradients[key], gradient, rtol=0, atol=tolerance * largest, msg=key
        )


def test_no_chunk_is_encoded_with_the_activations_of_another(bert, sequences):
    """Of activations kept for a backward pass, those of one chunk at most are alive at a time."""
    objective = make(bert, torch.float32, pooler="cls_mlp")
    alive, most = set(), [0]

    class SavedTensor:
        def __init__(self, tensor):
            self.tensor = tensor
            alive.add(id(self))
            most[0] = max(most[0], len(alive))

        def __del__(self):
            alive.discard(id(self))

    def largest(backward) -> int:
        most[0] = 0
        with torch.autograd.graph.saved_tensors_hooks(SavedTensor, lambda saved: saved.tensor):
            backward()
        return most[0]

    # Of two sequences, 4 rows, which are one chunk.
    of_one_chunk = largest(
        lambda: objective.backward_in_chunks(objective.prepare(sequences[:2]), 1.0)
    )
    of_all_chunks = largest(lambda: objective.backward_in_chunks(objective.prepare(sequences), 1.0))
    without_cache = largest(lambda: objective(objective.prepare(sequences)).loss.backward())
    assert of_all_chunks < 1.2 * of_one_chunk  # the loss keeps a little
    assert without_cache > 4 * of_one_chunk


def test_chunks_are_as_large_as_their_memory_allows(bert, sequences):
    """Of the longest sequences, a chunk keeps no more, and with one more sequence it would."""
    for limit in (2e-4, 4e-4):
        objective = make_objective(
            bert, None, torch.float32, chunk_memory=limit, max_length=16, pooler="cls_mlp"
        )
        branch, state = objective._trained_branch, torch.get_rng_state()
        assert tokens_in(limit, branch) == branch.chunk_tokens
        assert torch.equal(torch.get_rng_state(), state)
        longest = np.resize(sequences[0], 16)

        def retained(count: int, branch=branch, longest=longest) -> int:
            unchunked = dataclasses.replace(
                branch, config=dataclasses.replace(branch.config, chunk_memory=None)
            )
            packed = pack([longest] * count, 0, groups=1)
            return saved_bytes(lambda: unchunked(packed))

        constant = retained(1) - (retained(2) - retained(1))  # parameters
        most = branch.chunk_tokens // 16
        assert retained(most) - constant <= 1.001 * limit * 2**30 < retained(most + 1) - constant
        groups = objective.prepare(sequences).trained.groups
        assert len(groups) > 1
        assert all(group.input_ids.numel() <= branch.chunk_tokens for group in groups)


def test_masks_that_no_host_waits_for(bert, sequences):
    """As on a GPU: the same rows and gradients, and no number is read while chunks are encoded."""
    outcomes = []
    for broadcast in (False, True):
        objective = make(bert, torch.float64, pooler="cls_mlp")
        assert takes_broadcast_masks(objective.encoder)
        assert not objective._trained_branch.broadcasts_masks
        objective._trained_branch = dataclasses.replace(
            objective._trained_branch, broadcasts_masks=broadcast
        )
        packed = objective.prepare([*sequences, sequences[0]] * 2).trained
        assert {group.padded for group in packed.groups} == {True, False}
        cache = GradientCache(torch.device("cpu"))
        with counted_waits() as waits:
            rows, *_ = objective._trained_branch(packed, cache=cache)
            (rows**2).sum().backward()
            cache.backward()
        outcomes.append((waits.total(), rows.detach(), gradients(objective)))
    (waiting, rows, expected), (waits, computed_rows, computed) = outcomes
    assert waiting >= 2 * len(packed.groups)
    assert waits == 0
    torch.testing.assert_close(computed_rows, rows, rtol=1e-12, atol=1e-12)
    for name, gradient in expected.items():
        torch.testing.assert_close(computed[name], gradient, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("scale", [1.0, 0.25])
def test_a_deferred_loss_is_differentiated_by_whoever_calls_backward(scale):
    torch.manual_seed(0)
    layer = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.Dropout(0.5)).double()
    pieces = list(torch.randn(7, 4, dtype=torch.float64).split(3))
    seed_everything(5)
    rows = torch.cat([layer(piece) for piece in pieces]).flip(0)
    weight = torch.linspace(-1, 1, 7, dtype=torch.float64)
    (scale * ((rows @ rows.T).exp() * weight).sum()).backward()
    expected = layer[0].weight.grad.clone()
    layer.zero_grad()
    seed_everything(5)
    cache = GradientCache(torch.device("cpu"))
    order = torch.arange(6, -1, -1)  # rows come in another order than the pieces
    (rows,) = cache.encode(lambda piece: (layer(piece),), pieces, order)
    value = deferred(((rows @ rows.T).exp() * weight).sum(), cache)
    (scale * value).backward()
    torch.testing.assert_close(layer[0].weight.grad, expected, rtol=1e-13, atol=0)


@pytest.mark.parametrize("columns", [1, 2, 3])
def test_losses_for_sentence_transformers_are_cached(bert, columns):
    """Without dropout as whole columns; with it chunks draw other masks, as the library's do."""
    model = load_model(bert)
    model.eval()
    table = columns_of(11, columns)
    values, gradients_of_models = [], []
    for options in ({}, {"chunk_size": 4}, {"chunk_size": 4, "blockwise": True}):
        model.zero_grad()
        criterion = adapter.loss(model, "infonce", **options)
        value = criterion(features_of(model, table), None)
        (0.5 * value).backward()
        gradients_of_models.append(gradients(model))
        with torch.no_grad():
            values += [float(value), float(criterion(features_of(model, table), None))]
    assert values == pytest.approx([values[0]] * 6, rel=1e-5)
    for chunked_gradients in gradients_of_models[1:]:
        assert relative_difference(chunked_gradients, gradients_of_models[0]) < 1e-5
