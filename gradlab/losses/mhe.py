"""Alignment plus minimum hyperspherical energy (MHE), and the base class it shares with MHS."""

from __future__ import annotations

import abc
import dataclasses
import math

from array_api_compat import array_namespace

from gradlab.arrays import Array, Float
from gradlab.batch.batch import Batch
from gradlab.losses.base import Preset
from gradlab.losses.batch_loss import UngatedBatchLoss
from gradlab.losses.registry import register
from gradlab.settings import setting


@dataclasses.dataclass(frozen=True)
class UniformityLoss(UngatedBatchLoss):
    """Alignment plus uniformity, a scalar (Wang and Isola 2020).

    The value is ``L = 1/N Σ_i |h_i - h_i'|² + ν L^u``.
    """

    nu: float = setting(1.0, "factor ν of the uniformity", rule="positive")

    has_one_value = True
    # Only the alignment moves them, even if the neighbours are in the other view.
    moves_positives = "pull"

    @abc.abstractmethod
    def uniformity(self, batch: Batch) -> Float[Array, ""]:
        """Return the uniformity ``L^u``, a scalar."""

    @abc.abstractmethod
    def uniformity_weight(self, batch: Batch) -> Float[Array, "n k"]:
        """Return ``∂L^u/∂(h_i·n_j)``, (N, N), the weight at ν = 1; zero at j = i."""

    def value(self, batch: Batch) -> Float[Array, ""]:
        xp = array_namespace(batch.anchors)
        alignment = xp.sum(2 * batch.positive.one_minus_cosine) / batch.count
        return alignment + self.nu * self.uniformity(batch)

    def negative_weight(self, batch: Batch) -> Float[Array, "n k"]:
        return self.nu * self.uniformity_weight(batch)

    def positive_weight(self, batch: Batch, total: Float[Array, "n"]) -> Float[Array, "n *d"]:
        """Return ``Σ_j W_ij R_i = 2/N``, (n,)."""
        return array_namespace(total).full_like(total, 2 / batch.count)


@register("mhe", cites="wang2020understanding")
class MHE(UniformityLoss):
    """Alignment plus minimum hyperspherical energy (Wang and Isola 2020; Li et al. 2024, Table 2).

    The published results used ``e^{h_k·h_l}`` instead of the paper's
    ``e^{-|h_k - h_l|²}``. This is the temperature 1 instead of 0.5 (the values then differ
    by the constant ν): the preset ``"as_published"``.

    Wang and Isola use the energy ``exp(-2|h_k - h_l|²)`` and average the uniformity of both views,
    with the factor 1: ``symmetric(mhe(nu=1, temperature=0.25))``, since their t is 1/(2τ). Here,
    only the anchors' view has an energy, with ν = 10 and t = 1.
    """

    nu: float = setting(10.0, "factor ν of the uniformity", rule="positive")
    temperature: float = setting(
        0.5,
        "τ of the energy exp(-|h_k - h_l|²/(2τ)); 1 makes it exp(h_k·h_l) up to a factor",
        rule="positive",
    )

    title = "Alignment + MHE"
    formula = "1/N Σ_i |h_i - h_i'|² + ν log(2/(N(N-1)) Σ_k<l exp(-|h_k - h_l|²/(2τ)))"
    negative_view = "same"
    presets = {"as_published": Preset({"temperature": 1.0}, "results of Li et al. (2024)")}

    def uniformity(self, batch: Batch) -> Float[Array, ""]:
        """Return ``log(2/(N(N-1)) Σ_{k<l} e^{-|h_k - h_l|²/(2τ)})`` over the anchors."""
        n = batch.count
        total = batch.same_view.log_sum_exp_of_all(self.temperature)
        return total - 1 / self.temperature - math.log(n * (n - 1))

    def uniformity_weight(self, batch: Batch) -> Float[Array, "n k"]:
        """Return ``e^{Q_ij/τ} / (τ Σ_{k<l} e^{Q_kl/τ})``."""
        return batch.same_view.softmax_of_all(self.temperature) * (2 / self.temperature)
