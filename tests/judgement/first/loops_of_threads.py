"""Sound loops of one's own: batch losses written by hand, with their batches and schedules."""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.judgement.case import sound
from tests.judgement.first.fields_of_many_tongues import (
    CHEMISTRY,
    COMMITS,
    GARDEN,
    GREEK,
    HARDWARE,
    MATCHES,
    RUSSIAN,
    SQL,
    TAGS,
    WEATHER,
    agreement,
    judged,
    ragged,
    small,
    sought,
    triples,
)
from tests.judgement.first.turns import Rows, cosines, embed, infonce, stepped, turn, warmed
from tests.judgement.stage import Stage


def adam(*modules: Any, rate: float = 2e-3) -> torch.optim.Optimizer:
    return torch.optim.AdamW([w for module in modules for w in module.parameters()], lr=rate)


def ordinary(model: Any, batches: Rows, optimizer: torch.optim.Optimizer) -> Any:
    """A step that embeds all columns of texts and passes a last column of numbers on."""

    def update(criterion: Any, step: int) -> None:
        columns = [
            embed(model, column) if isinstance(column[0], str) else torch.tensor(column)
            for column in batches()
        ]
        stepped(optimizer, criterion(*columns))

    return update


@sound("learned temperature")
def temperature_learned_along_with_sql(stage: Stage) -> None:
    """The logarithm of the scale is trained and held below that of 100, as in CLIP."""
    model, scale = small(stage, SQL), nn.Parameter(torch.tensor(math.log(14.0)))
    optimizer = torch.optim.AdamW([
        {"params": list(model.parameters()), "lr": 2e-3},
        {"params": [scale], "lr": 1e-2, "weight_decay": 0.0},
    ])  # fmt: skip

    def clip(first: Tensor, second: Tensor) -> Tensor:
        similarities = cosines(first, second) * scale.clamp(max=math.log(100)).exp()
        own = torch.arange(len(first))
        return (F.cross_entropy(similarities, own) + F.cross_entropy(similarities.T, own)) / 2

    turn(stage, model, clip, ordinary(model, Rows(SQL.table(320), 24), optimizer), sought(SQL))


@sound("decoupled contrastive loss")
def positives_left_out_of_the_sum(stage: Stage) -> None:
    model = small(stage, WEATHER)

    def decoupled(first: Tensor, second: Tensor) -> Tensor:
        similarities = cosines(first, second) / 0.1
        own = torch.eye(len(first), dtype=torch.bool)
        return (similarities.masked_fill(own, -1e4).logsumexp(1) - similarities.diagonal()).mean()

    update = ordinary(model, Rows(WEATHER.table(320), 20), adam(model))
    turn(stage, model, decoupled, update, sought(WEATHER), steps=55)


@sound("hard negatives beside those of the batch")
def one_hard_negative_for_each_formula(stage: Stage) -> None:
    model = small(stage, CHEMISTRY)

    def with_negatives(first: Tensor, second: Tensor, hard: Tensor) -> Tensor:
        similarities = torch.cat([cosines(first, second), cosines(first, hard)], 1) / 0.05
        return F.cross_entropy(similarities, torch.arange(len(first)))

    update = ordinary(model, Rows(triples(CHEMISTRY, 300), 16), adam(model))
    turn(stage, model, with_negatives, update, sought(CHEMISTRY), steps=60)


@sound("hardest negative of the batch by margin")
def hardest_garden_answer_of_a_batch(stage: Stage) -> None:
    """VSE++: both directions, after a short start on the mean of all."""
    model = warmed(small(stage, GARDEN), GARDEN.table(200, seed=2), 4)

    def hardest(first: Tensor, second: Tensor) -> Tensor:
        similarities = cosines(first, second)
        wrong = similarities - 2 * torch.eye(len(first))
        own = similarities.diagonal()
        gaps = [F.relu(0.2 + wrong.max(axis).values - own).mean() for axis in (0, 1)]
        return gaps[0] + gaps[1]

    update = ordinary(model, Rows(GARDEN.table(300), 16), adam(model, rate=1e-3))
    turn(stage, model, hardest, update, sought(GARDEN), steps=50)


