"""The parts that a configuration asks for beside encoder and loss: queue, momentum branch, heads, views."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Self

from torch import nn

from gradlab.encoder.model import Encoder
from gradlab.losses.mask import pairs_files
from gradlab.losses.registry import get_loss
from gradlab.train.augment import Augmentation, get_augmentation
from gradlab.train.config import TrainConfig
from gradlab.train.fgsm import FGSM, PreviousFGSM
from gradlab.train.guide import Guide
from gradlab.train.heads import predictor, projection
from gradlab.train.momentum import Momentum, parse_modules
from gradlab.train.open_share import OpenShare, read_open_shares
from gradlab.train.queue import Queue

# What models call the dropout behind their layers.
_DROPOUTS = ("hidden_dropout_prob", "hidden_dropout", "dropout", "resid_pdrop", "mlp_dropout")


@dataclass
class Parts:
    """What an `gradlab.train.Objective` is made of beside encoder, head and loss; nothing by default.

    Attributes:
        projection: after the head, in both branches.
        predictor: after the projection, of the anchors alone.
        momentum: the branch of averages, or None.
        keys_are_positives: whether that branch makes the positives, or fills the queue only.
        queue: negatives from earlier steps, or None.
        in_batch_negatives: whether the other sentences of the batch are negatives.
        fgsm: perturbs the embeddings of the trained branch, or None.
        augmentation: makes the second view, or None.
        both_views: whether it makes the first one too.
        open_share: which anchors count, or how much, or None for all of them.
        guide: embeddings of the sentences by another model, for a mask that goes by it, or None.
    """

    projection: nn.Module = field(default_factory=nn.Identity)
    predictor: nn.Module = field(default_factory=nn.Identity)
    momentum: Momentum | None = None
    keys_are_positives: bool = True
    queue: Queue | None = None
    in_batch_negatives: bool = True
    fgsm: FGSM | None = None
    augmentation: Augmentation | None = None
    both_views: bool = False
    open_share: OpenShare | None = None
    guide: Guide | None = None

    @classmethod
    def build(cls, config: TrainConfig, encoder: Encoder, head: nn.Module, steps: int) -> Self:
        """The parts of a configuration.

        Args:
            config: the settings.
            encoder, head: what the momentum branch begins as.
            steps: of the run, over which the momentum's schedule goes.

        Raises:
            GradlabError: settings that the parts refuse, or that the encoder cannot serve.
        """
        device = encoder.device
        dropout = _dropout(config, encoder)
        initial = config.head_initial
        made = projection(
            config.projection_layers, encoder.dimension, config.projection_width, dropout, initial
        )
        dimension = int(getattr(made, "dimension", encoder.dimension))
        parts = cls(
            projection=made.to(device),
            predictor=predictor(
                config.predictor_layers, dimension, config.predictor_width, dropout, initial
            ).to(device),
            keys_are_positives=config.momentum_use == "positives",
            in_batch_negatives=config.in_batch_negatives,
            augmentation=_augmentation(config, encoder),
            both_views=config.augment_views == "both",
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


def _dropout(config: TrainConfig, encoder: Encoder) -> float:
    """Of the heads: as in the encoder."""
    if config.dropout is not None:
        return config.dropout
    own = encoder.model.config
    return float(next((v for name in _DROPOUTS if (v := getattr(own, name, None)) is not None), 0.1))


def _augmentation(config: TrainConfig, encoder: Encoder) -> Augmentation | None:
    if config.augment is None:
        return None
    return get_augmentation(config.augment, tokenizer=encoder.tokenizer, longest=encoder.max_length)
