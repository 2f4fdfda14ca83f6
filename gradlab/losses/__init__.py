"""One file a loss. Every module of this package that registers a loss is found by itself."""

from gradlab.losses.base import BatchLoss, Loss, PairLoss
from gradlab.losses.registry import get_loss, loss_names, register

__all__ = ["BatchLoss", "Loss", "PairLoss", "get_loss", "loss_names", "register"]
