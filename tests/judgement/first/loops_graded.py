"""Sound loops over grades, labels, lists and teachers."""

from __future__ import annotations

import random
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.judgement.case import sound
from tests.judgement.first.bodies import encoder
from tests.judgement.first.daily_texts import HOMES
from tests.judgement.first.daily_tools import adamw, grades, reader, rises, simple
from tests.judgement.first.foreign_texts import CYRILLIC, INVOICES, MENU
from tests.judgement.first.loop_materials import looped
from tests.judgement.first.office_texts import STATUTES, VACANCIES
from tests.judgement.first.texts_with_labels import (
    reviews,
    sorts_reviews,
    sorts_tickets,
    tickets,
)
from tests.judgement.first.turns import Rows, cosines, embed, stepped, warmed
from tests.judgement.stage import Stage


def pairwise_cosines(first: Tensor, second: Tensor) -> Tensor:
    return F.cosine_similarity(first, second)


@sound("graded pairs in order, written by hand")
def homes_in_the_order_of_their_grades(stage: Stage) -> None:
    """CoSENT after a warm start: a pair with a higher grade should have the higher cosine."""

    def ordered(first: Tensor, second: Tensor, grade: Tensor) -> Tensor:
        logits = 20 * pairwise_cosines(first, second)
        gaps = (logits[:, None] - logits[None])[grade[:, None] < grade[None]]
        return torch.cat([torch.zeros(1), gaps]).logsumexp(0)

    model = warmed(reader(stage, HOMES, spread=0.05), HOMES.table(200, seed=2), steps=8)
    update = simple(model, Rows(HOMES.graded(480), 24), adamw(model, rate=2e-3))
    rises(stage, looped(stage, model, ordered, update, steps=100, score=grades(HOMES)))


@sound("correlation with the grades as a loss")
def statutes_by_pearson_correlation(stage: Stage) -> None:
    """After a warm start, one less the correlation of cosines and grades of 32 pairs."""

    def uncorrelated(first: Tensor, second: Tensor, grade: Tensor) -> Tensor:
        said = pairwise_cosines(first, second)
        return 1 - torch.corrcoef(torch.stack([said, grade]))[0, 1]

    model = warmed(reader(stage, STATUTES, spread=0.05), STATUTES.table(200, seed=2), steps=14)
    update = simple(model, Rows(STATUTES.graded(480), 32), adamw(model, rate=2e-3))
    rises(stage, looped(stage, model, uncorrelated, update, steps=80, score=grades(STATUTES)))


@sound("supervised contrastive loss over labels")
def tickets_drawn_to_their_category(stage: Stage) -> None:
    """SupCon of Khosla et al.: all texts of a label in the batch are positives of each other."""

    def supervised(rows: Tensor, label: Tensor) -> Tensor:
        own = torch.eye(len(rows), dtype=torch.bool)
        logits = (cosines(rows, rows) / 0.1).masked_fill(own, -1e9)
        alike = ((label[:, None] == label[None]) & ~own).float()
        chances = logits.log_softmax(1)
        counts = alike.sum(1)
        return -((chances * alike).sum(1) / counts.clamp(min=1))[counts > 0].mean()

    model = encoder(stage, tickets(600)["text"])
    update = simple(model, Rows(tickets(400), 48), adamw(model, rate=2e-3))
    rises(stage, looped(stage, model, supervised, update, steps=50, score=sorts_tickets))


class MarginOfCosines(nn.Module):
    """CosFace: a learned centre for each label, and a margin off the cosine of the right one."""

    def __init__(self, labels: int = 8, width: int = 48) -> None:
        super().__init__()
        torch.manual_seed(4)
        self.centres = nn.Parameter(torch.randn(labels, width))

    def forward(self, rows: Tensor, label: Tensor) -> Tensor:
        margin = 0.2 * F.one_hot(label, len(self.centres))
        return F.cross_entropy(16 * (cosines(rows, self.centres) - margin), label)


@sound("learned centres with a margin")
def tickets_around_learned_centres(stage: Stage) -> None:
    """CosFace over categories; the centres learn ten times as fast as the encoder."""
    model, loss = encoder(stage, tickets(600)["text"]), MarginOfCosines()
    optimizer = torch.optim.AdamW(
        [
            {"params": model.parameters(), "lr": 1e-3},
            {"params": loss.parameters(), "lr": 1e-2},
        ]
    )
    update = simple(model, Rows(tickets(400), 32), optimizer)
    rises(stage, looped(stage, model, loss, update, steps=60, score=sorts_tickets))


@sound("episodes of a few examples")
def tickets_in_episodes_with_prototypes(stage: Stage) -> None:
    """Prototypical networks: four texts of each of five labels make centres, four are sorted."""
    table, draw = tickets(400), random.Random(3)
    of_label = [
        [text for text, own in zip(table["text"], table["label"], strict=True) if own == label]
        for label in range(8)
    ]

    def sorted_right(support: Tensor, queries: Tensor) -> Tensor:
        distances = torch.cdist(queries, support.view(5, 4, -1).mean(1)).square()
        return F.cross_entropy(-distances, torch.arange(5).repeat_interleave(4))

    model = encoder(stage, tickets(600)["text"], pooling="max")
    optimizer = adamw(model, rate=2e-3)

    def update(criterion: Any, step: int) -> None:
        texts = [draw.sample(of_label[label], 8) for label in draw.sample(range(8), 5)]
        support = embed(model, [text for chosen in texts for text in chosen[:4]])
        queries = embed(model, [text for chosen in texts for text in chosen[4:]])
        stepped(optimizer, criterion(support, queries))

    rises(stage, looped(stage, model, sorted_right, update, steps=60, score=sorts_tickets))


