"""CoSENT on pairs and non-pairs."""

from __future__ import annotations

import dataclasses

from array_api_compat import array_namespace

from gradlab.arrays import Array, Float, log_sigmoid, logsumexp, sigmoid
from gradlab.batch.batch import Batch
from gradlab.losses.base import BatchLoss
from gradlab.losses.registry import register
from gradlab.losses.temperature import SoftmaxTemperature
from gradlab.settings import setting


@register("cosent")
@dataclasses.dataclass(frozen=True)
class CoSENT(SoftmaxTemperature, BatchLoss):
    """CoSENT (Su 2022) on all N² pairs of a batch, those of the diagonal being the similar ones.

    Every negative pair competes with every positive pair, in one softmax over each: the dissipation is one number for
    the whole batch, an anchor's weights are its share in the push of all, and its ratio says how its pair stands
    among the pairs. A queued sentence is one more pair, whose two views coincide.
    """

    temperature: float = setting(0.05, "temperature τ; the published scale λ is 1/τ", rule="positive")

    title = "CoSENT"
    paper = "Su (2022)"
    bibtex = """
@misc{su2022cosent,
    title = {{CoSENT} (I): A More Effective Sentence Vector Scheme than Sentence-{BERT}},
    author = {Su, Jianlin},
    year = {2022},
    note = {https://kexue.fm/archives/8847},
}
"""
    settings_source = "Temperature: 1 over the scale 20, the default of sentence-transformers' CoSENTLoss."
    formula = "log(1 + Σ_i Σ_{k≠l} exp((cos θ_kl' - cos θ_ii')/τ))"
    latex = {
        "gradient_dissipation": r"\left(1 + \frac{1}{\sum_{i}\sum_{k\neq l} e^{(\cos\theta_{kl'}-\cos\theta_{ii'})/\tau}}\right)^{-1}",
        "weight": r"\frac{e^{\cos\theta_{ij'}/\tau}}{\tau\sum_{k\neq l} e^{\cos\theta_{kl'}/\tau}}",
        "ratio": r"\frac{e^{-\cos\theta_{ii'}/\tau}\,\sum_{k\neq l} e^{\cos\theta_{kl'}/\tau}}{\sum_{k} e^{-\cos\theta_{kk'}/\tau}\,\sum_{k\neq i} e^{\cos\theta_{ik'}/\tau}}",
    }
    table_order = 28

    def value(self, views: Batch) -> Float[Array, ""]:
        """``log(1 + e^u)``, a scalar."""
        return -log_sigmoid(-self._gap(views))

    def dissipation(self, views: Batch) -> Float[Array, "n"]:
        """``σ(u)``, the same for every anchor."""
        xp = array_namespace(views.anchors)
        return sigmoid(self._gap(views)) + xp.zeros_like(views.positive.chord)

    def negative_weight(self, views: Batch) -> Float[Array, "n k"]:
        """The share of each pair in the softmax over all, over τ."""
        return views.other_view.softmax_of_all(self.temperature) / self.temperature

    def positive_weight(self, views: Batch, total: Float[Array, "n"]) -> Float[Array, "n *d"]:
        """``softmax_i(-p_i/τ)/τ``."""
        everyone = logsumexp(-views.every.positive.cosine / self.temperature)
        own = -views.positive.cosine / self.temperature
        return array_namespace(own).exp(own - everyone) / self.temperature

    def _gap(self, views: Batch) -> Float[Array, ""]:
        """``u = log Σ_{k≠l} e^{S_kl/τ} + log Σ_i e^{-p_i/τ}``."""
        positives = logsumexp(-views.every.positive.cosine / self.temperature)
        return views.every.other_view.log_sum_exp_of_all(self.temperature) + positives
