"""Sound trainings with evaluation: several evaluators, early stopping, the best model kept."""

from __future__ import annotations

from typing import Any

from tests.judgement.case import sound
from tests.judgement.first.sound_plans import finder
from tests.judgement.first.sound_texts import (
    EVALUATED,
    asked,
    close,
    learned,
    made,
    sold,
    sought,
    titled,
)
from tests.judgement.stage import Stage, pairs, scored, triplets
from tests.judgement.truth import among_alike
from tests.sentence_training import evaluation, losses

ranking = losses.MultipleNegativesRankingLoss
SAVED = {"save_strategy": "steps", "save_steps": 10, "save_total_limit": 1}


def dataset(table: dict[str, Any]) -> Any:
    """Rows as the trainer takes them."""
    from datasets import Dataset

    return Dataset.from_dict(table)


@sound("evaluation")
def search_triplets_and_scores_evaluated(stage: Stage) -> None:
    evaluator = evaluation.SequentialEvaluator(
        [
            finder(asked(close(60, seed=3)), "search"),
            evaluation.TripletEvaluator(*triplets(60, seed=4).values(), name="triplets"),
            evaluation.EmbeddingSimilarityEvaluator(*scored(60, seed=5).values(), name="scores"),
        ],
        main_score_function=lambda scores: scores[0],
    )
    trainer = stage.trainer(ranking, pairs(), evaluator=evaluator, **EVALUATED)
    learned(stage, trainer)


@sound("evaluation")
def best_weights_by_search_kept(stage: Stage) -> None:
    trainer = stage.trainer(
        ranking,
        made(titled),
        evaluator=finder(titled(close(60, seed=3)), "held"),
        load_best_model_at_end=True,
        metric_for_best_model="eval_held_cosine_ndcg@10",
        greater_is_better=True,
        **EVALUATED,
        **SAVED,
    )
    learned(stage, trainer, sought(titled))


@sound("evaluation")
def stopped_when_the_loss_of_unseen_rows_rests(stage: Stage) -> None:
    from transformers import EarlyStoppingCallback

    trainer = stage.trainer(
        ranking,
        made(asked),
        eval_dataset=dataset(made(asked, 48, seed=3)),
        callbacks=[EarlyStoppingCallback(early_stopping_patience=2)],
        load_best_model_at_end=True,
        metric_for_best_model="eval_loss",
        greater_is_better=False,
        max_steps=80,
        **EVALUATED,
        **SAVED,
    )
    learned(stage, trainer, sought(asked))


@sound("evaluation")
def loss_of_unseen_rows_at_each_epoch(stage: Stage) -> None:
    trainer = stage.trainer(
        ranking,
        made(sold),
        eval_dataset=dataset(made(sold, 64, seed=3)),
        eval_strategy="epoch",
        max_steps=-1,
        num_train_epochs=5,
    )
    learned(stage, trainer, among_alike)


@sound("evaluation")
def two_unseen_sets_by_name(stage: Stage) -> None:
    trainer = stage.trainer(
        ranking,
        triplets(),
        eval_dataset={
            "near": dataset(triplets(48, seed=3)),
            "pairs": dataset(pairs(48, seed=4)),
        },
        **EVALUATED,
    )
    learned(stage, trainer)


@sound("evaluation")
def candidates_put_in_order_again(stage: Stage) -> None:
    """Before training, halfway and after it, a reranking of four passages is measured."""
    table = triplets(60, seed=3)
    samples = [
        {"query": query, "positive": [near], "negative": [far, *table["positive"][at - 2 : at]]}
        for at, (query, near, far) in enumerate(zip(*table.values(), strict=True))
        if at > 1
    ]
    trainer = stage.trainer(
        ranking,
        triplets(),
        evaluator=evaluation.RerankingEvaluator(samples, name="four", show_progress_bar=False),
        eval_on_start=True,
        eval_strategy="steps",
        eval_steps=20,
    )
    learned(stage, trainer)
