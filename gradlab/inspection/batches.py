"""Batches as a training would see them: both views of some rows, and their hard negatives."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradlab.batch.batch import Batch
from gradlab.batch.check import check_batch
from gradlab.encoder.model import Encoder
from gradlab.errors import GradlabError
from gradlab.inspection.texts import Texts

# Texts that are encoded between two signs of progress; sorted by length among themselves.
CHUNK = 1024


def batch_of(columns: Sequence[NDArray[Any]]) -> Batch:
    """Sentences, positives and hard negatives (n, D) as a batch in float64; alone, each sentence is its own positive."""
    anchors, *others = (column.astype(np.float64) for column in columns)
    extra = np.concatenate(others[1:]) if len(others) > 1 else None
    return check_batch(anchors, others[0] if others else anchors, extra, normalize=True)


class ModelSource:
    """An encoder in training mode, so that its dropout makes two views of a sentence, as in `gradlab train`.

    Raises:
        GradlabError: the encoder reads fewer than ``max_length`` tokens.
    """

    def __init__(self, encoder: Encoder, texts: Texts, max_length: int) -> None:
        from gradlab.losses.registry import get_loss
        from gradlab.train.distributed import Processes
        from gradlab.train.objective import Objective
        from gradlab.train.tokens import encoder_of

        if max_length > encoder.max_length:
            raise GradlabError(f"max_length {max_length} exceeds the model's {encoder.max_length} tokens")
        self.encoder, self.texts, self.max_length = encoder, texts, max_length
        # What lays sequences out and embeds them in training; its loss is not asked for.
        self._objective = Objective(encoder, get_loss("infonce"), processes=Processes(0, 1, encoder.device))
        self._tokenize = encoder_of(encoder.tokenizer, max_length)

    def batch(self, rows: NDArray[np.int64]) -> Batch:
        """Both views of some rows in float64; the hard negatives are the extra ones, column after column."""
        import torch

        columns = [
            [np.array(ids) for ids in self._tokenize([column[row] for row in rows.tolist()])]
            for column in self.texts.columns.values()
        ]
        if self.texts.positives is None:
            columns.append(columns[0])
        self._objective.train()
        with torch.no_grad():
            embedded = self._objective.embed(
                self._objective.pack([ids for column in columns for ids in column])
            )
        return batch_of(np.split(embedded.double().cpu().numpy(), len(columns)))

    def encode(
        self, batch_size: int, append: Callable[[NDArray[Any]], None], advance: Callable[[int], object]
    ) -> None:
        """Embed all texts without dropout."""
        self.encoder.max_length = self.max_length
        texts = iter(self.texts)
        while chunk := list(itertools.islice(texts, CHUNK)):
            append(self.encoder.encode(chunk, batch_size, normalize=True))
            advance(len(chunk))
