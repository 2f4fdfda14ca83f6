"""Loops whose negatives are the other rows of a batch."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.judgement.case import sound
from tests.judgement.first.drawn_rows import seeks
from tests.judgement.first.private_texts import addresses, captions, mails, nursing
from tests.judgement.first.public_texts import PATENTS, PHRASEBOOK, STATUTES, TRIVIA
from tests.judgement.first.stepwise_updates import adam, plain, prepared
from tests.judgement.first.told_texts import BALLADS, chats, headlines
from tests.judgement.first.turns import Rows, cosines, counted, embed, infonce, stepped, turn
from tests.judgement.stage import Stage


@sound("warm-up, cosine schedule and clipping")
def law_questions_with_warm_up_and_cosine_decay(stage: Stage) -> None:
    """InfoNCE of lay questions and articles; the rate warms up, decays by a cosine; clipped."""
    from transformers import get_cosine_schedule_with_warmup

    model, train, held = prepared(stage, STATUTES)
    optimizer = adam(model, rate=3e-3)
    schedule = get_cosine_schedule_with_warmup(optimizer, 10, 90)
    update = plain(model, Rows(train, 32), optimizer, schedule, clip=1.0)
    turn(stage, model, infonce, update, seeks(held), steps=90)


class ScaledBothWays(nn.Module):
    """The loss of CLIP: both directions, with a learned scale that is kept below a hundred."""

    def __init__(self) -> None:
        super().__init__()
        self.log_scale = nn.Parameter(torch.tensor(2.66))

    def forward(self, first: Tensor, second: Tensor) -> Tensor:
        logits = cosines(first, second) * self.log_scale.clamp(max=4.6).exp()
        labels = torch.arange(len(first))
        return (F.cross_entropy(logits, labels) + F.cross_entropy(logits.T, labels)) / 2


@sound("learned temperature, both directions")
def translations_with_a_learned_scale_in_both_directions(stage: Stage) -> None:
    """Bitext of two scripts by a symmetric loss whose scale is in the optimiser without decay."""
    model, train, held = prepared(stage, PHRASEBOOK, 400)
    loss = ScaledBothWays()
    optimizer = torch.optim.AdamW(
        [{"params": model.parameters(), "weight_decay": 0.01},
         {"params": loss.parameters(), "weight_decay": 0.0}], lr=2e-3,
    )  # fmt: skip
    turn(stage, model, loss, plain(model, Rows(train, 40), optimizer), seeks(held), steps=90)


@sound("one hard negative a row among the candidates")
def captions_against_those_of_another_animal(stage: Stage) -> None:
    """Supervised SimCSE: all positives and hard negatives of a batch are candidates."""

    def among_all(first: Tensor, second: Tensor, third: Tensor) -> Tensor:
        logits = cosines(first, torch.cat([second, third])) / 0.05
        return F.cross_entropy(logits, torch.arange(len(first)))

    model, train, held = prepared(stage, captions, 400)
    update = plain(model, Rows(train, 24), adam(model))
    turn(stage, model, among_all, update, seeks(held), steps=90)


@sound("negatives of all four kinds")
def mails_against_negatives_of_every_side(stage: Stage) -> None:
    """The improved loss of GTE: other subjects and other bodies are negatives on either side."""

    def improved(first: Tensor, second: Tensor) -> Tensor:
        away = torch.eye(len(first)).bool()
        across = cosines(first, second) / 0.05
        within = [(cosines(rows, rows) / 0.05).masked_fill(away, -1e4) for rows in (first, second)]
        every = torch.cat([across, across.T.masked_fill(away, -1e4), *within], dim=1)
        return (every.logsumexp(1) - across.diagonal()).mean()

    model, train, held = prepared(stage, mails, 400)
    update = plain(model, Rows(train, 32), adam(model))
    turn(stage, model, improved, update, seeks(held), steps=90)


@sound("positive left out of the denominator")
def patents_with_decoupled_denominators(stage: Stage) -> None:
    """Decoupled contrastive learning: the positive's own term is not in its denominator."""

    def decoupled(first: Tensor, second: Tensor) -> Tensor:
        logits = cosines(first, second) / 0.1
        counterparts = logits.masked_fill(torch.eye(len(first)).bool(), float("-inf"))
        return (counterparts.logsumexp(1) - logits.diagonal()).mean()

    model, train, held = prepared(stage, PATENTS)
    update = plain(model, Rows(train, 16), adam(model))
    turn(stage, model, decoupled, update, seeks(held), steps=80)


