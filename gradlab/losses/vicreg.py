"""VICReg (Bardes et al. 2022)."""

from __future__ import annotations

from typing import Any

from array_api_compat import array_namespace

from gradlab.arrays import Array, Bool, Float, detach, reciprocal
from gradlab.batch.batch import Batch
from gradlab.errors import GradlabError
from gradlab.losses.batch_loss import UngatedBatchLoss
from gradlab.losses.registry import register
from gradlab.settings import setting


@register("vicreg", cites="bardes2022vicreg")
class VICReg(UngatedBatchLoss):
    """VICReg (Bardes et al. 2022) on unit vectors; Li et al. 2024, Table 2.

    Both views are regularised. ``cov`` is the sum of squared off-diagonal entries of the covariance
    over D, ``var`` the mean of ``max(0, γ - std)``, both with N - 1 and no epsilon. On unit vectors
    the standard deviation is about ``1/√D``, so γ = 1 keeps the hinge active. A dimension that does
    not vary gets no gradient from the hinge. The defaults are the weights of the printed formula,
    25 : 25 : 1, over 25; `published` has those of Li et al.

    The authors' code (facebookresearch/vicreg) differs from the printed formula: it also averages
    the invariance over D and halves the variance of each view. This is
    ``vicreg(nu1=D/25, nu2=D/2)`` times 25/D, ``vicreg(nu1=30.72, nu2=384)`` for D = 768. It also
    adds 1e-4 to variances, and does not normalise rows.

    The paper's components are not the whole gradient. ``Components.extra_terms`` holds the rest:

    - ``radial``: along the anchor, removed by the projection onto the tangent space;
    - ``centring``: the covariance is computed from centred embeddings;
    - ``diagonal``: the squared diagonal entries, which the covariance term leaves out;
    - ``hinge``: the variance term.

    ``components(...).gradient(exact=True)`` is the gradient of the loss, with or without
    projection. The loss is not a function of cosines, so autograd without projection gives
    the whole gradient.
    """

    nu1: float = setting(0.04, "factor ν₁ of the covariance", rule="positive")
    nu2: float = setting(1.0, "factor ν₂ of the variance hinge", rule="non-negative")
    gamma: float = setting(
        1.0, "standard deviation γ below which the hinge acts", rule="non-negative"
    )

    formula = "1/N Σ_i |h_i - h_i'|² + ν₁ (cov(H) + cov(H')) + ν₂ (var(H) + var(H'))"
    exact_in = frozenset()
    has_one_value = True
    negative_view = "same"
    moves_positives = "mirror"

    @classmethod
    def published(
        cls,
        batch_size: int,
        dimensions: int,
        nu: float = 30.0,
        nu2: float = 1.0,
        gamma: float = 1.0,
    ) -> VICReg:
        """Return the setting of Li et al. 2024, whose ν scales the covariance part of the gradient.

        ``ν = 2 ν₁ N²/(D (N-1)²)``, so ν₁ depends on the batch. Their form of the gradient has no
        hinge; ``nu2=0`` removes it from the loss too.

        Args:
            batch_size, dimensions: N, at least 2, and D, at least 1.
            nu: the paper's ν.
            nu2, gamma: ν₂ and γ, which the paper does not state.

        Raises:
            GradlabError: fewer than 2 sentences, or fewer than 1 dimension.
        """
        if batch_size < 2 or dimensions < 1:
            raise GradlabError(
                "published needs batch_size >= 2 and dimensions >= 1, "
                f"not {batch_size} and {dimensions}"
            )
        return cls(nu * dimensions * (batch_size - 1) ** 2 / (2 * batch_size**2), nu2, gamma)

    def value(self, batch: Batch) -> Float[Array, ""]:
        xp = array_namespace(batch.anchors)
        alignment = xp.sum((batch.anchors - batch.positives) ** 2) / batch.count
        diagonal = xp.eye(batch.anchors.shape[1], dtype=xp.bool, device=batch.anchors.device)
        views = batch.anchors, batch.positives
        return sum((self._regularisation(rows, diagonal) for rows in views), alignment)

    def _regularisation(
        self, rows: Float[Array, "n d"], diagonal: Bool[Array, "d d"]
    ) -> Float[Array, ""]:
        """Return ``ν₁ cov + ν₂ var`` of one view."""
        xp = array_namespace(rows)
        centred = _centred(rows)
        covariance = xp.where(diagonal, 0.0, _covariance(centred))
        cov = xp.sum(covariance**2) / rows.shape[1]
        shortfall = self.gamma - _deviation(centred)
        var = xp.mean(xp.where(shortfall > 0, shortfall, 0.0))
        return self.nu1 * cov + self.nu2 * var

    def negative_weight(self, batch: Batch) -> Float[Array, "n k"]:
        """Return ``4ν₁ Q_ij/(D(N-1)²)``."""
        n = batch.count
        return (self._covariance_factor(batch) / (n - 1)) * batch.same_view.finite_cosine

    def positive_weight(self, batch: Batch, total: Float[Array, "n"]) -> Float[Array, "n *d"]:
        """Return ``Σ_j W_ij R_i = 2/N``, (n,)."""
        return array_namespace(total).full_like(total, 2 / batch.count)

    def extra_terms(self, batch: Batch) -> dict[str, Float[Array, "n d"]]:
        rows = batch.anchors
        xp = array_namespace(rows)
        n, d = batch.count, rows.shape[1]
        k = self._covariance_factor(batch)
        centred = _centred(rows)
        covariance, deviation = _covariance(centred), _deviation(centred)
        hinge = xp.where(deviation < self.gamma, reciprocal(deviation), xp.zeros_like(deviation))
        return {
            "radial": (2 / n + k / (n - 1)) * rows,
            "centring": k * (centred @ covariance) - (k / (n - 1)) * (rows @ (rows.T @ rows)),
            "diagonal": -k * xp.linalg.diagonal(covariance) * centred,
            "hinge": -(self.nu2 / (d * (n - 1))) * hinge * centred,
        }

    def _covariance_factor(self, batch: Batch) -> Any:
        """Return ``4ν₁/(D(N-1))``."""
        return 4 * self.nu1 / (batch.anchors.shape[1] * (batch.count - 1))


def _centred(rows: Float[Array, "n d"]) -> Float[Array, "n d"]:
    """Return rows minus their mean; exactly 0 for equal rows, accurate for nearly equal ones."""
    shifted = rows - detach(rows[:1, :])
    return shifted - array_namespace(rows).mean(shifted, axis=0, keepdims=True)


def _covariance(centred: Float[Array, "n d"]) -> Float[Array, "d d"]:
    """Return the covariance, (d, d), with N - 1."""
    return centred.T @ centred / (centred.shape[0] - 1)


def _deviation(centred: Float[Array, "n d"]) -> Float[Array, "d"]:
    """Return the standard deviations, (d,), with N - 1; the gradient of a zero deviation is 0."""
    norm = array_namespace(centred).linalg.vector_norm(centred, axis=0)
    return norm / (centred.shape[0] - 1) ** 0.5
