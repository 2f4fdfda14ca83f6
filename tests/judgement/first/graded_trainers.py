"""Trainers of sentence-transformers over grades, labels, classes and teachers."""

from __future__ import annotations

from typing import Any

from sentence_transformers.sentence_transformer import losses
from sentence_transformers.sentence_transformer.training_args import BatchSamplers

from tests.judgement.case import sound
from tests.judgement.first.bodies import encoder, words_of
from tests.judgement.first.drawn_rows import groups, orders, ranks, seeks
from tests.judgement.first.labelled_texts import (
    duplicates_or_not,
    inferences,
    matches,
    posts,
    reviews,
    reviews_in_pairs,
)
from tests.judgement.first.public_texts import FLATS, FORECASTS, PHRASEBOOK
from tests.judgement.first.stepwise_updates import prepared, taught
from tests.judgement.first.told_texts import BALLADS, queries
from tests.judgement.stage import Stage
from tests.judgement.truth import learns

QUICK: dict[str, Any] = {"learning_rate": 2e-3, "max_steps": 70, "warmup_steps": 7,
                         "per_device_train_batch_size": 32}  # fmt: skip


@sound("order of graded pairs")
def match_reports_by_the_order_of_pairs(stage: Stage) -> None:
    """CoSENT on reports that agree in nought to four of four parts; the rank correlation rises."""
    model, train, held = prepared(stage, matches, 500, 120)
    trainer = stage.trainer(losses.CoSENTLoss, train, model, **{**QUICK, "max_steps": 100})
    learns(stage, trainer, ranks(held), least=0.1)


@sound("cosines like grades")
def hotel_reviews_by_nearness_of_ratings(stage: Stage) -> None:
    """Pairs of reviews graded by how near their ratings are, by squares of cosines."""
    model, train, held = prepared(stage, reviews_in_pairs, 400, 120)
    learns(stage, stage.trainer(losses.CosineSimilarityLoss, train, model, **QUICK), ranks(held),
           least=0.1)  # fmt: skip


@sound("angles of graded pairs")
def ballads_graded_by_common_parts_with_angles(stage: Stage) -> None:
    """AnglE on verses and prose which share nought to four of four parts."""

    def graded(count: int, seed: int = 0) -> dict[str, list[Any]]:
        return BALLADS.graded(count, seed)

    model, train, held = prepared(stage, graded, 500, 120)
    trainer = stage.trainer(losses.AnglELoss, train, model, **{**QUICK, "max_steps": 200})
    learns(stage, trainer, ranks(held), least=0.1)


@sound("triplets with a margin")
def inferences_in_triplets_of_the_trainer(stage: Stage) -> None:
    """Premise, entailed and contradicted: triplets by cosine distance with a margin of 0.3."""
    model, train, held = prepared(stage, inferences, 400, 100)

    def triplet(model: Any) -> Any:
        metric = losses.TripletDistanceMetric.COSINE
        return losses.TripletLoss(model, distance_metric=metric, triplet_margin=0.3)

    learns(stage, stage.trainer(triplet, train, model, **QUICK), orders(held), least=0.1)


@sound("all triplets of classes")
def posts_in_all_triplets_of_a_batch(stage: Stage) -> None:
    """Pastimes as classes; every triplet of a batch which breaks the margin counts."""
    model, train, held = prepared(stage, posts, 400, 120)
    table = {"text": train["post"], "label": train["label"]}
    trainer = stage.trainer(
        lambda model: losses.BatchAllTripletLoss(model, margin=1.0), table, model,
        batch_sampler=BatchSamplers.GROUP_BY_LABEL, **{**QUICK, "learning_rate": 1e-3},
    )  # fmt: skip
    learns(stage, trainer, groups(held, "post"), least=0.1)


@sound("labelled pairs, hard ones only")
def duplicates_by_the_hard_pairs_of_a_batch(stage: Stage) -> None:
    """Duplicates and questions that differ in one part; only the hard pairs of a batch count.

    Remark: there are few rows, and the score rises slowly in so few steps.
    """
    model, train, held = prepared(stage, duplicates_or_not, 260, 50, spread=0.1)
    trainer = stage.trainer(
        losses.OnlineContrastiveLoss, train, model, **{**QUICK, "max_steps": 120}
    )
    learns(stage, trainer, ranks(held), least=0.1)


