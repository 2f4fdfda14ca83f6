"""Sound trainers that vary precision, adapters, schedules, mixtures, guides and teachers."""

from __future__ import annotations

from typing import Any

import torch
from sentence_transformers.sentence_transformer import evaluation, losses

from tests.judgement.case import sound
from tests.judgement.first.turns import warmed
from tests.judgement.held_out.i_fields import (
    CHEMISTRY,
    GARDEN,
    HINDI,
    JOBS,
    MAILS,
    MUSEUM,
    RUSSIAN,
    SQL,
    TRACES,
    decoys,
    small,
    spoken,
)
from tests.judgement.stage import Stage
from tests.judgement.truth import learns


@sound("ranking with a guide against false negatives")
def exhibits_with_a_guide(stage: Stage) -> None:
    guide = warmed(small(stage, MUSEUM, name="guide", seed=5), MUSEUM.table(300), steps=40)

    def guided(model: Any) -> Any:
        return losses.GISTEmbedLoss(model, guide, temperature=0.05)

    table = MUSEUM.table(320) | {"negative": decoys(MUSEUM, 320)}
    trainer = stage.trainer(
        guided, table, small(stage, MUSEUM), learning_rate=2e-3, max_steps=50,
    )  # fmt: skip
    learns(stage, trainer, MUSEUM.sought)


@sound("half precision by bf16")
def garden_hints_in_half_precision(stage: Stage) -> None:
    trainer = stage.trainer(
        losses.MultipleNegativesRankingLoss, GARDEN.table(320), small(stage, GARDEN), bf16=True,
        learning_rate=2e-3, max_steps=60, per_device_train_batch_size=24,
    )  # fmt: skip
    learns(stage, trainer, GARDEN.sought)


@sound(
    "low-rank adapter on an encoder that is trained already",
    allowed={r"saved model": "The base was tuned before, and is not saved with its adapter."},
)
def adapter_for_queries_of_tables(stage: Stage) -> None:
    from peft import LoraConfig

    model = warmed(small(stage, SQL), SQL.table(200, seed=8), steps=5)
    model.add_adapter(LoraConfig(
        r=8, lora_alpha=16, lora_dropout=0.05, target_modules=["query", "key", "value", "dense"],
        task_type="FEATURE_EXTRACTION",
    ))  # fmt: skip
    trainer = stage.trainer(
        losses.MultipleNegativesRankingLoss, SQL.table(320), model, learning_rate=5e-3,
        max_steps=80,
    )  # fmt: skip
    learns(stage, trainer, SQL.sought)


@sound("accumulated batches, weight decay and a cosine schedule")
def mails_in_accumulated_batches(stage: Stage) -> None:
    trainer = stage.trainer(
        losses.MultipleNegativesRankingLoss, MAILS.table(320), small(stage, MAILS, layers=3),
        gradient_accumulation_steps=2, weight_decay=0.05, lr_scheduler_type="cosine",
        learning_rate=2e-3, max_steps=40, warmup_steps=8,
    )  # fmt: skip
    learns(stage, trainer, MAILS.sought)


@sound("distilbert with whole epochs and a constant rate")
def hindi_in_epochs_with_a_distilbert(stage: Stage) -> None:
    table = HINDI.table(320)
    trial = HINDI.table(40, seed=5)
    evaluator = evaluation.TranslationEvaluator(
        trial["hindi"], trial["english"], write_csv=False, show_progress_bar=False
    )
    trainer = stage.trainer(
        losses.MultipleNegativesSymmetricRankingLoss, table,
        small(stage, HINDI, kind="distilbert"), max_steps=-1, num_train_epochs=4,
        per_device_train_batch_size=20, learning_rate=2e-3, lr_scheduler_type="constant",
        warmup_steps=0, evaluator=evaluator, eval_strategy="epoch",
    )  # fmt: skip
    learns(stage, trainer, HINDI.sought)


@sound("mixture of two data sets")
def issues_and_adverts_together(stage: Stage) -> None:
    from datasets import Dataset
    from sentence_transformers import SentenceTransformerTrainer

    traces, adverts = TRACES.table(300), JOBS.table(300)
    issues = {"query": traces["issue"], "document": traces["trace"]}
    postings = {"query": adverts["query"], "document": adverts["posting"]}
    model = small(stage, TRACES, words=spoken(JOBS))
    settings = stage.trainer(
        losses.MultipleNegativesRankingLoss, issues, model, learning_rate=2e-3, max_steps=90,
        per_device_train_batch_size=24, multi_dataset_batch_sampler="proportional",
    ).args  # fmt: skip
    trainer = SentenceTransformerTrainer(
        model=model, args=settings, loss=losses.MultipleNegativesRankingLoss(model),
        train_dataset={"issues": Dataset.from_dict(issues),
                       "postings": Dataset.from_dict(postings)},
    )  # fmt: skip
    learns(stage, trainer, lambda trained: (TRACES.sought(trained) + JOBS.sought(trained)) / 2)


@sound("rows of a teacher for texts in another language")
def pupil_of_a_teacher_in_russian(stage: Stage) -> None:
    table = RUSSIAN.table(400)
    teacher = warmed(small(stage, RUSSIAN, name="teacher", seed=5), RUSSIAN.table(400), steps=50)
    rows = teacher.encode(table["translation"], show_progress_bar=False)
    texts = {"source": table["source"], "translation": table["translation"],
             "label": torch.tensor(rows).tolist()}  # fmt: skip
    trainer = stage.trainer(
        losses.MSELoss, texts, small(stage, RUSSIAN), learning_rate=3e-3, max_steps=100,
        per_device_train_batch_size=32,
    )  # fmt: skip
    learns(stage, trainer, RUSSIAN.sought)


@sound("large margin in mega batches")
def protocols_in_mega_batches(stage: Stage) -> None:
    def mega(model: Any) -> Any:
        return losses.MegaBatchMarginLoss(model, mini_batch_size=16, positive_margin=0.8,
                                          negative_margin=0.3)  # fmt: skip

    trainer = stage.trainer(
        mega, CHEMISTRY.table(400), small(stage, CHEMISTRY), learning_rate=3e-3, max_steps=50,
        per_device_train_batch_size=64,
    )  # fmt: skip
    learns(stage, trainer, CHEMISTRY.sought)


@sound("layers of the encoder dropped at random, nested widths")
def adverts_in_fewer_layers_and_widths(stage: Stage) -> None:
    def nested(model: Any) -> Any:
        inner = losses.MultipleNegativesRankingLoss(model)
        return losses.Matryoshka2dLoss(model, inner, matryoshka_dims=[48, 24])

    trainer = stage.trainer(
        nested, JOBS.table(320), small(stage, JOBS, layers=3), learning_rate=2e-3, max_steps=50,
    )  # fmt: skip
    learns(stage, trainer, JOBS.sought)
