"""Sound loops of one's own: hand-written losses, queues, momentum, gradient caching, two towers."""

from __future__ import annotations

import copy
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from tests.judgement.case import sound
from tests.judgement.first.turns import Rows, cosines, counted, embed, infonce, stepped, turn
from tests.judgement.held_out.h_fields import (
    COMMITS,
    GREEK,
    HOTELS,
    LAB,
    LAWS,
    MAILS,
    METERS,
    PLANTS,
    SHELL,
    SPORT,
    STARS,
    TAGS,
    adam,
    made_for,
    pairs_of,
    plain,
    triples_of,
)  # fmt: skip
from tests.judgement.stage import Stage
from tests.judgement.truth import reciprocal_rank


@sound("InfoNCE in a plain loop")
def greek_pairs_in_a_loop(stage: Stage) -> None:
    model = made_for(stage, GREEK)
    turn(stage, model, infonce, plain(model, pairs_of(GREEK, 220)), GREEK.sought)


@sound("InfoNCE in both directions")
def hotels_in_both_directions(stage: Stage) -> None:
    def symmetric(first: Tensor, second: Tensor) -> Tensor:
        return (infonce(first, second) + infonce(second, first)) / 2

    model = made_for(stage, HOTELS)
    turn(stage, model, symmetric, plain(model, pairs_of(HOTELS), 32), HOTELS.sought)


@sound("InfoNCE with a hard negative for each row")
def observatories_with_near_misses_in_a_loop(stage: Stage) -> None:
    def ranked(first: Tensor, second: Tensor, near: Tensor) -> Tensor:
        logits = cosines(first, torch.cat([second, near])) / 0.05
        return F.cross_entropy(logits, torch.arange(len(first)))

    model = made_for(stage, STARS)
    turn(stage, model, ranked, plain(model, triples_of(STARS, 220)), STARS.sought, steps=60)


@sound("hinge on the hardest negative of a batch")
def commits_by_the_hardest_of_a_batch(stage: Stage) -> None:
    def hardest(first: Tensor, second: Tensor) -> Tensor:
        rows = cosines(first, second)
        own = torch.eye(len(rows), dtype=torch.bool)
        wrong = rows.masked_fill(own, -2.0).amax(1)
        return F.relu(0.3 + wrong - rows.diagonal()).mean()

    model = made_for(stage, COMMITS)
    update = plain(model, pairs_of(COMMITS), 24)
    turn(stage, model, hardest, update, COMMITS.sought, steps=90)


@sound("triplet margin of distances")
def plants_by_distances_of_triplets(stage: Stage) -> None:
    def margin(first: Tensor, second: Tensor, near: Tensor) -> Tensor:
        first, second, near = (F.normalize(rows, dim=-1) for rows in (first, second, near))
        # The answers of neighbours in the batch are further, easier negatives.
        far = second.roll(1, 0)
        gaps = [F.triplet_margin_loss(first, second, wrong, margin=0.5) for wrong in (near, far)]
        return gaps[0] + gaps[1]

    model = made_for(stage, PLANTS)
    update = plain(model, triples_of(PLANTS, 240), 32, 3e-3)
    turn(stage, model, margin, update, PLANTS.sought, steps=90)


@sound("sigmoid over all pairs with a learned scale and bias")
def tags_by_a_learned_sigmoid(stage: Stage) -> None:
    model = made_for(stage, TAGS)
    scale, bias = (torch.nn.Parameter(torch.tensor(start)) for start in (2.3, -5.0))
    rows = Rows(pairs_of(TAGS), 24)
    optimizer = torch.optim.AdamW([
        {"params": model.parameters(), "lr": 2e-3},
        {"params": [scale, bias], "lr": 1e-2, "weight_decay": 0.0},
    ])  # fmt: skip

    def sigmoid(first: Tensor, second: Tensor) -> Tensor:
        signs = 2 * torch.eye(len(first)) - 1
        logits = scale.exp() * cosines(first, second) + bias
        return -F.logsigmoid(signs * logits).sum(1).mean()

    def update(criterion: Any, step: int) -> None:
        stepped(optimizer, criterion(*(embed(model, column) for column in rows())))

    turn(stage, model, sigmoid, update, TAGS.sought, steps=60)


