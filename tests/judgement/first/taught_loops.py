"""Sound set-ups: loops of one's own with teachers, slow copies, queues, and without negatives."""

from __future__ import annotations

import copy
import random
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.judgement.case import sound
from tests.judgement.first.bodies import encoder
from tests.judgement.first.numbered_fields import MAILS, NEWS, OFFERS, SUMS
from tests.judgement.first.ordinary_fields import ADDRESSES, BIRDS, JOBS, RUSSIAN
from tests.judgement.first.training_kit import (
    adamw,
    by_grades,
    by_rank,
    columns_of,
    cross_entropy,
    down,
    rises,
    similarities,
    simple,
)
from tests.judgement.first.turns import Rows, embed, warmed
from tests.judgement.stage import Stage


@torch.no_grad()
def follow(slow: nn.Module, fast: nn.Module, share: float) -> None:
    """Move the weights of a slow copy towards those of the trained model by a share."""
    for mean, weight in zip(slow.parameters(), fast.parameters(), strict=True):
        mean.lerp_(weight, share)


@sound("queue of a slow encoder's embeddings")
def addresses_against_a_queue_of_a_slow_encoder(stage: Stage) -> None:
    """MoCo: official addresses are embedded by a moving average, whose earlier ones are kept."""
    model = encoder(stage, ADDRESSES.vocabulary())
    slow, rows, optimizer = copy.deepcopy(model), Rows(ADDRESSES.table(600), 16), adamw(model)
    slow.requires_grad_(False).eval()
    queue: dict[str, Tensor] = {}

    def against_queue(typed: Tensor, official: Tensor, earlier: Tensor) -> Tensor:
        return cross_entropy(typed, torch.cat([official, earlier]))

    def update(criterion: Any, step: int) -> None:
        typed, official = rows()
        with torch.no_grad():
            keys = embed(slow, official)
        for text in official:  # an address that comes again is no negative of itself
            queue.pop(text, None)
        earlier = torch.stack(list(queue.values())) if queue else keys[:0]
        down(optimizer, criterion(embed(model, typed), keys, earlier))
        queue.update(zip(official, keys, strict=True))
        for text in list(queue)[:-128]:
            del queue[text]
        follow(slow, model, 0.05)

    rises(stage, model, against_queue, update, by_rank(ADDRESSES.sought()), steps=160)


@sound("teacher's embeddings by squared error and a projection")
def sums_student_imitates_embeddings(stage: Stage) -> None:
    """A student of one narrow layer learns a wider teacher's normalised embeddings by a linear map.

    Its own width is kept: the linear map belongs to the criterion and is thrown away.
    """
    teacher = warmed(encoder(stage, SUMS.vocabulary(), name="teacher", width=64),
                     SUMS.table(600, seed=1), steps=110).requires_grad_(False)  # fmt: skip
    student = encoder(stage, SUMS.vocabulary(), name="student", width=32, layers=1)
    widen, rows = nn.Linear(32, 64), Rows(SUMS.table(600, seed=2), 16)
    optimizer = adamw(student, widen, rate=3e-3)

    def imitation(own: Tensor, taught: Tensor) -> Tensor:
        return 64 * F.mse_loss(widen(own), taught)

    def update(criterion: Any, step: int) -> None:
        problems, equations = rows()
        texts = problems + equations
        with torch.no_grad():
            taught = F.normalize(embed(teacher, texts), dim=1)
        down(optimizer, criterion(embed(student, texts), taught))

    rises(stage, student, imitation, update, by_rank(SUMS.sought()), steps=150)


@sound("teacher's distribution over the batch")
def headlines_student_imitates_distributions(stage: Stage) -> None:
    """The student's softmax over the batch is drawn to the teacher's at the same temperature."""
    teacher = warmed(encoder(stage, NEWS.vocabulary(), name="teacher", width=64),
                     NEWS.table(500, seed=1), steps=70).requires_grad_(False)  # fmt: skip
    student = encoder(stage, NEWS.vocabulary(), name="student", width=32, kind="distilbert")
    rows, optimizer = Rows(NEWS.table(500), 32), adamw(student, rate=3e-3)

    def divergence(first: Tensor, second: Tensor, taught: Tensor) -> Tensor:
        own = (10 * similarities(first, second)).log_softmax(1)
        return F.kl_div(own, taught, reduction="batchmean")

    def update(criterion: Any, step: int) -> None:
        columns = rows()
        with torch.no_grad():
            taught = (10 * similarities(*columns_of(teacher, columns))).softmax(1)
        down(optimizer, criterion(*columns_of(student, columns), taught))

    rises(stage, student, divergence, update, by_rank(NEWS.sought()), steps=120)


