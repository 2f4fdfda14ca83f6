"""Loops of one's own by their craft: precision, cached gradients, rates, towers, adapters."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.judgement.case import sound
from tests.judgement.first.loop_subjects import (
    BIRDS,
    HOTELS,
    JOBS,
    LEDGERS,
    PLANTS,
    TABLES,
    reader,
    seeking,
)
from tests.judgement.first.turns import (
    Rows,
    counted,
    embed,
    infonce,
    stepped,
    turn,
    warmed,
)
from tests.judgement.stage import Stage
from tests.judgement.truth import reciprocal_rank


@sound("embeddings in bf16 by autocast, loss in full precision")
def autocast_in_bf16_with_a_full_loss(stage: Stage) -> None:
    model = reader(stage, HOTELS)
    rows, optimizer = Rows(HOTELS.table(216), 24), torch.optim.AdamW(model.parameters(), lr=2e-3)

    def update(criterion: Any, step: int) -> None:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            first, second = (embed(model, column) for column in rows())
        stepped(optimizer, criterion(first.float(), second.float()))

    turn(stage, model, infonce, update, seeking(HOTELS), steps=60)


@sound("gradients of embeddings cached over small parts of a large batch")
def gradients_cached_over_parts(stage: Stage) -> None:
    """Gao et al. 2021: embed without gradient, keep the loss's gradient, embed again in parts."""
    model = reader(stage, HOTELS)
    rows, optimizer = Rows(HOTELS.table(240), 60), torch.optim.AdamW(model.parameters(), lr=2e-3)

    def pieces(column: list[str]) -> list[list[str]]:
        return [column[start : start + 15] for start in range(0, len(column), 15)]

    def update(criterion: Any, step: int) -> None:
        chunks = [texts for column in rows() for texts in pieces(column)]
        states, embedded = [], []
        for texts in chunks:
            states.append(torch.get_rng_state())
            with torch.no_grad():
                embedded.append(embed(model, texts))
        cached = torch.cat(embedded).requires_grad_()
        criterion(cached[:60], cached[60:]).backward()
        optimizer.zero_grad()
        for texts, state, gradient in zip(chunks, states, cached.grad.split(15), strict=True):
            with torch.random.fork_rng():
                torch.set_rng_state(state)  # so that dropout draws alike
                embed(model, texts).backward(gradient)
        optimizer.step()

    turn(stage, model, infonce, update, seeking(HOTELS), steps=40)


@sound("accumulated gradients with clipping and a cosine schedule")
def accumulated_with_a_cosine_schedule(stage: Stage) -> None:
    from transformers import get_cosine_schedule_with_warmup

    model = reader(stage, PLANTS)
    rows, optimizer = Rows(PLANTS.table(240), 16), torch.optim.AdamW(model.parameters(), lr=2e-3)
    schedule = get_cosine_schedule_with_warmup(optimizer, 5, 50)

    def update(criterion: Any, step: int) -> None:
        counted(criterion, step)
        optimizer.zero_grad()
        for _ in range(3):
            (criterion(*(embed(model, column) for column in rows())) / 3).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()

    turn(stage, model, infonce, update, seeking(PLANTS), steps=50)


@sound("rates that fall towards the lower layers, no decay on norms and biases")
def rates_that_fall_towards_lower_layers(stage: Stage) -> None:
    model = reader(stage, PLANTS, layers=3)
    network, groups = model[0].auto_model, []
    stacks = [network.embeddings, *network.encoder.layer]
    for depth, stack in enumerate(stacks):
        rate = 2.5e-3 * 0.85 ** (len(stacks) - 1 - depth)
        plain = [row for row in stack.parameters() if row.ndim == 1]
        decayed = [row for row in stack.parameters() if row.ndim > 1]
        groups += [{"params": plain, "lr": rate, "weight_decay": 0.0},
                   {"params": decayed, "lr": rate, "weight_decay": 0.01}]  # fmt: skip
    rows, optimizer = Rows(PLANTS.table(216), 24), torch.optim.AdamW(groups)

    def update(criterion: Any, step: int) -> None:
        stepped(optimizer, criterion(*(embed(model, column) for column in rows())))

    turn(stage, model, infonce, update, seeking(PLANTS), steps=60)


class TwoTowers(nn.Module):
    """An encoder of questions and one of answers."""

    def __init__(self, asker: Any, answerer: Any) -> None:
        super().__init__()
        self.asker, self.answerer = asker, answerer


