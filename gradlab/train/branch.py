"""`Branch`: from token ids to the rows that the loss compares."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from gradlab.encoder.model import Encoder
from gradlab.scale.gradient_cache import GradientCache, saved_bytes
from gradlab.train.augment import EmbeddingAugmentation
from gradlab.train.batches import Packed, SequenceGroup, pack
from gradlab.train.config import TrainConfig
from gradlab.train.cpu_speed import fast_dropout

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
    chunk_tokens: int | None = None  # tokens of a chunk, padding included
    broadcasts_masks: bool = False  # whether the encoder accepts the masks of `broadcast_mask`

    def pack(self, sequences: Sequences) -> Packed:
        """Lay out sequences on the device without needless padding."""
        # Except on a CPU, one large product is faster than two; tensor cores work in eights.
        groups = self.config.length_groups or (2 if self.device.type == "cpu" else 1)
        multiple = 8 if self.device.type == "cuda" else 1
        padding = self.encoder.tokenizer.pad_token_id
        chunks = self.config.chunk_size, self.chunk_tokens
        return pack(sequences, padding, groups, multiple, *chunks).to(self.device)

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
        flat: Sequence[Tensor] = [looked_up]
        if len(shapes) > 1:  # copies, because some encoders change what they are given
            pieces = looked_up.split([shape.numel() for shape in shapes])
            flat = [piece.clone() for piece in pieces]
        embedded = [rows.view(*shape, -1) for rows, shape in zip(flat, shapes, strict=True)]
        if changed is None or self.view is None:
            return embedded
        masks = changed.split([len(rows) for rows in embedded])
        return [
            torch.where(mask[:, None, None], self.view.embeddings(rows, group.attention_mask), rows)
            for rows, group, mask in zip(embedded, packed.groups, masks, strict=True)
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
        if not self.config.chunked:
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
        if embedded is None:
            embedded = self.look_up(packed, changed)
        with self.computing():
            encoded_groups = []
            for place, group in enumerate(packed.groups):
                options: dict[str, Any] = {}
                if self.broadcasts_masks:
                    options["model_mask"] = broadcast_mask if group.padded else no_mask
                if embedded is not None:
                    options["inputs_embeds"] = embedded[place]
                ids = group.input_ids if embedded is None else None
                encoded_groups.append(self.encoder(ids, group.attention_mask, **options))
            encoded = torch.cat(encoded_groups)
            rows = self.projection(self.head(encoded))
        rows = rows.to(torch.promote_types(rows.dtype, torch.float32))[packed.order]
        return (rows, encoded.detach()[packed.order]) if self.keep_encoded else (rows,)


def broadcast_mask(attention_mask: Tensor) -> Tensor:
    """Return a mask for each head and query (rows, 1, 1, length), which a model takes as it is.

    Of a mask (rows, length), transformers asks the GPU whether there is any padding, and waits.
    """
    return attention_mask[:, None, None, :].bool()


def no_mask(attention_mask: Tensor) -> None:
    """Return None, the mask of sequences without padding."""


def tokens_in(memory: float, branch: Branch) -> int:
    """Return how many tokens keep ``memory`` GiB of activations in the longest sequences.

    Two probes of sequences of the largest length tell what grows with their number. Peak memory is
    a little larger, by what one layer of the backward pass allocates.
    """
    length = branch.config.max_length
    tokenizer = branch.encoder.tokenizer
    ids = tokenizer("a probe")["input_ids"]
    sequence = np.resize(np.array(ids), length)
    kept = []
    devices = [branch.device] if branch.device.type == "cuda" else []
    unchunked = replace(branch, config=replace(branch.config, chunk_memory=None))
    modules = [branch.encoder, branch.head, branch.projection]
    training = [module.training for module in modules]
    with torch.random.fork_rng(devices):
        for count in (1, 3):
            packed = pack([sequence] * count, tokenizer.pad_token_id, groups=1).to(branch.device)
            for module in modules:
                module.train()  # dropout keeps its masks
            kept.append(saved_bytes(partial(unchunked, packed)))
    for module, mode in zip(modules, training, strict=True):
        module.train(mode)
    per_token = (kept[1] - kept[0]) / (2 * length)
    return max(1, int(memory * 2**30 / per_token))


def takes_broadcast_masks(encoder: Encoder) -> bool:
    """Return whether an encoder computes exactly the same from the masks of `broadcast_mask`."""

    def embed(group: SequenceGroup) -> Tensor:
        mask = broadcast_mask if group.padded else no_mask
        embeddings: Tensor = encoder(group.input_ids, group.attention_mask, model_mask=mask)
        return embeddings

    return _computes_the_same(encoder, embed)


def takes_embeddings(encoder: Encoder) -> bool:
    """Return whether an encoder computes exactly the same from looked-up embeddings as from ids."""

    def embed(group: SequenceGroup) -> Tensor:
        embeds = encoder.model.get_input_embeddings()(group.input_ids)
        embeddings: Tensor = encoder(None, group.attention_mask, inputs_embeds=embeds)
        return embeddings

    return _computes_the_same(encoder, embed)


@torch.no_grad()
def _computes_the_same(encoder: Encoder, embed: Callable[[SequenceGroup], Tensor]) -> bool:
    """Return whether ``embed`` gives the embeddings of the encoder, with and without padding."""
    ids = encoder.tokenizer("a probe of a few words")["input_ids"]
    probe = [np.array(ids), np.array([*ids[:2], *ids[-1:]])]
    training = encoder.training
    encoder.eval()
    try:
        for sequences in (probe, probe[:1]):
            packed = pack(sequences, encoder.tokenizer.pad_token_id, groups=1).to(encoder.device)
            (group,) = packed.groups
            expected = encoder(group.input_ids, group.attention_mask)
            if not torch.equal(expected, embed(group)):
                return False
        return True
    except (TypeError, ValueError, NotImplementedError, AttributeError, RuntimeError):
        return False
    finally:
        encoder.train(training)
