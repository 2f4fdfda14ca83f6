"""Sound loops of one's own over pairs: contrastive losses of papers and how they are stepped."""

from __future__ import annotations

import copy
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.judgement.case import sound
from tests.judgement.first.loop_helpers import (
    Rows,
    adamw,
    climbs,
    cosines,
    embed,
    encoder_of,
    infonce,
    own_rows,
    stepped,
    unit,
)
from tests.judgement.first.texts_of_offices import ADDRESSES, FLATS, JOBS, LAWS
from tests.judgement.first.texts_of_trades import CHATS, JAPANESE, PHOTOS, QUERIES, RUSSIAN
from tests.judgement.first.turns import counted
from tests.judgement.stage import Stage


@sound("plain contrastive loop with a cosine schedule")
def statutes_by_question_with_cosine_schedule(stage: Stage) -> None:
    """InfoNCE over questions and sections, AdamW, warm-up and cosine decay to the last step."""
    from transformers import get_cosine_schedule_with_warmup

    model = encoder_of(stage, LAWS)
    rows, optimizer = Rows(LAWS.table(480), 24), adamw(model)
    schedule = get_cosine_schedule_with_warmup(optimizer, 8, 90)

    def update(criterion: Any, step: int) -> None:
        stepped(optimizer, criterion(*(embed(model, column) for column in rows())))
        schedule.step()

    climbs(stage, model, infonce, update, LAWS.sought, steps=90)