@sound("one encoder for questions and one for answers")
def two_towers_in_a_loop(stage: Stage) -> None:
    """DPR (Karpukhin et al. 2020): two encoders, dot products."""
    towers = TwoTowers(reader(stage, JOBS), reader(stage, JOBS, name="second"))
    rows, optimizer = Rows(JOBS.table(216), 24), torch.optim.AdamW(towers.parameters(), lr=2e-3)

    def dots(first: Tensor, second: Tensor) -> Tensor:
        return F.cross_entropy(first @ second.T, torch.arange(len(first)))

    def update(criterion: Any, step: int) -> None:
        seekers, adverts = rows()
        stepped(optimizer, criterion(embed(towers.asker, seekers), embed(towers.answerer, adverts)))

    def score(towers: Any) -> float:
        seekers, adverts = JOBS.table(50, 11).values()
        first = towers.asker.encode(seekers, show_progress_bar=False)
        return reciprocal_rank(first, towers.answerer.encode(adverts, show_progress_bar=False))

    turn(stage, towers, dots, update, score, steps=70)


@sound("small map of the questions over an encoder that stays as it is")
def map_of_questions_over_a_fixed_encoder(stage: Stage) -> None:
    """A linear adapter for queries: the index of the answers need not be made anew."""
    base = warmed(reader(stage, BIRDS, dropout=0.0), BIRDS.table(216, 2), 4).requires_grad_(False)
    posts, records = BIRDS.table(240).values()
    with torch.no_grad():
        table = {"post": embed(base, posts).tolist(), "record": embed(base, records).tolist()}
    torch.manual_seed(2)
    adapter = nn.Linear(48, 48)
    nn.init.eye_(adapter.weight)
    nn.init.zeros_(adapter.bias)
    rows, optimizer = Rows(table, 48), torch.optim.AdamW(adapter.parameters(), lr=5e-3)

    def update(criterion: Any, step: int) -> None:
        first, second = (torch.tensor(column) for column in rows())
        stepped(optimizer, criterion(adapter(first), second))

    def score(adapter: Any) -> float:
        first, second = (base.encode(column, show_progress_bar=False)
                         for column in BIRDS.table(50, 11).values())  # fmt: skip
        return reciprocal_rank(adapter(torch.tensor(first)).detach().numpy(), second)

    turn(stage, adapter, infonce, update, score, steps=80)


class Attentive(nn.Module):
    """Pools the states of tokens by weights that are learned, without the padding."""

    def __init__(self, body: Any, width: int = 48) -> None:
        super().__init__()
        self.body = body
        torch.manual_seed(2)
        self.weigh = nn.Linear(width, 1)

    def forward(self, texts: list[str]) -> Tensor:
        coded = self.body.tokenizer(texts, padding=True, return_tensors="pt")
        states = self.body.auto_model(**coded).last_hidden_state
        outside = coded["attention_mask"][..., None] == 0
        shares = self.weigh(states).masked_fill(outside, -torch.inf).softmax(1)
        return (shares * states).sum(1)


@sound("pooling of one's own with learned weights of tokens")
def learned_weights_of_tokens(stage: Stage) -> None:
    model = Attentive(reader(stage, LEDGERS)[0])
    rows, optimizer = Rows(LEDGERS.table(216), 24), torch.optim.AdamW(model.parameters(), lr=2e-3)

    def update(criterion: Any, step: int) -> None:
        stepped(optimizer, criterion(*(model(column) for column in rows())))

    def score(model: Any) -> float:
        model.eval()
        with torch.no_grad():
            first, second = (model(column) for column in LEDGERS.table(50, 11).values())
        return reciprocal_rank(first.numpy(), second.numpy())

    turn(stage, model, infonce, update, score, steps=60)


@sound("low-rank adapters in a loop over an encoder that was trained before")
def low_rank_adapters_in_a_loop(stage: Stage) -> None:
    from peft import LoraConfig, get_peft_model

    model = warmed(reader(stage, TABLES), TABLES.table(216, 2), 5)
    network = get_peft_model(
        model[0].auto_model,
        LoraConfig(r=16, lora_alpha=32, target_modules=["query", "key", "value", "dense"]),
    )
    model[0].auto_model = network
    tuned = [row for row in model.parameters() if row.requires_grad]
    rows, optimizer = Rows(TABLES.table(216), 24), torch.optim.AdamW(tuned, lr=4e-3)

    def update(criterion: Any, step: int) -> None:
        stepped(optimizer, criterion(*(embed(model, column) for column in rows())))

    turn(stage, model, infonce, update, seeking(TABLES), steps=70)
