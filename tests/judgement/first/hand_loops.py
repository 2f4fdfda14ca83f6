"""Loops by hand over a tiny encoder, for the cases of this half that use no trainer."""

from __future__ import annotations

import contextlib
import io
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
import torch.nn.functional as F

import gradlab
from tests.judgement.stage import Stage, pairs
from tests.judgement.truth import SHARE, falls_short, retrieval

STEPS = 60


def quietly(train: Callable[[], Any]) -> None:
    """Train without a word on the screen."""
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        train()


def embed(model: Any, texts: Sequence[str]) -> torch.Tensor:
    """Embeddings of texts with their gradients."""
    tokenize = getattr(model, "preprocess", None) or model.tokenize
    return model(tokenize(list(texts)))["sentence_embedding"]


def infonce(first: torch.Tensor, second: torch.Tensor, scale: Any = 20.0) -> torch.Tensor:
    """Cross-entropy of each row's partner among the rows of the batch."""
    logits = scale * F.normalize(first, dim=1) @ F.normalize(second, dim=1).T
    return F.cross_entropy(logits, torch.arange(len(first)))


def batches(
    table: Mapping[str, Sequence[Any]], steps: int, size: int = 16, seed: int = 3
) -> Iterator[list[list[Any]]]:
    """Columns of shuffled batches, over as many epochs as the steps need."""
    draw, order = random.Random(seed), []
    rows = len(next(iter(table.values())))
    for _ in range(steps):
        if len(order) < size:
            order = draw.sample(range(rows), rows)
        chosen, order = order[:size], order[size:]
        yield [[cells[at] for at in chosen] for cells in table.values()]


def fit(
    model: Any,
    criterion: Callable[..., torch.Tensor],
    *,
    rows: Any = None,
    optimizer: torch.optim.Optimizer | None = None,
    encode: Callable[[Any, Sequence[str]], torch.Tensor] = embed,
    extra: Callable[..., torch.Tensor] | None = None,
    steps: int = STEPS,
) -> Any:
    """Train an encoder on batches of two columns; ``extra`` is a term beside the criterion."""
    torch.manual_seed(5)
    optimizer = optimizer or torch.optim.AdamW(model.parameters(), lr=5e-4)
    model.train()
    for first, second in rows or batches(pairs(), steps):
        embeddings = encode(model, first), encode(model, second)
        loss = criterion(*embeddings)
        if extra is not None:
            loss = loss + extra(*embeddings)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    model.eval()
    return model


def compare(
    stage: Stage,
    training: Callable[[Any, Callable[[Any], Any], bool], Any],
    score: Callable[[Any], float] = retrieval,
    *,
    model: Callable[[], Any] | None = None,
    steps: int = STEPS,
    share: float | None = SHARE,
) -> None:
    """Train a faulty loop under watch and its mended counterpart without.

    ``training`` has the model, a function that lets gradlab watch a criterion, and whether the
    loop has its fault.
    """
    if stage._tools and "report" not in stage._tools:
        return
    watched, make = [], model or stage.model

    def watch(criterion: Any) -> Any:
        folder = stage.folder / "loop"
        watched.append(gradlab.watch(criterion, output=folder, total_steps=steps, every=4))
        return watched[0]

    faulty, mended = make(), make()
    before, start = score(faulty), score(mended)
    training(faulty, watch, True)
    watched[0].finish()
    stage.run(stage.folder / "loop")
    training(mended, lambda criterion: criterion, False)
    falls_short(stage, (before, score(faulty)), (start, score(mended)), share=share)
