"""Sound set-ups: adapters, precision, prompts, routes, mixtures and checkpoints with a trainer."""

from __future__ import annotations

from typing import Any

import torch

from tests.judgement.case import sound
from tests.judgement.first.bodies import body, encoder, tokenizer_of
from tests.judgement.first.fields_of_orders_and_mails import (
    BIRDS,
    CHEMISTRY,
    HINDI,
    MAILS,
    METERS,
    MUSEUM,
    RUSSIAN,
    SHELL,
    TENNIS,
    fresh,
    near_texts,
    seeker,
    with_near,
    words_of_field,
)
from tests.judgement.first.turns import warmed
from tests.judgement.stage import Stage
from tests.judgement.truth import learns, reciprocal_rank
from tests.sentence_training import losses


@sound(
    "low-rank adapters on an encoder that was trained before",
    allowed={r"saved model": "The base was tuned before, and is not saved with its adapter."},
)
def adapters_on_a_trained_encoder_of_meters(stage: Stage) -> None:
    from peft import LoraConfig, TaskType

    model = warmed(fresh(stage, METERS), METERS.table(400, seed=2), 5)
    model.add_adapter(LoraConfig(
        task_type=TaskType.FEATURE_EXTRACTION, r=8, lora_alpha=16, lora_dropout=0.05,
        target_modules=["query", "key", "value", "intermediate.dense", "output.dense"],
    ))  # fmt: skip
    trainer = stage.trainer(
        losses.MultipleNegativesRankingLoss, METERS.table(400), model, learning_rate=5e-3,
        max_steps=80, per_device_train_batch_size=32,
    )  # fmt: skip
    learns(stage, trainer, seeker(METERS))


@sound("bfloat16 with accumulation")
def half_precision_of_translations_with_accumulation(stage: Stage) -> None:
    trainer = stage.trainer(
        losses.MultipleNegativesRankingLoss, RUSSIAN.table(400), fresh(stage, RUSSIAN),
        bf16=True, gradient_accumulation_steps=2, learning_rate=2e-3, max_steps=50,
        per_device_train_batch_size=32,
    )  # fmt: skip
    learns(stage, trainer, seeker(RUSSIAN))


@sound("prompts for each column")
def prompts_for_questions_and_protocols(stage: Stage) -> None:
    prompts = {"question": "search for : ", "protocol": "document : "}
    model = fresh(
        stage, CHEMISTRY, words=list(prompts.values()),
        prompts={"query": "search for : ", "document": "document : "},
    )  # fmt: skip
    trainer = stage.trainer(
        losses.MultipleNegativesRankingLoss, CHEMISTRY.table(400), model, prompts=prompts,
        learning_rate=2e-3, max_steps=60, per_device_train_batch_size=24,
    )  # fmt: skip
    learns(stage, trainer, lambda encoder: CHEMISTRY.sought(
        encoder, 60, prompts=tuple(prompts.values())
    ))  # fmt: skip


@sound("routes of queries and of documents")
def routes_of_visitors_and_cards(stage: Stage) -> None:
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Pooling, Router

    words = words_of_field(MUSEUM)
    router = Router.for_query_document(
        [body(stage, words, name="queries", layers=1), Pooling(48, pooling_mode="mean")],
        [body(stage, words, name="documents", seed=4), Pooling(48, pooling_mode="mean")],
    )
    held = MUSEUM.table(60, seed=11)

    def score(model: Any) -> float:
        return reciprocal_rank(
            model.encode_query(held["visitor"], show_progress_bar=False),
            model.encode_document(held["card"], show_progress_bar=False),
        )

    trainer = stage.trainer(
        losses.MultipleNegativesRankingLoss, MUSEUM.table(400),
        SentenceTransformer(modules=[router], device="cpu"),
        router_mapping={"visitor": "query", "card": "document"}, learning_rate=2e-3,
        max_steps=80, per_device_train_batch_size=32,
    )  # fmt: skip
    learns(stage, trainer, score)


@sound("static embeddings without a transformer")
def static_embeddings_of_commands(stage: Stage) -> None:
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import StaticEmbedding

    torch.manual_seed(3)
    words = StaticEmbedding(tokenizer_of(words_of_field(SHELL)), embedding_dim=64)
    trainer = stage.trainer(
        losses.MultipleNegativesRankingLoss, SHELL.table(400),
        SentenceTransformer(modules=[words], device="cpu"), learning_rate=5e-2, max_steps=90,
        per_device_train_batch_size=64, batch_sampler="no_duplicates",
    )  # fmt: skip
    learns(stage, trainer, seeker(SHELL))


