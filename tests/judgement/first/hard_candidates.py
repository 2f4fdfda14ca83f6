"""Sound set-ups: hard negatives, mined ones, guides and margins."""

from __future__ import annotations

from tests.judgement.case import sound
from tests.judgement.first.common_tools import QUICK, fresh, nearer, warm, with_near
from tests.judgement.first.loop_materials import ranking
from tests.judgement.first.slot_fields import (
    ADDRESSES,
    FUNCTIONS,
    HEADLINES,
    QUERIES,
    RECIPES,
    STATUTES,
)
from tests.judgement.stage import Stage
from tests.judgement.truth import learns
from tests.sentence_training import losses


@sound("four hard negatives a row, small batch")
def statutes_with_four_near_articles(stage: Stage) -> None:
    """Articles that differ in person, deed, goods or span; a batch of 8 has 40 candidates."""
    table = with_near(STATUTES, 300, 0, 0, 1, 2, 3)
    trainer = stage.trainer(
        ranking, table, fresh(stage, table), per_device_train_batch_size=8, learning_rate=1.5e-3,
        max_steps=80,
    )  # fmt: skip
    tested = with_near(STATUTES, 80, 11, 1)
    learns(stage, trainer, lambda model: nearer(model, tested), least=0.1)


@sound("triplet loss of cosines, pre-trained encoder")
def triplets_of_queries_about_other_tables(stage: Stage) -> None:
    """Cosine distances go from 0 to 2, so a margin of 0.3 is apt; the encoder knows the field."""
    table = with_near(QUERIES, 400, 0, 2)
    model = warm(stage, QUERIES.table(150, seed=4), table, steps=14)
    trainer = stage.trainer(
        lambda model: losses.TripletLoss(
            model, losses.TripletDistanceMetric.COSINE, triplet_margin=0.3
        ),
        table, model, learning_rate=1e-3, max_steps=70,
    )  # fmt: skip
    tested = with_near(QUERIES, 100, 11, 2)
    learns(stage, trainer, lambda model: nearer(model, tested), least=0.1)


@sound("guide that removes false negatives")
def headlines_beside_a_guide(stage: Stage) -> None:
    """Leads repeat in the table; the guide, a trained encoder, drops those that answer as well.

    Remark: eighty of the rows occur twice; they could be removed instead.
    """
    table = HEADLINES.table(200)
    repeated = {name: texts + texts[:80] for name, texts in table.items()}
    guide = warm(stage, HEADLINES.table(300, seed=2), table, steps=60, name="guide")
    trainer = stage.trainer(
        lambda model: losses.GISTEmbedLoss(model, guide, temperature=0.05),
        repeated, fresh(stage, table), **QUICK,
    )  # fmt: skip
    learns(stage, trainer, HEADLINES.sought, least=0.1)


@sound("large batches with a margin to the hardest candidate")
def addresses_by_mega_batches(stage: Stage) -> None:
    """The hardest of 64 rows is the negative, as in ParaNMT; the encoder is pre-trained."""
    table = ADDRESSES.table(360)
    model = warm(stage, ADDRESSES.table(200, seed=2), table, steps=14)
    trainer = stage.trainer(
        lambda model: losses.MegaBatchMarginLoss(model, mini_batch_size=32), table, model,
        per_device_train_batch_size=64, learning_rate=1e-3, max_steps=40,
    )  # fmt: skip
    learns(stage, trainer, ADDRESSES.sought, least=0.1)


@sound("negatives mined by the library")
def functions_with_mined_negatives(stage: Stage) -> None:
    """Negatives are mined by an encoder that knows the field, two a row, not of the same row."""
    from datasets import Dataset
    from sentence_transformers.util import mine_hard_negatives

    table = FUNCTIONS.table(240)
    model = warm(stage, FUNCTIONS.table(200, seed=2), table, steps=10)
    mined = mine_hard_negatives(
        Dataset.from_dict(table), model, range_min=1, range_max=30, num_negatives=2,
        max_score=0.95, sampling_strategy="random", output_format="n-tuple", verbose=False,
        batch_size=64, use_faiss=False,
    )  # fmt: skip
    trainer = stage.trainer(ranking, mined.to_dict(), model, learning_rate=1e-3, max_steps=50)
    learns(stage, trainer, FUNCTIONS.sought, least=0.1)


@sound("all four directions of a batch")
def recipes_in_all_four_directions(stage: Stage) -> None:
    """The improved contrastive loss of GTE: titles and steps are negatives of each other's rows."""
    table = RECIPES.table(400, seed=2)
    trainer = stage.trainer(
        lambda model: losses.MultipleNegativesRankingLoss(
            model,
            directions=("query_to_doc", "query_to_query", "doc_to_query", "doc_to_doc"),
        ),
        table, fresh(stage, table), per_device_train_batch_size=24, **QUICK,
    )  # fmt: skip
    learns(stage, trainer, RECIPES.sought, least=0.1)
