"""Decoupled hyperspherical energy loss (Koromilas et al. 2024)."""

from __future__ import annotations

import dataclasses

from array_api_compat import array_namespace

from gradlab.arrays import Array, Float
from gradlab.batch.batch import Batch
from gradlab.losses.base import Preset
from gradlab.losses.batch_loss import UngatedBatchLoss
from gradlab.losses.components import Components
from gradlab.losses.registry import register
from gradlab.losses.temperature import SoftmaxTemperature
from gradlab.settings import setting


@register("dhel", cites="koromilas2024bridging")
class DHEL(SoftmaxTemperature, UngatedBatchLoss):
    """Decoupled hyperspherical energy loss (Koromilas et al. 2024): `dcl` with same-view negatives.

    The dissipation is always 1. Two anchors occur in the terms of both, so ``h_i`` is also pushed
    by the terms of other anchors: ``W_ij = (softmax_j(Q_ij/τ) + softmax_i(Q_ij/τ))/τ``.
    ``terms="both"`` adds the energy of the positives' view. The released code has both energies and
    counts the positive once, which halves the ratio over both sides; counting it twice gives each
    view a complete term.

    A queued sentence is a negative of every anchor, but has no term.
    """

    temperature: float = setting(0.3, "softmax temperature τ", rule="positive")
    terms: str = setting(
        "anchors",
        "views that have an energy: the anchors', or both of them",
        choices=("anchors", "both"),
    )
    positives: float = setting(1.0, "how often the positive is counted", rule="positive")

    settings_source = (
        "Temperature: the default of the authors' code (pakoromilas/DHEL-KCL), for images; "
        "that code has the energies of both views, the preset `released`."
    )
    formula = "-cos θ_ii'/τ + log Σ_k≠i exp(cos θ_ik/τ)"
    has_one_value = False
    negative_view = "same"
    presets = {
        "released": Preset(
            {"terms": "both"}, "the authors' code: both energies, the positive once"
        ),
        "mirrored": Preset(
            {"terms": "both", "positives": 2.0}, "the mean of both directions, times two"
        ),
    }

    @property
    def moves_positives(self) -> str:
        """``"mirror"`` if both views have an energy, else ``"pull"``."""
        return "mirror" if self.terms == "both" else "pull"

    def value(self, batch: Batch) -> Float[Array, "n"]:
        """Return ``LSE_i - p_i/τ``, plus the positives' energy if both views have one."""
        value = batch.same_view.log_sum_exp(self.temperature)
        value = value - batch.positive.cosine * (self.positives / self.temperature)
        if self.terms == "both":
            value = value + batch.positive_view.log_sum_exp(self.temperature)
        return value

    def negative_weight(self, batch: Batch) -> Float[Array, "n k"]:
        """Return ``(softmax_j(Q_ij/τ) + softmax_i(Q_ij/τ))/τ``."""
        rows = batch.same_view.softmax(self.temperature)
        return (rows + batch.same_view.softmax_of_columns(self.temperature)) / self.temperature

    def positive_weight(self, batch: Batch, total: Float[Array, "n"]) -> Float[Array, "n *d"]:
        """Return ``1/τ`` times the count of the positive."""
        return array_namespace(total).full_like(total, self.positives / self.temperature)

    def components_of(self, batch: Batch) -> Components:
        """Return the components; queued sentences have no terms, so their weight is one softmax."""
        components = super().components_of(batch)
        if batch.extra_negatives is None:
            return components
        n = batch.anchors.shape[0]
        own = self._whole(batch).same_view.softmax(self.temperature)[:n, n:] / self.temperature
        xp = array_namespace(own)
        return dataclasses.replace(
            components, weight=xp.concat([components.weight[:, :n], own], axis=-1)
        )
