"""The sentences of a run: read, split into training and held-out, dealt into batches, embedded by a guide."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gradlab.encoder.model import Encoder
from gradlab.errors import GradlabError
from gradlab.train.batches import BatchOrder, pack, split_held_out
from gradlab.train.config import TrainConfig
from gradlab.train.distributed import Processes
from gradlab.train.sentences import read_beside
from gradlab.train.tokens import Tokens, tokenize, tokenize_pairs

# Numbers of embeddings that a guide keeps for the next epoch, 256 MiB in float32; what comes later is embedded each time.
KEPT = 2**26


@dataclass(frozen=True)
class Corpus:
    """What a run trains on.

    Attributes:
        columns: all sentences; row by row, if the file has them, their second views and hard negatives.
        held_out: rows of those kept from training.
        order: rows of every batch.
        steps: optimiser steps that the configuration asks for.
        told: what further columns tell the loss of each row: its label, a number, and its score.
    """

    columns: tuple[Tokens, ...]
    held_out: NDArray[np.int64]
    order: BatchOrder
    steps: int
    told: Mapping[str, NDArray[Any]]

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
        told = _told(config, count)
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
        return cls(columns, held_out, order, steps, told)

    def take(self, rows: NDArray[np.int64]) -> tuple[list[NDArray[Any]], ...]:
        """Token ids of several sentences, of their second views where the file has them, and of their hard negatives."""
        return tuple(column.take(rows) for column in self.columns)


class Guide:
    """A frozen model beside the one that is trained: a mask's guide (GISTEmbed, Solatorio 2024), or a teacher.

    Embeds the sentences of the training file, as they stand there, without dropout or gradient.

    Called with rows of the training file, (N,), it gives embeddings (N, D) of the first and of the second views, on its own device, and
    behind them those of the hard negatives: (N, columns, D) of own ones, (columns N, D) of shared ones.
    """

    def __init__(self, model: str, config: TrainConfig, corpus: Corpus, processes: Processes) -> None:
        """A model by name or folder; raises GradlabError if its tokenizer leaves out other sentences than ``corpus`` does."""
        self.encoder = Encoder.load(model, device=processes.device).requires_grad_(False)
        length = min(config.max_length, self.encoder.max_length)
        changed = dataclasses.replace(config, max_length=length, label_column=None, score_column=None)
        own = Corpus.read(changed, self.encoder, processes)
        if len(own.tokens) != len(corpus.tokens):
            raise GradlabError(
                f"the tokenizer of {model} makes {len(own.tokens)} sentences of {config.train_file} and the model's "
                f"{len(corpus.tokens)}, as some have no tokens; take them out of the file"
            )
        self._own = config.hard_negatives == "own"
        self._views: list[tuple[Tokens, dict[int, Tensor]]] = [(tokens, {}) for tokens in own.columns]

    def __call__(self, rows: Tensor) -> tuple[Tensor, ...]:
        wanted, found = rows.tolist(), []
        for tokens, kept in self._views:
            new = [row for row in dict.fromkeys(wanted) if row not in kept]
            made = dict(zip(new, self._embed(tokens.take(new)), strict=True)) if new else {}
            found.append(torch.stack([kept[row] if row in kept else made[row] for row in wanted]))
            if (len(kept) + len(made)) * self.encoder.dimension <= KEPT:
                kept.update(made)
        views, hard = (found * 2)[:2], found[2:]
        if not hard:
            return tuple(views)
        return *views, torch.stack(hard, dim=1) if self._own else torch.cat(hard)

    @torch.no_grad()
    def _embed(self, sequences: list[np.ndarray]) -> Tensor:
        packed = pack(sequences, self.encoder.tokenizer.pad_token_id).to(self.encoder.device)
        rows = [self.encoder(group.input_ids, group.attention_mask) for group in packed.groups]
        return torch.cat(rows).float()[packed.order]


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
