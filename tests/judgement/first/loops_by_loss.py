"""Sound set-ups: own loops with losses written by hand, for pairs, grades, classes."""

from __future__ import annotations

import random
from typing import Any

import torch
import torch.nn.functional as functional
from torch import Tensor

from tests.judgement.case import sound
from tests.judgement.first.bodies import encoder
from tests.judgement.first.fields_of_daily_use import (
    BIRDS,
    NEWS,
    QUERIES,
    RENTS,
    descent,
    finds,
    headlines,
    same_topic,
    starter,
    topic_words,
)
from tests.judgement.first.turns import Rows, cosines, embed, stepped, turn
from tests.judgement.stage import Stage
from tests.judgement.truth import correlation


def adam(*models: torch.nn.Module, rate: float = 2e-3) -> torch.optim.Optimizer:
    return torch.optim.AdamW([w for model in models for w in model.parameters()], lr=rate)


class Sigmoid(torch.nn.Module):
    """The loss of SigLIP with a scale and a bias that are learned."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = torch.nn.Parameter(torch.tensor(10.0).log())
        self.bias = torch.nn.Parameter(torch.tensor(-6.0))

    def forward(self, first: Tensor, second: Tensor) -> Tensor:
        logits = cosines(first, second) * self.scale.exp() + self.bias
        signs = 2 * torch.eye(len(first)) - 1
        return -functional.logsigmoid(signs * logits).sum(1).mean()


@sound("sigmoid over all pairs with a learned scale and bias")
def sigmoid_of_birds_with_a_learned_bias(stage: Stage) -> None:
    model, loss = starter(stage, BIRDS), Sigmoid()
    update = descent(model, adam(model, loss), BIRDS.table(360), 32)
    turn(stage, model, loss, update, finds(BIRDS), steps=80)


class Tempered(torch.nn.Module):
    """InfoNCE in two directions with a learned temperature, as in CLIP."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = torch.nn.Parameter(torch.tensor(14.3).log())

    def forward(self, first: Tensor, second: Tensor) -> Tensor:
        logits = cosines(first, second) * self.scale.exp().clamp(max=100)
        own = torch.arange(len(first))
        return (functional.cross_entropy(logits, own) + functional.cross_entropy(logits.T, own)) / 2


@sound("two directions with a learned temperature")
def learned_temperature_for_two_scripts(stage: Stage) -> None:
    model, loss = starter(stage, NEWS), Tempered()
    update = descent(model, adam(model, loss), NEWS.table(320), 24)
    turn(stage, model, loss, update, finds(NEWS), steps=60)


def decoupled(first: Tensor, second: Tensor) -> Tensor:
    """Decoupled contrastive learning: the positive does not stand in the denominator."""
    logits = cosines(first, second) / 0.1
    apart = logits.masked_fill(torch.eye(len(first), dtype=torch.bool), -torch.inf)
    return (apart.logsumexp(1) - logits.diagonal()).mean()


@sound("decoupled contrast")
def decoupled_contrast_of_queries(stage: Stage) -> None:
    model = starter(stage, QUERIES)
    update = descent(model, adam(model), QUERIES.table(320), 32)
    turn(stage, model, decoupled, update, finds(QUERIES), steps=60)


def several_similarities(rows: Tensor, labels: Tensor) -> Tensor:
    """The multi-similarity loss over all pairs of a batch."""
    table = cosines(rows, rows)
    own = torch.eye(len(rows), dtype=torch.bool)
    alike = (labels[:, None] == labels) & ~own
    unlike = labels[:, None] != labels
    near = torch.where(alike, -2 * (table - 0.5), -torch.inf)
    far = torch.where(unlike, 20 * (table - 0.5), -torch.inf)
    zero = torch.zeros(len(rows), 1)
    near, far = (torch.cat([zero, logits], 1).logsumexp(1) for logits in (near, far))
    return (near / 2 + far / 20).mean()


