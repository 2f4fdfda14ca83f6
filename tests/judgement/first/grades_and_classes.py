"""Sound set-ups: pairs with grades or labels, texts with classes, and distillation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from tests.judgement.case import sound
from tests.judgement.first.made_fields import CHATS, FLATS, ticket_texts
from tests.judgement.first.ranking_tools import (
    agrees,
    encoder_of,
    judged_pairs,
    neighbours,
    seeks,
)
from tests.judgement.first.turns import warmed
from tests.judgement.first.wider_fields import (
    BUGS,
    HEADLINES,
    NOTICES,
    RUSSIAN,
    WEATHER,
    diagnoses,
    inferences,
    reviews,
)
from tests.judgement.stage import Stage
from tests.judgement.truth import learns
from tests.sentence_training import losses


@sound("grades of paraphrases by CoSENT")
def travel_notices_graded_by_cosent(stage: Stage) -> None:
    """Two wordings of notices, graded by the share of facts in common; ranked by the cosine."""
    trainer = stage.trainer(
        losses.CoSENTLoss, NOTICES.graded(480), encoder_of(stage, NOTICES),
        per_device_train_batch_size=32, learning_rate=2e-3, max_steps=90,
    )  # fmt: skip
    learns(stage, trainer, agrees(NOTICES.graded(200, 11)), least=0.1)


@sound("grades of stars by AnglE")
def hotel_reviews_graded_by_angle(stage: Stage) -> None:
    """Reviews are the more alike the nearer their stars; AnglE with its usual scale."""
    table = reviews(500)
    trainer = stage.trainer(
        losses.AnglELoss, table, encoder_of(stage, [table], dropout=0.05),
        per_device_train_batch_size=32, learning_rate=2e-3, max_steps=90,
    )  # fmt: skip
    learns(stage, trainer, agrees(reviews(200, 11)), least=0.1)


@sound("grades by the square of the cosine's error")
def hotel_reviews_by_their_cosine(stage: Stage) -> None:
    """The classic regression of cosines on grades from nought to one."""
    table = reviews(600)
    trainer = stage.trainer(
        losses.CosineSimilarityLoss, table, encoder_of(stage, [table]), learning_rate=1e-3,
        max_steps=120, warmup_steps=12,
    )  # fmt: skip
    learns(stage, trainer, agrees(reviews(200, 11)), least=0.1)


@sound("grades in a script without spaces, cosine error")
def weather_questions_with_graded_advice(stage: Stage) -> None:
    """Questions and advice in Chinese, cut into words, graded by what they agree in."""
    trainer = stage.trainer(
        losses.CosineSimilarityLoss, WEATHER.graded(560), encoder_of(stage, WEATHER),
        per_device_train_batch_size=32, learning_rate=3e-3, max_steps=220,
    )  # fmt: skip
    learns(stage, trainer, agrees(WEATHER.graded(200, 11)), least=0.1)


@sound("duplicates or not, margin")
def bug_reports_and_commits_that_fit_or_not(stage: Stage) -> None:
    """As many fitting as near pairs, held apart by the contrastive loss with its usual margin."""
    trainer = stage.trainer(
        losses.ContrastiveLoss, judged_pairs(BUGS, 300), encoder_of(stage, BUGS),
        per_device_train_batch_size=32, learning_rate=2e-3, max_steps=150,
    )  # fmt: skip
    learns(stage, trainer, agrees(judged_pairs(BUGS, 100, 11)), least=0.1)


@sound("duplicates or not, hardest of the batch")
def paraphrased_notices_by_hard_pairs(stage: Stage) -> None:
    """Only the hard pairs of each batch count, with batches large enough to have some."""
    trainer = stage.trainer(
        losses.OnlineContrastiveLoss, judged_pairs(NOTICES, 300), encoder_of(stage, NOTICES),
        per_device_train_batch_size=64, learning_rate=2e-3, max_steps=110,
    )  # fmt: skip
    learns(stage, trainer, agrees(judged_pairs(NOTICES, 100, 11)), least=0.1)


def _probe(table: Any, held_out: Any) -> Callable[[Any], float]:
    """The share of held-out pairs whose label a linear probe of few other pairs tells."""
    from sklearn.linear_model import LogisticRegression

    def features(model: Any, pairs: Any) -> np.ndarray:
        first, second = (
            model.encode(pairs[name], show_progress_bar=False) for name in ("premise", "hypothesis")
        )
        return np.concatenate([first, second, abs(first - second)], 1)

    def score(model: Any) -> float:
        probe = LogisticRegression(max_iter=300).fit(features(model, table), table["label"])
        return float(probe.score(features(model, held_out), held_out["label"]))

    return score


@sound("inference with three labels")
def premises_and_hypotheses_through_softmax(stage: Stage) -> None:
    """The set-up of SBERT: a classifier of both embeddings and their difference."""
    table = inferences(600)
    trainer = stage.trainer(
        lambda model: losses.SoftmaxLoss(model, 48, num_labels=3), table,
        encoder_of(stage, [table]), per_device_train_batch_size=32, learning_rate=2e-3,
        max_steps=240,
    )  # fmt: skip
    learns(stage, trainer, _probe(inferences(90, 2), inferences(200, 11)), least=0.1)


@sound("classes, all triplets, batches by label")
def tickets_of_queues_by_all_triplets(stage: Stage) -> None:
    """Batches with several tickets of each queue, so that all triplets can be made."""
    table = ticket_texts(480)
    trainer = stage.trainer(
        losses.BatchAllTripletLoss, table, encoder_of(stage, [table]), learning_rate=1e-3,
        per_device_train_batch_size=32, max_steps=80, batch_sampler="group_by_label",
    )  # fmt: skip
    learns(stage, trainer, neighbours(ticket_texts(160, 11)), least=0.1)


@sound("classes, hardest triplets, soft margin")
def diagnoses_of_departments_by_soft_margin(stage: Stage) -> None:
    """Notes of ten departments; the hardest triplet of each with a soft margin."""
    table = diagnoses(500)
    trainer = stage.trainer(
        losses.BatchHardSoftMarginTripletLoss, table, encoder_of(stage, [table], pooling="max"),
        learning_rate=1e-3, per_device_train_batch_size=40, max_steps=80,
        batch_sampler="group_by_label",
    )  # fmt: skip
    learns(stage, trainer, neighbours(diagnoses(160, 11)), least=0.1)


@sound("classes, triplets that are hard but not too hard")
def queues_of_tickets_by_semi_hard_triplets(stage: Stage) -> None:
    """Semi-hard triplets by cosine distance with a margin that fits distances of at most two."""
    from sentence_transformers.sentence_transformer.losses import (
        BatchHardTripletLossDistanceFunction as Distance,
    )

    table = ticket_texts(480, seed=4)
    trainer = stage.trainer(
        lambda model: losses.BatchSemiHardTripletLoss(model, Distance.cosine_distance, margin=0.3),
        table, encoder_of(stage, [table], dropout=0.0), learning_rate=1e-3,
        per_device_train_batch_size=32, max_steps=90, batch_sampler="group_by_label",
    )  # fmt: skip
    learns(stage, trainer, neighbours(ticket_texts(160, 11)), least=0.1)


def _teacher(stage: Stage, field: Any) -> Any:
    """An encoder of the field that is wider than its student, and trained."""
    model = encoder_of(stage, field, name="teacher", width=64, seed=9)
    return warmed(model, field.table(400, seed=2), steps=110)


def _teacher_scores(teacher: Any, table: dict[str, list[str]]) -> list[Any]:
    """The cosines of a teacher for each positive and negative."""
    rows = [
        teacher.encode(texts, convert_to_tensor=True, normalize_embeddings=True,
                       show_progress_bar=False)
        for texts in table.values()
    ]  # fmt: skip
    return [(rows[0] * row).sum(1) for row in rows[1:]]


@sound("margins of a teacher")
def flats_after_the_margins_of_a_teacher(stage: Stage) -> None:
    """The target is a teacher's margins between the advert and four near ones."""
    from sentence_transformers.util import pairwise_cos_sim

    table = FLATS.answers(480, wrong=4)
    scores = torch.stack(_teacher_scores(_teacher(stage, FLATS), table), 1)
    trainer = stage.trainer(
        lambda model: losses.MarginMSELoss(model, similarity_fct=pairwise_cos_sim),
        table | {"label": (scores[:, :1] - scores[:, 1:]).tolist()}, encoder_of(stage, FLATS),
        learning_rate=2e-3, max_steps=140,
    )  # fmt: skip
    learns(stage, trainer, seeks(FLATS), least=0.1)


