"""`Branch`: from token ids to the rows that the loss compares."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from gradlab.encoder.model import Encoder
from gradlab.scale.gradient_cache import GradientCache
from gradlab.train.augment import EmbeddingAugmentation
from gradlab.train.batches import Packed, pack
from gradlab.train.config import TrainConfig
from gradlab.train.cpu import fast_dropout

Sequences = Sequence[NDArray[Any]]
# Token embeddings (rows, length, D) of each group of a batch.
Embedded = Sequence[Tensor]


@dataclass(frozen=True)
class Branch:
    """Encoder, head and projection in sequence; holds the modules without registering them."""

    encoder: Any
    head: nn.Module
    projection: nn.Module
    config: TrainConfig
    device: torch.device
    shares_lookup: bool  # whether the encoder accepts looked-up embeddings instead of ids
    view: EmbeddingAugmentation | None = None  # changes looked-up embeddings of selected rows
    keep_encoded: bool = False  # whether to return the encoder's rows as well

    def pack(self, sequences: Sequences) -> Packed:
        """Lay out sequences on the device without needless padding."""
        # Except on a CPU, one large product is faster than two; tensor cores work in eights.
        groups = self.config.length_groups or (2 if self.device.type == "cpu" else 1)
        multiple = 8 if self.device.type == "cuda" else 1
        padding = self.encoder.tokenizer.pad_token_id
        return pack(sequences, padding, groups, multiple, self.config.chunk_size).to(self.device)

    @contextlib.contextmanager
    def computing(self) -> Iterator[None]:
        """Compute in the run's precision, and on a CPU with its fast dropout."""
        half = self.config.precision == "bfloat16"
        fast = self.device.type == "cpu" and not self.config.compile
        dropout = fast_dropout() if fast else contextlib.nullcontext()
        with torch.autocast(self.device.type, torch.bfloat16, enabled=half), dropout:
            yield

    def look_up(self, packed: Packed, changed: Tensor | None) -> Embedded | None:
        """Return token embeddings, augmented in ``changed`` rows; None if the encoder needs ids.

        All groups share one look-up, because each has a gradient of the size of the vocabulary.
        """
        if not self.shares_lookup:
            return None
        shapes = [group.input_ids.shape for group in packed.groups]
        ids = torch.cat([group.input_ids.flatten() for group in packed.groups])
        looked_up = self.encoder.model.get_input_embeddings()(ids)
        ends = list(itertools.accumulate(shape.numel() for shape in shapes))
        # Slices, because some encoders change what they are given, and no part of `split` may be.
        embedded = [
            looked_up[end - shape.numel() : end].view(*shape, -1)
            for shape, end in zip(shapes, ends, strict=True)
        ]
        if changed is None or self.view is None:
            return embedded
        chosen = changed.split([len(rows) for rows in embedded])
        return [
            torch.where(mask[:, None, None], self.view.embeddings(rows, group.attention_mask), rows)
            for rows, group, mask in zip(embedded, packed.groups, chosen, strict=True)
        ]

    def __call__(
        self,
        packed: Packed,
        changed: Tensor | None = None,
        embedded: Embedded | None = None,
        cache: GradientCache | None = None,
    ) -> tuple[Tensor, ...]:
        """Return rows (sequences, D) behind the heads, at least in float32.

        ``keep_encoded`` adds detached rows before the heads; ``cache`` drops chunks' activations.
        """
        if self.config.chunk_size is None:
            return self._at_once(packed, changed, embedded)
        sizes = [len(group.input_ids) for group in packed.groups]
        masks = [None] * len(sizes) if changed is None else changed.split(sizes)
        chunks = [
            (Packed((group,), torch.arange(size, device=packed.order.device)), mask)
            for group, size, mask in zip(packed.groups, sizes, masks, strict=True)
        ]
        if cache is not None:
            return cache.encode(lambda chunk: self._at_once(*chunk), chunks, packed.order)
        encoded = [self._at_once(*chunk) for chunk in chunks]
        return tuple(torch.cat(rows)[packed.order] for rows in zip(*encoded, strict=True))

    def _at_once(
        self, packed: Packed, changed: Tensor | None, embedded: Embedded | None = None
    ) -> tuple[Tensor, ...]:
        with self.computing():
            if embedded is None:
                embedded = self.look_up(packed, changed)
            encoded_groups = [
                self.encoder(group.input_ids, group.attention_mask)
                if embedded is None
                else self.encoder(None, group.attention_mask, inputs_embeds=embedded[place])
                for place, group in enumerate(packed.groups)
            ]
            encoded = torch.cat(encoded_groups)
            rows = self.projection(self.head(encoded))
        rows = rows.to(torch.promote_types(rows.dtype, torch.float32))[packed.order]
        return (rows, encoded.detach()[packed.order]) if self.keep_encoded else (rows,)


@torch.no_grad()
def takes_embeddings(encoder: Encoder) -> bool:
    """Return whether an encoder computes exactly the same from looked-up embeddings as from ids."""
    ids = encoder.tokenizer("a probe of a few words")["input_ids"]
    probe = [np.array(ids), np.array([*ids[:2], *ids[-1:]])]
    (group,) = pack(probe, encoder.tokenizer.pad_token_id, groups=1).to(encoder.device).groups
    training = encoder.training
    encoder.eval()
    try:
        expected = encoder(group.input_ids, group.attention_mask)
        embeds = encoder.model.get_input_embeddings()(group.input_ids)
        return torch.equal(expected, encoder(None, group.attention_mask, inputs_embeds=embeds))
    except (TypeError, ValueError, NotImplementedError, AttributeError):
        return False
    finally:
        encoder.train(training)
