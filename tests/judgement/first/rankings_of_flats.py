"""Sound trainers of ranking losses: batches, schedules, encoders and evaluators of many kinds."""

from __future__ import annotations

from typing import Any

from tests.judgement.case import sound
from tests.judgement.first import fields_of_flats_and_threads as fields
from tests.judgement.first.fields_of_flats_and_threads import held_out, of, two, with_negatives
from tests.judgement.first.turns import warmed
from tests.judgement.stage import Stage
from tests.judgement.truth import learns, retrieval
from tests.sentence_training import losses


def searches(field: Any, count: int = 40, **options: Any) -> Any:
    """An evaluator that seeks held-out texts among each other."""
    from sentence_transformers.sentence_transformer.evaluation import InformationRetrievalEvaluator

    first, second = two(field.table(count, seed=13)).values()
    return InformationRetrievalEvaluator(
        {f"q{at}": text for at, text in enumerate(first)},
        {f"d{at}": text for at, text in enumerate(second)},
        {f"q{at}": {f"d{at}"} for at in range(count)},
        show_progress_bar=False, **options,
    )  # fmt: skip


@sound("retrieval measured in training")
def statements_for_questions_with_search_in_training(stage: Stage) -> None:
    field = fields.SQL
    trainer = stage.trainer(
        losses.MultipleNegativesRankingLoss, field.table(320), of(stage, field),
        evaluator=searches(field), eval_strategy="steps", eval_steps=20, max_steps=60,
        per_device_train_batch_size=32, learning_rate=2e-3, lr_scheduler_type="cosine",
        batch_sampler="no_duplicates",
    )  # fmt: skip
    learns(stage, trainer, held_out(field))


@sound("cached ranking of a large batch")
def cached_ranking_of_syntheses(stage: Stage) -> None:
    field = fields.CHEMISTRY
    trainer = stage.trainer(
        lambda model: losses.CachedMultipleNegativesRankingLoss(model, mini_batch_size=32),
        field.table(400), of(stage, field), max_steps=36, per_device_train_batch_size=96,
        learning_rate=3e-3, batch_sampler="no_duplicates",
    )  # fmt: skip
    learns(stage, trainer, held_out(field))


@sound("symmetric ranking of two languages, pooled from the first token")
def symmetric_ranking_of_the_english_and_russian(stage: Stage) -> None:
    field = fields.RUSSIAN
    trainer = stage.trainer(
        losses.MultipleNegativesSymmetricRankingLoss, field.table(300),
        of(stage, field, pooling="cls", spread=0.05), max_steps=110,
        per_device_train_batch_size=32, learning_rate=3e-3, weight_decay=0.01, warmup_steps=8,
    )  # fmt: skip
    learns(stage, trainer, held_out(field))


@sound("cached symmetric ranking with a validation loss")
def cached_symmetric_ranking_of_mails(stage: Stage) -> None:
    from datasets import Dataset

    field = fields.MAILS
    trainer = stage.trainer(
        lambda model: losses.CachedMultipleNegativesSymmetricRankingLoss(model, mini_batch_size=24),
        field.table(360), of(stage, field), max_steps=40, per_device_train_batch_size=48,
        per_device_eval_batch_size=24, learning_rate=2e-3, eval_strategy="steps", eval_steps=20,
        eval_dataset=Dataset.from_dict(field.table(48, seed=13)),
    )  # fmt: skip
    learns(stage, trainer, held_out(field))


@sound("hard negatives beside those of the batch, with triplet accuracy")
def flats_with_hard_negatives_and_triplet_accuracy(stage: Stage) -> None:
    from sentence_transformers.sentence_transformer.evaluation import TripletEvaluator

    field = fields.FLATS
    first, second, third = with_negatives(field, 40, slot=1, seed=13).values()
    trainer = stage.trainer(
        losses.MultipleNegativesRankingLoss, with_negatives(field, 300, slot=1),
        of(stage, field), evaluator=TripletEvaluator(first, second, third),
        eval_strategy="steps", eval_steps=15, max_steps=45, per_device_train_batch_size=24,
        learning_rate=2e-3,
    )  # fmt: skip
    learns(stage, trainer, held_out(field))


@sound("guide that filters negatives")
def guided_ranking_of_reports(stage: Stage) -> None:
    field = fields.WEATHER
    guide = warmed(of(stage, field, name="guide", seed=5), field.table(300), steps=40)
    trainer = stage.trainer(
        lambda model: losses.GISTEmbedLoss(model, guide, temperature=0.05), field.table(300),
        of(stage, field), max_steps=60, per_device_train_batch_size=32, learning_rate=2e-3,
    )  # fmt: skip
    learns(stage, trainer, held_out(field))


@sound("nested dimensions")
def nested_dimensions_of_tickets(stage: Stage) -> None:
    field = fields.TRACES
    trainer = stage.trainer(
        lambda model: losses.MatryoshkaLoss(
            model, losses.MultipleNegativesRankingLoss(model), [64, 32, 16]
        ),
        field.table(320), of(stage, field, width=64), max_steps=60,
        per_device_train_batch_size=32, learning_rate=2e-3,
        lr_scheduler_type="constant_with_warmup",
    )  # fmt: skip
    learns(stage, trainer, held_out(field))


@sound("prompts for queries and documents")
def prompts_of_wishes_and_adverts(stage: Stage) -> None:
    from tests.judgement.first.bodies import encoder

    field, prompts = fields.TAGS, {"query": "find : ", "document": "tagged : "}
    model = encoder(stage, [*fields.lexicon(field), *prompts.values()], prompts=prompts)
    table = two(field.table(60, seed=11))
    trainer = stage.trainer(
        losses.MultipleNegativesRankingLoss, field.table(320), model, max_steps=60,
        per_device_train_batch_size=32, learning_rate=2e-3,
        prompts={"post": prompts["query"], "tags": prompts["document"]},
    )  # fmt: skip
    learns(stage, trainer, lambda model: retrieval(model, table, prompts=tuple(prompts.values())))


@sound("decoder pooled from the last token")
def decoder_of_sums_in_words(stage: Stage) -> None:
    field = fields.SUMS
    trainer = stage.trainer(
        losses.MultipleNegativesRankingLoss, field.table(400),
        of(stage, field, kind="granite", pooling="lasttoken"), max_steps=80,
        per_device_train_batch_size=32, learning_rate=3e-3, max_grad_norm=1.0,
        lr_scheduler_type="cosine", warmup_steps=8,
    )  # fmt: skip
    learns(stage, trainer, held_out(field))
