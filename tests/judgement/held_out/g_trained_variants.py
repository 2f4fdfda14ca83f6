"""Sound set-ups: triplets, classes, teachers, guides, adapters, precision, mixtures."""

from __future__ import annotations

from typing import Any

from tests.judgement.case import sound
from tests.judgement.first.turns import warmed
from tests.judgement.held_out.g_fields import (
    ALERTS,
    BADGES,
    BIRDS,
    CHATS,
    JOBS,
    MAILS,
    MARKET,
    QUERIES,
    REACTIONS,
    READINGS,
    by_class,
    labelled,
    reader,
    tuned,
    unseen,
    vocabulary,
)
from tests.judgement.stage import Stage
from tests.judgement.truth import learns
from tests.sentence_training import evaluation, losses


def with_negatives(field: Any, count: int, slot: int = 0, seed: int = 0) -> dict[str, list[str]]:
    """Query, positive and a negative of another entry in a slot."""
    first, second = list(field.table(count, seed).values())[:2]
    return {"query": first, "positive": second, "negative": field.near(count, seed, slot=slot)}


def teacher_of(stage: Stage, field: Any) -> Any:
    """A larger encoder, trained well on pairs of a field."""
    teacher = reader(stage, field, name="teacher", layers=3, seed=8)
    return warmed(teacher, field.table(400, seed=4), steps=40)


@sound("triplets by cosine distance, evaluator of triplets")
def birds_by_triplets_with_evaluator(stage: Stage) -> None:
    watched = with_negatives(BIRDS, 60, seed=13)
    trainer = stage.trainer(
        lambda model: losses.TripletLoss(
            model, distance_metric=losses.TripletDistanceMetric.COSINE, triplet_margin=0.3
        ),
        with_negatives(BIRDS, 400), tuned(stage, BIRDS, 4),
        learning_rate=1e-3, per_device_train_batch_size=32, max_steps=60,
        evaluator=evaluation.TripletEvaluator(*watched.values(), write_csv=False),
        eval_strategy="steps", eval_steps=20,
    )  # fmt: skip
    learns(stage, trainer, unseen(BIRDS))


@sound("hard triplets of a batch by class, batches by label")
def classes_of_mails_by_hard_triplets(stage: Stage) -> None:
    trainer = stage.trainer(
        losses.BatchHardSoftMarginTripletLoss, labelled(MAILS, 400), reader(stage, MAILS),
        learning_rate=2e-3, per_device_train_batch_size=32, max_steps=60,
        batch_sampler="group_by_label",
    )  # fmt: skip
    learns(stage, trainer, by_class(MAILS))


@sound("all triplets of a batch by class")
def classes_of_vacancies_by_all_triplets(stage: Stage) -> None:
    trainer = stage.trainer(
        lambda model: losses.BatchAllTripletLoss(model, margin=1.0),
        labelled(JOBS, 400), reader(stage, JOBS),
        learning_rate=2e-3, per_device_train_batch_size=40, max_steps=50,
        batch_sampler="group_by_label",
    )  # fmt: skip
    learns(stage, trainer, by_class(JOBS))


@sound("margins of a teacher")
def margins_of_a_larger_teacher(stage: Stage) -> None:
    from sentence_transformers.util import pairwise_cos_sim

    table: dict[str, Any] = with_negatives(REACTIONS, 400)
    teacher = teacher_of(stage, REACTIONS)
    rows = [teacher.encode(texts, convert_to_tensor=True) for texts in table.values()]
    margins = pairwise_cos_sim(rows[0], rows[1]) - pairwise_cos_sim(rows[0], rows[2])
    trainer = stage.trainer(
        lambda model: losses.MarginMSELoss(model, similarity_fct=pairwise_cos_sim),
        table | {"label": margins.tolist()}, tuned(stage, REACTIONS, 4),
        learning_rate=2e-3, per_device_train_batch_size=32, max_steps=60,
    )  # fmt: skip
    learns(stage, trainer, unseen(REACTIONS))


