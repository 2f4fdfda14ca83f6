"""Encoding from looked-up embeddings, which is faster and lets them be changed on the way."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gradlab.encoder.model import Encoder
from gradlab.train.augment import EmbeddingAugmentation
from gradlab.train.batches import Packed, pack
from gradlab.train.cpu import rows_of

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
