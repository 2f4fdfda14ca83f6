"""Sound tables and set-ups of ordinary scripts: help pages, mined negatives, short prompts."""

from __future__ import annotations

import torch

from tests.judgement.case import sound
from tests.judgement.first.materials import ranking
from tests.judgement.first.pair_labels import cosent
from tests.judgement.first.sound_library_losses import embedded, teacher
from tests.judgement.stage import VERBS, Stage, facts, pairs, passage, question
from tests.judgement.truth import among_alike, learns, retrieval

FAST = {"learning_rate": 1e-3}


@sound("inspected columns")
def eight_questions_for_each_of_twenty_answers(stage: Stage) -> None:
    asked = facts(20)
    questions = [
        f"{VERBS[2 * at % 37]} {VERBS[(5 * at + row) % 39]} {fact[1]} {fact[3]} {VERBS[at + row]} ?"
        for row, fact in enumerate(asked)
        for at in range(8)
    ]
    answers = [passage(fact, fillers=8) for fact in asked for _ in range(8)]
    stage.inspect({"question": questions, "answer": answers}, teacher(stage))


@sound("inspected columns")
def negatives_from_the_fourth_rank_on(stage: Stage) -> None:
    """Mined among the positives of other rows, as `mine_hard_negatives` does."""
    knows, table = teacher(stage), pairs()
    asked, answers = (torch.tensor(embedded(knows, texts)) for texts in table.values())
    order = (-asked @ answers.T).argsort(1).tolist()
    mined = [table["positive"][row[4 + at % 8]] for at, row in enumerate(order)]
    stage.inspect(table | {"negative": mined}, knows)


@sound("prompts")
def instruction_to_find_the_answer(stage: Stage) -> None:
    """The prompt of queries names what they ask for, and takes two thirds of their tokens."""
    table = dict(zip(("question", "answer"), pairs().values(), strict=True))
    find, answer = "Find the answer : ", "answer : "
    prompts = {"question": find, "answer": answer}
    trainer = stage.trainer(ranking, table, prompts=prompts, max_steps=60, **FAST)
    learns(stage, trainer, lambda model: retrieval(model, prompts=(find, answer)))


@sound("labels")
def one_pair_of_eight_belongs_together(stage: Stage) -> None:
    """A loss of scores with the labels 0.0 and 1.0, of which few are 1.0."""
    asked = facts(320)
    table = {
        "question": [*map(question, asked)],
        "passage": [passage(asked[at if at % 8 == 0 else at - 5]) for at in range(320)],
        "score": [float(at % 8 == 0) for at in range(320)],
    }
    learns(stage, stage.trainer(cosent, table, max_steps=80, **FAST), among_alike)


@sound("trained twice")
def second_call_of_train(stage: Stage) -> None:
    """The schedule of the first call has ended at 0; the second call makes a new one."""
    trainer = stage.trainer(ranking, pairs(), max_steps=40, **FAST)
    trainer.train()
    learns(stage, trainer, among_alike, least=0.0)
