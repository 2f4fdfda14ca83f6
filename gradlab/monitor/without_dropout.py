"""Are the texts of a trainer's batch told apart without dropout, as they will be in use?

In a narrow cone dropout hides, during training, what tells embeddings apart. Where a run leaves
that open, and no evaluator has measured it, a few rows of the last recorded batch are embedded once
more after the last step. Weights, buffers, modes and random generators stay as they are.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_map_only

from gradlab.gradient.statistics import ranking_accuracy
from gradlab.monitor.captured_views import batch_size, columns_of
from gradlab.monitor.library_losses import classes_in_order
from gradlab.monitor.metrics import History
from gradlab.monitor.verdicts.records import NARROW, RANKED_IN_USE, Records
from gradlab.scale.processes import several_processes
from gradlab.seeds import random_state_kept

MOST_ROWS = 64  # that are embedded once more


class TextRows(NamedTuple):
    """The first rows of a batch of texts."""

    columns: list[dict[str, Any]]  # tokenised
    labels: Tensor | None


def first_rows(trainer: Any, inputs: Mapping[str, Any]) -> TextRows | None:
    """Return a copy of the first rows of a batch; None if its rows cannot be told apart."""
    columns, labels = columns_of(trainer, inputs)
    count = batch_size(columns[0], 0) if columns else 0
    if count < 2 or any(batch_size(column, 0) != count for column in columns[:2]):
        return None

    def cut(rows: Tensor) -> Tensor:
        rows = rows.detach()
        return rows[:MOST_ROWS].clone() if rows.ndim and len(rows) == count else rows

    return TextRows(*tree_map_only(Tensor, cut, ([dict(c) for c in columns[:2]], labels)))


def numbers_in_use(
    trainer: Any, rows: Mapping[str, TextRows], history: History
) -> dict[str, dict[str, float]]:
    """Return by data set how well texts are told apart without dropout, where that is open.

    It is the share of other rows that are farther than a row's partner or, of classes, than a row
    of its class. One process of several would wait for the others, and is not asked.
    """
    numbers = dict[str, dict[str, float]]()
    if several_processes() or Records(history).score_suffers() is not None:
        return numbers
    for dataset, texts in rows.items():
        if Records(history, dataset).gap <= NARROW:
            # Encoders of one's own may need what is not kept here; then it stays open.
            with contextlib.suppress(Exception), _in_use(trainer.model), random_state_kept():
                share = _share_told(trainer, texts)
                numbers |= {} if share is None else {dataset: {RANKED_IN_USE: share}}
    return numbers


def _share_told(trainer: Any, texts: TextRows) -> float | None:
    columns, labels = texts
    if (labels is None) != (len(columns) == 2):  # rows of two columns with labels may be no pairs
        return None
    with torch.no_grad(), trainer.accelerator.autocast():
        views = [trainer.model(column)["sentence_embedding"] for column in columns]
    first, *partners = (nn.functional.normalize(view.double(), dim=1) for view in views)
    if labels is not None:
        return classes_in_order(first, labels)
    return ranking_accuracy(first, partners[0])


@contextlib.contextmanager
def _in_use(model: nn.Module) -> Iterator[None]:
    """Let a model be as in use within the block, and each of its modules as before after it."""
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        yield
    finally:
        for module, is_training in modes:
            module.training = is_training
