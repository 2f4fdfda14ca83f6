"""Faults of runs: optimisers, rates, length, early stopping, and what an evaluator compares."""

from __future__ import annotations

from typing import Any

import torch

from tests.judgement.case import REPORT, faulty
from tests.judgement.first.runs import PLAN
from tests.judgement.first.runs import retrieval as searching
from tests.judgement.stage import STEPS, Stage, pairs, scored
from tests.judgement.truth import suffers
from tests.sentence_training import evaluation, losses

ranking = losses.MultipleNegativesRankingLoss
EPSILON = (r"epsilon", r"\beps\b")
RISING = (
    r"rate .{0,60}(rise|grow|increas|climb|higher|highest)",
    r"schedul",
    r"(rising|growing) .{0,20}rate",
)
FEW_STEPS = (
    r"train longer",
    r"\b(1|2|3|one|two|three|few) (optimi[sz]er )?steps?\b",
    r"few(er)? (optimi[sz]er )?steps",
    r"epochs?",
)
STOPPED = (
    r"early.?stopp",
    r"patience",
    r"stopp?(ed|s)\b",
    r"greater_is_better",
    r"(ended|ends) .{0,40}(early|before|of \d+)",
    r"planned",
    r"\d+ of (the )?\d+ steps",
)
UNSCORED = (
    r"eval_strategy",
    r"eval_steps",
    r"evaluat\w* .{0,60}(never|not|no\b|only|beyond|after|longer)",
    r"(never|not|no) .{0,40}evaluat",
    r"no score",
)
GOLD = (
    r"relevant",
    r"gold",
    r"corpus",
    r"(evaluator|evaluation).{0,80}(chance|wrong|labels?|zero|\b0\b)",
    r"(score|metric|recall|ndcg|accuracy).{0,60}(chance|zero|never|\b0(\.0+)?\b(?!\.))",
)
SMALL = (
    r"\b(3|4|three|four) (pairs|rows|queries|texts|examples)",
    r"few (pairs|rows|queries|texts)",
    r"small",
    r"noise",
    r"too few",
)


@faulty(
    "epsilon of Adam", "adam_epsilon is 10, so that steps are a thousandth of the rate.", EPSILON
)
def epsilon_of_ten(stage: Stage) -> None:
    suffers(
        stage,
        stage.trainer(ranking, pairs(), adam_epsilon=10.0),
        lambda: stage.trainer(ranking, pairs()),
    )


@faulty(
    "rate that rises",
    "The rate is multiplied by 1.2 with each step, as in a search for a rate that was left on.",
    RISING,
)
def rate_search_left_on(stage: Stage) -> None:
    model = stage.model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-4)
    schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=1.2)
    suffers(
        stage,
        stage.trainer(ranking, pairs(), model, optimizers=(optimizer, schedule)),
        lambda: stage.trainer(ranking, pairs()),
    )


@faulty("too few steps", "One epoch of 160 rows in batches of 128 is two steps.", FEW_STEPS)
def two_steps_of_one_epoch(stage: Stage) -> None:
    plan: dict[str, Any] = {"max_steps": -1, "warmup_steps": 0, "per_device_train_batch_size": 128}
    suffers(
        stage,
        stage.trainer(ranking, pairs(), num_train_epochs=1, learning_rate=2e-5, **plan),
        lambda: stage.trainer(ranking, pairs(), num_train_epochs=20, **plan),
        every=1,
    )


@faulty(
    "too few steps",
    "Ten batches an epoch, of which 64 are accumulated: each epoch takes one step.",
    FEW_STEPS,
)
def accumulation_longer_than_an_epoch(stage: Stage) -> None:
    plan: dict[str, Any] = {"max_steps": -1, "warmup_steps": 0, "num_train_epochs": 3}
    suffers(
        stage,
        stage.trainer(ranking, pairs(), gradient_accumulation_steps=64, **plan),
        lambda: stage.trainer(ranking, pairs(), **plan),
        every=1,
    )


@faulty("too few steps", "max_steps is 3, left from a test, of 640 rows.", FEW_STEPS)
def three_steps_left_from_a_test(stage: Stage) -> None:
    suffers(
        stage,
        stage.trainer(ranking, pairs(640), max_steps=3),
        lambda: stage.trainer(ranking, pairs(640), max_steps=40),
        every=1,
    )


def _stopping(stage: Stage, patience: int, eval_steps: int, **arguments: Any) -> Any:
    from transformers import EarlyStoppingCallback

    plan = PLAN | {"eval_steps": eval_steps, "save_strategy": "steps", "save_steps": eval_steps}
    return stage.trainer(
        ranking,
        pairs(),
        evaluator=searching(pairs(60, seed=3)),
        load_best_model_at_end=True,
        callbacks=[EarlyStoppingCallback(patience)],
        **{**plan, **arguments},
    )


# https://github.com/huggingface/sentence-transformers/pull/1851: early stopping.
@faulty(
    "early stopping",
    "The best score is sought as the lowest: the run ends as soon as it improves.",
    STOPPED,
)
def stopped_because_the_score_rises(stage: Stage) -> None:
    metric = "eval_made-up_cosine_ndcg@10"
    worst = _stopping(stage, 2, 4, metric_for_best_model=metric, greater_is_better=False)
    suffers(
        stage,
        worst,
        lambda: _stopping(stage, 2, 4, metric_for_best_model=metric, greater_is_better=True),
    )
    assert not worst.state.global_step or worst.state.global_step < STEPS / 2


