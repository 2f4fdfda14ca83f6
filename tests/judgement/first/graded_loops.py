"""Loops over graded pairs, labelled pairs, triplets and lists that are to be ordered."""

from __future__ import annotations

import random
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from tests.judgement.case import sound
from tests.judgement.first.drawn_rows import orders, ranks, seeks
from tests.judgement.first.labelled_texts import (
    duplicates,
    duplicates_or_not,
    inferences,
    matches,
    reviews_in_pairs,
)
from tests.judgement.first.public_texts import FLATS, SHELL, TRIVIA, VACANCIES
from tests.judgement.first.stepwise_updates import adam, plain, prepared, taught
from tests.judgement.first.told_texts import BALLADS, queries
from tests.judgement.first.turns import Rows, cosines, embed, stepped, turn
from tests.judgement.stage import Stage


def cosent(first: Tensor, second: Tensor, grades: Tensor) -> Tensor:
    """Each pair of a higher grade than another is to have the higher cosine."""
    own = 20 * F.cosine_similarity(first, second)
    gaps = own[:, None] - own[None, :]
    wrong = gaps[grades[:, None] < grades[None, :]]
    return torch.cat([torch.zeros(1), wrong]).logsumexp(0)


@sound("order of graded pairs")
def match_reports_in_the_order_of_their_grades(stage: Stage) -> None:
    """CoSENT by hand on pairs of five grades; the grades stand still, the cosines are ordered."""
    model, train, held = prepared(stage, matches, 500, 150)
    update = plain(model, Rows(train, 32), adam(model))
    turn(stage, model, cosent, update, ranks(held), steps=120)


@sound("cosines regressed on grades")
def hotel_reviews_with_cosines_like_their_grades(stage: Stage) -> None:
    """Mean squares of cosines and grades between nought and one, as in the first of SBERT."""

    def squares(first: Tensor, second: Tensor, grades: Tensor) -> Tensor:
        return F.mse_loss(F.cosine_similarity(first, second), grades)

    model, train, held = prepared(stage, reviews_in_pairs, 500, 150)
    update = plain(model, Rows(train, 32), adam(model))
    turn(stage, model, squares, update, ranks(held), steps=100)


@sound("Pearson correlation as a loss")
def match_reports_by_their_correlation_with_grades(stage: Stage) -> None:
    """One less the correlation of a batch's cosines with its grades, in batches of 64."""

    def uncorrelated(first: Tensor, second: Tensor, grades: Tensor) -> Tensor:
        own = F.cosine_similarity(first, second)
        return 1 - F.cosine_similarity(own - own.mean(), grades - grades.mean(), dim=0)

    model, train, held = prepared(stage, matches, 500, 150, pooling="max")
    update = plain(model, Rows(train, 64), adam(model))
    turn(stage, model, uncorrelated, update, ranks(held), steps=100)


@sound("triplets by distance")
def inferences_in_triplets_by_distance(stage: Stage) -> None:
    """Triplets with a margin of one between Euclidean distances; contradictions are negatives."""

    def triplet(first: Tensor, second: Tensor, third: Tensor) -> Tensor:
        return F.triplet_margin_loss(first, second, third, margin=1.0)

    model, train, held = prepared(stage, inferences, 500, 100)
    update = plain(model, Rows(train, 32), adam(model))
    turn(stage, model, triplet, update, orders(held), steps=100)


@sound("triplets with a soft margin")
def flats_in_triplets_with_a_soft_margin(stage: Stage) -> None:
    """Soft margin of cosines in triplets whose negative differs in the quarter of the town."""

    def soft(first: Tensor, second: Tensor, third: Tensor) -> Tensor:
        gaps = F.cosine_similarity(first, third) - F.cosine_similarity(first, second)
        return F.softplus(10 * gaps).mean()

    model, train, held = prepared(stage, FLATS, 400)
    train["near"] = FLATS.near(400, slot=2)
    held["near"] = FLATS.near(80, seed=11, slot=2)
    update = plain(model, Rows(train, 24), adam(model))
    turn(stage, model, soft, update, orders(held), steps=120)


@sound("labelled pairs by distance")
def duplicate_questions_pulled_and_others_pushed(stage: Stage) -> None:
    """Hadsell et al.: duplicates are pulled, others pushed beyond a margin of cosine distance.

    Remark: there are few rows, which are seen about eighteen times each.
    """

    def pulled(first: Tensor, second: Tensor, labels: Tensor) -> Tensor:
        far = 1 - F.cosine_similarity(first, second)
        return (labels * far.pow(2) + (1 - labels) * F.relu(0.5 - far).pow(2)).mean()

    model, train, held = prepared(stage, duplicates_or_not, 260, 50)
    update = plain(model, Rows(train, 32), adam(model))
    turn(stage, model, pulled, update, ranks(held), steps=150)


