"""Sound set-ups with the trainer: ranking losses over several fields and encoders."""

from __future__ import annotations

from typing import Any

from tests.judgement.case import sound
from tests.judgement.first.regular_and_loose_fields import (
    ANIMALS,
    FLAWS,
    HAIKU,
    MAILS,
    METERS,
    PLANTS,
    QUERIES,
    REACTIONS,
    SUMS,
    mixture,
    seeks,
    student,
    triples,
    words,
)
from tests.judgement.first.turns import warmed
from tests.judgement.stage import Stage
from tests.judgement.truth import learns
from tests.sentence_training import losses


def ranked(model: Any) -> Any:
    return losses.MultipleNegativesRankingLoss(model)


@sound("equations of chemistry, batches without duplicates")
def reactions_ranked_without_duplicates(stage: Stage) -> None:
    trainer = stage.trainer(
        ranked, REACTIONS.table(256), student(stage, REACTIONS), max_steps=60,
        per_device_train_batch_size=24, learning_rate=2e-3, batch_sampler="no_duplicates",
    )  # fmt: skip
    learns(stage, trainer, seeks(REACTIONS))


@sound("mails of mixed lengths, symmetric loss, maximum of the tokens")
def mails_ranked_both_ways_by_maxima(stage: Stage) -> None:
    trainer = stage.trainer(
        losses.MultipleNegativesSymmetricRankingLoss, MAILS.table(240),
        student(stage, MAILS, pooling="max"), max_steps=50, learning_rate=3e-3,
        lr_scheduler_type="cosine",
    )  # fmt: skip
    learns(stage, trainer, seeks(MAILS))


@sound("cached loss with a large batch")
def database_queries_in_cached_batches(stage: Stage) -> None:
    trainer = stage.trainer(
        lambda model: losses.CachedMultipleNegativesRankingLoss(model, mini_batch_size=32),
        QUERIES.table(384), student(stage, QUERIES, width=32), max_steps=24,
        per_device_train_batch_size=96, learning_rate=4e-3, warmup_steps=3,
    )  # fmt: skip
    learns(stage, trainer, seeks(QUERIES))


@sound("three scripts, two datasets in turns")
def animals_in_three_scripts_by_turns(stage: Stage) -> None:
    table = ANIMALS.table(320)
    tables = {
        "russian": {"english": table["english"][:160], "russian": table["russian"][:160]},
        "greek": {"english": table["english"][160:], "greek": table["greek"][160:]},
    }
    trainer = mixture(
        stage, ranked, tables, student(stage, ANIMALS), max_steps=60, learning_rate=2e-3,
        multi_dataset_batch_sampler="round_robin",
    )  # fmt: skip
    learns(stage, trainer, seeks(ANIMALS))


@sound("hard negatives of a slot, first token, unit length")
def advisories_with_near_misses(stage: Stage) -> None:
    from sentence_transformers.sentence_transformer.modules import Normalize

    trainer = stage.trainer(
        ranked, triples(FLAWS, 256), student(stage, FLAWS, Normalize(), pooling="cls", spread=0.15),
        max_steps=70, learning_rate=1.5e-3, per_device_train_batch_size=20,
    )  # fmt: skip
    learns(stage, trainer, seeks(FLAWS))


@sound("Matryoshka of three widths")
def haiku_in_nested_widths(stage: Stage) -> None:
    trainer = stage.trainer(
        lambda model: losses.MatryoshkaLoss(model, ranked(model), [48, 24, 12]),
        HAIKU.table(192), student(stage, HAIKU), max_steps=50, learning_rate=2e-3,
    )  # fmt: skip
    learns(stage, trainer, seeks(HAIKU))


@sound("decoder with its last token and instructions")
def gardeners_ask_a_decoder(stage: Stage) -> None:
    from tests.judgement.first.bodies import encoder

    prompts = {"query": "find advice for : ", "document": ""}
    model = encoder(
        stage, [*words(PLANTS), *prompts.values()], kind="granite", pooling="lasttoken",
        prompts=prompts,
    )  # fmt: skip
    trainer = stage.trainer(
        ranked, PLANTS.table(256), model, max_steps=60, learning_rate=3e-3,
        prompts={"complaint": prompts["query"], "advice": prompts["document"]},
    )  # fmt: skip
    learns(stage, trainer, seeks(PLANTS, prompts=tuple(prompts.values())))


@sound("evaluation of a search in training, best weights at the end")
def meter_notes_with_a_search_evaluated(stage: Stage) -> None:
    from sentence_transformers.sentence_transformer.evaluation import InformationRetrievalEvaluator

    notes, records = METERS.table(60, seed=9).values()
    queries = {f"q{row}": note for row, note in enumerate(notes)}
    corpus = {f"d{row}": record for row, record in enumerate(records)}
    relevant = {f"q{row}": {f"d{row}"} for row in range(len(notes))}
    trainer = stage.trainer(
        ranked, METERS.table(288), student(stage, METERS, kind="distilbert"),
        max_steps=60, learning_rate=2e-3, eval_strategy="steps", eval_steps=20,
        save_strategy="steps", save_steps=20, load_best_model_at_end=True,
        metric_for_best_model="eval_meters_cosine_ndcg@10",
        evaluator=InformationRetrievalEvaluator(queries, corpus, relevant, name="meters"),
    )  # fmt: skip
    learns(stage, trainer, seeks(METERS))


@sound("a guide that sorts out doubtful negatives")
def sums_under_a_guide(stage: Stage) -> None:
    guide = warmed(student(stage, SUMS, name="guide"), SUMS.table(200, seed=2), steps=40)
    trainer = stage.trainer(
        lambda model: losses.GISTEmbedLoss(model, guide, temperature=0.05),
        SUMS.table(240), student(stage, SUMS, seed=5), max_steps=50, learning_rate=2e-3,
    )  # fmt: skip
    learns(stage, trainer, seeks(SUMS))