@sound("queue of passages embedded by a slow copy")
def laboratory_queue_of_a_slow_encoder(stage: Stage) -> None:
    """MoCo: the rows of the queue come from an encoder that follows slowly."""
    model = made_for(stage, LAB, dropout=0.0)
    slow = copy.deepcopy(model).eval().requires_grad_(False)
    rows, optimizer, memory = Rows(pairs_of(LAB, 400), 24), adam(model), [torch.empty(0, 48)]

    def queued(first: Tensor, second: Tensor, earlier: Tensor) -> Tensor:
        logits = cosines(first, torch.cat([second, earlier])) / 0.07
        return F.cross_entropy(logits, torch.arange(len(first)))

    def update(criterion: Any, step: int) -> None:
        queries, passages = rows()
        with torch.no_grad():
            for mean, weight in zip(slow.parameters(), model.parameters(), strict=True):
                mean.lerp_(weight, 0.1)
            fresh = embed(slow, passages)
        stepped(optimizer, criterion(embed(model, queries), fresh, memory[0]))
        memory[0] = torch.cat([fresh, memory[0]])[:96]

    turn(stage, model, queued, update, LAB.sought, steps=90)


@sound("gradient caching by hand")
def mails_with_cached_gradients(stage: Stage) -> None:
    """Embeddings of 64 rows first without gradient, then again in slices of 16."""
    model = made_for(stage, MAILS, dropout=0.0)
    rows, optimizer = Rows(dict(list(MAILS.table(320).items())[:2]), 64), adam(model)

    def update(criterion: Any, step: int) -> None:
        columns = rows()
        with torch.no_grad():
            cache = [torch.cat([embed(model, column[at : at + 16]) for at in range(0, 64, 16)])
                     for column in columns]  # fmt: skip
        cache = [leaf.requires_grad_() for leaf in cache]
        criterion(*cache).backward()
        optimizer.zero_grad()
        for column, leaf in zip(columns, cache, strict=True):
            for at in range(0, 64, 16):
                embed(model, column[at : at + 16]).backward(leaf.grad[at : at + 16])
        optimizer.step()

    turn(stage, model, infonce, update, MAILS.sought, steps=24)


@sound("accumulation, clipping and a cosine schedule")
def rulings_with_clipped_accumulation(stage: Stage) -> None:
    model = made_for(stage, LAWS)
    rows, optimizer = Rows(pairs_of(LAWS, 240), 20), adam(model, 3e-3, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 40)

    def update(criterion: Any, step: int) -> None:
        counted(criterion, step)
        optimizer.zero_grad()
        for _ in range(2):
            (criterion(*(embed(model, column) for column in rows())) / 2).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()

    turn(stage, model, infonce, update, LAWS.sought, steps=40)


@sound("embeddings in bfloat16, loss in single precision")
def headlines_under_autocast(stage: Stage) -> None:
    model = made_for(stage, SPORT)
    rows, optimizer = Rows(pairs_of(SPORT, 240), 24), adam(model)

    def update(criterion: Any, step: int) -> None:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            first, second = (embed(model, column) for column in rows())
        stepped(optimizer, criterion(first.float(), second.float()))

    turn(stage, model, infonce, update, SPORT.sought, steps=60)


@sound("two towers in one optimiser")
def meters_and_notes_by_two_towers(stage: Stage) -> None:
    towers = torch.nn.ModuleDict({
        "reading": made_for(stage, METERS, name="reading"),
        "note": made_for(stage, METERS, name="note", layers=1, seed=4),
    })  # fmt: skip
    rows, optimizer = Rows(pairs_of(METERS, 300), 32), adam(towers, 3e-3)

    def score(model: Any) -> float:
        columns = list(METERS.table(40, seed=11).values())
        first, second = (
            tower.eval().encode(texts, show_progress_bar=False)
            for tower, texts in zip(model.values(), columns, strict=True)
        )
        return reciprocal_rank(first, second)

    def update(criterion: Any, step: int) -> None:
        columns = zip(towers.values(), rows(), strict=True)
        stepped(optimizer, criterion(*(embed(tower, texts) for tower, texts in columns)))

    turn(stage, towers, infonce, update, score, steps=80)


@sound("soft targets between rows that share words")
def commands_with_softened_targets(stage: Stage) -> None:
    def softened(first: Tensor, second: Tensor) -> Tensor:
        logits = cosines(first, second) / 0.05
        return F.cross_entropy(logits, torch.arange(len(first)), label_smoothing=0.1)

    model = made_for(stage, SHELL, pooling="max")
    turn(stage, model, softened, plain(model, pairs_of(SHELL, 400), 32), SHELL.sought, steps=60)