@sound("graded pairs by their order")
def order_of_grades_among_matches(stage: Stage) -> None:
    """A pair of a higher grade is to have the higher cosine, by a logistic of the gap."""
    model = small(stage, MATCHES)

    def ordered(first: Tensor, second: Tensor, grades: Tensor) -> Tensor:
        values = F.cosine_similarity(first, second) * 10
        higher = grades[:, None] > grades[None]
        return F.softplus(values[None] - values[:, None])[higher].mean()

    update = ordinary(model, Rows(MATCHES.graded(360), 32), adam(model))
    turn(stage, model, ordered, update, agreement(MATCHES), steps=70)


@sound("graded pairs by the square error")
def grades_of_orders_by_least_squares(stage: Stage) -> None:
    model = small(stage, HARDWARE)

    def squares(first: Tensor, second: Tensor, grades: Tensor) -> Tensor:
        return F.mse_loss(F.cosine_similarity(first, second), grades)

    update = ordinary(model, Rows(HARDWARE.graded(400), 24), adam(model))
    turn(stage, model, squares, update, agreement(HARDWARE), steps=80)


@sound("binary pairs by the logistic of a scaled cosine")
def same_post_or_not_by_logistic(stage: Stage) -> None:
    model, line = small(stage, TAGS), nn.Parameter(torch.tensor([8.0, -4.0]))
    optimizer = torch.optim.AdamW([*model.parameters(), line], lr=2e-3, weight_decay=0.0)

    def logistic(first: Tensor, second: Tensor, labels: Tensor) -> Tensor:
        values = F.cosine_similarity(first, second) * line[0] + line[1]
        return F.binary_cross_entropy_with_logits(values, labels.float())

    update = ordinary(model, Rows(judged(TAGS, 400), 32), optimizer)
    turn(stage, model, logistic, update, sought(TAGS), steps=90)


@sound("two languages drawn together from both sides")
def greek_and_english_from_both_sides(stage: Stage) -> None:
    model = small(stage, GREEK)
    optimizer = adam(model, rate=3e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 3e-3, total_steps=60)
    batches = Rows(GREEK.table(320), 24)

    def margin_softmax(first: Tensor, second: Tensor) -> Tensor:
        similarities = (cosines(first, second) - 0.1 * torch.eye(len(first))) / 0.07
        own = torch.arange(len(first))
        return F.cross_entropy(similarities, own) + F.cross_entropy(similarities.T, own)

    def update(criterion: Any, step: int) -> None:
        ordinary(model, batches, optimizer)(criterion, step)
        schedule.step()

    turn(stage, model, margin_softmax, update, sought(GREEK), steps=60)


@sound("texts of mixed lengths with clipping and a warm start of the rate")
def ragged_commits_with_clipped_gradients(stage: Stage) -> None:
    model = small(stage, COMMITS)
    optimizer, batches = adam(model, rate=2e-3), Rows(ragged(COMMITS, 320), 28)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, (step + 1) / 8))

    def update(criterion: Any, step: int) -> None:
        loss = criterion(*(embed(model, column) for column in batches()))
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()

    turn(stage, model, infonce, update, sought(COMMITS), steps=60)


@sound("several negatives of a row only")
def listwise_choice_among_four_russian_texts(stage: Stage) -> None:
    """Only the row's own candidates are ranked, none of the batch."""
    model = warmed(small(stage, RUSSIAN), RUSSIAN.table(200, seed=2), 6)

    def listwise(first: Tensor, *candidates: Tensor) -> Tensor:
        values = torch.stack([F.cosine_similarity(first, texts) for texts in candidates], 1)
        return F.cross_entropy(values / 0.05, torch.zeros(len(first), dtype=torch.long))

    update = ordinary(model, Rows(triples(RUSSIAN, 280, negatives=3), 12), adam(model))
    turn(stage, model, listwise, update, sought(RUSSIAN), steps=60)
