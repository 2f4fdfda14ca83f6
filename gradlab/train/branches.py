"""The branches of an objective: from token ids to the rows that the loss compares."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from gradlab.encoder.model import Encoder
from gradlab.errors import GradlabError
from gradlab.gradient.learnable import LearnableLoss
from gradlab.large_batch.gradient_cache import GradientCache
from gradlab.large_batch.loss import BlockwiseLoss
from gradlab.losses.base import Loss
from gradlab.train.augment import EmbeddingAugmentation
from gradlab.train.batches import Embedded, Packed, augment, encode, look_up, pack, takes_embeddings
from gradlab.train.cpu import fast_dropout
from gradlab.train.distributed import Processes
from gradlab.train.momentum import Momentum
from gradlab.train.outputs import Batch
from gradlab.train.parts import Parts

Sequences = Sequence[NDArray[Any]]


class Branches(nn.Module):
    """The trained branch (encoder, head, projection, predictor) and, if there is one, the momentum branch that follows it.

    What is registered here is in the checkpoints.

    Attributes:
        encoder: what is trained, and saved in the end.
        head: applied to its embeddings in training only.
        parts: what there is beside them.
    """

    def __init__(
        self,
        encoder: Encoder,
        head: nn.Module,
        criterion: LearnableLoss | BlockwiseLoss | Loss,
        parts: Parts,
        processes: Processes,
        *,
        groups: int,
        precision: str,
        compiled: bool,
        chunk_size: int | None,
    ) -> None:
        super().__init__()
        self.encoder, self.head = encoder, head
        self.processes = processes
        self._criterion = criterion
        self._chunk_size, self._in_place = chunk_size, False
        self.parts = parts
        self.projection, self.predictor = parts.projection, parts.predictor
        self.momentum, self.queue, self.fgsm = parts.momentum, parts.queue, parts.fgsm
        self.open_share = parts.open_share
        self._groups = groups
        self._autocast = precision == "bfloat16"
        self._multiple = 8 if processes.device.type == "cuda" else 1  # tensor cores work in eights
        self._fast_dropout = processes.device.type == "cpu" and not compiled
        self._shares_lookup = takes_embeddings(encoder)
        self._encoded: Tensor | None = None
        augmentation = parts.augmentation
        self._embedding_view = augmentation if isinstance(augmentation, EmbeddingAugmentation) else None
        if not self._shares_lookup and (self.fgsm is not None or self._embedding_view is not None):
            raise GradlabError(
                "this encoder does not compute the same from looked-up embeddings as from token ids; "
                "it cannot be trained with FGSM or an augmentation of embeddings"
            )

    def pack(self, sequences: Sequences) -> Packed:
        """Sequences laid out on the device without needless padding."""
        padding = self.encoder.tokenizer.pad_token_id
        packed = pack(sequences, padding, self._groups, self._multiple, self._chunk_size)
        return packed.to(self.processes.device)

    def embed(self, packed: Packed | Batch, embedded: Embedded | None = None) -> Tensor:
        """Embeddings (sequences, D) as the loss sees them: pooled, through head and projection, in float32 at least.

        Args:
            packed: sequences of the trained branch, or a batch that has them.
            embedded: what they look up, if it is not to be looked up here.
        """
        packed = packed.online if isinstance(packed, Batch) else packed
        rows, self._encoded = self._embed(self.encoder, self.head, self.projection, packed, embedded)
        return rows

    def predict(self, rows: Tensor) -> Tensor:
        """Anchors (N, D) through the predictor, if there is one."""
        if isinstance(self.predictor, nn.Identity):
            return rows
        with self._working():
            predicted = self.predictor(rows)
        return predicted.to(rows.dtype)

    def trained_parameters(self) -> list[nn.Parameter]:
        """All but those of the momentum branch, which follow them."""
        following = set() if self.momentum is None else {id(one) for one in self.momentum.parameters()}
        return [one for one in self.parameters() if id(one) not in following]

    def compile_encoders(self) -> None:
        """Compile the encoders of all branches with torch.compile, in place."""
        self.encoder.model.compile(dynamic=True)
        if self.momentum is not None:
            copied: Any = self.momentum.copies["encoder"]
            copied.model.compile(dynamic=True)

    def _changed(self, packed: Packed, count: int) -> Tensor | None:
        """Which rows of the trained branch an augmentation of embeddings changes: ``count`` anchors, then positives."""
        if self._embedding_view is None:
            return None
        changed = torch.empty_like(packed.order, dtype=torch.bool)
        changed[packed.order] = torch.arange(len(changed), device=changed.device) >= count
        return torch.ones_like(changed) if self.parts.both_views else changed

    @property
    def _has_heads(self) -> bool:
        """Whether what the loss sees is not what the encoder gives."""
        heads = (self.head, self.projection, self.predictor)
        return not all(isinstance(one, nn.Identity) for one in heads)

    def _embed(
        self,
        encoder: nn.Module,
        head: nn.Module,
        projection: nn.Module,
        packed: Packed,
        embedded: Embedded | None,
    ) -> tuple[Tensor, Tensor | None]:
        """Rows behind the heads, in float32 at least, and before them, without gradient, if there are heads."""
        with self._working():
            if embedded is None and self._shares_lookup:
                embedded = look_up(encoder, packed, in_place=self._in_place)
            encoded = encode(encoder, packed, embedded)
            rows = projection(head(encoded))
        rows = rows.to(torch.promote_types(rows.dtype, torch.float32))[packed.order]
        return rows, encoded.detach()[packed.order] if self._has_heads else None

    @contextlib.contextmanager
    def _working(self) -> Iterator[None]:
        device = self.processes.device.type
        with torch.autocast(device, torch.bfloat16, enabled=self._autocast), fast_dropout(self._fast_dropout):
            yield

    def _chunks(
        self,
        encode: Callable[[tuple[Packed, Tensor | None]], tuple[Tensor, ...]],
        packed: Packed,
        changed: Tensor | None,
        cache: GradientCache | None,
    ) -> tuple[Tensor, ...]:
        """What ``encode`` makes of chunks, one after the other: rows behind the heads, (sequences, D), and what else it gives."""
        sizes = [len(group.input_ids) for group in packed.groups]
        parts = [None] * len(sizes) if changed is None else changed.split(sizes)
        chunks = [
            (Packed((group,), torch.arange(size, device=packed.order.device)), part)
            for group, size, part in zip(packed.groups, sizes, parts, strict=True)
        ]
        if cache is not None:
            return cache.encode(encode, chunks, packed.order)
        return tuple(torch.cat(part)[packed.order] for part in zip(*map(encode, chunks), strict=True))

    def _chunk(self, chunk: tuple[Packed, Tensor | None]) -> tuple[Tensor, ...]:
        packed, changed = chunk
        embedded = None
        if changed is not None and self._embedding_view is not None:
            embedded = augment(look_up(self.encoder, packed), packed, changed, self._embedding_view)
        rows = self.embed(packed) if embedded is None else self.embed(packed, embedded)
        return (rows,) if self._encoded is None else (rows, self._encoded)

    def _target_rows(self, packed: Packed, cache: GradientCache | None = None) -> Tensor:
        """What the momentum branch makes of the second views, (N, D); without gradient, unless it is asked for."""
        assert self.momentum is not None
        keys_gradient = self.momentum.keys_gradient
        with torch.set_grad_enabled(torch.is_grad_enabled() and keys_gradient):
            encode = functools.partial(self._target, self.momentum)
            if self._chunk_size is None:
                return encode((packed, None))[0]
            return self._chunks(encode, packed, None, cache if keys_gradient else None)[0]

    def _target(self, momentum: Momentum, chunk: tuple[Packed, Tensor | None]) -> tuple[Tensor]:
        packed = chunk[0]
        encoder, head, projection = (momentum.copies[name] for name in ("encoder", "head", "projection"))
        embedded = None
        if self._embedding_view is not None:
            every = torch.ones_like(packed.order, dtype=torch.bool)
            embedded = augment(look_up(encoder, packed), packed, every, self._embedding_view)
        return (self._embed(encoder, head, projection, packed, embedded)[0],)
