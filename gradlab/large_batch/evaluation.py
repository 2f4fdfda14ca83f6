"""What a blockwise loss asks of an evaluation, for losses of pairs and of batches alike."""

from __future__ import annotations

import abc
import math

import torch

from gradlab.errors import GradlabError
from gradlab.geometry.views import Views
from gradlab.losses.base import Loss, reduce


class LossEvaluation(abc.ABC):
    """A loss and the rows that it is to be evaluated on, block by block.

    Attributes:
        loss: the loss.
        views: the rows, torch, without their graph.
        block_size: anchors in a block; None chooses by the number of negatives and the device.
    """

    def __init__(self, loss: Loss, views: Views, block_size: int | None) -> None:
        """Take the rows of ``views`` (torch) without their graph."""
        self.loss, self.block_size = loss, block_size
        extra = views.extra_negatives
        self.views = Views(
            views.anchors.detach(),
            views.positives.detach(),
            None if extra is None else extra.detach(),
            views.in_batch_negatives,
        )

    @abc.abstractmethod
    def values(self) -> torch.Tensor:
        """``L_i``, (N,), or the scalar of a loss that has one value a batch.

        Raises:
            GradlabError: a value that is infinite or not a number.
        """

    @abc.abstractmethod
    def differentiate(
        self, scale: torch.Tensor, wanted: tuple[bool, bool, bool]
    ) -> tuple[torch.Tensor, list[torch.Tensor | None]]:
        """The values, and the derivatives of ``Σ_i scale_i L_i``, or of the scalar.

        Args:
            scale: (N,); a scalar is not scaled.
            wanted: whether the derivative by anchors, positives and extra negatives is wanted; where it is
                not, it is None.

        Raises:
            GradlabError: a value or derivative that is infinite or not a number.
        """

    def reduced(self, values: torch.Tensor, reduction: str) -> torch.Tensor:
        """The mean or sum of the values, (N,), or a scalar as it is."""
        return reduce(values, reduction, self.loss.name)

    @property
    def count(self) -> int:
        """N, the anchors that a mean is over."""
        return self.views.anchors.shape[0]

    def check_values(self, values: torch.Tensor) -> None:
        """Raise `GradlabError` unless values (N,), or a scalar, are finite."""
        if math.isfinite(values.sum()):
            return
        if values.ndim == 0:
            raise GradlabError(
                f"{self.loss.name} is {float(values)} on these rows; look whether some coincide"
            )
        worst = int(values.isfinite().to(torch.uint8).argmin())
        raise GradlabError(
            f"{self.loss.name} is {float(values[worst])} at anchor {worst}; look whether it coincides with "
            "its positive or a negative"
        )

    def check_gradient(self, gradient: torch.Tensor) -> None:
        """Raise `GradlabError` unless a derivative is finite."""
        if not math.isfinite(gradient.sum()):
            raise GradlabError(f"the gradient of {self.loss.name} is not finite on these rows")
