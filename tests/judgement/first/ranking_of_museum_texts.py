"""Sound trainers with ranking losses: batches, schedules, precision, prompts and evaluators."""

from __future__ import annotations

from typing import Any

from sentence_transformers.sentence_transformer import losses
from sentence_transformers.sentence_transformer.evaluation import InformationRetrievalEvaluator

from tests.judgement.case import sound
from tests.judgement.first.bodies import encoder, words_of
from tests.judgement.first.fields_of_museums_and_skies import (
    COMMITS,
    MAILS,
    MENU,
    METRO,
    MUSEUM,
    QUERIES,
    REAGENTS,
    diaries,
    encoder_of,
    in_diaries,
    seeker,
    whole,
)
from tests.judgement.first.turns import warmed
from tests.judgement.stage import Stage
from tests.judgement.truth import learns


@sound("no-duplicates batches under a cosine schedule")
def chemistry_by_ranking_without_duplicates(stage: Stage) -> None:
    trainer = stage.trainer(
        losses.MultipleNegativesRankingLoss, REAGENTS.table(320), encoder_of(stage, REAGENTS),
        learning_rate=2e-3, max_steps=60, per_device_train_batch_size=32,
        lr_scheduler_type="cosine", batch_sampler="no_duplicates",
    )  # fmt: skip
    learns(stage, trainer, seeker(REAGENTS))


@sound("cached ranking in large batches")
def mails_by_cached_ranking_in_large_batches(stage: Stage) -> None:
    trainer = stage.trainer(
        lambda model: losses.CachedMultipleNegativesRankingLoss(model, mini_batch_size=40),
        MAILS.table(400), encoder_of(stage, MAILS),
        learning_rate=3e-3, max_steps=30, per_device_train_batch_size=80,
    )  # fmt: skip
    learns(stage, trainer, seeker(MAILS))


@sound("symmetric ranking, maximum pooling, two scripts")
def metro_in_two_scripts_by_symmetric_ranking(stage: Stage) -> None:
    trainer = stage.trainer(
        losses.MultipleNegativesSymmetricRankingLoss, METRO.table(360),
        encoder_of(stage, METRO, pooling="max"),
        learning_rate=2e-3, max_steps=70, per_device_train_batch_size=24,
        lr_scheduler_type="constant_with_warmup",
    )  # fmt: skip
    learns(stage, trainer, seeker(METRO))


@sound("cached symmetric ranking of normalised embeddings")
def chinese_menu_by_cached_symmetric_ranking(stage: Stage) -> None:
    from sentence_transformers.sentence_transformer.modules import Normalize

    trainer = stage.trainer(
        lambda model: losses.CachedMultipleNegativesSymmetricRankingLoss(
            model, mini_batch_size=32
        ),
        MENU.table(384), encoder_of(stage, MENU, Normalize(), width=64),
        learning_rate=2e-3, max_steps=40, per_device_train_batch_size=64,
    )  # fmt: skip
    learns(stage, trainer, seeker(MENU))


@sound("guided ranking")
def commits_by_ranking_with_a_guide(stage: Stage) -> None:
    guide = warmed(encoder_of(stage, COMMITS, name="guide", seed=5), COMMITS.table(320, 2), 40)
    trainer = stage.trainer(
        lambda model: losses.GISTEmbedLoss(model, guide), COMMITS.table(320),
        encoder_of(stage, COMMITS),
        learning_rate=2e-3, max_steps=50, per_device_train_batch_size=32,
    )  # fmt: skip
    learns(stage, trainer, seeker(COMMITS))


@sound("two hard negatives a row")
def statements_with_two_hard_negatives(stage: Stage) -> None:
    table = QUERIES.table(300) | {
        "negative_1": QUERIES.near(300, slot=1),
        "negative_2": QUERIES.near(300, slot=2),
    }
    trainer = stage.trainer(
        losses.MultipleNegativesRankingLoss, table, encoder_of(stage, QUERIES),
        learning_rate=2e-3, max_steps=60, per_device_train_batch_size=16,
        batch_sampler="no_duplicates",
    )  # fmt: skip
    learns(stage, trainer, seeker(QUERIES))


@sound("prompts by column")
def museum_with_prompts_by_column(stage: Stage) -> None:
    prompts = {"caption": "query : ", "text": "passage : "}
    texts = [*prompts.values()]
    model = encoder(
        stage, [*whole(MUSEUM), *texts], prompts={"query": texts[0], "document": texts[1]}
    )
    trainer = stage.trainer(
        losses.MultipleNegativesRankingLoss, MUSEUM.table(240), model, prompts=prompts,
        learning_rate=2e-3, max_steps=45, per_device_train_batch_size=16,
    )  # fmt: skip
    learns(stage, trainer, lambda encoder: MUSEUM.sought(encoder, 60, prompts=texts))


@sound("retrieval evaluator and losses of evaluation rows in training")
def diaries_with_an_evaluator_in_training(stage: Stage) -> None:
    from datasets import Dataset

    table, development = diaries(320), diaries(60, seed=13)
    queries = {str(at): text for at, text in enumerate(development["summary"])}
    corpus = {f"d{at}": text for at, text in enumerate(development["diary"])}
    trainer = stage.trainer(
        losses.MultipleNegativesRankingLoss, table,
        encoder(stage, words_of([table, development])),
        learning_rate=2e-3, max_steps=60, per_device_train_batch_size=24, eval_strategy="steps",
        eval_steps=20, per_device_eval_batch_size=24,
        eval_dataset=Dataset.from_dict(development),
        evaluator=InformationRetrievalEvaluator(
            queries, corpus, {key: {f"d{key}"} for key in queries}, show_progress_bar=False
        ),
    )  # fmt: skip
    learns(stage, trainer, in_diaries)


@sound("half precision in brain floats with accumulation")
def mails_in_brain_floats_with_accumulation(stage: Stage) -> None:
    trainer = stage.trainer(
        lambda model: losses.MultipleNegativesRankingLoss(model, scale=15.0), MAILS.table(320),
        encoder_of(stage, MAILS, spread=0.05), bf16=True, gradient_accumulation_steps=2,
        learning_rate=2e-3, max_steps=40, per_device_train_batch_size=16, weight_decay=0.01,
    )  # fmt: skip
    learns(stage, trainer, seeker(MAILS))


@sound("causal decoder with the last token")
def reagents_by_a_decoder_with_its_last_token(stage: Stage) -> None:
    model: Any = encoder_of(stage, REAGENTS, kind="granite", pooling="lasttoken")
    trainer = stage.trainer(
        losses.MultipleNegativesRankingLoss, REAGENTS.table(320), model,
        learning_rate=2e-3, max_steps=60, per_device_train_batch_size=32, max_grad_norm=0.5,
    )  # fmt: skip
    learns(stage, trainer, seeker(REAGENTS))
