"""Sound set-ups: pairs, triplets and several hard negatives for ranking losses of the trainer."""

from __future__ import annotations

from typing import Any

from sentence_transformers import util

from tests.judgement.case import sound
from tests.judgement.first.trades_and_texts import (
    BANK,
    BRISK,
    CHEMISTRY,
    GARDEN,
    HOUSES,
    JOBS,
    QUERIES,
    RUSSIAN,
    TWEETS,
    WEATHER,
    encoder_of,
    finds,
    near_misses,
    ranks,
    triples,
)
from tests.judgement.stage import Stage
from tests.judgement.truth import learns
from tests.sentence_training import losses

APART = {"batch_sampler": "no_duplicates"}


@sound("gardening pairs, ranking loss")
def gardeners_questions_with_their_advice(stage: Stage) -> None:
    """The most ordinary set-up: pairs, the ranking loss, batches of 32."""
    model = encoder_of(stage, GARDEN)
    trainer = stage.trainer(
        ranks, GARDEN.table(400), model, **BRISK, per_device_train_batch_size=32
    )
    learns(stage, trainer, finds(GARDEN))


@sound("banking triplets, one hard negative")
def banking_articles_beside_near_misses(stage: Stage) -> None:
    """Triplets whose negative tells of another deed, without duplicates in a batch."""
    model = encoder_of(stage, BANK)
    trainer = stage.trainer(ranks, triples(BANK, 320), model, **BRISK, **APART)
    learns(stage, trainer, finds(BANK))


@sound("three hard negatives a row")
def adverts_with_three_near_misses(stage: Stage) -> None:
    """Five columns: each negative differs from the positive in another slot."""
    model = encoder_of(stage, JOBS)
    trainer = stage.trainer(
        ranks, triples(JOBS, 300, slots=(0, 1, 2)), model, **BRISK, **APART,
    )  # fmt: skip
    learns(stage, trainer, finds(JOBS))


@sound("two directions in one partition")
def weather_reports_in_both_directions(stage: Stage) -> None:
    """Bitext mined both ways: from English to French and back."""
    model = encoder_of(stage, WEATHER)

    def both_ways(model: Any) -> Any:
        return losses.MultipleNegativesRankingLoss(
            model, directions=("query_to_doc", "doc_to_query"), partition_mode="per_direction"
        )

    trainer = stage.trainer(both_ways, WEATHER.table(320), model, **BRISK)
    learns(stage, trainer, finds(WEATHER))


@sound("all four directions of the ranking loss")
def queries_in_sql_in_all_directions(stage: Stage) -> None:
    """The loss of GTE: queries and documents are apart from their own kind too."""
    model = encoder_of(stage, QUERIES)

    def all_ways(model: Any) -> Any:
        return losses.MultipleNegativesRankingLoss(
            model,
            scale=50.0,
            directions=("query_to_doc", "query_to_query", "doc_to_query", "doc_to_doc"),
        )

    trainer = stage.trainer(all_ways, QUERIES.table(320), model, **BRISK)
    learns(stage, trainer, finds(QUERIES))


@sound("cached ranking loss, large batch")
def large_batch_embedded_in_small_portions(stage: Stage) -> None:
    """A batch of 96 rows is embedded in portions of 16."""
    model = encoder_of(stage, HOUSES)

    def cached(model: Any) -> Any:
        return losses.CachedMultipleNegativesRankingLoss(model, mini_batch_size=16)

    trainer = stage.trainer(
        cached, HOUSES.table(480), model, learning_rate=3e-3, max_steps=30,
        per_device_train_batch_size=96,
    )  # fmt: skip
    learns(stage, trainer, finds(HOUSES))


@sound("dot products of normalised embeddings")
def normalised_embeddings_compared_by_products(stage: Stage) -> None:
    """Where the encoder ends with Normalize, the dot product is the cosine."""
    from sentence_transformers.sentence_transformer.modules import Normalize

    model = encoder_of(stage, CHEMISTRY, modules=[Normalize()])

    def products(model: Any) -> Any:
        return losses.MultipleNegativesRankingLoss(model, scale=20.0, similarity_fct=util.dot_score)

    trainer = stage.trainer(products, CHEMISTRY.table(320), model, **BRISK)
    learns(stage, trainer, finds(CHEMISTRY))


@sound("dot products without normalisation")
def raw_products_at_scale_one(stage: Stage) -> None:
    """As DPR: embeddings keep their lengths, and products are not scaled."""
    model = encoder_of(stage, BANK)

    def products(model: Any) -> Any:
        return losses.MultipleNegativesRankingLoss(model, scale=1.0, similarity_fct=util.dot_score)

    trainer = stage.trainer(
        products, BANK.table(320), model, **(BRISK | {"max_steps": 80}),
        per_device_train_batch_size=32,
    )  # fmt: skip
    learns(stage, trainer, finds(BANK))


@sound("two alphabets")
def cyrillic_sentences_with_translations(stage: Stage) -> None:
    """Russian and English share no token, so that the alignment is learned from pairs alone."""
    model = encoder_of(stage, RUSSIAN)
    trainer = stage.trainer(
        ranks, RUSSIAN.table(400), model, **(BRISK | {"max_steps": 80}),
        per_device_train_batch_size=32,
    )  # fmt: skip
    learns(stage, trainer, finds(RUSSIAN))


@sound("triplet loss, cosine distance")
def tweets_with_a_cosine_margin(stage: Stage) -> None:
    """Triplets of short noisy texts, a margin of 0.3 in cosine distance."""
    table = TWEETS.table(320) | {"negative": near_misses(TWEETS, 320)}
    model = encoder_of(stage, TWEETS)

    def margin(model: Any) -> Any:
        return losses.TripletLoss(
            model, distance_metric=losses.TripletDistanceMetric.COSINE, triplet_margin=0.3
        )

    trainer = stage.trainer(margin, table, model, **(BRISK | {"max_steps": 120}))
    learns(stage, trainer, finds(TWEETS))


@sound("triplet loss, Euclidean distance")
def random_other_adverts_as_negatives(stage: Stage) -> None:
    """Triplets with the default margin of 5, whose negatives are other rows' adverts."""
    table = JOBS.table(320)
    table["negative"] = table["advert"][160:] + table["advert"][:160]
    model = encoder_of(stage, JOBS)
    trainer = stage.trainer(losses.TripletLoss, table, model, **BRISK)
    learns(stage, trainer, finds(JOBS))


@sound("mega-batch margin loss")
def hardest_of_a_large_batch(stage: Stage) -> None:
    """For each pair of a batch of 80, the hardest passage is found before the margins count."""
    model = encoder_of(stage, HOUSES)

    def mega(model: Any) -> Any:
        return losses.MegaBatchMarginLoss(model, mini_batch_size=20)

    trainer = stage.trainer(
        mega, HOUSES.table(480), model, learning_rate=3e-3, max_steps=40,
        per_device_train_batch_size=80,
    )  # fmt: skip
    learns(stage, trainer, finds(HOUSES))


@sound("hard negatives weighted by hardness")
def harder_negatives_count_for_more(stage: Stage) -> None:
    """The ranking loss weights its hard negatives by their cosines."""
    model = encoder_of(stage, GARDEN)

    def weighted(model: Any) -> Any:
        return losses.MultipleNegativesRankingLoss(
            model, hardness_mode="hard_negatives", hardness_strength=3.0
        )

    trainer = stage.trainer(weighted, triples(GARDEN, 360, slots=(0, 1)), model, **BRISK, **APART)
    learns(stage, trainer, finds(GARDEN))
