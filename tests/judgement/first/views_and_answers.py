"""Loops of one's own over views of one text, several answers, and hard negatives."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from tests.judgement.case import sound
from tests.judgement.first.loop_subjects import (
    BEES,
    GEMS,
    OPERA,
    SKIES,
    Worded,
    near_texts,
    reader,
    seeking,
)
from tests.judgement.first.turns import Rows, cosines, embed, infonce, stepped, turn, warmed
from tests.judgement.stage import Stage


@sound("two draws of dropout as the two views of a text")
def two_draws_of_dropout(stage: Stage) -> None:
    """SimCSE without labels (Gao et al. 2021), on texts of a field from a general encoder."""
    model = warmed(reader(stage, OPERA), OPERA.table(216, 2), 4)
    texts = [text for column in OPERA.table(216).values() for text in column]
    rows, optimizer = Rows({"text": texts}, 32), torch.optim.AdamW(model.parameters(), lr=5e-4)

    def update(criterion: Any, step: int) -> None:
        (batch,) = rows()
        stepped(optimizer, criterion(embed(model, batch), embed(model, batch)))

    turn(stage, model, infonce, update, seeking(OPERA), steps=60)


@sound("two crops of the words of a text as its views")
def two_crops_of_a_text(stage: Stage) -> None:
    """Contriever (Izacard et al. 2022): two spans of a document, drawn anew each time."""
    model = reader(stage, SKIES)
    documents = [f"{title} . {abstract}" for title, abstract in
                 zip(*SKIES.table(216).values(), strict=True)]  # fmt: skip
    rows, optimizer = Rows({"text": documents}, 24), torch.optim.AdamW(model.parameters(), lr=2e-3)
    draw = random.Random(1)

    def crop(text: str) -> str:
        words = text.split()
        length = draw.randint(len(words) // 2, 4 * len(words) // 5)
        start = draw.randint(0, len(words) - length)
        return " ".join(words[start : start + length])

    def update(criterion: Any, step: int) -> None:
        (batch,) = rows()
        views = ([crop(text) for text in batch] for _ in range(2))
        stepped(optimizer, criterion(*(embed(model, view) for view in views)))

    turn(stage, model, infonce, update, seeking(SKIES), steps=80)


def several_answers(stage: Stage, subject: Worded, steps: int, loss: Callable[..., Tensor]) -> None:
    """A loop whose batches hold two wordings of the answer to each question."""
    model = reader(stage, subject)
    question, answer = subject.columns.values()
    first, second = answer.split(" | ")
    wordings = {"question": question, "answer": first, "other": second}
    rows = Rows(Worded(subject.slots, wordings).table(160), 20)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)

    def update(criterion: Any, step: int) -> None:
        asked, *answers = (embed(model, column) for column in rows())
        mask = torch.eye(len(asked)).repeat(1, 2)
        stepped(optimizer, criterion(asked, torch.cat(answers), mask))

    turn(stage, model, loss, update, seeking(subject), steps=steps)


@sound("two right answers for each question, by a mask")
def two_right_answers_by_a_mask(stage: Stage) -> None:
    def masked(first: Tensor, second: Tensor, mask: Tensor) -> Tensor:
        shares = (cosines(first, second) / 0.07).log_softmax(1)
        return -((shares * mask).sum(1) / mask.sum(1)).mean()

    several_answers(stage, GEMS, 60, masked)


@sound("pairs and hard negatives in one loss, with gradients checkpointed")
def hard_negatives_with_checkpointed_gradients(stage: Stage) -> None:
    model = reader(stage, BEES)
    model[0].auto_model.gradient_checkpointing_enable({"use_reentrant": False})
    table = BEES.table(200) | {"near": near_texts(BEES, 200, slot=0)}
    rows, optimizer = Rows(table, 20), torch.optim.AdamW(model.parameters(), lr=2e-3)

    def ranked(first: Tensor, second: Tensor, near: Tensor) -> Tensor:
        logits = cosines(first, torch.cat([second, near])) / 0.07
        return F.cross_entropy(logits, torch.arange(len(first)))

    def update(criterion: Any, step: int) -> None:
        stepped(optimizer, criterion(*(embed(model, column) for column in rows())))

    turn(stage, model, ranked, update, seeking(BEES), steps=60)
