"""Sound set-ups: loops with encoders, batches and memories of one's own."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
import torch.nn.functional as functional
from torch import Tensor, nn

from tests.judgement.case import sound
from tests.judgement.first.loop_materials import looped
from tests.judgement.first.more_fields import LAB_VALUES, TIMETABLES, TWEETS
from tests.judgement.first.training_parts import adam, encoder_of, rises
from tests.judgement.first.turns import Rows, cosines, embed, infonce, stepped
from tests.judgement.stage import Stage


class BagOfWords(nn.Module):
    """An encoder in plain torch: the mean of word vectors and two layers upon it."""

    def __init__(self, texts: Sequence[str], width: int = 48) -> None:
        super().__init__()
        words = dict.fromkeys(word for text in texts for word in text.split())
        self.numbers = {word: number for number, word in enumerate(words, 1)}
        torch.manual_seed(7)
        self.words = nn.EmbeddingBag(len(words) + 1, width, mode="mean")
        self.layers = nn.Sequential(nn.Linear(width, width), nn.GELU(), nn.Linear(width, width))

    def forward(self, texts: Sequence[str]) -> Tensor:
        phrasing = [[self.numbers.get(word, 0) for word in text.split()] for text in texts]
        starts = torch.tensor([0, *map(len, phrasing[:-1])]).cumsum(0)
        return self.layers(self.words(torch.tensor([n for row in phrasing for n in row]), starts))

    @torch.no_grad()
    def encode(self, texts: Sequence[str], **options: Any) -> np.ndarray:
        return self(texts).numpy()


@sound("loop in plain torch over a bag of words")
def messages_loop_with_a_bag_of_words(stage: Stage) -> None:
    """An encoder without transformer or tokenizer library, and a margin to the hardest row."""
    table = TWEETS.table(480)
    model, rows = BagOfWords([*table["message"], *table["tags"]]), Rows(table, 32)
    optimizer = adam(model, rate=5e-3)

    def loss(first: Tensor, second: Tensor) -> Tensor:
        close = cosines(first, second)
        hardest = close.masked_fill(torch.eye(len(close), dtype=torch.bool), -1.0).amax(1)
        return functional.relu(0.3 + hardest - close.diagonal()).mean()

    def update(criterion: Any, step: int) -> None:
        stepped(optimizer, criterion(*(model(column) for column in rows())))

    score = TWEETS.sought("message", "tags")
    rises(stage, looped(stage, model, loss, update, steps=100, score=score))


@sound("loop with cached gradients")
def laboratory_loop_with_cached_gradients(stage: Stage) -> None:
    """GradCache: 64 rows are embedded in chunks of 16, twice; no dropout, so both are equal."""
    model = encoder_of(stage, LAB_VALUES, dropout=0.0)
    rows, optimizer = Rows(LAB_VALUES.table(480), 64), adam(model, rate=2e-3)

    def chunks(column: Sequence[str]) -> list[Sequence[str]]:
        return [column[start : start + 16] for start in range(0, 64, 16)]

    def update(criterion: Any, step: int) -> None:
        columns = rows()
        with torch.no_grad():
            sides = [
                torch.cat([embed(model, segment) for segment in chunks(col)]) for col in columns
            ]
        sides = [side.requires_grad_() for side in sides]
        criterion(*sides).backward()
        optimizer.zero_grad()
        for column, side in zip(columns, sides, strict=True):
            for segment, gradient in zip(chunks(column), side.grad.split(16), strict=True):
                embed(model, segment).backward(gradient)
        optimizer.step()

    score = LAB_VALUES.sought("values", "comment")
    rises(stage, looped(stage, model, infonce, update, steps=40, score=score))


@sound("loop with negatives mined again and again")
def timetable_loop_with_fresh_negatives(stage: Stage) -> None:
    """As in ANCE, every 20 steps each question's nearest wrong departures are drawn anew."""
    table = TIMETABLES.table(400, "asked", "departure")
    model, draw = encoder_of(stage, TIMETABLES), random.Random(3)
    optimizer, nearest = adam(model), list[list[int]]()

    def refreshed() -> list[list[int]]:
        model.eval()
        asked, phrasing = (
            torch.as_tensor(model.encode(texts, show_progress_bar=False))
            for texts in table.values()
        )
        model.train()
        close = cosines(asked, phrasing).fill_diagonal_(-2)
        return close.topk(20).indices.tolist()

    def loss(asked: Tensor, departures: Tensor, wrong: Tensor) -> Tensor:
        close = cosines(asked, torch.cat([departures, wrong])) / 0.05
        return functional.cross_entropy(close, torch.arange(len(asked)))

    def update(criterion: Any, step: int) -> None:
        if step % 20 == 0:
            nearest[:] = refreshed()
        drawn = draw.sample(range(400), 16)
        taken = set(drawn)
        wrong = [draw.choice([row for row in nearest[own] if row not in taken] or nearest[own])
                 for own in drawn]  # fmt: skip
        texts = (
            [table["asked"][row] for row in drawn],
            [table["departure"][row] for row in drawn],
            [table["departure"][row] for row in wrong],
        )
        stepped(optimizer, criterion(*(embed(model, column) for column in texts)))

    score = TIMETABLES.sought("asked", "departure")
    rises(stage, looped(stage, model, loss, update, steps=80, score=score))
