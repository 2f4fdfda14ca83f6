"""Calls of a user's ``encode``: once for each distinct sentence, with a check of the result."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradlab.errors import GradlabError, reason
from gradlab.progress_bars import progress_bar

Encode = Callable[[list[str]], Any]
"""Sentences in, one row each out: a numpy array, a torch tensor or a list of rows, shape (n, D)."""


def as_encode(model: Encode | Any) -> Encode:
    """Return ``model.encode`` if it exists, as in SentenceTransformer, else ``model`` itself.

    Raises:
        GradlabError: ``model`` is a string, or cannot be called.
    """
    # A string has a method ``encode`` too, which does something else.
    encode = getattr(model, "encode", model)
    if isinstance(model, str) or not callable(encode):
        raise GradlabError(
            f"{model!r:.60} cannot encode; load it with gradlab.encoder.model.Encoder.load, "
            "for example"
        )
    return encode


@dataclass
class Embedder:
    """Embeds each distinct sentence once, however often it is requested.

    Args:
        encode: a callable from a list of sentences to an (n, D) array.
        chunk: number of sentences per call of ``encode``. They are sorted by length, so that
            batches in order pad little; longest first, to show a lack of memory at once.
        title: label of the progress bar; empty for no bar.
    """

    encode: Encode
    chunk: int = 1024
    title: str = ""
    _rows: dict[str, NDArray[np.floating]] = field(default_factory=dict, init=False, repr=False)

    def __call__(self, sentences: Sequence[str]) -> NDArray[np.floating]:
        """Return the embeddings (n, D) of n sentences in the given order.

        Raises:
            GradlabError: ``encode`` returned another shape, or anything but finite real numbers.
        """
        self.prepare(sentences)
        rows = [self._rows[s] for s in sentences]
        lengths = sorted({len(row) for row in rows})
        if len(lengths) > 1:
            raise GradlabError(
                f"encode returned rows of different lengths: {' and '.join(map(str, lengths))}"
            )
        return np.stack(rows)

    def prepare(self, sentences: Iterable[str]) -> None:
        """Embed the sentences that have not been embedded yet."""
        new = dict.fromkeys(s for s in sentences if s not in self._rows)
        todo = sorted(new, key=len, reverse=True)
        with progress_bar(None, bool(self.title), desc=self.title, total=len(todo)) as bar:
            for start in range(0, len(todo), self.chunk):
                batch = todo[start : start + self.chunk]
                self._rows.update(zip(batch, _checked(self.encode(batch), batch), strict=True))
                bar.update(len(batch))


def _plain(values: Any) -> Any:
    """Return a torch tensor on the CPU, 16-bit entries as float32; any other value unchanged."""
    if not hasattr(values, "detach"):
        return values
    values = values.detach().cpu()
    return values if values.element_size() > 2 else values.float()


def _checked(result: Any, sentences: list[str]) -> NDArray[np.floating]:
    try:
        rows = np.asarray([*map(_plain, result)] if isinstance(result, list) else _plain(result))
    except (TypeError, ValueError) as error:  # for example, rows of different lengths
        raise GradlabError(
            f"encode returned no matrix ({len(sentences)}, D): {reason(error)}"
        ) from error
    real = rows.dtype.kind in "fiu"
    if not real or rows.ndim != 2 or len(rows) != len(sentences) or not rows.size:
        raise GradlabError(
            f"encode returned {rows.dtype} values of shape {rows.shape} for {len(sentences)} "
            f"sentences, not real numbers of shape ({len(sentences)}, D)"
        )
    rows = rows.astype(np.float64 if rows.dtype == np.float64 else np.float32, copy=False)
    finite = np.isfinite(rows).all(axis=1)
    if not finite.all():
        bad = sentences[int(np.argmin(finite))]
        raise GradlabError(
            f"encode returned a value that is not finite for {int((~finite).sum())} of "
            f"{len(rows)} sentences (such as {bad[:60]!r})"
        )
    return rows
