"""FGSM against a separately computed gradient, and the heads."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import nn

import gradlab
from gradlab.encoder.model import Encoder
from gradlab.train.fgsm import FGSM, PreviousFGSM
from gradlab.train.heads import predictor, projection
from gradlab.train.objective import Objective
from gradlab.train.parts import Parts
from tests.tiny_models import make_sentences


def objective_of(bert, fgsm, **settings):
    encoder = Encoder.load(bert, "mean", dropout=0.0).double()
    fgsm = fgsm(encoder) if callable(fgsm) and not isinstance(fgsm, nn.Module) else fgsm
    parts = Parts(fgsm=fgsm, **settings)
    return Objective(encoder, gradlab.get_loss("infonce"), parts=parts).double().train()


def sequences(objective, count=6):
    return [
        np.array(objective.encoder.tokenizer(one)["input_ids"]) for one in make_sentences(count, longest=8)
    ]


def naive_loss(objective, embedded, batch):
    """InfoNCE of both views from padded embeddings, one sentence at a time."""
    rows = []
    for vectors, length in zip(embedded, batch, strict=True):
        one = vectors[:length][None]
        mask = torch.ones(one.shape[:2], dtype=torch.int64)
        rows.append(
            objective.encoder.model(inputs_embeds=one, attention_mask=mask).last_hidden_state[0].mean(0)
        )
    rows = nn.functional.normalize(torch.stack(rows))
    anchors, positives = rows.chunk(2)
    return nn.functional.cross_entropy(anchors @ positives.T / 0.05, torch.arange(len(anchors)))


@pytest.mark.parametrize("epsilon", [1e-3, 5e-9])
def test_step_equals_a_separately_computed_gradient(bert, epsilon):
    """The loss after the step is that of embeddings moved by the sign of an independently computed gradient."""
    objective = objective_of(bert, FGSM(epsilon))
    first = sequences(objective)
    second = [row[::-1].copy() for row in first]  # otherwise both views have the same gradient
    output = objective(objective.prepare(first, second))
    table = objective.encoder.model.get_input_embeddings().weight.detach()
    lengths = [len(row) for row in [*first, *second]]
    embedded = [table[torch.from_numpy(row)].clone().requires_grad_() for row in [*first, *second]]
    gradients = torch.autograd.grad(naive_loss(objective, embedded, lengths), embedded)
    moved = [
        rows.detach() + epsilon * gradient.sign() for rows, gradient in zip(embedded, gradients, strict=True)
    ]
    expected = naive_loss(objective, moved, lengths)
    plain = naive_loss(objective, embedded, lengths)
    assert float(output.loss.detach()) == pytest.approx(float(expected.detach()), abs=1e-12)
    if epsilon == 1e-3:
        assert (
            float(output.loss.detach()) > float(plain.detach()) + 1e-3
        )  # an adversarial step makes the loss worse
    # First order: the loss grows by ε times the L1 norm of the gradient.
    growth = epsilon * float(sum(gradient.abs().sum() for gradient in gradients))
    assert float(output.loss - plain.detach()) == pytest.approx(growth, rel=0.2)


def test_step_of_zero_changes_nothing_and_draws_nothing(bert):
    """Both passes share their dropout, so that without a step the loss is the one of training without FGSM."""
    losses = []
    for fgsm in (None, FGSM(0.0)):
        torch.manual_seed(3)
        objective = Objective(Encoder.load(bert), gradlab.get_loss("infonce"), parts=Parts(fgsm=fgsm)).train()
        torch.manual_seed(4)
        losses.append(float(objective(objective.prepare(sequences(objective))).loss))
        losses.append(float(torch.rand(())))
    assert losses[:2] == losses[2:]
    assert float(fgsm.changed) == 0


@pytest.mark.parametrize(("size", "expected"), [(0.01, 1.0), (0.11, 1.0), (0.2, 0.0), (1.0, 0.0)])
def test_share_of_changed_entries(size, expected):
    """In float32 5e-9 is lost from half a unit in the last place on, which is 7.5e-9 at .2 and 3.7e-9 at .11."""
    from gradlab.train.batches import Group

    rows = torch.full((2, 3, 4), size)
    mask = torch.tensor([[1, 1, 1], [1, 0, 0]])
    fgsm = FGSM(5e-9)
    (after,) = fgsm([rows], [Group(mask, mask)], lambda moved: moved[0].sum())
    assert float(fgsm.changed) == expected
    assert float((after != rows).float().mean()) == expected
    fgsm([rows * 1e-3], [Group(mask, mask)], lambda moved: moved[0][0].sum())
    assert float(fgsm.changed) == pytest.approx(3 / 4)  # of four tokens the one without a gradient stays
    assert math.isnan(float(FGSM(1.0).changed))


def test_reduced_precision_is_widened():
    from gradlab.train.batches import Group

    mask = torch.ones(1, 1, dtype=torch.int64)
    rows = torch.full((1, 1, 2), 0.05, dtype=torch.bfloat16)
    (after,) = FGSM(5e-9)([rows], [Group(mask, mask)], lambda moved: moved[0].sum())
    assert after.dtype == torch.float32
    assert (after != rows.float()).all()


def test_previous_gradient_is_that_of_the_step_before(bert):
    objective = objective_of(bert, lambda encoder: PreviousFGSM(1e-3, encoder.model.get_input_embeddings()))
    table = objective.encoder.model.get_input_embeddings()
    batch = objective.prepare(first := sequences(objective))
    plain = naive_loss(
        objective, [table.weight[torch.from_numpy(row)] for row in first * 2], [len(row) for row in first * 2]
    )
    loss = objective(batch).loss
    assert float(loss) == pytest.approx(float(plain), abs=1e-12)  # there is no step before the first
    loss.backward()
    gradient = table.weight.grad.clone()
    objective.before_step()
    moved = [(table.weight + 1e-3 * gradient.sign())[torch.from_numpy(row)] for row in first * 2]
    expected = naive_loss(objective, moved, [len(row) for row in first * 2])
    assert float(objective(batch).loss) == pytest.approx(float(expected), abs=1e-12)
    assert any(name.endswith("fgsm.signs") for name in objective.state_dict())
    table.weight.grad = None
    objective.before_step()
    assert float(objective(batch).loss) == pytest.approx(float(plain), abs=1e-12)


def test_encoder_without_embeddings_as_input_is_refused(bert, monkeypatch):
    from gradlab import GradlabError
    from gradlab.train import objective as module

    monkeypatch.setattr(module, "takes_embeddings", lambda encoder: False)
    with pytest.raises(GradlabError, match="cannot be trained with FGSM"):
        objective_of(bert, FGSM(1e-3))


def layer_norm(rows):
    return (rows - rows.mean(1, keepdims=True)) / np.sqrt(rows.var(1, keepdims=True) + 1e-5)


@pytest.mark.parametrize("layers", [1, 2, 3])
def test_heads_are_matrix_products_with_norms_between(layers):
    rows = np.random.default_rng(0).normal(size=(4, 5))
    for head, behind in ((projection(layers, 5, 7), layers), (predictor(layers, 5, 7), layers - 1)):
        head = head.double().eval()
        expected = rows
        for place, part in enumerate(part for part in head if isinstance(part, nn.Linear)):
            assert float(part.bias.detach().abs().sum()) == 0
            expected = expected @ part.weight.detach().numpy().T
            expected = layer_norm(expected) if place < behind else np.tanh(expected)
        found = head(torch.from_numpy(rows)).detach().numpy()
        np.testing.assert_allclose(found, expected, atol=1e-13)
        assert sum(isinstance(part, nn.Dropout) for part in head) == behind
