"""What the loops share: batches of texts, their embeddings, and the truth of a loop."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from tests.judgement.first.loop_materials import looped
from tests.judgement.stage import Stage
from tests.judgement.truth import keep, truth


class Rows:
    """Batches of the rows of a table, shuffled anew with each epoch; each column is a list."""

    def __init__(self, table: Mapping[str, Sequence[Any]], size: int = 16, seed: int = 0) -> None:
        self._columns, self._size = list(table.values()), size
        self._draw, self._left = random.Random(seed), list[int]()

    def __call__(self) -> list[list[Any]]:
        if len(self._left) < self._size:
            self._left = list(range(len(self._columns[0])))
            self._draw.shuffle(self._left)
        rows = [self._left.pop() for _ in range(self._size)]
        return [[column[at] for at in rows] for column in self._columns]


def embed(model: Any, texts: Sequence[str]) -> Tensor:
    """Return embeddings with gradient."""
    tokenize = getattr(model, "preprocess", None) or model.tokenize
    return model(tokenize(list(texts)))["sentence_embedding"]


def cosines(first: Tensor, second: Tensor) -> Tensor:
    return F.normalize(first, dim=-1) @ F.normalize(second, dim=-1).T


def infonce(first: Tensor, second: Tensor) -> Tensor:
    """InfoNCE at a temperature of 0.05."""
    return F.cross_entropy(cosines(first, second) / 0.05, torch.arange(len(first)))


def warmed(model: Any, table: Mapping[str, Sequence[str]], steps: int = 12) -> Any:
    """Train an encoder a little on pairs, as a pretrained one that is tuned further."""
    rows = Rows(dict(list(table.items())[:2]), 24, seed=9)
    optimizer = torch.optim.AdamW(model.train().parameters(), lr=2e-3)
    for _ in range(steps):
        stepped(optimizer, infonce(*(embed(model, column) for column in rows())))
    return model.eval()


def counted(criterion: Any, step: int) -> None:
    """Tell a watched criterion which step it is, where a step calls it more than once."""
    if hasattr(criterion, "watch"):
        criterion.watch.step = step


def stepped(optimizer: Any, value: Tensor) -> None:
    """One step of an optimiser down the gradient of a loss."""
    optimizer.zero_grad()
    value.backward()
    optimizer.step()


def turn(
    stage: Stage,
    model: Any,
    loss: Callable[..., Tensor],
    update: Callable[[Any, int], None],
    score: Callable[[Any], float],
    *,
    steps: int = 50,
) -> None:
    """Train a loop whose ``update(criterion, step)`` does a step, and hold its score to rise."""
    before = score(model)

    def trained(criterion: Any, step: int) -> None:
        model.train()
        update(criterion, step)

    looped(stage, model, loss, trained, steps=steps, score=score)
    keep(stage, before=before, after=score(model.eval()))
    assert truth(stage)["after"] >= truth(stage)["before"] + 0.03, truth(stage)
