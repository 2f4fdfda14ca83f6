"""Sound set-ups: pairs of texts with grades, with yes or no, and with three relations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from sentence_transformers.sentence_transformer import evaluation, losses, modules

from tests.judgement.case import sound
from tests.judgement.first.everyday_fields import ADDRESS_PAIRS, LISTINGS, REVIEW_PAIRS
from tests.judgement.first.field_rows import HELD_OUT
from tests.judgement.first.language_fields import INFERENCE, MATCHES
from tests.judgement.first.training_parts import encoder_of, graded, ranking, trained_before
from tests.judgement.stage import Stage
from tests.judgement.truth import learns


@sound("stars of reviews, order of cosines")
def closeness_of_stars_by_cosent(stage: Stage) -> None:
    """Pairs of reviews, graded by how near their stars are; only the order of cosines counts."""
    trainer = stage.trainer(
        losses.CoSENTLoss, REVIEW_PAIRS.table(500), encoder_of(stage, REVIEW_PAIRS), max_steps=100,
        learning_rate=1e-3, per_device_train_batch_size=32,
    )  # fmt: skip
    learns(stage, trainer, graded(REVIEW_PAIRS, "review", "other", "score"))


@sound("angles of graded pairs")
def reports_of_matches_by_angles(stage: Stage) -> None:
    """AnglE with pairs whose grade is the share of facts that both tell.

    Remark: some first sentences stand in several rows, each with another partner and grade.
    """
    trainer = stage.trainer(
        losses.AnglELoss, MATCHES.table(500), encoder_of(stage, MATCHES, dropout=0.0),
        max_steps=140, learning_rate=1e-3, per_device_train_batch_size=32,
    )  # fmt: skip
    learns(stage, trainer, graded(MATCHES, "sentence1", "sentence2", "score"))


@sound("cosines fitted to grades, with an evaluator")
def grades_of_matches_by_cosines(stage: Stage) -> None:
    """Squared error of cosines against grades from 0 to 1, watched on rows of their own."""
    watched = MATCHES.table(60, seed=HELD_OUT + 2)
    evaluator = evaluation.EmbeddingSimilarityEvaluator(*watched.values(), name="sports")
    trainer = stage.trainer(
        losses.CosineSimilarityLoss, MATCHES.table(560), encoder_of(stage, MATCHES), max_steps=160,
        learning_rate=2e-3, per_device_train_batch_size=32, evaluator=evaluator,
        eval_strategy="steps", eval_steps=40,
    )  # fmt: skip
    learns(stage, trainer, graded(MATCHES, "sentence1", "sentence2", "score"))


@sound("grades from 0 to 5 scaled to cosines, unit length")
def grades_of_five_steps_scaled(stage: Stage) -> None:
    """Grades that raters gave from 0 to 5 are divided by 5 before cosines are fitted to them."""
    table = REVIEW_PAIRS.table(480)
    raters = [5 * score for score in table["score"]]
    table["score"] = [grade / 5 for grade in raters]
    model = encoder_of(stage, REVIEW_PAIRS, modules.Normalize(), width=32, layers=1)
    trainer = stage.trainer(
        losses.CosineSimilarityLoss, table, model, max_steps=120, learning_rate=2e-3,
        per_device_train_batch_size=24,
    )  # fmt: skip
    learns(stage, trainer, graded(REVIEW_PAIRS, "review", "other", "score"))


@sound("matching addresses, yes or no")
def typed_addresses_matched_to_the_register(stage: Stage) -> None:
    """Contrastive loss: the same address or another one, half of each, at a margin of 0.5.

    Remark: the false addresses are drawn at random, and are easy to tell.
    """
    model = encoder_of(stage, ADDRESS_PAIRS, width=64)
    trainer = stage.trainer(
        losses.ContrastiveLoss, ADDRESS_PAIRS.table(600), model, max_steps=120,
        learning_rate=1e-3, per_device_train_batch_size=32,
    )  # fmt: skip
    learns(stage, trainer, graded(ADDRESS_PAIRS, "typed", "registered", "label"))


@sound("hardest of the pairs with yes or no")
def hardest_pairs_of_addresses(stage: Stage) -> None:
    """The online form takes the positives and the negatives that are hard in their batch."""
    trainer = stage.trainer(
        lambda model: losses.OnlineContrastiveLoss(model, margin=0.6), ADDRESS_PAIRS.table(600),
        encoder_of(stage, ADDRESS_PAIRS), max_steps=120, learning_rate=1e-3,
        per_device_train_batch_size=64,
    )  # fmt: skip
    learns(stage, trainer, graded(ADDRESS_PAIRS, "typed", "registered", "label"))


@sound("order of cosines by yes and no")
def binary_labels_in_order(stage: Stage) -> None:
    """CoSENT with labels 0 and 1: each true pair is to be nearer than each false one."""
    trainer = stage.trainer(
        losses.CoSENTLoss, ADDRESS_PAIRS.table(600), encoder_of(stage, ADDRESS_PAIRS, layers=1),
        max_steps=120, learning_rate=1e-3, per_device_train_batch_size=32, optim="adamw_torch",
        lr_scheduler_type="cosine",
    )  # fmt: skip
    learns(stage, trainer, graded(ADDRESS_PAIRS, "typed", "registered", "label"))


def relations(loss: Any, count: int = 90) -> Callable[[Any], float]:
    """A score: the share of held-out pairs whose relation the classifier of a loss names."""
    table = INFERENCE.table(count, seed=HELD_OUT)

    def score(model: Any) -> float:
        first, second = (
            torch.as_tensor(model.encode(table[name], show_progress_bar=False))
            for name in ("premise", "hypothesis")
        )
        with torch.no_grad():
            logits = loss.classifier(torch.cat([first, second, (first - second).abs()], 1))
        return float((logits.argmax(1) == torch.tensor(table["label"])).float().mean())

    return score


@sound("entailed, neither or contradicted")
def relations_of_premises_by_softmax(stage: Stage) -> None:
    """The classifier of Sentence-BERT over two embeddings and their difference.

    Remark: few hypotheses serve many premises, so that they stand in many rows; no row of the batch
    is a negative of another, so it does no harm.
    """
    model = encoder_of(stage, INFERENCE)
    loss = losses.SoftmaxLoss(model, embedding_dimension=48, num_labels=3)
    trainer = stage.trainer(
        lambda _: loss, INFERENCE.table(600), model, max_steps=160, learning_rate=2e-3,
        per_device_train_batch_size=32,
    )  # fmt: skip
    learns(stage, trainer, relations(loss))


@sound("triplets with a cosine margin")
def listings_nearer_than_their_lookalikes(stage: Stage) -> None:
    """A triplet loss by cosine with a margin of 0.3; each negative differs by its colour."""
    metric = losses.TripletDistanceMetric.COSINE
    trainer = stage.trainer(
        lambda model: losses.TripletLoss(model, distance_metric=metric, triplet_margin=0.3),
        LISTINGS.table(400), trained_before(stage, LISTINGS, "query", "listing", steps=6),
        max_steps=100, learning_rate=1e-3,
    )  # fmt: skip
    learns(stage, trainer, LISTINGS.sought("query", "listing"))


@sound("a hard negative beside in-batch negatives")
def shop_queries_beside_lookalikes(stage: Stage) -> None:
    """Ranking among all listings of the batch and a lookalike for each query."""
    trainer = stage.trainer(
        ranking(), LISTINGS.table(400), encoder_of(stage, LISTINGS, width=32), max_steps=80,
        learning_rate=2e-3, batch_sampler="no_duplicates",
    )  # fmt: skip
    learns(stage, trainer, LISTINGS.sought("query", "listing"))
