"""The sentences of a run: read, split into training and held-out, and dealt into batches."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from gradlab.encoder.model import Encoder
from gradlab.errors import GradlabError
from gradlab.train.batches import BatchOrder, split_held_out
from gradlab.train.config import TrainConfig
from gradlab.train.distributed import Processes
from gradlab.train.sentences import read_beside
from gradlab.train.tokens import Tokens, tokenize, tokenize_pairs


@dataclass(frozen=True)
class Corpus:
    """What a run trains on."""

    columns: tuple[
        Tokens, ...
    ]  # all sentences; row by row, if the file has them, their second views and hard negatives
    held_out: NDArray[np.int64]  # rows of those kept from training
    order: BatchOrder  # rows of every batch
    steps: int  # optimiser steps that the configuration asks for
    told: Mapping[
        str, NDArray[Any]
    ]  # what further columns tell the loss of each row: its label, a number, and its score

    @property
    def tokens(self) -> Tokens:
        """The sentences themselves."""
        return self.columns[0]

    @classmethod
    def read(cls, config: TrainConfig, encoder: Encoder, processes: Processes) -> Self:
        """Read and tokenise the training file, once for all processes; raises GradlabError if it does not fill a step."""
        if config.batch_size % processes.count:
            raise GradlabError(
                f"a batch of {config.batch_size} does not divide into equal parts for {processes.count} processes"
            )
        if config.max_length > encoder.max_length:
            raise GradlabError(
                f"max_length {config.max_length} exceeds the model's {encoder.max_length} tokens"
            )
        if not processes.is_main:
            processes.wait()  # for the cache that the main process fills
        columns = _tokens(config, encoder, processes.is_main)
        if processes.is_main:
            processes.wait()
        count = len(columns[0])
        training, held_out = split_held_out(count, config.held_out, config.seed)
        if config.held_out and len(held_out) < 2:
            raise GradlabError(
                f"held_out={config.held_out:g} keeps {len(held_out)} of {count} sentences out, and to measure takes two; "
                "choose a larger share, or 0 for none"
            )
        order = BatchOrder(training, config.batch_size, config.seed)
        steps = config.max_steps or config.epochs * order.per_epoch // config.accumulation
        if steps == 0:
            raise GradlabError(
                f"{len(training)} training sentences do not fill one step of "
                f"{config.accumulation} batches of {config.batch_size}"
            )
        return cls(columns, held_out, order, steps, _told(config, count))

    def take(self, rows: NDArray[np.int64]) -> tuple[list[NDArray[Any]], ...]:
        """Token ids of several sentences, of their second views where the file has them, and of their hard negatives."""
        return tuple(column.take(rows) for column in self.columns)


def _tokens(config: TrainConfig, encoder: Encoder, progress: bool) -> tuple[Tokens, ...]:
    file, tokenizer, length = config.train_file, encoder.tokenizer, config.max_length
    how: dict[str, Any] = {"encoding": config.encoding, "progress": progress}
    if config.second_column is None:
        return (tokenize(file, tokenizer, length, column=config.column, **how),)
    columns = (config.column or "", config.second_column, *config.negatives)
    return tokenize_pairs(file, tokenizer, length, columns, **how)


def _told(config: TrainConfig, count: int) -> dict[str, NDArray[Any]]:
    """The labels and scores of ``count`` tokenised rows, as far as the configuration names their columns."""
    file, found = config.train_file, {}
    columns = (config.column, *([config.second_column, *config.negatives] if config.second_column else []))
    for name, beside in (("labels", config.label_column), ("scores", config.score_column)):
        if beside is None:
            continue
        numbers, texts = zip(*read_beside(file, columns, beside, config.encoding), strict=True)
        if len(texts) != count:
            raise GradlabError(
                f"{file} has {len(texts)} sentences with {name} and {count} after tokenising; take those without tokens out"
            )
        if name == "labels":
            found[name] = np.unique(texts, return_inverse=True)[1].astype(np.int64)
        else:
            found[name] = np.array([_number(*row, beside, file) for row in zip(texts, numbers, strict=True)])
    return found


def _number(text: str, row: int, column: str, file: str) -> float:
    try:
        if math.isfinite(found := float(text)):
            return found
    except ValueError:
        pass
    raise GradlabError(f"{file}, row {row}: {column!r} is {text[:60]!r}; scores are finite numbers")
