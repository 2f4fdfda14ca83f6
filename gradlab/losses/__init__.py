"""One file a loss. Every module of this package that registers a loss is found by itself.

The classes are attributes: ``gradlab.losses.InfoNCE(temperature=0.1)`` is ``gradlab.get_loss("infonce(temperature=0.1)")``.
"""

from typing import Any

from gradlab.losses.base import BatchLoss, Loss, PairLoss
from gradlab.losses.registry import get_loss, loss_classes, loss_names, register

__all__ = ["BatchLoss", "Loss", "PairLoss", "get_loss", "loss_names", "register"]


def __getattr__(name: str) -> Any:
    # Classes only: the files are modules of this package, which asks for them while they are imported.
    if name[:1].isupper() and (found := loss_classes().get(name)):
        return found
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, *loss_classes()])
