"""Batches as a training would see them: both views of some rows, and their hard negatives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from gradlab.batch.batch import Batch
from gradlab.batch.check import check_batch
from gradlab.encoder.model import Encoder
from gradlab.errors import GradlabError
from gradlab.inspection.texts import Texts
from gradlab.inspection.vectors import Vectors, of_array

# Texts that are encoded between two signs of progress; sorted by length among themselves.
CHUNK = 1024


class Source(Protocol):
    """Where the embeddings of a batch come from."""

    def views(self, rows: NDArray[np.int64]) -> Batch:
        """Both views of some rows in float64; the hard negatives are the extra ones, column after column."""


@dataclass(frozen=True)
class ModelSource:
    """An encoder in training mode, so that its dropout makes two views of a sentence, as in `gradlab train`."""

    encoder: Encoder
    texts: Texts
    max_length: int

    def __post_init__(self) -> None:
        from gradlab.losses.registry import get_loss
        from gradlab.train.distributed import Processes
        from gradlab.train.objective import Objective
        from gradlab.train.tokens import encoder_of

        # What lays sequences out and embeds them in training; its loss is not asked for.
        objective = Objective(
            self.encoder, get_loss("infonce"), processes=Processes(0, 1, self.encoder.device)
        )
        object.__setattr__(self, "_objective", objective)
        object.__setattr__(self, "_tokenize", encoder_of(self.encoder.tokenizer, self.max_length))

    def views(self, rows: NDArray[np.int64]) -> Batch:
        """See `Source`."""
        import torch

        objective: Any = self._objective  # type: ignore[attr-defined]  # set above, past the frozen dataclass
        tokenize: Any = self._tokenize  # type: ignore[attr-defined]  # likewise
        columns = [
            [np.array(ids) for ids in tokenize([column[row] for row in rows.tolist()])]
            for column in self.texts.columns.values()
        ]
        if self.texts.positives is None:
            columns.append(columns[0])
        objective.train()
        with torch.no_grad():
            embedded = objective.embed(objective.pack([ids for column in columns for ids in column]))
        parts = np.split(embedded.double().cpu().numpy(), len(columns))
        return _views(parts[0], parts[1], parts[2:])

    def encode(
        self, batch_size: int, append: Callable[[NDArray[Any]], None], advance: Callable[[int], object]
    ) -> None:
        """Embed all texts without dropout."""
        chunk: list[str] = []
        self.encoder.max_length = self.max_length
        for text in self.texts:
            chunk.append(text)
            if len(chunk) == CHUNK:
                self._encode(chunk, batch_size, append, advance)
                chunk = []
        if chunk:
            self._encode(chunk, batch_size, append, advance)

    def _encode(
        self,
        chunk: Sequence[str],
        batch_size: int,
        append: Callable[[NDArray[Any]], None],
        advance: Callable[[int], object],
    ) -> None:
        append(self.encoder.encode(chunk, batch_size, normalize=True))
        advance(len(chunk))


@dataclass(frozen=True)
class ArraySource:
    """Embeddings that were computed before.

    Attributes:
        anchors: (N, D).
        positives: (N, D); None makes each row its own positive.
        negatives: hard negatives (N, D) by name.
    """

    anchors: Vectors
    positives: Vectors | None
    negatives: tuple[Vectors, ...] = ()

    @classmethod
    def of(cls, anchors: Any, positives: Any = None, negatives: Sequence[Any] = ()) -> ArraySource:
        """From arrays.

        Raises:
            GradlabError: arrays that are not (N, D) of numbers, or of different shapes.
        """
        named = {"embeddings": anchors, "positives": positives}
        named |= {f"hard negatives {place}": rows for place, rows in enumerate(negatives, start=1)}
        checked = {name: _checked(name, rows) for name, rows in named.items() if rows is not None}
        shape = checked["embeddings"].shape
        for name, rows in checked.items():
            if rows.shape != shape:
                raise GradlabError(
                    f"{name} have shape {rows.shape} and the embeddings of the sentences {shape}; both need one shape"
                )
        if shape[0] < 2:
            raise GradlabError(f"there is {shape[0] or 'no'} embedding to inspect; a pair takes at least two")
        found = [of_array(rows) for name, rows in checked.items() if name.startswith("hard")]
        return cls(
            of_array(checked["embeddings"]),
            of_array(checked["positives"]) if "positives" in checked else None,
            tuple(found),
        )

    def views(self, rows: NDArray[np.int64]) -> Batch:
        """See `Source`."""
        anchors = self.anchors.take(rows).astype(np.float64)
        positives = anchors if self.positives is None else self.positives.take(rows).astype(np.float64)
        return _views(anchors, positives, [part.take(rows).astype(np.float64) for part in self.negatives])

    @property
    def all(self) -> Vectors:
        """All embeddings, column after column, as the numbers of `Texts` count them."""
        columns = [self.anchors, *([] if self.positives is None else [self.positives]), *self.negatives]
        if len(columns) == 1:
            return self.anchors
        count, dimension = self.anchors.shape
        return Vectors((count * len(columns), dimension), lambda: _Columns(columns, count))  # type: ignore[arg-type, return-value]  # it reads like an array


class _Columns:
    """Rows of several arrays, one after the other."""

    def __init__(self, columns: Sequence[Vectors], count: int) -> None:
        self._columns, self._count = columns, count

    def __getitem__(self, numbers: NDArray[np.int64]) -> NDArray[np.float32]:
        result = np.empty((len(numbers), self._columns[0].shape[1]), dtype=np.float32)
        for place, column in enumerate(self._columns):
            here = numbers // self._count == place
            result[here] = column.open()[numbers[here] % self._count]
        return result


def _views(
    anchors: NDArray[np.float64], positives: NDArray[np.float64], negatives: Sequence[NDArray[np.float64]]
) -> Batch:
    extra = np.concatenate(negatives) if negatives else None
    return check_batch(anchors, positives, extra, normalize=True)


def _checked(name: str, rows: Any) -> NDArray[Any]:
    array = rows.detach().cpu().float().numpy() if hasattr(rows, "detach") else np.asanyarray(rows)
    if array.ndim != 2 or array.dtype.kind != "f" or not array.shape[1]:
        raise GradlabError(
            f"{name} must be an array of floating point numbers of shape (sentences, dimensions), not {array.dtype} {array.shape}"
        )
    return array
