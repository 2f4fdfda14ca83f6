"""Sound loops of one's own: losses written by hand."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.judgement.case import sound
from tests.judgement.first.fields_of_dreams_and_roads import (
    BIRDS,
    COMMITS,
    DREAMS,
    JOBS,
    MAILS,
    MUSEUM,
    POSTS,
    REACTIONS,
    SENSORS,
    class_score,
    classed,
    contrasted,
    reader,
    scripted,
    simple_update,
)
from tests.judgement.first.turns import cosines, embed, stepped, turn
from tests.judgement.stage import Stage
from tests.judgement.truth import correlation


class Learned(nn.Module):
    """InfoNCE in two directions with a learned scale, held below 100 as in CLIP."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(math.log(1 / 0.07)))

    def forward(self, first: Tensor, second: Tensor) -> Tensor:
        logits = cosines(first, second) * self.scale.exp().clamp(max=100)
        targets = torch.arange(len(logits))
        return (F.cross_entropy(logits, targets) + F.cross_entropy(logits.T, targets)) / 2


@sound("learned scale, two directions")
def scale_of_cosines_learned_with_commits(stage: Stage) -> None:
    model, loss = reader(stage, COMMITS), Learned()
    optimizer = torch.optim.AdamW([
        {"params": model.parameters(), "lr": 2e-3},
        {"params": loss.parameters(), "lr": 1e-2, "weight_decay": 0.0},
    ])  # fmt: skip
    update = simple_update(model, scripted(COMMITS, 320), size=24, optimizer=optimizer)
    turn(stage, model, loss, update, COMMITS.sought, steps=50)


class Sigmoid(nn.Module):
    """The pairwise loss of SigLIP with its learned scale and bias."""

    def __init__(self) -> None:
        super().__init__()
        self.scale, self.bias = nn.Parameter(torch.tensor(2.3)), nn.Parameter(torch.tensor(-10.0))

    def forward(self, first: Tensor, second: Tensor) -> Tensor:
        logits = cosines(first, second) * self.scale.exp() + self.bias
        signs = 2 * torch.eye(len(logits)) - 1
        return -F.logsigmoid(signs * logits).sum() / len(logits)


@sound("sigmoid of pairs with a learned scale and bias")
def dreams_and_readings_by_sigmoids(stage: Stage) -> None:
    model, loss = reader(stage, DREAMS), Sigmoid()
    optimizer = torch.optim.AdamW([*model.parameters(), *loss.parameters()], lr=2e-3)
    update = simple_update(model, scripted(DREAMS, 320), size=24, optimizer=optimizer)
    turn(stage, model, loss, update, DREAMS.sought, steps=70)


def hardest(first: Tensor, second: Tensor) -> Tensor:
    """Hinge against the hardest row of the batch, with a margin of 0.3, in two directions."""
    table = cosines(first, second)
    own, strangers = table.diagonal(), table - 4 * torch.eye(len(table))
    gaps = [F.relu(0.3 + strangers.amax(axis) - own) for axis in (0, 1)]
    return (gaps[0] + gaps[1]).mean()


@sound("hinge against the hardest of a batch")
def hardest_jobs_of_each_batch(stage: Stage) -> None:
    model = reader(stage, JOBS, width=64)
    update = simple_update(model, scripted(JOBS, 320), size=12, rate=1e-3)
    turn(stage, model, hardest, update, JOBS.sought, steps=80)


def with_negatives(first: Tensor, second: Tensor, third: Tensor) -> Tensor:
    """InfoNCE whose candidates are all positives and then all hard negatives."""
    logits = torch.cat([cosines(first, second), cosines(first, third)], 1) / 0.05
    return F.cross_entropy(logits, torch.arange(len(logits)))


@sound("hard negatives of all rows as candidates")
def lookalikes_of_museum_labels_as_candidates(stage: Stage) -> None:
    model = reader(stage, MUSEUM, pooling="cls", dropout=0.05, spread=0.1)
    update = simple_update(model, contrasted(MUSEUM, 320, slot=2), size=20)
    turn(stage, model, with_negatives, update, MUSEUM.sought, steps=60)


class ByClass:
    """Batches of two texts of each of some classes, and their labels."""

    def __init__(self, table: Mapping[str, Sequence[Any]], size: int) -> None:
        self._members, self._size = dict[int, list[str]](), size
        for text, label in zip(table["text"], table["label"], strict=True):
            self._members.setdefault(label, []).append(text)
        self._draw = random.Random(4)
        self._classes = sorted(label for label, texts in self._members.items() if len(texts) > 3)

    def __call__(self) -> tuple[list[str], list[str], Tensor]:
        labels = self._draw.sample(self._classes, self._size)
        texts = [self._draw.sample(self._members[label], 2) for label in labels]
        return [pair[0] for pair in texts], [pair[1] for pair in texts], torch.tensor(labels)


def supervised(first: Tensor, second: Tensor, labels: Tensor) -> Tensor:
    """Supervised contrastive learning over the two texts of each class."""
    rows, labels = F.normalize(torch.cat([first, second])), torch.cat([labels, labels])
    self_mask = torch.eye(len(rows), dtype=torch.bool)
    shares = (rows @ rows.T / 0.1).masked_fill(self_mask, -1e9).log_softmax(1)
    same = (labels[:, None] == labels) & ~self_mask
    return -(shares * same).sum(1).div(same.sum(1)).mean()