@sound("embeddings of a teacher as targets, two languages")
def embeddings_of_a_teacher_for_both_languages(stage: Stage) -> None:
    russian, english = MARKET.table(400).values()
    teacher = teacher_of(stage, MARKET)
    targets = teacher.encode(english, normalize_embeddings=True)
    trainer = stage.trainer(
        losses.MSELoss,
        {"english": english, "non_english": russian, "label": targets.tolist()},
        reader(stage, MARKET),
        learning_rate=3e-3, per_device_train_batch_size=32, max_steps=80,
    )  # fmt: skip
    learns(stage, trainer, unseen(MARKET))


@sound("guide that masks false negatives")
def guided_ranking_of_readings(stage: Stage) -> None:
    guide = teacher_of(stage, READINGS)
    trainer = stage.trainer(
        lambda model: losses.GISTEmbedLoss(model, guide, temperature=0.05),
        READINGS.table(400), reader(stage, READINGS),
        learning_rate=2e-3, per_device_train_batch_size=24, max_steps=50,
    )  # fmt: skip
    learns(stage, trainer, unseen(READINGS))


@sound(
    "low-rank adapters on a trained encoder",
    allowed={r"saved model": "The base was tuned before, and is not saved with its adapter."},
)
def adapters_for_statements(stage: Stage) -> None:
    from peft import LoraConfig

    model = tuned(stage, QUERIES, 5)
    model.add_adapter(LoraConfig(
        r=8, lora_alpha=16, lora_dropout=0.05, target_modules=["query", "key", "value", "dense"],
    ))  # fmt: skip
    trainer = stage.trainer(
        losses.MultipleNegativesRankingLoss, QUERIES.table(384), model,
        learning_rate=5e-3, per_device_train_batch_size=32, max_steps=60,
    )  # fmt: skip
    learns(stage, trainer, unseen(QUERIES))


@sound("bfloat16 by autocast with the trainer")
def chats_in_bfloat16(stage: Stage) -> None:
    trainer = stage.trainer(
        losses.MultipleNegativesRankingLoss, CHATS.table(320), reader(stage, CHATS),
        learning_rate=2e-3, per_device_train_batch_size=32, max_steps=50, bf16=True,
    )  # fmt: skip
    learns(stage, trainer, unseen(CHATS))


@sound("two data sets in turn, evaluator of translations")
def alerts_and_badges_in_turn(stage: Stage) -> None:
    from datasets import Dataset
    from sentence_transformers import (
        SentenceTransformerTrainer,
        SentenceTransformerTrainingArguments,
    )

    from tests.judgement.first.bodies import encoder

    model = encoder(stage, vocabulary(ALERTS, BADGES))
    watched = list(BADGES.table(50, seed=13).values())
    trainer = SentenceTransformerTrainer(
        model=model,
        args=SentenceTransformerTrainingArguments(
            output_dir=str(stage.folder / "run"), max_steps=80, per_device_train_batch_size=24,
            learning_rate=2e-3, warmup_steps=8, multi_dataset_batch_sampler="round_robin",
            seed=7, use_cpu=True, report_to="none", save_strategy="no", logging_steps=5,
            disable_tqdm=True, eval_strategy="steps", eval_steps=40,
        ),
        train_dataset={
            "alerts": Dataset.from_dict(ALERTS.table(300)),
            "badges": Dataset.from_dict(BADGES.table(300)),
        },
        loss=losses.MultipleNegativesRankingLoss(model),
        evaluator=evaluation.TranslationEvaluator(*watched, write_csv=False),
    )  # fmt: skip
    learns(stage, trainer, lambda model: (ALERTS.sought(model, 50) + BADGES.sought(model, 50)) / 2)


@sound("mega-batches of hard negatives, evaluation loss")
def mega_batches_of_vacancies(stage: Stage) -> None:
    from datasets import Dataset

    trainer = stage.trainer(
        lambda model: losses.MegaBatchMarginLoss(model, use_mini_batched_version=False),
        JOBS.table(400), tuned(stage, JOBS, 4),
        learning_rate=2e-3, per_device_train_batch_size=50, max_steps=40,
        eval_dataset=Dataset.from_dict(JOBS.table(60, seed=13)), eval_strategy="steps",
        eval_steps=20, per_device_eval_batch_size=20,
    )  # fmt: skip
    learns(stage, trainer, unseen(JOBS))
