"""Sound set-ups: trainers with teachers, adapters, prompts, mixtures and encoders of kinds."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from tests.judgement.case import sound
from tests.judgement.first import fields_of_wishes_and_mails as fields
from tests.judgement.first.bodies import body, encoder, tokenizer_of, words_of
from tests.judgement.first.turns import warmed
from tests.judgement.stage import Stage
from tests.judgement.truth import learns
from tests.sentence_training import losses


def ranking(model: Any) -> Any:
    return losses.MultipleNegativesRankingLoss(model)


def teacher_of(stage: Stage, field: Any, steps: int = 50, width: int = 48) -> Any:
    """A larger encoder that has learned to find the texts of a field."""
    teacher = fields.encoder_of(stage, field, name="teacher", width=width, seed=8)
    return warmed(teacher, field.table(340), steps=steps)


def rows_of(teacher: Any, texts: list[str]) -> Tensor:
    return teacher.encode(texts, show_progress_bar=False, convert_to_tensor=True)


def _scores(teacher: Any, table: dict[str, list[str]]) -> list[Tensor]:
    """The teacher's cosines of the first column with each further one."""
    first, *further = (rows_of(teacher, texts) for texts in table.values())
    return [10 * torch.cosine_similarity(first, rows) for rows in further]


@sound("embeddings of a teacher")
def student_of_both_wordings(stage: Stage) -> None:
    """The student's texts of either column are drawn to the teacher's embeddings of the first."""
    pairs = fields.GREEK.table(340)
    teacher = teacher_of(stage, fields.GREEK)
    targets = rows_of(teacher, pairs["greek"]).tolist()
    table = {
        "text": [*pairs["greek"], *pairs["english"]],
        "label": [*targets, *targets],
    }
    model = fields.encoder_of(stage, fields.GREEK, layers=1)
    trainer = stage.trainer(
        losses.MSELoss, table, model, learning_rate=3e-3, max_steps=90,
        per_device_train_batch_size=32,
    )  # fmt: skip
    learns(stage, trainer, fields.GREEK.sought)


@sound("margins of a teacher")
def margins_of_sql_queries(stage: Stage) -> None:
    table: dict[str, Any] = fields.triplets(fields.SQL, 330, slots=(0,))
    positive, negative = _scores(teacher_of(stage, fields.SQL), table)
    table["label"] = (positive - negative).tolist()
    model = fields.encoder_of(stage, fields.SQL)
    trainer = stage.trainer(
        losses.MarginMSELoss, table, model, learning_rate=3e-3, max_steps=110,
        per_device_train_batch_size=32,
    )  # fmt: skip
    learns(stage, trainer, fields.SQL.sought)


@sound("distribution of a teacher's scores")
def scores_distilled_by_divergence(stage: Stage) -> None:
    table: dict[str, Any] = fields.triplets(fields.RUSSIAN, 330, slots=(0, 1, 2))
    scores = _scores(teacher_of(stage, fields.RUSSIAN), table)
    table["label"] = torch.stack(scores, 1).tolist()
    model = fields.encoder_of(stage, fields.RUSSIAN)
    trainer = stage.trainer(
        losses.DistillKLDivLoss, table, model, learning_rate=2e-3, max_steps=90,
        per_device_train_batch_size=24,
    )  # fmt: skip
    learns(stage, trainer, fields.RUSSIAN.sought)


@sound(
    "low-rank adapters",
    allowed={r"saved model": "The base was tuned before, and is not saved with its adapter."},
)
def adapter_on_a_pretrained_body(stage: Stage) -> None:
    from peft import LoraConfig, TaskType

    pairs = fields.MAILS.table(400)
    model = fields.encoder_of(stage, fields.MAILS)
    warmed(model, {name: cells[:60] for name, cells in pairs.items()}, steps=8)
    model.add_adapter(LoraConfig(
        task_type=TaskType.FEATURE_EXTRACTION, r=8, lora_alpha=32, lora_dropout=0.05,
        target_modules=["query", "key", "value", "dense"],
    ))  # fmt: skip
    table = {name: cells[60:] for name, cells in pairs.items()}
    trainer = stage.trainer(
        ranking, table, model, learning_rate=8e-3, max_steps=70, per_device_train_batch_size=32
    )
    learns(stage, trainer, fields.MAILS.sought)


