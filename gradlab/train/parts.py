"""The parts that a configuration asks for beside encoder and loss: views, heads, queue, momentum branch."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Self

import numpy as np
import torch
from torch import Tensor, nn

from gradlab.encoder.model import Encoder
from gradlab.losses.mask import pairs_files
from gradlab.losses.registry import get_loss
from gradlab.train.augment import (
    Augmentation,
    EmbeddingAugmentation,
    SentenceAugmentation,
    get_augmentation,
)
from gradlab.train.batches import Packed
from gradlab.train.branch import Sequences
from gradlab.train.config import DataSettings, ModelSettings, TrainConfig
from gradlab.train.fgsm import FGSM, PreviousFGSM
from gradlab.train.guide import Guide
from gradlab.train.heads import predictor, projection
from gradlab.train.momentum import Momentum, parse_modules
from gradlab.train.open_share import OpenShare, read_open_shares
from gradlab.train.queue import Queue

# What models call the dropout behind their layers.
_DROPOUTS = ("hidden_dropout_prob", "hidden_dropout", "dropout", "resid_pdrop", "mlp_dropout")


@dataclass(frozen=True)
class Batch:
    """How the two views of a sentence are made: by dropout alone, or by an augmentation too.

    Attributes:
        augmentation: makes the second view; None for no augmentation.
        both: whether it makes the first view too.
    """

    augmentation: Augmentation | None = None
    both: bool = False

    @property
    def of_embeddings(self) -> EmbeddingAugmentation | None:
        """The augmentation, if it changes looked-up embeddings."""
        return self.augmentation if isinstance(self.augmentation, EmbeddingAugmentation) else None

    def ids(self, first: Sequences, second: Sequences) -> tuple[Sequences, Sequences]:
        """Both views' token ids, changed by an augmentation of sentences."""
        if isinstance(self.augmentation, SentenceAugmentation):
            # From torch's generator, whose state is in the checkpoints.
            generator = np.random.default_rng(int(torch.randint(2**63 - 1, ())))
            if self.both:
                first = self.augmentation.batch(first, generator)
            second = self.augmentation.batch(second, generator)
        return first, second

    def changed(self, packed: Packed, anchors: int) -> Tensor | None:
        """Rows (sequences,), in the order of the groups, whose embeddings the augmentation changes.

        Args:
            packed: sequences, of which the first ``anchors`` are anchors and any others positives.
            anchors: their number.
        """
        if self.of_embeddings is None:
            return None
        changed = torch.empty_like(packed.order, dtype=torch.bool)
        changed[packed.order] = torch.arange(len(changed), device=changed.device) >= anchors
        return torch.ones_like(changed) if self.both else changed


@dataclass
class Parts:
    """What an `gradlab.train.Objective` is made of beside encoder, head and loss; nothing by
    default.

    Attributes:
        views: how the two views are made.
        projection: after the head, in both branches.
        predictor: after the projection, of the anchors alone.
        momentum: the branch of averages, or None.
        queue: negatives from earlier steps, or None.
        in_batch_negatives: whether the other sentences of the batch are negatives.
        fgsm: perturbs the embeddings of the trained branch, or None.
        open_share: which anchors count, or how much, or None for all of them.
        guide: embeddings of the sentences by another model, for a mask that goes by it, or None.
    """

    views: Batch = Batch()
    projection: nn.Module = field(default_factory=nn.Identity)
    predictor: nn.Module = field(default_factory=nn.Identity)
    momentum: Momentum | None = None
    queue: Queue | None = None
    in_batch_negatives: bool = True
    fgsm: FGSM | None = None
    open_share: OpenShare | None = None
    guide: Guide | None = None

    @classmethod
    def build(cls, config: TrainConfig, encoder: Encoder, head: nn.Module, steps: int) -> Self:
        """The parts of a configuration, but for the guide.

        Args:
            config: the settings.
            encoder, head: what the momentum branch begins as.
            steps: of the run, over which the momentum's schedule goes.

        Raises:
            GradlabError: settings that the parts refuse, or that the encoder cannot serve.
        """
        device = encoder.device
        how = (_dropout(config, encoder), config.head_initial)
        made = projection(config.projection_layers, encoder.dimension, config.projection_width, *how)
        dimension = int(getattr(made, "dimension", encoder.dimension))
        anchors_alone = predictor(config.predictor_layers, dimension, config.predictor_width, *how)
        parts = cls(
            views=_views(config, encoder),
            projection=made.to(device),
            predictor=anchors_alone.to(device),
            in_batch_negatives=config.in_batch_negatives,
        )
        if config.queue_size:
            parts.queue = Queue(
                config.queue_size,
                dimension,
                initial=config.queue_initial,
                positions=config.queue_ages,
                numbered=bool(pairs_files(get_loss(config.loss, **config.loss_settings))),
            ).to(device)
        if config.momentum is not None:
            parts.momentum = Momentum(
                {"encoder": encoder, "head": head, "projection": parts.projection},
                start=config.momentum,
                end=config.momentum_end,
                schedule=config.momentum_schedule,
                steps=steps,
                dropout=config.momentum_dropout,
                averaged=parse_modules(config.momentum_modules),
                makes_positives=config.momentum_use == "positives",
                keys_gradient=config.keys_gradient,
            )
        if config.open_shares is not None:
            shares = read_open_shares(config.open_shares, config.seed, steps)
            parts.open_share = OpenShare(shares, config.open_shares_use, config.seed)
        if config.fgsm:
            previous = config.fgsm_gradient == "previous"
            table = encoder.model.get_input_embeddings()
            parts.fgsm = PreviousFGSM(config.fgsm, table).to(device) if previous else FGSM(config.fgsm)
        return parts


def _views(config: DataSettings, encoder: Encoder) -> Batch:
    if config.augment is None:
        return Batch()
    longest = encoder.max_length
    augmentation = get_augmentation(config.augment, tokenizer=encoder.tokenizer, longest=longest)
    return Batch(augmentation, both=config.augment_views == "both")


def _dropout(config: ModelSettings, encoder: Encoder) -> float:
    """Of the heads: as in the encoder."""
    if config.dropout is not None:
        return config.dropout
    own = encoder.model.config
    return float(next((v for name in _DROPOUTS if (v := getattr(own, name, None)) is not None), 0.1))
