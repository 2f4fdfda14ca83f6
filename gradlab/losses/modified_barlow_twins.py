"""The repaired Barlow Twins of Li et al. 2024."""

from __future__ import annotations

from gradlab.arrays import Array, Float
from gradlab.batch.batch import Batch
from gradlab.losses.modified_family import ModifiedSurrogate
from gradlab.losses.registry import register


@register("modified_barlow_twins")
class ModifiedBarlowTwins(ModifiedSurrogate):
    """Barlow Twins with a gate, exponential weights and a constant ratio.

    It is given by Li et al. 2024, Eqs. 6 and 18. The weights are computed from similarities within
    the other view; the negatives are the other anchors. `ModifiedLoss` explains the options,
    `ModifiedSurrogate` the value and its scale.
    """

    title = "modified Barlow Twins"
    formula = (
        "d_i (Σ_j sg(W_ij) h_i·sg(h_j) - r sg(Σ_j W_ij) h_i·h_i'),"
        "  W_ij = exp(h_i'·h_j'/τ)/Σ_k≠l exp(h_k'·h_l'/τ)"
    )

    def negative_weight(self, batch: Batch) -> Float[Array, "n k"]:
        """Return ``e^{Q'_ij/τ}/Σ_{k≠l} e^{Q'_kl/τ}``."""
        return batch.positive_view.softmax_of_all(self.temperature)
