"""Loops with a second network: momentum copies, teachers, two towers, statistics of views."""

from __future__ import annotations

import copy
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.judgement.case import sound
from tests.judgement.first.bodies import encoder, words_of
from tests.judgement.first.drawn_rows import seeks
from tests.judgement.first.loop_materials import looped
from tests.judgement.first.private_texts import addresses, captions
from tests.judgement.first.public_texts import FLATS, FORECASTS, SHELL, VACANCIES
from tests.judgement.first.stepwise_updates import adam, plain, prepared, rises, taught
from tests.judgement.first.told_texts import chats, headlines, queries
from tests.judgement.first.turns import Rows, cosines, embed, infonce, stepped, turn
from tests.judgement.stage import Stage
from tests.judgement.truth import reciprocal_rank


def follow(copied: Any, model: Any, share: float) -> None:
    """Move the weights of a copy a share of the way to those of the model."""
    with torch.no_grad():
        for slow, quick in zip(copied.parameters(), model.parameters(), strict=True):
            slow.lerp_(quick, share)


class Queue:
    """InfoNCE among the batch's keys and a queue of earlier keys, which have no gradient."""

    def __init__(self, width: int, size: int) -> None:
        self.rows, self.size = torch.empty(0, width), size

    def __call__(self, queries_of_batch: Tensor, keys: Tensor) -> Tensor:
        logits = cosines(queries_of_batch, torch.cat([keys, self.rows])) / 0.07
        self.rows = torch.cat([keys.detach(), self.rows])[: self.size]
        return F.cross_entropy(logits, torch.arange(len(keys)))


@sound("momentum encoder with a queue")
def commands_against_a_queue_of_a_momentum_encoder(stage: Stage) -> None:
    """MoCo on a ready-made encoder: keys of a slow copy; both columns take turns as queries.

    Remark: the queue is short, as the table has only four hundred rows.
    """
    model, train, held = prepared(stage, SHELL, 400)
    taught(model, SHELL.table(200, seed=2), steps=6)
    slow, rows, optimizer = copy.deepcopy(model).train(), Rows(train, 32), adam(model, rate=1e-3)

    def update(criterion: Any, step: int) -> None:
        wishes, commands = rows() if step % 2 else reversed(rows())
        with torch.no_grad():
            keys = slow(slow.preprocess(list(commands)))["sentence_embedding"]
        stepped(optimizer, criterion(embed(model, wishes), keys))
        follow(slow, model, 0.1)

    turn(stage, model, Queue(48, 64), update, seeks(held), steps=80)


@sound("variance, invariance, covariance")
def flats_by_variance_and_covariance(stage: Stage) -> None:
    """VICReg of a projection of both sides: near, spread at least one, dimensions uncorrelated.

    Remark: no negatives are used, and the projection is dropped after training.
    """

    def vicreg(first: Tensor, second: Tensor) -> Tensor:
        loss = 25 * F.mse_loss(first, second)
        for rows in (first, second):
            spread = (rows.var(0) + 1e-4).sqrt()
            centred = rows - rows.mean(0)
            covariance = centred.T @ centred / (len(rows) - 1)
            away = covariance - covariance.diagonal().diag()
            loss = loss + 25 * F.relu(1 - spread).mean() + away.pow(2).sum() / rows.shape[1]
        return loss

    model, train, held = prepared(stage, FLATS, 500)
    torch.manual_seed(5)
    head = nn.Sequential(nn.Linear(48, 96), nn.ReLU(), nn.Linear(96, 96))
    rows, optimizer = Rows(train, 64), adam(model, head)

    def update(criterion: Any, step: int) -> None:
        first, second = (head(embed(model, column)) for column in rows())
        stepped(optimizer, criterion(first, second))

    turn(stage, model, vicreg, update, seeks(held), steps=120)


@sound("cross-correlation near the identity")
def weather_codes_by_cross_correlation(stage: Stage) -> None:
    """Barlow Twins: each dimension agrees over the two sides and with no other dimension."""

    def twins(first: Tensor, second: Tensor) -> Tensor:
        first, second = ((rows - rows.mean(0)) / rows.std(0) for rows in (first, second))
        shared = first.T @ second / len(first)
        own = shared.diagonal()
        return (own - 1).pow(2).sum() + 0.02 * (shared.pow(2).sum() - own.pow(2).sum())

    model, train, held = prepared(stage, FORECASTS, 500)
    update = plain(model, Rows(train, 64), adam(model), clip=5.0)
    turn(stage, model, twins, update, seeks(held), steps=100)


@sound("embeddings of a larger teacher")
def small_student_of_a_wider_teacher_of_addresses(stage: Stage) -> None:
    """A narrow student, with a projection that is dropped later, learns a teacher's embeddings."""
    teacher, train, held = prepared(stage, addresses, 480, name="teacher", width=64)
    taught(teacher, train, steps=150)
    student = encoder(stage, words_of([train, held]), name="student", width=32, layers=1)
    texts = train["typed"] + train["register"]
    with torch.no_grad():
        goals = F.normalize(torch.tensor(teacher.encode(texts, show_progress_bar=False)))
    torch.manual_seed(6)
    widen = nn.Linear(32, 64)
    rows, optimizer = Rows({"text": texts, "goal": list(goals)}, 48), adam(student, widen)

    def update(criterion: Any, step: int) -> None:
        column, targets = rows()
        guess = F.normalize(widen(embed(student, column)))
        stepped(optimizer, criterion(guess, torch.stack(targets)))

    def squares(guess: Tensor, target: Tensor) -> Tensor:
        return (guess - target).pow(2).sum(1).mean()

    turn(stage, student, squares, update, seeks(held), steps=150)


