"""Evaluators whose score says little of what the encoder has learned."""

from __future__ import annotations

import random
from typing import Any

from tests.judgement.case import faulty
from tests.judgement.first.opposed import ranking
from tests.judgement.stage import FILLERS, Stage, pairs, scored
from tests.judgement.truth import alike, among_alike, keep, truth
from tests.sentence_training import evaluation

SETTINGS = {"learning_rate": 1e-3, "max_steps": 50, "eval_strategy": "steps", "eval_steps": 10}
EVALUATOR = r"(?i)evaluat|metric|development|\bdev\b|score"


def checked(stage: Stage, evaluator: Any, table: Any, **settings: Any) -> Any:
    """Train with an evaluator, keep what it says beside the truth, and return the encoder."""
    trainer = stage.trainer(ranking, table, evaluator=evaluator, **{**SETTINGS, **settings})

    def said() -> float:
        numbers = evaluator(trainer.model)
        return float(numbers[evaluator.primary_metric])

    said_before, before = said(), among_alike(trainer.model)
    stage.play(trainer)
    if not trainer.state.global_step:
        return None
    keep(
        stage, before=before, after=among_alike(trainer.model),
        said_before=said_before, said_after=said(),
    )  # fmt: skip
    return trainer.model


@faulty(
    "negatives of an evaluator made of fillers",
    "The evaluator's negatives are random filler words: an untrained encoder tells them apart.",
    (
        EVALUATOR + r".{0,100}(easy|ceiling|from the start|already|baseline|saturat|before train|"
        r"cannot (tell|rise)|does not (change|rise))",
        r"(?i)ceiling|(too|so) easy|cannot tell|no room",
    ),
)
def negatives_of_the_evaluator_are_fillers(stage: Stage) -> None:
    """Negatives made up where none were at hand."""
    draw, table = random.Random(3), pairs(80, seed=21)
    fillers = [" ".join(draw.choices(FILLERS, k=2)) for _ in table["anchor"]]
    evaluator = evaluation.TripletEvaluator(table["anchor"], table["positive"], fillers)
    if checked(stage, evaluator, pairs()) is None:
        return
    scores = truth(stage)
    assert scores["said_before"] >= 0.97, scores
    assert scores["after"] >= scores["before"] + 0.2, scores


def searched(shift: int) -> Any:
    """A search among 80 passages, whose answers are numbered from ``shift``."""
    table = pairs(80, seed=21)
    return evaluation.InformationRetrievalEvaluator(
        {str(at): text for at, text in enumerate(table["anchor"])},
        {str(at): text for at, text in enumerate(table["positive"])},
        {str(at): {str((at + shift) % 80)} for at in range(80)},
    )


@faulty(
    "relevant documents numbered from one",
    "The list of relevant documents counts from 1 and the corpus from 0: each question's answer is "
    "taken to be the next one.",
    (
        EVALUATOR
        + r".{0,120}(chance|\blow\b|not (rise|improve|agree)|falls|relevant|wrong|disagree|"
        r"flat|does not)",
        r"(?i)relevant (doc|passage)|off by one|wrong (answer|doc|id)",
    ),
)
def relevant_documents_numbered_from_one(stage: Stage) -> None:
    """Lists by another program, which counts from 1."""
    if checked(stage, searched(1), pairs()) is None:
        return
    scores = truth(stage)
    assert scores["said_after"] <= 0.15, scores
    assert scores["after"] >= scores["before"] + 0.2, scores


@faulty(
    "gold scores of an older order of the rows",
    "The evaluator's pairs were sorted anew and its gold scores were not.",
    (
        EVALUATOR + r".{0,120}(chance|\blow\b|not (rise|improve|agree)|near 0|wrong|disagree|flat|"
        r"does not|random|shuffl|unrelated)",
        r"(?i)gold",
    ),
)
def gold_scores_of_an_older_order(stage: Stage) -> None:
    """Columns of two files, one of which was sorted."""
    table = scored(120, seed=21)
    gold = random.Random(5).sample(table["score"], 120)
    right = evaluation.EmbeddingSimilarityEvaluator(
        table["sentence1"], table["sentence2"], table["score"]
    )
    evaluator = evaluation.EmbeddingSimilarityEvaluator(
        table["sentence1"], table["sentence2"], gold
    )
    model = checked(stage, evaluator, pairs())
    if model is None:
        return
    said = right(model)
    scores = truth(stage)
    assert abs(scores["said_after"]) <= 0.25 <= said[right.primary_metric] - 0.3, scores
    assert scores["after"] >= scores["before"] + 0.2, scores


@faulty(
    "questions on both sides of the split",
    "Rows were split after each question was worded several ways: the development rows ask what "
    "was trained.",
    (
        r"(?i)(evaluat|development|\bdev\b).{0,120}(trained on|in training|training (set|rows|"
        r"texts)|seen|leak|overlap)",
        r"(?i)leak|overlap|in the training (set|rows|table)|contaminat|trained (on|texts)",
    ),
)
def questions_on_both_sides_of_the_split(stage: Stage) -> None:
    """`train_test_split` of rows and not of questions."""
    questions, answers = alike(80, seed=50).values()
    table = {"anchor": questions[:20] * 4, "positive": answers[:20] * 4}

    def sought(start: int) -> Any:
        return evaluation.InformationRetrievalEvaluator(
            {str(at): questions[at] for at in range(start, start + 20)},
            {str(at): text for at, text in enumerate(answers)},
            {str(at): {str(at)} for at in range(start, start + 20)},
        )

    split, fresh = sought(0), sought(60)
    model = checked(stage, split, table, learning_rate=2e-3)
    if model is None:
        return
    scores = truth(stage)
    keep(stage, **scores, evaluated_fresh=float(fresh(model)[fresh.primary_metric]))
    scores = truth(stage)
    assert scores["said_after"] >= scores["evaluated_fresh"] + 0.15, scores
