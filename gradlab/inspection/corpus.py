"""Inspection of a corpus: candidates from all rows, and the push in many batches."""

from __future__ import annotations

import contextlib
import dataclasses
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from gradlab.batch.batch import Batch
from gradlab.batch.check import check_batch
from gradlab.errors import GradlabError, check_whole
from gradlab.inspection.candidate_pairs import SIDES, find_candidates
from gradlab.inspection.gradient_share import BatchPush, PushTotals, measure, meet
from gradlab.inspection.result import Inspection
from gradlab.inspection.texts import Cuts, Texts
from gradlab.inspection.vectors import Vectors, given_arrays, on_disk
from gradlab.inspection.word_index import chunks
from gradlab.losses.base import Loss
from gradlab.losses.mask import hard_negative_numbers
from gradlab.losses.registry import get_loss
from gradlab.settings import names_arguments
from gradlab.train.batches import BatchOrder
from gradlab.waiting import progress_bar

if TYPE_CHECKING:
    from gradlab.encoder.model import Encoder

# Number of candidate lines that are brought together in batches.
MEETINGS = 256
# Number of sentences whose embeddings are kept, to try other temperatures.
_STORED = 2048
# Number of texts that are encoded at once, sorted by length.
_CHUNK = 1024


@names_arguments()
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
    progress: bool = False,
) -> Inspection:
    """Find pairs of sentences that carry a loss's gradient, and likely false negatives among them.

    ``gradlab.inspect`` is the same function. The push of a pair is ``GD_i W_ij``, see
    `gradlab.components`. It is measured on batches as `gradlab train` draws them. Without
    positives, dropout of the encoder makes the second view. Candidates for false negatives come
    from the whole corpus.

    Args:
        model: an encoder's folder, its Hugging Face hub name, or an `Encoder`; None for embeddings.
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
        seed: seed of batches and dropout.
        progress: show progress bars.

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
    check_whole("batch_size", batch_size, 2)
    check_whole("batches", batches, 1)
    check_whole("seed", seed, 0)
    if not 0 < overlap <= 1:
        raise GradlabError(f"overlap must be a share above 0 and at most 1, not {overlap}")
    if cosine is not None and not -1 <= cosine <= 1:
        raise GradlabError(f"cosine must lie between -1 and 1, not {cosine}")
    source = None
    if model is not None:
        if texts is None:
            raise GradlabError("the model has nothing to read; give sentences too")
        source = ModelSource(model, texts, pooler, max_length, device)
    with contextlib.ExitStack() as stack:
        if embeddings is not None:
            vectors = given_arrays(embeddings)
        elif source is not None:
            encoded = on_disk(source.encode(batch_size, progress), source.encoder.dimension)
            vectors = Vectors(np.split(stack.enter_context(encoded), len(source.texts.columns)))
        else:
            raise GradlabError("nothing embeds the sentences; give a model, or embeddings")
        if texts is None:
            count, columns = len(vectors.arrays[0]), len(vectors.arrays)
            hard = [f"hard_negative_{column}" for column in range(1, columns - 1)]
            names = ["sentence", "positive", *(hard if len(hard) > 1 else ["hard_negative"])]
            names = names[:columns]
        else:
            count, columns, names = len(texts), len(texts.columns), list(texts.columns)
            width = vectors.shape[1] if source is None else source.encoder.dimension
            if vectors.shape != (texts.count, width):
                raise GradlabError(
                    f"the embeddings have shape {vectors.shape}, but {texts.count} texts need "
                    f"{texts.count, width}"
                )
        candidates = find_candidates(
            texts, vectors, count, overlap=overlap, cosine=cosine, progress=progress
        )
        size = min(batch_size, count)
        stored: list[Batch] = []
        drawn = _draw(count, size, batches, seed)

        def look(rows: NDArray[np.int64]) -> BatchPush:
            clean = batch_of([vectors.take(rows + count * column) for column in range(columns)])
            views = clean if source is None else source.batch(rows)
            if "sentences" in loss.looks_at:
                hard = [hard_negative_numbers(rows, column) for column in range(1, columns - 1)]
                views = dataclasses.replace(views, sentences=np.concatenate([rows, *hard]))
            # Later batches, of `meet`, are not kept.
            if len(stored) < min(len(drawn), -(-_STORED // size)):
                stored.append(views)
            return measure(loss, views, None if source is None else clean, two_texts=columns > 1)

        totals = PushTotals(count)
        with torch.random.fork_rng():
            torch.manual_seed(seed)  # for dropout
            for rows in progress_bar(drawn, progress, desc="Batches"):
                totals.add(rows, look(rows))
            generator = np.random.default_rng([seed, 2])
            lines = np.sort(generator.permutation(len(candidates))[:MEETINGS])
            pairs = candidates.lines.loc[lines, SIDES]
            with progress_bar(None, progress, desc="Candidates meet", total=len(lines)) as bar:
                met = meet(pairs, count, size, generator, look, bar.update)
    candidates = dataclasses.replace(candidates, lines=candidates.lines.join(met))
    cuts = None if source is None or embeddings is not None else source.cuts
    return Inspection(loss, texts, totals, candidates, stored, size, seed, tuple(names), cuts)


def _draw(count: int, size: int, batches: int, seed: int) -> list[NDArray[np.int64]]:
    """Return rows of batches as in training; a last batch has the rest, filled up with others."""
    order = BatchOrder(np.arange(count), size, seed)
    drawn = [order[number] for number in range(min(batches, order.per_epoch))]
    left = np.setdiff1d(np.arange(count), np.concatenate(drawn))
    if len(drawn) < batches and len(left):
        fillers = np.random.default_rng([seed, 3]).permutation(np.setdiff1d(np.arange(count), left))
        drawn.append(np.concatenate([left, fillers[: size - len(left)]]))
    return drawn


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


def batch_of(columns: Sequence[NDArray[Any]]) -> Batch:
    """Return (n, D) columns as a batch in float64; without positives, each sentence is its own."""
    anchors, *further = (column.astype(np.float64) for column in columns)
    positives, *hard = further or [anchors]
    if not hard:
        return check_batch(anchors, positives, normalize=True)
    # A column of hard negatives has one for each anchor.
    owners = np.tile(np.arange(len(anchors)), len(hard))
    return check_batch(anchors, positives, np.concatenate(hard), normalize=True, owners=owners)


class ModelSource:
    """An encoder in training mode: dropout makes two views of a sentence, as in `gradlab train`.

    Raises:
        GradlabError: an encoder that reads fewer than ``max_length`` tokens.
    """

    def __init__(
        self, model: Any, texts: Texts, pooler: str | None, max_length: int | None, device: str
    ) -> None:
        from gradlab.data.tokens import cutting_encoder_of
        from gradlab.encoder.model import Encoder, check_loads
        from gradlab.train.cpu import attention_for
        from gradlab.train.distributed import Processes, find_device
        from gradlab.train.objective import Objective

        encoder = model
        if check_loads(model, pooler=pooler, device=device):
            place = find_device(device)
            placement: dict[str, Any] = {"attention": attention_for(place), "device": place}
            encoder = Encoder.load(model, pooler, max_length=max_length, **placement)
        max_length = max_length or encoder.max_length
        if max_length > encoder.max_length:
            raise GradlabError(
                f"max_length {max_length} exceeds the model's {encoder.max_length} tokens"
            )
        self.encoder, self.texts, self.max_length = encoder, texts, max_length
        # Packs and embeds sequences as in training; the loss is not used.
        self._objective = Objective(
            encoder, get_loss("infonce"), processes=Processes(0, 1, encoder.device)
        )
        self._tokenize = cutting_encoder_of(encoder.tokenizer, max_length)
        self.cuts = Cuts(max_length)

    def batch(self, rows: NDArray[np.int64]) -> Batch:
        """Return both float64 views of rows, with hard negatives as extra negatives, by column."""
        import torch

        columns = [
            [np.array(ids) for ids in self._tokenize([column[row] for row in rows.tolist()])[0]]
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

    def encode(self, batch_size: int, progress: bool) -> Iterator[NDArray[Any]]:
        """Yield the embeddings of all texts without dropout, some at a time."""
        self.encoder.max_length = self.max_length
        texts = progress_bar(self.texts, progress, desc="Encoding", total=self.texts.count)
        for chunk in chunks(texts, _CHUNK):
            self.cuts.add(chunk, *self._tokenize(chunk))
            yield self.encoder.encode(chunk, batch_size, normalize=True)
