"""Sound set-ups with a trainer: other encoders, optimisers, schedules and kinds of batches."""

from __future__ import annotations

from sentence_transformers.sentence_transformer import losses
from sentence_transformers.sentence_transformer.evaluation import TranslationEvaluator

from tests.judgement.case import sound
from tests.judgement.first.fields_of_reviews_and_cards import (
    GREEK,
    MINERALS,
    QUERIES,
    RUSSIAN,
    SHORT,
    of_field,
    seek,
)
from tests.judgement.first.loop_materials import ranking
from tests.judgement.stage import Stage
from tests.judgement.truth import learns


@sound("maximum of the tokens of long texts")
def maximum_of_tokens_of_long_entries(stage: Stage) -> None:
    trainer = stage.trainer(
        ranking, MINERALS.table(400), of_field(stage, MINERALS, pooling="max"),
        learning_rate=2e-3, max_steps=60, per_device_train_batch_size=16,
    )  # fmt: skip
    learns(stage, trainer, seek(MINERALS, 80))


@sound("translations with their evaluator")
def greek_forecasts_with_a_translation_evaluator(stage: Stage) -> None:
    held_out = GREEK.table(40, seed=3)
    evaluator = TranslationEvaluator(*held_out.values(), name="greek", show_progress_bar=False)
    trainer = stage.trainer(
        losses.MultipleNegativesSymmetricRankingLoss, GREEK.table(300),
        of_field(stage, GREEK, kind="distilbert"), learning_rate=2e-3, num_train_epochs=3,
        max_steps=-1, evaluator=evaluator, eval_strategy="epoch",
    )  # fmt: skip
    learns(stage, trainer, seek(GREEK))


@sound("one layer, no dropout, Adafactor")
def one_layer_without_dropout_by_adafactor(stage: Stage) -> None:
    trainer = stage.trainer(
        ranking, SHORT.table(400), of_field(stage, SHORT, layers=1, dropout=0.0),
        optim="adafactor", learning_rate=5e-3, max_steps=60, per_device_train_batch_size=20,
    )  # fmt: skip
    learns(stage, trainer, seek(SHORT))


@sound("decoder with the mean of its tokens")
def decoder_with_the_mean_of_its_tokens(stage: Stage) -> None:
    model = of_field(stage, RUSSIAN, kind="granite", pooling="mean")
    trainer = stage.trainer(
        ranking, RUSSIAN.table(320), model, learning_rate=2e-3, max_steps=60,
        warmup_steps=10, lr_scheduler_type="cosine", max_grad_norm=1.0,
    )  # fmt: skip
    learns(stage, trainer, seek(RUSSIAN))


@sound("cached ranking in two directions")
def cached_symmetric_ranking_of_queries(stage: Stage) -> None:
    trainer = stage.trainer(
        lambda model: losses.CachedMultipleNegativesSymmetricRankingLoss(model, mini_batch_size=32),
        QUERIES.table(480), of_field(stage, QUERIES), learning_rate=3e-3, max_steps=24,
        per_device_train_batch_size=96, batch_sampler="no_duplicates",
    )  # fmt: skip
    learns(stage, trainer, seek(QUERIES, 80))
