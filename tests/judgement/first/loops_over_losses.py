"""Sound set-ups: loops of one's own with hand-written losses of classes, grades and labels."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from tests.judgement.case import sound
from tests.judgement.first.fields_of_orders_and_mails import (
    BIRDS,
    CHEMISTRY,
    HINDI,
    MAILS,
    METERS,
    PATENTS,
    RUSSIAN,
    SHELL,
    TENNIS,
    fresh,
    grader,
    judged_pairs,
    labelled,
    purity,
    seeker,
    with_near,
)
from tests.judgement.first.turns import Rows, cosines, embed, infonce, stepped, turn
from tests.judgement.stage import Stage


def _adam(model: Any, rate: float = 2e-3) -> torch.optim.Optimizer:
    return torch.optim.AdamW(model.parameters(), lr=rate)


def hinge_of_hardest(first: Tensor, second: Tensor) -> Tensor:
    """Each row's margin to the passage of the batch that comes closest, as in VSE++."""
    table = cosines(first, second)
    negatives = table - 2 * torch.eye(len(table))
    own = table.diagonal()
    return (F.relu(0.2 + negatives.amax(1) - own) + F.relu(0.2 + negatives.amax(0) - own)).mean()


@sound("hinge of the hardest passage after a start by ranking")
def hinge_of_hardest_of_mails(stage: Stage) -> None:
    """All negatives at first; the hardest one alone when the encoder knows the field a little."""
    model = fresh(stage, MAILS)
    rows, optimizer = Rows(MAILS.table(400), 24), _adam(model, 1e-3)

    for _ in range(8):
        stepped(optimizer, infonce(*(embed(model.train(), texts) for texts in rows())))
    model.eval()

    def update(criterion: Any, step: int) -> None:
        stepped(optimizer, criterion(*(embed(model, texts) for texts in rows())))

    turn(stage, model, hinge_of_hardest, update, seeker(MAILS), steps=60)


def by_class(first: Tensor, second: Tensor, labels: Tensor) -> Tensor:
    """Supervised contrastive loss over both columns of rows."""
    rows, classes = torch.cat([first, second]), torch.cat([labels, labels])
    own = torch.eye(len(rows), dtype=torch.bool)
    logits = (cosines(rows, rows) / 0.1).masked_fill(own, -1e9)
    alike = (classes[:, None] == classes) & ~own
    chances = logits.log_softmax(1).masked_fill(~alike, 0.0)
    return -(chances.sum(1) / alike.sum(1)).mean()


@sound("supervised contrastive loss of classes")
def classes_of_sightings_by_bird(stage: Stage) -> None:
    rows_of_birds = BIRDS.draws(400)
    birds = list(dict.fromkeys(row[0] for row in rows_of_birds))
    table = {**BIRDS.table(400), "label": [birds.index(row[0]) for row in rows_of_birds]}
    model = fresh(stage, BIRDS)
    rows, optimizer = Rows(table, 24), _adam(model)

    def update(criterion: Any, step: int) -> None:
        sightings, entries, labels = rows()
        stepped(optimizer, criterion(
            embed(model, sightings), embed(model, entries), torch.tensor(labels)
        ))  # fmt: skip

    turn(stage, model, by_class, update, purity(BIRDS, 0), steps=60)


def grades_by_order(first: Tensor, second: Tensor, grades: Tensor) -> Tensor:
    """CoSENT: a pair with the greater grade should have the greater cosine."""
    cosine = F.cosine_similarity(first, second) * 20
    gaps = (cosine[:, None] - cosine)[grades[:, None] < grades]
    return torch.logsumexp(torch.cat([torch.zeros(1), gaps]), 0)


@sound("order of graded pairs")
def order_of_graded_meters(stage: Stage) -> None:
    model = fresh(stage, METERS)
    rows, optimizer = Rows(METERS.graded(400), 32), _adam(model)

    def update(criterion: Any, step: int) -> None:
        first, second, grades = rows()
        stepped(optimizer, criterion(
            embed(model, first), embed(model, second), torch.tensor(grades)
        ))  # fmt: skip

    turn(stage, model, grades_by_order, update, grader(METERS), steps=80)


def squares_to_grades(first: Tensor, second: Tensor, grades: Tensor) -> Tensor:
    return F.mse_loss(F.cosine_similarity(first, second), grades)


@sound("squared distance of cosines to grades, by NAdam")
def squares_of_graded_commands_by_nadam(stage: Stage) -> None:
    model = fresh(stage, SHELL, dropout=0.0)
    rows = Rows(SHELL.graded(400), 32)
    optimizer = torch.optim.NAdam(model.parameters(), lr=2e-3)

    def update(criterion: Any, step: int) -> None:
        first, second, grades = rows()
        stepped(optimizer, criterion(
            embed(model, first), embed(model, second), torch.tensor(grades)
        ))  # fmt: skip

    turn(stage, model, squares_to_grades, update, grader(SHELL), steps=90)


