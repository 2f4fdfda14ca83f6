"""Sound set-ups: ranking losses with the trainer, over pairs and triplets of several fields."""

from __future__ import annotations

from typing import Any

import torch

from tests.judgement.case import sound
from tests.judgement.held_out.g_fields import (
    BADGES,
    BIRDS,
    JOBS,
    LIBRARY,
    MAILS,
    MARKET,
    QUERIES,
    REACTIONS,
    STATUTES,
    messy,
    reader,
    unseen,
)
from tests.judgement.stage import Stage
from tests.judgement.truth import learns
from tests.sentence_training import evaluation, losses


def retriever(field: Any, seed: int = 13, count: int = 50) -> Any:
    """An evaluator of retrieval among rows of a field that are not in training."""
    first, second = list(field.table(count, seed).values())[:2]
    return evaluation.InformationRetrievalEvaluator(
        {f"q{row}": text for row, text in enumerate(first)},
        {f"d{row}": text for row, text in enumerate(second)},
        {f"q{row}": {f"d{row}"} for row in range(count)},
        write_csv=False,
    )


@sound("evaluator of retrieval during training")
def lab_journal_with_retrieval_evaluator(stage: Stage) -> None:
    trainer = stage.trainer(
        losses.MultipleNegativesRankingLoss, REACTIONS.table(400), reader(stage, REACTIONS),
        learning_rate=2e-3, per_device_train_batch_size=32, max_steps=60,
        evaluator=retriever(REACTIONS), eval_strategy="steps", eval_steps=20,
        batch_sampler="no_duplicates",
    )  # fmt: skip
    learns(stage, trainer, unseen(REACTIONS))


@sound("symmetric ranking loss, two languages")
def russian_market_in_both_directions(stage: Stage) -> None:
    trainer = stage.trainer(
        losses.MultipleNegativesSymmetricRankingLoss, MARKET.table(320), reader(stage, MARKET),
        learning_rate=2e-3, per_device_train_batch_size=24, max_steps=60,
        lr_scheduler_type="cosine",
    )  # fmt: skip
    learns(stage, trainer, unseen(MARKET))


@sound("gradient caching, large batches")
def mails_with_cached_ranking(stage: Stage) -> None:
    trainer = stage.trainer(
        lambda model: losses.CachedMultipleNegativesRankingLoss(model, mini_batch_size=32),
        MAILS.table(384), reader(stage, MAILS),
        learning_rate=3e-3, per_device_train_batch_size=64, max_steps=40,
        batch_sampler="no_duplicates",
    )  # fmt: skip
    learns(stage, trainer, unseen(MAILS))


@sound("hard negative beside each pair")
def statements_with_hard_negatives(stage: Stage) -> None:
    table = QUERIES.table(320)
    table["hard_negative"] = QUERIES.near(320, slot=1)
    trainer = stage.trainer(
        losses.MultipleNegativesRankingLoss, table, reader(stage, QUERIES),
        learning_rate=2e-3, per_device_train_batch_size=16, max_steps=60,
    )  # fmt: skip
    learns(stage, trainer, unseen(QUERIES))


@sound("Matryoshka sizes")
def vacancies_at_several_widths(stage: Stage) -> None:
    trainer = stage.trainer(
        lambda model: losses.MatryoshkaLoss(
            model, losses.MultipleNegativesRankingLoss(model), matryoshka_dims=[48, 24, 12]
        ),
        JOBS.table(320), reader(stage, JOBS),
        learning_rate=2e-3, per_device_train_batch_size=32, max_steps=60,
    )  # fmt: skip
    learns(stage, trainer, unseen(JOBS))


@sound("decoder with last-token pooling")
def statutes_by_last_token(stage: Stage) -> None:
    model = reader(stage, STATUTES, kind="granite", pooling="lasttoken", width=32)
    trainer = stage.trainer(
        losses.MultipleNegativesRankingLoss, STATUTES.table(300), model,
        learning_rate=3e-3, per_device_train_batch_size=24, max_steps=50, warmup_steps=5,
    )  # fmt: skip
    learns(stage, trainer, unseen(STATUTES))


@sound("prompts of queries and documents")
def birds_with_prompts(stage: Stage) -> None:
    prompts = {"query": "find : ", "document": "text : "}
    model = reader(stage, BIRDS, prompts=prompts)
    trainer = stage.trainer(
        losses.MultipleNegativesRankingLoss, BIRDS.table(320), model,
        learning_rate=2e-3, per_device_train_batch_size=32, max_steps=60,
        prompts={"sighting": prompts["query"], "entry": prompts["document"]},
    )  # fmt: skip
    learns(stage, trainer, lambda model: BIRDS.sought(model, 60, prompts=tuple(prompts.values())))


@sound("scripts without capitals, CLS pooling, small batches")
def japanese_titles_by_cls(stage: Stage) -> None:
    trainer = stage.trainer(
        losses.MultipleNegativesRankingLoss, LIBRARY.table(400),
        reader(stage, LIBRARY, pooling="cls", spread=0.1),
        learning_rate=2e-3, per_device_train_batch_size=16, max_steps=90,
    )  # fmt: skip
    learns(stage, trainer, unseen(LIBRARY))


@sound("very short texts, constant rate after warm-up")
def short_badges_at_constant_rate(stage: Stage) -> None:
    from sentence_transformers.sentence_transformer.modules import Normalize

    trainer = stage.trainer(
        losses.MultipleNegativesRankingLoss, BADGES.table(320),
        reader(stage, BADGES, Normalize(), pooling="max"),
        learning_rate=1.5e-3, per_device_train_batch_size=32, max_steps=70,
        lr_scheduler_type="constant_with_warmup", warmup_steps=7,
    )  # fmt: skip
    learns(stage, trainer, unseen(BADGES))


@sound("texts of mixed lengths with a dense head")
def rambling_replies_with_dense_head(stage: Stage) -> None:
    from sentence_transformers.sentence_transformer.modules import Dense

    torch.manual_seed(4)
    head = Dense(48, 32, activation_function=torch.nn.Identity())
    trainer = stage.trainer(
        losses.MultipleNegativesRankingLoss, messy(MAILS, 300), reader(stage, MAILS, head),
        learning_rate=2e-3, per_device_train_batch_size=20, max_steps=60,
        max_grad_norm=1.0, weight_decay=0.01,
    )  # fmt: skip
    learns(stage, trainer, unseen(MAILS))