@sound("alignment and uniformity")
def ballads_by_alignment_and_uniformity(stage: Stage) -> None:
    """Wang and Isola: pairs near, all texts spread over the sphere, with their weights of one."""

    def aligned_and_uniform(first: Tensor, second: Tensor) -> Tensor:
        first, second = F.normalize(first), F.normalize(second)
        spread = [torch.pdist(rows).pow(2).mul(-2).exp().mean().log() for rows in (first, second)]
        return (first - second).pow(2).sum(1).mean() + sum(spread) / 2

    model, train, held = prepared(stage, BALLADS)
    update = plain(model, Rows(train, 32), adam(model))
    turn(stage, model, aligned_and_uniform, update, seeks(held), steps=90)


@sound("hard negatives weighted up")
def nurses_notes_with_weighted_negatives(stage: Stage) -> None:
    """Robinson et al.: nearer negatives of a batch weigh more, by weights without gradient."""

    def weighted(first: Tensor, second: Tensor) -> Tensor:
        logits = cosines(first, second) / 0.1
        away = torch.eye(len(first)).bool()
        weights = (0.5 * logits.detach()).masked_fill(away, float("-inf")).softmax(1)
        counterparts = (logits.masked_fill(away, -1e4).exp() * weights).sum(1) * (len(first) - 1)
        own = logits.diagonal()
        return (torch.logaddexp(own, counterparts.log()) - own).mean()

    model, train, held = prepared(stage, nursing, 400)
    update = plain(model, Rows(train, 32), adam(model))
    turn(stage, model, weighted, update, seeks(held), steps=90)


@sound("inner products with a penalty on norms")
def quiz_entries_by_inner_products(stage: Stage) -> None:
    """N-pair loss: inner products without normalisation, with a small penalty on their norms.

    Remark: training is by inner products, the search by cosines.
    """

    def pairs_of_n(first: Tensor, second: Tensor) -> Tensor:
        norms = first.pow(2).sum(1).mean() + second.pow(2).sum(1).mean()
        return F.cross_entropy(first @ second.T, torch.arange(len(first))) + 0.005 * norms

    model, train, held = prepared(stage, TRIVIA, 400)
    update = plain(model, Rows(train, 32), adam(model))
    turn(stage, model, pairs_of_n, update, seeks(held), steps=90)


@sound("sigmoid of each pair with a learned bias")
def chat_replies_by_sigmoids_with_a_learned_bias(stage: Stage) -> None:
    """SigLIP in full: scale and bias are learned from ten and minus ten, as in the paper.

    Remark: with that bias the loss starts high, and learning starts slowly.
    """

    class Sigmoid(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.log_scale = nn.Parameter(torch.tensor(10.0).log())
            self.bias = nn.Parameter(torch.tensor(-10.0))

        def forward(self, first: Tensor, second: Tensor) -> Tensor:
            logits = cosines(first, second) * self.log_scale.exp() + self.bias
            signs = 2 * torch.eye(len(first)) - 1
            return -F.logsigmoid(signs * logits).sum() / len(first)

    model, train, held = prepared(stage, chats, 320, 60)
    loss = Sigmoid()
    optimizer = torch.optim.AdamW(
        [{"params": model.parameters(), "lr": 3e-3},
         {"params": loss.parameters(), "lr": 1e-2, "weight_decay": 0.0}]
    )  # fmt: skip
    turn(stage, model, loss, plain(model, Rows(train, 32), optimizer), seeks(held), steps=110)


@sound("accumulated batches")
def addresses_in_accumulated_batches(stage: Stage) -> None:
    """Three batches add up to a step, each loss divided by three; gradients are zeroed after.

    Remark: accumulation does not add negatives; each batch has its own sixteen rows only.
    """
    model, train, held = prepared(stage, addresses, 480)
    rows, optimizer = Rows(train, 16), adam(model, rate=3e-3)

    def update(criterion: Any, step: int) -> None:
        counted(criterion, step)
        for _ in range(3):
            loss = criterion(*(embed(model, column) for column in rows()))
            (loss / 3).backward()
        optimizer.step()
        optimizer.zero_grad()

    turn(stage, model, infonce, update, seeks(held), steps=60)


@sound("half precision under autocast")
def leads_encoded_in_half_precision(stage: Stage) -> None:
    """The encoder runs in bfloat16 under autocast; the loss is computed in single precision."""
    model, train, held = prepared(stage, headlines, 400)
    rows, optimizer = Rows(train, 32), adam(model)

    def update(criterion: Any, step: int) -> None:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            first, second = (embed(model, column) for column in rows())
        stepped(optimizer, criterion(first.float(), second.float()))

    turn(stage, model, infonce, update, seeks(held), steps=90)
