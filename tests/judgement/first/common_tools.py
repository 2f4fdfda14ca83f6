"""What the set-ups share: encoders for a field, scores of held-out texts, and loops."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from tests.judgement.first.bodies import encoder, words_of
from tests.judgement.first.loop_materials import ranking, trained
from tests.judgement.stage import Stage
from tests.judgement.truth import keep, truth

Table = Mapping[str, Sequence[Any]]
QUICK = {"learning_rate": 2e-3, "max_steps": 70, "warmup_steps": 6}


def fresh(
    stage: Stage, *tables: Table, extras: Sequence[str] = (), behind: Sequence[Any] = (),
    **options: Any,
) -> Any:  # fmt: skip
    """An untrained encoder whose vocabulary is the words of tables."""
    return encoder(stage, words_of(tables, *extras), *behind, **options)


def warm(
    stage: Stage, table: Table, *tables: Table, steps: int = 12, rate: float = 1.5e-3,
    extras: Sequence[str] = (), **options: Any,
) -> Any:  # fmt: skip
    """An encoder that has been trained a little on pairs, as a pre-trained one."""
    model = fresh(stage, table, *tables, extras=extras, **options)
    few = dict(list(table.items())[:2])
    before = stage.trainer(ranking, few, model, learning_rate=rate, max_steps=steps)
    trained(before, lambda _: 0.0)
    return model


def with_near(field: Any, count: int, seed: int, *slots: int) -> dict[str, list[str]]:
    """Rows of a field, with a negative for each of the slots, which differs in that slot only."""
    table = field.table(count, seed)
    return table | {f"negative_{slot}": field.near(count, seed, slot=slot) for slot in slots}


def rises(stage: Stage, before: float, after: float, least: float = 0.1) -> None:
    """Keep the scores of a loop, and hold it to have raised its score."""
    keep(stage, before=before, after=after)
    assert after >= before + least, truth(stage)


def embedded(model: Any, texts: Sequence[str], **options: Any) -> np.ndarray:
    """Normalised embeddings of texts."""
    rows = model.encode(list(texts), show_progress_bar=False, **options)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def neighbours(model: Any, table: Table) -> float:
    """The share of texts whose nearest other text is of their class."""
    texts, labels = table.values()
    rows = embedded(model, texts)
    cosines = rows @ rows.T
    np.fill_diagonal(cosines, -2)
    return float((np.array(labels)[cosines.argmax(1)] == np.array(labels)).mean())


def separated(model: Any, table: Table) -> float:
    """The share of (matching, not matching) pairs that cosines put in the right order."""
    first, second, labels = table.values()
    cosines = (embedded(model, first) * embedded(model, second)).sum(1)
    match, remainder = (cosines[np.array(labels) == label] for label in (1, 0))
    return float((match[:, None] > remainder[None]).mean())


def nearer(model: Any, table: Table) -> float:
    """The share of anchors that are closer to their positive than to their negative."""
    anchors, positives, negatives = (embedded(model, texts) for texts in table.values())
    return float(((anchors * (positives - negatives)).sum(1) > 0).mean())


def rows_of(model: Any, texts: Sequence[str]) -> torch.Tensor:
    """Embeddings with gradient."""
    tokenize = getattr(model, "preprocess", None) or model.tokenize
    return model(tokenize(list(texts)))["sentence_embedding"]


def in_order(table: Table, size: int, steps: int, seed: int = 0) -> Any:
    """Batches of rows, shuffled anew with each epoch, as lists of columns."""
    draw, left = np.random.default_rng(seed), list[int]()
    count = len(next(iter(table.values())))
    for _ in range(steps):
        if len(left) < size:
            left = [int(row) for row in draw.permutation(count)]
        rows, left = left[:size], left[size:]
        yield [[column[row] for row in rows] for column in table.values()]
