"""A loop of training as people write it with PyTorch, watched, and its truth."""

from __future__ import annotations

import contextlib
import io
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

import gradlab
from tests.judgement.stage import Stage, pairs
from tests.judgement.truth import among_alike, falls_short, keep, truth

RATE, BATCH, STEPS, TEMPERATURE = 5e-4, 16, 60, 0.05
Columns = list[list[Any]]


def embed(model: Any, texts: Sequence[str]) -> torch.Tensor:
    """Return the embeddings (N, D) of texts, with gradient."""
    tokens = model.tokenizer(list(texts), padding=True, truncation=True, return_tensors="pt")
    return model(dict(tokens))["sentence_embedding"]


def shuffled(table: Mapping[str, Sequence[Any]]) -> Iterator[Columns]:
    """Yield the columns of one batch after another, in a new order with each pass."""
    columns, draw = list(table.values()), random.Random(0)
    while True:
        order = draw.sample(range(len(columns[0])), len(columns[0]))
        for start in range(0, len(order) - BATCH + 1, BATCH):
            yield [[column[at] for at in order[start : start + BATCH]] for column in columns]


def infonce(anchors: torch.Tensor, positives: torch.Tensor) -> torch.Tensor:
    """InfoNCE over the batch, with cosines."""
    logits = F.normalize(anchors, dim=-1) @ F.normalize(positives, dim=-1).T / TEMPERATURE
    return F.cross_entropy(logits, torch.arange(len(anchors)))


def of_both_columns(model: Any, criterion: Any, columns: Columns) -> torch.Tensor:
    """Return the loss of the embeddings of all columns of texts; other columns are numbers."""
    return criterion(
        *(
            embed(model, column) if isinstance(column[0], str) else torch.tensor(column)
            for column in columns
        )
    )


def descend(optimizer: torch.optim.Optimizer, value: torch.Tensor) -> None:
    """Move the weights by a loss."""
    value.backward()
    optimizer.step()


@dataclass
class Loop:
    """A loop of training.

    Attributes:
        criterion: the loss, a function of embeddings.
        table: columns of texts and labels; None: questions and passages.
        step: returns the loss of a model, the criterion and the columns of a batch.
        optimizer: makes the optimizer of weights; None: AdamW.
        batches: makes batches of the table.
        update: moves the weights by the loss.
        schedule: makes a schedule of the optimizer, which moves with each batch.
        after: is called with the model and the number of each step, after it.
        steps: steps of training.
        views: where the views are among the arguments of the criterion, if it has others.
    """

    criterion: Any = infonce
    table: Mapping[str, Sequence[Any]] | None = None
    step: Callable[[Any, Any, Columns], torch.Tensor] = of_both_columns
    optimizer: Callable[[Any], torch.optim.Optimizer] | None = None
    batches: Callable[[Mapping[str, Sequence[Any]]], Iterator[Columns]] = shuffled
    update: Callable[[torch.optim.Optimizer, torch.Tensor], None] = descend
    schedule: Callable[[torch.optim.Optimizer], Any] | None = None
    after: Callable[[Any, int], None] | None = None
    steps: int = STEPS
    views: Any = None

    def train(self, model: Any, folder: Path | None = None) -> None:
        """Train an encoder; with a folder, under watch."""
        criterion = self.criterion
        if folder:
            criterion = gradlab.watch(
                criterion, views=self.views, every=2, output=folder, total_steps=self.steps
            )
        weights = [*model.parameters()]
        if isinstance(self.criterion, nn.Module):
            weights += self.criterion.parameters()
        make = self.optimizer or (lambda rows: torch.optim.AdamW(rows, lr=RATE))
        optimizer = make(weights)
        schedule = self.schedule(optimizer) if self.schedule else None
        torch.manual_seed(1)
        model.train()
        batches = self.batches(self.table or pairs())
        for number, columns in zip(range(self.steps), batches, strict=False):
            value = self.step(model, criterion, columns)
            optimizer.zero_grad()
            self.update(optimizer, value)
            if schedule:
                schedule.step()
            if self.after:
                self.after(model, number)
        if folder:
            criterion.finish()
        model.eval()


def loses(
    stage: Stage,
    faulty: Loop,
    mended: Loop,
    score: Callable[[Any], float] = among_alike,
    *,
    model: Callable[[], Any] | None = None,
    share: float | None = 0.6,
) -> None:
    """Play a faulty loop under watch beside its mended counterpart."""
    scores = []
    for loop, folder in ((faulty, stage.folder / "loop"), (mended, None)):
        encoder = (model or stage.model)()
        before = score(encoder)
        with _silent():
            loop.train(encoder, folder)
        scores.append((before, score(encoder)))
    stage.run(stage.folder / "loop")
    falls_short(stage, *scores, share=share)


def gains(
    stage: Stage,
    loop: Loop,
    score: Callable[[Any], float] = among_alike,
    *,
    model: Any = None,
    least: float = 0.1,
) -> None:
    """Play a sound loop under watch, which raises the score by ``least`` or more."""
    model = stage.model() if model is None else model
    before = score(model)
    with _silent():
        loop.train(model, stage.folder / "loop")
    stage.run(stage.folder / "loop")
    keep(stage, before=before, after=score(model))
    assert truth(stage)["after"] >= before + least, truth(stage)


@contextlib.contextmanager
def _silent() -> Iterator[None]:
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        yield
