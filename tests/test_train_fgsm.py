"""FGSM against a separately computed gradient."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from gradlab.train.batches import SequenceGroup
from gradlab.train.fgsm import FGSM
from tests.tiny_models import make_sentences
from tests.train_helpers import make_objective, sequences_of


@pytest.fixture(scope="module")
def sequences(bert):
    return sequences_of(bert, make_sentences(6, longest=8))


def naive_loss(objective, embedded):
    """InfoNCE of both views, one sentence at a time."""
    rows = []
    for vectors in embedded:
        mask = torch.ones(1, len(vectors), dtype=torch.int64)
        layers = objective.encoder.model(inputs_embeds=vectors[None], attention_mask=mask)
        rows.append(layers.last_hidden_state[0].mean(0))
    anchors, positives = nn.functional.normalize(torch.stack(rows)).chunk(2)
    return nn.functional.cross_entropy(anchors @ positives.T / 0.05, torch.arange(len(anchors)))


@pytest.mark.parametrize("epsilon", [1e-3, 5e-9])
def test_step_equals_a_separately_computed_gradient(bert, sequences, epsilon):
    """The loss after the step is that of embeddings moved by an independent gradient's sign."""
    objective = make_objective(bert, pooler="mean", fgsm=epsilon)
    second = [row[::-1].copy() for row in sequences]  # otherwise both views have the same gradient
    output = objective(objective.prepare(sequences, second))
    table = objective.encoder.model.get_input_embeddings().weight.detach()
    embedded = [
        table[torch.from_numpy(row)].clone().requires_grad_() for row in [*sequences, *second]
    ]
    plain = naive_loss(objective, embedded)
    gradients = torch.autograd.grad(plain, embedded)
    moved = [
        rows.detach() + epsilon * gradient.sign()
        for rows, gradient in zip(embedded, gradients, strict=True)
    ]
    expected = naive_loss(objective, moved)
    assert float(output.loss.detach()) == pytest.approx(float(expected.detach()), abs=1e-12)
    # First order: the loss grows by ε times the L1 norm of the gradient.
    growth = epsilon * float(sum(gradient.abs().sum() for gradient in gradients))
    assert float((output.loss - plain).detach()) == pytest.approx(growth, rel=0.2)


def test_a_step_of_almost_nothing_draws_nothing(bert, sequences):
    """Both passes share their dropout, so that the loss is the one of training without FGSM."""
    losses = []
    for epsilon in (0.0, 1e-300):
        objective = make_objective(bert, dropout=0.1, fgsm=epsilon)
        torch.manual_seed(4)
        losses.append([float(objective(objective.prepare(sequences)).loss), float(torch.rand(()))])
    assert losses[0] == losses[1]


@pytest.mark.parametrize(("size", "expected"), [(0.11, 1.0), (0.2, 0.0)])
def test_share_of_changed_entries(size, expected):
    """Float32 loses 5e-9 where half an ulp is more: it is 7.5e-9 at .2, and 3.7e-9 at .11."""
    rows = torch.full((2, 3, 4), size)
    mask = torch.tensor([[1, 1, 1], [1, 0, 0]])
    fgsm = FGSM(5e-9)
    (after,) = fgsm([rows], [SequenceGroup(mask, mask)], lambda moved: moved[0].sum())
    assert float(fgsm.changed) == expected
    assert float((after != rows).float().mean()) == expected
    fgsm([rows * 1e-3], [SequenceGroup(mask, mask)], lambda moved: moved[0][0].sum())
    # Of four tokens the one without a gradient stays.
    assert float(fgsm.changed) == pytest.approx(3 / 4)
    assert math.isnan(float(FGSM(1.0).changed))


def test_reduced_precision_is_widened():
    mask = torch.ones(1, 1, dtype=torch.int64)
    rows = torch.full((1, 1, 2), 0.05, dtype=torch.bfloat16)
    (after,) = FGSM(5e-9)([rows], [SequenceGroup(mask, mask)], lambda moved: moved[0].sum())
    assert after.dtype == torch.float32
    assert (after != rows.float()).all()


def test_previous_gradient_is_that_of_the_step_before(bert, sequences):
    objective = make_objective(bert, pooler="mean", fgsm=1e-3, fgsm_gradient="previous")
    table = objective.encoder.model.get_input_embeddings()
    batch = objective.prepare(sequences)

    def expected(weight):
        return float(
            naive_loss(objective, [weight[torch.from_numpy(row)] for row in sequences * 2]).detach()
        )

    loss = objective(batch).loss
    assert float(loss.detach()) == pytest.approx(
        expected(table.weight), abs=1e-12
    )  # no step before the first
    loss.backward()
    moved = table.weight + 1e-3 * table.weight.grad.sign()
    objective.before_step()
    assert float(objective(batch).loss.detach()) == pytest.approx(expected(moved), abs=1e-12)
    table.weight.grad = None
    objective.before_step()
    assert float(objective(batch).loss.detach()) == pytest.approx(expected(table.weight), abs=1e-12)
