"""Sound set-ups with the trainer: other encoders, adapters, precision and mixtures."""

from __future__ import annotations

from typing import Any

import torch

from tests.judgement.case import sound
from tests.judgement.first.regular_and_loose_fields import (
    ANIMALS,
    FLAWS,
    HAIKU,
    MAILS,
    METERS,
    PLANTS,
    QUERIES,
    SUMS,
    VACANCIES,
    mixture,
    seeks,
    student,
    words,
)
from tests.judgement.first.turns import warmed
from tests.judgement.stage import Stage
from tests.judgement.truth import learns
from tests.sentence_training import losses


def ranked(model: Any) -> Any:
    return losses.MultipleNegativesRankingLoss(model)


@sound(
    "adapters of low rank on an encoder of another task",
    allowed={r"saved model": "The base was tuned before, and is not saved with its adapter."},
)
def sums_learned_by_adapters(stage: Stage) -> None:
    from peft import LoraConfig, TaskType

    model = warmed(student(stage, SUMS), SUMS.table(160, seed=2), steps=5)
    model.add_adapter(LoraConfig(
        task_type=TaskType.FEATURE_EXTRACTION, r=8, lora_alpha=16, lora_dropout=0.05,
        target_modules=["query", "key", "value", "dense"],
    ))  # fmt: skip
    trainer = stage.trainer(
        ranked, SUMS.table(320), model, max_steps=60, learning_rate=8e-3,
        per_device_train_batch_size=24,
    )  # fmt: skip
    learns(stage, trainer, seeks(SUMS))


@sound("head that projects to fewer dimensions, bfloat16")
def animals_projected_in_half_precision(stage: Stage) -> None:
    from sentence_transformers.sentence_transformer.modules import Dense

    head = Dense(48, 24, activation_function=torch.nn.Identity())
    trainer = stage.trainer(
        ranked, dict(list(ANIMALS.table(256).items())[:2]), student(stage, ANIMALS, head),
        max_steps=50, learning_rate=2e-3, bf16=True,
    )  # fmt: skip
    learns(stage, trainer, seeks(ANIMALS))


@sound("static embeddings of tokens, high rate, large batches")
def meters_by_static_embeddings(stage: Stage) -> None:
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import StaticEmbedding

    from tests.judgement.first.bodies import tokenizer_of

    tokenizer = tokenizer_of(words(METERS)).backend_tokenizer
    table = StaticEmbedding(tokenizer, embedding_dim=64)
    trainer = stage.trainer(
        ranked, METERS.table(480), SentenceTransformer(modules=[table], device="cpu"),
        max_steps=40, per_device_train_batch_size=64, learning_rate=0.1,
    )  # fmt: skip
    learns(stage, trainer, seeks(METERS))


@sound("layers of an encoder for each side behind a router")
def queries_routed_to_two_encoders(stage: Stage) -> None:
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Router

    question = student(stage, QUERIES, name="question", layers=1)
    statement = student(stage, QUERIES, name="statement", seed=4)
    router = Router.for_query_document(
        query_modules=list(question), document_modules=list(statement)
    )
    trainer = stage.trainer(
        ranked, QUERIES.table(320), SentenceTransformer(modules=[router], device="cpu"),
        max_steps=60, learning_rate=2e-3, per_device_train_batch_size=24,
        router_mapping={"question": "query", "sql": "document"},
    )  # fmt: skip
    learns(stage, trainer, routed)


def routed(model: Any) -> float:
    """How well statements are retrieved by questions, each by its own encoder."""
    from tests.judgement.truth import reciprocal_rank

    questions, statements = QUERIES.table(50, seed=11).values()
    return reciprocal_rank(
        model.encode_query(questions, show_progress_bar=False),
        model.encode_document(statements, show_progress_bar=False),
    )


@sound("accumulation over batches, Adafactor")
def haiku_accumulated_with_adafactor(stage: Stage) -> None:
    trainer = stage.trainer(
        ranked, HAIKU.table(256), student(stage, HAIKU), max_steps=30, learning_rate=4e-3,
        gradient_accumulation_steps=2, optim="adafactor", warmup_steps=3,
    )  # fmt: skip
    learns(stage, trainer, seeks(HAIKU))


@sound("epochs instead of steps, recomputed activations, cosine schedule")
def advisories_for_four_epochs(stage: Stage) -> None:
    trainer = stage.trainer(
        losses.MultipleNegativesSymmetricRankingLoss, FLAWS.table(384), student(stage, FLAWS),
        max_steps=-1, num_train_epochs=4, per_device_train_batch_size=32, learning_rate=3e-3,
        gradient_checkpointing=True, lr_scheduler_type="cosine",
    )  # fmt: skip
    learns(stage, trainer, seeks(FLAWS))


@sound("datasets of unequal size in proportion, one encoder")
def mails_and_plants_in_proportion(stage: Stage) -> None:
    from tests.judgement.first.bodies import encoder

    tables = {"mails": MAILS.table(320), "plants": PLANTS.table(160)}
    model = encoder(stage, words(MAILS, PLANTS))
    trainer = mixture(stage, ranked, tables, model, max_steps=60, learning_rate=2e-3)
    learns(stage, trainer, lambda model: (seeks(MAILS)(model) + seeks(PLANTS)(model)) / 2)


@sound("mean and maximum of the tokens side by side, unit length")
def vacancies_by_two_kinds_of_pooling(stage: Stage) -> None:
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Normalize, Pooling

    from tests.judgement.first.bodies import body

    modules = [body(stage, words(VACANCIES)), Pooling(48, ("mean", "max")), Normalize()]
    trainer = stage.trainer(
        losses.CachedMultipleNegativesSymmetricRankingLoss, VACANCIES.table(320),
        SentenceTransformer(modules=modules, device="cpu"), max_steps=40, learning_rate=2e-3,
        per_device_train_batch_size=32,
    )  # fmt: skip
    learns(stage, trainer, seeks(VACANCIES))
