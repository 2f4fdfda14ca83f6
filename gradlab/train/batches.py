"""Which sentences meet in a batch, how a batch is laid out for the encoder, and its rows: encoded from looked-up embeddings, which is
faster and lets them be changed on the way.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gradlab.encoder.model import Encoder
from gradlab.errors import GradlabError
from gradlab.train.augment import EmbeddingAugmentation
from gradlab.train.cpu import rows_of

# Names of the independent random streams that are drawn from one seed.
_HELD_OUT, _ORDER = 0, 1


def split_held_out(count: int, share: float, seed: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Rows for training and rows held out, both ascending; the draw depends on ``count`` and ``seed`` only."""
    order = np.random.default_rng([seed, _HELD_OUT]).permutation(count)
    held_out = round(share * count)
    return np.sort(order[held_out:]), np.sort(order[:held_out])


class BatchOrder:
    """The rows of every batch of a run: a new permutation each epoch, the incomplete last batch left out.

    Nothing is remembered between batches: batch k is a function of k and the seed, which makes resuming exact.
    """

    def __init__(self, rows: NDArray[np.int64], batch_size: int, seed: int) -> None:
        """Raises GradlabError if there are fewer rows than a batch takes."""
        if len(rows) < batch_size:
            raise GradlabError(
                f"{len(rows)} training sentences do not fill a batch of {batch_size}; "
                "give more sentences or a smaller batch size"
            )
        self.per_epoch = len(rows) // batch_size
        self._rows, self._batch_size, self._seed = rows, batch_size, seed
        self._epoch, self._permutation = -1, rows

    def __getitem__(self, batch: int) -> NDArray[np.int64]:
        epoch, place = divmod(batch, self.per_epoch)
        if epoch != self._epoch:
            order = np.random.default_rng([self._seed, _ORDER, epoch]).permutation(len(self._rows))
            self._epoch, self._permutation = epoch, self._rows[order]
        return self._permutation[place * self._batch_size : (place + 1) * self._batch_size]


@dataclass(frozen=True)
class Group:
    """Sequences of similar length, padded on the right to the longest of them.

    Attributes:
        input_ids: (rows, length).
        attention_mask: (rows, length), 1 for tokens and 0 for padding.
    """

    input_ids: Tensor
    attention_mask: Tensor

    def to(self, device: torch.device) -> Group:
        """The same on another device, copied without waiting where that is possible."""
        return Group(*(_to(tensor, device) for tensor in (self.input_ids, self.attention_mask)))


@dataclass(frozen=True)
class Packed:
    """Sequences in groups by length.

    Attributes:
        groups: the groups, by length.
        order: (sequences,) row of the concatenated groups at which each sequence stands, so that
            ``torch.cat(embeddings of the groups)[order]`` restores the order in which they came.
    """

    groups: tuple[Group, ...]
    order: Tensor

    def to(self, device: torch.device) -> Packed:
        """The same on another device."""
        return Packed(tuple(group.to(device) for group in self.groups), _to(self.order, device))


