"""The repaired MHE of Li et al. 2024."""

from __future__ import annotations

import dataclasses

from array_api_compat import array_namespace

from gradlab.arrays import Array, Float, detach
from gradlab.batch.batch import Batch
from gradlab.losses.mhe import MHE
from gradlab.losses.modified_family import ModifiedLoss, published_presets
from gradlab.losses.registry import register
from gradlab.settings import setting


@register("modified_mhe")
class ModifiedMHE(ModifiedLoss):
    """MHE with a gate, a temperature and a constant ratio (Li et al. 2024, Eqs. 14 and 16).

    It is one loss of the whole batch. Anchors with a closed gate receive no gradient, not even from
    the energy. The paper's ``Σ_i d_i (L_i + L^u)`` would instead count the energy once for each
    open gate. `ModifiedLoss` explains the options.
    """

    static_ratio: float = setting(1.75, "ratio r")
    temperature: float = setting(0.05, "temperature τ of the energy", rule="positive")

    has_one_value = True
    title = "modified MHE"
    formula = (
        "log(2/(N(N-1)) Σ_k<l exp(-|h̃_k - h̃_l|²/(2τ))) + Σ_i sg(r/2 Σ_j W_ij) |h̃_i - sg(h_i')|²,"
        "  h̃_i = h_i where the gate is open, else sg(h_i)"
    )
    presets = published_presets(
        {"margin": 0.30, "temperature": 0.05, "static_ratio": 1.75},
        {"margin": 0.30, "temperature": 0.05, "static_ratio": 1.25},
    )

    def value(self, batch: Batch) -> Float[Array, ""]:
        xp = array_namespace(batch.anchors)
        is_open = self.dissipation(batch)[:, None] > 0
        trained = dataclasses.replace(
            batch,
            anchors=xp.where(is_open, batch.anchors, detach(batch.anchors)),
            positives=xp.where(is_open, batch.positives, detach(batch.positives)),
        )
        total_weight = trained.same_view.shares_of_all(self.temperature) * (2 / self.temperature)
        coefficient = self.static_ratio / 2 * total_weight
        squared_distance = 2 * self.pulled(trained).positive.one_minus_cosine
        energy = MHE(temperature=self.temperature).uniformity(trained)
        return energy + xp.sum(coefficient * squared_distance)

    def negative_weight(self, batch: Batch) -> Float[Array, "n k"]:
        return MHE(temperature=self.temperature).uniformity_weight(batch)
