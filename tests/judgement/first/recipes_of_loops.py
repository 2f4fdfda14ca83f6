"""Sound set-ups: loops of one's own over classes, grades and teachers, and other recipes."""

from __future__ import annotations

import copy
import random
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.judgement.case import sound
from tests.judgement.first.regular_and_loose_fields import (
    ANIMALS,
    FLAWS,
    HAIKU,
    MAILS,
    MATCHES,
    METERS,
    PLANTS,
    REACTIONS,
    classmates,
    families,
    grades,
    seeks,
    student,
)
from tests.judgement.first.turns import Rows, cosines, embed, infonce, stepped, turn, warmed
from tests.judgement.stage import Stage


class ByClass:
    """Batches of eight classes with four texts of each."""

    def __init__(self, table: dict[str, list[Any]]) -> None:
        self._members: dict[int, list[str]] = {}
        for text, label in zip(*table.values(), strict=True):
            self._members.setdefault(label, []).append(text)
        self._draw = random.Random(0)

    def __call__(self) -> tuple[list[str], Tensor]:
        labels = self._draw.sample(sorted(self._members), 8)
        texts = [text for label in labels for text in self._draw.sample(self._members[label], 4)]
        return texts, torch.tensor(labels).repeat_interleave(4)


def over_classes(model: Any, field: Any, optimizer: torch.optim.Optimizer) -> Any:
    """The step of a loop over classes."""
    batches = ByClass(families(field))

    def update(criterion: Any, step: int) -> None:
        texts, labels = batches()
        stepped(optimizer, criterion(embed(model, texts), labels))

    return update


@sound("supervised contrastive loss over classes")
def families_of_plants_by_supervised_contrast(stage: Stage) -> None:
    def loss(rows: Tensor, labels: Tensor) -> Tensor:
        itself = torch.eye(len(rows), dtype=torch.bool)
        shares = (cosines(rows, rows) / 0.1).masked_fill(itself, -1e9).log_softmax(1)
        same = (labels[:, None] == labels) & ~itself
        return -((shares * same).sum(1) / same.sum(1)).mean()

    model = student(stage, PLANTS)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    turn(stage, model, loss, over_classes(model, PLANTS, optimizer), classmates(PLANTS))


class Margins(nn.Module):
    """A softmax over centres of classes that are learned, less a margin at a text's own class."""

    def __init__(self, classes: int, width: int) -> None:
        super().__init__()
        self.centres = nn.Parameter(torch.randn(classes, width))

    def forward(self, rows: Tensor, labels: Tensor) -> Tensor:
        margins = 0.2 * F.one_hot(labels, len(self.centres))
        return F.cross_entropy(12 * (cosines(rows, self.centres) - margins), labels)


@sound("centres of classes with a margin of cosines")
def families_of_reactions_around_centres(stage: Stage) -> None:
    model, loss = student(stage, REACTIONS), Margins(24, 48)
    groups = [
        {"params": model.parameters(), "lr": 2e-3}, {"params": loss.parameters(), "lr": 2e-2},
    ]  # fmt: skip
    update = over_classes(model, REACTIONS, torch.optim.AdamW(groups))
    turn(stage, model, loss, update, classmates(REACTIONS), steps=60)


def over_grades(model: Any, field: Any, size: int = 32) -> Any:
    """The step of a loop over graded pairs."""
    rows = Rows(field.graded(300), size)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)

    def update(criterion: Any, step: int) -> None:
        first, second, scores = rows()
        stepped(optimizer, criterion(embed(model, first), embed(model, second),
                                     torch.tensor(scores)))  # fmt: skip

    return update


@sound("correlation of cosines and grades as the loss")
def haiku_graded_by_correlation(stage: Stage) -> None:
    def loss(first: Tensor, second: Tensor, scores: Tensor) -> Tensor:
        return 1 - torch.corrcoef(torch.stack([F.cosine_similarity(first, second), scores]))[0, 1]

    model = student(stage, HAIKU, spread=0.1)
    turn(stage, model, loss, over_grades(model, HAIKU), grades(HAIKU), steps=80)


@sound("order of graded pairs, each compared with all of lower grade")
def meters_graded_by_their_order(stage: Stage) -> None:
    def loss(first: Tensor, second: Tensor, scores: Tensor) -> Tensor:
        likeness = 20 * F.cosine_similarity(first, second)
        gaps = (likeness[None] - likeness[:, None])[scores[:, None] > scores[None]]
        return torch.cat([torch.zeros(1), gaps]).logsumexp(0)

    model = student(stage, METERS, spread=0.1)
    turn(stage, model, loss, over_grades(model, METERS), grades(METERS), steps=80)


