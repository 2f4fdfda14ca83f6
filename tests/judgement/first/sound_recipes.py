"""Sound set-ups: the ranking losses of the library, on questions, products and records."""

from __future__ import annotations

from typing import Any

from sentence_transformers.sentence_transformer import losses

from tests.judgement.case import sound
from tests.judgement.first.bodies import encoder, words_of
from tests.judgement.first.fields import CLINIC, HELPDESK, KITCHEN, PAPERS, SHOP
from tests.judgement.stage import Stage
from tests.judgement.truth import learns

QUICK = {"learning_rate": 2e-3}


@sound("pairs with in-batch negatives")
def cooking_questions_and_their_recipes(stage: Stage) -> None:
    """The plainest script: questions, answers and the ranking loss with its defaults."""
    table = KITCHEN.table(240)
    model = encoder(stage, words_of([table]))
    trainer = stage.trainer(losses.MultipleNegativesRankingLoss, table, model, **QUICK)
    learns(stage, trainer, KITCHEN.sought)


@sound("five hard negatives to a row")
def five_lookalike_products_to_a_query(stage: Stage) -> None:
    """Mined negatives stand in five columns, as after `mine_hard_negatives(output_format=...)`."""
    table = SHOP.table(160)
    for number in range(5):
        table[f"negative_{number + 1}"] = SHOP.near(160, seed=2 * number, slot=number % 3)
    model = encoder(stage, words_of([table]))
    trainer = stage.trainer(
        losses.MultipleNegativesRankingLoss, table, model,
        per_device_train_batch_size=8, max_steps=50, **QUICK,
    )  # fmt: skip
    learns(stage, trainer, SHOP.sought)


@sound("ranking in four directions")
def clinic_notes_ranked_in_all_directions(stage: Stage) -> None:
    """Complaints and records, with queries and documents contrasted among themselves as well."""
    table = CLINIC.table(160)
    model = encoder(stage, words_of([table]))

    def ranking(encoder_: Any) -> Any:
        directions = ("query_to_doc", "query_to_query", "doc_to_query", "doc_to_doc")
        return losses.MultipleNegativesRankingLoss(encoder_, directions=directions)

    learns(stage, stage.trainer(ranking, table, model, **QUICK), CLINIC.sought)


@sound("harder negatives weigh more")
def harder_negatives_weighted_up(stage: Stage) -> None:
    """The hardness of negatives weighs them, as in LLaVE."""
    table = HELPDESK.table(200)
    model = encoder(stage, words_of([table]))

    def ranking(encoder_: Any) -> Any:
        return losses.MultipleNegativesRankingLoss(
            encoder_, scale=30.0, hardness_mode="in_batch_negatives", hardness_strength=5.0
        )

    learns(stage, stage.trainer(ranking, table, model, **QUICK), HELPDESK.sought)


@sound("cached large batch")
def batch_of_ninety_six_cached(stage: Stage) -> None:
    """A batch far larger than what fits at once, with a rate to match."""
    table = KITCHEN.table(480)
    model = encoder(stage, words_of([table]))

    def ranking(encoder_: Any) -> Any:
        return losses.CachedMultipleNegativesRankingLoss(encoder_, mini_batch_size=32)

    trainer = stage.trainer(
        ranking, table, model, per_device_train_batch_size=96, max_steps=20, learning_rate=3e-3
    )
    learns(stage, trainer, KITCHEN.sought)


def guide_of(stage: Stage, table: dict[str, list[str]]) -> Any:
    """An encoder that was trained beforehand for a while, to guide the choice of negatives."""
    guide = encoder(stage, words_of([table]), name="guide", seed=5)
    trainer = stage.trainer(
        losses.MultipleNegativesRankingLoss, table, guide, learning_rate=3e-3, max_steps=25
    )
    trainer.train()
    return guide.eval()


@sound("guide filters negatives")
def guide_that_filters_negatives(stage: Stage) -> None:
    """A trained guide leaves false negatives out, at a temperature of 0.05."""
    table = SHOP.table(200)
    guide, model = guide_of(stage, table), encoder(stage, words_of([table]))

    def guided(encoder_: Any) -> Any:
        return losses.GISTEmbedLoss(encoder_, guide, temperature=0.05)

    learns(stage, stage.trainer(guided, table, model, **QUICK), SHOP.sought)


@sound("cached guide with a relative margin")
def cached_guide_with_a_relative_margin(stage: Stage) -> None:
    """Negatives above 95% of the positive's score are left out; hard negatives in a column."""
    table = HELPDESK.table(160)
    guide = guide_of(stage, table)
    table["negative"] = HELPDESK.near(160)
    model = encoder(stage, words_of([table]))

    def guided(encoder_: Any) -> Any:
        return losses.CachedGISTEmbedLoss(
            encoder_, guide, temperature=0.05, mini_batch_size=8,
            margin_strategy="relative", margin=0.05,
        )  # fmt: skip

    learns(stage, stage.trainer(guided, table, model, **QUICK), HELPDESK.sought)


@sound("hardest negative of a mega-batch")
def hardest_negative_of_a_mega_batch(stage: Stage) -> None:
    """Titles and abstracts, of which the hardest of the batch is pushed away."""
    table = PAPERS.table(240)
    model = encoder(stage, words_of([table]))

    def margin(encoder_: Any) -> Any:
        return losses.MegaBatchMarginLoss(encoder_, use_mini_batched_version=False)

    trainer = stage.trainer(
        margin, table, model, per_device_train_batch_size=32, max_steps=60, learning_rate=5e-3
    )
    learns(stage, trainer, PAPERS.sought)


@sound("triplets between unit vectors")
def triplets_of_clinic_notes_by_cosine(stage: Stage) -> None:
    """Triplets at cosine distances, with a margin of 0.3."""
    table = CLINIC.table(160) | {"negative": CLINIC.near(160)}
    model = encoder(stage, words_of([table]))

    def triplet(encoder_: Any) -> Any:
        metric = losses.TripletDistanceMetric.COSINE
        return losses.TripletLoss(encoder_, distance_metric=metric, triplet_margin=0.3)

    trainer = stage.trainer(
        triplet, table, model, max_steps=80, learning_rate=5e-3, per_device_train_batch_size=24
    )
    learns(stage, trainer, CLINIC.sought)
