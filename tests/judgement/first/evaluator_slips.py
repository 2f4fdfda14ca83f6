"""Evaluations that do not see what training does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.judgement.case import faulty
from tests.judgement.first.scenes import across, bilingual, quietly
from tests.judgement.stage import Stage, facts, pairs, passage
from tests.judgement.truth import keep, retrieval, truth
from tests.sentence_training import evaluation, losses

ranking = losses.MultipleNegativesRankingLoss
PLAN = {
    "learning_rate": 2e-3,
    "max_steps": 80,
    "eval_strategy": "steps",
    "eval_steps": 10,
    "eval_on_start": True,
}
EVALUATION = r"(evaluat|metric|\bscores?\b)"


def search(table: dict[str, list[str]], **options: Any) -> Any:
    """An evaluator that seeks the second column's texts by the first's."""
    first, second = (
        {str(at): text for at, text in enumerate(texts)} for texts in list(table.values())[:2]
    )
    relevant = {key: {key} for key in first}
    return evaluation.InformationRetrievalEvaluator(
        first, second, relevant, name="search", mrr_at_k=[100], show_progress_bar=False, **options
    )


def _play(
    stage: Stage,
    evaluator: Any,
    table: dict[str, list[str]],
    real: Callable[[Any], float],
    metric: str = "search_cosine_mrr@100",
    **plan: Any,
) -> dict[str, float]:
    """Play a run with an evaluator; keep what it says and how the encoder really does.

    An undefined score counts as 0.
    """
    settings = {**PLAN, **plan}
    trainer = stage.trainer(ranking, table, evaluator=evaluator, **settings)

    def shown() -> float:
        return float(np.nan_to_num(evaluator(trainer.model)[metric]))

    numbers = {"before": real(trainer.model), "shown_before": shown()}
    stage.play(trainer)
    if not trainer.state.global_step:
        quietly(trainer)
    keep(stage, **numbers, after=real(trainer.model), shown_after=shown())
    return truth(stage)


PROMPT = "zan zen zin zon zun : "


@faulty(
    "evaluation lacks the training prompt",
    "Questions are trained with a prompt, and the evaluator seeks without one.",
    (r"prompt", r"instruction", r"prefix"),
)
def search_without_the_prompt_of_training(stage: Stage) -> None:
    numbers = _play(
        stage,
        search(bilingual(100, seed=11)),
        bilingual(640),
        lambda model: retrieval(model, bilingual(100, seed=11), prompts=(PROMPT, "")),
        prompts={"anchor": PROMPT},
        max_steps=60,
    )
    assert numbers["after"] >= numbers["shown_after"] + 0.03, numbers


@faulty(
    "evaluation on the training rows",
    "The evaluator searches among the rows that are trained on, which are learned by heart.",
    (
        r"overlap",
        r"train.{0,60}(text|row|pair|sentence|question)s?.{0,60}evaluat",
        r"evaluat.{0,80}train",
        r"leak",
        r"(same|shared|common) (text|row|sentence|pair)s?",
        r"by heart",
        r"memori[sz]",
        r"unseen",
        r"held.out",
        r"contaminat",
    ),
)
def search_among_rows_of_training(stage: Stage) -> None:
    table = bilingual(64)
    numbers = _play(stage, search(table), table, across, max_steps=100)
    assert numbers["shown_after"] >= numbers["after"] + 0.3, numbers


@faulty(
    "positives and negatives swapped in the evaluator",
    "The evaluator got the columns in another order, so that it counts as right what is wrong.",
    (
        rf"{EVALUATION}.{{0,80}}(fall|fell|drop|wors|lower|decreas|down|declin|sink|sank)",
        r"swap",
        r"exchang",
        r"revers",
        r"(wrong|another) (column|order)",
        r"negatives? .{0,60}(nearer|closer)",
        r"below (chance|half|0\.5)",
        r"(fall|fell|drop|wors|declin|sank)\w* .{0,60}(while|although|as) the loss",
        r"contradict",
    ),
)
def triplets_of_the_evaluator_swapped(stage: Stage) -> None:
    unseen = bilingual(100, seed=11)
    wrong_positives = unseen["positive"][7:] + unseen["positive"][:7]
    evaluator = evaluation.TripletEvaluator(
        unseen["anchor"],
        wrong_positives,
        unseen["positive"],
        name="triplets",
        show_progress_bar=False,
    )
    numbers = _play(stage, evaluator, bilingual(640), across, "triplets_cosine_accuracy")
    assert numbers["after"] >= numbers["before"] + 0.3, numbers
    assert numbers["shown_after"] <= numbers["shown_before"], numbers


@faulty(
    "corpus too small to go wrong",
    "The evaluator's corpus has three documents about quite different things: every search "
    "succeeds before any training.",
    (
        rf"{EVALUATION}.{{0,80}}(1\.0|\b1\b|perfect|saturat|ceiling|full|best|maximum)",
        rf"{EVALUATION}.{{0,80}}(same|constant|stand|flat|not (move|change))",
        r"(few|small|only \d+|three|3) .{0,40}(document|corpus|text|quer|row|pair|example)",
        r"saturat",
        r"too easy",
        r"ceiling",
        r"before (any )?training",
        r"at the start",
        r"does not (move|change|tell|distinguish)",
    ),
)
def search_among_three_documents(stage: Stage) -> None:
    few = {name: texts[:3] for name, texts in pairs(20, seed=11).items()}
    numbers = _play(
        stage,
        search(few),
        pairs(),
        lambda model: retrieval(model, pairs(100, seed=11)),
        learning_rate=1e-3,
    )
    assert numbers["shown_before"] == numbers["shown_after"] == 1, numbers
    assert numbers["after"] >= numbers["before"] + 0.1, numbers


@faulty(
    "gold scores all alike in the evaluation",
    "All pairs of the evaluator are answers of score 1: a rank correlation with them is undefined.",
    (
        r"\bnan\b",
        r"undefined",
        r"constant",
        r"(all|only) .{0,60}(same|equal|\b1\b|one|alike|identical)",
        r"do(es)? not (differ|vary)",
        r"no (negative|variance|spread|variation)",
        r"one value",
        r"(gold|label)s? .{0,60}(same|equal|alike|constant)",
    ),
)
def correlation_with_gold_scores_of_one(stage: Stage) -> None:
    statements = facts(60, seed=11)
    evaluator = evaluation.EmbeddingSimilarityEvaluator(
        [passage(fact) for fact in statements],
        [passage(fact, fillers=4) for fact in statements],
        [1.0] * 60,
        name="gold",
        show_progress_bar=False,
    )
    numbers = _play(stage, evaluator, bilingual(640), across, "gold_spearman_cosine")
    assert numbers["after"] >= numbers["before"] + 0.3, numbers
    assert numbers["shown_before"] == numbers["shown_after"] == 0, numbers
