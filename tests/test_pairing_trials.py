"""Does a gradient depend on pairs, and does it pass a module? Against definitions of their own."""

from __future__ import annotations

import copy
import types

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import gradlab
from gradlab.diagnosis import module_measurements, pairing_trials
from gradlab.seeds import random_state_kept
from tests.sentence_training import columns_of, losses, make_trainer

TEXTS = columns_of(64)


class Two(nn.Module):
    """A ranking, and the squared distance of two passes or of the mean from 0."""

    def __init__(self, model, weight, *, repeats):
        super().__init__()
        self.model, self.weight, self.repeats = model, weight, repeats

    def forward(self, features, labels=None):
        columns = [self.model(dict(column))["sentence_embedding"] for column in features]
        target = self.model(dict(features[0]))["sentence_embedding"] if self.repeats else 0.0
        return self.of(*columns, target)

    def of(self, anchors, positives, target):
        cosines = F.normalize(anchors, dim=1) @ F.normalize(positives, dim=1).T
        ranking = F.cross_entropy(20 * cosines, torch.arange(len(cosines)))
        return ranking + self.weight * (anchors - target).square().sum(1).mean()


def share_by_definition(trainer, features):
    """Gradients at the embeddings of both columns, those of moved rows put back."""
    trainer.model.eval()
    with torch.no_grad():
        columns = [trainer.model(dict(column))["sentence_embedding"] for column in features]
    half, gradients = len(columns[0]) // 2, []
    for moved in (0, half):
        anchors, positives = (column.clone().requires_grad_() for column in columns)
        trainer.loss.of(anchors, positives.roll(moved, 0), 0.0).backward()
        gradients.append(torch.cat([anchors.grad, positives.grad]).double())
    trainer.model.train()
    in_place, out_of_place = gradients
    return float((in_place - out_of_place).norm() / (in_place.norm() + out_of_place.norm()))


@pytest.mark.parametrize("weight", [0.0, 1e-2, 1.0, 1e3])
def test_the_share_of_a_gradient_that_depends_on_pairs(bert, tmp_path, weight):
    trainer = make_trainer(bert, tmp_path, lambda m: Two(m, weight, repeats=False), TEXTS)
    inputs = next(iter(trainer.get_train_dataloader()))
    features, _ = trainer.collect_features(inputs)
    tensors = dict(trainer.model.named_parameters())
    with random_state_kept():
        share = pairing_trials.share_of_pairing(trainer, inputs, features, tensors)
    assert share == pytest.approx(share_by_definition(trainer, features), rel=1e-3)
    assert all(tensor.grad is None for tensor in tensors.values())
    assert trainer.model.training


@pytest.mark.parametrize(
    ("weight", "repeats", "words"),
    [(1e3, False, "outweighs"), (0.01, False, ""), (1e4, True, "outweighs"), (0.01, True, "")],
)
def test_a_term_that_outweighs_the_comparison_is_named(bert, tmp_path, weight, repeats, words):
    trainer = make_trainer(bert, tmp_path, lambda m: Two(m, weight, repeats=repeats), TEXTS)
    verdicts = gradlab.doctor(trainer, progress=False).verdicts
    findings = [v.finding for v in verdicts if v.name == "comparison outweighed"]
    assert len(findings) == bool(words)
    assert all(words in finding for finding in findings)
    assert not [v for v in verdicts if v.name == "temperature too low"]


class Teaching(nn.Module):
    """Mean squared distance of each text's embedding from a teacher's, which is a part of it."""

    def __init__(self, model, weight):
        super().__init__()
        self.model, self.weight, self.teacher = model, weight, copy.deepcopy(model)

    def forward(self, features, labels=None):
        ranking, distance = losses.MultipleNegativesRankingLoss(self.model), 0.0
        for column in features:
            with torch.no_grad():
                target = 2 * self.teacher(dict(column))["sentence_embedding"]
            distance += F.mse_loss(self.model(dict(column))["sentence_embedding"], target)
        return distance + self.weight * ranking(features, None)


@pytest.mark.parametrize("weight", [0.0, 1e-6])
def test_a_student_need_not_depend_on_pairs(bert, tmp_path, weight):
    trainer = make_trainer(bert, tmp_path, lambda m: Teaching(m, weight), TEXTS)
    verdicts = gradlab.doctor(trainer, progress=False).verdicts
    assert not [v for v in verdicts if v.name == "comparison outweighed"]


def test_what_is_no_pair_has_no_share(bert, tmp_path):
    trainer = make_trainer(bert, tmp_path, losses.MultipleNegativesRankingLoss, TEXTS)
    inputs = next(iter(trainer.get_train_dataloader()))
    features, _ = trainer.collect_features(inputs)
    assert pairing_trials.share_of_pairing(trainer, inputs, features[:1], {}) is None
    # A term alone: its margin may be met at first.
    assert not gradlab.doctor(trainer, progress=False).measurements["losses"][""].get("outweighed")


class Modules(nn.Sequential):
    """An encoder of given embeddings, which it multiplies, and a module behind it."""

    def __init__(self, function):
        super().__init__(Embedding(lambda rows: rows), Embedding(function))


class Embedding(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function, self.factor = function, nn.Parameter(torch.ones(1))

    def forward(self, features):
        rows = self.function(features["sentence_embedding"] * self.factor)
        return features | {"sentence_embedding": rows}


def flatness(function, rows):
    trainer = types.SimpleNamespace(model=Modules(function))
    batch = types.SimpleNamespace(columns=[{"sentence_embedding": rows}])
    return module_measurements.flat(types.SimpleNamespace(trainer=trainer, batches=[batch]))


@pytest.mark.parametrize(
    ("function", "derivative"),
    [
        (lambda x: 3 * x, lambda x: torch.full_like(x, 3.0)),
        (torch.square, lambda x: 2 * x),
        (torch.tanh, lambda x: 1 - torch.tanh(x) ** 2),
        (torch.relu, lambda x: (x > 0).float()),
    ],
)
def test_the_change_that_a_derivative_foretells(function, derivative):
    rows = torch.randn(9, 32, generator=torch.Generator().manual_seed(0))
    shares = []
    for place in range(len(rows)):
        before = rows[place - 1]
        real = function(before) - function(rows[place])
        foretold = derivative(rows[place]) * (before - rows[place])
        shares.append(float(foretold @ real / (real @ real)))
    measured = flatness(function, rows)
    assert measured["share"] == pytest.approx(sorted(shares)[4], rel=1e-4)
    assert measured["share"] > 0.01


def test_modules_that_are_flat_and_that_pass_a_gradient_straight_through():
    rows = torch.randn(16, 32, generator=torch.Generator().manual_seed(0))
    assert abs(flatness(lambda x: x / (x.abs() + 1e-6), rows)["share"]) < 1e-3
    assert abs(flatness(lambda x: torch.round(x) + 0 * x, rows)["share"]) < 1e-6
    straight = flatness(lambda x: x + (torch.sign(x) - x).detach(), 0.1 * rows)
    assert straight["share"] > 0.01
    assert flatness(lambda x: torch.ones_like(x) + 0 * x, rows) is None  # it does not change
