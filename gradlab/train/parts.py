"""Parts of an objective beside encoder and loss: views, heads, queue, momentum branch."""

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

# Names of the dropout behind the layers, in the configurations of models.
_DROPOUTS = ("hidden_dropout_prob", "hidden_dropout", "dropout", "resid_pdrop", "mlp_dropout")


@dataclass
class Parts:
    """Parts of a `gradlab.train.Objective` beside encoder, head and loss; by default there are none."""

    augmentation: Augmentation | None = None  # makes the second view; None leaves it to dropout
    both_views: bool = False  # whether the augmentation makes the first view too
    projection: nn.Module = field(default_factory=nn.Identity)  # behind the head, in both branches
    predictor: nn.Module = field(default_factory=nn.Identity)  # behind the projection, for anchors only
    momentum: Momentum | None = None  # the branch of moving averages
    queue: Queue | None = None  # negatives from earlier steps
    in_batch_negatives: bool = True  # whether the other sentences of the batch are negatives
    own_negatives: bool = True  # whether hard negatives push only the anchor in their row
    fgsm: FGSM | None = None  # perturbs the token embeddings of the trained branch
    open_share: OpenShare | None = None  # factors of the losses of the anchors
    # Arguments of the loss about the sentences, such as "guide" or "labels", by name: functions of their
    # rows in the training file, (N,).
    told: dict[str, Callable[[Tensor], Any]] = field(default_factory=dict)

    @classmethod
    def build(cls, config: TrainConfig, encoder: Encoder, head: nn.Module, steps: int) -> Self:
        """Return the parts of a configuration, with an empty ``told``.

        The momentum branch begins as a copy of ``encoder`` and ``head``; its schedule covers ``steps`` steps.
        """
        dropout, device = config.dropout, encoder.device
        if dropout is None:  # dropout of the heads: that of the encoder
            known = vars(encoder.model.config)
            dropout = float(next((known[name] for name in _DROPOUTS if known.get(name) is not None), 0.1))
        how, width = (dropout, config.head_initial), encoder.dimension
        parts = cls(
            both_views=config.augment_views == "both",
            projection=projection(config.projection_layers, width, config.projection_width, *how).to(device),
            in_batch_negatives=config.in_batch_negatives,
            own_negatives=config.hard_negatives == "own",
        )
        if config.projection_layers:
            width = config.projection_width or width
        parts.predictor = predictor(config.predictor_layers, width, config.predictor_width, *how).to(device)
        if config.augment is not None:
            limits = {"tokenizer": encoder.tokenizer, "longest": encoder.max_length}
            parts.augmentation = get_augmentation(config.augment, **limits)
        if config.queue_size:
            numbered = bool(pairs_files(get_loss(config.loss, **config.loss_settings)))
            parts.queue = Queue(
                config.queue_size,
                width,
                initial=config.queue_initial,
                positions=config.queue_ages,
                numbered=numbered,
            ).to(device)
        if config.momentum is not None:
            modules = {"encoder": encoder, "head": head, "projection": parts.projection}
            parts.momentum = Momentum(modules, config, steps)
        if config.open_shares is not None:
            shares = read_open_shares(config.open_shares, config.seed, steps)
            parts.open_share = OpenShare(shares, config.open_shares_use, config.seed)
        if config.fgsm and config.fgsm_gradient == "previous":
            table = encoder.model.get_input_embeddings()
            parts.fgsm = PreviousFGSM(config.fgsm, table).to(device)
        elif config.fgsm:
            parts.fgsm = FGSM(config.fgsm)
        return parts
