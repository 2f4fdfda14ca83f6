"""Sound tables and set-ups of ordinary scripts: help pages, mined negatives, short prompts."""

from __future__ import annotations

import torch

from tests.judgement.case import sound
from tests.judgement.first.sound_library_losses import embedded, teacher
from tests.judgement.stage import VERBS, Stage, facts, pairs, passage


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
