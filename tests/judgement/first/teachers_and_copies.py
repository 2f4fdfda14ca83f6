"""Sound set-ups that learn from a teacher, from a guide or from classes."""

from __future__ import annotations

from typing import Any

import torch

from tests.judgement.case import sound
from tests.judgement.first.fields import Field
from tests.judgement.first.fields_of_records import (
    BIRDS,
    CALLS,
    GREEK,
    MAILS,
    METERS,
    QUERIES,
    by_theme,
    corpus,
    fresh,
    tickets,
)
from tests.judgement.first.turns import warmed
from tests.judgement.stage import Stage
from tests.judgement.truth import learns
from tests.sentence_training import evaluation, losses


def teacher(stage: Stage, field: Field, width: int = 64) -> Any:
    """An encoder that has learned a field well."""
    model = fresh(stage, field, width=width, name="teacher", seed=1)
    return warmed(model, field.table(320), 60)


def embeddings(model: Any, texts: list[str]) -> torch.Tensor:
    return model.encode(texts, convert_to_tensor=True, show_progress_bar=False)


@sound("embeddings of a teacher of the same width by squared error")
def student_of_mails_by_squared_error(stage: Stage) -> None:
    master, texts = teacher(stage, MAILS), corpus(MAILS, 480)
    table = {"sentence": texts, "label": embeddings(master, texts).tolist()}
    trainer = stage.trainer(
        losses.MSELoss, table, fresh(stage, MAILS, width=64, layers=1), learning_rate=3e-3,
        per_device_train_batch_size=32, max_steps=80,
    )  # fmt: skip
    learns(stage, trainer, MAILS.sought)


@sound("directions of a teacher by cosine with an evaluator")
def student_of_radio_calls_by_directions(stage: Stage) -> None:
    master, texts = teacher(stage, CALLS, 48), corpus(CALLS, 320)
    table = {"sentence": texts, "label": embeddings(master, texts).tolist()}
    held_out = CALLS.table(40, seed=21)["call"]
    trainer = stage.trainer(
        losses.EmbedDistillLoss, table, fresh(stage, CALLS, layers=1), learning_rate=2e-3,
        per_device_train_batch_size=32, max_steps=60, eval_strategy="steps", eval_steps=20,
        evaluator=evaluation.MSEEvaluator(held_out, held_out, teacher_model=master),
    )  # fmt: skip
    learns(stage, trainer, CALLS.sought)


@sound("a teacher's margins between positive and negative")
def student_of_birds_by_margins(stage: Stage) -> None:
    master = teacher(stage, BIRDS)
    table: dict[str, Any] = BIRDS.table(320) | {"negative": BIRDS.near(320, slot=3)}
    anchor, positive, negative = (embeddings(master, texts) for texts in table.values())
    near, far = (10 * torch.cosine_similarity(anchor, rows) for rows in (positive, negative))
    trainer = stage.trainer(
        lambda encoder: losses.MarginMSELoss(
            encoder, similarity_fct=lambda a, b: 10 * torch.cosine_similarity(a, b)
        ),
        table | {"label": (near - far).tolist()}, fresh(stage, BIRDS), learning_rate=2e-3,
        per_device_train_batch_size=32, max_steps=90,
    )  # fmt: skip
    learns(stage, trainer, BIRDS.sought)


@sound("a teacher's distribution over a positive and three negatives")
def student_of_queries_by_distributions(stage: Stage) -> None:
    master, table = teacher(stage, QUERIES), dict[str, Any](QUERIES.table(320))
    for slot in range(3):
        table[f"negative_{slot}"] = QUERIES.near(320, slot=slot)
    anchor, *candidates = (embeddings(master, texts) for texts in table.values())
    close = [10 * torch.cosine_similarity(anchor, rows) for rows in candidates]
    trainer = stage.trainer(
        lambda encoder: losses.DistillKLDivLoss(
            encoder, similarity_fct=lambda a, b: 10 * torch.cosine_similarity(a, b)
        ),
        table | {"label": torch.stack(close, 1).tolist()}, fresh(stage, QUERIES),
        learning_rate=2e-3, per_device_train_batch_size=24, max_steps=60,
    )  # fmt: skip
    learns(stage, trainer, QUERIES.sought)


@sound("false negatives passed over by a guide")
def greek_sentences_under_a_guide(stage: Stage) -> None:
    guide = teacher(stage, GREEK)
    trainer = stage.trainer(
        lambda encoder: losses.GISTEmbedLoss(encoder, guide, temperature=0.05), GREEK.table(320),
        fresh(stage, GREEK), learning_rate=1.5e-3, per_device_train_batch_size=32,
    )  # fmt: skip
    learns(stage, trainer, GREEK.sought)


@sound("cached batches under a guide, with a relative margin")
def readings_under_a_guide_in_chunks(stage: Stage) -> None:
    guide = teacher(stage, METERS)
    trainer = stage.trainer(
        lambda encoder: losses.CachedGISTEmbedLoss(
            encoder, guide, temperature=0.05, mini_batch_size=16, margin_strategy="relative",
            margin=0.05,
        ),
        METERS.table(320), fresh(stage, METERS), learning_rate=2e-3,
        per_device_train_batch_size=64, max_steps=20,
    )  # fmt: skip
    learns(stage, trainer, METERS.sought)


@sound("hardest triplets of classes, batches by class")
def themes_of_tickets_by_hardest_triplets(stage: Stage) -> None:
    table = tickets(320)
    trainer = stage.trainer(
        lambda encoder: losses.BatchHardSoftMarginTripletLoss(encoder), table,
        fresh(stage, table), learning_rate=1e-3, per_device_train_batch_size=32,
        batch_sampler="group_by_label", max_steps=40,
    )  # fmt: skip
    learns(stage, trainer, by_theme)


@sound("all triplets of classes within a margin of cosines")
def themes_of_tickets_by_all_triplets(stage: Stage) -> None:
    table = tickets(400, seed=2)
    distance = losses.BatchHardTripletLossDistanceFunction.cosine_distance
    trainer = stage.trainer(
        lambda encoder: losses.BatchAllTripletLoss(encoder, distance, margin=0.4), table,
        fresh(stage, table, pooling="max"), learning_rate=1e-3, per_device_train_batch_size=40,
        batch_sampler="group_by_label", max_steps=40,
    )  # fmt: skip
    learns(stage, trainer, by_theme)
