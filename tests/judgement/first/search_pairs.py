"""Sound set-ups: pairs of a question or title and its text, ranked in batches."""

from __future__ import annotations

from sentence_transformers.sentence_transformer import evaluation, losses, modules
from torch import nn

from tests.judgement.case import sound
from tests.judgement.first.everyday_fields import (
    DUPLICATES,
    HEADLINES,
    LISTINGS,
    VACANCIES,
)
from tests.judgement.first.expert_fields import DISCHARGES, PATENTS, SQL, STATUTES
from tests.judgement.first.field_rows import HELD_OUT
from tests.judgement.first.language_fields import RECIPES, WORKS
from tests.judgement.first.training_parts import encoder_of, ranking, trained_before
from tests.judgement.stage import Stage
from tests.judgement.truth import learns


@sound("duplicate questions, epochs and a cosine schedule")
def duplicate_questions_for_some_epochs(stage: Stage) -> None:
    """In-batch ranking of duplicates, which are all different; no row twice in a batch."""
    trainer = stage.trainer(
        ranking(), DUPLICATES.table(360), encoder_of(stage, DUPLICATES), max_steps=-1,
        num_train_epochs=6, per_device_train_batch_size=32, learning_rate=1e-3,
        lr_scheduler_type="cosine", batch_sampler="no_duplicates",
    )  # fmt: skip
    learns(stage, trainer, DUPLICATES.sought("question", "duplicate"))


@sound("queries of a shop, constant rate")
def shop_queries_at_a_constant_rate(stage: Stage) -> None:
    """Short queries and longer listings; AdamW at a constant rate after a warmup."""
    trainer = stage.trainer(
        ranking(scale=30.0), LISTINGS.table(400, "query", "listing"),
        encoder_of(stage, LISTINGS, width=64, layers=1), max_steps=80, learning_rate=1e-3,
        lr_scheduler_type="constant_with_warmup", warmup_steps=8, weight_decay=0.01,
    )  # fmt: skip
    learns(stage, trainer, LISTINGS.sought("query", "listing"))


@sound("large batches by a cached loss")
def leads_of_headlines_in_cached_batches(stage: Stage) -> None:
    """Batches of 64, embedded 16 rows at a time; gradients are those of the whole batch."""
    trainer = stage.trainer(
        lambda model: losses.CachedMultipleNegativesRankingLoss(model, mini_batch_size=16),
        HEADLINES.table(512), encoder_of(stage, HEADLINES), learning_rate=2e-3, max_steps=40,
        per_device_train_batch_size=64,
    )  # fmt: skip
    learns(stage, trainer, HEADLINES.sought("headline", "lead"))


@sound("prompts for questions and for sections")
def sections_of_statutes_with_two_prompts(stage: Stage) -> None:
    """Each column has its prompt in training and in use."""
    prompts = {"query": "query : ", "document": "passage : "}
    trainer = stage.trainer(
        ranking(), STATUTES.table(320, "question", "section"),
        encoder_of(stage, STATUTES, prompts=prompts), max_steps=80, learning_rate=1e-3,
        prompts={"question": prompts["query"], "section": prompts["document"]},
    )  # fmt: skip
    score = STATUTES.sought("question", "section", prompts=tuple(prompts.values()))
    learns(stage, trainer, score)


@sound("evaluator of retrieval, best weights kept")
def recipes_with_a_retrieval_evaluator(stage: Stage) -> None:
    """An evaluator ranks steps for titles of rows of its own, and the best weights are loaded."""
    watched = RECIPES.table(40, "title", "steps", seed=HELD_OUT + 2)
    evaluator = evaluation.InformationRetrievalEvaluator(
        {f"q{row}": title for row, title in enumerate(watched["title"])},
        {f"d{row}": steps for row, steps in enumerate(watched["steps"])},
        {f"q{row}": {f"d{row}"} for row in range(40)}, name="kitchen", show_progress_bar=False,
    )  # fmt: skip
    trainer = stage.trainer(
        ranking(), RECIPES.table(400), encoder_of(stage, RECIPES, dropout=0.05), max_steps=80,
        learning_rate=1e-3, per_device_train_batch_size=32, evaluator=evaluator,
        eval_strategy="steps", eval_steps=20, save_strategy="steps", save_steps=20,
        load_best_model_at_end=True, metric_for_best_model="eval_kitchen_cosine_ndcg@10",
    )  # fmt: skip
    learns(stage, trainer, RECIPES.sought("title", "steps"))


@sound("accumulated gradients")
def careers_for_vacancies_with_accumulation(stage: Stage) -> None:
    """Two batches of 16 for each step, gradients clipped at 0.5.

    Remark: accumulation adds no negatives: each row is ranked among its 16 only.
    """
    trainer = stage.trainer(
        ranking(), VACANCIES.table(400), encoder_of(stage, VACANCIES), max_steps=80,
        gradient_accumulation_steps=2, max_grad_norm=0.5, learning_rate=2e-3,
    )  # fmt: skip
    learns(stage, trainer, VACANCIES.sought("advert", "career"))


@sound("dense layer and normalised embeddings")
def captions_of_art_with_a_dense_head(stage: Stage) -> None:
    """Mean pooling, a dense layer to 24 dimensions, unit length; captions find their tags."""
    head = modules.Dense(48, 24, activation_function=nn.Identity())
    trainer = stage.trainer(
        ranking(), WORKS.table(400), encoder_of(stage, WORKS, head, modules.Normalize()),
        max_steps=80, learning_rate=1e-3, per_device_train_batch_size=32,
    )  # fmt: skip
    learns(stage, trainer, WORKS.sought("caption", "tags"))


@sound("long notes and short codes")
def codes_of_discharge_notes(stage: Stage) -> None:
    """Long notes are sought by terse codes; the notes fit the length that the encoder reads."""
    trainer = stage.trainer(
        ranking(), DISCHARGES.table(300, "codes", "note"), encoder_of(stage, DISCHARGES, length=80),
        max_steps=80, learning_rate=2e-3, per_device_train_batch_size=20,
    )  # fmt: skip
    learns(stage, trainer, DISCHARGES.sought("codes", "note"))


@sound("trained before, small rate")
def database_requests_after_a_first_training(stage: Stage) -> None:
    """An encoder that knows the field is tuned on at a small rate that falls to nought."""
    model = trained_before(stage, SQL, "request", "sql", steps=8)
    trainer = stage.trainer(
        ranking(), SQL.table(480), model, max_steps=100, learning_rate=4e-4,
        per_device_train_batch_size=32, warmup_steps=10,
    )  # fmt: skip
    learns(stage, trainer, SQL.sought("request", "sql"))


@sound("own temperature and weighted mean")
def claims_of_patents_by_a_weighted_mean(stage: Stage) -> None:
    """Later tokens weigh more in the mean; a temperature of 0.1 (scale 10)."""
    trainer = stage.trainer(
        ranking(scale=10.0), PATENTS.table(400),
        encoder_of(stage, PATENTS, pooling="weightedmean", kind="distilbert"), max_steps=80,
        learning_rate=1e-3, lr_scheduler_type="polynomial",
    )  # fmt: skip
    learns(stage, trainer, PATENTS.sought("title", "claim"))
