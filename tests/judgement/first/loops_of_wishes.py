"""Sound set-ups: loops of one's own with ranking losses, queues, towers and schedules."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from tests.judgement.case import sound
from tests.judgement.first import fields_of_wishes_and_mails as fields
from tests.judgement.first.bodies import encoder, words_of
from tests.judgement.first.turns import (
    Rows,
    cosines,
    counted,
    embed,
    infonce,
    stepped,
    turn,
    warmed,
)
from tests.judgement.stage import Stage
from tests.judgement.truth import reciprocal_rank


def adam(*modules: Any, rate: float = 2e-3, **options: Any) -> torch.optim.Optimizer:
    """AdamW over the weights of modules."""
    weights = [weight for module in modules for weight in module.parameters()]
    return torch.optim.AdamW(weights, lr=rate, **options)


def plainly(model: Any, rows: Rows, optimizer: Any) -> Callable[[Any, int], None]:
    """A step that embeds each column of a batch and descends the loss of all."""

    def update(criterion: Any, step: int) -> None:
        stepped(optimizer, criterion(*(embed(model, column) for column in rows())))

    return update


@sound("loop with accumulation, clipping and a cosine schedule")
def functions_in_an_accumulating_loop(stage: Stage) -> None:
    from transformers import get_cosine_schedule_with_warmup

    model = fields.encoder_of(stage, fields.CODE)
    rows, optimizer = Rows(fields.CODE.table(320), 16), adam(model, rate=3e-3)
    schedule = get_cosine_schedule_with_warmup(optimizer, 4, 44)

    def update(criterion: Any, step: int) -> None:
        counted(criterion, step)
        optimizer.zero_grad()
        for _ in range(2):
            (criterion(*(embed(model, column) for column in rows())) / 2).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()

    turn(stage, model, infonce, update, fields.CODE.sought, steps=44)


class Tempered(torch.nn.Module):
    """Ranking in both directions with a learned temperature, as in CLIP."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = torch.nn.Parameter(torch.tensor(math.log(14.0)))

    def forward(self, first: Tensor, second: Tensor) -> Tensor:
        scores, labels = cosines(first, second) * self.scale.exp(), torch.arange(len(first))
        return (F.cross_entropy(scores, labels) + F.cross_entropy(scores.T, labels)) / 2