@sound("distribution of a teacher over candidates")
def headlines_by_the_shares_of_a_teacher(stage: Stage) -> None:
    """The teacher's distribution over the story and four near ones is matched by the student."""
    from sentence_transformers.util import pairwise_cos_sim

    table = HEADLINES.answers(480, wrong=4)
    scores = torch.stack(_teacher_scores(_teacher(stage, HEADLINES), table), 1)
    trainer = stage.trainer(
        lambda model: losses.DistillKLDivLoss(
            model, similarity_fct=pairwise_cos_sim, temperature=0.1
        ),
        table | {"label": scores.tolist()}, encoder_of(stage, HEADLINES),
        learning_rate=2e-3, max_steps=130,
    )  # fmt: skip
    learns(stage, trainer, seeks(HEADLINES), least=0.1)


@sound("embeddings of a teacher in two languages")
def russian_taught_by_english_embeddings(stage: Stage) -> None:
    """English and Russian are both drawn to a teacher's embeddings of the English text."""
    teacher = encoder_of(stage, RUSSIAN, name="teacher", seed=9)
    warmed(teacher, RUSSIAN.table(500, seed=2), steps=60)
    table = RUSSIAN.table(560)
    rows = teacher.encode(table["english"], show_progress_bar=False)
    trainer = stage.trainer(
        losses.MSELoss, table | {"label": rows.tolist()}, encoder_of(stage, RUSSIAN),
        per_device_train_batch_size=32, learning_rate=3e-3, max_steps=160,
    )  # fmt: skip
    learns(stage, trainer, seeks(RUSSIAN), least=0.1)


@sound("direction of a teacher's embeddings, projected")
def chats_in_the_direction_of_a_teacher(stage: Stage) -> None:
    """Turns and replies go to a wider teacher's embeddings of the turns, through a projection."""
    table = CHATS.table(480)
    rows = _teacher(stage, CHATS).encode(table["turns"], show_progress_bar=False)
    trainer = stage.trainer(
        lambda model: losses.EmbedDistillLoss(model, distance_metric="cosine", projection_dim=64),
        table | {"label": rows.tolist()}, encoder_of(stage, CHATS),
        per_device_train_batch_size=32, learning_rate=3e-3, max_steps=160,
    )  # fmt: skip
    learns(stage, trainer, seeks(CHATS), least=0.1)
