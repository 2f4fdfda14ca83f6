"""Sound loops of one's own over pairs and triplets: hand-written losses, caches, schedules."""

from __future__ import annotations

import random
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.judgement.case import sound
from tests.judgement.first.fields_of_records import (
    BIRDS,
    GREEK,
    KOREAN,
    MAILS,
    METERS,
    QUERIES,
    REAGENTS,
    RULINGS,
    adam,
    by_theme,
    columns,
    fresh,
    tickets,
    voyages,
)
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
from tests.judgement.truth import retrieval


class Scaled(nn.Module):
    """InfoNCE in two directions with a learned scale, of at most 100, as in CLIP."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(14.0).log())

    def forward(self, first: Tensor, second: Tensor) -> Tensor:
        logits = cosines(first, second) * self.scale.exp().clamp(max=100)
        labels = torch.arange(len(first))
        return (F.cross_entropy(logits, labels) + F.cross_entropy(logits.T, labels)) / 2


@sound("learned scale, two directions")
def loop_of_clip_over_greek_sentences(stage: Stage) -> None:
    model, loss = fresh(stage, GREEK), Scaled()
    rows, optimizer = Rows(GREEK.table(320), 32), adam(model, loss)

    def update(criterion: Any, step: int) -> None:
        stepped(optimizer, criterion(*columns(model, rows())))

    turn(stage, model, loss, update, GREEK.sought)


@sound("gradient cache over chunks of a large batch")
def loop_with_cached_gradients_of_queries(stage: Stage) -> None:
    model = fresh(stage, QUERIES, dropout=0.0)
    rows, optimizer = Rows(QUERIES.table(384), 96), adam(model, rate=2e-3)

    def update(criterion: Any, step: int) -> None:
        batch = rows()
        chunks = [[texts[at : at + 24] for at in range(0, 96, 24)] for texts in batch]
        with torch.no_grad():
            sides = [torch.cat([embed(model, chunk) for chunk in side]) for side in chunks]
        leaves = [side.requires_grad_() for side in sides]
        criterion(*leaves).backward()
        optimizer.zero_grad()
        for side, leaf in zip(chunks, leaves, strict=True):
            for chunk, gradient in zip(side, leaf.grad.split(24), strict=True):
                embed(model, chunk).backward(gradient)
        optimizer.step()

    turn(stage, model, infonce, update, QUERIES.sought, steps=30)


@sound("accumulated gradients, clipping and one cycle of the rate")
def loop_of_four_small_batches_a_step(stage: Stage) -> None:
    model = fresh(stage, METERS)
    rows, optimizer = Rows(METERS.table(256), 12), adam(model)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 3e-3, total_steps=40)

    def update(criterion: Any, step: int) -> None:
        counted(criterion, step)
        optimizer.zero_grad()
        for _ in range(4):
            (criterion(*columns(model, rows())) / 4).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()

    turn(stage, model, infonce, update, METERS.sought, steps=40)


def decoupled(first: Tensor, second: Tensor) -> Tensor:
    """Decoupled contrastive loss: the positive is not in its own denominator."""
    logits = cosines(first, second) / 0.1
    own = torch.eye(len(logits), dtype=torch.bool)
    return (torch.logsumexp(logits.masked_fill(own, -1e9), 1) - logits.diagonal()).mean()


@sound("decoupled contrastive loss")
def loop_with_decoupled_reactions(stage: Stage) -> None:
    model = fresh(stage, REAGENTS)
    rows, optimizer = Rows(REAGENTS.table(320), 24), adam(model, rate=2e-3)

    def update(criterion: Any, step: int) -> None:
        stepped(optimizer, criterion(*columns(model, rows())))

    turn(stage, model, decoupled, update, REAGENTS.sought)


def hardest(first: Tensor, second: Tensor) -> Tensor:
    """VSE++: a hinge on the hardest negative of the batch in each direction."""
    close = cosines(first, second)
    own = torch.eye(len(close), dtype=torch.bool)
    far = close.masked_fill(own, -1)
    right = close.diagonal()
    return sum(F.relu(0.2 + far.max(side).values - right).mean() for side in (0, 1))


@sound("hinge on the hardest negative of the batch, after a warm-up by InfoNCE")
def loop_with_hardest_mails_of_the_batch(stage: Stage) -> None:
    model = warmed(fresh(stage, MAILS), MAILS.table(320), 3)
    rows, optimizer = Rows(MAILS.table(320), 32), adam(model)

    def update(criterion: Any, step: int) -> None:
        stepped(optimizer, criterion(*columns(model, rows())))

    turn(stage, model, hardest, update, MAILS.sought)


def among_two_negatives(
    anchor: Tensor, positive: Tensor, first_negative: Tensor, second_negative: Tensor
) -> Tensor:
    """InfoNCE among all positives of the batch and all hard negatives."""
    candidates = torch.cat([positive, first_negative, second_negative])
    return F.cross_entropy(cosines(anchor, candidates) / 0.05, torch.arange(len(anchor)))


@sound("two hard negatives for each anchor")
def loop_over_birds_with_two_hard_negatives(stage: Stage) -> None:
    table = BIRDS.table(240)
    table |= {"wrong_bird": BIRDS.near(240, slot=0), "elsewhere": BIRDS.near(240, slot=3)}
    model = fresh(stage, BIRDS)
    rows, optimizer = Rows(table, 16), adam(model, rate=2e-3)

    def update(criterion: Any, step: int) -> None:
        stepped(optimizer, criterion(*columns(model, rows())))

    turn(stage, model, among_two_negatives, update, BIRDS.sought)


def of_one_theme(rows: Tensor, labels: Tensor) -> Tensor:
    """Supervised contrastive loss."""
    own = torch.eye(len(rows), dtype=torch.bool)
    logs = F.log_softmax((cosines(rows, rows) / 0.1).masked_fill(own, -1e9), 1)
    same = (labels[:, None] == labels) & ~own
    return -((logs * same).sum(1) / same.sum(1).clamp(min=1))[same.any(1)].mean()


@sound("supervised contrastive loss by classes")
def loop_of_themes_of_tickets(stage: Stage) -> None:
    table = tickets(320)
    model = fresh(stage, table)
    rows, optimizer = Rows(table, 40), adam(model)

    def update(criterion: Any, step: int) -> None:
        texts, labels = rows()
        stepped(optimizer, criterion(embed(model, texts), torch.tensor(labels)))

    turn(stage, model, of_one_theme, update, by_theme, steps=40)


@sound("rates that fall from layer to layer")
def loop_over_rulings_with_rates_by_layer(stage: Stage) -> None:
    model = fresh(stage, RULINGS)
    network = model[0].auto_model
    groups = [{"params": list(network.embeddings.parameters()), "lr": 1.2e-3}]
    for depth, layer in enumerate(network.encoder.layer):
        groups.append({"params": list(layer.parameters()), "lr": 1.5e-3 * 1.25**depth})
    optimizer = torch.optim.AdamW(groups, weight_decay=0.01)
    rows = Rows(RULINGS.table(240), 20)

    def update(criterion: Any, step: int) -> None:
        stepped(optimizer, criterion(*columns(model, rows())))

    turn(stage, model, infonce, update, RULINGS.sought, steps=40)


def soft_triplets(anchor: Tensor, positive: Tensor, negative: Tensor) -> Tensor:
    """Triplets with a soft margin on squared distances of directions."""
    anchor, positive, negative = (F.normalize(rows) for rows in (anchor, positive, negative))
    near, far = ((anchor - rows).square().sum(1) for rows in (positive, negative))
    return F.softplus(8 * (near - far)).mean()


@sound("triplets with a soft margin and random negatives, drawn anew")
def loop_of_soft_triplets_over_voyages(stage: Stage) -> None:
    table, draw = voyages(320), random.Random(3)
    model = fresh(stage, {**voyages(400, 2), **{f"{k}_": v for k, v in table.items()}})
    rows, optimizer = Rows(table, 32), adam(model, rate=2e-3)

    def update(criterion: Any, step: int) -> None:
        keywords, logs = rows()
        turn_by = draw.randrange(1, len(logs))
        negatives = logs[turn_by:] + logs[:turn_by]
        stepped(optimizer, criterion(*columns(model, [keywords, logs, negatives])))

    held_out = voyages(60, seed=11)
    turn(stage, model, soft_triplets, update, lambda m: retrieval(m, held_out))


def of_three_tongues(*tongues: Tensor) -> Tensor:
    """InfoNCE of each two of three languages, in two directions."""
    pairs = [(a, b) for a in range(3) for b in range(3) if a != b]
    return sum(infonce(tongues[a], tongues[b]) for a, b in pairs) / len(pairs)


@sound("three languages of one sentence")
def loop_over_three_scripts(stage: Stage) -> None:
    model = fresh(stage, KOREAN)
    rows, optimizer = Rows(KOREAN.table(320), 20), adam(model, rate=2e-3)

    def update(criterion: Any, step: int) -> None:
        stepped(optimizer, criterion(*columns(model, rows())))

    turn(stage, model, of_three_tongues, update, KOREAN.sought, steps=40)
