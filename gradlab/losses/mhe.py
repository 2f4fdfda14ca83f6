"""Alignment and minimum hyperspherical energy."""

from __future__ import annotations

import math

from gradlab.arrays import Array, Float
from gradlab.batch.batch import Batch
from gradlab.losses.base import Preset
from gradlab.losses.registry import cited, register
from gradlab.losses.uniformity_family import UniformityLoss
from gradlab.settings import setting


@register("mhe")
class MHE(UniformityLoss):
    """Alignment plus minimum hyperspherical energy (Wang and Isola 2020; Li et al. 2024, Table 2).

    The published results used ``e^{h_k·h_l}`` for the paper's ``e^{-|h_k - h_l|²}``: that is the temperature 1
    instead of 0.5 (the values then differ by the constant ν), the preset ``"as_published"``.

    Wang and Isola take the energy ``exp(-2|h_k - h_l|²)`` of each view, and the mean of both views' uniformity, with the
    factor 1: that is ``symmetric(mhe(nu=1, temperature=0.25))``, as t = 1/(2τ). Here the anchors' view alone is spread, with ν = 10 and t = 1.
    """

    nu: float = setting(10.0, "factor ν of the uniformity", rule="positive")
    temperature: float = setting(
        0.5,
        "τ of the energy exp(-|h_k - h_l|²/(2τ)); 1 makes it exp(h_k·h_l) up to a factor",
        rule="positive",
    )

    title = "Alignment + MHE"
    paper = "Wang and Isola (2020)"
    bibtex = cited("wang2020understanding")
    formula = "1/N Σ_i |h_i - h_i'|² + ν log(2/(N(N-1)) Σ_k<l exp(-|h_k - h_l|²/(2τ)))"
    latex = {
        "gradient_dissipation": "1",
        "weight": r"\frac{\nu\, e^{\cos\theta_{ij}/\tau}}{\tau\sum_{k<l} e^{\cos\theta_{kl}/\tau}}",
        "ratio": r"\frac{2\tau\sum_{k<l} e^{\cos\theta_{kl}/\tau}}{\nu N\sum_{k\neq i} e^{\cos\theta_{ik}/\tau}}",
    }
    negative_view = "same"
    presets = {"as_published": Preset({"temperature": 1.0}, "results of Li et al. (2024)")}
    table_order = 7

    def uniformity(self, views: Batch) -> Float[Array, ""]:
        return log_mean_energy(views, self.temperature)

    def uniformity_weight(self, views: Batch) -> Float[Array, "n k"]:
        """``e^{Q_ij/τ} / (τ Σ_{k<l} e^{Q_kl/τ})``."""
        return energy_weight(views, self.temperature)


def log_mean_energy(views: Batch, temperature: float) -> Float[Array, ""]:
    """``log(2/(N(N-1)) Σ_{k<l} e^{-|h_k - h_l|²/(2τ)})`` over the anchors."""
    n = views.count
    total = views.same_view.log_sum_exp_of_all(temperature)
    return total - 1 / temperature - math.log(n * (n - 1))


def energy_weight(views: Batch, temperature: float) -> Float[Array, "n k"]:
    """The derivative of `log_mean_energy` with respect to ``h_i·h_j``; zero at j = i."""
    return views.same_view.softmax_of_all(temperature) * (2 / temperature)


def total_energy_weight(views: Batch, temperature: float) -> Float[Array, "n"]:
    """``Σ_j`` of the `energy_weight`, without gradient."""
    return views.same_view.shares_of_all(temperature) * (2 / temperature)