@sound("best checkpoint loaded at the end")
def best_checkpoint_of_mails(stage: Stage) -> None:
    from datasets import Dataset

    trainer = stage.trainer(
        losses.MultipleNegativesRankingLoss, MAILS.table(320), fresh(stage, MAILS),
        eval_dataset=Dataset.from_dict(MAILS.table(64, seed=21)), eval_strategy="steps",
        eval_steps=25, save_strategy="steps", save_steps=25, save_total_limit=1,
        load_best_model_at_end=True, metric_for_best_model="eval_loss", learning_rate=2e-3,
        max_steps=75, per_device_eval_batch_size=32,
    )  # fmt: skip
    learns(stage, trainer, seeker(MAILS))


def _mixed(stage: Stage, model: Any, tables: Any, mixture: Any, **arguments: Any) -> Any:
    """A trainer of several datasets, each with its loss."""
    from datasets import Dataset
    from sentence_transformers import (
        SentenceTransformerTrainer,
        SentenceTransformerTrainingArguments,
    )

    settings = {
        "output_dir": str(stage.folder / "run"), "max_steps": 80, "learning_rate": 2e-3,
        "per_device_train_batch_size": 16, "warmup_steps": 8, "seed": 7, "use_cpu": True,
        "report_to": "none", "save_strategy": "no", "logging_steps": 10, "disable_tqdm": True,
    }  # fmt: skip
    return SentenceTransformerTrainer(
        model=model,
        args=SentenceTransformerTrainingArguments(**{**settings, **arguments}),
        train_dataset={name: Dataset.from_dict(table) for name, table in tables.items()},
        loss=mixture,
    )


@sound("two datasets with a loss each")
def mixture_of_pairs_and_grades_of_sightings(stage: Stage) -> None:
    model = fresh(stage, BIRDS)
    trainer = _mixed(
        stage, model, {"pairs": BIRDS.table(400), "grades": BIRDS.graded(300, seed=2)},
        {"pairs": losses.MultipleNegativesRankingLoss(model), "grades": losses.CoSENTLoss(model)},
        multi_dataset_batch_sampler="round_robin",
    )  # fmt: skip
    learns(stage, trainer, seeker(BIRDS))


@sound("datasets of two languages in proportion to their sizes")
def mixture_of_russian_and_hindi_in_proportion(stage: Stage) -> None:
    model = encoder(stage, [*words_of_field(RUSSIAN), *words_of_field(HINDI)], width=64)
    trainer = _mixed(
        stage, model, {"russian": RUSSIAN.table(480), "hindi": HINDI.table(240)},
        losses.MultipleNegativesRankingLoss(model), multi_dataset_batch_sampler="proportional",
        per_device_train_batch_size=24, max_steps=90,
    )  # fmt: skip
    learns(stage, trainer, lambda tuned: (
        seeker(RUSSIAN, 40)(tuned) + seeker(HINDI, 40)(tuned)
    ) / 2)  # fmt: skip


@sound("two hard negatives for each row")
def ticker_lines_with_two_hard_negatives(stage: Stage) -> None:
    table = with_near(TENNIS, 400, slot=0)
    table = {**table, "negative_2": near_texts(TENNIS, 400, slot=1)}
    trainer = stage.trainer(
        losses.MultipleNegativesRankingLoss, table, fresh(stage, TENNIS, kind="distilbert"),
        learning_rate=2e-3, max_steps=80, per_device_train_batch_size=16,
        gradient_checkpointing=True, lr_scheduler_type="polynomial",
    )  # fmt: skip
    learns(stage, trainer, seeker(TENNIS))


@sound("two poolings joined, reduced by a dense module")
def dense_head_on_joined_poolings_of_commands(stage: Stage) -> None:
    from sentence_transformers.sentence_transformer.modules import Dense

    torch.manual_seed(5)
    head = Dense(96, 32, activation_function=torch.nn.Tanh())
    trainer = stage.trainer(
        losses.MultipleNegativesRankingLoss, SHELL.table(400),
        fresh(stage, SHELL, head, pooling=("mean", "max")), learning_rate=2e-3,
        optim="adafactor", num_train_epochs=4, max_steps=-1, per_device_train_batch_size=20,
    )  # fmt: skip
    learns(stage, trainer, seeker(SHELL))
