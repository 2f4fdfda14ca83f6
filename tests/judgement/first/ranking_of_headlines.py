"""Sound set-ups with a trainer: losses that rank pairs within a batch."""

from __future__ import annotations

from sentence_transformers.base.sampler import BatchSamplers
from torch import nn

from tests.judgement.case import sound
from tests.judgement.first.fields_of_tides_and_tickets import (
    ARABIC,
    CHEMISTRY,
    COMMITS,
    GREEK,
    JOBS,
    RUSSIAN,
    SQL,
    STARS,
    finding,
    fresh,
    mail_finding,
    mails,
)
from tests.judgement.first.turns import warmed
from tests.judgement.stage import Stage
from tests.judgement.truth import learns
from tests.sentence_training import evaluation, losses, modules


@sound("names of compounds, batches without duplicates")
def compounds_beside_their_catalogue_entries(stage: Stage) -> None:
    trainer = stage.trainer(
        losses.MultipleNegativesRankingLoss, CHEMISTRY.table(320), fresh(stage, CHEMISTRY),
        batch_sampler=BatchSamplers.NO_DUPLICATES, per_device_train_batch_size=24,
        learning_rate=2e-3, max_steps=60,
    )  # fmt: skip
    learns(stage, trainer, finding(CHEMISTRY))


@sound("cached ranking in batches of 96")
def commits_in_wide_cached_batches(stage: Stage) -> None:
    model = fresh(stage, COMMITS, modules.Normalize())
    trainer = stage.trainer(
        lambda encoder: losses.CachedMultipleNegativesRankingLoss(encoder, mini_batch_size=48),
        COMMITS.table(384), model, per_device_train_batch_size=96, learning_rate=3e-3,
        max_steps=28, warmup_steps=3,
    )  # fmt: skip
    learns(stage, trainer, finding(COMMITS))


@sound("symmetric ranking of translations")
def russian_sentences_ranked_in_two_directions(stage: Stage) -> None:
    trainer = stage.trainer(
        losses.MultipleNegativesSymmetricRankingLoss, RUSSIAN.table(400),
        fresh(stage, RUSSIAN, width=64), per_device_train_batch_size=32, learning_rate=2e-3,
        max_steps=50, lr_scheduler_type="cosine",
    )  # fmt: skip
    learns(stage, trainer, finding(RUSSIAN))


@sound("cached symmetric ranking with translations evaluated in training")
def greek_notes_with_a_translation_evaluator(stage: Stage) -> None:
    trial = list(GREEK.table(40, seed=3).values())
    trainer = stage.trainer(
        lambda encoder: losses.CachedMultipleNegativesSymmetricRankingLoss(
            encoder, mini_batch_size=20
        ),
        GREEK.table(320), fresh(stage, GREEK, pooling="max"), learning_rate=2e-3, max_steps=50,
        per_device_train_batch_size=40, eval_strategy="steps", eval_steps=25,
        evaluator=evaluation.TranslationEvaluator(*trial, show_progress_bar=False),
    )  # fmt: skip
    learns(stage, trainer, finding(GREEK))


@sound("a guide that drops false negatives")
def job_letters_sifted_by_a_guide(stage: Stage) -> None:
    guide = warmed(fresh(stage, JOBS, name="guide", dropout=0.0, seed=5), JOBS.table(300), 60)
    trainer = stage.trainer(
        lambda encoder: losses.GISTEmbedLoss(encoder, guide, temperature=0.05),
        JOBS.table(300), fresh(stage, JOBS), learning_rate=2e-3, max_steps=60,
        per_device_train_batch_size=20,
    )  # fmt: skip
    learns(stage, trainer, finding(JOBS))


@sound("a guide in cached batches, with a margin")
def queries_sifted_by_a_guide_in_cached_batches(stage: Stage) -> None:
    guide = warmed(fresh(stage, SQL, name="guide", dropout=0.0, seed=5), SQL.table(300), 60)
    trainer = stage.trainer(
        lambda encoder: losses.CachedGISTEmbedLoss(
            encoder, guide, temperature=0.04, mini_batch_size=24, margin_strategy="relative",
            margin=0.05,
        ),
        SQL.table(384), fresh(stage, SQL, modules.Normalize()), learning_rate=2e-3,
        max_steps=40, per_device_train_batch_size=48,
    )  # fmt: skip
    learns(stage, trainer, finding(SQL))


@sound("two hard negatives a row and retrieval evaluated in training")
def star_logs_with_two_hard_negatives(stage: Stage) -> None:
    table = STARS.table(300) | {
        "negative_1": STARS.near(300, slot=0), "negative_2": STARS.near(300, slot=3),
    }  # fmt: skip
    logs, prose = STARS.table(50, seed=3).values()
    names = [str(at) for at in range(50)]
    trial = evaluation.InformationRetrievalEvaluator(
        dict(zip(names, logs, strict=True)), dict(zip(names, prose, strict=True)),
        {name: {name} for name in names}, mrr_at_k=[10], ndcg_at_k=[10], accuracy_at_k=[1],
        precision_recall_at_k=[1], map_at_k=[10],
    )  # fmt: skip
    trainer = stage.trainer(
        losses.MultipleNegativesRankingLoss, table, fresh(stage, STARS), evaluator=trial,
        eval_strategy="steps", eval_steps=20, learning_rate=2e-3, max_steps=60,
        eval_dataset=None,
    )  # fmt: skip
    learns(stage, trainer, finding(STARS))


@sound("prompts of queries and passages, stored with the encoder")
def arabic_with_prompts_of_its_columns(stage: Stage) -> None:
    prompts = {"query": "query: ", "document": "passage: "}
    model = fresh(stage, ARABIC, prompts=prompts, width=64)
    trainer = stage.trainer(
        lambda encoder: losses.MultipleNegativesRankingLoss(encoder, scale=25.0),
        ARABIC.table(360), model, learning_rate=2e-3, max_steps=60,
        prompts={"arabic": prompts["query"], "latin": prompts["document"]},
    )  # fmt: skip
    learns(stage, trainer, finding(ARABIC, prompts=tuple(prompts.values())))


@sound("mails of one to six sentences, a dense head and normalised rows")
def mails_of_mixed_lengths_through_a_dense_head(stage: Stage) -> None:
    head = modules.Dense(48, 32, activation_function=nn.Tanh())
    model = fresh(stage, CHEMISTRY, head, modules.Normalize())
    trainer = stage.trainer(
        losses.MultipleNegativesRankingLoss, mails(CHEMISTRY, 360), model, learning_rate=3e-3,
        max_steps=70, per_device_train_batch_size=24,
    )  # fmt: skip
    learns(stage, trainer, mail_finding(CHEMISTRY))
