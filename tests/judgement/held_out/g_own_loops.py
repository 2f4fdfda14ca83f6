"""Sound set-ups: loops of one's own over pairs, with losses written by hand."""

from __future__ import annotations

import copy
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from tests.judgement.case import sound
from tests.judgement.first.turns import Rows, cosines, counted, embed, infonce, stepped, turn
from tests.judgement.held_out.g_fields import (
    BADGES,
    BIRDS,
    CHATS,
    JOBS,
    LIBRARY,
    MAILS,
    MARKET,
    QUERIES,
    REACTIONS,
    READINGS,
    messy,
    reader,
    tuned,
    unseen,
)
from tests.judgement.stage import Stage
from tests.judgement.truth import retrieval


def adam(model: Any, rate: float = 2e-3) -> torch.optim.Optimizer:
    return torch.optim.AdamW(model.parameters(), lr=rate)


@sound("loop: plain InfoNCE over texts of mixed lengths")
def noisy_mails_in_a_plain_loop(stage: Stage) -> None:
    model, rows = reader(stage, MAILS), Rows(messy(MAILS, 300, most=4), 24)
    optimizer = adam(model)

    def update(criterion: Any, step: int) -> None:
        stepped(optimizer, criterion(*(embed(model, texts) for texts in rows())))

    turn(stage, model, infonce, update, unseen(MAILS))


@sound("loop: learned temperature with a bound")
def chats_with_learned_temperature(stage: Stage) -> None:
    model, rows = reader(stage, CHATS), Rows(CHATS.table(320), 32)
    logit = torch.nn.Parameter(torch.tensor(2.66))
    optimizer = torch.optim.AdamW(
        [{"params": model.parameters()}, {"params": [logit], "weight_decay": 0.0}], lr=2e-3
    )

    def scaled(first: Tensor, second: Tensor) -> Tensor:
        scores = cosines(first, second) * logit.clamp(max=4.6).exp()
        labels = torch.arange(len(scores))
        return (F.cross_entropy(scores, labels) + F.cross_entropy(scores.T, labels)) / 2

    def update(criterion: Any, step: int) -> None:
        stepped(optimizer, criterion(*(embed(model, texts) for texts in rows())))

    turn(stage, model, scaled, update, unseen(CHATS), steps=60)


@sound("loop: queue of keys from a momentum encoder")
def vacancies_with_momentum_queue(stage: Stage) -> None:
    """MoCo: keys are embedded without gradient by a slow copy, in the mode of evaluation."""
    model, rows = tuned(stage, JOBS), Rows(JOBS.table(400), 24)
    slow = copy.deepcopy(model).requires_grad_(False).eval()
    optimizer, queue = adam(model, 1e-3), [torch.empty(0, 48)]

    def queued(queries: Tensor, keys: Tensor) -> Tensor:
        scores = cosines(queries, torch.cat([keys, queue[0]])) / 0.07
        return F.cross_entropy(scores, torch.arange(len(queries)))

    def update(criterion: Any, step: int) -> None:
        queries, documents = rows()
        with torch.no_grad():
            keys = embed(slow, documents)
        stepped(optimizer, criterion(embed(model, queries), keys))
        queue[0] = torch.cat([keys, queue[0]])[:96]
        with torch.no_grad():
            for mean, weight in zip(slow.parameters(), model.parameters(), strict=True):
                mean.lerp_(weight, 0.05)

    turn(stage, model, queued, update, unseen(JOBS), steps=90)


@sound("loop: gradient caching in chunks")
def cached_gradients_of_statements(stage: Stage) -> None:
    """Embeddings without graph, the loss's gradient to them, then chunk by chunk to the weights."""
    model, rows = reader(stage, QUERIES, dropout=0.0), Rows(QUERIES.table(384), 64)
    optimizer = adam(model)

    def update(criterion: Any, step: int) -> None:
        columns = rows()
        with torch.no_grad():
            cached = [embed(model, texts) for texts in columns]
        cached = [embeddings.requires_grad_() for embeddings in cached]
        optimizer.zero_grad()
        criterion(*cached).backward()
        for texts, embeddings in zip(columns, cached, strict=True):
            for start in range(0, 64, 16):
                chunk = embed(model, texts[start : start + 16])
                chunk.backward(embeddings.grad[start : start + 16])
        optimizer.step()

    turn(stage, model, infonce, update, unseen(QUERIES), steps=35)


class Towers(torch.nn.Module):
    """Two encoders that share nothing, with the interface that `retrieval` asks of one encoder."""

    def __init__(self, first: Any, second: Any) -> None:
        super().__init__()
        self.first, self.second = first, second

    def encode(self, texts: list[str], *, prompt: str = "", **options: Any) -> Any:
        """Embed by the tower that the prompt names."""
        return (self.first if prompt == "query" else self.second).encode(texts, **options)


