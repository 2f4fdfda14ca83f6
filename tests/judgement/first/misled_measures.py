"""Evaluators and choices of checkpoints that mislead: what they see is not what is sought."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from datasets import Dataset

from tests.judgement.case import faulty
from tests.judgement.first.fault_subjects import (
    BANK,
    JOBS,
    MATCHES,
    SWIFT,
    reader,
    rolled,
    sought_of,
    unseen,
)
from tests.judgement.first.fields import CLINIC, SHOP
from tests.judgement.first.good_fields import SONGS
from tests.judgement.first.loop_materials import ranking
from tests.judgement.stage import Stage
from tests.judgement.truth import keep, suffers, truth
from tests.sentence_training import evaluation

EVALUATOR = (
    r"(?i)(evaluat\w*|corpus|metric|validation).{0,120}(zero|\b0\b|constant|never|unchanged|same|"
    r"ceiling|perfect|saturat|missing|not in|unknown|few|small|falls?|fell|drop|decreas|below|"
    r"worse|negative|unrelated|correlat|disagree|contradict|order|swap|exchang|chance)",
)
BEST = (
    r"(?i)(greater_is_better|best (model|checkpoint|step)|metric_for_best|load_best|checkpoint)",
    r"(?i)(wrong|opposite) (direction|way)|worst|revers",
)


def searching(table: Mapping[str, Any], relevant: Any = lambda row: {f"d{row}"}) -> Any:
    """An evaluator of retrieval: queries by "q0", "q1"..., passages by "d0", "d1"...."""
    queries, passages = list(table.values())[:2]
    return evaluation.InformationRetrievalEvaluator(
        {f"q{row}": text for row, text in enumerate(queries)},
        {f"d{row}": text for row, text in enumerate(passages)},
        {f"q{row}": relevant(row) for row in range(len(queries))},
        mrr_at_k=[10], ndcg_at_k=[10], accuracy_at_k=[1], precision_recall_at_k=[1], map_at_k=[10],
        show_progress_bar=False,
    )  # fmt: skip


def measured_by(stage: Stage, trainer: Any, evaluator: Any, score: Any, key: str) -> None:
    """Train, and keep what the evaluator and the true score say before and after."""
    seen_before, before = evaluator(trainer.model)[key], score(trainer.model)
    stage.play(trainer)
    keep(
        stage, seen_before=float(seen_before), seen_after=float(evaluator(trainer.model)[key]),
        before=before, after=score(trainer.model),
    )  # fmt: skip


EVERY = {"eval_strategy": "steps", "eval_steps": 10}


@faulty(
    "evaluator whose answers are not in its corpus",
    "The answers are named by numbers and the corpus by d and the number: no answer is ever there, "
    "and the score is zero whatever the encoder learns.",
    [*EVALUATOR, r"(?i)relevant|corpus|\bids?\b|qrels"],
)
def relevant_passages_named_otherwise(stage: Stage) -> None:
    """`{qid: {str(doc)}}` beside a corpus keyed by "d" + str(doc)."""
    evaluator = searching(unseen(CLINIC), lambda row: {str(row)})
    trainer = stage.trainer(
        ranking, CLINIC.table(160), reader(stage, CLINIC), evaluator=evaluator, **EVERY, **SWIFT
    )
    measured_by(stage, trainer, evaluator, sought_of(CLINIC), "cosine_mrr@10")
    numbers = truth(stage)
    assert numbers["seen_after"] == numbers["seen_before"] == 0, numbers
    assert numbers["after"] - numbers["before"] > 0.2, numbers


@faulty(
    "evaluator with four passages",
    "The evaluator searches among four passages and has its answer among the first ten from the "
    "beginning: it is at its ceiling for any encoder.",
    [*EVALUATOR, r"(?i)ceiling|saturat|too (few|easy|small)|corpus|already"],
)
def evaluator_at_its_ceiling(stage: Stage) -> None:
    """recall@10 in a corpus made of the few relevant passages only."""
    table = {name: cells[:4] for name, cells in unseen(MATCHES).items()}
    queries, passages = list(table.values())
    evaluator = evaluation.InformationRetrievalEvaluator(
        {f"q{row}": text for row, text in enumerate(queries)},
        {f"d{row}": text for row, text in enumerate(passages)},
        {f"q{row}": {f"d{row}"} for row in range(4)},
        mrr_at_k=[10], ndcg_at_k=[10], accuracy_at_k=[10], precision_recall_at_k=[10],
        map_at_k=[10], show_progress_bar=False,
    )  # fmt: skip
    trainer = stage.trainer(
        ranking, MATCHES.table(160), reader(stage, MATCHES), evaluator=evaluator,
        metric_for_best_model="cosine_recall@10", **EVERY, **SWIFT,
    )  # fmt: skip
    measured_by(stage, trainer, evaluator, sought_of(MATCHES), "cosine_recall@10")
    numbers = truth(stage)
    assert numbers["seen_before"] == numbers["seen_after"] == 1, numbers
    assert numbers["after"] - numbers["before"] > 0.2, numbers


@faulty(
    "triplets of an evaluator exchanged",
    "The evaluator was given negatives as positives: its accuracy falls while the encoder becomes "
    "better.",
    [*EVALUATOR, r"(?i)(negatives?|positives?).{0,80}(swap|exchang|revers|mixed|wrong|closer)"],
)
def triplet_evaluator_with_exchanged_columns(stage: Stage) -> None:
    """`TripletEvaluator(anchors, negatives, positives)`, by position."""
    anchors, positives = list(unseen(JOBS).values())
    evaluator = evaluation.TripletEvaluator(anchors, rolled(positives, 13), positives)
    trainer = stage.trainer(
        ranking, JOBS.table(160), reader(stage, JOBS), evaluator=evaluator, **EVERY, **SWIFT
    )
    measured_by(stage, trainer, evaluator, sought_of(JOBS), "cosine_accuracy")
    numbers = truth(stage)
    assert numbers["seen_after"] < numbers["seen_before"] - 0.1, numbers
    assert numbers["after"] - numbers["before"] > 0.2, numbers


@faulty(
    "worst checkpoint kept as the best",
    "The best checkpoint is chosen by the loss of evaluation with greater_is_better=True: the one "
    "of the highest loss is loaded at the end.",
    BEST,
)
def highest_loss_taken_for_the_best(stage: Stage) -> None:
    """`metric_for_best_model="eval_loss", greater_is_better=True`."""

    def trainer_of(greater: bool) -> Any:
        settings = {
            "eval_strategy": "steps", "save_strategy": "steps", "eval_steps": 5, "save_steps": 5,
            "load_best_model_at_end": True, "metric_for_best_model": "eval_loss",
            "greater_is_better": greater, "output_dir": str(stage.folder / f"run-{greater}"),
        }  # fmt: skip
        return stage.trainer(
            ranking, SHOP.table(160), reader(stage, SHOP),
            eval_dataset=Dataset.from_dict(unseen(SHOP)), **settings, **SWIFT,
        )  # fmt: skip

    suffers(stage, trainer_of(True), lambda: trainer_of(False), sought_of(SHOP))


@faulty(
    "stopped early by a score that falls as it should",
    "Early stopping watches the loss of evaluation as if more were better: it stops after the "
    "second evaluation and loads the first checkpoint.",
    [*BEST, r"(?i)early.?stop|patience|stopped (early|after)|ended (early|after|before)|few steps"],
)
def early_stop_on_a_falling_loss(stage: Stage) -> None:
    """EarlyStoppingCallback(1) with greater_is_better=True on eval_loss."""
    from transformers import EarlyStoppingCallback

    def trainer_of(greater: bool) -> Any:
        settings = {
            "eval_strategy": "steps", "save_strategy": "steps", "eval_steps": 4, "save_steps": 4,
            "load_best_model_at_end": True, "metric_for_best_model": "eval_loss",
            "greater_is_better": greater, "output_dir": str(stage.folder / f"run-{greater}"),
        }  # fmt: skip
        return stage.trainer(
            ranking, SONGS.table(160), reader(stage, SONGS),
            eval_dataset=Dataset.from_dict(unseen(SONGS)),
            callbacks=[EarlyStoppingCallback(1)], **settings, **SWIFT,
        )  # fmt: skip

    suffers(stage, trainer_of(True), lambda: trainer_of(False), sought_of(SONGS))


@faulty(
    "grades of an evaluator in another order",
    "The evaluator's scores are in another order than its pairs: its correlation says nothing.",
    [*EVALUATOR, r"(?i)correlat|spearman|pearson|order|shuffl|unrelated|chance"],
)
def evaluator_grades_in_another_order(stage: Stage) -> None:
    """Sorted scores from a groupby beside pairs in the file's order."""
    graded = BANK.graded(len(next(iter(unseen(BANK).values()))), seed=11)
    first, second, scores = graded.values()

    def of_grades(grades: list[float]) -> Any:
        return evaluation.EmbeddingSimilarityEvaluator(list(first), list(second), grades)

    evaluator, sound = of_grades(sorted(scores)), of_grades(list(scores))
    trainer = stage.trainer(
        ranking, BANK.table(160), reader(stage, BANK), evaluator=evaluator, **EVERY, **SWIFT
    )
    key = "spearman_cosine"
    measured_by(stage, trainer, evaluator, lambda model: float(sound(model)[key]), key)
    numbers = truth(stage)
    assert abs(numbers["seen_after"]) < 0.3, numbers
    assert numbers["after"] - numbers["before"] > 0.3, numbers
