"""The parts that a configuration asks for beside encoder and loss: views, heads, queue, momentum branch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Self

from torch import Tensor, nn

from gradlab.encoder.model import Encoder
from gradlab.losses.mask import pairs_files
from gradlab.losses.registry import get_loss
from gradlab.train.augment import Augmentation, get_augmentation
from gradlab.train.config import TrainConfig
from gradlab.train.fgsm import FGSM, PreviousFGSM
from gradlab.train.heads import predictor, projection
from gradlab.train.momentum import Momentum
from gradlab.train.open_share import OpenShare, read_open_shares
from gradlab.train.queue import Queue

# What models call the dropout behind their layers.
_DROPOUTS = ("hidden_dropout_prob", "hidden_dropout", "dropout", "resid_pdrop", "mlp_dropout")


@dataclass
class Parts:
    """What an `gradlab.train.Objective` is made of beside encoder, head and loss; nothing by default.

    Attributes:
        augmentation: makes the second view; None leaves it to dropout.
        both_views: whether it makes the first view too.
        projection: after the head, in both branches.
        predictor: after the projection, of the anchors alone.
        momentum: the branch of averages, or None.
        queue: negatives from earlier steps, or None.
        in_batch_negatives: whether the other sentences of the batch are negatives.
        own_negatives: whether hard negatives are those of the anchor in their row alone.
        fgsm: perturbs the embeddings of the trained branch, or None.
        open_share: which anchors count, or how much, or None for all of them.
        told: what the loss is told of the sentences, by the name of its argument, such as ``guide`` or ``labels``: functions of
            their rows in the training file, (N,).
    """

    augmentation: Augmentation | None = None
    both_views: bool = False
    projection: nn.Module = field(default_factory=nn.Identity)
    predictor: nn.Module = field(default_factory=nn.Identity)
    momentum: Momentum | None = None
    queue: Queue | None = None
    in_batch_negatives: bool = True
    own_negatives: bool = True
    fgsm: FGSM | None = None
    open_share: OpenShare | None = None
    told: dict[str, Callable[[Tensor], Any]] = field(default_factory=dict)

    @classmethod
    def build(cls, config: TrainConfig, encoder: Encoder, head: nn.Module, steps: int) -> Self:
        """The parts of a configuration, but for what the loss is told of the sentences.

        The momentum branch begins as ``encoder`` and ``head``; its schedule goes over the ``steps`` of the run.
        """
        dropout = config.dropout
        if dropout is None:  # of the heads: as in the encoder
            own = vars(encoder.model.config)
            dropout = float(next((own[name] for name in _DROPOUTS if own.get(name) is not None), 0.1))
        how, width = (dropout, config.head_initial), encoder.dimension
        own = config.hard_negatives == "own"
        parts = cls(in_batch_negatives=config.in_batch_negatives, own_negatives=own)
        parts.projection = projection(config.projection_layers, width, config.projection_width, *how)
        width = (config.projection_width or width) if config.projection_layers else width
        parts.predictor = predictor(config.predictor_layers, width, config.predictor_width, *how)
        for module in (parts.projection, parts.predictor):
            module.to(encoder.device)
        if config.augment is not None:
            limits = {"tokenizer": encoder.tokenizer, "longest": encoder.max_length}
            parts.augmentation = get_augmentation(config.augment, **limits)
            parts.both_views = config.augment_views == "both"
        if config.queue_size:
            parts.queue = Queue(
                config.queue_size,
                width,
                initial=config.queue_initial,
                positions=config.queue_ages,
                numbered=bool(pairs_files(get_loss(config.loss, **config.loss_settings))),
            ).to(encoder.device)
        if config.momentum is not None:
            modules = {"encoder": encoder, "head": head, "projection": parts.projection}
            parts.momentum = Momentum(modules, config, steps)
        if config.open_shares is not None:
            shares = read_open_shares(config.open_shares, config.seed, steps)
            parts.open_share = OpenShare(shares, config.open_shares_use, config.seed)
        if config.fgsm and config.fgsm_gradient == "previous":
            table = encoder.model.get_input_embeddings()
            parts.fgsm = PreviousFGSM(config.fgsm, table).to(encoder.device)
        elif config.fgsm:
            parts.fgsm = FGSM(config.fgsm)
        return parts
