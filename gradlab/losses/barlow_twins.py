"""Barlow Twins (Zbontar et al. 2021)."""

from __future__ import annotations

from array_api_compat import array_namespace

from gradlab.arrays import Array, Float
from gradlab.batch.batch import Batch
from gradlab.losses.batch_loss import UngatedBatchLoss
from gradlab.losses.registry import register
from gradlab.settings import setting


@register("barlow_twins", cites="zbontar2021barlow")
class BarlowTwins(UngatedBatchLoss):
    """Barlow Twins (Zbontar et al. 2021) on unit vectors; Li et al. 2024, Table 2.

    The correlation is ``C = HᵀH'/N``, without the batch normalisation of the original. The ratio
    is a diagonal matrix, ``N A/(ν Σ_{k≠i} Q'_ik)`` with ``A = I - (1-ν) C_diag``.
    ``Components.ratio`` holds its diagonal, (N, D), and ``Components.scalar_ratio`` its part along
    the positive, ``h_i'ᵀ R h_i'``, (N,). Without projection, the gradient of the dot products has
    a further term, ``(2ν/N²) h_i``.
    """

    nu: float = setting(30.0, "factor ν of the off-diagonal correlations", rule="positive")

    title = "Barlow Twins"
    formula = "Σ_c (1 - C_cc)² + ν Σ_c≠d C_cd²,  C = HᵀH'/N"
    exact_in = frozenset({"tangent", "raw"})
    has_one_value = True
    negative_view = "same"
    moves_positives = "mirror"

    def value(self, batch: Batch) -> Float[Array, ""]:
        xp = array_namespace(batch.anchors)
        correlation = batch.anchors.T @ batch.positives / batch.count
        target = xp.eye(correlation.shape[0], dtype=correlation.dtype, device=correlation.device)
        squares = (target - correlation) ** 2
        return xp.sum(xp.where(target == 1, squares, self.nu * squares))

    def negative_weight(self, batch: Batch) -> Float[Array, "n k"]:
        """Return ``2ν Q'_ij/N²``."""
        return (2 * self.nu / batch.count**2) * batch.positive_view.finite_cosine

    def positive_weight(self, batch: Batch, total: Float[Array, "n"]) -> Float[Array, "n *d"]:
        """Return the diagonal of ``Σ_j W_ij R_i = 2A/N``, (n, d), the same for every anchor."""
        anchors, positives = batch.whole.anchors, batch.whole.positives
        xp = array_namespace(anchors)
        diagonal = xp.sum(anchors * positives, axis=0) / batch.count
        pull = (2 / batch.count) * (1 - (1 - self.nu) * diagonal)
        return xp.broadcast_to(pull, (total.shape[0], anchors.shape[1]))

    def extra_terms(self, batch: Batch) -> dict[str, Float[Array, "n d"]]:
        return {"radial": (2 * self.nu / batch.count**2) * batch.anchors}