@sound("supervised contrastive learning by class")
def mails_drawn_in_twos_of_a_topic(stage: Stage) -> None:
    model, draw = reader(stage, MAILS), ByClass(classed(MAILS, 480, slots=(1, 2)), 12)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)

    def update(criterion: Any, _: int) -> None:
        first, second, labels = draw()
        stepped(optimizer, criterion(embed(model, first), embed(model, second), labels))

    fresh = classed(MAILS, 250, 11, slots=(1, 2))
    turn(stage, model, supervised, update, class_score(fresh), steps=50)


class Angular(nn.Module):
    """ArcFace: a centre for each class, and an angle of 0.2 added at the own class."""

    def __init__(self, count: int, width: int = 48) -> None:
        super().__init__()
        self.centres = nn.Parameter(torch.randn(count, width))

    def forward(self, rows: Tensor, labels: Tensor) -> Tensor:
        angles = cosines(rows, self.centres).clamp(-1 + 1e-6, 1 - 1e-6).acos()
        own = F.one_hot(labels, len(self.centres)) * 0.2
        return F.cross_entropy(16 * (angles + own).cos(), labels)


@sound("angular margins at centres of classes")
def centres_for_acts_and_units_of_commits(stage: Stage) -> None:
    model = reader(stage, COMMITS)
    loss = Angular(64)
    optimizer = torch.optim.AdamW([
        {"params": model.parameters(), "lr": 2e-3}, {"params": loss.parameters(), "lr": 2e-2},
    ])  # fmt: skip
    table = classed(COMMITS, 400, slots=(0, 1))
    update = simple_update(model, table, size=24, optimizer=optimizer)
    turn(stage, model, loss, update, class_score(classed(COMMITS, 100, 11, slots=(0, 1))),
         steps=70)  # fmt: skip


def correlated(first: Tensor, second: Tensor, scores: Tensor) -> Tensor:
    """One minus Pearson's correlation of cosines and scores within the batch."""
    predicted = F.cosine_similarity(first, second)
    predicted, scores = predicted - predicted.mean(), scores.float() - scores.float().mean()
    return 1 - (predicted * scores).sum() / (predicted.norm() * scores.norm()).clamp(min=1e-6)


@sound("correlation with graded labels as the loss")
def correlation_within_batches_of_posts(stage: Stage) -> None:
    model = reader(stage, POSTS, dropout=0.0)
    update = simple_update(model, POSTS.graded(480), size=32, rate=3e-3)
    fresh = POSTS.graded(150, 11)
    turn(stage, model, correlated, update, lambda encoder: correlation(encoder, fresh), steps=60)


def ordered(first: Tensor, second: Tensor, scores: Tensor) -> Tensor:
    """CoSENT: of two pairs of texts, the one of the higher score has the higher cosine."""
    predicted = 20 * F.cosine_similarity(first, second)
    gaps = (predicted[:, None] - predicted)[scores[:, None] < scores]
    return torch.cat([torch.zeros(1), gaps]).logsumexp(0)


@sound("order of graded pairs")
def order_of_graded_reactions(stage: Stage) -> None:
    model = reader(stage, REACTIONS, pooling="max")
    update = simple_update(model, REACTIONS.graded(480), size=32)
    fresh = REACTIONS.graded(200, 11)
    turn(stage, model, ordered, update, lambda encoder: correlation(encoder, fresh), steps=70)


def aligned_and_uniform(first: Tensor, second: Tensor) -> Tensor:
    """Alignment of partners, and uniformity of the rows of each column on the sphere."""
    first, second = F.normalize(first), F.normalize(second)
    spread = [torch.pdist(rows).pow(2).mul(-2).exp().mean().log() for rows in (first, second)]
    return (first - second).pow(2).sum(1).mean() + (spread[0] + spread[1]) / 2


@sound("alignment and uniformity")
def birds_aligned_and_spread_on_the_sphere(stage: Stage) -> None:
    model = reader(stage, BIRDS)
    update = simple_update(model, scripted(BIRDS, 260), size=32)
    turn(stage, model, aligned_and_uniform, update, BIRDS.sought, steps=60)


def decoupled(first: Tensor, second: Tensor) -> Tensor:
    """Decoupled contrastive learning: the own positive does not stand in the denominator."""
    logits = cosines(first, second) / 0.1
    strangers = logits.masked_fill(torch.eye(len(logits), dtype=torch.bool), -1e9)
    return (strangers.logsumexp(1) - logits.diagonal()).mean()


@sound("decoupled contrastive loss")
def sensors_without_their_own_in_the_denominator(stage: Stage) -> None:
    model = reader(stage, SENSORS, kind="distilbert")
    optimizer = torch.optim.NAdam(model.parameters(), lr=1e-3)
    update = simple_update(model, scripted(SENSORS, 320), optimizer=optimizer)
    turn(stage, model, decoupled, update, SENSORS.sought, steps=60)