@faulty(
    "early stopping",
    "A patience of one with an evaluation after each step ends the run within its warm-up.",
    STOPPED,
)
def stopped_within_the_warm_up(stage: Stage) -> None:
    metric = "eval_made-up_cosine_accuracy@1"
    hasty = _stopping(stage, 1, 1, metric_for_best_model=metric, warmup_steps=30)
    suffers(stage, hasty, lambda: stage.trainer(ranking, pairs(), warmup_steps=30), every=1)
    assert not hasty.state.global_step or hasty.state.global_step < 10


# https://github.com/huggingface/sentence-transformers/issues/3032: what evaluates when.
@faulty(
    "evaluator never runs",
    "An evaluator is given, and eval_strategy is 'no', its default.",
    UNSCORED,
)
def evaluator_without_a_strategy(stage: Stage) -> None:
    trainer = stage.trainer(ranking, pairs(), evaluator=searching(pairs(60, seed=3)))
    stage.play(trainer)
    assert not any("eval_made-up_cosine_ndcg@10" in entry for entry in trainer.state.log_history)


def _searching(stage: Stage, shift: int, prefix: str) -> Any:
    table = pairs(60, seed=3)
    corpus = {f"d{at}": text for at, text in enumerate(table["positive"])}
    queries = {f"q{at}": text for at, text in enumerate(table["anchor"])}
    relevant = {f"q{at}": {f"{prefix}{(at + shift) % 60}"} for at in range(60)}
    return evaluation.InformationRetrievalEvaluator(queries, corpus, relevant, name="made-up")


@faulty(
    "gold of the evaluator",
    "Documents of the evaluator are counted from 1, relevant ones from "
    "0: each query has its neighbour's document.",
    GOLD,
    tools=(REPORT, "doctor"),
)
def relevant_documents_one_too_low(stage: Stage) -> None:
    stage.play(stage.trainer(ranking, pairs(), evaluator=_searching(stage, 1, "d"), **PLAN))


# https://github.com/iit-cs429/main/issues/71: scores of nearly 0 by identifiers that do not match.
@faulty(
    "gold of the evaluator",
    "Relevant documents have identifiers that are not in the corpus: all scores are 0.",
    GOLD,
)
def relevant_documents_that_are_not_in_the_corpus(stage: Stage) -> None:
    trainer = stage.trainer(ranking, pairs(), evaluator=_searching(stage, 0, "doc-"), **PLAN)
    stage.play(trainer)
    scores = [
        entry["eval_made-up_cosine_ndcg@10"]
        for entry in trainer.state.log_history
        if "eval_made-up_cosine_ndcg@10" in entry
    ]
    assert not any(scores)


@faulty(
    "gold of the evaluator",
    "The evaluator's scores are distances: the correlation is negative "
    "and falls as the encoder learns.",
    (*GOLD, r"negative", r"revers", r"invert", r"opposite", r"distance", r"wrong way"),
)
def gold_scores_that_are_distances(stage: Stage) -> None:
    gold = scored(80, seed=4)
    evaluator = evaluation.EmbeddingSimilarityEvaluator(
        gold["sentence1"], gold["sentence2"], [1 - score for score in gold["score"]], name="made-up"
    )
    stage.play(stage.trainer(ranking, pairs(), evaluator=evaluator, **PLAN))


@faulty(
    "evaluation of a handful",
    "The evaluator has three pairs, of which a correlation takes few values.",
    SMALL,
)
def three_pairs_for_a_correlation(stage: Stage) -> None:
    gold = {name: cells[:3] for name, cells in scored(80, seed=4).items()}
    evaluator = evaluation.EmbeddingSimilarityEvaluator(
        gold["sentence1"], gold["sentence2"], gold["score"], name="made-up"
    )
    stage.play(stage.trainer(ranking, pairs(), evaluator=evaluator, **PLAN))


@faulty("evaluation of a handful", "The evaluator has four queries and four documents.", SMALL)
def four_queries_for_a_retrieval(stage: Stage) -> None:
    stage.play(stage.trainer(ranking, pairs(), evaluator=searching(pairs(4, seed=3)), **PLAN))


# https://github.com/pytorch/tutorials/issues/2693: the order of zero_grad, backward and step.
@faulty(
    "gradients cleared before the step",
    "A trainer of one's own clears gradients after the backward pass: no step has any.",
    (
        r"zero_grad",
        r"clear",
        r"(no|without|zero) gradient",
        r"gradient.{0,60}(zero|\b0\b|none|no\b)",
        r"before (the|each) step",
    ),
)
def trainer_that_clears_gradients_after_backward(stage: Stage) -> None:
    from sentence_transformers import SentenceTransformerTrainer

    class Clearing(SentenceTransformerTrainer):
        def training_step(self, model: Any, *args: Any, **options: Any) -> Any:
            loss = super().training_step(model, *args, **options)
            model.zero_grad()
            return loss

    suffers(
        stage,
        stage.trainer(ranking, pairs(), kind=Clearing),
        lambda: stage.trainer(ranking, pairs()),
    )