@sound("a teacher's distribution over the batch")
def vacancies_by_the_softmax_of_a_teacher(stage: Stage) -> None:
    """The student's softmax over the batch follows the teacher's, by Kullback and Leibler."""
    teacher, train, held = prepared(stage, VACANCIES, 400, name="teacher", dropout=0.0)
    taught(teacher, train, steps=150)
    student = encoder(stage, words_of([train, held]), name="student", width=32)
    rows, optimizer = Rows(train, 32), adam(student)

    def divergence(first: Tensor, second: Tensor, goals: Tensor) -> Tensor:
        guesses = (cosines(first, second) / 0.1).log_softmax(1)
        return F.kl_div(guesses, goals.softmax(1), reduction="batchmean")

    def update(criterion: Any, step: int) -> None:
        columns = rows()
        with torch.no_grad():
            goals = cosines(*(embed(teacher, column) for column in columns)) / 0.1
        stepped(optimizer, criterion(*(embed(student, column) for column in columns), goals))

    turn(stage, student, divergence, update, seeks(held), steps=90)


@sound("margins of a teacher")
def queries_by_the_margins_of_a_teacher(stage: Stage) -> None:
    """Margin-MSE: the gap of a query and a wrong one follows the gap that a teacher sees.

    Remark: the student learns inner products, the search is by cosines.
    """
    teacher, train, held = prepared(stage, queries, 480, name="teacher")
    taught(teacher, train, steps=150)
    sides = [torch.tensor(teacher.encode(column, show_progress_bar=False))
             for column in train.values()]  # fmt: skip
    sides = [4 * F.normalize(side) for side in sides]
    shifted = {"other": train["query"][7:] + train["query"][:7]}
    counterparts = torch.cat([sides[1][7:], sides[1][:7]])
    gaps = ((sides[0] * (sides[1] - counterparts)).sum(1)).tolist()
    student = encoder(stage, words_of([train, held]), name="student")
    table = {"question": train["question"], "query": train["query"], **shifted, "gap": gaps}

    def margins(first: Tensor, second: Tensor, third: Tensor, gap: Tensor) -> Tensor:
        return F.mse_loss((first * (second - third)).sum(1), gap)

    update = plain(student, Rows(table, 32), adam(student))
    turn(stage, student, margins, update, seeks(held), steps=120)


@sound("two towers with weights of their own")
def japanese_and_english_in_towers_of_their_own(stage: Stage) -> None:
    """Two encoders of two languages, each with its words, are trained together."""
    train, held = captions(400), captions(80, seed=11)
    towers = [encoder(stage, train[name] + held[name], name=name, seed=seed)
              for name, seed in (("english", 3), ("japanese", 4))]  # fmt: skip
    rows, optimizer = Rows(train, 32), adam(*towers)

    def update(criterion: Any, step: int) -> None:
        towers[0].train(), towers[1].train()
        columns = list(rows())[:2]
        embedded = (embed(tower, column) for tower, column in zip(towers, columns, strict=True))
        stepped(optimizer, criterion(*embedded))

    def score(_: Any) -> float:
        return reciprocal_rank(*(tower.encode(held[name], show_progress_bar=False)
                                 for tower, name in zip(towers, held, strict=False)))  # fmt: skip

    rises(stage, *looped(stage, towers[0], infonce, update, steps=90, score=score))


@sound("average of the weights is kept")
def headlines_with_the_average_of_the_last_weights(stage: Stage) -> None:
    """Stochastic weight averaging: the mean of the weights of the second half is what is kept."""
    from torch.optim.swa_utils import AveragedModel

    model, train, held = prepared(stage, headlines, 400)
    optimizer = adam(model)
    step_once, mean = plain(model, Rows(train, 32), optimizer), AveragedModel(model)
    seek = seeks(held)

    def update(criterion: Any, step: int) -> None:
        step_once(criterion, step)
        if step >= 60 and step % 4 == 0:
            mean.update_parameters(model)

    before, _ = looped(stage, model, infonce, update, steps=100, score=seek)
    rises(stage, before, seek(mean.module))


@sound("nearest texts found anew as negatives")
def chat_replies_with_negatives_found_anew(stage: Stage) -> None:
    """ANCE: every thirty steps the nearest wrong replies are sought with the current encoder.

    Remark: the encoder is good before, so that there is little left to gain.
    """
    model, train, held = prepared(stage, chats, 320, 60)
    taught(model, chats(200, seed=2), steps=30)
    optimizer, mined = adam(model, rate=1e-3), dict[str, Rows]()

    def found_anew() -> Rows:
        first, second = (torch.tensor(model.encode(column, show_progress_bar=False))
                         for column in train.values())  # fmt: skip
        near = cosines(first, second) - 3 * torch.eye(len(first))
        wrong = [train["reply"][at] for at in near.argmax(1).tolist()]
        model.train()
        return Rows({**train, "wrong": wrong}, 16)

    def update(criterion: Any, step: int) -> None:
        if step % 30 == 0:
            mined["rows"] = found_anew()
        plain(model, mined["rows"], optimizer)(criterion, step)

    def with_wrong(first: Tensor, second: Tensor, third: Tensor) -> Tensor:
        return infonce(first, torch.cat([second, third]))

    turn(stage, model, with_wrong, update, seeks(held), steps=90)
