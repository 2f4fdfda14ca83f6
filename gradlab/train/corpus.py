"""The data of a run: sentences, training and held-out rows, batches, and embeddings by a guide."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gradlab.data.column_roles import Roles
from gradlab.data.tokens import Tokens, tokenize
from gradlab.data.training_file import TrainingFile
from gradlab.encoder.files import check_place
from gradlab.encoder.model import Encoder
from gradlab.errors import GradlabError, counted
from gradlab.losses.registry import get_loss
from gradlab.train.batches import BatchOrder, pack, split_held_out
from gradlab.train.config import TrainConfig
from gradlab.train.distributed import RunProcesses
from gradlab.train.progress import say

# Numbers that a guide caches for later epochs, 256 MiB in float32; the rest is embedded again.
CACHED_NUMBERS = 2**26


@dataclass(frozen=True)
class Corpus:
    """The training data of a run.

    Attributes:
        file: the training file, with the roles of its columns.
        columns: tokens of the sentences and, if in the file, of second views and hard negatives.
        held_out: rows that are kept out of training.
        order: rows of every batch.
        steps: number of optimiser steps that the configuration asks for.
        loss_inputs: "labels" (a number per label) and "scores" of the rows, if their columns are
            configured.
    """

    file: TrainingFile
    columns: tuple[Tokens, ...]
    held_out: NDArray[np.int64]
    order: BatchOrder
    steps: int
    loss_inputs: Mapping[str, NDArray[Any]]

    @property
    def tokens(self) -> Tokens:
        """Tokens of the first column, the sentences themselves."""
        return self.columns[0]

    @classmethod
    def read(cls, config: TrainConfig, encoder: Encoder, processes: RunProcesses) -> Self:
        """Tokenise the training file for all processes.

        Raises:
            GradlabError: the file does not fill a step, or differs between the processes.
        """
        if config.batch_size % processes.count:
            raise GradlabError(
                f"a batch of {config.batch_size} does not divide into equal parts for "
                f"{processes.count} processes"
            )
        encoder.lengthen(config.max_length)
        file = training_file(config)
        if processes.is_main:
            say(file.describe())
        columns = _tokenised(file, encoder, config.max_length, processes)
        count = len(columns[0])
        loss_inputs = _loss_inputs(file, count)
        held_out, order, steps = _split_and_order(config, count)
        if len(set(processes.collect(columns[0].data_hash))) > 1:
            raise GradlabError(f"the processes have different files {config.train_file!r}")
        return cls(file, columns, held_out, order, steps, loss_inputs)


def check_data(config: TrainConfig) -> None:
    """Raise GradlabError if a run could not begin with its models and data.

    Nothing is loaded or tokenised, and the training file is read only as far as it takes to see
    that it is long enough: a few steps' sentences.
    """
    for name in filter(None, (config.model, config.guide, config.teacher)):
        check_place(name)
    # Enough sentences for the warm-up and one more step, and to hold out two.
    batches = (
        config.accumulation
        if config.max_steps
        else -(-(config.warmup_steps + 1) * config.accumulation // config.epochs)
    )
    least = math.ceil(max(1, batches) * config.batch_size / (1 - config.held_out))
    if config.held_out:
        least = max(least, math.ceil(2 / config.held_out))
    count = sum(1 for _ in itertools.islice(training_file(config).examples(), least + 1))
    if not count:
        raise GradlabError(f"the training file {config.train_file!r} holds no sentence")
    _split_and_order(config, count)


def training_file(config: TrainConfig) -> TrainingFile:
    """Return the training file of a run, with the roles of its columns.

    Raises:
        GradlabError: it cannot be read, or its columns do not go with other settings.
    """
    file = TrainingFile.open(
        config.train_file,
        Roles(
            config.column,
            config.positive_column,
            config.negatives,
            config.label_column,
            config.score_column,
        ),
        encoding=config.encoding,
        positives_per_row=config.positives_per_row,
        negatives_per_row=config.negatives_per_row,
        faulty_rows=config.faulty_rows,
    )
    roles = file.roles
    if roles.by_name and roles.positive is not None:
        conflicts = (
            (config.augment is not None, roles.positive, "augment makes the second view too"),
            (
                config.momentum is not None and bool(roles.negatives),
                ", ".join(roles.negatives),
                "a momentum branch embeds no hard negatives",
            ),
        )
        for conflicting, names, reason in conflicts:
            if conflicting:
                raise GradlabError(
                    f"{config.train_file} has the columns {roles.anchor}, {names}, and {reason}; "
                    f"to train on the sentences only, give --column {roles.anchor}"
                )
    if roles.score is not None and roles.positive is None:
        raise GradlabError(
            f"{config.train_file}: scores are of pairs; name the column of positives by "
            "--positive-column"
        )
    if not (config.in_batch_negatives or config.queue_size or roles.negatives):
        raise GradlabError(
            "no negatives are left; give queue_size, negative_columns or in_batch_negatives"
        )
    loss = get_loss(config.loss, **config.loss_settings)
    if roles.negatives and config.hard_negatives == "own" and "own_negatives" not in loss.looks_at:
        raise GradlabError(f"{loss.name} compares whole views; give hard_negatives shared")
    return file


class Guide:
    """A frozen model beside the trained one: mask guide (GISTEmbed, Solatorio 2024) or teacher.

    It embeds sentences of the training file, without augmentation, dropout or gradient.

    A call with rows of the training file, (N,), returns embeddings (N, D) of the first and the
    second views, on its device, then of the hard negatives: (N, columns, D) of own ones, or
    (columns * N, D) of shared ones.
    """

    def __init__(
        self, model: str, config: TrainConfig, corpus: Corpus, processes: RunProcesses
    ) -> None:
        """Load a model; GradlabError if its tokenizer omits other sentences than ``corpus``."""
        self.encoder = Encoder.load(model, device=processes.device).requires_grad_(False)
        length = min(config.max_length, self.encoder.max_length)
        columns = _tokenised(corpus.file, self.encoder, length, processes)
        if len(columns[0]) != len(corpus.tokens):
            raise GradlabError(
                f"some sentences of {config.train_file} have tokens for the tokenizer of {model} "
                "or for that of the model, but not for both; take them out of the file"
            )
        self._length = length
        self._own = config.hard_negatives == "own"
        self._views: list[tuple[Tokens, dict[int, Tensor]]] = [(tokens, {}) for tokens in columns]

    def __call__(self, rows: Tensor) -> tuple[Tensor, ...]:
        indices, columns = rows.tolist(), []
        for tokens, cache in self._views:
            new = [row for row in dict.fromkeys(indices) if row not in cache]
            embedded = dict(zip(new, self._embed(tokens.take(new)), strict=True)) if new else {}
            columns.append(
                torch.stack([cache[row] if row in cache else embedded[row] for row in indices])
            )
            if (len(cache) + len(embedded)) * self.encoder.dimension <= CACHED_NUMBERS:
                cache.update(embedded)
        views, hard = (columns * 2)[:2], columns[2:]
        if not hard:
            return tuple(views)
        return *views, torch.stack(hard, dim=1) if self._own else torch.cat(hard)

    def sha256(self) -> str:
        """Return a hash of what determines the embeddings: weights, tokenizer, pooler, length."""
        return self.encoder.sha256(self._length)

    @torch.no_grad()
    def _embed(self, sequences: list[np.ndarray]) -> Tensor:
        packed = pack(sequences, self.encoder.tokenizer.pad_token_id).to(self.encoder.device)
        rows = [self.encoder(group.input_ids, group.attention_mask) for group in packed.groups]
        return torch.cat(rows).float()[packed.order]


def guides_of(config: TrainConfig, corpus: Corpus, processes: RunProcesses) -> dict[str, Guide]:
    """Load the guide and the teacher that the configuration names, by these two words."""
    return {
        name: Guide(model, config, corpus, processes)
        for name, model in (("guide", config.guide), ("teacher", config.teacher))
        if model is not None
    }


def _tokenised(
    file: TrainingFile, encoder: Encoder, max_length: int, processes: RunProcesses
) -> tuple[Tokens, ...]:
    """Return the tokens of the columns; the main process fills the cache before the others."""
    columns: tuple[Tokens, ...] = ()
    for turn in (True, False):
        with processes.together():
            if processes.is_main == turn:
                columns = tokenize(file, encoder.tokenizer, max_length, progress=turn)
    return columns


def _split_and_order(config: TrainConfig, count: int) -> tuple[NDArray[np.int64], BatchOrder, int]:
    """Return the held-out rows of ``count`` sentences, the order of the rest and the step count."""
    training, held_out = split_held_out(count, config.held_out, config.seed)
    if config.held_out and len(held_out) < 2:
        raise GradlabError(
            f"held_out={config.held_out:g} keeps {len(held_out)} of {count} sentences out, and to "
            "measure takes two"
        )
    order = BatchOrder(training, config.batch_size, config.seed)
    steps = config.max_steps or config.epochs * order.per_epoch // config.accumulation
    if steps == 0:
        raise GradlabError(
            f"{counted(len(training), 'training sentence')} do not fill one step of "
            f"{config.accumulation} batches of {config.batch_size}"
        )
    if config.warmup_steps >= steps:
        raise GradlabError(
            f"warmup_steps is {config.warmup_steps}, and the run has {counted(steps, 'step')}: "
            f"the learning rate would never reach {config.learning_rate:g}"
        )
    return held_out, order, steps


def _loss_inputs(file: TrainingFile, count: int) -> dict[str, NDArray[Any]]:
    """Return labels and scores of ``count`` tokenised rows, if their columns are configured."""
    roles, arrays = file.roles, {}
    if roles.label is None and roles.score is None:
        return {}
    examples = list(file.examples())
    if len(examples) != count:
        raise GradlabError(
            f"{file.path} has {len(examples)} sentences with labels or scores and {count} after "
            "tokenising; take those without tokens out"
        )
    if roles.label is not None:
        arrays["labels"] = np.unique([example.label for example in examples], return_inverse=True)[
            1
        ]
    if roles.score is not None:
        where = (roles.score, str(file.path))
        arrays["scores"] = np.array(
            [_number(example.number, example.score, *where) for example in examples]
        )
    return arrays


def _number(row: int, text: str, column: str, file: str) -> float:
    try:
        if math.isfinite(number := float(text)):
            return number
    except ValueError:
        pass
    raise GradlabError(f"{file}, row {row}: {column!r} is {text[:60]!r}; scores are finite numbers")