@sound("classes, several similarities")
def several_similarities_of_headlines(stage: Stage) -> None:
    model = encoder(stage, topic_words())
    draw, optimizer = Rows(headlines(400), 48), adam(model, rate=1e-3)

    def update(criterion: Any, step: int) -> None:
        texts, labels = draw()
        stepped(optimizer, criterion(embed(model, texts), torch.tensor(labels)))

    turn(stage, model, several_similarities, update, same_topic, steps=60)


def supervised(rows: Tensor, labels: Tensor) -> Tensor:
    """Supervised contrastive loss: all rows of a class are positives of each other."""
    own = torch.eye(len(rows), dtype=torch.bool)
    logits = (cosines(rows, rows) / 0.1).masked_fill(own, -torch.inf)
    alike = (labels[:, None] == labels) & ~own
    shares = logits.log_softmax(1).masked_fill(~alike, 0.0).sum(1) / alike.sum(1).clamp(min=1)
    return -shares[alike.any(1)].mean()


@sound("classes, supervised contrast with balanced batches")
def supervised_contrast_of_balanced_headlines(stage: Stage) -> None:
    """Four headlines of each of the ten topics in a batch."""
    model, table = encoder(stage, topic_words(), pooling="max"), headlines(400)
    optimizer, chance = adam(model), random.Random(5)
    shelves = [
        [text for text, label in zip(*table.values(), strict=True) if label == topic]
        for topic in range(10)
    ]

    def update(criterion: Any, step: int) -> None:
        texts = [text for shelf in shelves for text in chance.sample(shelf, 4)]
        labels = torch.arange(10).repeat_interleave(4)
        stepped(optimizer, criterion(embed(model, texts), labels))

    turn(stage, model, supervised, update, same_topic, steps=40)


class Arcs(torch.nn.Module):
    """A centre for each class, and an angle that is added to that of a row's own (ArcFace)."""

    def __init__(self, width: int, classes: int) -> None:
        super().__init__()
        torch.manual_seed(4)
        self.centres = torch.nn.Parameter(torch.randn(classes, width))

    def forward(self, rows: Tensor, labels: Tensor) -> Tensor:
        table = cosines(rows, self.centres).clamp(-0.999, 0.999)
        wider = (table.acos() + 0.2).cos()
        own = functional.one_hot(labels, len(self.centres)).bool()
        return functional.cross_entropy(torch.where(own, wider, table) * 16, labels)


@sound("classes, centres with an angular margin")
def headlines_around_centres_with_a_margin(stage: Stage) -> None:
    model, loss = encoder(stage, topic_words(), width=32), Arcs(32, 10)
    draw, optimizer = Rows(headlines(400, seed=2), 32), adam(model, loss)

    def update(criterion: Any, step: int) -> None:
        texts, labels = draw()
        stepped(optimizer, criterion(embed(model, texts), torch.tensor(labels)))

    turn(stage, model, loss, update, same_topic, steps=60)


def pearson(first: Tensor, second: Tensor, scores: Tensor) -> Tensor:
    """One less the correlation of a batch's cosines and scores."""
    rows = functional.cosine_similarity(first, second)
    rows, scores = rows - rows.mean(), scores - scores.mean()
    return 1 - (rows * scores).sum() / (rows.norm() * scores.norm() + 1e-6)


@sound("grades by the correlation of a batch")
def grades_of_rents_by_correlation(stage: Stage) -> None:
    model = starter(stage, RENTS)
    draw, optimizer = Rows(RENTS.graded(480), 48), adam(model)

    def update(criterion: Any, step: int) -> None:
        words, adverts, scores = draw()
        stepped(optimizer, criterion(
            embed(model, words), embed(model, adverts), torch.tensor(scores)
        ))  # fmt: skip

    def agrees(model: Any) -> float:
        return correlation(model, RENTS.graded(80, seed=11))

    turn(stage, model, pearson, update, agrees, steps=90)
