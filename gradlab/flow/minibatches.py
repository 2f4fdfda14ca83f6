"""The batches of a flow with ``batch_size``: rows drawn as training draws them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gradlab.errors import GradlabError, check_whole
from gradlab.flow.velocity import Arguments, VelocityField
from gradlab.losses.base import Loss


class Minibatches:
    """Batches of some sentences of a large batch, epoch after epoch.

    Args:
        loss: the loss.
        arguments: arguments of `gradlab.components` for all sentences, in torch.
        moving: names of the moving kinds of embeddings.
        batch_size: number of sentences per batch; the last ones of an epoch are left out.
        shuffle: whether each epoch draws new batches.
        generator: numpy's generator.
    """

    def __init__(
        self,
        loss: Loss,
        arguments: Arguments,
        moving: tuple[str, ...],
        batch_size: int,
        shuffle: bool,
        generator: np.random.Generator,
    ) -> None:
        count = len(arguments["anchors"])
        check_whole("batch_size", batch_size, 1)
        if batch_size > count:
            raise GradlabError(f"batch_size = {batch_size} exceeds the {count} sentences")
        for name in ("relation", "teacher"):
            if arguments.get(name) is not None and not isinstance(arguments[name], (tuple, list)):
                raise GradlabError(f"batch_size does not go with {name}= as a table of columns")
        self._loss, self._arguments, self._moving = loss, arguments, moving
        self.size, self._shuffle, self._generator = batch_size, shuffle, generator
        self._order = np.arange(count)

    def __iter__(self) -> Iterator[tuple[VelocityField, Tensor]]:
        """Yield the velocity field of a batch, and its moving rows' places in the whole state."""
        while True:
            if self._shuffle:
                self._order = self._generator.permutation(self._order)
            yield from self.epoch()

    def epoch(self) -> Iterator[tuple[VelocityField, Tensor]]:
        """Yield the batches of the current epoch, as iteration does."""
        for start in range(0, len(self._order) - self.size + 1, self.size):
            yield self._velocity_field(torch.as_tensor(self._order[start : start + self.size]))

    def _velocity_field(self, rows: Tensor) -> tuple[VelocityField, Tensor]:
        arguments, columns = self._cut(rows)
        velocity_field = VelocityField(self._loss, arguments, self._moving)
        places, offset = [], 0
        for name in self._moving:
            index = columns if name == "extra_negatives" else rows
            embeddings = self._arguments[name]
            width = embeddings.shape[1] if embeddings.ndim == 3 else 1
            places.append(offset + (index[:, None] * width + torch.arange(width)).flatten())
            offset += len(embeddings) * width
        return velocity_field, torch.cat(places)

    def _cut(self, rows: Tensor) -> tuple[dict[str, Any], Tensor]:
        """Return the arguments of these sentences, and which extra negatives they have."""
        whole, names = self._arguments, ("extra_negatives", "own_negatives")
        kinds = [name for name in names if whole.get(name) is not None]
        count, owners = len(whole["anchors"]), whole.get("owners")
        extra = len(whole[names[0]]) if names[0] in kinds else 0
        width = whole[names[1]].shape[1] if names[1] in kinds else 0
        columns, cut = torch.arange(extra), dict(whole)
        if owners is not None:
            position = torch.full((count + 1,), -2)
            position[rows], position[-1] = torch.arange(len(rows)), -1
            owners = position[torch.as_tensor(owners)]
            columns = columns[owners > -2]
            cut["owners"] = owners[columns]
        index = {
            name: columns if name == names[0] else rows for name in ("anchors", "positives", *kinds)
        }
        for name, places in (index | {"labels": rows, "scores": rows}).items():
            if whole.get(name) is not None:
                cut[name] = torch.as_tensor(whole[name])[places]
        for name in ("guide", "teacher"):
            if whole.get(name) is not None:
                pairs = zip(whole[name], index.values(), strict=True)
                cut[name] = tuple(kind[places] for kind, places in pairs)
        steps = torch.arange(width)
        own = count + extra + (rows[:, None] * width + steps).flatten()
        if whole.get("sentences") is not None:
            numbers = torch.as_tensor(whole["sentences"])
            places = torch.cat([rows, count + columns, own])
            cut["sentences"] = numbers[places[places < len(numbers)]]
        if whole.get("mask") is not None:
            table = torch.as_tensor(whole["mask"])[rows]
            places = torch.cat([rows, count + columns, count + extra + steps])
            cut["mask"] = table[:, places[places < table.shape[1]]]
        return cut, columns
