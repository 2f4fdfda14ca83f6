"""Loops of one's own with memories, slow copies, teachers, and negatives that are looked for."""

from __future__ import annotations

import copy
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.judgement.case import sound
from tests.judgement.first.loop_subjects import (
    BEES,
    JOBS,
    LEDGERS,
    PATENTS,
    RAILS,
    Worded,
    near_texts,
    reader,
    seeking,
)
from tests.judgement.first.turns import (
    Rows,
    cosines,
    embed,
    infonce,
    stepped,
    turn,
    warmed,
)
from tests.judgement.stage import Stage

ROUTES = Worded(
    {
        "start": "lisbon/lisboa seville/sevilla florence/firenze venice/venezia athens/athina "
        "moscow/moskva brussels/bruxelles antwerp/antwerpen",
        "ride": "ferry/transbordador tram/tranvia taxi/coche bus/autobus train/tren",
        "need": "ticket/billete timetable/horario refund/reembolso map/mapa seat/asiento "
        "luggage/equipaje",
        "day": "monday/lunes friday/viernes sunday/domingo easter/pascua tomorrow/manana",
    },
    {
        "english": "i need a {need} for the {ride} in {start} on {day} | {start} {ride} {need} "
        "please , for {day}",
        "spanish": "para {day} quiero {need} del {ride} en {start} | en {start} , {ride} : {need} "
        ", {day} por favor",
    },
)


def optimiser(*modules: Any, rate: float = 2e-3) -> torch.optim.Optimizer:
    return torch.optim.AdamW([row for module in modules for row in module.parameters()], lr=rate)


def numbered(subject: Any, count: int = 216, seed: int = 0) -> dict[str, list[Any]]:
    """Pairs of a subject and the number of each row."""
    return subject.table(count, seed) | {"row": list(range(count))}


def follow(slow: Any, model: Any, share: float) -> None:
    """Move the weights of a slow copy towards those of a model."""
    with torch.no_grad():
        for mean, weight in zip(slow.parameters(), model.parameters(), strict=True):
            mean.lerp_(weight, share)


class Queued(nn.Module):
    """MoCo's loss: the own key and a queue of earlier ones, less those of the same row."""

    def __init__(self, size: int = 96, width: int = 48) -> None:
        super().__init__()
        self.size = size
        self.keys, self.numbers = torch.empty(0, width), torch.empty(0, dtype=torch.long)

    def forward(self, first: Tensor, second: Tensor, numbers: Tensor) -> Tensor:
        keys = torch.cat([second, self.keys])
        numbers_of_all = torch.cat([numbers, self.numbers])
        logits = cosines(first, keys) / 0.07
        same = numbers_of_all[None] == numbers[:, None]
        same[torch.arange(len(first)), torch.arange(len(first))] = False
        self.keys, self.numbers = keys[: self.size].detach(), numbers_of_all[: self.size]
        return F.cross_entropy(logits.masked_fill(same, -torch.inf), torch.arange(len(first)))


@sound("keys of a slow copy in a queue that leaves out repeated rows")
def slow_keys_in_a_queue_without_repeats(stage: Stage) -> None:
    """MoCo (He et al. 2020): keys come from a slow copy without gradient."""
    model = reader(stage, LEDGERS)
    slow = copy.deepcopy(model).train()
    rows, optimizer = Rows(numbered(LEDGERS)), optimiser(model)

    def update(criterion: Any, step: int) -> None:
        questions, bookings, numbers = rows()
        with torch.no_grad():
            keys = embed(slow, bookings)
        stepped(optimizer, criterion(embed(model, questions), keys, torch.tensor(numbers)))
        follow(slow, model, 0.1)

    turn(stage, model, Queued(), update, seeking(LEDGERS), steps=70)


@sound("average of the weights kept for use")
def average_of_weights_kept_for_use(stage: Stage) -> None:
    """The moving average, with a decay that fits the number of steps, is what is scored."""
    model = reader(stage, PATENTS)
    average = copy.deepcopy(model).eval()
    rows, optimizer = Rows(PATENTS.table(216), 24), optimiser(model)

    def update(criterion: Any, step: int) -> None:
        stepped(optimizer, criterion(*(embed(model, column) for column in rows())))
        follow(average, model, max(0.1, 1 / (step + 1)))

    turn(stage, model, infonce, update, lambda _: seeking(PATENTS)(average), steps=60)


@sound("hard negatives looked up anew every few steps")
def hard_negatives_looked_up_anew(stage: Stage) -> None:
    """ANCE (Xiong et al. 2021): from the encoder's own list, beside those of the batch."""
    model = warmed(reader(stage, RAILS), RAILS.table(216), 6)
    calls, entries = RAILS.table(216).values()
    rows = Rows({"row": list(range(216))}, 16)
    optimizer = optimiser(model, rate=1e-3)
    hard: dict[int, list[int]] = {}

    def refresh() -> None:
        model.eval()
        with torch.no_grad():
            likeness = cosines(embed(model, calls), embed(model, entries))
        likeness.fill_diagonal_(-2)
        hard.update(enumerate(likeness.topk(20).indices.tolist()))
        model.train()

    def ranked(first: Tensor, second: Tensor, negatives: Tensor) -> Tensor:
        logits = cosines(first, torch.cat([second, negatives])) / 0.07
        return F.cross_entropy(logits, torch.arange(len(first)))

    def update(criterion: Any, step: int) -> None:
        if step % 20 == 0:
            refresh()
        (numbers,) = rows()
        negatives = [next(at for at in hard[row] if at not in numbers) for row in numbers]
        stepped(optimizer, criterion(*(embed(model, texts) for texts in (
            [calls[row] for row in numbers], [entries[row] for row in numbers],
            [entries[row] for row in negatives]))))  # fmt: skip

    turn(stage, model, ranked, update, seeking(RAILS), steps=60)


