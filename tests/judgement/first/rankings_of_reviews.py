"""Sound set-ups with a trainer: losses that rank, with their batches, schedules and evaluators."""

from __future__ import annotations

from typing import Any

from sentence_transformers.sentence_transformer import losses
from sentence_transformers.sentence_transformer.evaluation import (
    InformationRetrievalEvaluator,
    TripletEvaluator,
)

from tests.judgement.case import sound
from tests.judgement.first.bodies import encoder
from tests.judgement.first.fields_of_reviews_and_cards import (
    ALARMS,
    CHEMISTRY,
    GREEK,
    MAILS,
    QUERIES,
    REVIEW_WORDS,
    RUSSIAN,
    SHORT,
    of_field,
    ranks,
    reviews,
    seek,
    triples,
)
from tests.judgement.first.loop_materials import ranking
from tests.judgement.stage import Stage
from tests.judgement.truth import learns


@sound("subjects and bodies of mails")
def subjects_of_mails_with_a_cosine_schedule(stage: Stage) -> None:
    trainer = stage.trainer(
        ranking, MAILS.table(300), of_field(stage, MAILS), learning_rate=2e-3, max_steps=60,
        lr_scheduler_type="cosine", warmup_steps=6, per_device_train_batch_size=24,
        batch_sampler="no_duplicates",
    )  # fmt: skip
    learns(stage, trainer, seek(MAILS))


@sound("formulas with an evaluator in training")
def reaction_formulas_with_a_search_during_training(stage: Stage) -> None:
    names = CHEMISTRY.table(60, seed=3)
    queries = {f"q{at}": text for at, text in enumerate(names["question"])}
    corpus = {f"d{at}": text for at, text in enumerate(names["equation"])}
    evaluator = InformationRetrievalEvaluator(
        queries, corpus, {f"q{at}": {f"d{at}"} for at in range(60)}, name="reactions",
        show_progress_bar=False,
    )  # fmt: skip
    trainer = stage.trainer(
        ranking, CHEMISTRY.table(280), of_field(stage, CHEMISTRY), learning_rate=2e-3,
        max_steps=60, evaluator=evaluator, eval_strategy="steps", eval_steps=20,
    )  # fmt: skip
    learns(stage, trainer, seek(CHEMISTRY))


@sound("cached ranking with a large batch")
def cached_ranking_of_alarms_in_large_batches(stage: Stage) -> None:
    trainer = stage.trainer(
        lambda model: losses.CachedMultipleNegativesRankingLoss(model, mini_batch_size=16),
        ALARMS.table(256), of_field(stage, ALARMS, dropout=0.0), learning_rate=3e-3, max_steps=32,
        per_device_train_batch_size=64, batch_sampler="no_duplicates",
    )  # fmt: skip
    learns(stage, trainer, seek(ALARMS))


@sound("symmetric ranking of two languages")
def symmetric_ranking_of_cyrillic_translations(stage: Stage) -> None:
    trainer = stage.trainer(
        losses.MultipleNegativesSymmetricRankingLoss, RUSSIAN.table(300),
        of_field(stage, RUSSIAN), learning_rate=3e-3, max_steps=70,
    )  # fmt: skip
    learns(stage, trainer, seek(RUSSIAN))


@sound("hard negatives of one changed word")
def queries_with_a_wrong_aggregate_as_negative(stage: Stage) -> None:
    table = triples(QUERIES, 320)
    held_out = triples(QUERIES, 60, seed=5)
    evaluator = TripletEvaluator(*held_out.values(), name="sql", show_progress_bar=False)
    trainer = stage.trainer(
        ranking, table, of_field(stage, QUERIES), learning_rate=2e-3, max_steps=80,
        batch_sampler="no_duplicates",
        evaluator=evaluator, eval_strategy="steps", eval_steps=40,
    )  # fmt: skip
    learns(stage, trainer, seek(QUERIES))


@sound("very short texts and a large batch")
def three_words_of_beasts_in_two_languages(stage: Stage) -> None:
    trainer = stage.trainer(
        ranking, SHORT.table(256), of_field(stage, SHORT), learning_rate=3e-3, max_steps=60,
        per_device_train_batch_size=32, lr_scheduler_type="constant_with_warmup",
    )  # fmt: skip
    learns(stage, trainer, seek(SHORT))


@sound("reviews of mixed lengths with noise")
def reviews_of_hotels_with_noise_between_sentences(stage: Stage) -> None:
    trainer = stage.trainer(
        ranking, reviews(400), encoder(stage, [t.replace("/", " ") for t in REVIEW_WORDS]),
        learning_rate=3e-3, max_steps=90, per_device_train_batch_size=24,
    )  # fmt: skip
    learns(stage, trainer, ranks(reviews(60, seed=11)))


def _matryoshka(model: Any) -> Any:
    return losses.MatryoshkaLoss(
        model, losses.MultipleNegativesRankingLoss(model), matryoshka_dims=[48, 24, 12]
    )


@sound("nested widths in Greek")
def nested_widths_of_greek_forecasts(stage: Stage) -> None:
    trainer = stage.trainer(
        _matryoshka, GREEK.table(250), of_field(stage, GREEK), learning_rate=2e-3, max_steps=60,
        adam_beta2=0.98, weight_decay=0.01,
    )  # fmt: skip
    learns(stage, trainer, seek(GREEK))


@sound("GIST with a trained guide")
def guide_that_drops_doubtful_negatives(stage: Stage) -> None:
    from tests.judgement.first.turns import warmed

    guide = warmed(of_field(stage, MAILS, name="guide", seed=5), MAILS.table(300, seed=2), 40)
    trainer = stage.trainer(
        lambda model: losses.GISTEmbedLoss(model, guide, temperature=0.05), MAILS.table(300),
        of_field(stage, MAILS), learning_rate=2e-3, max_steps=60,
    )  # fmt: skip
    learns(stage, trainer, seek(MAILS))