def pack(
    sequences: Sequence[NDArray[Any]],
    padding: int,
    groups: int = 2,
    multiple: int = 1,
    rows: int | None = None,
) -> Packed:
    """Lay sequences of token ids out in at most ``groups`` padded rectangles of least total size.

    Which sequences a loss sees together is not touched: embeddings are put back in order afterwards. Every
    sequence attends to its own tokens only, so padding, and with it grouping, changes no embedding.

    Args:
        sequences: token ids, special tokens included.
        padding: id of the padding token.
        groups: largest number of rectangles.
        multiple: lengths are rounded up to a multiple of it (8 serves tensor cores).
        rows: sequences in each rectangle (the last may have fewer), the longest first, instead of ``groups``; None for any
            number.
    """
    lengths = np.array([len(sequence) for sequence in sequences])
    by_length = np.argsort(lengths, kind="stable")
    if rows is not None:
        # They are encoded one after the other: memory that the longest took has room for all later ones.
        by_length = by_length[::-1]
    padded = -(-lengths[by_length] // multiple) * multiple
    edges = _cut(padded, groups) if rows is None else [*range(0, len(padded), rows), len(padded)]
    built = [
        _pad([sequences[row] for row in by_length[start:end]], padding, int(padded[start:end].max()))
        for start, end in itertools.pairwise(edges)
    ]
    order = np.empty(len(by_length), dtype=np.int64)
    order[by_length] = np.arange(len(by_length))
    return Packed(tuple(built), torch.from_numpy(order))


def _cut(lengths: NDArray[np.int64], groups: int) -> list[int]:
    """Edges of the groups of ascending ``lengths`` that waste least, by dynamic programming over the cuts."""
    ends = (
        np.flatnonzero(np.append(np.diff(lengths) > 0, True)) + 1
    )  # a cut within equal lengths saves nothing
    starts = np.append(0, ends[:-1])
    # area[a, b]: tokens of one rectangle from distinct length a to distinct length b.
    area = np.where(starts[:, None] < ends, (ends - starts[:, None]) * lengths[ends - 1], np.inf)
    cost, cuts = area[0], [np.zeros(len(ends), dtype=np.int64)]
    for _ in range(min(groups, len(ends)) - 1):
        total = np.append(0, cost[:-1])[:, None] + area
        cuts.append(np.argmin(total, axis=0))
        cost = np.min(total, axis=0)
    edges, last = [int(ends[-1])], len(ends) - 1
    for choice in reversed(cuts):
        first = int(choice[last])
        if first == 0:
            break
        edges.append(int(starts[first]))
        last = first - 1
    return [0, *reversed(edges)]


def _pad(sequences: list[NDArray[Any]], padding: int, length: int) -> Group:
    lengths = np.array([len(sequence) for sequence in sequences])
    mask = np.arange(length) < lengths[:, None]
    ids = np.full(mask.shape, padding, dtype=np.int64)
    ids[mask] = np.concatenate(sequences)
    return Group(torch.from_numpy(ids), torch.from_numpy(mask.astype(np.int64)))


def _to(tensor: Tensor, device: torch.device) -> Tensor:
    return tensor.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else tensor.to(device)


# (rows, length, D) for each group of a batch.
Embedded = Sequence[Tensor]


def look_up(encoder: Any, packed: Packed, *, in_place: bool = False) -> Embedded:
    """Token embeddings of every group, in one look-up: each look-up has a gradient of the size of the vocabulary.

    Args:
        encoder: whose embeddings.
        packed: token ids.
        in_place: see `gradlab.train.cpu.rows_of`.
    """
    table = encoder.model.get_input_embeddings()
    ids = torch.cat([group.input_ids.flatten() for group in packed.groups])
    flat = rows_of(table, ids, in_place)
    parts = flat.split([group.input_ids.numel() for group in packed.groups])
    return [part.view(*group.input_ids.shape, -1) for group, part in zip(packed.groups, parts, strict=True)]


def encode(encoder: Any, packed: Packed, embedded: Embedded | None) -> Tensor:
    """Pooled rows (sequences, D) in the order of the groups, from embeddings or, without them, from ids."""
    if embedded is None:
        return torch.cat([encoder(group.input_ids, group.attention_mask) for group in packed.groups])
    return torch.cat(
        [
            encoder(None, group.attention_mask, inputs_embeds=rows)
            for group, rows in zip(packed.groups, embedded, strict=True)
        ]
    )


def augment(embedded: Embedded, packed: Packed, changed: Tensor, view: EmbeddingAugmentation) -> Embedded:
    """The embeddings with those of the rows in ``changed`` (sequences,), in the order of the groups, augmented."""
    result = []
    parts = changed.split([len(rows) for rows in embedded])
    for rows, group, chosen in zip(embedded, packed.groups, parts, strict=True):
        result.append(torch.where(chosen[:, None, None], view.embeddings(rows, group.attention_mask), rows))
    return result


def takes_embeddings(encoder: Encoder) -> bool:
    """Whether the encoder computes the same from looked-up embeddings as from token ids, to the last bit."""
    ids = encoder.tokenizer("a probe of a few words")["input_ids"]
    shorter = [*ids[:2], *ids[-1:]]
    group = pack([np.array(ids), np.array(shorter)], encoder.tokenizer.pad_token_id, groups=1).groups[0]
    group = group.to(encoder.device)
    training = encoder.training
    encoder.eval()
    try:
        with torch.no_grad():
            expected = encoder(group.input_ids, group.attention_mask)
            embeds = encoder.model.get_input_embeddings()(group.input_ids)
            found = encoder(None, group.attention_mask, inputs_embeds=embeds)
        return torch.equal(expected, found)
    except (TypeError, ValueError, NotImplementedError, AttributeError):
        return False
    finally:
        encoder.train(training)