@sound("likely false negatives left out by a teacher")
def likely_false_negatives_left_out(stage: Stage) -> None:
    """GIST by hand: negatives that a frozen guide finds closer than the positive are left out."""
    model = reader(stage, BEES)
    guide = warmed(reader(stage, BEES, name="guide", seed=8, dropout=0.0), BEES.table(216, 2), 40)
    rows, optimizer = Rows(BEES.table(216), 24), optimiser(model)

    def guided(first: Tensor, second: Tensor, guide_cosines: Tensor) -> Tensor:
        logits = cosines(first, second) / 0.07
        near = guide_cosines > guide_cosines.diagonal()[:, None]
        return F.cross_entropy(logits.masked_fill(near, -torch.inf), torch.arange(len(first)))

    def update(criterion: Any, step: int) -> None:
        columns = rows()
        with torch.no_grad():
            guide_cosines = cosines(*(embed(guide, column) for column in columns))
        stepped(optimizer, criterion(*(embed(model, column) for column in columns), guide_cosines))

    turn(stage, model, guided, update, seeking(BEES), steps=60)


@sound("teacher's embeddings as targets in two languages")
def teacher_embeddings_in_two_languages(stage: Stage) -> None:
    """Reimers and Gurevych 2020: both languages are pulled to the teacher's English embedding."""
    table = ROUTES.table(216)
    english = {"a": table["english"], "b": table["english"]}
    teacher = warmed(reader(stage, ROUTES, name="teacher", seed=8), english, 40)
    model = copy.deepcopy(teacher)
    rows, optimizer = Rows(table, 24), optimiser(model, rate=1.5e-3)

    def squared(english: Tensor, spanish: Tensor, target: Tensor) -> Tensor:
        return F.mse_loss(english, target) + F.mse_loss(spanish, target)

    def update(criterion: Any, step: int) -> None:
        columns = rows()
        with torch.no_grad():
            target = embed(teacher, columns[0])
        stepped(optimizer, criterion(*(embed(model, column) for column in columns), target))

    turn(stage, model, squared, update, seeking(ROUTES), steps=80)


@sound("likeness matrix of a teacher as soft labels")
def likeness_of_a_teacher_as_soft_labels(stage: Stage) -> None:
    """The student's softmax over the batch follows the teacher's, by the KL divergence."""
    teacher = warmed(reader(stage, JOBS, name="teacher", seed=8, width=64), JOBS.table(240), 45)
    model = reader(stage, JOBS, width=32, layers=1)
    rows, optimizer = Rows(JOBS.table(240), 24), optimiser(model, rate=3e-3)

    def divergence(first: Tensor, second: Tensor, teacher_cosines: Tensor) -> Tensor:
        own = (cosines(first, second) / 0.1).log_softmax(1)
        return F.kl_div(own, (teacher_cosines / 0.1).softmax(1), reduction="batchmean")

    def update(criterion: Any, step: int) -> None:
        columns = rows()
        with torch.no_grad():
            teacher_cosines = cosines(*(embed(teacher, column) for column in columns))
        stepped(
            optimizer, criterion(*(embed(model, column) for column in columns), teacher_cosines)
        )

    turn(stage, model, divergence, update, seeking(JOBS), steps=70)


@sound("margins of a teacher between positive and negative")
def margins_of_a_teacher(stage: Stage) -> None:
    """Margin-MSE (Hofstaetter et al. 2020) by dot products, on mined near texts."""
    table = LEDGERS.table(216) | {"near": near_texts(LEDGERS, 216, slot=0)}
    teacher = warmed(reader(stage, LEDGERS, name="teacher", seed=8), LEDGERS.table(216), 45)
    model = reader(stage, LEDGERS)
    rows, optimizer = Rows(table, 24), optimiser(model, rate=2e-3)

    def margins(first: Tensor, second: Tensor, near: Tensor, teacher_margins: Tensor) -> Tensor:
        return F.mse_loss((first * second).sum(1) - (first * near).sum(1), teacher_margins)

    def update(criterion: Any, step: int) -> None:
        columns = rows()
        with torch.no_grad():
            first, second, near = (F.normalize(embed(teacher, column)) for column in columns)
            teacher_margins = 10 * ((first * second).sum(1) - (first * near).sum(1))
        stepped(
            optimizer, criterion(*(embed(model, column) for column in columns), teacher_margins)
        )

    turn(stage, model, margins, update, near_told_apart, steps=80)


def near_told_apart(model: Any) -> float:
    """The share of held-out texts that are closer to their partner than to a near text."""
    held_out = LEDGERS.table(60, 11)
    columns = (*held_out.values(), near_texts(LEDGERS, 60, 11, slot=0))
    first, second, near = (
        model.encode(list(column), show_progress_bar=False) for column in columns
    )
    return float(((first * second).sum(1) > (first * near).sum(1)).mean())
