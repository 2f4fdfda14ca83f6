"""What MHE and MHS share: alignment of the two views plus ν times a uniformity within one view."""

from __future__ import annotations

import abc
import dataclasses

from array_api_compat import array_namespace

from gradlab._arrays import Array
from gradlab.gradient import Components
from gradlab.losses.base import BatchLoss
from gradlab.losses.gates import ConstantGate
from gradlab.parameters import parameter
from gradlab.views import Views


@dataclasses.dataclass(frozen=True)
class UniformityLoss(BatchLoss):
    """``L = 1/N Σ_i |h_i - h_i'|² + ν L^u`` (Wang and Isola 2020), one loss of the whole batch."""

    nu: float = parameter(1.0, "factor ν of the uniformity", rule="positive")

    @abc.abstractmethod
    def uniformity(self, views: Views) -> Array:
        """``L^u``, a scalar."""

    @abc.abstractmethod
    def uniformity_weight(self, views: Views) -> Array:
        """``∂L^u/∂(h_i·n_j)``, (N, N): the weight for ν = 1, zero at j = i."""

    def value(self, views: Views) -> Array:
        """Alignment plus ν times uniformity, a scalar."""
        xp = array_namespace(views.anchors)
        return xp.mean(2 * views.positive.one_minus_cosine) + self.nu * self.uniformity(views)

    def components(self, views: Views) -> Components:
        """Dissipation 1, ν times the weight, and ``Σ_j W_ij R_i = 2/N`` (Li et al. 2024, Table 2)."""
        chord = views.positive.chord
        xp = array_namespace(chord)
        return Components(
            xp.ones_like(chord),
            self.nu * self.uniformity_weight(views),
            xp.full_like(chord, 2 / chord.shape[0]),
            negative_view=self.negative_view,
        )

    def exact_gate(self) -> ConstantGate:
        """No dissipation."""
        return ConstantGate()
