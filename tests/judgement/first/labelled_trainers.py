"""Sound set-ups: trainers with grades, classes, teachers' scores, and more than one data set."""

from __future__ import annotations

from typing import Any

import torch
from sentence_transformers import util
from sentence_transformers.sentence_transformer import losses

from tests.judgement.case import sound
from tests.judgement.first import rated_fields as rated
from tests.judgement.first.bodies import encoder
from tests.judgement.first.numbered_fields import HOMES, NEWS, OFFERS, SUMS
from tests.judgement.first.ordinary_fields import BIRDS, RUSSIAN, STATUTES
from tests.judgement.first.training_kit import (
    Score,
    by_grades,
    by_neighbour,
    by_precision,
    by_rank,
)
from tests.judgement.first.turns import warmed
from tests.judgement.stage import Stage
from tests.judgement.truth import learns, reciprocal_rank


def above_contradictions() -> Score:
    """A score: how often what follows from a premise is nearer than what contradicts it."""
    sought = rated.implications(100, held_out=True)

    def score(model: Any) -> float:
        rows = [model.encode(texts, normalize_embeddings=True, convert_to_tensor=True)
                for texts in sought.values()]  # fmt: skip
        return float(((rows[0] * (rows[1] - rows[2])).sum(1) > 0).float().mean())

    return score


@sound("graded pairs with an evaluator in each epoch")
def homes_graded_with_an_evaluator(stage: Stage) -> None:
    """CoSENT on grades from 0 to 1, with the correlation of development pairs in each epoch."""
    from sentence_transformers.sentence_transformer.evaluation import (
        EmbeddingSimilarityEvaluator,
    )

    table = HOMES.graded(560)
    trainer = stage.trainer(
        losses.CoSENTLoss, {name: column[:480] for name, column in table.items()},
        encoder(stage, HOMES.vocabulary()), max_steps=-1, num_train_epochs=7, learning_rate=1e-3,
        evaluator=EmbeddingSimilarityEvaluator(
            *(column[480:] for column in table.values()), name="dev", show_progress_bar=False),
        eval_strategy="epoch",
    )  # fmt: skip
    learns(stage, trainer, by_grades(HOMES.graded(200, held_out=True)), least=0.1)


@sound("angles of graded pairs")
def rival_headlines_graded_by_angles(stage: Stage) -> None:
    """AnglE on how much two reports agree, in the words of two papers, with a constant rate."""
    trainer = stage.trainer(
        losses.AnglELoss, NEWS.graded(480), encoder(stage, NEWS.vocabulary(), dropout=0.0),
        max_steps=250, learning_rate=1e-3, lr_scheduler_type="constant_with_warmup",
        warmup_steps=15, per_device_train_batch_size=32,
    )  # fmt: skip
    learns(stage, trainer, by_grades(NEWS.graded(200, held_out=True)), least=0.1)


@sound("reviews paired by the nearness of their stars")
def hotel_reviews_paired_by_stars(stage: Stage) -> None:
    """The cosine of two reviews is to be one minus a quarter of the difference of their stars."""
    texts, stars = rated.hotel_reviews(480).values()
    half = len(texts) // 2
    table = {
        "first": texts[:half], "second": texts[half:],
        "score": [1 - abs(left - right) / 4 for left, right in
                  zip(stars[:half], stars[half:], strict=True)],
    }  # fmt: skip
    trainer = stage.trainer(
        losses.CosineSimilarityLoss, table,
        encoder(stage, rated.vocabulary(rated.hotel_reviews(600))), max_steps=120,
        learning_rate=1e-3,
    )  # fmt: skip
    learns(stage, trainer, by_neighbour(rated.hotel_reviews(150, held_out=True)), least=0.1)


@sound("matching pairs and the hardest of each batch")
def offers_with_online_contrast(stage: Stage) -> None:
    """Online contrastive loss: offers of the same product or not, about half of each."""
    trainer = stage.trainer(
        losses.OnlineContrastiveLoss, OFFERS.matched(600, slots=2),
        encoder(stage, OFFERS.vocabulary(), dropout=0.0), max_steps=150, learning_rate=1e-3,
        per_device_train_batch_size=32,
    )  # fmt: skip
    score = by_precision(OFFERS.matched(200, slots=2, held_out=True))
    learns(stage, trainer, score, least=0.1)


@sound("classifier over pairs, as for inference of texts")
def premises_with_a_softmax_classifier(stage: Stage) -> None:
    """SBERT's first recipe: both embeddings and their difference go to a classifier of three."""
    trainer = stage.trainer(
        lambda encoder_: losses.SoftmaxLoss(encoder_, 48, 3), rated.premises(600),
        encoder(stage, rated.vocabulary(rated.premises(800))), max_steps=250, learning_rate=1e-3,
    )  # fmt: skip
    firsts, seconds, labels = rated.premises(150, held_out=True).values()

    def accuracy(model: Any) -> float:
        rows = [model.encode(texts, convert_to_tensor=True) for texts in (firsts, seconds)]
        with torch.no_grad():
            logits = trainer.loss.classifier(torch.cat([*rows, (rows[0] - rows[1]).abs()], 1))
        return float((logits.argmax(1).cpu() == torch.tensor(labels)).float().mean())

    learns(stage, trainer, accuracy, least=0.1)


@sound("triplets by the distance of cosines")
def implications_as_cosine_triplets(stage: Stage) -> None:
    """A margin of 0.3 fits the distance, one minus cosine, better than the default of 5."""
    trainer = stage.trainer(
        lambda encoder_: losses.TripletLoss(
            encoder_, losses.TripletDistanceMetric.COSINE, triplet_margin=0.3),
        rated.implications(480), encoder(stage, rated.vocabulary(rated.implications(580))),
        max_steps=80, learning_rate=5e-4, optim="adafactor",
    )  # fmt: skip
    learns(stage, trainer, above_contradictions(), least=0.1)


