"""Losses, one file each. gradlab finds every module of this package that registers a loss.

Classes are attributes: ``losses.InfoNCE(temperature=0.1)`` is
``get_loss("infonce(temperature=0.1)")``.
"""

from typing import Any

from gradlab.losses.base import Loss
from gradlab.losses.batch_loss import BatchLoss
from gradlab.losses.pair_loss import PairLoss
from gradlab.losses.registry import get_loss, loss_classes, loss_names, register

__all__ = ["BatchLoss", "Loss", "PairLoss", "get_loss", "loss_names", "register"]


def __getattr__(name: str) -> Any:
    # Only class names: the import system asks here for the submodules while it imports them.
    if name[:1].isupper() and (loss := loss_classes().get(name)):
        return loss
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, *loss_classes()])
