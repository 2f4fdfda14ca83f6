"""Sound set-ups with the trainer: rankings of pairs and triplets."""

from __future__ import annotations

from typing import Any

from tests.judgement.case import sound
from tests.judgement.first.bodies import encoder, words_of
from tests.judgement.first.fields_of_offices_and_ports import (
    BENCH,
    COMMITS,
    GENES,
    KOREAN,
    MAILS,
    QUERIES,
    RUSSIAN,
    SKIES,
    briefs,
    reader,
    seeks,
    varied,
)
from tests.judgement.first.turns import warmed
from tests.judgement.stage import Stage
from tests.judgement.truth import learns
from tests.sentence_training import losses


@sound("symmetric ranking with a cosine schedule")
def chemistry_questions_in_symmetric_ranking(stage: Stage) -> None:
    trainer = stage.trainer(
        losses.MultipleNegativesSymmetricRankingLoss, BENCH.table(320), reader(stage, BENCH),
        learning_rate=2e-3, max_steps=60, lr_scheduler_type="cosine", warmup_steps=6,
        batch_sampler="no_duplicates",
    )  # fmt: skip
    learns(stage, trainer, BENCH.sought)


@sound("cached ranking with a large batch")
def mails_in_batches_of_ninety_six(stage: Stage) -> None:
    trainer = stage.trainer(
        lambda model: losses.CachedMultipleNegativesRankingLoss(model, mini_batch_size=32),
        MAILS.table(384), reader(stage, MAILS, layers=1), learning_rate=4e-3, max_steps=20,
        per_device_train_batch_size=96, warmup_steps=3,
    )  # fmt: skip
    learns(stage, trainer, MAILS.sought)


@sound("hard negatives that differ in a word")
def database_questions_with_near_queries(stage: Stage) -> None:
    table = QUERIES.table(300) | {"negative": varied(QUERIES, 300)}
    trainer = stage.trainer(
        losses.MultipleNegativesRankingLoss, table, reader(stage, QUERIES), learning_rate=2e-3,
        max_steps=60, batch_sampler="no_duplicates",
    )  # fmt: skip
    learns(stage, trainer, QUERIES.sought)


@sound("guide that filters false negatives")
def commit_messages_with_a_warmed_guide(stage: Stage) -> None:
    table = COMMITS.table(280)
    guide = warmed(reader(stage, COMMITS, name="guide", width=64), COMMITS.table(200, 4), 30)
    trainer = stage.trainer(
        lambda model: losses.GISTEmbedLoss(model, guide, temperature=0.05), table,
        reader(stage, COMMITS), learning_rate=2e-3, max_steps=50,
    )  # fmt: skip
    learns(stage, trainer, COMMITS.sought)


@sound("Matryoshka over a ranking")
def weather_reports_in_nested_widths(stage: Stage) -> None:
    def nested(model: Any) -> Any:
        ranking = losses.MultipleNegativesRankingLoss(model)
        return losses.MatryoshkaLoss(model, ranking, matryoshka_dims=[48, 24, 12])

    trainer = stage.trainer(
        nested, SKIES.table(300), reader(stage, SKIES), learning_rate=2e-3, max_steps=60,
        per_device_train_batch_size=24,
    )  # fmt: skip
    learns(stage, trainer, SKIES.sought)


@sound("translations with an evaluator of retrieval")
def russian_and_english_with_an_evaluator(stage: Stage) -> None:
    from tests.sentence_training import evaluation

    checks = RUSSIAN.table(50, seed=3)
    evaluator = evaluation.InformationRetrievalEvaluator(
        queries={f"q{at}": text for at, text in enumerate(checks["russian"])},
        corpus={f"d{at}": text for at, text in enumerate(checks["english"])},
        relevant_docs={f"q{at}": {f"d{at}"} for at in range(50)},
        name="ru-en",
    )
    trainer = stage.trainer(
        losses.MultipleNegativesSymmetricRankingLoss, RUSSIAN.table(320), reader(stage, RUSSIAN),
        learning_rate=2e-3, max_steps=60, evaluator=evaluator, eval_strategy="steps",
        eval_steps=20,
    )  # fmt: skip
    learns(stage, trainer, RUSSIAN.sought)


@sound("last token of a decoder")
def korean_sentences_by_a_decoder(stage: Stage) -> None:
    model = reader(stage, KOREAN, kind="granite", pooling="lasttoken")
    trainer = stage.trainer(
        losses.MultipleNegativesRankingLoss, KOREAN.table(320), model, learning_rate=2e-3,
        max_steps=70, per_device_train_batch_size=20, weight_decay=0.01,
    )  # fmt: skip
    learns(stage, trainer, KOREAN.sought)


@sound("articles of one to four sentences")
def headlines_and_articles_of_mixed_lengths(stage: Stage) -> None:
    table, unseen = briefs(320), briefs(60, seed=11)
    model = encoder(stage, words_of([table, unseen]), pooling="mean")
    trainer = stage.trainer(
        losses.MultipleNegativesRankingLoss, table, model, learning_rate=2e-3, max_steps=70,
        lr_scheduler_type="constant_with_warmup", batch_sampler="no_duplicates",
    )  # fmt: skip
    learns(stage, trainer, seeks(unseen))


@sound("prompts of queries and documents")
def gene_findings_behind_prompts(stage: Stage) -> None:
    prompts = {"query": "search : ", "document": "passage : "}
    model = reader(stage, GENES, words=list(prompts.values()), prompts=prompts)
    trainer = stage.trainer(
        losses.MultipleNegativesRankingLoss, GENES.table(300), model, learning_rate=2e-3,
        max_steps=60, prompts={"finding": prompts["query"], "sentence": prompts["document"]},
    )  # fmt: skip
    learns(stage, trainer, lambda tuned: GENES.sought(tuned, prompts=tuple(prompts.values())))
