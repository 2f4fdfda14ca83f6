"""Evaluators that do not see what training does: one column twice, too easy, of trained rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.judgement.case import DOCTOR, REPORT, faulty
from tests.judgement.first.hand_loops import quietly
from tests.judgement.stage import FILLERS, Stage, facts, pairs, scored
from tests.judgement.truth import among_alike, keep, retrieval, truth
from tests.sentence_training import evaluation, losses

ranking = losses.MultipleNegativesRankingLoss
WATCHED = {"eval_strategy": "steps", "eval_steps": 10, "eval_on_start": True}
TWICE = (
    r"same (text|column|sentence|score|value)s?", r"identical", r"twice", r"itself", r"\bnan\b",
    r"(cosine|similarit)\w*.{0,60}\b1\b", r"(column|sentence)s?.{0,60}(equal|the same|cop)",
    r"evaluat\w*.{0,100}(not (change|move|vary)|constant|same|undefined|0\b|chance|equal)",
    r"score.{0,80}(does not|did not|never|stays|stayed|constant|undefined|flat)",
)  # fmt: skip
EASY = (
    r"(too )?(easy|trivial|saturat|ceiling|perfect)", r"no room",
    r"(score|accuracy|evaluat)\w*.{0,80}"
    r"(\b1\.0|\b1\b|best|highest|from the start|not (change|move|rise)|constant|stays|same|flat)",
    r"(few|small|only) (candidates|documents|negatives|corpus)", r"random negatives?",
    r"unrelated negatives?", r"before (the )?training",
)  # fmt: skip
TRAINED = (
    r"overlap", r"leak", r"(also|stand|appear|occur|seen|contained).{0,60}train",
    r"train\w*.{0,60}(also|too|same|and (the )?evaluat)", r"held.out", r"contaminat",
    r"(evaluat|dev|test)\w*.{0,80}(train|same (text|row|pair)s?)", r"memori[sz]|learnt by heart",
    r"(share|both|common).{0,60}(text|row|pair)s?",
)  # fmt: skip


def _evaluated(
    stage: Stage, trainer: Any, evaluator: Any, score: Callable[[Any], float] = among_alike
) -> dict[str, float]:
    """Play a trainer; keep what the evaluator and a score of other texts say before and after."""

    def asked() -> float:
        scores: dict[str, float] = {}
        quietly(lambda: scores.update(evaluator(trainer.model)))
        number = scores[evaluator.primary_metric]
        return 0.0 if number != number else number

    numbers = {"evaluated_before": asked(), "before": score(trainer.model)}
    stage.play(trainer)
    if "report" not in stage.frozen or "error" in stage.frozen["report"]:
        return {}
    keep(stage, **numbers, evaluated_after=asked(), after=score(trainer.model))
    return truth(stage)


@faulty(
    "evaluator that compares a column with itself",
    "The evaluator got sentence1 for both of its columns: all cosines are 1, and it says the same "
    "whatever the encoder learns.",
    TWICE,
)
def evaluator_with_one_column_twice(stage: Stage) -> None:
    gold = scored(80, seed=4)
    evaluator = evaluation.EmbeddingSimilarityEvaluator(
        gold["sentence1"], gold["sentence1"], gold["score"], name="made-up"
    )
    said = _evaluated(
        stage, stage.trainer(ranking, pairs(), evaluator=evaluator, **WATCHED), evaluator
    )
    if said:
        assert said["after"] - said["before"] >= 0.1, said
        assert said["evaluated_after"] - said["evaluated_before"] <= 0.05, said


@faulty(
    "evaluation that is solved before training",
    "The negatives of the evaluator are words without a fact: it says 1.0 before training and can "
    "say nothing else afterwards.",
    EASY,
    tools=(DOCTOR, REPORT),
)
def negatives_that_anyone_tells_apart(stage: Stage) -> None:
    asked = pairs(40, seed=4)
    evaluator = evaluation.TripletEvaluator(
        asked["positive"], asked["positive"], [f"{at} {FILLERS[at]}" for at in range(40)],
        name="made-up",
    )  # fmt: skip
    said = _evaluated(
        stage, stage.trainer(ranking, pairs(), evaluator=evaluator, **WATCHED), evaluator
    )
    if said:
        assert said["after"] - said["before"] >= 0.1, said
        assert said["evaluated_before"] >= 0.97, said


def _descriptions(count: int, seed: int) -> dict[str, list[str]]:
    """People and what is said of them, which nobody can tell who has not read it."""
    statements = facts(count, seed)
    return {
        "anchor": [
            f"{person} {FILLERS[int(number) % len(FILLERS)]} ?" for *_, person, number in statements
        ],
        "positive": [f"{verb} {topic} {place} ." for verb, topic, place, *_ in statements],
    }


@faulty(
    "evaluation rows that are trained on",
    "The development rows were drawn from the table before it was split and are trained on: the "
    "evaluator rises while other texts are found little better.",
    TRAINED,
)
def development_rows_in_the_training_table(stage: Stage) -> None:
    table = _descriptions(48, 3)
    queries, corpus = ({str(at): text for at, text in enumerate(texts)} for texts in table.values())
    evaluator = evaluation.InformationRetrievalEvaluator(
        queries, corpus, {key: {key} for key in queries}, name="made-up", batch_size=48
    )
    trainer = stage.trainer(
        ranking, table, evaluator=evaluator, max_steps=80, learning_rate=3e-3, **WATCHED
    )
    said = _evaluated(
        stage, trainer, evaluator,
        lambda model: retrieval(model, _descriptions(48, 8)),
    )  # fmt: skip
    if said:
        gained = said["after"] - said["before"]
        assert said["evaluated_after"] - said["evaluated_before"] >= gained + 0.1, said
