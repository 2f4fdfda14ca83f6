"""The order of sentences in batches, and the layout of a batch for the encoder."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gradlab.errors import GradlabError

# Numbers of the independent random streams of one seed.
_HELD_OUT, _ORDER = 0, 1


def split_held_out(
    count: int, share: float, seed: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return training and held-out rows, ascending; only ``count`` and ``seed`` decide the draw."""
    order = np.random.default_rng([seed, _HELD_OUT]).permutation(count)
    held_out = round(share * count)
    return np.sort(order[held_out:]), np.sort(order[:held_out])


class BatchOrder:
    """Rows of every batch of a run: a new permutation per epoch, without its incomplete last batch.

    Batch k is a function of k and the seed, without further state, which makes resuming exact.
    """

    def __init__(self, rows: NDArray[np.int64], batch_size: int, seed: int) -> None:
        """Set the rows to permute; GradlabError if they do not fill a batch."""
        if len(rows) < batch_size:
            few = f"{len(rows)} training sentences do not fill a batch of {batch_size}"
            raise GradlabError(f"{few}; give more sentences or a smaller batch size")
        self.per_epoch = len(rows) // batch_size
        self._rows, self._batch_size, self._seed = rows, batch_size, seed
        self._epoch, self._permutation = -1, rows

    def __getitem__(self, batch: int) -> NDArray[np.int64]:
        epoch, place = divmod(batch, self.per_epoch)
        if epoch != self._epoch:
            order = np.random.default_rng([self._seed, _ORDER, epoch]).permutation(len(self._rows))
            self._epoch, self._permutation = epoch, self._rows[order]
        return self._permutation[place * self._batch_size : (place + 1) * self._batch_size]


class SequenceGroup(NamedTuple):
    """Sequences of similar length, padded on the right to the longest of them."""

    input_ids: Tensor  # (rows, length)
    attention_mask: Tensor  # (rows, length), 1 for tokens and 0 for padding
    padded: bool = True  # whether there is padding, which the host knows without asking a GPU


@dataclass(frozen=True)
class Packed:
    """Sequences grouped by length; ``torch.cat(group embeddings)[order]`` has the given order."""

    groups: tuple[SequenceGroup, ...]
    order: Tensor  # (sequences,) row of each sequence in the concatenated groups

    def to(self, device: torch.device) -> Packed:
        """Return the batch on a device, in one transfer that the host does not wait for."""
        if self.order.device == device:
            return self
        flat = torch.cat([tensor.flatten() for tensor in self._tensors()])
        if device.type == "cuda":
            flat = flat.pin_memory()
        return self._with_entries(flat.to(device, non_blocking=True))

    def _tensors(self) -> list[Tensor]:
        views = [tensor for group in self.groups for tensor in group[:2]]
        return [*views, self.order]

    def _with_entries(self, flat: Tensor) -> Packed:
        """Return the same layout with the entries of ``flat``."""
        tensors = self._tensors()
        pieces = iter(flat.split([tensor.numel() for tensor in tensors]))
        *views, order = (
            piece.view(tensor.shape) for piece, tensor in zip(pieces, tensors, strict=True)
        )
        groups = [
            SequenceGroup(ids, mask, group.padded)
            for ids, mask, group in zip(views[::2], views[1::2], self.groups, strict=True)
        ]
        return Packed(tuple(groups), order)


def pack(
    sequences: Sequence[NDArray[Any]],
    padding: int,
    groups: int = 2,
    multiple: int = 1,
    rows: int | None = None,
    tokens: int | None = None,
) -> Packed:
    """Lay out sequences of token ids in at most ``groups`` padded rectangles of least total size.

    A sequence attends only to its own tokens, so that grouping changes no embedding. Lengths are
    rounded up to a multiple of ``multiple``. With ``rows``, each rectangle has that many sequences,
    longest first, and the last one possibly fewer. With ``tokens``, each has as many sequences,
    longest first, as have no more than that many tokens with their padding, but at least one.
    """
    lengths = np.array([len(sequence) for sequence in sequences])
    by_length = np.argsort(lengths, kind="stable")
    if rows is not None or tokens is not None:
        # Encoded one by one, longest first: the memory of the first has room for all others.
        by_length = by_length[::-1]
    padded = -(-lengths[by_length] // multiple) * multiple
    if tokens is not None:
        edges = _filled(padded, tokens)
    elif rows is not None:
        edges = [*range(0, len(padded), rows), len(padded)]
    else:
        edges = length_edges(padded, groups)
    built = []
    for start, end in itertools.pairwise(edges):
        group_rows = by_length[start:end]
        mask = np.arange(padded[start:end].max()) < lengths[group_rows][:, None]
        ids = np.full(mask.shape, padding, dtype=np.int64)
        ids[mask] = np.concatenate([sequences[row] for row in group_rows])
        views = torch.from_numpy(ids), torch.from_numpy(mask.astype(np.int64))
        built.append(SequenceGroup(*views, padded=not mask.all()))
    return Packed(tuple(built), torch.from_numpy(np.argsort(by_length)))


def length_edges(lengths: NDArray[np.int64], groups: int) -> list[int]:
    """Return edges that group ascending ``lengths`` with least padding, by dynamic programming."""
    # A cut within equal lengths saves nothing.
    ends = np.flatnonzero(np.append(np.diff(lengths) > 0, True)) + 1
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


def _filled(lengths: NDArray[np.int64], tokens: int) -> list[int]:
    """Return edges of rectangles of at most ``tokens`` entries; ``lengths`` descend."""
    edges = [0]
    while edges[-1] < len(lengths):
        count = max(1, tokens // int(lengths[edges[-1]]))
        edges.append(min(edges[-1] + count, len(lengths)))
    return edges
