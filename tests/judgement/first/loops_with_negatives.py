"""Sound loops with InfoNCE and its kin: towers, queues, caches, schedules, optimisers, mining."""

from __future__ import annotations

import copy
import math
import random
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.judgement.case import sound
from tests.judgement.first.beside import adam
from tests.judgement.first.bodies import encoder
from tests.judgement.first.fields_of_museums_and_skies import (
    COMMITS,
    LEAGUE,
    MAILS,
    MENU,
    METRO,
    MUSEUM,
    POSTS,
    QUERIES,
    REAGENTS,
    encoder_of,
    seeker,
    whole,
)
from tests.judgement.first.turns import Rows, cosines, counted, embed, infonce, stepped, turn
from tests.judgement.stage import Stage
from tests.judgement.truth import reciprocal_rank


@sound("two encoders of their own")
def loop_over_two_encoders_for_two_scripts(stage: Stage) -> None:
    russian = encoder_of(stage, METRO, name="russian", seed=1)
    english = encoder_of(stage, METRO, name="english", seed=2)
    rows, optimizer = Rows(METRO.table(320), 24), adam(russian, english, rate=2e-3)
    towers = nn.ModuleList([russian, english])

    def update(criterion: Any, step: int) -> None:
        first, second = rows()
        stepped(optimizer, criterion(embed(russian, first), embed(english, second)))

    def ranks(_: Any) -> float:
        first, second = METRO.table(60, seed=11).values()
        return reciprocal_rank(
            russian.encode(first, show_progress_bar=False),
            english.encode(second, show_progress_bar=False),
        )

    turn(stage, towers, infonce, update, ranks, steps=60)


class Scaled(nn.Module):
    """Symmetric InfoNCE with a learned scale, held below 100, as in CLIP."""

    def __init__(self) -> None:
        super().__init__()
        self.log_scale = nn.Parameter(torch.tensor(math.log(10.0)))

    def forward(self, first: Tensor, second: Tensor) -> Tensor:
        logits = self.log_scale.clamp(max=math.log(100.0)).exp() * cosines(first, second)
        targets = torch.arange(len(logits))
        return (F.cross_entropy(logits, targets) + F.cross_entropy(logits.T, targets)) / 2


@sound("learned temperature")
def loop_with_a_learned_temperature(stage: Stage) -> None:
    model, loss = encoder_of(stage, POSTS), Scaled()
    rows = Rows(POSTS.table(360), 32)
    optimizer = torch.optim.AdamW([
        {"params": model.parameters(), "lr": 2e-3, "weight_decay": 0.01},
        {"params": loss.parameters(), "lr": 1e-2, "weight_decay": 0.0},
    ])  # fmt: skip

    def update(criterion: Any, step: int) -> None:
        stepped(optimizer, criterion(*(embed(model, column) for column in rows())))

    turn(stage, model, loss, update, seeker(POSTS), steps=50)


@sound("queue of a momentum encoder")
def loop_with_a_queue_of_a_momentum_encoder(stage: Stage) -> None:
    """MoCo: positives and earlier ones of the epoch, embedded by a slow copy without gradient."""
    model = encoder_of(stage, QUERIES, dropout=0.0)
    slow = copy.deepcopy(model).requires_grad_(False).eval()
    rows, optimizer, queue = Rows(QUERIES.table(400), 16), adam(model, rate=2e-3), list[Tensor]()

    def loss(first: Tensor, second: Tensor) -> Tensor:
        logits = cosines(first, torch.cat([second, *queue])) / 0.07
        return F.cross_entropy(logits, torch.arange(len(first)))

    def update(criterion: Any, step: int) -> None:
        if step % 25 == 0:  # an epoch begins: the queue must hold none of its rows
            queue.clear()
        anchors, positives = rows()
        with torch.no_grad():
            keys = embed(slow, positives)
        stepped(optimizer, criterion(embed(model, anchors), keys))
        queue.insert(0, keys)
        del queue[4:]
        with torch.no_grad():
            for mean, weight in zip(slow.parameters(), model.parameters(), strict=True):
                mean.lerp_(weight, 0.1)

    turn(stage, model, loss, update, seeker(QUERIES), steps=90)


@sound("gradient cache by hand")
def loop_with_a_gradient_cache(stage: Stage) -> None:
    """A batch of 96 in thirds: embeddings without graph, their gradient, and then the weights'."""
    model = encoder_of(stage, REAGENTS, dropout=0.0)
    rows, optimizer = Rows(REAGENTS.table(384), 96), adam(model, rate=2e-3)

    def update(criterion: Any, step: int) -> None:
        columns = rows()
        with torch.no_grad():
            cached = [torch.cat([embed(model, column[at : at + 32]) for at in (0, 32, 64)])
                      for column in columns]  # fmt: skip
        leaves = [rows_of_column.requires_grad_() for rows_of_column in cached]
        criterion(*leaves).backward()
        optimizer.zero_grad()
        for column, leaf in zip(columns, leaves, strict=True):
            for at in (0, 32, 64):
                embed(model, column[at : at + 32]).backward(leaf.grad[at : at + 32])
        optimizer.step()

    turn(stage, model, infonce, update, seeker(REAGENTS), steps=25)


