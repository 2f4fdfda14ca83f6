"""Inspection of a corpus: candidates from all rows, and the push in many batches."""

from __future__ import annotations

import dataclasses
import hashlib
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from gradlab.batch.batch import Batch
from gradlab.errors import GradlabError, check_whole
from gradlab.inspection.candidate_pairs import SIDES, CandidatePairs, find_candidates
from gradlab.inspection.duration import EMBEDDINGS, TEXTS, announcement, expected_seconds
from gradlab.inspection.gradient_share import BatchPush, PushTotals, measure, measure_pairs_together
from gradlab.inspection.model_source import ModelSource, batch_of
from gradlab.inspection.result import Inspection
from gradlab.inspection.tables import Sample
from gradlab.inspection.texts import Texts
from gradlab.inspection.vectors import Vectors, given_arrays
from gradlab.inspection.workspace import workspace
from gradlab.losses.base import Loss
from gradlab.losses.mask import hard_negative_numbers
from gradlab.losses.registry import get_loss
from gradlab.progress_bars import progress_bar
from gradlab.settings import names_arguments
from gradlab.train.batches import BatchOrder
from gradlab.train.progress import say

if TYPE_CHECKING:
    import pandas as pd

    from gradlab.encoder.model import Encoder

# Number of candidate lines that are brought together in batches.
MEETINGS = 256
# Number of sentences whose embeddings are kept, to try other temperatures.
_STORED = 2048


@names_arguments
def find_false_negatives(
    model: str | os.PathLike[str] | Encoder | None = None,
    sentences: Sequence[str] | Texts | None = None,
    *,
    positives: Sequence[str] | None = None,
    hard_negatives: Sequence[str] | Mapping[str, Sequence[str]] | None = None,
    embeddings: Any = None,
    loss: str | Loss = "infonce",
    batch_size: int = 64,
    batches: int = 200,
    overlap: float = 0.8,
    cosine: float | None = None,
    max_length: int | None = None,
    pooler: str | None = None,
    device: str = "auto",
    seed: int = 0,
    sample: int | None = None,
    progress: bool = False,
) -> Inspection:
    """Find pairs of sentences that carry a loss's gradient, and likely false negatives among them.

    ``gradlab.inspect`` is the same function. The push of a pair is ``GD_i W_ij``, see
    `gradlab.components`. It is measured on batches as `gradlab train` draws them. Without
    positives, dropout of the encoder makes the second view. Candidates for false negatives come
    from the whole corpus.

    Args:
        model: an encoder's folder, its Hugging Face hub name, an `Encoder`, or a
            SentenceTransformer, which embeds without dropout; None for embeddings.
        sentences: N texts; None is possible with ``embeddings``.
        positives: N texts, the other view of each sentence.
        hard_negatives: N texts, or several lists of N texts by name.
        embeddings: (N, D) computed before, or a mapping with ``anchors``, ``positives`` and
            ``hard_negatives`` (a list for several columns). With a model they replace its
            embeddings of the texts without dropout: one row per text, column after column.
        loss: a loss, or its name.
        batch_size: sentences that meet in one loss.
        batches: random batches to draw, at most as many as the corpus fills once.
        overlap: share of common words that makes texts near-duplicates; rare words count for more.
        cosine: neighbours are candidates from this cosine on, of embeddings less their mean,
            whatever their words. None takes neighbours that share nearly enough words (``overlap``
            less .1) and are nearer than all but one in 10,000 pairs of this corpus drawn at random.
        max_length: tokens read from each sentence; None for the model's own limit.
        pooler, device: for a model that is given by name; see `gradlab.encoder.model.Encoder.load`.
        seed: seed of batches, dropout and sample.
        sample: number of rows to draw and inspect; None for all. Of N rows, n see the share
            ``n(n-1)/(N(N-1))`` of all pairs. Shares of the push hold for all rows.
        progress: show progress bars and, before a long inspection, an estimate of its time.

    A stopped inspection of texts, or of many embeddings, leaves what it has embedded and compared
    in the cache folder; the same call goes on from there.

    Raises:
        GradlabError: neither a model nor embeddings are given; there are fewer than two different
            texts; embeddings have a wrong shape.

    Example:
        >>> import gradlab, numpy as np
        >>> rows = np.random.default_rng(0).normal(size=(100, 16))
        >>> rows[1] = rows[0]
        >>> found = gradlab.find_false_negatives(embeddings=rows, batch_size=16)
        >>> found.table("candidates")[["first_row", "second_row"]].to_numpy()
        array([[0, 1]])
    """
    import torch

    loss = get_loss(loss)
    texts = _texts(sentences, positives, hard_negatives)
    _check_settings(batch_size, batches, seed, overlap, cosine)
    vectors = None if embeddings is None else given_arrays(embeddings)
    sampled_rows, texts, vectors = _sampled(texts, vectors, sample, seed)
    if vectors is None and texts is not None and _is_sentence_transformer(model):
        encode: Any = model.encode  # type: ignore[union-attr]
        rows = encode(list(texts), batch_size=batch_size, show_progress_bar=progress)
        model, vectors = None, given_arrays(rows)
    source = None if model is None else _source(model, texts, pooler, max_length, device)
    names = _names(texts, vectors, source)
    encodes = source if vectors is None else None
    count = len(texts) if texts is not None else len(vectors.arrays[0])  # type: ignore[union-attr]
    size = min(batch_size, count)
    if progress:
        _announce(texts, encodes, count, len(names), batches, size)
    with workspace(_key(texts, vectors, source), progress) as work:
        if vectors is None:
            assert source is not None
            rows = source.on_disk(work, batch_size, progress)
            vectors = Vectors(np.split(rows, len(names)))
        candidates = find_candidates(
            texts, vectors, count, overlap=overlap, cosine=cosine, progress=progress, work=work
        )
        measured = _Measured(loss, vectors, source, count, len(names), size)
        with torch.random.fork_rng():
            torch.manual_seed(seed)  # for dropout
            totals = measured.random_batches(batches, seed, progress)
            meetings = measured.candidates_together(candidates, seed, progress)
    candidates = dataclasses.replace(candidates, lines=candidates.lines.join(meetings))
    measures = totals, candidates, measured.stored
    cuts = None if encodes is None else encodes.cuts
    return Inspection(loss, texts, *measures, size, seed, names, cuts, sampled_rows)


