"""Sound set-ups of the trainer on pairs and triplets: ranking losses, batches, evaluators."""

from __future__ import annotations

from typing import Any

from tests.judgement.case import sound
from tests.judgement.first.fields import Field
from tests.judgement.first.fields_of_records import (
    BIRDS,
    CALLS,
    GREEK,
    KOREAN,
    METERS,
    QUERIES,
    REAGENTS,
    RULINGS,
    fresh,
    voyages,
)
from tests.judgement.stage import Stage
from tests.judgement.truth import learns, retrieval
from tests.sentence_training import evaluation, losses


def search_of(field: Field, count: int = 60) -> Any:
    """An evaluator of search among texts not in training."""
    first, second = list(field.table(count, seed=21).values())[:2]
    names = [str(at) for at in range(count)]
    return evaluation.InformationRetrievalEvaluator(
        dict(zip(names, first, strict=True)), dict(zip(names, second, strict=True)),
        {name: {name} for name in names}, batch_size=64,
    )  # fmt: skip


@sound(
    "ranking with a prompt for each column and an evaluator of search",
    allowed={"the evaluator none": "The evaluator gets no prompts, while training does."},
)
def questions_with_prompts_for_database_queries(stage: Stage) -> None:
    prompts = {"question": "search : ", "sql": "statement : "}
    table = QUERIES.table(320)
    model = fresh(stage, {**QUERIES.table(900, 2), "marks": list(prompts.values())})
    trainer = stage.trainer(
        losses.MultipleNegativesRankingLoss, table, model, prompts=prompts, learning_rate=2e-3,
        batch_sampler="no_duplicates", eval_strategy="steps", eval_steps=20,
        evaluator=search_of(QUERIES),
    )  # fmt: skip
    learns(stage, trainer, lambda m: QUERIES.sought(m, prompts=tuple(prompts.values())))


@sound("symmetric ranking of translations with an evaluator of translation")
def greek_translations_in_two_directions(stage: Stage) -> None:
    first, second = GREEK.table(50, seed=21).values()
    trainer = stage.trainer(
        losses.MultipleNegativesSymmetricRankingLoss, GREEK.table(320), fresh(stage, GREEK),
        per_device_train_batch_size=24, learning_rate=1.5e-3, lr_scheduler_type="cosine",
        evaluator=evaluation.TranslationEvaluator(first, second), eval_strategy="steps",
        eval_steps=10,
    )  # fmt: skip
    learns(stage, trainer, GREEK.sought)


@sound("cached ranking of long texts in large batches")
def rulings_in_large_cached_batches(stage: Stage) -> None:
    trainer = stage.trainer(
        lambda encoder: losses.CachedMultipleNegativesRankingLoss(encoder, mini_batch_size=16),
        RULINGS.table(384), fresh(stage, RULINGS), per_device_train_batch_size=96,
        learning_rate=2e-3, max_steps=16,
    )  # fmt: skip
    learns(stage, trainer, RULINGS.sought)


@sound("triplets by cosine distance with an evaluator of triplets")
def birds_in_triplets_by_cosine_distance(stage: Stage) -> None:
    table = BIRDS.table(320) | {"negative": BIRDS.near(320, slot=0)}
    held_out = BIRDS.table(60, seed=21) | {"negative": BIRDS.near(60, seed=21, slot=0)}
    trainer = stage.trainer(
        lambda encoder: losses.TripletLoss(
            encoder, losses.TripletDistanceMetric.COSINE, triplet_margin=0.3
        ),
        table, fresh(stage, BIRDS), per_device_train_batch_size=32, learning_rate=2e-3,
        max_steps=60, evaluator=evaluation.TripletEvaluator(*held_out.values()),
        eval_strategy="epoch",
    )  # fmt: skip

    def told_apart(model: Any) -> float:
        accuracy = evaluation.TripletEvaluator(*held_out.values())(model)
        return float(accuracy["cosine_accuracy"])

    learns(stage, trainer, told_apart)