@sound("learned temperature")
def reactions_with_a_learned_temperature(stage: Stage) -> None:
    model, loss = fields.encoder_of(stage, fields.REACTIONS), Tempered()
    groups = [{"params": model.parameters()}, {"params": loss.parameters(), "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=2e-3)
    update = plainly(model, Rows(fields.REACTIONS.table(360), 24), optimizer)
    turn(stage, model, loss, update, fields.REACTIONS.sought, steps=60)


class Queue:
    """Ranking among the batch and bodies of earlier batches, embedded by a slow copy."""

    def __init__(self, size: int) -> None:
        self.rows, self._size = list[Tensor](), size

    def __call__(self, anchors: Tensor, positives: Tensor) -> Tensor:
        scores = cosines(anchors, torch.cat([positives, *self.rows])) / 0.05
        self.rows = [positives.detach(), *self.rows][: self._size]
        return F.cross_entropy(scores, torch.arange(len(anchors)))


@sound("memory queue and momentum encoder")
def mails_with_a_momentum_encoder(stage: Stage) -> None:
    """Four batches wait in the queue, of sixteen that an epoch has: no text meets itself."""
    table = fields.MAILS.table(400)
    model = fields.encoder_of(stage, fields.MAILS, width=48)
    warmed(model, {name: cells[:80] for name, cells in table.items()}, steps=5)
    slow = copy.deepcopy(model).eval().requires_grad_(False)
    rows = EpochRows({name: cells[80:] for name, cells in table.items()}, 20)
    optimizer, loss = adam(model), Queue(4)

    def update(criterion: Any, step: int) -> None:
        if rows.begins:
            loss.rows.clear()
        subjects, bodies = rows()
        with torch.no_grad():
            keys = embed(slow, bodies)
        stepped(optimizer, criterion(embed(model, subjects), keys))
        with torch.no_grad():
            for mean, weight in zip(slow.parameters(), model.parameters(), strict=True):
                mean.lerp_(weight, 0.2)

    turn(stage, model, loss, update, fields.MAILS.sought, steps=80)


class EpochRows(Rows):
    """Batches that know whether the next one begins an epoch."""

    @property
    def begins(self) -> bool:
        return len(self._left) < self._size


@sound("gradient caching")
def tickets_with_cached_gradients(stage: Stage) -> None:
    """Embeddings of 64 rows are ranked at once; the encoder runs again on chunks of 16."""
    model = fields.encoder_of(stage, fields.ALARMS, width=32, dropout=0.0)
    rows, optimizer = Rows(fields.ALARMS.table(400), 64), adam(model, rate=3e-3)

    def update(criterion: Any, step: int) -> None:
        columns = rows()
        with torch.no_grad():
            cached = [embed(model, column) for column in columns]
        leaves = [embedded.requires_grad_() for embedded in cached]
        optimizer.zero_grad()
        criterion(*leaves).backward()
        for column, leaf in zip(columns, leaves, strict=True):
            for at in range(0, 64, 16):
                embed(model, column[at : at + 16]).backward(leaf.grad[at : at + 16])
        optimizer.step()

    turn(stage, model, infonce, update, fields.ALARMS.sought, steps=30)


@sound("two towers trained together")
def russian_and_english_towers(stage: Stage) -> None:
    russian, english = (
        fields.encoder_of(stage, fields.RUSSIAN, name=name, width=32, seed=seed)
        for name, seed in (("russian", 1), ("english", 2))
    )
    towers = torch.nn.ModuleList([russian, english])
    rows, optimizer = Rows(fields.RUSSIAN.table(360), 32), adam(towers, rate=4e-3)
    check = fields.RUSSIAN.table(60, 11)

    def score(model: Any) -> float:
        model.eval()
        return reciprocal_rank(*(
            tower.encode(texts, show_progress_bar=False)
            for tower, texts in zip(model, check.values(), strict=True)
        ))  # fmt: skip

    def update(criterion: Any, step: int) -> None:
        first, second = rows()
        stepped(optimizer, criterion(embed(russian, first), embed(english, second)))

    turn(stage, towers, infonce, update, score, steps=70)


def sigmoid(first: Tensor, second: Tensor) -> Tensor:
    """The loss of SigLIP at a fixed scale and bias."""
    scores = cosines(first, second)
    signs = 2 * torch.eye(len(scores)) - 1
    return -F.logsigmoid(signs * (12 * scores - 6)).sum(1).mean()


@sound("sigmoid of all pairs, weights averaged late")
def greek_by_sigmoid_with_averaged_weights(stage: Stage) -> None:
    """The average of the weights of the last twenty steps is what is used."""
    model = fields.encoder_of(stage, fields.GREEK)
    average = torch.optim.swa_utils.AveragedModel(model)
    optimizer, rows = adam(model, rate=3e-3), Rows(fields.GREEK.table(360), 32)

    def update(criterion: Any, step: int) -> None:
        stepped(optimizer, criterion(*(embed(model, column) for column in rows())))
        if step >= 90:
            average.update_parameters(model)
        if step == 109:
            model.load_state_dict(average.module.state_dict())

    turn(stage, model, sigmoid, update, fields.GREEK.sought, steps=110)


def with_negatives(anchors: Tensor, positives: Tensor, negatives: Tensor) -> Tensor:
    """Ranking among all positives and all hard negatives of the batch."""
    scores = cosines(anchors, torch.cat([positives, negatives])) / 0.07
    return F.cross_entropy(scores, torch.arange(len(anchors)))


@sound("loop with hard negatives mined anew")
def sql_with_negatives_mined_anew(stage: Stage) -> None:
    """Every 20 steps the encoder seeks its nearest wrong queries, from those of an epoch."""
    model = fields.encoder_of(stage, fields.SQL)
    table, optimizer = fields.SQL.table(320), adam(model)
    questions, queries = table.values()
    rows = Rows(table)

    def mined() -> Rows:
        model.eval()
        first, second = (
            F.normalize(model.encode(texts, show_progress_bar=False, convert_to_tensor=True))
            for texts in (questions, queries)
        )
        model.train()
        wrong = (first @ second.T).fill_diagonal_(-2).topk(5).indices
        draws = torch.randint(5, (len(wrong), 1))
        nearest = wrong.gather(1, draws)[:, 0].tolist()
        negatives = [queries[at] for at in nearest]
        return Rows({**table, "negative": negatives}, 16, seed=nearest[0])

    def update(criterion: Any, step: int) -> None:
        nonlocal rows
        if step % 20 == 0:
            rows = mined()
        stepped(optimizer, criterion(*(embed(model, column) for column in rows())))

    turn(stage, model, with_negatives, update, fields.SQL.sought, steps=70)


@sound("rates that fall with depth")
def tales_with_rates_by_layer(stage: Stage) -> None:
    table = fields.tales(340)
    model = encoder(stage, words_of([table, fields.tales(60, 11)]), layers=3)
    network = model[0].auto_model
    depths = [network.embeddings, *network.encoder.layer]
    groups = [
        {"params": [*depth.parameters()], "lr": 3e-3 * 0.8 ** (3 - at)}
        for at, depth in enumerate(depths)
    ]
    update = plainly(model, Rows(table, 24), torch.optim.AdamW(groups, weight_decay=0.01))
    turn(stage, model, infonce, update, fields.sought(fields.tales), steps=60)


def smoothed(first: Tensor, second: Tensor) -> Tensor:
    """Ranking with labels that are smoothed a little."""
    labels = torch.arange(len(first))
    return F.cross_entropy(cosines(first, second) / 0.05, labels, label_smoothing=0.05)


@sound("smoothed labels in half precision")
def songs_in_half_precision(stage: Stage) -> None:
    model = fields.encoder_of(stage, fields.REFRAINS)
    rows, optimizer = Rows(fields.REFRAINS.table(320), 32), adam(model)

    def update(criterion: Any, step: int) -> None:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            embedded = [embed(model, column).float() for column in rows()]
        stepped(optimizer, criterion(*embedded))

    turn(stage, model, smoothed, update, fields.REFRAINS.sought, steps=60)


@sound("decoder in a loop")
def flights_with_a_decoder_in_a_loop(stage: Stage) -> None:
    model = fields.encoder_of(stage, fields.FLIGHTS, kind="granite", pooling="lasttoken")
    update = plainly(model, Rows(fields.FLIGHTS.table(340), 32), adam(model, rate=3e-3))
    turn(stage, model, infonce, update, fields.FLIGHTS.sought, steps=60)