@sound("list-wise ranking of graded candidates")
def vacancies_with_graded_lists_of_lives(stage: Stage) -> None:
    """ListNet: a list of four lives, which share four to no traits, in the order of its grades."""
    model, train, held = prepared(stage, VACANCIES, 320)
    draw, slots = random.Random(8), [entries.split() for entries in VACANCIES.slots.values()]
    columns: dict[str, list[Any]] = {"vacancy": train["vacancy"]}
    for shared in (4, 2, 1, 0):
        rows_of_grade = []
        for row in VACANCIES.draws(320):
            selection = draw.sample(range(4), shared)
            rows_of_grade.append(tuple(
                entry if at in selection else draw.choice([e for e in slots[at] if e != entry])
                for at, entry in enumerate(row)
            ))  # fmt: skip
        columns[f"life of {shared}"] = VACANCIES.texts(rows_of_grade, 1)
    goals = torch.tensor([4.0, 2.0, 1.0, 0.0]).softmax(0)

    def listnet(first: Tensor, *lives: Tensor) -> Tensor:
        scores = torch.stack([F.cosine_similarity(first, life) for life in lives], dim=1)
        return -((scores / 0.1).log_softmax(1) * goals).sum(1).mean()

    update = plain(model, Rows(columns, 24), adam(model))
    turn(stage, model, listnet, update, seeks(held), steps=120)


@sound("pair-wise ranking of graded candidates")
def quiz_entries_ranked_two_by_two(stage: Stage) -> None:
    """RankNet: of two graded pairs of a batch, the one that shares more is to score higher."""
    model, train, held = prepared(stage, lambda count, seed=0: TRIVIA.graded(count, seed), 400, 150)

    def ranknet(first: Tensor, second: Tensor, grades: Tensor) -> Tensor:
        own = F.cosine_similarity(first, second)
        above = grades[:, None] > grades[None, :]
        return F.softplus(-10 * (own[:, None] - own[None, :]))[above].mean()

    update = plain(model, Rows(train, 32), adam(model))
    turn(stage, model, ranknet, update, ranks(held), steps=120)


@sound("several hard negatives a question")
def commands_against_three_hard_ones_each(stage: Stage) -> None:
    """As for DPR: inner products with one right command and three that differ in one part.

    Remark: training is by inner products, the search by cosines.
    """

    def among_four(*sides: Tensor) -> Tensor:
        first, *counterparts = sides
        logits = torch.cat([first @ counterpart.T for counterpart in counterparts], dim=1) / 48**0.5
        return F.cross_entropy(logits, torch.arange(len(first)))

    model, train, held = prepared(stage, SHELL, 400)
    for slot in range(3):
        train[f"wrong {slot}"] = SHELL.near(400, slot=slot)
    update = plain(model, Rows(train, 16), adam(model))
    turn(stage, model, among_four, update, seeks(held), steps=100)


@sound("only the hardest negative of a batch")
def ballads_against_the_hardest_of_a_batch(stage: Stage) -> None:
    """VSE++: a hinge of the hardest negative on either side, after a start with pairs."""

    def hardest(first: Tensor, second: Tensor) -> Tensor:
        near = cosines(first, second)
        own, away = near.diagonal(), torch.eye(len(first)).bool()
        counterparts = near.masked_fill(away, -1.0)
        hinges = [F.relu(0.2 + counterparts.amax(side) - own) for side in (0, 1)]
        return (hinges[0] + hinges[1]).mean()

    model, train, held = prepared(stage, BALLADS, 320)
    taught(model, BALLADS.table(200, seed=2), steps=6)
    update = plain(model, Rows(train, 32), adam(model, rate=1e-3))
    turn(stage, model, hardest, update, seeks(held), steps=90)


@sound("angles of complex embeddings")
def match_reports_by_angles_of_complex_numbers(stage: Stage) -> None:
    """AnglE with CoSENT: graded pairs in the order of cosines and of angles in complex space."""

    def angles(first: Tensor, second: Tensor, grades: Tensor) -> Tensor:
        pairs_of_parts = [torch.view_as_complex(rows.unflatten(1, (-1, 2)).contiguous())
                          for rows in (F.normalize(first), F.normalize(second))]  # fmt: skip
        turned = pairs_of_parts[0] * pairs_of_parts[1].conj()
        turned = torch.view_as_real(turned / (turned.abs() + 1e-6)).flatten(1)
        own = turned.sum(1).abs() / turned.shape[1]
        gaps = 20 * (own[:, None] - own[None, :])
        wrong = gaps[grades[:, None] < grades[None, :]]
        ordered = torch.cat([torch.zeros(1), wrong]).logsumexp(0)
        return ordered + cosent(first, second, grades)

    model, train, held = prepared(stage, matches, 500, 150)
    update = plain(model, Rows(train, 32), adam(model))
    turn(stage, model, angles, update, ranks(held), steps=100)


@sound("two tasks in turns")
def duplicates_and_queries_in_turns(stage: Stage) -> None:
    """Two data sets take turns, pairs with a wrong query and pairs alone, under one loss."""

    def candidates(first: Tensor, *counterparts: Tensor) -> Tensor:
        logits = cosines(first, torch.cat(counterparts)) / 0.05
        return F.cross_entropy(logits, torch.arange(len(first)))

    model, train, held = prepared(
        stage, queries, 400, 80, further=[t for c in duplicates(250).values() for t in c]
    )
    draws, optimizer = [Rows(train, 24), Rows(duplicates(250), 24)], adam(model)

    def update(criterion: Any, step: int) -> None:
        stepped(optimizer, criterion(*(embed(model, column) for column in draws[step % 2]())))

    turn(stage, model, candidates, update, seeks(held), steps=140)
