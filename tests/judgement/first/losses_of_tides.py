"""Sound loops of one's own with losses written by hand."""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from tests.judgement.case import sound
from tests.judgement.first.fields_of_tides_and_tickets import (
    CHEMISTRY,
    CLAIMS,
    COMMITS,
    FILMS,
    GREEK,
    JOBS,
    KANA,
    NEWS,
    TIDES,
    classed,
    finding,
    fresh,
    grading,
    grouping,
)
from tests.judgement.first.turns import Rows, cosines, embed, infonce, stepped, turn
from tests.judgement.stage import Stage


def adam(model: Any, rate: float = 2e-3) -> torch.optim.Optimizer:
    return torch.optim.AdamW(model.parameters(), lr=rate)


@sound("two directions of the ranking at a low temperature")
def loop_over_commits_in_two_directions(stage: Stage) -> None:
    def symmetric(messages: Tensor, diffs: Tensor) -> Tensor:
        logits = cosines(messages, diffs) / 0.07
        own = torch.arange(len(logits))
        return (F.cross_entropy(logits, own) + F.cross_entropy(logits.T, own)) / 2

    model = fresh(stage, COMMITS)
    draw, optimizer = Rows(COMMITS.table(320), 24), adam(model)

    def update(criterion: Any, step: int) -> None:
        stepped(optimizer, criterion(*(embed(model, column) for column in draw())))

    turn(stage, model, symmetric, update, finding(COMMITS), steps=50)


@sound("hinge on the hardest negative of the batch")
def loop_with_the_hardest_film_of_the_batch(stage: Stage) -> None:
    def hardest(plots: Tensor, reviews: Tensor) -> Tensor:
        table = cosines(plots, reviews)
        own = table.diagonal()
        strangers = table - 3 * torch.eye(len(table))
        gaps = F.softplus((strangers.max(1).values - own) * 8) / 8
        backward_gaps = F.softplus((strangers.max(0).values - own) * 8) / 8
        return (gaps + backward_gaps).mean()

    model = fresh(stage, FILMS)
    draw, optimizer = Rows(FILMS.table(400), 24), adam(model)

    def update(criterion: Any, step: int) -> None:
        stepped(optimizer, criterion(*(embed(model, column) for column in draw())))

    turn(stage, model, hardest, update, finding(FILMS), steps=70)


@sound("uniformity on the sphere and alignment of pairs")
def own_loop_with_alignment_and_uniformity(stage: Stage) -> None:
    def spread(first: Tensor, second: Tensor) -> Tensor:
        first, second = F.normalize(first, dim=1), F.normalize(second, dim=1)
        alignment = (first - second).square().sum(1).mean()
        uniform = [
            torch.pdist(rows).square().mul(-2).exp().mean().log() for rows in (first, second)
        ]
        return alignment + 0.5 * sum(uniform)

    model = fresh(stage, KANA)
    draw, optimizer = Rows(KANA.table(400), 32), adam(model)

    def update(criterion: Any, step: int) -> None:
        stepped(optimizer, criterion(*(embed(model, column) for column in draw())))

    turn(stage, model, spread, update, finding(KANA), steps=60)


@sound("rows that share an entry are masked among the negatives")
def loop_that_masks_letters_of_one_trade(stage: Stage) -> None:
    """Letters of the same trade and town are no negatives for each other."""
    table = JOBS.table(300)
    table |= {"key": [" ".join(row[:2]) for row in JOBS.draws(300)]}
    model = fresh(stage, JOBS)
    draw, optimizer = Rows(table, 24), adam(model)

    def masked(adverts: Tensor, letters: Tensor, same: Tensor) -> Tensor:
        logits = cosines(adverts, letters) / 0.05
        return F.cross_entropy(logits.masked_fill(same, -1e4), torch.arange(len(logits)))

    def update(criterion: Any, step: int) -> None:
        adverts, letters, keys = draw()
        same = torch.tensor([[a == b and i != j for j, b in enumerate(keys)]
                             for i, a in enumerate(keys)])  # fmt: skip
        stepped(optimizer, criterion(embed(model, adverts), embed(model, letters), same))

    turn(stage, model, masked, update, finding(JOBS), steps=50)


@sound("SimCSE after dropout beside translated pairs")
def loop_of_dropout_twins_and_translations(stage: Stage) -> None:
    model = fresh(stage, GREEK)
    draw, optimizer = Rows(GREEK.table(400), 24), adam(model)

    def twins(first: Tensor, second: Tensor, again: Tensor) -> Tensor:
        return infonce(first, second) + 0.3 * infonce(second, again)

    def update(criterion: Any, step: int) -> None:
        first, second = draw()
        stepped(optimizer, criterion(*(embed(model, rows) for rows in (first, second, second))))

    turn(stage, model, twins, update, finding(GREEK), steps=50)


