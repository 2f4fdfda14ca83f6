"""Sound set-ups on graded and binary labels, most with an evaluator during training."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from tests.judgement.case import sound
from tests.judgement.first.fields_of_records import (
    BIRDS,
    CALLS,
    GREEK,
    METERS,
    QUERIES,
    REAGENTS,
    adam,
    binary,
    fresh,
)
from tests.judgement.first.turns import Rows, embed, stepped, turn
from tests.judgement.stage import Stage
from tests.judgement.truth import correlation, learns
from tests.sentence_training import evaluation, losses


def graded_score(field: Any, most: float = 1.0) -> Any:
    """The rank correlation of cosines with the scores of pairs not in training."""
    table = field.graded(80, seed=13, most=most)
    return lambda model: correlation(model, table)


def labelled_score(field: Any) -> Any:
    """The rank correlation of cosines with the labels of pairs not in training."""
    table = binary(field, 80, seed=13)
    return lambda model: correlation(model, table)


def evaluator_of(table: dict[str, list[Any]], most: float = 1.0) -> Any:
    """An evaluator of graded pairs."""
    first, second, scores = table.values()
    return evaluation.EmbeddingSimilarityEvaluator(first, second, [s / most for s in scores])


@sound("CoSENT on graded pairs with an evaluator")
def graded_bird_records_with_cosent(stage: Stage) -> None:
    model = fresh(stage, BIRDS)
    trainer = stage.trainer(
        losses.CoSENTLoss, BIRDS.graded(240), model, learning_rate=2e-3, max_steps=60,
        per_device_train_batch_size=24, evaluator=evaluator_of(BIRDS.graded(60, seed=17)),
        eval_strategy="steps", eval_steps=20,
    )  # fmt: skip
    learns(stage, trainer, graded_score(BIRDS))


@sound("AnglE on graded pairs in two scripts")
def graded_greek_sentences_with_angle(stage: Stage) -> None:
    model = fresh(stage, GREEK, width=64)
    trainer = stage.trainer(
        losses.AnglELoss, GREEK.graded(320), model, learning_rate=2e-3, max_steps=70,
        per_device_train_batch_size=32, lr_scheduler_type="cosine",
    )  # fmt: skip
    learns(stage, trainer, graded_score(GREEK))


@sound("cosine regression on scores from 0 to 1")
def graded_radio_calls_by_cosine(stage: Stage) -> None:
    model = fresh(stage, CALLS, width=32)
    trainer = stage.trainer(
        losses.CosineSimilarityLoss, CALLS.graded(200), model, learning_rate=2e-3, max_steps=60,
        per_device_train_batch_size=20, evaluator=evaluator_of(CALLS.graded(40, seed=17)),
        eval_strategy="steps", eval_steps=15,
    )  # fmt: skip
    learns(stage, trainer, graded_score(CALLS))


@sound("contrastive loss on binary pairs with a binary evaluator")
def binary_reactions_with_a_margin(stage: Stage) -> None:
    model, table = fresh(stage, REAGENTS), binary(REAGENTS, 320)
    first, second, labels = binary(REAGENTS, 60, seed=17).values()
    trainer = stage.trainer(
        losses.ContrastiveLoss, table, model, learning_rate=2e-3, max_steps=60,
        per_device_train_batch_size=32, eval_strategy="steps", eval_steps=20,
        evaluator=evaluation.BinaryClassificationEvaluator(first, second, labels),
    )  # fmt: skip
    learns(stage, trainer, labelled_score(REAGENTS))


@sound("online contrastive loss on binary pairs")
def binary_calls_with_hard_pairs_of_the_batch(stage: Stage) -> None:
    model, table = fresh(stage, CALLS, width=32), binary(CALLS, 240)
    trainer = stage.trainer(
        losses.OnlineContrastiveLoss, table, model, learning_rate=1e-3, max_steps=60,
        per_device_train_batch_size=32, warmup_steps=6,
    )  # fmt: skip
    learns(stage, trainer, labelled_score(CALLS))


def ordered(first: Tensor, second: Tensor, scores: Tensor) -> Tensor:
    """CoSENT by hand: of two pairs the one with the higher score has the higher cosine."""
    close = 20 * F.cosine_similarity(first, second)
    gaps = close[:, None] - close[None, :]  # of a pair that is to be lower
    gaps = gaps[scores[:, None] < scores[None, :]]
    return torch.logsumexp(torch.cat([torch.zeros(1), gaps]), 0)


def uncorrelated(first: Tensor, second: Tensor, scores: Tensor) -> Tensor:
    """1 minus Pearson's correlation of cosines and scores in the batch."""
    close = F.cosine_similarity(first, second)
    return 1 - torch.corrcoef(torch.stack([close, scores]))[0, 1]


def agreed(first: Tensor, second: Tensor, labels: Tensor) -> Tensor:
    """Logistic loss of scaled cosines on labels of 0 and 1."""
    return F.binary_cross_entropy_with_logits(
        12 * (F.cosine_similarity(first, second) - 0.5), labels
    )


def weighed(loss_rows: list[list[Any]], model: Any) -> tuple[Tensor, Tensor, Tensor]:
    """Embeddings of a batch of pairs and their labels."""
    first, second, labels = loss_rows
    return embed(model, first), embed(model, second), torch.tensor(labels, dtype=torch.float32)


@sound("hand-written CoSENT in a loop")
def loop_that_orders_graded_queries(stage: Stage) -> None:
    model = fresh(stage, QUERIES)
    rows, optimizer = Rows(QUERIES.graded(320), 32), adam(model, rate=2e-3)

    def update(criterion: Any, step: int) -> None:
        stepped(optimizer, criterion(*weighed(rows(), model)))

    turn(stage, model, ordered, update, graded_score(QUERIES), steps=50)


@sound("correlation of the batch as a loss, scores from 0 to 5")
def loop_that_correlates_graded_readings(stage: Stage) -> None:
    model = fresh(stage, METERS, width=64)
    rows, optimizer = Rows(METERS.graded(320, most=5.0), 40), adam(model, rate=2e-3)

    def update(criterion: Any, step: int) -> None:
        stepped(optimizer, criterion(*weighed(rows(), model)))

    turn(stage, model, uncorrelated, update, graded_score(METERS, 5.0), steps=50)


@sound("logistic loss of cosines on binary labels")
def loop_over_binary_greek_pairs(stage: Stage) -> None:
    table = binary(GREEK, 320)
    model = fresh(stage, GREEK)
    rows, optimizer = Rows(table, 32), adam(model, rate=2e-3)

    def update(criterion: Any, step: int) -> None:
        optimizer.zero_grad()
        criterion(*weighed(rows(), model)).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()

    turn(stage, model, agreed, update, labelled_score(GREEK), steps=60)
