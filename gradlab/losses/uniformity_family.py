"""What MHE and MHS share: alignment of the two views plus ν times a uniformity within one view."""

from __future__ import annotations

import abc
import dataclasses

from array_api_compat import array_namespace

from gradlab.arrays import Array, Float
from gradlab.batch.batch import Batch
from gradlab.losses.base import UngatedBatchLoss
from gradlab.settings import setting


@dataclasses.dataclass(frozen=True)
class UniformityLoss(UngatedBatchLoss):
    """``L = 1/N Σ_i |h_i - h_i'|² + ν L^u`` (Wang and Isola 2020), one loss of the whole batch."""

    nu: float = setting(1.0, "factor ν of the uniformity", rule="positive")

    moves_positives = "pull"  # by the alignment alone, wherever the neighbours are sought

    @abc.abstractmethod
    def uniformity(self, views: Batch) -> Float[Array, ""]:
        """``L^u``, a scalar."""

    @abc.abstractmethod
    def uniformity_weight(self, views: Batch) -> Float[Array, "n k"]:
        """``∂L^u/∂(h_i·n_j)``, (N, N): the weight for ν = 1, zero at j = i."""

    def value(self, views: Batch) -> Float[Array, ""]:
        xp = array_namespace(views.anchors)
        alignment = xp.sum(2 * views.positive.one_minus_cosine) / views.count
        return alignment + self.nu * self.uniformity(views)

    def negative_weight(self, views: Batch) -> Float[Array, "n k"]:
        return self.nu * self.uniformity_weight(views)

    def positive_weight(self, views: Batch, total: Float[Array, "n"]) -> Float[Array, "n *d"]:
        """``Σ_j W_ij R_i = 2/N``."""
        return array_namespace(total).full_like(total, 2 / views.count)