@sound("loop: two towers of different widths, projected")
def badges_by_two_towers(stage: Stage) -> None:
    from sentence_transformers.sentence_transformer.modules import Dense

    torch.manual_seed(4)
    heads = [Dense(width, 32, activation_function=torch.nn.Identity()) for width in (48, 32)]
    towers = Towers(
        reader(stage, BADGES, heads[0], name="queries"),
        reader(stage, BADGES, heads[1], name="documents", width=32, layers=1),
    )
    rows, optimizer = Rows(BADGES.table(400), 32), adam(towers)
    table = BADGES.table(60, seed=11)

    def update(criterion: Any, step: int) -> None:
        queries, documents = rows()
        stepped(optimizer, criterion(embed(towers.first, queries),
                                     embed(towers.second, documents)))  # fmt: skip

    def score(model: Any) -> float:
        return retrieval(model, table, prompts=("query", "document"))

    turn(stage, towers, infonce, update, score, steps=70)


@sound("loop: hardest negative of the batch in both directions")
def hardest_of_the_batch_for_birds(stage: Stage) -> None:
    model, rows = reader(stage, BIRDS), Rows(BIRDS.table(320), 24)
    optimizer = adam(model)

    def margins(first: Tensor, second: Tensor) -> Tensor:
        scores = cosines(first, second)
        own = scores.diagonal()
        apart = scores - 2 * torch.eye(len(scores))
        gaps = [0.3 + apart.max(dim).values - own for dim in (0, 1)]
        return F.softplus(10 * torch.cat(gaps)).mean() / 10

    def update(criterion: Any, step: int) -> None:
        stepped(optimizer, criterion(*(embed(model, texts) for texts in rows())))

    turn(stage, model, margins, update, unseen(BIRDS), steps=70)


@sound("loop: accumulation, clipping, schedule, groups without decay")
def market_with_accumulated_steps(stage: Stage) -> None:
    from transformers import get_cosine_schedule_with_warmup

    model, rows = reader(stage, MARKET), Rows(MARKET.table(320), 16)
    flat = [weight for weight in model.parameters() if weight.ndim < 2]
    full = [weight for weight in model.parameters() if weight.ndim >= 2]
    optimizer = torch.optim.AdamW(
        [{"params": full, "weight_decay": 0.01}, {"params": flat, "weight_decay": 0.0}], lr=3e-3
    )
    schedule = get_cosine_schedule_with_warmup(optimizer, 4, 40)

    def update(criterion: Any, step: int) -> None:
        counted(criterion, step)
        optimizer.zero_grad()
        for _ in range(2):
            (criterion(*(embed(model, texts) for texts in rows())) / 2).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()

    turn(stage, model, infonce, update, unseen(MARKET), steps=40)


@sound("loop: three hard negatives of each query, and those of the batch")
def three_hard_negatives_per_reaction(stage: Stage) -> None:
    table = REACTIONS.table(320)
    table |= {f"near_{slot}": REACTIONS.near(320, slot=slot) for slot in (0, 1, 3)}
    model, rows = reader(stage, REACTIONS), Rows(table, 12)
    optimizer = adam(model)

    def among_all(queries: Tensor, documents: Tensor) -> Tensor:
        scores = cosines(queries, documents) / 0.05
        return F.cross_entropy(scores, torch.arange(len(queries)))

    def update(criterion: Any, step: int) -> None:
        queries, *documents = rows()
        texts = [text for column in documents for text in column]
        stepped(optimizer, criterion(embed(model, queries), embed(model, texts)))

    turn(stage, model, among_all, update, unseen(REACTIONS), steps=60)


@sound("loop: bfloat16 by autocast, loss in full precision")
def readings_under_autocast(stage: Stage) -> None:
    model, rows = reader(stage, READINGS), Rows(READINGS.table(400), 32)
    optimizer = adam(model)

    def update(criterion: Any, step: int) -> None:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            embeddings = [embed(model, texts) for texts in rows()]
        stepped(optimizer, criterion(*(embedding.float() for embedding in embeddings)))

    turn(stage, model, infonce, update, unseen(READINGS), steps=60)


@sound("loop: sigmoid over all pairs with learned scale and bias")
def titles_by_pairwise_sigmoid(stage: Stage) -> None:
    model, rows = reader(stage, LIBRARY), Rows(LIBRARY.table(400), 32)
    scale = torch.nn.Parameter(torch.tensor(10.0).log())
    bias = torch.nn.Parameter(torch.tensor(-5.0))
    optimizer = torch.optim.AdamW([*model.parameters(), scale, bias], lr=2e-3, weight_decay=0.0)

    def siglip(first: Tensor, second: Tensor) -> Tensor:
        logits = cosines(first, second) * scale.exp() + bias
        signs = 2 * torch.eye(len(logits)) - 1
        return -F.logsigmoid(signs * logits).sum() / len(logits)

    def update(criterion: Any, step: int) -> None:
        stepped(optimizer, criterion(*(embed(model, texts) for texts in rows())))

    turn(stage, model, siglip, update, unseen(LIBRARY), steps=70)
