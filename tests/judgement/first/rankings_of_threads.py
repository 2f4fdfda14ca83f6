"""Sound set-ups of the trainer: losses that rank, with hard negatives, samplers and evaluators."""

from __future__ import annotations

from typing import Any

from sentence_transformers.sentence_transformer import losses
from sentence_transformers.sentence_transformer.evaluation import (
    InformationRetrievalEvaluator,
    TripletEvaluator,
)

from tests.judgement.case import sound
from tests.judgement.first.fields_of_many_tongues import (
    CHEMISTRY,
    COMMITS,
    GARDEN,
    HEADLINES,
    MAILS,
    MUSEUM,
    SQL,
    TAGS,
    WEATHER,
    ragged,
    small,
    sought,
    triples,
)
from tests.judgement.first.turns import warmed
from tests.judgement.stage import Stage
from tests.judgement.truth import learns

FAST: dict[str, Any] = {"learning_rate": 2e-3, "max_steps": 60}


@sound("ranking of records in formulas")
def formulas_ranked_for_plain_questions(stage: Stage) -> None:
    model = small(stage, CHEMISTRY)
    trainer = stage.trainer(
        losses.MultipleNegativesRankingLoss, CHEMISTRY.table(320), model,
        per_device_train_batch_size=32, **FAST,
    )  # fmt: skip
    learns(stage, trainer, sought(CHEMISTRY))


@sound("ranking with several hard negatives and an evaluator")
def three_hard_negatives_for_each_mail(stage: Stage) -> None:
    model = small(stage, MAILS)
    held = MAILS.table(40, seed=13)
    names = [str(at) for at in range(40)]
    evaluator = InformationRetrievalEvaluator(
        dict(zip(names, held["subject"], strict=True)),
        dict(zip(names, held["mail"], strict=True)),
        {name: {name} for name in names},
        show_progress_bar=False,
    )
    trainer = stage.trainer(
        losses.MultipleNegativesRankingLoss, triples(MAILS, 240, negatives=3), model,
        evaluator=evaluator, eval_strategy="steps", eval_steps=20,
        per_device_train_batch_size=12, learning_rate=2e-3, max_steps=60,
    )  # fmt: skip
    learns(stage, trainer, sought(MAILS))


@sound("cached ranking in large batches")
def large_cached_batches_of_commits(stage: Stage) -> None:
    model = small(stage, COMMITS)
    trainer = stage.trainer(
        lambda encoder: losses.CachedMultipleNegativesRankingLoss(encoder, mini_batch_size=24),
        COMMITS.table(400), model, per_device_train_batch_size=96, max_steps=36,
        learning_rate=3e-3,
    )  # fmt: skip
    learns(stage, trainer, sought(COMMITS))


@sound("symmetric ranking")
def wishes_and_queries_in_both_directions(stage: Stage) -> None:
    model = small(stage, SQL)
    trainer = stage.trainer(
        losses.MultipleNegativesSymmetricRankingLoss, SQL.table(300), model,
        per_device_train_batch_size=24, **FAST,
    )  # fmt: skip
    learns(stage, trainer, sought(SQL))


@sound("no duplicates in a batch")
def batches_without_duplicate_headlines(stage: Stage) -> None:
    """A headline goes with its lead and with its lead among remarks, in separate rows."""
    model = small(stage, HEADLINES)
    plain, noisy = HEADLINES.table(200), ragged(HEADLINES, 200)
    table = {
        "headline": plain["headline"] + plain["headline"],
        "lead": plain["lead"] + [f"update . {text}" for text in noisy["lead"]],
    }
    trainer = stage.trainer(
        losses.MultipleNegativesRankingLoss, table, model, batch_sampler="no_duplicates",
        per_device_train_batch_size=20, learning_rate=1.5e-3, max_steps=70,
    )  # fmt: skip
    learns(stage, trainer, sought(HEADLINES))


@sound("margin triplets with an evaluator")
def cosine_triplets_of_garden_answers(stage: Stage) -> None:
    model = warmed(small(stage, GARDEN), GARDEN.table(200, seed=2), 4)
    rows, held = GARDEN.table(600), list(triples(GARDEN, 50, seed=13).values())
    trainer = stage.trainer(
        lambda encoder: losses.TripletLoss(
            encoder, losses.TripletDistanceMetric.COSINE, triplet_margin=0.3
        ),
        {name: texts[:300] for name, texts in rows.items()} | {"negative": rows["answer"][300:]},
        model, evaluator=TripletEvaluator(*held, show_progress_bar=False),
        eval_strategy="steps", eval_steps=20, per_device_train_batch_size=32,
        learning_rate=1e-3, max_steps=80,
    )  # fmt: skip
    learns(stage, trainer, sought(GARDEN))


@sound("queries rank queries as well")
def ranking_in_all_four_directions(stage: Stage) -> None:
    model = small(stage, WEATHER)
    directions = ("query_to_doc", "query_to_query", "doc_to_query", "doc_to_doc")
    trainer = stage.trainer(
        lambda encoder: losses.MultipleNegativesRankingLoss(
            encoder, directions=directions, partition_mode="joint"
        ),
        WEATHER.table(320), model, per_device_train_batch_size=32, **FAST,
    )  # fmt: skip
    learns(stage, trainer, sought(WEATHER))


@sound("very short texts in small batches")
def tags_of_posts_in_batches_of_eight(stage: Stage) -> None:
    model = small(stage, TAGS)
    trainer = stage.trainer(
        lambda encoder: losses.MultipleNegativesRankingLoss(encoder, scale=12.0),
        TAGS.table(260), model, per_device_train_batch_size=8, learning_rate=2e-3, max_steps=90,
    )  # fmt: skip
    learns(stage, trainer, sought(TAGS))


@sound("long guides by short labels, validation loss")
def museum_guides_with_validation_loss(stage: Stage) -> None:
    from datasets import Dataset

    model = small(stage, MUSEUM)
    trainer = stage.trainer(
        losses.MultipleNegativesRankingLoss, MUSEUM.table(240), model,
        eval_dataset=Dataset.from_dict(MUSEUM.table(40, seed=13)), eval_strategy="steps",
        eval_steps=15, per_device_eval_batch_size=20, per_device_train_batch_size=20,
        learning_rate=2e-3, max_steps=45,
    )  # fmt: skip
    learns(stage, trainer, sought(MUSEUM))


@sound("mega-batch margin")
def hardest_negative_of_a_mega_batch_anew(stage: Stage) -> None:
    model = small(stage, COMMITS)
    trainer = stage.trainer(
        lambda encoder: losses.MegaBatchMarginLoss(encoder, use_mini_batched_version=False),
        COMMITS.table(360), model, per_device_train_batch_size=60, learning_rate=3e-3,
        max_steps=50,
    )  # fmt: skip
    learns(stage, trainer, sought(COMMITS))
