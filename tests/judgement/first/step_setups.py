"""Faults of optimizers, callbacks and evaluators of trainers, and sound ones beside them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from tests.judgement.case import DOCTOR, faulty, sound
from tests.judgement.first.reported_encoders import EVALUATED, LONGER, STILL, ranking
from tests.judgement.first.step_faults import BACK, FAST
from tests.judgement.stage import Stage, pairs, rated
from tests.judgement.truth import alike, among_alike, suffers
from tests.sentence_training import evaluation

QUERY, PASSAGE = "query: ", "passage: "
PROMPT = (r"prompt|instruction|prefix",)


def optimized(stage: Stage, make: Any = None, **settings: Any) -> Any:
    """A trainer with an optimizer of a kind."""
    model = stage.model()
    optimizers = {"optimizers": (make(model.parameters()), None)} if make else {}
    return stage.trainer(ranking, pairs(), model, **optimizers, **settings)


@faulty(
    "loss maximised by the optimizer",
    "The optimizer that the trainer gets has maximize=True.",
    [r"maximi[sz]", r"uphill"],
    never=[LONGER],
)
def trainer_that_maximises(stage: Stage) -> None:
    suffers(
        stage,
        optimized(stage, lambda rows: torch.optim.AdamW(rows, lr=5e-4, maximize=True)),
        lambda: optimized(stage),
        among_alike,
    )


@faulty(
    "rate of another optimizer",
    "Adadelta, whose rate is 1, has one of Adam, 1e-3: nothing moves.",
    [r"Adadelta", *STILL],
    never=[LONGER],
)
def adadelta_at_a_rate_of_adam(stage: Stage) -> None:
    suffers(
        stage,
        optimized(stage, lambda rows: torch.optim.Adadelta(rows, lr=1e-3)),
        lambda: optimized(stage),
        among_alike,
    )


@faulty(
    "rate of another optimizer",
    "Adagrad divides by all gradients so far and has a rate of 2e-5: nothing moves.",
    [r"Adagrad", *STILL],
    never=[LONGER],
)
def adagrad_at_two_e_minus_five(stage: Stage) -> None:
    suffers(
        stage,
        optimized(stage, optim="adagrad", learning_rate=2e-5),
        lambda: optimized(stage),
        among_alike,
    )


@faulty(
    "rate of another optimizer",
    "RMSprop has a rate of SGD, 0.03.",
    FAST,
    never=[LONGER],
)
def rmsprop_at_a_rate_of_sgd(stage: Stage) -> None:
    suffers(
        stage,
        optimized(stage, optim="rmsprop", learning_rate=0.03),
        lambda: optimized(stage),
        among_alike,
    )


@faulty(
    "clipped below the epsilon of Adam",
    "max_grad_norm is 1e-9, and the epsilon of Adam, 1e-8, is far above what is left.",
    [r"clip|max_grad_norm", r"epsilon"],
    never=[LONGER],
)
def trainer_clipped_to_one_e_minus_nine(stage: Stage) -> None:
    suffers(stage, optimized(stage, max_grad_norm=1e-9), lambda: optimized(stage), among_alike)


@faulty(
    "rate that falls too early",
    "A schedule of the power 20, where 2 was meant: the rate is nothing after the first third.",
    [r"(learning )?rate.{0,120}(fall|0\b|below|fast|early)", r"schedul"],
    never=[LONGER],
)
def power_of_twenty(stage: Stage) -> None:
    settings = {"lr_scheduler_type": "polynomial", "lr_scheduler_kwargs": {"power": 20.0}}
    suffers(stage, optimized(stage, **settings), lambda: optimized(stage), among_alike)


def called(event: str, act: Any) -> Any:
    """A callback that acts on the model at an event."""
    from transformers import TrainerCallback

    def method(self: Any, args: Any, state: Any, control: Any, model: Any = None, **_: Any) -> None:
        act(model, state)

    return type("Acting", (TrainerCallback,), {event: method})()


@faulty(
    "weights loaded in each epoch",
    "A callback loads the first checkpoint at the beginning of each epoch.",
    BACK,
    never=[LONGER],
)
def callback_that_loads_in_each_epoch(stage: Stage) -> None:
    begins: dict[str, torch.Tensor] = {}

    def load(model: Any, state: Any) -> None:
        begins.update(
            {} if begins else {name: row.clone() for name, row in model.state_dict().items()}
        )
        model.load_state_dict(begins)

    suffers(
        stage,
        optimized(stage, callbacks=[called("on_epoch_begin", load)]),
        lambda: optimized(stage),
        among_alike,
    )


@faulty(
    "frozen after a few steps",
    "A callback freezes the encoder but for one layer after its warm-up of four steps.",
    [r"frozen|froze|requires?_?\s?(no )?grad", *STILL],
    never=[LONGER],
)
def callback_that_freezes(stage: Stage) -> None:
    def freeze(model: Any, state: Any) -> None:
        if state.global_step == 4:
            model.requires_grad_(False)
            list(model.parameters())[-4].requires_grad_(True)

    suffers(
        stage,
        optimized(stage, callbacks=[called("on_step_begin", freeze)]),
        lambda: optimized(stage),
        among_alike,
    )


def evaluated(stage: Stage, evaluator: Any, prompts: Mapping[str, str] | None = None) -> None:
    """Ask the doctor about a trainer with an evaluator."""
    settings: dict[str, Any] = {"prompts": dict(prompts)} if prompts else {}
    stage.doctor(stage.trainer(ranking, pairs(), evaluator=evaluator, **settings, **EVALUATED))


def searching(unanswered: int = 0, **prompts: str) -> Any:
    """An evaluator of retrieval, of which so many queries have no right document."""
    questions, passages = alike().values()
    right = {f"q{at}": set() if at < unanswered else {f"d{at}"} for at in range(len(questions))}
    return evaluation.InformationRetrievalEvaluator(
        {f"q{at}": text for at, text in enumerate(questions)},
        {f"d{at}": text for at, text in enumerate(passages)},
        right,
        name="search",
        **prompts,
    )


@faulty(
    "prompts of the evaluator",
    "The evaluator has the prompts of queries and passages exchanged, and training has not.",
    PROMPT,
    tools=(DOCTOR,),
)
def evaluator_with_exchanged_prompts(stage: Stage) -> None:
    """https://github.com/basicmachines-co/basic-memory/issues/1284: queries as passages."""
    evaluated(
        stage,
        searching(query_prompt=PASSAGE, corpus_prompt=QUERY),
        {"anchor": QUERY, "positive": PASSAGE},
    )


