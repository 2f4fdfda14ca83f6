"""Sound set-ups with the trainer: ranking losses in many batches, schedules and precisions."""

from __future__ import annotations

from typing import Any

from sentence_transformers.sentence_transformer import losses
from sentence_transformers.sentence_transformer.evaluation import InformationRetrievalEvaluator

from tests.judgement.case import sound
from tests.judgement.first.bodies import encoder
from tests.judgement.first.fields_of_scripts_and_signs import (
    CHEMISTRY,
    JOBS,
    MAILS,
    MATCHES,
    METERS,
    RHYMES,
    SCRIPTS,
    SHELL,
    SHELVES,
    encoder_of,
    pairs_of,
    ragged_pairs,
    seeks,
    seeks_ragged,
    triplets_of,
    vocabulary,
)
from tests.judgement.first.turns import warmed
from tests.judgement.stage import Stage
from tests.judgement.truth import learns


def ranking(model: Any) -> Any:
    return losses.MultipleNegativesRankingLoss(model)


@sound("names and formulas in chemistry")
def formulas_sought_by_chemical_names(stage: Stage) -> None:
    trainer = stage.trainer(
        ranking, pairs_of(CHEMISTRY, 320), encoder_of(stage, CHEMISTRY), max_steps=70,
        per_device_train_batch_size=32, learning_rate=2e-3, batch_sampler="no_duplicates",
    )  # fmt: skip
    learns(stage, trainer, seeks(CHEMISTRY))


@sound("cached ranking in a large batch")
def cached_ranking_of_job_adverts(stage: Stage) -> None:
    trainer = stage.trainer(
        lambda model: losses.CachedMultipleNegativesRankingLoss(model, mini_batch_size=20),
        pairs_of(JOBS, 360), encoder_of(stage, JOBS, width=32), max_steps=36,
        per_device_train_batch_size=60, learning_rate=4e-3, lr_scheduler_type="cosine",
    )  # fmt: skip
    learns(stage, trainer, seeks(JOBS))


@sound("symmetric ranking over two scripts")
def symmetric_ranking_of_english_and_russian(stage: Stage) -> None:
    trainer = stage.trainer(
        lambda model: losses.MultipleNegativesSymmetricRankingLoss(model, scale=16.0),
        pairs_of(SCRIPTS, 300), encoder_of(stage, SCRIPTS), max_steps=80,
        per_device_train_batch_size=24, learning_rate=2e-3,
    )  # fmt: skip
    learns(stage, trainer, seeks(SCRIPTS))


@sound("guide that was trained on the same field")
def guided_ranking_of_headlines(stage: Stage) -> None:
    guide = warmed(encoder_of(stage, MATCHES, name="guide", seed=8), pairs_of(MATCHES, 240), 40)
    trainer = stage.trainer(
        lambda model: losses.GISTEmbedLoss(model, guide, temperature=0.05),
        pairs_of(MATCHES, 240), encoder_of(stage, MATCHES), max_steps=60,
        per_device_train_batch_size=20, learning_rate=2e-3, warmup_steps=6,
    )  # fmt: skip
    learns(stage, trainer, seeks(MATCHES))


@sound("Matryoshka around ranking, with weights")
def nested_sizes_for_shelf_marks(stage: Stage) -> None:
    trainer = stage.trainer(
        lambda model: losses.MatryoshkaLoss(
            model, ranking(model), matryoshka_dims=[48, 24, 12], matryoshka_weights=[1, 1, 0.5]
        ),
        pairs_of(SHELVES, 320), encoder_of(stage, SHELVES), max_steps=70,
        per_device_train_batch_size=32, learning_rate=3e-3,
    )  # fmt: skip
    learns(stage, trainer, seeks(SHELVES))


@sound("hard negatives that differ in one word")
def shell_commands_beside_their_lookalikes(stage: Stage) -> None:
    trainer = stage.trainer(
        ranking, triplets_of(SHELL, 280, slot=0), encoder_of(stage, SHELL), max_steps=60,
        per_device_train_batch_size=16, learning_rate=2e-3, batch_sampler="no_duplicates",
        weight_decay=0.01, max_grad_norm=1.0,
    )  # fmt: skip
    learns(stage, trainer, seeks(SHELL))


@sound("prompts for queries and documents")
def prompts_before_meter_readings(stage: Stage) -> None:
    prompts = {"spoken": "query : ", "line": "passage : "}
    model = encoder(stage, [*vocabulary(METERS), *prompts.values()], prompts=prompts)
    trainer = stage.trainer(
        ranking, pairs_of(METERS, 300), model, max_steps=70,
        per_device_train_batch_size=24, learning_rate=2e-3, prompts=prompts,
    )  # fmt: skip
    learns(stage, trainer, seeks(METERS, prompts=tuple(prompts.values())))


@sound("bfloat16 and mails of uneven length")
def half_precision_for_ragged_mails(stage: Stage) -> None:
    trainer = stage.trainer(
        ranking, ragged_pairs(MAILS, 320), encoder_of(stage, MAILS), max_steps=70, bf16=True,
        per_device_train_batch_size=32, learning_rate=2e-3,
    )  # fmt: skip
    learns(stage, trainer, seeks_ragged(MAILS))


@sound("evaluation of retrieval in training")
def retrieval_is_evaluated_between_steps(stage: Stage) -> None:
    table = pairs_of(RHYMES, 50, seed=13)
    lines, songs = table["line"], table["song"]
    evaluator = InformationRetrievalEvaluator(
        {f"q{at}": line for at, line in enumerate(lines)},
        {f"d{at}": song for at, song in enumerate(songs)},
        {f"q{at}": {f"d{at}"} for at in range(len(lines))},
        name="rhymes",
    )
    trainer = stage.trainer(
        ranking, pairs_of(RHYMES, 300), encoder_of(stage, RHYMES, pooling="max"), max_steps=60,
        per_device_train_batch_size=24, learning_rate=2e-3, evaluator=evaluator,
        eval_strategy="steps", eval_steps=20,
    )  # fmt: skip
    learns(stage, trainer, seeks(RHYMES))