@sound("matrix of a teacher's cosines")
def meters_by_cosines_of_a_teacher(stage: Stage) -> None:
    table = METERS.table(240)
    teacher = warmed(student(stage, METERS, name="teacher"), table, steps=50)
    model, rows = student(stage, METERS, width=32, layers=1, seed=9), Rows(table, 24)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)

    def loss(first: Tensor, second: Tensor, targets: Tensor) -> Tensor:
        shares = (cosines(first, second) / 0.1).log_softmax(1)
        return F.kl_div(shares, (targets / 0.1).softmax(1), reduction="batchmean")

    def update(criterion: Any, step: int) -> None:
        columns = rows()
        with torch.no_grad():
            targets = cosines(*(embed(teacher, column) for column in columns))
        stepped(optimizer, criterion(*(embed(model, column) for column in columns), targets))

    turn(stage, model, loss, update, seeks(METERS), steps=60)


@sound("negatives mined anew with the encoder in training")
def flaws_with_negatives_mined_in_training(stage: Stage) -> None:
    table = FLAWS.table(240)
    model = warmed(student(stage, FLAWS), table, steps=3)
    notes, tickets = table.values()
    draw = random.Random(0)
    optimizer, near = torch.optim.AdamW(model.parameters(), lr=1e-3), Tensor()

    def loss(first: Tensor, second: Tensor, misses: Tensor) -> Tensor:
        logits = cosines(first, torch.cat([second, misses])) / 0.07
        return F.cross_entropy(logits, torch.arange(len(first)))

    def update(criterion: Any, step: int) -> None:
        nonlocal near
        if step % 20 == 0:
            model.eval()
            with torch.no_grad():
                likeness = cosines(embed(model, notes), embed(model, tickets))
            near = likeness.fill_diagonal_(-1).topk(5).indices
            model.train()
        batch = draw.sample(range(len(notes)), 16)
        misses = [tickets[int(near[row, draw.randrange(5)])] for row in batch]
        columns = [notes[row] for row in batch], [tickets[row] for row in batch], misses
        stepped(optimizer, criterion(*(embed(model, column) for column in columns)))

    turn(stage, model, loss, update, seeks(FLAWS), steps=60)


@sound("moving average of the weights, which is what is used")
def animals_with_weights_averaged(stage: Stage) -> None:
    model = student(stage, ANIMALS)
    average = copy.deepcopy(model).eval()
    table = dict(list(ANIMALS.table(240).items())[:2])
    rows, optimizer = Rows(table, 24), torch.optim.AdamW(model.parameters(), lr=3e-3)

    def update(criterion: Any, step: int) -> None:
        stepped(optimizer, criterion(*(embed(model, column) for column in rows())))
        with torch.no_grad():
            for mean, weight in zip(average.parameters(), model.parameters(), strict=True):
                mean.lerp_(weight, 0.1)

    turn(stage, model, infonce, update, lambda _: seeks(ANIMALS)(average), steps=60)


@sound("rates that fall with the depth of a layer")
def mails_with_a_rate_for_each_layer(stage: Stage) -> None:
    model = warmed(student(stage, MAILS), MAILS.table(200, seed=2), steps=4)
    network = model[0].auto_model
    depths = [network.embeddings, *network.encoder.layer]
    groups = [{"params": layer.parameters(), "lr": 3e-3 * 0.8 ** (len(depths) - 1 - at)}
              for at, layer in enumerate(depths)]  # fmt: skip
    optimizer, rows = torch.optim.AdamW(groups), Rows(MAILS.table(288), 24)

    def update(criterion: Any, step: int) -> None:
        stepped(optimizer, criterion(*(embed(model, column) for column in rows())))

    turn(stage, model, infonce, update, seeks(MAILS), steps=40)


@sound("variance and covariance of the widths held in bounds")
def match_reports_by_variance_and_covariance(stage: Stage) -> None:
    def spread(rows: Tensor) -> Tensor:
        rows = rows - rows.mean(0)
        covariance = rows.T @ rows / (len(rows) - 1)
        beside = covariance - covariance.diagonal().diag()
        lack = F.relu(1 - (rows.var(0) + 1e-4).sqrt()).mean()
        return 25 * lack + beside.square().sum() / rows.shape[1]

    def loss(first: Tensor, second: Tensor) -> Tensor:
        return 25 * F.mse_loss(first, second) + spread(first) + spread(second)

    model, rows = student(stage, MATCHES), Rows(MATCHES.table(320), 64)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)

    def update(criterion: Any, step: int) -> None:
        stepped(optimizer, criterion(*(embed(model, column) for column in rows())))

    turn(stage, model, loss, update, seeks(MATCHES), steps=40)
