"""Trainers with a mistake in optimizers, schedules, batches and checkpoints."""

from __future__ import annotations

from typing import Any

import torch

from tests.judgement.case import faulty
from tests.judgement.first.beside import IDLE
from tests.judgement.first.mistake_fields import (
    BEES,
    HARBOUR,
    MUSEUM,
    POST,
    TRAINS,
    WINES,
    encoder_of_field,
    ranking,
    training,
)
from tests.judgement.stage import Stage
from tests.judgement.truth import suffers

RATE = r"(?i)learning rate|\blr\b|\brates?\b|step size"
BROKEN = r"(?i)diverg|explod|collaps|unstable|blow(n|s|ing)? up"


@faulty(
    "learning rate of another optimizer",
    "A learning rate for SGD, 0.3, is given to AdamW: the weights are thrown about.",
    [RATE, BROKEN],
)
def rate_for_sgd_given_to_adam(stage: Stage) -> None:
    suffers(
        stage,
        training(stage, BEES, learning_rate=0.3),
        lambda: training(stage, BEES),
        BEES.sought,
    )


@faulty(
    "warm-up beyond the end of the run",
    "The warm-up has 2000 steps and training 60: the rate never comes near its value.",
    [r"(?i)warm[- ]?up", RATE, *IDLE],
)
def warmup_longer_than_the_whole_training(stage: Stage) -> None:
    suffers(
        stage,
        training(stage, TRAINS, warmup_steps=2000),
        lambda: training(stage, TRAINS, warmup_steps=6),
        TRAINS.sought,
    )


@faulty(
    "optimizer of another copy of the model",
    "The optimizer was made with the weights of an encoder that was loaded anew afterwards: the "
    "trained one is in no group of it.",
    [
        *IDLE,
        r"(?i)optimi[sz]er.{0,80}(other|another|not (hold|contain|cover|have|update)|none|without|"
        r"miss|no (weight|parameter))",
        r"(?i)(weight|parameter)s?.{0,60}(not|missing|absent|outside).{0,30}optimi[sz]er",
    ],
)
def optimizer_holds_an_earlier_copy(stage: Stage) -> None:
    def built(slip: bool) -> Any:
        model, earlier = encoder_of_field(stage, WINES), encoder_of_field(stage, WINES)
        held = earlier if slip else model
        optimizer = torch.optim.AdamW(held.parameters(), lr=2e-3)
        return training(stage, WINES, model=model, optimizers=(optimizer, None))

    suffers(stage, built(True), lambda: built(False), WINES.sought)


@faulty(
    "plain SGD at a rate for Adam",
    "The optimizer was changed to SGD and the rate of Adam was kept: steps are far too short.",
    [r"(?i)\bsgd\b|optimi[sz]er", RATE, *IDLE],
)
def sgd_with_the_rate_of_adam(stage: Stage) -> None:
    suffers(
        stage,
        training(stage, HARBOUR, optim="sgd"),
        lambda: training(stage, HARBOUR),
        HARBOUR.sought,
    )


@faulty(
    "accumulation longer than an epoch",
    "64 batches are accumulated for a step and an epoch has 13: there is one step in an epoch.",
    [
        r"(?i)accumulat",
        r"(?i)(few|too few|only|3|three|number of).{0,20}(optimi[sz]er |training "
        r")?(steps?|updates?)",
        *IDLE,
    ],
)
def more_batches_accumulated_than_an_epoch_has(stage: Stage) -> None:
    settings = {"max_steps": -1, "num_train_epochs": 4, "warmup_steps": 0,
                "learning_rate": 1e-3}  # fmt: skip
    suffers(
        stage,
        training(stage, MUSEUM, gradient_accumulation_steps=64, **settings),
        lambda: training(stage, MUSEUM, gradient_accumulation_steps=1, **settings),
        MUSEUM.sought,
    )


@faulty(
    "batches of one pair",
    "The batch holds one pair for want of memory: the ranking loss has no other text to rank.",
    [
        r"(?i)batch.{0,60}(1\b|one|single|small|size|no (other|negative))",
        r"(?i)(no|without|lack of|too few|missing|0|zero) (in-batch )?(negatives?|other texts?)",
        r"(?i)loss.{0,40}(is|are|of|always|exactly|near|at) (0|zero)|no gradient",
    ],
)
def ranking_in_batches_of_one_pair(stage: Stage) -> None:
    suffers(
        stage,
        training(stage, POST, per_device_train_batch_size=1),
        lambda: training(stage, POST),
        POST.sought,
    )


@faulty(
    "best checkpoint by the wrong direction",
    "With greater_is_better false for a score of retrieval, the worst checkpoint is loaded at the "
    "end.",
    [
        r"(?i)checkpoint|greater_is_better|load_best|best model",
        r"(?i)metric.{0,60}(direction|wrong|lower|smaller|higher|greater|revers|minimi[sz])",
        r"(?i)(early|earlier|first|worst|other) (weights|step|model|state)|restor|went back",
    ],
)
def worst_checkpoint_loaded_at_the_end(stage: Stage) -> None:
    from sentence_transformers.evaluation import InformationRetrievalEvaluator

    def built(slip: bool) -> Any:
        questions, answers = BEES.table(50, seed=4).values()
        evaluator = InformationRetrievalEvaluator(
            {f"q{at}": text for at, text in enumerate(questions)},
            {f"a{at}": text for at, text in enumerate(answers)},
            {f"q{at}": {f"a{at}"} for at in range(50)},
            name="held",
        )
        return training(
            stage, BEES, ranking, evaluator=evaluator, eval_strategy="steps", eval_steps=6,
            save_strategy="steps", save_steps=6, load_best_model_at_end=True,
            metric_for_best_model="eval_held_cosine_ndcg@10", greater_is_better=not slip,
            output_dir=str(stage.folder / ("wrong" if slip else "right")),
        )  # fmt: skip

    suffers(stage, built(True), lambda: built(False), BEES.sought)
