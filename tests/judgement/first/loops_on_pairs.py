"""Sound loops over pairs: symmetric, two towers, cached gradients, queues, learned scales."""

from __future__ import annotations

import copy
import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.judgement.case import sound
from tests.judgement.first.daily_texts import CHATS, HEADLINES, WEATHER
from tests.judgement.first.daily_tools import (
    adamw,
    both_ways,
    reader,
    rises,
    simple,
    with_negatives,
)
from tests.judgement.first.foreign_texts import CYRILLIC, GREEK, POSTAL
from tests.judgement.first.loop_materials import looped
from tests.judgement.first.office_texts import SHELL, STATEMENTS, WARD
from tests.judgement.first.turns import Rows, cosines, counted, embed, infonce, stepped, warmed
from tests.judgement.stage import Stage
from tests.judgement.truth import reciprocal_rank


@sound("symmetric loss, cosine schedule, clipping")
def commands_and_their_explanations_both_ways(stage: Stage) -> None:
    """CLIP's symmetric loss with warm-up, a cosine schedule and clipped gradients."""
    from transformers import get_cosine_schedule_with_warmup

    model = reader(stage, SHELL)
    rows, optimizer = Rows(SHELL.table(480), 32), adamw(model, rate=3e-3)
    schedule = get_cosine_schedule_with_warmup(optimizer, 8, 80)

    def update(criterion: Any, step: int) -> None:
        commands, explanations = (embed(model, column) for column in rows())
        optimizer.zero_grad()
        criterion(commands, explanations).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()

    rises(stage, looped(stage, model, both_ways, update, steps=80, score=SHELL.sought))


@sound("two encoders, one for each language")
def english_and_russian_towers(stage: Stage) -> None:
    """Each language has its own encoder; both learn by InfoNCE, as in dual encoders of papers."""
    english = reader(stage, CYRILLIC, name="english", seed=1)
    russian = reader(stage, CYRILLIC, name="russian", seed=2)
    rows, optimizer = Rows(CYRILLIC.table(480), 32), adamw(english, russian, rate=3e-3)
    unseen = CYRILLIC.table(60, seed=11)

    def update(criterion: Any, step: int) -> None:
        first, second = rows()
        russian.train()
        stepped(optimizer, criterion(embed(english, first), embed(russian, second)))

    def score(_: Any) -> float:
        return reciprocal_rank(
            english.encode(unseen["english"], show_progress_bar=False),
            russian.encode(unseen["russian"], show_progress_bar=False),
        )

    rises(stage, looped(stage, english, infonce, update, steps=80, score=score))


@sound("gradients cached over parts of a batch")
def ward_notes_with_cached_gradients(stage: Stage) -> None:
    """GradCache: rows without a graph first, their gradients, then a second pass by parts.

    Without dropout, so that both passes give the same rows.
    """
    model = reader(stage, WARD, dropout=0.0)
    rows, optimizer = Rows(WARD.table(360), 48), adamw(model, rate=3e-3)

    def update(criterion: Any, step: int) -> None:
        notes, letters = rows()
        segments = [texts[at : at + 12] for texts in (notes, letters) for at in range(0, 48, 12)]
        with torch.no_grad():
            cache = torch.cat([embed(model, segment) for segment in segments])
        leaf = cache.requires_grad_()
        criterion(leaf[:48], leaf[48:]).backward()
        optimizer.zero_grad()
        for segment, gradient in zip(segments, leaf.grad.split(12), strict=True):
            embed(model, segment).backward(gradient)
        optimizer.step()

    rises(stage, looped(stage, model, infonce, update, steps=50, score=WARD.sought))


class KeysOfEarlierBatches:
    """InfoNCE of queries with their keys and the keys of earlier batches."""

    def __init__(self, size: int = 96) -> None:
        self.keys, self._size = torch.empty(0, 48), size

    def __call__(self, queries: Tensor, keys: Tensor) -> Tensor:
        logits = cosines(queries, torch.cat([keys, self.keys])) / 0.07
        self.keys = torch.cat([keys, self.keys])[: self._size]
        return F.cross_entropy(logits, torch.arange(len(queries)))


@sound("slow second encoder and a queue")
def headlines_with_a_momentum_encoder(stage: Stage) -> None:
    """MoCo after a warm start: a slow copy embeds the bodies, which are kept in a queue.

    Remark: the keys pass no gradient, which is the method.
    """
    model = warmed(reader(stage, HEADLINES), HEADLINES.table(200, seed=2), steps=8)
    slow = copy.deepcopy(model)
    rows, optimizer = Rows(HEADLINES.table(480), 24), adamw(model, rate=3e-3)

    def update(criterion: Any, step: int) -> None:
        headlines, bodies = rows()
        with torch.no_grad():
            keys = embed(slow, bodies)
        stepped(optimizer, criterion(embed(model, headlines), keys))
        with torch.no_grad():
            for late, weight in zip(slow.parameters(), model.parameters(), strict=True):
                late.lerp_(weight, 0.1)

    score = HEADLINES.sought
    rises(stage, looped(stage, model, KeysOfEarlierBatches(), update, steps=120, score=score))