def sigmoid_of_labels(first: Tensor, second: Tensor, labels: Tensor) -> Tensor:
    logits = 12 * (F.cosine_similarity(first, second) - 0.5)
    return F.binary_cross_entropy_with_logits(logits, labels)


@sound("logistic loss of judged pairs, hard and random ones mixed")
def logistic_loss_of_judged_translations(stage: Stage) -> None:
    table = judged_pairs(RUSSIAN, 500)
    model = fresh(stage, RUSSIAN)
    rows, optimizer = Rows(table, 32), _adam(model)

    def update(criterion: Any, step: int) -> None:
        first, second, labels = rows()
        stepped(optimizer, criterion(
            embed(model, first), embed(model, second), torch.tensor(labels).float()
        ))  # fmt: skip

    turn(stage, model, sigmoid_of_labels, update, seeker(RUSSIAN), steps=110)


def margin_of_triplets(first: Tensor, second: Tensor, hard: Tensor) -> Tensor:
    """Soft margin of the triplets of a row with its hard negative and with a neighbour's text."""
    own = F.cosine_similarity(first, second)
    near, random = F.cosine_similarity(first, hard), F.cosine_similarity(first, second.roll(1, 0))
    return (F.softplus(10 * (near - own)) + F.softplus(10 * (random - own))).mean()


@sound("soft margin of triplets")
def soft_margin_of_protocols(stage: Stage) -> None:
    model = fresh(stage, CHEMISTRY)
    rows, optimizer = Rows(with_near(CHEMISTRY, 400), 32), _adam(model)

    def update(criterion: Any, step: int) -> None:
        stepped(optimizer, criterion(*(embed(model, texts) for texts in rows())))

    turn(stage, model, margin_of_triplets, update, seeker(CHEMISTRY), steps=90)


def without_contrast(first: Tensor, second: Tensor) -> Tensor:
    """VICReg: pairs agree, while each dimension varies and dimensions do not go together."""
    loss = 10 * F.mse_loss(first, second)
    for rows in (first, second):
        centred = rows - rows.mean(0)
        covariance = centred.T @ centred / (len(rows) - 1)
        beyond = covariance - torch.diag(covariance.diagonal())
        loss = loss + 10 * F.relu(1 - (centred.var(0) + 1e-4).sqrt()).mean()
        loss = loss + beyond.square().sum() / rows.shape[1]
    return loss


@sound("agreement with variance and covariance, without negatives")
def variance_and_covariance_of_ticker_lines(stage: Stage) -> None:
    model = fresh(stage, TENNIS)
    rows, optimizer = Rows(TENNIS.table(512), 64), _adam(model)

    def update(criterion: Any, step: int) -> None:
        stepped(optimizer, criterion(*(embed(model, texts) for texts in rows())))

    turn(stage, model, without_contrast, update, seeker(TENNIS), steps=70)


@sound("ranking with a margin for one's own passage")
def margin_within_ranking_of_hindi(stage: Stage) -> None:
    """The cosine of a row's own passage is lowered by 0.1 before the softmax."""

    def margined(first: Tensor, second: Tensor) -> Tensor:
        table = cosines(first, second) - 0.1 * torch.eye(len(first))
        return F.cross_entropy(table / 0.05, torch.arange(len(first)))

    model = fresh(stage, HINDI)
    rows, optimizer = Rows(HINDI.table(400), 40), _adam(model)

    def update(criterion: Any, step: int) -> None:
        stepped(optimizer, criterion(*(embed(model, texts) for texts in rows())))

    turn(stage, model, margined, update, seeker(HINDI), steps=60)


class Centres(torch.nn.Module):
    """Cosines with a learned centre of each class, with an additive margin."""

    def __init__(self, classes: int, width: int = 48) -> None:
        super().__init__()
        torch.manual_seed(2)
        self.centres = torch.nn.Parameter(torch.randn(classes, width))

    def forward(self, rows: Tensor, labels: Tensor) -> Tensor:
        table = cosines(rows, self.centres) - 0.15 * F.one_hot(labels, len(self.centres))
        return F.cross_entropy(15 * table, labels)


@sound("learned centres of classes")
def learned_centres_of_patents_by_device(stage: Stage) -> None:
    model, loss = fresh(stage, PATENTS), Centres(8)
    rows = Rows(labelled(PATENTS, 0, 240), 32)
    optimizer = torch.optim.AdamW([*model.parameters(), *loss.parameters()], lr=2e-3)

    def update(criterion: Any, step: int) -> None:
        texts, labels = rows()
        stepped(optimizer, criterion(embed(model, texts), torch.tensor(labels)))

    turn(stage, model, loss, update, purity(PATENTS, 0), steps=60)