@sound("hardest triplets with batches grouped by label")
def tickets_grouped_by_queue(stage: Stage) -> None:
    """Batches hold several tickets of each queue, as the batch-hard losses need."""
    table = rated.tickets(400)
    trainer = stage.trainer(
        losses.BatchHardSoftMarginTripletLoss, {"text": table["ticket"], "label": table["queue"]},
        encoder(stage, rated.vocabulary(rated.tickets(700)), layers=1), max_steps=100,
        batch_sampler="group_by_label", per_device_train_batch_size=32, learning_rate=5e-4,
    )  # fmt: skip
    learns(stage, trainer, by_neighbour(rated.tickets(120, held_out=True)), least=0.1)


@sound("all triplets of a batch of log lines")
def log_lines_with_all_triplets(stage: Stage) -> None:
    """All valid triplets by cosine distance and a margin of 0.4; the encoder trims long lines."""
    from sentence_transformers.sentence_transformer.losses import (
        BatchHardTripletLossDistanceFunction as Distance,
    )

    table = rated.log_lines(480)
    trainer = stage.trainer(
        lambda encoder_: losses.BatchAllTripletLoss(
            encoder_, Distance.cosine_distance, margin=0.4),
        {"text": table["line"], "label": table["event"]},
        encoder(stage, rated.vocabulary(rated.log_lines(900)), length=32), max_steps=120,
        batch_sampler="group_by_label", per_device_train_batch_size=32, learning_rate=1e-3,
    )  # fmt: skip
    learns(stage, trainer, by_neighbour(rated.log_lines(150, held_out=True)), least=0.1)


def cosines_of(teacher: Any, *columns: list[str]) -> list[torch.Tensor]:
    """Return the teacher's cosines of the first column with each other one, row by row."""
    first, *counterparts = (teacher.encode(texts, convert_to_tensor=True) for texts in columns)
    return [util.pairwise_cos_sim(first, counterpart).cpu() for counterpart in counterparts]


@sound("a teacher's margins")
def paragraphs_with_margins_of_a_teacher(stage: Stage) -> None:
    """The student learns by how much a wider teacher puts the right paragraph above a near one."""
    teacher = warmed(encoder(stage, STATUTES.vocabulary(), name="teacher", width=64, length=80),
                     STATUTES.table(260), 60)  # fmt: skip
    pairs = STATUTES.table(240)
    texts = pairs["paragraph"]
    table: dict[str, Any] = {name: column * 2 for name, column in pairs.items()}
    table["other"] = STATUTES.near_misses(240, slot=2) + texts[7:] + texts[:7]
    right, wrong = cosines_of(teacher, *table.values())
    table["label"] = (right - wrong).tolist()
    trainer = stage.trainer(
        lambda encoder_: losses.MarginMSELoss(encoder_, similarity_fct=util.pairwise_cos_sim),
        table, encoder(stage, STATUTES.vocabulary(), length=80, kind="distilbert"), max_steps=120,
        learning_rate=2e-3,
    )  # fmt: skip
    learns(stage, trainer, by_rank(STATUTES.sought(50)), least=0.1)


@sound("a teacher's embeddings of two languages")
def russian_student_of_precomputed_embeddings(stage: Stage) -> None:
    """English and Russian columns are drawn to the teacher's embedding of the English text."""
    table: dict[str, Any] = RUSSIAN.table(500)
    sayings = {"first": table["english"], "second": table["english"]}
    teacher = warmed(encoder(stage, RUSSIAN.vocabulary(), name="teacher"), sayings, 30)
    table["label"] = teacher.encode(table["english"], normalize_embeddings=True).tolist()
    trainer = stage.trainer(
        lambda encoder_: losses.EmbedDistillLoss(encoder_, distance_metric="cosine"), table,
        encoder(stage, RUSSIAN.vocabulary(), name="student"), max_steps=150, learning_rate=2e-3,
    )  # fmt: skip
    learns(stage, trainer, by_rank(RUSSIAN.sought()), least=0.1)


@sound("truncated dimensions by a library's loss")
def sums_in_nested_dimensions(stage: Stage) -> None:
    """Matryoshka around the ranking loss; the first twelve dimensions alone are scored."""
    trainer = stage.trainer(
        lambda encoder_: losses.MatryoshkaLoss(
            encoder_, losses.MultipleNegativesRankingLoss(encoder_), [48, 24, 12]),
        SUMS.table(600), encoder(stage, SUMS.vocabulary()), max_steps=120, learning_rate=2e-3,
    )  # fmt: skip
    sought = SUMS.sought()
    learns(stage, trainer, lambda model: reciprocal_rank(
        *(model.encode(texts)[:, :12] for texts in sought.values())), least=0.1)  # fmt: skip


@sound("earlier layers that work by themselves")
def birds_with_layers_that_may_be_dropped(stage: Stage) -> None:
    """Adaptive layers around the ranking loss; all layers are scored."""
    trainer = stage.trainer(
        lambda encoder_: losses.AdaptiveLayerLoss(
            encoder_, losses.MultipleNegativesRankingLoss(encoder_)),
        BIRDS.table(400), encoder(stage, BIRDS.vocabulary(), layers=3), max_steps=80,
        learning_rate=1e-3,
    )  # fmt: skip
    learns(stage, trainer, by_rank(BIRDS.sought()), least=0.1)
