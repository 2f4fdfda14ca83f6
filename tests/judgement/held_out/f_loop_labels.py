"""Sound loops of one's own on classes, grades and scores of teachers, by losses written by hand."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.judgement.case import sound
from tests.judgement.first.fields import Field
from tests.judgement.first.turns import Rows, cosines, embed, stepped, turn, warmed
from tests.judgement.held_out.f_fields import (
    BIRDS,
    JOBS,
    MAILS,
    MUSEUM,
    PATENTS,
    QUERIES,
    SENSORS,
    SHELL,
    WEATHER,
    adam,
    among_classes,
    graded_score,
    model_of,
    of_classes,
)
from tests.judgement.stage import Stage


class ByClass:
    """Batches with a few texts of each of several classes."""

    def __init__(self, field: Field, slot: int, *, classes: int = 5, of_each: int = 6,
                 column: int = 0) -> None:  # fmt: skip
        table = of_classes(field, 300, slots=(slot,), column=column)
        self._members: dict[int, list[str]] = {}
        for text, label in zip(table["text"], table["label"], strict=True):
            self._members.setdefault(label, []).append(text)
        self._classes, self._of_each, self._draw = classes, of_each, random.Random(2)

    def __call__(self) -> tuple[list[str], Tensor]:
        labels = self._draw.sample(sorted(self._members), self._classes)
        texts = [text for label in labels
                 for text in self._draw.sample(self._members[label], self._of_each)]  # fmt: skip
        return texts, torch.tensor(labels).repeat_interleave(self._of_each)


def of_batches(model: Any, batches: ByClass, optimizer: Any) -> Callable[[Any, int], None]:
    """A step on embeddings and their labels."""

    def update(criterion: Any, step: int) -> None:
        texts, labels = batches()
        stepped(optimizer, criterion(embed(model, texts), labels))

    return update


@sound("supervised contrast of classes")
def supervised_contrast_of_claims(stage: Stage) -> None:
    def loss(rows: Tensor, labels: Tensor) -> Tensor:
        own = torch.eye(len(rows), dtype=torch.bool)
        logits = (cosines(rows, rows) / 0.1).masked_fill(own, -1e9)
        alike = (labels[:, None] == labels) & ~own
        chances = logits.log_softmax(1)
        return -((chances * alike).sum(1) / alike.sum(1)).mean()

    model = model_of(stage, PATENTS)
    update = of_batches(model, ByClass(PATENTS, 1, column=1), adam(model))
    score = among_classes(PATENTS, slots=(1,), column=1)
    turn(stage, model, loss, update, score, steps=50)


@sound("circle loss on classes")
def circle_loss_on_catalogue_lands(stage: Stage) -> None:
    def loss(rows: Tensor, labels: Tensor) -> Tensor:
        likeness, scale, margin = cosines(rows, rows), 24.0, 0.25
        own = torch.eye(len(rows), dtype=torch.bool)
        alike = (labels[:, None] == labels) & ~own
        unlike = labels[:, None] != labels
        pull = -scale * F.relu(1 + margin - likeness.detach()) * (likeness - 1 + margin)
        push = scale * F.relu(likeness.detach() + margin) * (likeness - margin)
        far = pull.masked_fill(~alike, -1e9).logsumexp(1)
        near = push.masked_fill(~unlike, -1e9).logsumexp(1)
        return F.softplus(far + near).mean()

    model = model_of(stage, MUSEUM)
    update = of_batches(model, ByClass(MUSEUM, 1), adam(model))
    turn(stage, model, loss, update, among_classes(MUSEUM, slots=(1,)), steps=60)


@sound("centres of classes with an angular margin")
def angular_margin_to_centres_of_roles(stage: Stage) -> None:
    torch.manual_seed(3)
    centres = nn.Parameter(torch.randn(8, 48))

    def loss(rows: Tensor, labels: Tensor) -> Tensor:
        likeness = cosines(rows, centres)
        margins = 0.2 * F.one_hot(labels, 8)
        return F.cross_entropy(16 * (likeness - margins), labels)

    model = model_of(stage, JOBS)
    optimizer = torch.optim.AdamW(
        [{"params": list(model.parameters())}, {"params": [centres], "lr": 1e-2}], lr=2e-3
    )
    update = of_batches(model, ByClass(JOBS, 0, classes=8, of_each=4), optimizer)
    turn(stage, model, loss, update, among_classes(JOBS, slots=(0,)), steps=60)


@sound("hardest triplets of each batch")
def hardest_triplets_of_lands_of_birds(stage: Stage) -> None:
    def loss(rows: Tensor, labels: Tensor) -> Tensor:
        distances = 1 - cosines(rows, rows)
        alike = labels[:, None] == labels
        farthest = distances.masked_fill(~alike, -1).amax(1)
        nearest = distances.masked_fill(alike, 9).amin(1)
        return F.softplus(8 * (farthest - nearest)).mean()

    model = model_of(stage, BIRDS)
    update = of_batches(model, ByClass(BIRDS, 2, of_each=4), adam(model))
    turn(stage, model, loss, update, among_classes(BIRDS, slots=(2,)), steps=70)


def of_grades(model: Any, field: Field, rate: float = 2e-3) -> Callable[[Any, int], None]:
    """A step on the embeddings of pairs and their grades."""
    rows, optimizer = Rows(field.graded(400), 32), adam(model, rate)

    def update(criterion: Any, step: int) -> None:
        first, second, grades = rows()
        stepped(
            optimizer, criterion(embed(model, first), embed(model, second), torch.tensor(grades))
        )

    return update


@sound("correlation with grades as the loss")
def correlation_of_weather_grades(stage: Stage) -> None:
    def loss(first: Tensor, second: Tensor, grades: Tensor) -> Tensor:
        likeness = F.cosine_similarity(first, second)
        likeness, grades = likeness - likeness.mean(), grades - grades.mean()
        return 1 - F.cosine_similarity(likeness, grades, dim=0)

    model = model_of(stage, WEATHER)
    turn(stage, model, loss, of_grades(model, WEATHER), graded_score(WEATHER), steps=80)


@sound("order of grades, pair by pair")
def order_of_sensor_grades(stage: Stage) -> None:
    def loss(first: Tensor, second: Tensor, grades: Tensor) -> Tensor:
        likeness = F.cosine_similarity(first, second)
        higher = grades[:, None] > grades
        return F.softplus(-15 * (likeness[:, None] - likeness))[higher].mean()

    model = model_of(stage, SENSORS)
    turn(stage, model, loss, of_grades(model, SENSORS), graded_score(SENSORS), steps=80)


@sound("grades as targets of a logistic loss")
def logistic_grades_of_statements(stage: Stage) -> None:
    model = model_of(stage, QUERIES)

    def loss(first: Tensor, second: Tensor, grades: Tensor) -> Tensor:
        logits = 8 * F.cosine_similarity(first, second) - 3
        return F.binary_cross_entropy_with_logits(logits, grades)

    turn(stage, model, loss, of_grades(model, QUERIES), graded_score(QUERIES), steps=100)


@sound("distributions of a teacher over the candidates of a batch")
def candidates_ranked_by_a_teacher(stage: Stage) -> None:
    table = SHELL.table(400)
    teacher = warmed(model_of(stage, SHELL, name="teacher", width=64, seed=9), table, 50)
    model = model_of(stage, SHELL)
    rows, optimizer = Rows(table, 32), adam(model)

    def loss(first: Tensor, second: Tensor, goals: Tensor) -> Tensor:
        chances = (cosines(first, second) / 0.05).log_softmax(1)
        return F.kl_div(chances, goals, reduction="batchmean")

    def update(criterion: Any, step: int) -> None:
        commands, answers = rows()
        with torch.no_grad():
            likeness = cosines(embed(teacher, commands), embed(teacher, answers))
        goals = (likeness / 0.05).softmax(1)
        stepped(optimizer, criterion(embed(model, commands), embed(model, answers), goals))

    turn(stage, model, loss, update, SHELL.sought, steps=70)


@sound("geometry of a teacher's space")
def distances_of_mails_in_a_teachers_space(stage: Stage) -> None:
    table = MAILS.table(300)
    teacher = warmed(model_of(stage, MAILS, name="teacher", width=64, seed=9), table, 50)
    model = model_of(stage, MAILS)
    rows, optimizer = Rows(table, 24), adam(model, 3e-3)

    def loss(student_rows: Tensor, goals: Tensor) -> Tensor:
        return F.mse_loss(cosines(student_rows, student_rows), goals)

    def update(criterion: Any, step: int) -> None:
        subjects, bodies = rows()
        with torch.no_grad():
            goals = embed(teacher, [*subjects, *bodies])
        stepped(optimizer, criterion(embed(model, [*subjects, *bodies]), cosines(goals, goals)))

    turn(stage, model, loss, update, MAILS.sought, steps=90)
