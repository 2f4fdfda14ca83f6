"""The three components of a gradient, and the gradient they make."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from array_api_compat import array_namespace

from gradlab.arrays import Array, divide, finite
from gradlab.errors import GradlabError
from gradlab.geometry.views import Views


@dataclasses.dataclass(frozen=True)
class Components:
    """``∂L/∂h_i = GD_i Σ_j W_ij (n_j - R_i h_i')`` (Li et al. 2024, Eq. 4), per anchor.

    A gradient does not determine its split, ``(GD/2, 2W, R)`` being the same gradient; each loss
    declares the split of the papers' tables. What is stored is what stays finite: the weight of the
    positive, ``Σ_j W_ij R_ij``, rather than the ratio.

    Attributes:
        gradient_dissipation: ``GD``, (..., ) or (N,).
        weight: ``W``, (..., K) or (N, K). On embeddings column j < N stands for sentence j (of the other
            view where `negative_view` is ``"other"``, of the anchors' own view where it is ``"same"``),
            zero at j = i; columns from N on stand for the extra negatives, in order.
        positive_weight: ``Σ_j W_ij R_ij``, (...,) or (N,); (N, D) where the ratio is a diagonal matrix
            (Barlow Twins), one row holding the diagonal.
        negative_view: ``"other"`` or ``"same"``.
        extra_terms: named parts of the exact gradient that the paper's form leaves out, each (N, D);
            empty for every loss whose published form is exact. They are not part of `gradient` unless asked for.
        views: the embeddings, or None where the components came from angles.
    """

    gradient_dissipation: Array
    weight: Array
    positive_weight: Array
    negative_view: str = "other"
    extra_terms: Mapping[str, Array] = dataclasses.field(default_factory=dict)
    views: Views | None = dataclasses.field(default=None, repr=False)

    @property
    def total_weight(self) -> Array:
        """``Σ_j W_ij``, (...,)."""
        return array_namespace(self.weight).sum(self.weight, axis=-1)

    @property
    def ratio(self) -> Array:
        """``R``, (...,); (N, D), the diagonal, where the ratio is a diagonal matrix.

        Infinite or negative where ``Σ_j W_ij`` is zero or negative (Barlow Twins, VICReg).
        """
        total = self.total_weight
        return divide(
            self.positive_weight, total if self.positive_weight.ndim == total.ndim else total[..., None]
        )

    @property
    def scalar_ratio(self) -> Array:
        """One number an anchor, (...,): the ratio, or for a diagonal matrix ``h_i'ᵀ R h_i'``.

        The latter is the length of the pull on the positive along the positive itself.
        """
        ratio = self.ratio
        if ratio.ndim == self.gradient_dissipation.ndim:
            return ratio
        positives = self._embeddings.positives
        return array_namespace(ratio).sum(ratio * positives * positives, axis=-1)

    @property
    def hardest_share(self) -> Array:
        """``max_j |W_ij| / Σ_j |W_ij|``, (...,): the share of the hardest negative in the weight; NaN where there is none.

        Sizes, as the weights of Barlow Twins and VICReg have signs.
        """
        xp = array_namespace(self.weight)
        size = xp.abs(self.weight)
        return divide(xp.max(size, axis=-1), xp.sum(size, axis=-1))

    def gradient(self, *, tangent: bool = True, exact: bool = False) -> Array:
        """The gradient with respect to the anchors that these components make, (N, D).

        An infinite or undefined pull, as of some losses between vectors that coincide or are opposite, has no
        direction in the tangent space and counts as 0, autograd's subgradient. (ArcCon's has a radial part even there, which
        ``tangent=False`` lacks then.)

        Args:
            tangent: project row i on the tangent space at ``h_i`` (the convention in which the paradigm
                is exact); False leaves the radial part of the similarity form.
            exact: add the `extra_terms`.

        Raises:
            GradlabError: if the components were computed from angles, without embeddings.
        """
        views = self._embeddings
        negatives = views.same_view_vectors if self.negative_view == "same" else views.negative_vectors
        pull = finite(self.positive_weight)
        pull = pull[:, None] if pull.ndim == 1 else pull
        gradient = self.gradient_dissipation[:, None] * (self.weight @ negatives - pull * views.positives)
        if exact:
            for term in self.extra_terms.values():
                gradient = gradient + term
        return project(gradient, views.anchors) if tangent else gradient

    @property
    def _embeddings(self) -> Views:
        if self.views is None:
            raise GradlabError("these components came from angles; give embeddings to assemble a gradient")
        return self.views


def project(gradient: Array, anchors: Array) -> Array:
    """Project row i of ``gradient`` (N, D) on the tangent space of the sphere at row i of ``anchors`` (N, D)."""
    xp = array_namespace(gradient)
    return gradient - xp.sum(gradient * anchors, axis=-1, keepdims=True) * anchors