@sound("debiased ranking with a prior of false negatives")
def loop_with_debiased_negatives(stage: Stage) -> None:
    def debiased(heads: Tensor, leads: Tensor) -> Tensor:
        table = (cosines(heads, leads) / 0.2).exp()
        own, count, prior = table.diagonal(), len(table) - 1, 0.02
        strangers = table.sum(1) - own
        negatives = (strangers - count * prior * own) / (1 - prior)
        negatives = negatives.clamp(min=count * math.exp(-1 / 0.2))
        return -(own / (own + negatives)).log().mean()

    model = fresh(stage, NEWS)
    draw, optimizer = Rows(NEWS.table(400), 28), adam(model)

    def update(criterion: Any, step: int) -> None:
        stepped(optimizer, criterion(*(embed(model, column) for column in draw())))

    turn(stage, model, debiased, update, finding(NEWS), steps=60)


@sound("supervised contrast by class")
def loop_with_supervised_contrast_of_compounds(stage: Stage) -> None:
    """All texts of a class are positives of each other."""

    def supervised(rows: Tensor, labels: Tensor) -> Tensor:
        logits = (cosines(rows, rows) / 0.1).masked_fill(torch.eye(len(rows)).bool(), -1e4)
        same = (labels[:, None] == labels).float() - torch.eye(len(rows))
        shares = F.log_softmax(logits, dim=1) * same
        counts = same.sum(1)
        return -(shares.sum(1) / counts.clamp(min=1))[counts > 0].mean()

    model = fresh(stage, CHEMISTRY)
    draw, optimizer = Rows(classed(CHEMISTRY, 400), 40), adam(model)

    def update(criterion: Any, step: int) -> None:
        texts, labels = draw()
        stepped(optimizer, criterion(embed(model, texts), torch.tensor(labels)))

    turn(stage, model, supervised, update, grouping(CHEMISTRY), steps=50)


@sound("correlation of cosines and grades within a batch")
def loop_that_correlates_grades_of_claims(stage: Stage) -> None:
    def uncorrelated(first: Tensor, second: Tensor, grades: Tensor) -> Tensor:
        agreement = F.cosine_similarity(first, second)
        centred = agreement - agreement.mean(), grades - grades.mean()
        return 1 - F.cosine_similarity(*centred, dim=0)

    model = fresh(stage, CLAIMS)
    draw, optimizer = Rows(CLAIMS.graded(480), 48), adam(model)

    def update(criterion: Any, step: int) -> None:
        first, second, grades = draw()
        rows = embed(model, first), embed(model, second)
        stepped(optimizer, criterion(*rows, torch.tensor(grades)))

    turn(stage, model, uncorrelated, update, grading(CLAIMS), steps=80)


@sound("a centre for each class with a margin of the angle")
def loop_with_trained_centres_of_stories(stage: Stage) -> None:
    """CosFace; the centres serve training only."""
    model = fresh(stage, NEWS)
    torch.manual_seed(2)
    centres = torch.nn.Parameter(torch.randn(8, 48))
    draw = Rows(classed(NEWS, 400), 32)
    optimizer = torch.optim.AdamW([*model.parameters(), centres], lr=2e-3)

    def cosface(rows: Tensor, labels: Tensor) -> Tensor:
        table = cosines(rows, centres) - 0.2 * F.one_hot(labels, 8)
        return F.cross_entropy(12 * table, labels)

    def update(criterion: Any, step: int) -> None:
        texts, labels = draw()
        stepped(optimizer, criterion(embed(model, texts), torch.tensor(labels)))

    turn(stage, model, cosface, update, grouping(NEWS), steps=70)


@sound("variance, invariance and covariance")
def loop_of_tides_without_negatives(stage: Stage) -> None:
    """VICReg on the embeddings of a code and of its words."""

    def vicreg(first: Tensor, second: Tensor) -> Tensor:
        total = 25 * F.mse_loss(first, second)
        for rows in (first, second):
            centred = rows - rows.mean(0)
            spread = (centred.var(0) + 1e-4).sqrt()
            covariance = centred.T @ centred / (len(rows) - 1)
            outside = covariance - covariance.diagonal().diag()
            total = total + 25 * F.relu(1 - spread).mean() + outside.square().sum() / rows.shape[1]
        return total

    model = fresh(stage, TIDES, dropout=0.05)
    draw, optimizer = Rows(TIDES.table(480), 64), adam(model)

    def update(criterion: Any, step: int) -> None:
        stepped(optimizer, criterion(*(embed(model, column) for column in draw())))

    turn(stage, model, vicreg, update, finding(TIDES), steps=60)
