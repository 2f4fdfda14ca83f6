"""Sound trainers that rank: pairs and triplets of many fields, with evaluators and prompts."""

from __future__ import annotations

from typing import Any

from sentence_transformers.sentence_transformer import evaluation, losses
from sentence_transformers.sentence_transformer.modules import Dense, Normalize
from torch import nn

from tests.judgement.case import sound
from tests.judgement.first.bodies import encoder, words_of
from tests.judgement.held_out.i_fields import (
    BIRDS,
    CHEMISTRY,
    GARDEN,
    HINDI,
    JOBS,
    MAILS,
    MATCHES,
    RUSSIAN,
    SQL,
    decoys,
    diary,
    small,
    spoken,
)
from tests.judgement.stage import Stage
from tests.judgement.truth import learns, retrieval

FAST = {"learning_rate": 2e-3, "max_steps": 60}


@sound("field of texts: chemistry, no duplicates in a batch")
def recipes_of_a_chemist_without_duplicates(stage: Stage) -> None:
    trainer = stage.trainer(
        losses.MultipleNegativesRankingLoss, CHEMISTRY.table(320), small(stage, CHEMISTRY),
        batch_sampler="no_duplicates", per_device_train_batch_size=24, **FAST,
    )  # fmt: skip
    learns(stage, trainer, CHEMISTRY.sought)


@sound("symmetric ranking with an evaluator")
def mails_found_by_subject_with_an_evaluator(stage: Stage) -> None:
    table = dict(MAILS.table(40, seed=11))
    queries = {f"q{row}": text for row, text in enumerate(table["subject"])}
    bodies = {f"d{row}": text for row, text in enumerate(table["body"])}
    relevant = {f"q{row}": {f"d{row}"} for row in range(40)}
    evaluator = evaluation.InformationRetrievalEvaluator(
        queries, bodies, relevant, mrr_at_k=[10], ndcg_at_k=[10], accuracy_at_k=[1],
        precision_recall_at_k=[1], map_at_k=[10], write_csv=False,
    )  # fmt: skip
    trainer = stage.trainer(
        losses.MultipleNegativesSymmetricRankingLoss, MAILS.table(320), small(stage, MAILS),
        evaluator=evaluator, eval_strategy="steps", eval_steps=20, **FAST,
    )  # fmt: skip
    learns(stage, trainer, MAILS.sought)


@sound("field of texts: Cyrillic script, held-out loss")
def russian_sentences_with_a_development_set(stage: Stage) -> None:
    from datasets import Dataset

    trainer = stage.trainer(
        losses.MultipleNegativesRankingLoss, RUSSIAN.table(360), small(stage, RUSSIAN),
        eval_dataset=Dataset.from_dict(RUSSIAN.table(32, seed=5)), eval_strategy="steps",
        eval_steps=15, per_device_train_batch_size=32, learning_rate=3e-3, max_steps=55,
        lr_scheduler_type="cosine",
    )  # fmt: skip
    learns(stage, trainer, RUSSIAN.sought)


@sound("cached ranking in large batches")
def hindi_in_large_cached_batches(stage: Stage) -> None:
    def cached(model: Any) -> Any:
        return losses.CachedMultipleNegativesRankingLoss(model, mini_batch_size=16)

    trainer = stage.trainer(
        cached, HINDI.table(400), small(stage, HINDI), per_device_train_batch_size=64,
        learning_rate=3e-3, max_steps=32,
    )  # fmt: skip
    learns(stage, trainer, HINDI.sought)


@sound("prompts for queries and documents")
def job_search_with_prompts(stage: Stage) -> None:
    prompts = {"query": "search : ", "posting": "advert : "}
    model = small(stage, JOBS, words=list(prompts.values()))
    trainer = stage.trainer(
        losses.MultipleNegativesRankingLoss, JOBS.table(300), model, prompts=prompts,
        warmup_steps=6, **FAST,
    )  # fmt: skip
    learns(
        stage, trainer,
        lambda trained: JOBS.sought(trained, prompts=tuple(prompts.values())),
    )  # fmt: skip


@sound("triplets with a margin")
def gardeners_with_a_cosine_margin(stage: Stage) -> None:
    def margin(model: Any) -> Any:
        return losses.TripletLoss(model, losses.TripletDistanceMetric.COSINE, triplet_margin=0.3)

    table = GARDEN.table(320) | {"negative": GARDEN.texts(GARDEN.draws(320, 6), 1)}
    trials = GARDEN.table(40, seed=5)
    evaluator = evaluation.TripletEvaluator(
        trials["query"], trials["document"], GARDEN.texts(GARDEN.draws(40, 15), 1), write_csv=False
    )
    trainer = stage.trainer(
        margin, table, small(stage, GARDEN), evaluator=evaluator, eval_strategy="steps",
        eval_steps=35, learning_rate=3e-3, max_steps=90,
    )  # fmt: skip
    learns(stage, trainer, GARDEN.sought)


@sound("two hard negatives and a dense head")
def queries_of_tables_with_two_negatives(stage: Stage) -> None:
    table = SQL.table(320) | {
        "negative_1": SQL.near(320, slot=1), "negative_2": decoys(SQL, 320),
    }  # fmt: skip
    model = small(stage, SQL, Dense(48, 32, activation_function=nn.Tanh()), Normalize())
    trainer = stage.trainer(losses.MultipleNegativesRankingLoss, table, model, **FAST)
    learns(stage, trainer, SQL.sought)


@sound("Matryoshka over a ranking loss")
def match_reports_in_nested_widths(stage: Stage) -> None:
    def nested(model: Any) -> Any:
        inner = losses.MultipleNegativesRankingLoss(model)
        return losses.MatryoshkaLoss(model, inner, matryoshka_dims=[48, 24, 12])

    trainer = stage.trainer(nested, MATCHES.table(320), small(stage, MATCHES), **FAST)
    learns(stage, trainer, MATCHES.sought)


@sound("short texts with a decoder and its last token")
def captions_of_birds_with_a_decoder(stage: Stage) -> None:
    model = encoder(stage, spoken(BIRDS), kind="granite", pooling="lasttoken")
    rows = {row: None for row in zip(*BIRDS.table(360).values(), strict=True)}
    unique = {caption: note for caption, note in rows}
    table = {"caption": list(unique), "note": list(unique.values())}
    trainer = stage.trainer(losses.MultipleNegativesRankingLoss, table, model, **FAST)
    trial = {caption: note for caption, note in zip(*BIRDS.table(120, 11).values(), strict=True)
             if caption not in unique}  # fmt: skip
    held = {"caption": list(trial), "note": list(trial.values())}
    learns(stage, trainer, lambda trained: retrieval(trained, held))


@sound("pages of several sentences in any order")
def diary_pages_by_their_titles(stage: Stage) -> None:
    table, trial = diary(320), diary(50, seed=11)
    trainer = stage.trainer(
        losses.MultipleNegativesRankingLoss, table,
        encoder(stage, words_of([diary(600), trial]), pooling="max"),
        per_device_train_batch_size=12, learning_rate=2e-3, max_steps=80, max_grad_norm=0.5,
    )  # fmt: skip
    learns(stage, trainer, lambda model: retrieval(model, trial))
