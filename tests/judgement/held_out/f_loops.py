"""Sound loops of one's own on pairs: towers, queues, caches, schedules, precision, adapters."""

from __future__ import annotations

import copy
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.judgement.case import sound
from tests.judgement.first.turns import Rows, cosines, counted, embed, infonce, stepped, turn
from tests.judgement.held_out.f_fields import (
    BIRDS,
    CHEMISTRY,
    JOBS,
    MAILS,
    MUSEUM,
    OPENINGS,
    PHRASES,
    PINYIN,
    QUERIES,
    SENSORS,
    SHELL,
    WEATHER,
    adam,
    model_of,
)
from tests.judgement.stage import Stage
from tests.judgement.truth import reciprocal_rank


@sound("two towers, trained together")
def two_towers_for_characters_and_pinyin(stage: Stage) -> None:
    query_tower = model_of(stage, PINYIN, name="query")
    text_tower = model_of(stage, PINYIN, name="text", width=48, seed=12)
    rows = Rows(PINYIN.table(400), 32)
    optimizer = torch.optim.AdamW([*query_tower.parameters(), *text_tower.parameters()], lr=2e-3)
    unseen = PINYIN.table(40, seed=11)

    def score(_: Any) -> float:
        towers = (query_tower.eval(), text_tower.eval())
        return reciprocal_rank(*(tower.encode(texts, show_progress_bar=False) for tower, texts in
                                 zip(towers, unseen.values(), strict=True)))  # fmt: skip

    def update(criterion: Any, step: int) -> None:
        text_tower.train()
        characters, sounds = rows()
        stepped(optimizer, criterion(embed(query_tower, characters), embed(text_tower, sounds)))

    turn(stage, query_tower, infonce, update, score, steps=60)


@sound("momentum encoder with a queue of its embeddings")
def queue_of_a_momentum_encoder_anew(stage: Stage) -> None:
    model = model_of(stage, SENSORS)
    slow = copy.deepcopy(model).eval()
    rows, optimizer = Rows(SENSORS.table(400), 24), adam(model)
    queue = [torch.empty(0, 48)]

    def loss(anchors: Tensor, keys: Tensor, negatives: Tensor) -> Tensor:
        logits = cosines(anchors, torch.cat([keys, negatives])) / 0.07
        return F.cross_entropy(logits, torch.arange(len(anchors)))

    def update(criterion: Any, step: int) -> None:
        readings, remarks = rows()
        with torch.no_grad():
            keys = embed(slow, remarks)
        stepped(optimizer, criterion(embed(model, readings), keys, queue[0]))
        with torch.no_grad():
            for average, weight in zip(slow.parameters(), model.parameters(), strict=True):
                average.lerp_(weight, 0.2)
        queue[0] = torch.cat([keys, queue[0]])[:96]

    turn(stage, model, loss, update, SENSORS.sought, steps=90)


@sound("gradient caching in three chunks")
def cached_gradients_of_mails(stage: Stage) -> None:
    model = model_of(stage, MAILS, dropout=0.0)
    rows, optimizer = Rows(MAILS.table(300), 48), adam(model)

    def update(criterion: Any, step: int) -> None:
        columns = rows()
        chunks = [[column[at : at + 16] for at in (0, 16, 32)] for column in columns]
        with torch.no_grad():
            caches = [torch.cat([embed(model, chunk) for chunk in column]) for column in chunks]
        caches = [cache.requires_grad_() for cache in caches]
        optimizer.zero_grad()
        criterion(*caches).backward()
        for cache, column in zip(caches, chunks, strict=True):
            for gradient, chunk in zip(cache.grad.split(16), column, strict=True):
                embed(model, chunk).backward(gradient)
        optimizer.step()

    turn(stage, model, infonce, update, MAILS.sought, steps=45)


@sound("accumulated gradients, clipping and a cosine schedule")
def accumulated_batches_with_a_cosine_schedule(stage: Stage) -> None:
    from transformers import get_cosine_schedule_with_warmup

    model = model_of(stage, QUERIES)
    rows, optimizer = Rows(QUERIES.table(400), 24), adam(model, 3e-3)
    schedule = get_cosine_schedule_with_warmup(optimizer, 5, 50)

    def update(criterion: Any, step: int) -> None:
        counted(criterion, step)
        optimizer.zero_grad()
        for _ in range(2):
            (criterion(*(embed(model, column) for column in rows())) / 2).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()

    turn(stage, model, infonce, update, QUERIES.sought, steps=50)


@sound("half precision of the encoder's products")
def bfloat_products_for_notations(stage: Stage) -> None:
    model = model_of(stage, CHEMISTRY)
    rows, optimizer = Rows(CHEMISTRY.table(300), 32), adam(model)

    def update(criterion: Any, step: int) -> None:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            names, notations = (embed(model, column) for column in rows())
        stepped(optimizer, criterion(names.float(), notations.float()))

    turn(stage, model, infonce, update, CHEMISTRY.sought, steps=60)