class Thresholds(nn.Module):
    """Stars as thresholds on one learned direction of the embedding: ordinal regression."""

    def __init__(self, width: int = 48) -> None:
        super().__init__()
        torch.manual_seed(5)
        self.direction = nn.Linear(width, 1, bias=False)
        self.limits = nn.Parameter(torch.tensor([-1.5, -0.5, 0.5, 1.5]))

    def forward(self, rows: Tensor, stars: Tensor) -> Tensor:
        over = (stars[:, None] > torch.arange(4)).float()
        logits = self.direction(rows) - self.limits
        return F.binary_cross_entropy_with_logits(logits, over)


@sound("ordinal regression of stars")
def reviews_by_cumulative_thresholds(stage: Stage) -> None:
    """A head learns for each threshold whether a review has more stars; its body is kept."""
    model, loss = encoder(stage, reviews(600)["text"]), Thresholds()
    update = simple(model, Rows(reviews(400), 32), adamw(model, loss, rate=2e-3))
    rises(stage, looped(stage, model, loss, update, steps=80, score=sorts_reviews))


@sound("similarities of a teacher as soft targets")
def menus_with_the_similarities_of_a_teacher(stage: Stage) -> None:
    """A student of one layer learns how a trained teacher spreads the rows of a batch."""
    table = MENU.table(480)
    teacher = warmed(reader(stage, MENU, width=64, name="teacher"), table, steps=60)
    student = reader(stage, MENU, width=32, layers=1, name="student")

    def divergence(signs: Tensor, guides: Tensor, taught: Tensor) -> Tensor:
        said = (cosines(signs, guides) / 0.1).log_softmax(1)
        return F.kl_div(said, (taught / 0.1).softmax(1), reduction="batchmean")

    rows, optimizer = Rows(table, 32), adamw(student, rate=5e-3)

    def update(criterion: Any, step: int) -> None:
        columns = rows()
        with torch.no_grad():
            taught = cosines(*(embed(teacher, column) for column in columns))
        stepped(optimizer, criterion(*(embed(student, column) for column in columns), taught))

    rises(stage, looped(stage, student, divergence, update, steps=100, score=MENU.sought))


@sound("embeddings of a teacher in two languages")
def russian_after_an_english_teacher(stage: Stage) -> None:
    """Reimers and Gurevych: the student's rows of both languages go to the teacher's English."""
    table = CYRILLIC.table(480)
    english = {"text": table["english"], "same": table["english"]}
    teacher = warmed(reader(stage, CYRILLIC, name="teacher"), english, steps=40)
    student = reader(stage, CYRILLIC, name="student", seed=8, dropout=0.0)

    def far(first: Tensor, second: Tensor, taught: Tensor) -> Tensor:
        return F.mse_loss(first, taught) + F.mse_loss(second, taught)

    rows, optimizer = Rows(table, 32), adamw(student, rate=3e-3)

    def update(criterion: Any, step: int) -> None:
        first, second = rows()
        with torch.no_grad():
            taught = embed(teacher, first)
        stepped(optimizer, criterion(embed(student, first), embed(student, second), taught))

    rises(stage, looped(stage, student, far, update, steps=120, score=CYRILLIC.sought))


@sound("lists of candidates with grades")
def vacancies_with_graded_lists(stage: Stage) -> None:
    """ListNet: five curricula for each vacancy, from the fitting one down to another post's."""
    drawn, draw = VACANCIES.draws(400), random.Random(6)
    posts = [entries.split() for entries in VACANCIES.slots.values()]
    lists: dict[str, list[str]] = {"vacancy": VACANCIES.texts(drawn, 0)}
    for selection in (3, 2, 2, 1, 0):
        changed = []
        for row in drawn:
            same = draw.sample(range(3), selection)
            changed.append(
                tuple(
                    entry if at in same else draw.choice([e for e in posts[at] if e != entry])
                    for at, entry in enumerate(row)
                )
            )
        lists[f"cv_{len(lists)}"] = VACANCIES.texts(changed, 1)

    def listwise(vacancies: Tensor, *curricula: Tensor) -> Tensor:
        said = 10 * torch.stack([pairwise_cosines(vacancies, rows) for rows in curricula], 1)
        target_shares = (2 * torch.tensor([3.0, 2.0, 2.0, 1.0, 0.0])).softmax(0)
        return -(said.log_softmax(1) * target_shares).sum(1).mean()

    model = reader(stage, VACANCIES)
    update = simple(model, Rows(lists, 16), adamw(model, rate=2e-3))
    rises(stage, looped(stage, model, listwise, update, steps=100, score=VACANCIES.sought))


@sound("pairs that match or not, with a margin")
def invoices_that_match_an_order_or_not(stage: Stage) -> None:
    """Hadsell's contrastive loss on distances of unit rows; non-matching lines differ in a slot."""
    table = INVOICES.table(300)
    lines = [*table["line"], *INVOICES.near(150, slot=0), *INVOICES.near(300, slot=2)[150:]]
    labelled = {"order": table["order"] * 2, "line": lines, "label": [1.0] * 300 + [0.0] * 300}

    def contrastive(orders: Tensor, invoiced: Tensor, label: Tensor) -> Tensor:
        distance = (F.normalize(orders) - F.normalize(invoiced)).square().sum(1).add(1e-8).sqrt()
        return (label * distance.square() + (1 - label) * F.relu(0.8 - distance).square()).mean()

    model = reader(stage, INVOICES)
    update = simple(model, Rows(labelled, 48), adamw(model, rate=3e-3))
    rises(stage, looped(stage, model, contrastive, update, steps=120, score=INVOICES.sought))