@sound("accumulation, clipping, and one cycle of the rate")
def loop_of_one_cycle_with_accumulation(stage: Stage) -> None:
    model = encoder_of(stage, MAILS)
    rows, optimizer = Rows(MAILS.table(320), 16), adam(model)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 3e-3, total_steps=40)

    def update(criterion: Any, step: int) -> None:
        counted(criterion, step)
        optimizer.zero_grad()
        for _ in range(2):
            (criterion(*(embed(model, column) for column in rows())) / 2).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()

    turn(stage, model, infonce, update, seeker(MAILS), steps=40)


@sound("hard negatives mined anew every ten steps")
def loop_with_negatives_mined_anew(stage: Stage) -> None:
    model = encoder_of(stage, MUSEUM, dropout=0.05)
    captions, texts = MUSEUM.table(200).values()
    draw, optimizer = random.Random(0), adam(model, rate=2e-3)
    nearest = torch.empty(0, 5, dtype=torch.long)

    def mined() -> Tensor:
        model.eval()
        first, second = (model.encode(column, convert_to_tensor=True, show_progress_bar=False)
                         for column in (captions, texts))  # fmt: skip
        model.train()
        near = cosines(first, second).fill_diagonal_(-2)
        return near.topk(5).indices.clone()

    def loss(first: Tensor, second: Tensor, third: Tensor) -> Tensor:
        logits = cosines(first, torch.cat([second, third])) / 0.05
        return F.cross_entropy(logits, torch.arange(len(first)))

    def update(criterion: Any, step: int) -> None:
        nonlocal nearest
        if step % 10 == 0:
            nearest = mined()
        chosen = draw.sample(range(200), 16)
        free = [[row for row in nearest[at].tolist() if row not in chosen] for at in chosen]
        hard = [draw.choice(rows) for rows in free if rows]
        columns = [[captions[at] for at in chosen], [texts[at] for at in chosen],
                   [texts[at] for at in hard]]  # fmt: skip
        stepped(optimizer, criterion(*(embed(model, column) for column in columns)))

    turn(stage, model, loss, update, seeker(MUSEUM), steps=60)


@sound("steep descent with momentum, rates by layer")
def loop_with_momentum_and_rates_by_layer(stage: Stage) -> None:
    """Nesterov momentum; layers near the words move at half the rate of those behind them."""
    model = encoder_of(stage, COMMITS, spread=0.05)
    rows, network = Rows(COMMITS.table(320), 32), model[0].auto_model
    groups = [network.embeddings, *network.encoder.layer]
    optimizer = torch.optim.SGD(
        [{"params": list(group.parameters()), "lr": 0.4 * 0.5 ** (2 - depth)}
         for depth, group in enumerate(groups)],
        lr=0.4, momentum=0.9, nesterov=True,
    )  # fmt: skip

    def update(criterion: Any, step: int) -> None:
        loss = criterion(*(embed(model, column) for column in rows()))
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()

    turn(stage, model, infonce, update, seeker(COMMITS), steps=70)


@sound("moving average of the weights in use")
def loop_whose_averaged_weights_are_used(stage: Stage) -> None:
    """The score is of the average, as it is the average that is used after training."""
    model = encoder_of(stage, LEAGUE)
    rows, optimizer = Rows(LEAGUE.table(320), 32), adam(model, rate=2e-3)
    average = torch.optim.swa_utils.AveragedModel(
        model, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.9)
    )

    def update(criterion: Any, step: int) -> None:
        stepped(optimizer, criterion(*(embed(model, column) for column in rows())))
        average.update_parameters(model)

    def averaged(_: Any) -> float:
        return LEAGUE.sought(average.module.eval(), 60)

    turn(stage, model, infonce, update, averaged, steps=50)


@sound("autocast to brain floats, decoder with a mean")
def loop_in_brain_floats_over_a_decoder(stage: Stage) -> None:
    model = encoder(stage, whole(MENU), kind="granite", pooling="mean")
    rows, optimizer = Rows(MENU.table(360), 32), adam(model, rate=2e-3)

    def update(criterion: Any, step: int) -> None:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            first, second = (embed(model, column) for column in rows())
        stepped(optimizer, criterion(first.float(), second.float()))

    turn(stage, model, infonce, update, seeker(MENU), steps=50)