@sound("one language taught to a second one")
def russian_taught_by_an_english_encoder(stage: Stage) -> None:
    """Reimers and Gurevych: English and Russian both move to the teacher's English embeddings."""
    english = dict.fromkeys(("first", "second"), RUSSIAN.table(400)["english"])
    teacher = warmed(encoder(stage, RUSSIAN.vocabulary()), english, steps=30)
    student, rows = copy.deepcopy(teacher), Rows(RUSSIAN.table(600, seed=3), 24)
    teacher.requires_grad_(False)
    optimizer = adamw(student)

    def both_near(own: Tensor, translated: Tensor, taught: Tensor) -> Tensor:
        return F.mse_loss(own, taught) + F.mse_loss(translated, taught)

    def update(criterion: Any, step: int) -> None:
        columns = rows()
        with torch.no_grad():
            taught = embed(teacher, columns[0])
        down(optimizer, criterion(*columns_of(student, columns), taught))

    rises(stage, student, both_near, update, by_rank(RUSSIAN.sought()), steps=140)


@sound("average of the weights is kept")
def bird_entries_with_an_average_of_weights(stage: Stage) -> None:
    """Weights are averaged from the start with a horizon of ten steps; the average is scored."""
    model = encoder(stage, BIRDS.vocabulary())
    average = copy.deepcopy(model)
    train = simple(model, BIRDS.table(400), adamw(model), size=24)

    def update(criterion: Any, step: int) -> None:
        train(criterion, step)
        follow(average, model, 0.1)

    score = by_rank(BIRDS.sought())
    rises(stage, model, cross_entropy, update, lambda _: score(average), steps=90)


@sound("no negatives, covariance and variance held")
def job_adverts_with_variance_and_covariance(stage: Stage) -> None:
    """VICReg: partners agree, each dimension keeps its spread, and dimensions do not repeat."""

    def regularised(first: Tensor, second: Tensor) -> Tensor:
        value = 25 * F.mse_loss(first, second)
        for rows in (first, second):
            spread = (rows.var(0) + 1e-4).sqrt()
            centred = rows - rows.mean(0)
            covariance = centred.T @ centred / (len(rows) - 1)
            off = covariance - torch.diag(covariance.diagonal())
            value = value + 25 * F.relu(1 - spread).mean() + off.square().sum() / rows.shape[1]
        return value

    model = encoder(stage, JOBS.vocabulary(), dropout=0.0)
    update = simple(model, JOBS.table(440), adamw(model), size=48, most=5.0)
    rises(stage, model, regularised, update, by_rank(JOBS.sought()), steps=150)


@sound("no negatives, a correlation matrix near the identity")
def offers_with_decorrelated_dimensions(stage: Stage) -> None:
    """Barlow Twins: the same dimension of both columns correlates, different ones do not."""

    def twins(first: Tensor, second: Tensor) -> Tensor:
        first, second = ((rows - rows.mean(0)) / (rows.std(0) + 1e-5) for rows in (first, second))
        correlations = first.T @ second / len(first)
        gaps = (correlations - torch.eye(len(correlations))).square()
        return gaps.diagonal().sum() + 0.02 * (gaps.sum() - gaps.diagonal().sum())

    model = encoder(stage, OFFERS.vocabulary(), dropout=0.0)
    update = simple(model, OFFERS.table(600), adamw(model), size=64, most=5.0)
    rises(stage, model, twins, update, by_rank(OFFERS.sought()), steps=120)


@sound("one text twice with words left out")
def mails_as_views_with_words_left_out(stage: Stage) -> None:
    """Unsupervised: two copies of a mail, each without a fifth of its words and with dropout.

    Remark: the subject and the body of a mail may meet in a batch, where they count as negatives.
    """
    table, draw = MAILS.table(120), random.Random(3)
    texts = table["subject"] + table["body"]
    rows = Rows({"text": texts}, 24)
    model = encoder(stage, MAILS.vocabulary(), dropout=0.1)
    optimizer = adamw(model, rate=1e-3)

    def shortened(text: str) -> str:
        return " ".join(word for word in text.split() if draw.random() > 0.2) or text

    def update(criterion: Any, step: int) -> None:
        drawn_texts = rows()[0]
        views = [list(map(shortened, drawn_texts)) for _ in range(2)]
        down(optimizer, criterion(*columns_of(model, views)))

    score = by_grades(MAILS.graded(30, column=0, held_out=True))
    rises(stage, model, cross_entropy, update, score, steps=80)