@sound("ranking with a hard negative and accumulated batches")
def reactions_with_another_catalyst_as_negative(stage: Stage) -> None:
    table = REAGENTS.table(320) | {"negative": REAGENTS.near(320, slot=2)}
    trainer = stage.trainer(
        losses.MultipleNegativesRankingLoss, table, fresh(stage, REAGENTS),
        per_device_train_batch_size=16, gradient_accumulation_steps=2, learning_rate=2e-3,
        max_steps=30, max_grad_norm=1.0, weight_decay=0.01,
    )  # fmt: skip
    learns(stage, trainer, REAGENTS.sought)


@sound("Matryoshka embeddings, scored at their shortest")
def readings_of_meters_in_nested_dimensions(stage: Stage) -> None:
    trainer = stage.trainer(
        lambda encoder: losses.MatryoshkaLoss(
            encoder, losses.MultipleNegativesRankingLoss(encoder), [48, 24, 12]
        ),
        METERS.table(320), fresh(stage, METERS), per_device_train_batch_size=24,
        learning_rate=2e-3, evaluator=search_of(METERS), eval_strategy="steps", eval_steps=20,
    )  # fmt: skip

    def shortened(model: Any) -> float:
        model.truncate_dim = 12
        score = METERS.sought(model)
        model.truncate_dim = None
        return score

    learns(stage, trainer, shortened)


@sound("margin over the hardest of a large batch")
def voyages_in_mega_batches(stage: Stage) -> None:
    table, held_out = voyages(400), voyages(60, seed=11)
    trainer = stage.trainer(
        lambda encoder: losses.MegaBatchMarginLoss(encoder, mini_batch_size=25),
        table, fresh(stage, {**voyages(500, 2), "first": [*table["log"], *table["keywords"]]}),
        per_device_train_batch_size=100, learning_rate=2e-3, max_steps=24,
    )  # fmt: skip
    learns(stage, trainer, lambda model: retrieval(model, held_out))


@sound("two data sets, each with a loss of its own, in turn")
def search_and_graded_pairs_in_turn(stage: Stage) -> None:
    from datasets import Dataset, DatasetDict
    from sentence_transformers import SentenceTransformerTrainer

    matched_pairs, graded_pairs = CALLS.table(240), KOREAN.graded(240)
    model = fresh(stage, {**CALLS.table(300, 2), **KOREAN.table(700, 2)}, width=64)
    settings = stage.trainer(
        losses.CoSENTLoss, graded_pairs, model, learning_rate=2e-3, max_steps=50,
        multi_dataset_batch_sampler="round_robin",
    ).args  # fmt: skip
    trainer = SentenceTransformerTrainer(
        model=model, args=settings,
        train_dataset=DatasetDict({
            "calls": Dataset.from_dict(matched_pairs), "sentences": Dataset.from_dict(graded_pairs),
        }),
        loss={"calls": losses.MultipleNegativesRankingLoss(model),
              "sentences": losses.CoSENTLoss(model)},
    )  # fmt: skip
    learns(stage, trainer, lambda m: (CALLS.sought(m) + KOREAN.sought(m)) / 2)


@sound("pairs of one language with two, ranked in two directions")
def sentences_in_three_scripts_ranked_in_all_directions(stage: Stage) -> None:
    english, korean, arabic = KOREAN.table(240).values()
    table = {"anchor": english * 2, "positive": korean + arabic}
    trainer = stage.trainer(
        lambda encoder: losses.MultipleNegativesRankingLoss(
            encoder, directions=("query_to_doc", "doc_to_query"), partition_mode="per_direction"
        ),
        table, fresh(stage, KOREAN), per_device_train_batch_size=20, learning_rate=2e-3,
        batch_sampler="no_duplicates", max_steps=50,
    )  # fmt: skip
    learns(stage, trainer, KOREAN.sought)
