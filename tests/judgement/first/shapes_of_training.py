"""Sound set-ups with the trainer: heads, poolings, adapters, precision, mixtures, distillation."""

from __future__ import annotations

from typing import Any

import torch

from tests.judgement.case import sound
from tests.judgement.first.bodies import words_of
from tests.judgement.first.fields_of_offices_and_ports import (
    BENCH,
    BIRDS,
    CHESS,
    DIGITS,
    FORMS,
    MAILS,
    QUERIES,
    SHELVES,
    SKIES,
    reader,
    varied,
)
from tests.judgement.first.turns import warmed
from tests.judgement.stage import Stage
from tests.judgement.truth import learns
from tests.sentence_training import evaluation, losses, modules


@sound("dense head on the mean, normalised")
def bench_questions_behind_a_dense_head(stage: Stage) -> None:
    torch.manual_seed(4)
    head = modules.Dense(48, 24, activation_function=torch.nn.Identity())
    trainer = stage.trainer(
        losses.MultipleNegativesRankingLoss, BENCH.table(300),
        reader(stage, BENCH, head, modules.Normalize()), learning_rate=2e-3, max_steps=60,
    )  # fmt: skip
    learns(stage, trainer, BENCH.sought)


@sound("static embeddings of words")
def bird_notes_by_static_embeddings(stage: Stage) -> None:
    from sentence_transformers import SentenceTransformer

    from tests.judgement.first.bodies import tokenizer_of

    texts = words_of([BIRDS.table(220), BIRDS.table(40, seed=11)])
    torch.manual_seed(6)
    tokenizer = tokenizer_of(texts).backend_tokenizer
    model = SentenceTransformer(
        modules=[modules.StaticEmbedding(tokenizer, embedding_dim=64)], device="cpu"
    )
    trainer = stage.trainer(
        losses.MultipleNegativesRankingLoss, BIRDS.table(320), model, learning_rate=0.05,
        max_steps=80, per_device_train_batch_size=32,
    )  # fmt: skip
    learns(stage, trainer, BIRDS.sought)


@sound(
    "low-rank adapters on a warmed encoder",
    allowed={r"saved model": "The base was tuned before, and is not saved with its adapter."},
)
def forms_with_low_rank_adapters(stage: Stage) -> None:
    from peft import LoraConfig, TaskType

    model = warmed(reader(stage, FORMS), FORMS.table(200, seed=4), 5)
    model.add_adapter(LoraConfig(
        task_type=TaskType.FEATURE_EXTRACTION, r=8, lora_alpha=16, lora_dropout=0.05,
        target_modules=["query", "key", "value", "dense"],
    ))  # fmt: skip
    trainer = stage.trainer(
        losses.MultipleNegativesRankingLoss, FORMS.table(300), model, learning_rate=5e-3,
        max_steps=70,
    )  # fmt: skip
    learns(stage, trainer, FORMS.sought)


@sound("mixed precision")
def mails_in_half_precision(stage: Stage) -> None:
    trainer = stage.trainer(
        losses.MultipleNegativesRankingLoss, MAILS.table(320), reader(stage, MAILS, layers=1),
        learning_rate=2e-3, max_steps=50, bf16=True, gradient_accumulation_steps=2,
    )  # fmt: skip
    learns(stage, trainer, MAILS.sought)


@sound("mixture of two datasets")
def database_and_chess_in_proportion(stage: Stage) -> None:
    from datasets import Dataset

    def pairs_of(field: Any, count: int) -> dict[str, list[str]]:
        return dict(zip(("anchor", "positive"), field.table(count).values(), strict=True))

    words = words_of([CHESS.table(220), CHESS.table(40, seed=11)])
    model = reader(stage, QUERIES, words=words)
    trainer = stage.trainer(
        losses.MultipleNegativesRankingLoss, pairs_of(QUERIES, 240), model, learning_rate=2e-3,
        max_steps=90, multi_dataset_batch_sampler="proportional",
    )  # fmt: skip
    sets = {"queries": pairs_of(QUERIES, 240), "chess": pairs_of(CHESS, 400)}
    mixture = {name: Dataset.from_dict(table) for name, table in sets.items()}
    mixed = type(trainer)(
        model=model, args=trainer.args, train_dataset=mixture,
        loss=losses.MultipleNegativesRankingLoss(model),
    )  # fmt: skip
    learns(stage, mixed, lambda encoder: (QUERIES.sought(encoder) + CHESS.sought(encoder)) / 2)


@sound("embeddings of a teacher")
def weather_reports_by_a_teachers_embeddings(stage: Stage) -> None:
    teacher = warmed(reader(stage, SKIES, name="teacher"), SKIES.table(300, seed=4), 60)
    first, second = SKIES.table(320).values()
    texts = [*first, *second]
    rows = teacher.encode(texts, show_progress_bar=False, normalize_embeddings=True)
    table = {"text": texts, "label": rows.tolist()}
    student = reader(stage, SKIES, modules.Normalize(), layers=1, seed=8)
    trainer = stage.trainer(
        losses.MSELoss, table, student, learning_rate=3e-3, max_steps=90,
        per_device_train_batch_size=32,
    )  # fmt: skip
    learns(stage, trainer, SKIES.sought)


def margins(teacher: Any, table: dict[str, list[str]]) -> list[float]:
    """A teacher's score of the positive less that of the negative, by dot product."""
    first, second, third = (teacher.encode(texts, show_progress_bar=False, convert_to_tensor=True)
                            for texts in table.values())  # fmt: skip
    return ((first * second).sum(1) - (first * third).sum(1)).tolist()


@sound("margins of a teacher")
def library_wishes_by_a_teachers_margins(stage: Stage) -> None:
    teacher = warmed(
        reader(stage, SHELVES, modules.Normalize(), name="teacher"), SHELVES.table(300, seed=4), 60
    )
    first, second = SHELVES.table(400).values()
    table = {"query": first, "positive": second, "negative": second[9:] + second[:9]}
    table = table | {"label": margins(teacher, table)}
    student = warmed(
        reader(stage, SHELVES, modules.Normalize(), seed=8), SHELVES.table(200, seed=4), 5
    )
    trainer = stage.trainer(
        losses.MarginMSELoss, table, student, learning_rate=2e-3, max_steps=90,
        per_device_train_batch_size=32,
    )  # fmt: skip
    learns(stage, trainer, SHELVES.sought)


@sound("triplets by distance with an evaluator")
def figures_in_triplets_with_an_evaluator(stage: Stage) -> None:
    table = DIGITS.table(360) | {"negative": varied(DIGITS, 360)}
    checks = list((DIGITS.table(50, 3) | {"negative": varied(DIGITS, 50, 3)}).values())
    evaluator = evaluation.TripletEvaluator(*checks, name="figures")
    model = warmed(reader(stage, DIGITS, modules.Normalize()), DIGITS.table(200, seed=4), 5)
    trainer = stage.trainer(
        lambda encoder: losses.TripletLoss(encoder, triplet_margin=0.5), table, model,
        learning_rate=2e-3, max_steps=100, per_device_train_batch_size=32, evaluator=evaluator,
        eval_strategy="steps", eval_steps=50,
    )  # fmt: skip
    learns(stage, trainer, DIGITS.sought)