@faulty(
    "prompts of the evaluator",
    "Training has a prompt for both columns, the evaluator one for queries only.",
    PROMPT,
    tools=(DOCTOR,),
)
def evaluator_with_a_prompt_for_queries_only(stage: Stage) -> None:
    evaluated(stage, searching(query_prompt=QUERY), {"anchor": QUERY, "positive": PASSAGE})


@faulty(
    "prompts of the evaluator",
    "Training has the prompt 'query:', the evaluator that of another model, 'search_query:'.",
    PROMPT,
    tools=(DOCTOR,),
)
def evaluator_with_the_prompt_of_another_model(stage: Stage) -> None:
    evaluated(stage, searching(query_prompt="search_query: "), {"anchor": QUERY})


@faulty(
    "answers of the evaluator",
    "Two fifths of the evaluator's queries have an empty set of right documents and are left out.",
    [r"(no|without( a)?|empty|missing|lack).{0,40}(right|relevant|answer)", r"left out|relevant"],
    tools=(DOCTOR,),
)
def queries_without_a_right_document(stage: Stage) -> None:
    evaluated(stage, searching(40))


@faulty(
    "answers of the evaluator",
    "Of 160 pairs of the evaluator, all but two have the label 1.",
    [r"(labels?|scores?|gold).{0,80}(same|equal|1\b|one)", r"balance|few others"],
    tools=(DOCTOR,),
)
def two_negative_pairs_to_evaluate(stage: Stage) -> None:
    first, second, labels = (list(column) for column in rated())
    evaluated(stage, labelled(first, second, [0, 0, *[1] * (len(labels) - 2)]))


def labelled(first: Sequence[str], second: Sequence[str], labels: Sequence[int]) -> Any:
    return evaluation.BinaryClassificationEvaluator(list(first), list(second), list(labels), "bin")


@sound("prompts of the evaluator")
def evaluator_with_the_prompts_of_training(stage: Stage) -> None:
    evaluated(
        stage,
        searching(query_prompt=QUERY, corpus_prompt=PASSAGE),
        {"anchor": QUERY, "positive": PASSAGE},
    )


@sound("prompts of the evaluator")
def prompt_for_queries_in_both(stage: Stage) -> None:
    evaluated(stage, searching(query_prompt=QUERY), {"anchor": QUERY})


@sound("answers of the evaluator")
def few_queries_without_a_right_document(stage: Stage) -> None:
    evaluated(stage, searching(5))
