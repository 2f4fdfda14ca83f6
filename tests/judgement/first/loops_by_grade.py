"""Sound loops of one's own over grades, triplets and rankings."""

from __future__ import annotations

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
    stepped,
    unit,
)
from tests.judgement.first.texts_of_every_day import CITATIONS, LISTINGS, SNIPPETS
from tests.judgement.first.texts_of_offices import REVIEWS
from tests.judgement.first.texts_of_trades import COMMANDS
from tests.judgement.stage import Stage


def graded_update(model: Any, rows: Rows, optimizer: Any) -> Any:
    """The step of a loop over pairs of texts and their grades."""

    def update(criterion: Any, step: int) -> None:
        first, second, grades = rows()
        value = criterion(embed(model, first), embed(model, second), torch.tensor(grades))
        stepped(optimizer, value)

    return update


@sound("graded pairs by the order of their cosines")
def reviews_ordered_by_grade(stage: Stage) -> None:
    """CoSENT by hand: of each two pairs of unlike grade, the better one gets the higher cosine."""

    def ordered(first: Tensor, second: Tensor, grades: Tensor) -> Tensor:
        values = 20 * F.cosine_similarity(first, second)
        gaps = values[:, None] - values[None, :]
        gaps = gaps[grades[:, None] < grades[None, :]]
        return torch.cat([torch.zeros(1), gaps]).logsumexp(0)

    model = encoder_of(stage, REVIEWS)
    rows = Rows(REVIEWS.graded(600), 32)
    climbs(stage, model, ordered, graded_update(model, rows, adamw(model)), REVIEWS.agrees,
           steps=150)  # fmt: skip


def triplet_update(model: Any, rows: Rows, optimizer: Any) -> Any:
    """The step of a loop over columns of texts."""

    def update(criterion: Any, step: int) -> None:
        stepped(optimizer, criterion(*(embed(model, column) for column in rows())))

    return update


@sound("triplets with a margin")
def commands_as_triplets(stage: Stage) -> None:
    """Triplets of a wish, its command and a near miss, with torch's own loss at unit length."""
    margin = nn.TripletMarginLoss(margin=0.4)

    def triplet(wishes: Tensor, commands: Tensor, misses: Tensor) -> Tensor:
        return margin(unit(wishes), unit(commands), unit(misses))

    table = COMMANDS.table(500) | {"miss": COMMANDS.near(500)}
    model = encoder_of(stage, COMMANDS)
    update = triplet_update(model, Rows(table, 32), adamw(model))
    climbs(stage, model, triplet, update, COMMANDS.sought, steps=140)


@sound("list-wise ranking of candidates with grades")
def snippets_ranked_as_lists(stage: Stage) -> None:
    """ListNet: the code itself is worth 3, a near miss 1, strangers 0; their softmax is matched."""
    target = torch.tensor([3.0, 1.0, 0.0, 0.0]).softmax(0)

    def listed(queries: Tensor, *candidates: Tensor) -> Tensor:
        values = torch.stack([F.cosine_similarity(queries, quota) for quota in candidates], 1)
        return -(target * (5 * values).log_softmax(1)).sum(1).mean()

    table = SNIPPETS.table(450)
    codes = table["code"]
    table |= {"near": SNIPPETS.near(450), "far": codes[150:] + codes[:150],
              "farther": codes[290:] + codes[:290]}  # fmt: skip
    model = encoder_of(stage, SNIPPETS)
    update = triplet_update(model, Rows(table, 16), adamw(model))
    climbs(stage, model, listed, update, SNIPPETS.sought, steps=140)


@sound("contrastive loss of labelled pairs")
def citations_as_labelled_pairs(stage: Stage) -> None:
    """Hadsell: duplicates are drawn together, near misses are pushed beyond a margin."""

    def contrastive(first: Tensor, second: Tensor, same: Tensor) -> Tensor:
        distances = (unit(first) - unit(second)).square().sum(1).add(1e-9).sqrt()
        apart = (0.8 - distances).relu().square()
        return (same * distances.square() + (1 - same) * apart).mean()

    rows = CITATIONS.table(300)
    table = {"first": rows["short"] * 2, "second": rows["entry"] + CITATIONS.near(300),
             "same": [1.0] * 300 + [0.0] * 300}  # fmt: skip
    model = encoder_of(stage, CITATIONS)
    update = graded_update(model, Rows(table, 32), adamw(model))
    climbs(stage, model, contrastive, update, CITATIONS.sought, steps=160)


@sound("masked false negatives and one cycle")
def listings_without_twins_in_one_cycle(stage: Stage) -> None:
    """Each listing is asked for twice: where both meet, neither is a negative; one cycle."""
    queries, listings = LISTINGS.table(250).values()
    queries += [" ".join(reversed(query.split())) for query in queries]
    rows = Rows({"query": queries, "listing": listings * 2}, 32)
    model = encoder_of(stage, LISTINGS)
    optimizer = adamw(model)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 3e-3, total_steps=110)

    def masked(queries: Tensor, listings: Tensor, twins: Tensor) -> Tensor:
        logits = (cosines(queries, listings) / 0.05).masked_fill(twins, -torch.inf)
        return F.cross_entropy(logits, torch.arange(len(logits)))

    def update(criterion: Any, step: int) -> None:
        queries, listings = rows()
        twins = torch.tensor(
            [
                [at != to and listings[at] == listings[to] for to in range(len(listings))]
                for at in range(len(queries))
            ]
        )
        stepped(optimizer, criterion(embed(model, queries), embed(model, listings), twins))
        schedule.step()

    climbs(stage, model, masked, update, LISTINGS.sought, steps=110)
