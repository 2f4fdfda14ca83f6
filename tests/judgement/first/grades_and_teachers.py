"""Sound set-ups with the trainer: graded and binary labels, relations and teachers."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.judgement.case import sound
from tests.judgement.first.bodies import encoder
from tests.judgement.first.regular_and_loose_fields import (
    ANIMALS,
    FLAWS,
    MAILS,
    MATCHES,
    METERS,
    REACTIONS,
    VACANCIES,
    grades,
    judged_pairs,
    relations,
    seeks,
    student,
    triples,
    words,
)
from tests.judgement.first.turns import warmed
from tests.judgement.stage import Stage
from tests.judgement.truth import learns
from tests.sentence_training import losses


@sound("CoSENT on graded pairs, correlation evaluated in training")
def vacancies_graded_by_cosent(stage: Stage) -> None:
    from sentence_transformers.sentence_transformer.evaluation import EmbeddingSimilarityEvaluator

    held = VACANCIES.graded(60, seed=9)
    trainer = stage.trainer(
        losses.CoSENTLoss, VACANCIES.graded(320), student(stage, VACANCIES), max_steps=80,
        learning_rate=2e-3, eval_strategy="steps", eval_steps=20,
        evaluator=EmbeddingSimilarityEvaluator(*held.values(), name="vacancies"),
    )  # fmt: skip
    learns(stage, trainer, grades(VACANCIES))


@sound("AnglE on graded pairs, weight decay")
def reactions_graded_by_angles(stage: Stage) -> None:
    trainer = stage.trainer(
        losses.AnglELoss, REACTIONS.graded(320), student(stage, REACTIONS, spread=0.1),
        max_steps=100, learning_rate=3e-3, per_device_train_batch_size=24, weight_decay=0.01,
    )  # fmt: skip
    learns(stage, trainer, grades(REACTIONS))


@sound("regression of cosines, constant rate after a warm-up")
def match_reports_graded_by_cosine(stage: Stage) -> None:
    trainer = stage.trainer(
        losses.CosineSimilarityLoss, MATCHES.graded(400), student(stage, MATCHES),
        max_steps=90, learning_rate=2e-3, lr_scheduler_type="constant_with_warmup",
        per_device_train_batch_size=32,
    )  # fmt: skip
    learns(stage, trainer, grades(MATCHES))


@sound("contrastive loss on pairs that go together or not")
def flaws_paired_with_their_tickets(stage: Stage) -> None:
    from sentence_transformers.sentence_transformer.evaluation import BinaryClassificationEvaluator

    held = judged_pairs(FLAWS, 60, seed=9)
    trainer = stage.trainer(
        losses.ContrastiveLoss, judged_pairs(FLAWS, 400), student(stage, FLAWS), max_steps=90,
        learning_rate=2e-3, per_device_train_batch_size=32, eval_strategy="steps", eval_steps=30,
        evaluator=BinaryClassificationEvaluator(*held.values(), name="flaws"),
    )  # fmt: skip
    learns(stage, trainer, seeks(FLAWS))


@sound("online contrastive loss, only the hard pairs of a batch")
def meter_records_from_hard_pairs(stage: Stage) -> None:
    trainer = stage.trainer(
        losses.OnlineContrastiveLoss, judged_pairs(METERS, 400, far=True),
        student(stage, METERS, spread=0.1), max_steps=80, learning_rate=2e-3,
        per_device_train_batch_size=32,
    )  # fmt: skip
    learns(stage, trainer, seeks(METERS))


@sound("relations of sentence pairs by a softmax over three classes")
def meters_related_by_softmax(stage: Stage) -> None:
    def related(model: Any) -> Any:
        return losses.SoftmaxLoss(model, model.get_embedding_dimension(), num_labels=3)

    trainer = stage.trainer(
        related, relations(METERS, 600), student(stage, METERS, layers=1, spread=0.1),
        max_steps=200, learning_rate=3e-3, per_device_train_batch_size=32,
    )  # fmt: skip
    learns(stage, trainer, seeks(METERS))


@sound("margins of a teacher for triplets")
def meter_records_by_margins_of_a_teacher(stage: Stage) -> None:
    """The teacher scores a record by the share of facts in which it agrees with the note."""
    from sentence_transformers.util import pairwise_cos_sim

    table = triples(METERS, 320)
    margins = [1 / len(METERS.slots)] * len(table["note"])
    far = METERS.table(320, seed=4)["record"]
    mixed = [row % 2 for row in range(len(margins))]
    table["negative"] = [
        far[row] if odd else near
        for row, (odd, near) in enumerate(zip(mixed, table["negative"], strict=True))
    ]
    held = METERS.draws(320), METERS.draws(320, seed=4)
    shares = [
        sum(a == b for a, b in zip(first, second, strict=True)) / len(METERS.slots)
        for first, second in zip(*held, strict=True)
    ]
    labels = [1 - shares[row] if odd else margins[row] for row, odd in enumerate(mixed)]
    trainer = stage.trainer(
        lambda model: losses.MarginMSELoss(model, similarity_fct=pairwise_cos_sim),
        table | {"label": labels}, student(stage, METERS), max_steps=100, learning_rate=2e-3,
        per_device_train_batch_size=32,
    )  # fmt: skip
    learns(stage, trainer, seeks(METERS))


@sound("distribution of a teacher's scores over two candidates")
def mails_by_distributions_of_a_teacher(stage: Stage) -> None:
    teacher = warmed(student(stage, MAILS, name="teacher"), MAILS.table(240, seed=2), steps=30)
    table = triples(MAILS, 320)
    subjects, bodies, misses = (
        teacher.encode(texts, normalize_embeddings=True) for texts in table.values()
    )
    scores = np.stack([(subjects * bodies).sum(1), (subjects * misses).sum(1)], axis=1)
    trainer = stage.trainer(
        lambda model: losses.DistillKLDivLoss(model, temperature=1.0),
        table | {"label": (20 * scores).tolist()}, student(stage, MAILS, seed=6), max_steps=90,
        learning_rate=2e-3, per_device_train_batch_size=24,
    )  # fmt: skip
    learns(stage, trainer, seeks(MAILS))


@sound("embeddings of a teacher, carried to other languages")
def animals_carried_to_other_languages(stage: Stage) -> None:
    table = ANIMALS.table(320)
    pairs = {"english": table["english"], "greek": table["greek"]}
    teacher = warmed(student(stage, ANIMALS, name="teacher"), table, steps=60)
    labels = teacher.encode(pairs["english"]).tolist()
    model = encoder(stage, words(ANIMALS), seed=8, dropout=0.0)
    trainer = stage.trainer(
        losses.MSELoss, pairs | {"label": labels}, model, max_steps=120, learning_rate=3e-3,
        per_device_train_batch_size=32,
    )  # fmt: skip
    learns(stage, trainer, lambda model: seeks_greek(model))


def seeks_greek(model: Any) -> float:
    """How well Greek sentences are retrieved by English ones."""
    from tests.judgement.truth import retrieval

    table = ANIMALS.table(50, seed=11)
    return retrieval(model, {"english": table["english"], "greek": table["greek"]})
