"""Sound set-ups: own loops with teachers, hard negatives, and agreement of two passes."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as functional
from torch import Tensor

from tests.judgement.case import sound
from tests.judgement.first.fields_of_daily_use import (
    MAILS,
    PATENTS,
    REACTIONS,
    RENTS,
    descent,
    finds,
    finds_verses,
    starter,
)
from tests.judgement.first.turns import Rows, cosines, embed, infonce, stepped, turn, warmed
from tests.judgement.first.unlabelled_views import LINES, poet, views
from tests.judgement.stage import Stage


def adam(*models: torch.nn.Module, rate: float = 2e-3) -> torch.optim.Optimizer:
    return torch.optim.AdamW([w for model in models for w in model.parameters()], lr=rate)


def divergence(first: Tensor, second: Tensor, taught: Tensor) -> Tensor:
    """The student's ranking of a batch beside the teacher's."""
    ranked = (cosines(first, second) / 0.1).log_softmax(1)
    return functional.kl_div(ranked, taught.log_softmax(1), log_target=True, reduction="batchmean")


@sound("ranking distilled from a teacher")
def rankings_distilled_into_a_small_student(stage: Stage) -> None:
    table = REACTIONS.table(360)
    teacher = warmed(starter(stage, REACTIONS, name="teacher", width=64, seed=8), table, steps=50)
    student = starter(stage, REACTIONS, name="student", layers=1)
    draw, optimizer = Rows(table, 32), adam(student)

    def update(criterion: Any, step: int) -> None:
        names, formulas = draw()
        with torch.no_grad():
            taught = cosines(embed(teacher, names), embed(teacher, formulas)) / 0.1
        stepped(optimizer, criterion(embed(student, names), embed(student, formulas), taught))

    turn(stage, student, divergence, update, finds(REACTIONS), steps=70)


@sound("embeddings distilled through a projection")
def embeddings_of_claims_distilled(stage: Stage) -> None:
    """The student's rows, projected to the teacher's width, are drawn to the teacher's."""
    table = PATENTS.table(320)
    teacher = warmed(starter(stage, PATENTS, name="teacher", width=64, seed=8), table, steps=40)
    student = starter(stage, PATENTS, name="student", width=32, spread=0.05)
    torch.manual_seed(6)
    projection, texts = torch.nn.Linear(32, 64), [*table["title"], *table["claim"]]
    draw, optimizer = Rows({"text": texts}, 32), adam(student, projection, rate=3e-3)

    def loss(rows: Tensor, taught: Tensor) -> Tensor:
        return (1 - functional.cosine_similarity(projection(rows), taught)).mean()

    def update(criterion: Any, step: int) -> None:
        (lines,) = draw()
        with torch.no_grad():
            taught = embed(teacher, lines)
        stepped(optimizer, criterion(embed(student, lines), taught))

    turn(stage, student, loss, update, finds(PATENTS), steps=70)


def hinge(anchors: Tensor, positives: Tensor, negatives: Tensor) -> Tensor:
    """A margin to the hardest among the batch's passages and the row's own negative."""
    table = cosines(anchors, positives)
    positive = table.diagonal()
    apart = table.masked_fill(torch.eye(len(anchors), dtype=torch.bool), -1.0)
    hard = torch.maximum(apart.max(1).values, functional.cosine_similarity(anchors, negatives))
    return functional.softplus(10 * (hard - positive + 0.1)).mean() / 10


@sound("softened margin to the hardest negative")
def mails_against_their_hardest_negative(stage: Stage) -> None:
    table = MAILS.table(360) | {"negative": MAILS.near(360, slot=1)}
    model = warmed(starter(stage, MAILS), table, steps=6)
    update = descent(model, adam(model, rate=1e-3), table, 24)
    turn(stage, model, hinge, update, finds(MAILS), steps=70)


@sound("ranking with a penalty on the spread of two passes")
def rents_with_two_passes_in_agreement(stage: Stage) -> None:
    """InfoNCE, and two passes of a text under dropout that should rank alike (R-Drop)."""
    model = starter(stage, RENTS, dropout=0.2)
    draw, optimizer = Rows(RENTS.table(320), 24), adam(model)

    def loss(first: Tensor, again: Tensor, second: Tensor) -> Tensor:
        ranked, ranked_again = (
            (cosines(rows, second) / 0.05).log_softmax(1) for rows in (first, again)
        )
        gap = functional.kl_div(ranked, ranked_again, log_target=True, reduction="batchmean")
        return (infonce(first, second) + infonce(again, second)) / 2 + 0.2 * gap

    def update(criterion: Any, step: int) -> None:
        words, adverts = draw()
        stepped(optimizer, criterion(
            embed(model, words), embed(model, words), embed(model, adverts)
        ))  # fmt: skip

    turn(stage, model, loss, update, finds(RENTS), steps=60)


@sound("alignment and uniformity")
def aligned_and_uniform_verses(stage: Stage) -> None:
    def uniform(rows: Tensor) -> Tensor:
        distances = 2 - 2 * cosines(rows, rows)
        apart = ~torch.eye(len(rows), dtype=torch.bool)
        return (-2 * distances[apart]).exp().mean().log()

    def loss(first: Tensor, second: Tensor) -> Tensor:
        first, second = (functional.normalize(rows, dim=1) for rows in (first, second))
        return (first - second).square().sum(1).mean() + (uniform(first) + uniform(second)) / 2

    model = poet(stage)
    draw, optimizer = Rows(views(LINES, 3), 32), adam(model)

    def update(criterion: Any, step: int) -> None:
        stepped(optimizer, criterion(*(embed(model, column) for column in draw())))

    turn(stage, model, loss, update, finds_verses, steps=70)
