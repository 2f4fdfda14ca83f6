"""Sound trainers on pairs and triplets of several worlds, by losses that rank."""

from __future__ import annotations

from typing import Any

from tests.judgement.case import sound
from tests.judgement.first.turns import warmed
from tests.judgement.held_out.f_fields import (
    BIRDS,
    CHEMISTRY,
    JOBS,
    MAILS,
    PATENTS,
    PHRASES,
    QUERIES,
    RUSSIAN,
    SHELL,
    TICKETS,
    diaries,
    model_of,
    rambling,
    score_of,
)
from tests.judgement.stage import Stage
from tests.judgement.truth import learns
from tests.sentence_training import evaluation, losses

FAST = {"learning_rate": 2e-3, "max_steps": 60, "per_device_train_batch_size": 24}


def ranking(model: Any) -> Any:
    return losses.MultipleNegativesRankingLoss(model)


@sound("names and notations of substances")
def substance_names_beside_their_notation(stage: Stage) -> None:
    from sentence_transformers.base.sampler import BatchSamplers

    model = model_of(stage, CHEMISTRY)
    trainer = stage.trainer(
        ranking, CHEMISTRY.table(300), model, **FAST, batch_sampler=BatchSamplers.NO_DUPLICATES
    )
    learns(stage, trainer, CHEMISTRY.sought)


@sound("evaluation of retrieval in training, best weights loaded at the end")
def mail_subjects_with_a_search_evaluator(stage: Stage) -> None:
    dev = MAILS.table(40, seed=13)
    queries = {f"q{at}": text for at, text in enumerate(dev["subject"])}
    corpus = {f"d{at}": text for at, text in enumerate(dev["body"])}
    evaluator = evaluation.InformationRetrievalEvaluator(
        queries, corpus, {f"q{at}": {f"d{at}"} for at in range(40)}, name="mails",
        mrr_at_k=[10], write_csv=False,
    )  # fmt: skip
    trainer = stage.trainer(
        ranking, MAILS.table(300), model_of(stage, MAILS), **FAST, evaluator=evaluator,
        eval_strategy="steps", eval_steps=20, save_strategy="steps", save_steps=20,
        load_best_model_at_end=True, metric_for_best_model="eval_mails_cosine_mrr@10",
        save_total_limit=1,
    )  # fmt: skip
    learns(stage, trainer, MAILS.sought)


@sound("cached ranking with large batches in chunks")
def cached_ranking_of_sql_statements(stage: Stage) -> None:
    def loss(model: Any) -> Any:
        return losses.CachedMultipleNegativesRankingLoss(model, mini_batch_size=32)

    trainer = stage.trainer(
        loss, QUERIES.table(400), model_of(stage, QUERIES, dropout=0.0), learning_rate=3e-3,
        max_steps=40, per_device_train_batch_size=64,
    )  # fmt: skip
    learns(stage, trainer, QUERIES.sought)


@sound("symmetric ranking in Cyrillic script")
def symmetric_ranking_in_russian(stage: Stage) -> None:
    def loss(model: Any) -> Any:
        return losses.MultipleNegativesSymmetricRankingLoss(model, scale=16.0)

    trainer = stage.trainer(loss, RUSSIAN.table(280), model_of(stage, RUSSIAN), **FAST)
    learns(stage, trainer, RUSSIAN.sought)


@sound("hard negatives that differ in a slot")
def shell_commands_with_hard_negatives(stage: Stage) -> None:
    table = SHELL.table(320) | {"negative": SHELL.near(320, slot=2)}
    trainer = stage.trainer(ranking, table, model_of(stage, SHELL), **{**FAST, "max_steps": 70})
    learns(stage, trainer, SHELL.sought)


@sound("triplets with a margin of cosine distance")
def bird_notes_in_cosine_triplets(stage: Stage) -> None:
    def loss(model: Any) -> Any:
        return losses.TripletLoss(
            model, distance_metric=losses.TripletDistanceMetric.COSINE, triplet_margin=0.4
        )

    table = BIRDS.table(320)
    table["negative"] = [*table["record"][1:], table["record"][0]]
    trainer = stage.trainer(
        loss, table, model_of(stage, BIRDS), **{**FAST, "max_steps": 90},
        evaluator=evaluation.TripletEvaluator(
            *BIRDS.table(40, seed=13).values(), BIRDS.near(40, seed=13), write_csv=False
        ),
        eval_strategy="steps", eval_steps=30,
    )  # fmt: skip
    learns(stage, trainer, BIRDS.sought)


@sound("a guide that leaves out false negatives")
def guided_ranking_of_job_postings(stage: Stage) -> None:
    guide = warmed(model_of(stage, JOBS, name="guide", seed=8), JOBS.table(300, seed=2), 40)

    def loss(model: Any) -> Any:
        return losses.GISTEmbedLoss(model, guide, temperature=0.05)

    trainer = stage.trainer(loss, JOBS.table(300), model_of(stage, JOBS), **FAST)
    learns(stage, trainer, JOBS.sought)


@sound("mixture of two tables, drawn in proportion")
def tickets_and_phrases_in_proportion(stage: Stage) -> None:
    from datasets import Dataset
    from sentence_transformers import SentenceTransformerTrainer
    from sentence_transformers.base.sampler import MultiDatasetBatchSamplers

    trainer = stage.trainer(
        ranking, TICKETS.table(300), model_of(stage, TICKETS, PHRASES),
        **{**FAST, "max_steps": 100},
        multi_dataset_batch_sampler=MultiDatasetBatchSamplers.PROPORTIONAL,
    )  # fmt: skip
    mixture = {
        "tickets": Dataset.from_dict(TICKETS.table(300)),
        "phrases": Dataset.from_dict(PHRASES.table(200)),
    }
    trainer = SentenceTransformerTrainer(
        model=trainer.model, args=trainer.args, train_dataset=mixture, loss=ranking(trainer.model)
    )
    learns(stage, trainer, lambda model: (TICKETS.sought(model) + PHRASES.sought(model)) / 2)


@sound("short titles and long claims, cosine schedule")
def patent_titles_and_long_claims(stage: Stage) -> None:
    trainer = stage.trainer(
        ranking, PATENTS.table(300), model_of(stage, PATENTS), learning_rate=3e-3, max_steps=60,
        per_device_train_batch_size=16, lr_scheduler_type="cosine", warmup_steps=6,
    )  # fmt: skip
    learns(stage, trainer, PATENTS.sought)


@sound("diary entries of several sentences with asides")
def sentences_within_rambling_diaries(stage: Stage) -> None:
    table, unseen = diaries(BIRDS, 300), diaries(BIRDS, 40, seed=11)
    table["entry"] = rambling(table["entry"], most=1)
    trainer = stage.trainer(ranking, table, model_of(stage, BIRDS), **{**FAST, "max_steps": 80})
    learns(stage, trainer, score_of(unseen))