@sound("a teacher's embeddings in another language")
def russian_student_of_an_english_teacher(stage: Stage) -> None:
    """The student learns the teacher's embeddings for an English text and its translation."""
    teacher, train, held = prepared(stage, PHRASEBOOK, 400, name="teacher", seed=5)
    turned = [" ".join(reversed(text.split())) for text in train["english"]]
    taught(teacher, {"english": train["english"], "turned": turned}, steps=50)
    student = encoder(stage, words_of([train, held]), name="student")
    goals = teacher.encode(train["english"], show_progress_bar=False)
    table = {**train, "label": [4 * goal / (goal @ goal) ** 0.5 for goal in goals]}
    trainer = stage.trainer(losses.MSELoss, table, student, **{**QUICK, "max_steps": 120})
    learns(stage, trainer, seeks(held), least=0.1)


@sound("margins of a teacher")
def flats_by_the_margins_of_a_teacher(stage: Stage) -> None:
    """Margin-MSE: differences of a teacher's products with a right and a wrong advertisement.

    Remark: the student learns inner products, the search is by cosines.
    """
    teacher, train, held = prepared(stage, FLATS, 320, 60, name="teacher")
    taught(teacher, train, steps=80)
    train["other"] = train["advertisement"][5:] + train["advertisement"][:5]
    sides = [4 * teacher.encode(column, normalize_embeddings=True, show_progress_bar=False)
             for column in train.values()]  # fmt: skip
    train["label"] = (sides[0] * (sides[1] - sides[2])).sum(1).tolist()
    student = encoder(stage, words_of([train, held]), name="student")
    trainer = stage.trainer(losses.MarginMSELoss, train, student, **{**QUICK, "max_steps": 110})
    learns(stage, trainer, seeks(held), least=0.1)


@sound("a teacher's distribution over candidates")
def queries_by_a_distribution_of_a_teacher(stage: Stage) -> None:
    """A right and a wrong query are told apart as a teacher's softmax does."""
    teacher, train, held = prepared(stage, queries, 400, 80, name="teacher")
    taught(teacher, train, steps=80)
    train["far"] = train["query"][5:] + train["query"][:5]
    sides = [teacher.encode(column, normalize_embeddings=True, show_progress_bar=False)
             for column in train.values()]  # fmt: skip
    train["label"] = [[float(10 * a @ b) for b in counterparts]
                      for a, *counterparts in zip(*sides, strict=True)]  # fmt: skip
    student = encoder(stage, words_of([train, held]), name="student")
    trainer = stage.trainer(losses.DistillKLDivLoss, train, student, **{**QUICK, "max_steps": 110})
    learns(stage, trainer, seeks(held), least=0.1)


@sound("hardest negative of a large batch")
def weather_in_large_batches_against_the_hardest(stage: Stage) -> None:
    """Mega-batch margin: batches of 64, each sentence against its hardest wrong code."""
    model, train, held = prepared(stage, FORECASTS, 450, 60)
    taught(model, FORECASTS.table(200, seed=2), steps=6)
    trainer = stage.trainer(
        lambda model: losses.MegaBatchMarginLoss(model, mini_batch_size=32), train, model,
        **{**QUICK, "per_device_train_batch_size": 64, "learning_rate": 1e-3, "max_steps": 40},
    )  # fmt: skip
    learns(stage, trainer, seeks(held), least=0.05)


@sound("ratings as classes, semi-hard triplets")
def hotel_ratings_in_semi_hard_triplets(stage: Stage) -> None:
    """Reviews of five ratings as classes; negatives just beyond the positive count most."""
    model, train, held = prepared(stage, reviews, 400, 120)
    trainer = stage.trainer(
        lambda model: losses.BatchSemiHardTripletLoss(model, margin=1.0), train, model,
        batch_sampler=BatchSamplers.GROUP_BY_LABEL, **{**QUICK, "learning_rate": 1e-3},
    )  # fmt: skip
    learns(stage, trainer, groups(held), least=0.1)