@sound("a learned scale, bounded, with weight decay on matrices only")
def learned_scale_for_chess(stage: Stage) -> None:
    model = model_of(stage, OPENINGS)
    scale = nn.Parameter(torch.tensor(2.5))
    weights = list(model.parameters())
    optimizer = torch.optim.AdamW(
        [
            {"params": [weight for weight in weights if weight.ndim > 1], "weight_decay": 0.01},
            {"params": [weight for weight in weights if weight.ndim < 2], "weight_decay": 0.0},
            {"params": [scale], "weight_decay": 0.0},
        ],
        lr=2e-3,
    )
    rows = Rows(OPENINGS.table(400), 32)

    def loss(first: Tensor, second: Tensor) -> Tensor:
        logits = cosines(first, second) * scale.exp().clamp(max=100)
        goals = torch.arange(len(first))
        return (F.cross_entropy(logits, goals) + F.cross_entropy(logits.T, goals)) / 2

    def update(criterion: Any, step: int) -> None:
        stepped(optimizer, criterion(*(embed(model, column) for column in rows())))

    turn(stage, model, loss, update, OPENINGS.sought, steps=70)


@sound("low-rank adapters in a loop")
def adapters_of_low_rank_for_birds(stage: Stage) -> None:
    from peft import LoraConfig

    from tests.judgement.first.turns import warmed

    model = warmed(model_of(stage, BIRDS), BIRDS.table(300), 5)
    model.add_adapter(LoraConfig(r=8, lora_alpha=16, target_modules=["query", "value", "dense"]))
    trainable = [weight for weight in model.parameters() if weight.requires_grad]
    rows, optimizer = Rows(BIRDS.table(320), 32), torch.optim.AdamW(trainable, lr=5e-3)

    def update(criterion: Any, step: int) -> None:
        stepped(optimizer, criterion(*(embed(model, column) for column in rows())))

    turn(stage, model, infonce, update, BIRDS.sought, steps=60)


@sound("hard negatives among all candidates of a batch")
def hard_negatives_of_shell_commands(stage: Stage) -> None:
    model = model_of(stage, SHELL)
    table = SHELL.table(400) | {"negative": SHELL.near(400, slot=0)}
    rows, optimizer = Rows(table, 20), adam(model)

    def loss(commands: Tensor, answers: Tensor, negatives: Tensor) -> Tensor:
        logits = cosines(commands, torch.cat([answers, negatives])) / 0.05
        return F.cross_entropy(logits, torch.arange(len(commands)))

    def update(criterion: Any, step: int) -> None:
        stepped(optimizer, criterion(*(embed(model, column) for column in rows())))

    turn(stage, model, loss, update, SHELL.sought, steps=70)


@sound("sigmoid over all pairs with a learned bias")
def sigmoids_of_weather_bulletins(stage: Stage) -> None:
    model = model_of(stage, WEATHER)
    scale, bias = nn.Parameter(torch.tensor(2.3)), nn.Parameter(torch.tensor(-6.0))
    optimizer = torch.optim.AdamW(
        [{"params": list(model.parameters())},
         {"params": [scale, bias], "lr": 1e-2, "weight_decay": 0.0}],
        lr=3e-3,
    )  # fmt: skip
    rows = Rows(WEATHER.table(400), 32)

    def loss(first: Tensor, second: Tensor) -> Tensor:
        signs = 2 * torch.eye(len(first)) - 1
        logits = scale.exp() * cosines(first, second) + bias
        return -F.logsigmoid(signs * logits).sum(1).mean()

    def update(criterion: Any, step: int) -> None:
        stepped(optimizer, criterion(*(embed(model, column) for column in rows())))

    turn(stage, model, loss, update, WEATHER.sought, steps=150)


@sound("two tasks in turn with a loss of each batch")
def phrases_and_postings_in_turn(stage: Stage) -> None:
    model = model_of(stage, PHRASES, JOBS)
    sources = [Rows(PHRASES.table(300), 24), Rows(JOBS.table(300), 24)]
    optimizer = adam(model)

    def score(model: Any) -> float:
        return (PHRASES.sought(model) + JOBS.sought(model)) / 2

    def update(criterion: Any, step: int) -> None:
        rows = sources[step % 2]()
        stepped(optimizer, criterion(*(embed(model, column) for column in rows)))

    turn(stage, model, infonce, update, score, steps=100)


@sound("weights averaged at the end of training")
def averaged_weights_of_catalogue_texts(stage: Stage) -> None:
    model = model_of(stage, MUSEUM)
    average = torch.optim.swa_utils.AveragedModel(
        model, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.9)
    )
    rows, optimizer = Rows(MUSEUM.table(320), 32), torch.optim.NAdam(model.parameters(), lr=2e-3)

    def score(_: Any) -> float:
        return MUSEUM.sought(average.module.eval())

    def update(criterion: Any, step: int) -> None:
        stepped(optimizer, criterion(*(embed(model, column) for column in rows())))
        average.update_parameters(model)

    turn(stage, model, infonce, update, score, steps=70)