@sound("prompts for queries and documents")
def prompts_by_column(stage: Stage) -> None:
    prompts = {"title": "query : ", "abstract": "document : "}
    model = fields.encoder_of(stage, fields.STARS)
    trainer = stage.trainer(
        ranking, fields.STARS.table(320), model, learning_rate=2e-3, max_steps=60,
        per_device_train_batch_size=32, prompts=prompts,
    )  # fmt: skip
    ask = fields.sought(fields.STARS.table, prompts=(*prompts.values(),))
    learns(stage, trainer, ask)


@sound("decoder with its last token")
def decoder_by_the_last_token(stage: Stage) -> None:
    model = fields.encoder_of(stage, fields.FLIGHTS, kind="granite", pooling="lasttoken")
    trainer = stage.trainer(
        ranking, fields.FLIGHTS.table(340), model, learning_rate=2e-3, max_steps=70,
        per_device_train_batch_size=32,
    )  # fmt: skip
    learns(stage, trainer, fields.FLIGHTS.sought)


@sound("dense head and unit length")
def dense_head_of_tales(stage: Stage) -> None:
    from sentence_transformers.sentence_transformer.modules import Dense, Normalize

    table = fields.tales(330)
    torch.manual_seed(2)
    behind = (Dense(64, 24, activation_function=torch.nn.Tanh()), Normalize())
    model = encoder(stage, words_of([table, fields.tales(60, 11)]), *behind, width=64)
    trainer = stage.trainer(
        ranking, table, model, learning_rate=2e-3, max_steps=70, per_device_train_batch_size=24,
        batch_sampler="no_duplicates",
    )  # fmt: skip
    learns(stage, trainer, fields.sought(fields.tales))


@sound("vectors of words without layers")
def static_vectors_of_weather(stage: Stage) -> None:
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import StaticEmbedding

    tokenizer = tokenizer_of(fields.vocabulary(fields.WEATHER)).backend_tokenizer
    torch.manual_seed(5)
    model = SentenceTransformer(
        modules=[StaticEmbedding(tokenizer, embedding_dim=64)], device="cpu"
    )
    trainer = stage.trainer(
        ranking, fields.WEATHER.table(340), model, learning_rate=5e-2, max_steps=80,
        per_device_train_batch_size=48, batch_sampler="no_duplicates",
    )  # fmt: skip
    learns(stage, trainer, fields.WEATHER.sought)


@sound("mixture of datasets with a loss for each")
def mixture_of_pairs_and_grades(stage: Stage) -> None:
    from datasets import Dataset
    from sentence_transformers import (
        SentenceTransformerTrainer,
        SentenceTransformerTrainingArguments,
    )

    model = encoder(
        stage, [*fields.vocabulary(fields.CODE), *fields.vocabulary(fields.CHESS)], width=48
    )
    tables = {"code": fields.CODE.table(300), "chess": fields.CHESS.graded(300)}
    trainer = SentenceTransformerTrainer(
        model=model,
        args=SentenceTransformerTrainingArguments(
            output_dir=str(stage.folder / "run"), max_steps=80, per_device_train_batch_size=24,
            learning_rate=2e-3, warmup_steps=6, seed=7, use_cpu=True, report_to="none",
            save_strategy="no", logging_steps=10, disable_tqdm=True,
            multi_dataset_batch_sampler="round_robin",
        ),
        train_dataset={name: Dataset.from_dict(table) for name, table in tables.items()},
        loss={"code": ranking(model), "chess": losses.CoSENTLoss(model)},
    )  # fmt: skip
    learns(stage, trainer, fields.CODE.sought)


@sound("two towers of different sizes")
def towers_for_adverts_and_profiles(stage: Stage) -> None:
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Pooling, Router

    texts = fields.vocabulary(fields.JOBS)
    towers = {
        name: [body(stage, texts, name=name, width=32, layers=layers, seed=layers), Pooling(32)]
        for name, layers in (("query", 1), ("document", 2))
    }
    model = SentenceTransformer(
        modules=[Router.for_query_document(towers["query"], towers["document"])], device="cpu"
    )
    trainer = stage.trainer(
        ranking, _adverts(360, 0), model, learning_rate=4e-3, max_steps=90,
        per_device_train_batch_size=32,
        router_mapping={"advert": "query", "profile": "document"},
    )  # fmt: skip
    learns(stage, trainer, _found_by_towers)


def _adverts(count: int, seed: int) -> dict[str, list[str]]:
    return dict(list(fields.JOBS.table(count, seed).items())[:2])


def _found_by_towers(model: Any) -> float:
    from tests.judgement.truth import reciprocal_rank

    adverts, profiles = _adverts(60, 11).values()
    return reciprocal_rank(
        model.encode_query(adverts, show_progress_bar=False),
        model.encode_document(profiles, show_progress_bar=False),
    )
