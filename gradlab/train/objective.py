"""From token ids to the loss: the trainable part of a run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from gradlab.encoder import Encoder
from gradlab.losses.base import Loss
from gradlab.train.batches import Packed, pack
from gradlab.train.distributed import Processes
from gradlab.train.dropout import fast_dropout

Sequences = Sequence[NDArray[Any]]


@dataclass(frozen=True)
class Output:
    """One batch's loss and the embeddings that it was computed from, of all processes.

    Attributes:
        loss: a scalar that gradient flows from.
        anchors, positives: (N, D), not normalised.
        extra_negatives: (M, D) or None.
    """

    loss: Tensor
    anchors: Tensor
    positives: Tensor
    extra_negatives: Tensor | None = None


class Objective(nn.Module):
    """Encoder, head, views and loss. Recipes change one of its methods; what they register is in the checkpoints.

    By default both views are the sentence itself, encoded with independent dropout (SimCSE, Gao et al. 2021).

    Attributes:
        encoder: what is trained, and saved in the end.
        head: applied to its embeddings in training only.
        loss: the registered loss.
    """

    def __init__(
        self,
        encoder: Encoder,
        loss: Loss,
        *,
        head: nn.Module | None = None,
        processes: Processes | None = None,
        groups: int = 2,
        precision: str = "float32",
        compiled: bool = False,
    ) -> None:
        super().__init__()
        self.encoder = encoder
        self.head = head if head is not None else nn.Identity()
        self.loss = loss
        self.processes = processes or Processes(0, 1, encoder.device)
        self._groups = groups
        self._autocast = precision == "bfloat16"
        self._multiple = 8 if self.processes.device.type == "cuda" else 1  # tensor cores work in eights
        self._fast_dropout = self.processes.device.type == "cpu" and not compiled
        self._shares_lookup = takes_embeddings(encoder)

    def views(self, sequences: Sequences) -> tuple[Sequences, Sequences]:
        """Token ids of the two views of a batch."""
        return sequences, sequences

    def prepare(self, sequences: Sequences) -> Packed:
        """Both views of a batch, anchors first, laid out on the device."""
        first, second = self.views(sequences)
        return self.pack([*first, *second])

    def pack(self, sequences: Sequences) -> Packed:
        """Sequences laid out on the device without needless padding."""
        padding = self.encoder.tokenizer.pad_token_id
        return pack(sequences, padding, self._groups, self._multiple).to(self.processes.device)

    def embed(self, packed: Packed) -> Tensor:
        """Embeddings (sequences, D) as the loss sees them: pooled, through the head, in float32 at least."""
        device = self.processes.device.type
        with torch.autocast(device, torch.bfloat16, enabled=self._autocast), fast_dropout(self._fast_dropout):
            rows = torch.cat(self._encode(packed))
            rows = self.head(rows)
        return rows.to(torch.promote_types(rows.dtype, torch.float32))[packed.order]

    def forward(self, packed: Packed) -> Output:
        """The loss of what :meth:`prepare` laid out, over the batches of all processes."""
        rows = self.embed(packed)
        anchors, positives = rows.chunk(2)
        return self.compare(self.processes.gather(anchors), self.processes.gather(positives))

    def compare(self, anchors: Tensor, positives: Tensor, extra_negatives: Tensor | None = None) -> Output:
        """The loss on embeddings (N, D)."""
        loss = self.loss(anchors, positives, extra_negatives, normalize=True)
        return Output(loss, anchors, positives, extra_negatives)

    def after_step(self, output: Output) -> None:
        """Called after each optimiser step with the last batch's output: queues and momentum branches."""

    def _encode(self, packed: Packed) -> list[Tensor]:
        if not self._shares_lookup:
            return [self.encoder(group.input_ids, group.attention_mask) for group in packed.groups]
        # One look-up for all groups: each has a gradient of the size of the vocabulary.
        table = self.encoder.model.get_input_embeddings()
        flat = table(torch.cat([group.input_ids.flatten() for group in packed.groups]))
        parts = flat.split([group.input_ids.numel() for group in packed.groups])
        return [
            self.encoder(None, group.attention_mask, inputs_embeds=part.view(*group.input_ids.shape, -1))
            for group, part in zip(packed.groups, parts, strict=True)
        ]


class MLP(nn.Sequential):
    """SimCSE's head: one linear layer of the embeddings' own size and tanh."""

    def __init__(self, dimension: int) -> None:
        linear = nn.Linear(dimension, dimension)
        # As transformers initialises the layers of BERT.
        nn.init.normal_(linear.weight, std=0.02)
        nn.init.zeros_(linear.bias)
        super().__init__(linear, nn.Tanh())


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


def freeze_unused(objective: Objective) -> None:
    """Take parameters that no gradient reaches out of training; DistributedDataParallel waits for the others."""
    objective.zero_grad()
    ids = np.array(objective.encoder.tokenizer("a probe")["input_ids"])
    objective.embed(objective.pack([ids, ids])).sum().backward()
    for parameter in objective.parameters():
        parameter.requires_grad_(parameter.grad is not None)
    objective.zero_grad(set_to_none=True)