def push_of_random_batches(
    embeddings: Any, loss: Loss, *, batch_size: int = 64, batches: int = 200, seed: int = 0
) -> PushTotals:
    """Return the sums of the push in batches drawn as in training, as `find_false_negatives` does.

    Args:
        embeddings: columns by name, (N, D) each, as for `find_false_negatives`.
        loss: loss whose push is measured.
        batch_size: sentences of a batch.
        batches: number of batches.
        seed: seed of the order of rows.
    """
    vectors = given_arrays(embeddings)
    count = len(vectors.arrays[0])
    columns = len(_names(None, vectors, None))
    measured = _Measured(loss, vectors, None, count, columns, min(batch_size, count))
    return measured.random_batches(batches, seed, progress=False)


class _Measured:
    """Push in batches of a corpus of ``count`` rows with some columns."""

    def __init__(
        self,
        loss: Loss,
        vectors: Vectors,
        source: ModelSource | None,
        count: int,
        columns: int,
        size: int,
    ) -> None:
        self.loss, self.vectors, self.source = loss, vectors, source
        self.count, self.columns, self.size = count, columns, size
        self.stored: list[Batch] = []  # the first batches, to try other temperatures
        self._most = 0

    def random_batches(self, batches: int, seed: int, progress: bool) -> PushTotals:
        """Return the sums over batches that are drawn as in training."""
        totals, batch_rows = PushTotals(self.count), _draw(self.count, self.size, batches, seed)
        self._most = min(len(batch_rows), -(-_STORED // self.size))
        for rows in progress_bar(batch_rows, progress, desc="Batches"):
            totals.add(rows, self.measure_batch(rows))
        return totals

    def candidates_together(
        self, candidates: CandidatePairs, seed: int, progress: bool
    ) -> pd.DataFrame:
        """Return the push between candidates, some drawn at random, that meet in a batch."""
        generator = np.random.default_rng([seed, 2])
        lines = np.sort(generator.permutation(len(candidates))[:MEETINGS])
        pairs = candidates.lines.loc[lines, SIDES]
        with progress_bar(None, progress, desc="Candidates meet", total=len(lines)) as bar:
            return measure_pairs_together(
                pairs, self.count, self.size, generator, self.measure_batch, bar.update
            )

    def measure_batch(self, rows: NDArray[np.int64]) -> BatchPush:
        """Measure a batch of rows."""
        clean = batch_of(
            [self.vectors.take(rows + self.count * column) for column in range(self.columns)]
        )
        batch = clean if self.source is None else self.source.batch(rows)
        if "sentences" in self.loss.looks_at:
            hard = [hard_negative_numbers(rows, column) for column in range(1, self.columns - 1)]
            batch = dataclasses.replace(batch, sentences=np.concatenate([rows, *hard]))
        # Later batches, of `measure_pairs_together`, are not stored.
        if len(self.stored) < self._most:
            self.stored.append(batch)
        without_dropout = None if self.source is None else clean
        return measure(self.loss, batch, without_dropout, two_texts=self.columns > 1)


def _is_sentence_transformer(model: Any) -> bool:
    """Whether a model embeds texts by a method of its own; the library need not be installed."""
    return any(kind.__name__ == "SentenceTransformer" for kind in type(model).__mro__)


def _check_settings(
    batch_size: int, batches: int, seed: int, overlap: float, cosine: float | None
) -> None:
    check_whole("batch_size", batch_size, 2)
    check_whole("batches", batches, 1)
    check_whole("seed", seed, 0)
    if not 0 < overlap <= 1:
        raise GradlabError(f"overlap must be a share above 0 and at most 1, not {overlap}")
    if cosine is not None and not -1 <= cosine <= 1:
        raise GradlabError(f"cosine must lie between -1 and 1, not {cosine}")


def _sampled(
    texts: Texts | None, vectors: Vectors | None, sample: int | None, seed: int
) -> tuple[Sample | None, Texts | None, Vectors | None]:
    """Return the rows that were drawn, and their texts and embeddings."""
    if sample is None or (texts is None and vectors is None):
        return None, texts, vectors
    check_whole("sample", sample, 2)
    count = len(texts) if texts is not None else len(vectors.arrays[0])  # type: ignore[union-attr]
    if sample >= count:
        return None, texts, vectors
    rows = np.sort(np.random.default_rng([seed, 4]).choice(count, sample, replace=False))
    if vectors is not None:
        if texts is not None and vectors.shape[0] != texts.count:
            _names(texts, vectors, None)  # names the shapes
        number = len(vectors.arrays[0])
        if texts is not None and number != count:  # one array for the columns of texts
            arrays = np.split(vectors.arrays[0], texts.count // count)
        else:
            arrays = list(vectors.arrays)
        vectors = Vectors([array[rows] for array in arrays])
    return Sample(rows, count), None if texts is None else texts.take(rows), vectors


def _source(
    model: str | os.PathLike[str] | Encoder,
    texts: Texts | None,
    pooler: str | None,
    max_length: int | None,
    device: str,
) -> ModelSource:
    if texts is None:
        raise GradlabError("the model has nothing to read; give sentences too")
    return ModelSource(model, texts, pooler, max_length, device)


def _announce(
    texts: Texts | None,
    encodes: ModelSource | None,
    count: int,
    columns: int,
    batches: int,
    size: int,
) -> None:
    """Print how long an inspection of so many rows and columns takes, if it takes long."""
    if count * columns < (EMBEDDINGS if encodes is None else TEXTS):
        return
    stages = expected_seconds(count * columns, texts, encodes, batches, size)
    if line := announcement(stages, count):
        say(line)


def _names(
    texts: Texts | None, vectors: Vectors | None, source: ModelSource | None
) -> tuple[str, ...]:
    """Return the names of the columns; GradlabError if embeddings do not fit the texts."""
    if source is None and vectors is None:
        raise GradlabError("nothing embeds the sentences; give a model, or embeddings")
    if texts is None:
        assert vectors is not None
        columns = len(vectors.arrays)
        hard = [f"hard_negative_{column}" for column in range(1, columns - 1)]
        names = ["sentence", "positive", *(hard if len(hard) > 1 else ["hard_negative"])]
        return tuple(names[:columns])
    if vectors is not None:
        width = vectors.shape[1] if source is None else source.encoder.dimension
        if vectors.shape != (texts.count, width):
            raise GradlabError(
                f"the embeddings have shape {vectors.shape}, but {texts.count} texts need "
                f"{texts.count, width}"
            )
    return tuple(texts.columns)


def _key(texts: Texts | None, vectors: Vectors | None, source: ModelSource | None) -> list[Any]:
    """Return what decides embeddings and neighbours; hashing costs little beside a long search."""
    key: list[Any] = []
    if texts is not None:
        digest = hashlib.sha256()
        for text in texts:
            digest.update(text.encode("utf-8", "replace") + b"\0")
        key += [len(texts), digest.hexdigest()]
    if vectors is not None:
        key += [vectors.sha256() if vectors.shape[0] >= EMBEDDINGS else os.urandom(8).hex()]
    elif source is not None:
        key += [source.encoder.sha256(source.max_length), source.encoder.device.type]
    return key


def _draw(count: int, size: int, batches: int, seed: int) -> list[NDArray[np.int64]]:
    """Return rows of batches as in training; a last batch has the rest, filled up with others."""
    order = BatchOrder(np.arange(count), size, seed)
    batch_rows = [order[number] for number in range(min(batches, order.per_epoch))]
    remaining_rows = np.setdiff1d(np.arange(count), np.concatenate(batch_rows))
    if len(batch_rows) < batches and len(remaining_rows):
        fillers = np.random.default_rng([seed, 3]).permutation(
            np.setdiff1d(np.arange(count), remaining_rows)
        )
        batch_rows.append(np.concatenate([remaining_rows, fillers[: size - len(remaining_rows)]]))
    return batch_rows


def _texts(
    sentences: Sequence[str] | Texts | None,
    positives: Sequence[str] | None,
    hard_negatives: Sequence[str] | Mapping[str, Sequence[str]] | None,
) -> Texts | None:
    if sentences is None or isinstance(sentences, Texts):
        if positives is not None or hard_negatives is not None:
            raise GradlabError(
                "positives and hard_negatives need sentences beside them: lists of strings"
            )
        return sentences
    if not isinstance(hard_negatives, Mapping | None):
        hard_negatives = {"hard_negative": hard_negatives}
    return Texts(sentences, positives, hard_negatives or {})