@sound("symmetric loss with a learned temperature")
def captions_and_tags_with_learned_scale(stage: Stage) -> None:
    """The loss of CLIP: both directions, a scale that is learned as a logarithm and bounded."""

    class BothWays(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale = nn.Parameter(torch.tensor(2.66))

        def forward(self, captions: Tensor, tags: Tensor) -> Tensor:
            logits = self.scale.exp().clamp(max=100) * cosines(captions, tags)
            own = own_rows(len(captions))
            return (F.cross_entropy(logits, own) + F.cross_entropy(logits.T, own)) / 2

    model, loss = encoder_of(stage, PHOTOS, pooling="cls", spread=0.1), BothWays()
    rows = Rows(PHOTOS.table(400), 32)
    optimizer = torch.optim.AdamW(
        [{"params": model.parameters(), "weight_decay": 0.01},
         {"params": loss.parameters(), "weight_decay": 0.0, "lr": 1e-2}], lr=2e-3,
    )  # fmt: skip

    def update(criterion: Any, step: int) -> None:
        stepped(optimizer, criterion(*(embed(model, column) for column in rows())))

    climbs(stage, model, loss, update, PHOTOS.sought, steps=150)


@sound("sigmoid loss with a learned scale and bias")
def flats_with_sigmoid_of_all_pairs(stage: Stage) -> None:
    """The loss of SigLIP as published: scale begins at ten, bias at minus ten, both learned."""

    class PairwiseSigmoid(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.log_scale = nn.Parameter(torch.tensor(10.0).log())
            self.bias = nn.Parameter(torch.tensor(-10.0))

        def forward(self, wishes: Tensor, offers: Tensor) -> Tensor:
            logits = self.log_scale.exp() * cosines(wishes, offers) + self.bias
            signs = 2 * torch.eye(len(logits)) - 1
            return -F.logsigmoid(signs * logits).sum() / len(logits)

    model, loss = encoder_of(stage, FLATS), PairwiseSigmoid()
    rows, optimizer = Rows(FLATS.table(500), 32), adamw(model, loss, rate=3e-3)

    def update(criterion: Any, step: int) -> None:
        stepped(optimizer, criterion(*(embed(model, column) for column in rows())))

    climbs(stage, model, loss, update, FLATS.sought, steps=110)


@sound("hard negatives beside those of the batch")
def jobs_with_mined_neighbours(stage: Stage) -> None:
    """Each advertisement is told from all summaries of the batch and two near misses per row.

    Remark: now and then, both near misses of a row are the same text.
    """

    def ranked(advertisements: Tensor, summaries: Tensor, *misses: Tensor) -> Tensor:
        logits = cosines(advertisements, torch.cat([summaries, *misses])) / 0.05
        return F.cross_entropy(logits, own_rows(len(logits)))

    table = JOBS.table(420) | {f"miss {nth}": JOBS.near(420, nth=nth) for nth in range(2)}
    model = encoder_of(stage, JOBS)
    rows, optimizer = Rows(table, 16), adamw(model)

    def update(criterion: Any, step: int) -> None:
        stepped(optimizer, criterion(*(embed(model, column) for column in rows())))

    climbs(stage, model, ranked, update, JOBS.sought, steps=100)


@sound("accumulation, clipping, warm-up")
def queries_accumulated_over_four_batches(stage: Stage) -> None:
    """Four small batches make a step: each loss is divided by four, the gradient is clipped."""
    from transformers import get_linear_schedule_with_warmup

    model = encoder_of(stage, QUERIES, dropout=0.05)
    rows, optimizer = Rows(QUERIES.table(400), 12), adamw(model, rate=3e-3)
    schedule = get_linear_schedule_with_warmup(optimizer, 5, 50)

    def update(criterion: Any, step: int) -> None:
        counted(criterion, step)
        optimizer.zero_grad()
        for _ in range(4):
            (criterion(*(embed(model, column) for column in rows())) / 4).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()

    climbs(stage, model, infonce, update, QUERIES.sought, steps=50)


@sound("cached gradients of a large batch")
def chats_with_cached_gradients(stage: Stage) -> None:
    """GradCache: embed without graph, take the gradient by embedding, embed chunks again with it.

    Without dropout, the second pass gives the embeddings of the first.
    """
    model = encoder_of(stage, CHATS, dropout=0.0)
    rows, optimizer = Rows(CHATS.table(480), 64), adamw(model)

    def update(criterion: Any, step: int) -> None:
        columns = [[column[at : at + 16] for at in range(0, 64, 16)] for column in rows()]
        with torch.no_grad():
            cached = [
                torch.cat([embed(model, segment) for segment in segments]) for segments in columns
            ]
        cached = [column.requires_grad_() for column in cached]
        criterion(*cached).backward()
        optimizer.zero_grad()
        for segments, column in zip(columns, cached, strict=True):
            for segment, gradient in zip(segments, column.grad.split(16), strict=True):
                embed(model, segment).backward(gradient)
        optimizer.step()

    climbs(stage, model, infonce, update, CHATS.sought, steps=40)


@sound("queue and momentum encoder")
def russian_with_momentum_queue(stage: Stage) -> None:
    """MoCo: keys come from a slow copy without gradient; each language has a queue of them.

    Remark: where an epoch ends, the partner of an anchor may still be in the queue as a negative.
    """
    model = encoder_of(stage, RUSSIAN, dropout=0.0)
    slow = copy.deepcopy(model).requires_grad_(False)
    rows, optimizer = Rows(RUSSIAN.table(480), 24), adamw(model)
    queues = {0: torch.empty(0, 48), 1: torch.empty(0, 48)}

    def loss(sentences: Tensor, keys: Tensor, earlier: Tensor) -> Tensor:
        logits = cosines(sentences, torch.cat([keys, earlier])) / 0.07
        return F.cross_entropy(logits, own_rows(len(logits)))

    def update(criterion: Any, step: int) -> None:
        columns, sought = rows(), step % 2  # each language asks in turn
        with torch.no_grad():
            keys = embed(slow, columns[sought])
        stepped(optimizer, criterion(embed(model, columns[1 - sought]), keys, queues[sought]))
        queues[sought] = torch.cat([keys, queues[sought]])[:96]
        with torch.no_grad():
            for old, new in zip(slow.parameters(), model.parameters(), strict=True):
                old.lerp_(new, 0.1)

    climbs(stage, model, loss, update, RUSSIAN.sought, steps=110)


@sound("two encoders")
def japanese_and_gloss_with_two_encoders(stage: Stage) -> None:
    """A dual encoder: each script has its own, and both are trained and used together."""
    from tests.judgement.truth import reciprocal_rank

    glosses = encoder_of(stage, JAPANESE, name="glosses")
    originals = encoder_of(stage, JAPANESE, name="originals", seed=4, layers=1)
    rows, optimizer = Rows(JAPANESE.table(500), 32), adamw(glosses, originals)

    def score(model: Any) -> float:
        english, japanese = JAPANESE.table(60, held=True, seed=5).values()
        return reciprocal_rank(model.encode(english), originals.encode(japanese))

    def update(criterion: Any, step: int) -> None:
        english, japanese = rows()
        stepped(optimizer, criterion(embed(glosses, english), embed(originals, japanese)))

    climbs(stage, glosses, infonce, update, score, steps=110, modules=(originals,))


@sound("alignment and uniformity")
def addresses_aligned_and_spread(stage: Stage) -> None:
    """Wang and Isola: partners are pulled together, all embeddings are spread on the sphere."""

    def spread(points: Tensor) -> Tensor:
        return torch.pdist(points).square().mul(-2).exp().mean().log()

    def aligned(typed: Tensor, register: Tensor) -> Tensor:
        typed, register = unit(typed), unit(register)
        alignment = (typed - register).square().sum(1).mean()
        return alignment + (spread(typed) + spread(register)) / 2

    model = encoder_of(stage, ADDRESSES)
    rows, optimizer = Rows(ADDRESSES.table(500), 32), adamw(model)

    def update(criterion: Any, step: int) -> None:
        stepped(optimizer, criterion(*(embed(model, column) for column in rows())))

    climbs(stage, model, aligned, update, ADDRESSES.sought, steps=100)
