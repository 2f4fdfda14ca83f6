"""Global orthogonal regularisation (Zhang et al. 2017), which spreads embeddings out."""

from __future__ import annotations

from array_api_compat import array_namespace

from gradlab.arrays import Array, Float, as_float
from gradlab.batch.batch import Batch
from gradlab.batch.similarity import Negatives
from gradlab.losses.batch_loss import BatchLoss
from gradlab.losses.registry import register
from gradlab.settings import setting


@register("gor", cites="zhang2017learning")
class GOR(BatchLoss):
    """Mean squared cosine of anchors, above a threshold, plus the squared mean (Zhang et al. 2017).

    There is no pull to a positive. At the defaults, a sentence is pushed away from sentences with a
    positive cosine and pulled towards those with a negative one. Add this regulariser to a loss:
    ``sum(infonce, gor, weights=1+0.1)``. ``symmetric(gor)`` is the mean over both views.

    EmbeddingGemma uses the defaults. The paper and sentence-transformers'
    GlobalOrthogonalRegularizationLoss use the threshold 1/D, the mean over uniform directions in D
    dimensions, and the weight 1 for the squared mean: ``gor(threshold=0.0013, mean_weight=1)`` for
    D = 768.
    """

    threshold: float = setting(
        0.0,
        "mean squared cosine t up to which nothing is pushed; 1/D in the paper",
        rule="non-negative",
    )
    mean_weight: float = setting(
        0.0, "factor w of the squared mean cosine; 1 in the paper", rule="non-negative"
    )

    formula = "max(0, 1/(N(N-1)) Σ_i Σ_k≠i cos² θ_ik - t) + w (1/(N(N-1)) Σ_i Σ_k≠i cos θ_ik)²"
    has_one_value = True
    negative_view = "same"
    moves_positives = "nothing"

    def value(self, batch: Batch) -> Float[Array, ""]:
        """Return ``max(0, mean s² - threshold) + mean_weight (mean s)²``, a scalar."""
        square, mean = self._means(batch)
        excess = square - self.threshold
        hinge = array_namespace(excess).where(excess > 0, excess, 0 * excess)
        return hinge + self.mean_weight * mean * mean

    def dissipation(self, batch: Batch) -> Float[Array, "n"]:
        return array_namespace(batch.anchors).ones_like(batch.anchors[:, 0])

    def negative_weight(self, batch: Batch) -> Float[Array, "n k"]:
        """Return ``4/(N(N-1)) (1{mean s² > t} s_ij + w mean s)``; every pair counts twice."""
        square, mean = self._means(batch.whole)
        cosine = batch.same_view.cosine
        xp = array_namespace(cosine)
        above = as_float(square > self.threshold, cosine)
        slope = above * batch.same_view.finite_cosine + self.mean_weight * mean
        return xp.where(xp.isinf(cosine), xp.zeros_like(cosine), slope * (4 / self._pairs(batch)))

    def positive_weight(self, batch: Batch, total: Float[Array, "n"]) -> Float[Array, "n *d"]:
        return 0 * total

    def _means(self, batch: Batch) -> tuple[Float[Array, ""], Float[Array, ""]]:
        """Return ``mean s²`` and ``mean s`` over all pairs of different sentences."""
        xp, pairs = array_namespace(batch.anchors), self._pairs(batch)
        square = xp.sum(batch.same_view.sum_of(_square)) / pairs
        # |Σ_i h_i|² also counts each sentence with itself.
        total = xp.sum(batch.anchors, axis=0)
        own = xp.sum(batch.anchors * batch.anchors)
        return square, (xp.sum(total * total) - own) / pairs

    def _pairs(self, batch: Batch) -> int:
        return batch.count * (batch.count - 1)


def _square(negatives: Negatives) -> Float[Array, "*n k"]:
    return negatives.finite_cosine * negatives.finite_cosine