def among_negatives(wishes: Tensor, statements: Tensor, *negatives: Tensor) -> Tensor:
    """InfoNCE with the hard negatives of all rows of the batch."""
    logits = 20 * cosines(wishes, torch.cat([statements, *negatives]))
    return F.cross_entropy(logits, torch.arange(len(wishes)))


@sound("accumulation, two hard negatives")
def queries_to_a_database_in_small_batches(stage: Stage) -> None:
    """Four batches of 8 with two hard negatives are added up to a step, each a quarter of it."""
    model = reader(stage, STATEMENTS)
    rows = Rows(with_negatives(STATEMENTS, 400, 1, 2), 8)
    optimizer = adamw(model, rate=3e-3)

    def update(criterion: Any, step: int) -> None:
        counted(criterion, step)
        optimizer.zero_grad()
        for _ in range(4):
            (criterion(*(embed(model, column) for column in rows())) / 4).backward()
        optimizer.step()

    rises(
        stage,
        looped(stage, model, among_negatives, update, steps=80, score=STATEMENTS.sought),
    )


@sound("decoupled contrastive loss")
def greek_phrases_without_the_positive_below(stage: Stage) -> None:
    """The decoupled loss of Yeh et al.: the positive is left out of the denominator."""

    def decoupled(english: Tensor, greek: Tensor) -> Tensor:
        logits = cosines(english, greek) / 0.1
        counterparts = logits.masked_fill(torch.eye(len(logits), dtype=torch.bool), -torch.inf)
        return (counterparts.logsumexp(1) - logits.diagonal()).mean()

    model = reader(stage, GREEK)
    update = simple(model, Rows(GREEK.table(400), 32), adamw(model, rate=3e-3))
    rises(stage, looped(stage, model, decoupled, update, steps=80, score=GREEK.sought))


class LearnedSigmoid(nn.Module):
    """SigLIP: a sigmoid over all pairs, with a learned scale and a learned bias."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(math.log(10.0)))
        self.bias = nn.Parameter(torch.tensor(-6.0))

    def forward(self, written: Tensor, register: Tensor) -> Tensor:
        logits = cosines(written, register) * self.scale.exp() + self.bias
        return -F.logsigmoid((2 * torch.eye(len(logits)) - 1) * logits).sum(1).mean()


@sound("learned scale and bias of a sigmoid")
def addresses_with_a_learned_sigmoid(stage: Stage) -> None:
    """SigLIP over addresses: scale and bias are in the optimiser beside the encoder."""
    model, loss = reader(stage, POSTAL, width=32), LearnedSigmoid()
    update = simple(model, Rows(POSTAL.table(400), 32), adamw(model, loss, rate=3e-3))
    rises(stage, looped(stage, model, loss, update, steps=80, score=POSTAL.sought))


@sound("alignment and uniformity")
def chats_aligned_and_spread_out(stage: Stage) -> None:
    """Wang and Isola: pairs come close, and all rows spread over the sphere."""

    def aligned(turns: Tensor, replies: Tensor) -> Tensor:
        first, second = F.normalize(turns), F.normalize(replies)
        spread = [torch.pdist(rows).square().mul(-2).exp().mean().log() for rows in (first, second)]
        return (first - second).square().sum(1).mean() + sum(spread) / 2

    model = reader(stage, CHATS, layers=1)
    update = simple(model, Rows(CHATS.table(400), 32), adamw(model, rate=3e-3))
    rises(stage, looped(stage, model, aligned, update, steps=80, score=CHATS.sought))


@sound("invariance, variance and covariance")
def forecasts_with_regularised_variance(stage: Stage) -> None:
    """VICReg between a forecast and its code, on the pooled rows."""

    def regularised(forecasts: Tensor, codes: Tensor) -> Tensor:
        value = 25 * F.mse_loss(forecasts, codes)
        for rows in (forecasts, codes):
            centred = rows - rows.mean(0)
            value = value + 25 * F.relu(1 - (centred.var(0) + 1e-4).sqrt()).mean() / 2
            covariance = centred.T @ centred / (len(rows) - 1)
            covariance = covariance - covariance.diagonal().diag()
            value = value + covariance.square().sum() / rows.shape[1] / 2
        return value

    model = reader(stage, WEATHER, spread=0.05)
    update = simple(model, Rows(WEATHER.table(400), 48), adamw(model, rate=3e-3))
    rises(stage, looped(stage, model, regularised, update, steps=100, score=WEATHER.sought))
