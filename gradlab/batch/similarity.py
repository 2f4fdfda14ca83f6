"""Similarities that stay accurate from identical to opposite vectors.

A cosine cannot represent the distance of two nearly identical unit vectors: at an angle of 1e-6 its
rounding error costs the ratio of ArcCon five digits in float64, and in float32 the cosine *is* 1. A
`PairSimilarity` therefore holds the two chords ``|h - h'| = 2 sin(θ/2)`` and
``|h + h'| = 2 cos(θ/2)``, which give cosine, sine and 1 - cosine without cancellation. Chords of
all N x N negatives would cost far more than one matrix product. `Negatives` therefore holds
cosines, and measures by chords only the hardest negative and, for losses that use 1 - cosine, the
negatives that are too close for that difference to be accurate.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from array_api_compat import array_namespace, is_numpy_array, is_torch_array

from gradlab.arrays import (
    Array,
    Bool,
    Float,
    Int,
    cached_property,
    compiled,
    detach,
    divide,
    exponentials,
    log,
    logsumexp,
    softmax,
    softmax_of_all,
    take,
)
from gradlab.batch.cosine_gaps import gaps_of


@dataclasses.dataclass(frozen=True)
class PairSimilarity:
    """Similarities of pairs of unit vectors.

    Attributes:
        chord: ``|h - h'| = 2 sin(θ/2)``, in [0, 2].
        antichord: ``|h + h'| = 2 cos(θ/2)``, in [0, 2].
    """

    chord: Float[Array, "*n"]
    antichord: Float[Array, "*n"]

    @classmethod
    def from_angles(cls, angle: Float[Array, "*n"]) -> PairSimilarity:
        """Build from angles in radians.

        An angle outside [0, π] counts as the one inside with the same cosine.
        """
        xp = array_namespace(angle)
        return cls(abs(2 * xp.sin(angle / 2)), abs(2 * xp.cos(angle / 2)))

    @classmethod
    def from_cosines(cls, cosine: Float[Array, "*n"]) -> PairSimilarity:
        """Build from cosines; near ±1 the result is only as accurate as the rounded cosine."""
        xp = array_namespace(cosine)
        return cls(xp.sqrt(2 - 2 * cosine), xp.sqrt(2 + 2 * cosine))

    @classmethod
    def from_vectors(
        cls, first: Float[Array, "*#n d"], second: Float[Array, "*#n d"]
    ) -> PairSimilarity:
        """Build from unit vectors, row by row."""
        norm = array_namespace(first).linalg.vector_norm
        return cls(norm(first - second, axis=-1), norm(first + second, axis=-1))

    @property
    def cosine(self) -> Float[Array, "*n"]:
        """Cosine ``cos θ``."""
        return (self.antichord * self.antichord - self.chord * self.chord) / 4

    @property
    def sine(self) -> Float[Array, "*n"]:
        """Sine ``sin θ``, with a small relative error near 0 and π."""
        return self.chord * self.antichord / 2

    @property
    def one_minus_cosine(self) -> Float[Array, "*n"]:
        """``1 - cos θ``, with a small relative error near 0."""
        return self.gap(-1)

    def gap(self, sign: int) -> Float[Array, "*n"]:
        """Return ``1 + s cos θ`` for a sign s, with a small relative error where it is near 0."""
        chord = self.chord if sign < 0 else self.antichord
        return chord * chord / 2

    @property
    def angle(self) -> Float[Array, "*n"]:
        """Angle ``θ`` in radians, in [0, π]."""
        return 2 * array_namespace(self.chord).atan2(self.chord, self.antichord)

    def cosine_beyond(self, margin: float) -> Float[Array, "*n"]:
        """Return ``cos(θ + u)`` for a margin u in radians."""
        return self.cosine * math.cos(margin) - self.sine * math.sin(margin)

    def shifted(self, increment: Float[Array, "*n"]) -> PairSimilarity:
        """Return the same pairs with their cosines changed by ``increment``, to first order.

        At ``increment = 0`` the chords have the exact derivatives ``-1/chord`` and ``1/antichord``
        with respect to the cosine for angles strictly between 0 and π; they are NaN at both ends.
        """
        return PairSimilarity(
            self.chord - increment / self.chord, self.antichord + increment / self.antichord
        )


class AngleSimilarity(PairSimilarity):
    """Pairs at known angles, such as those of an integral; cosines come from angles, not chords."""

    radians: Float[Array, "*n"]  #: angles in [0, π]

    def __init__(self, radians: Float[Array, "*n"]) -> None:
        """Store the angles; chords are computed on demand."""
        self.__dict__["radians"] = radians

    @cached_property
    def chord(self) -> Float[Array, "*n"]:
        """Chord ``|h - h'|``."""
        return abs(2 * array_namespace(self.radians).sin(self.radians / 2))

    @cached_property
    def antichord(self) -> Float[Array, "*n"]:
        """Antichord ``|h + h'|``."""
        return abs(2 * array_namespace(self.radians).cos(self.radians / 2))

    @property
    def cosine(self) -> Float[Array, "*n"]:
        """Cosine ``cos θ``."""
        return array_namespace(self.radians).cos(self.radians)

    def cosine_beyond(self, margin: float) -> Float[Array, "*n"]:
        """Return ``cos(θ + u)`` for a margin u in radians."""
        return array_namespace(self.radians).cos(self.radians + margin)


class Negatives:
    """What a loss may ask of each anchor's K negatives.

    These questions have one answer for each anchor, or one for the batch. `AllCosines`, which holds
    the similarities, answers these and more. `gradlab.scale` answers them for large batches without
    holding all similarities at once.
    """

    def log_sum_exp(self, temperature: Any) -> Float[Array, "*n"]:
        """Return ``log Σ_k exp(cos θ_k / τ)``."""
        raise NotImplementedError

    def log_sum_exp_of(self, logit: OfEach) -> Float[Array, "*n"]:
        """Return ``log Σ_k exp(φ_k)`` for logits φ."""
        raise NotImplementedError

    def log_sum_exp_of_all(self, temperature: Any) -> Float[Array, ""]:
        """Return ``log Σ_ik exp(cos θ_ik / τ)`` over all pairs of the batch."""
        raise NotImplementedError

    def shares_of_all(self, temperature: Any) -> Float[Array, "*n"]:
        """Return each anchor's share of a softmax over all pairs, without gradient."""
        raise NotImplementedError

    def sum_of(self, quantity: OfEach) -> Float[Array, "*n"]:
        """Return ``Σ_k f_k`` over the unmasked columns."""
        raise NotImplementedError

    def mean_of(self, quantity: OfEach, logit: OfEach) -> Float[Array, "*n"]:
        """Return ``Σ_k softmax_k(φ) f_k``."""
        raise NotImplementedError

    def weighted_by(
        self, batch: Any, weight: Callable[[Any], Float[Array, "*n k"]]
    ) -> tuple[Float[Array, "*n"], Float[Array, "*n"]]:
        """Return ``Σ_k sg(W_k)`` and ``Σ_k sg(W_k) cos θ_k``; ``weight`` maps a `Batch` to W."""
        raise NotImplementedError

    @property
    def count(self) -> Float[Array, "*n"]:
        """Number of negatives of each anchor, in the dtype of the cosines."""
        raise NotImplementedError

    @property
    def hardest_index(self) -> Int[Array, "*n"]:
        """Column of the largest cosine; of equal ones the first."""
        raise NotImplementedError

    @property
    def hardest(self) -> PairSimilarity:
        """Similarity to the hardest negative, measured by chords."""
        raise NotImplementedError

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Everything else is of `AllCosines`, and an `AttributeError` elsewhere."""

    @classmethod
    def from_angles(cls, angle: Float[Array, "*n k"]) -> AllCosines:
        """Build from angles in radians."""
        cosine = array_namespace(angle).cos(angle)
        return AllCosines(
            cosine,
            lambda index: PairSimilarity.from_angles(take(angle, index)),
            gaps=lambda sign: PairSimilarity.from_angles(angle).gap(sign),
        )

    @classmethod
    def from_cosines(cls, cosine: Float[Array, "*n k"]) -> AllCosines:
        """Build from cosines; near ±1 the result is only as accurate as the rounded cosine."""
        return AllCosines(cosine, lambda index: PairSimilarity.from_cosines(take(cosine, index)))

    @classmethod
    def from_vectors(
        cls, anchors: Float[Array, "n d"], negatives: Float[Array, "k d"], own: int | None = None
    ) -> AllCosines:
        """Build from unit rows, by one matrix product.

        Args:
            anchors: (n, D).
            negatives: (k, D), the same for every anchor.
            own: column of the first anchor's own sentence, so that column ``own + i`` of anchor i
                is masked; None masks nothing.
        """
        xp = array_namespace(anchors)
        cosine = anchors @ negatives.T
        if own is not None:
            rows = xp.arange(anchors.shape[0], device=anchors.device)
            columns = xp.arange(negatives.shape[0], device=anchors.device)
            cosine = xp.where(columns == (rows + own)[:, None], -xp.inf, cosine)
        return AllCosines(
            cosine,
            lambda index: PairSimilarity.from_vectors(anchors, negatives[index]),
            gaps=lambda sign: gaps_of(anchors, negatives, cosine, sign),
        )


@dataclasses.dataclass(frozen=True)
class AllCosines(Negatives):
    """Similarities of each anchor to its K negatives.

    Attributes:
        cosine: cosines; -inf in a column that is not a negative of this anchor (such as its own
            positive), which every softmax, log-sum-exp and maximum ignores.
        measure: maps one column index per row to the `PairSimilarity` of these pairs.
        gaps: maps a sign s to an accurate ``1 + s cos θ``; None if only cosines are known.
        whole: returns the negatives of all rows, if these are some rows of a batch; None otherwise.
    """

    cosine: Float[Array, "*n k"]
    measure: Callable[[Int[Array, "*n"]], PairSimilarity]
    gaps: Callable[[int], Float[Array, "*n k"]] | None = dataclasses.field(
        default=None, kw_only=True, repr=False
    )
    whole: Callable[[], Negatives] | None = dataclasses.field(
        default=None, kw_only=True, repr=False
    )

    @cached_property
    def masked(self) -> Bool[Array, "*n k"]:
        """Whether each column is masked, that is, not a negative."""
        return self.cosine == -array_namespace(self.cosine).inf

    @property
    def finite_cosine(self) -> Float[Array, "*n k"]:
        """The cosines with 0 instead of -inf in masked columns, for sums that weigh these by 0."""
        cosine = self.cosine
        if is_torch_array(cosine):  # one pass; a comparison and a selection take ten times as long
            import torch

            return torch.threshold(cosine, torch.finfo(cosine.dtype).min, 0.0)
        return array_namespace(cosine).where(self.masked, 0.0, cosine)

    @cached_property
    def one_minus_cosine(self) -> Float[Array, "*n k"]:
        """``1 - cos θ``, accurate near 0 if vectors or angles are known; 1 in masked columns."""
        return self._gap(-1)

    @cached_property
    def one_plus_cosine(self) -> Float[Array, "*n k"]:
        """``1 + cos θ``, accurate near π if vectors or angles are known; 1 in masked columns."""
        return self._gap(1)

    def _known_gap(self, sign: int) -> Float[Array, "*n k"]:
        return self.one_minus_cosine if sign < 0 else self.one_plus_cosine

    def _gap(self, sign: int) -> Float[Array, "*n k"]:
        gap = 1 + sign * self.cosine if self.gaps is None else self.gaps(sign)
        return array_namespace(self.cosine).where(self.masked, 1.0, gap)

    @cached_property
    def hardest_index(self) -> Int[Array, "*n"]:
        """Column of the largest cosine; of equal ones the first."""
        return array_namespace(self.cosine).argmax(self.cosine, axis=-1)

    @cached_property
    def hardest(self) -> PairSimilarity:
        """Similarity to the hardest negative, measured by chords."""
        return self.measure(self.hardest_index)

    @property
    def count(self) -> Float[Array, "*n"]:
        """Number of negatives of each anchor, in the dtype of the cosines."""
        xp = array_namespace(self.cosine)
        return xp.sum(xp.astype(~self.masked, self.cosine.dtype), axis=-1)

    def log_sum_exp(self, temperature: float) -> Float[Array, "*n"]:
        """Return ``log Σ_k exp(cos θ_k / τ)``."""
        if not is_numpy_array(self.cosine):  # torch has an operation for each, and its derivative
            return logsumexp(_logits(self.cosine, temperature))
        if temperature not in self._exponentials:
            self._exponentials[temperature] = exponentials(self.cosine / temperature)
        _, total, largest = self._exponentials[temperature]
        return log(total[..., 0]) + largest[..., 0]

    def log_sum_exp_of(self, logit: OfEach) -> Float[Array, "*n"]:
        """Return ``log Σ_k exp(φ_k)`` for logits φ."""
        return logsumexp(self.logits(logit))

    def softmax_of(self, logit: OfEach) -> Float[Array, "*n k"]:
        """Return the softmax of logits ``φ_k``."""
        return softmax(self.logits(logit))

    def logits(self, logit: OfEach) -> Float[Array, "*n k"]:
        """Return the logits ``φ_k``, -inf in masked columns."""
        return array_namespace(self.cosine).where(self.masked, self.cosine, logit(self))

    def sum_of(self, quantity: OfEach) -> Float[Array, "*n"]:
        return sum_of_each(self, quantity)

    def of_rows(self, rows: slice, cosine: Float[Array, "*n k"]) -> AllCosines:
        """Return the negatives of some rows, with ``cosine`` as their differentiable cosines."""

        def gaps(sign: int) -> Float[Array, "*n k"]:
            return self._known_gap(sign)[rows] + sign * (cosine - detach(cosine))

        negatives = AllCosines(
            cosine, self.measure, gaps=None if self.gaps is None else gaps, whole=self.whole
        )
        negatives.__dict__["masked"] = self.masked[rows]  # the mask has been computed once
        return negatives

    def mean_of(self, quantity: OfEach, logit: OfEach) -> Float[Array, "*n"]:
        """Return ``Σ_k softmax_k(φ) f_k``."""
        shares = self.softmax_of(logit) * quantity(self)
        return array_namespace(shares).sum(shares, axis=-1)

    def weighted(self, weight: OfEach) -> tuple[Float[Array, "*n"], Float[Array, "*n"]]:
        """Return ``Σ_k sg(W_k)`` and ``Σ_k sg(W_k) cos θ_k``; ``weight`` gives W, (..., K)."""
        weights = detach(weight(self))
        xp = array_namespace(weights)
        return xp.sum(weights, axis=-1), xp.sum(weights * self.finite_cosine, axis=-1)

    def with_some(self) -> tuple[AllCosines, Bool[Array, "*n"] | None]:
        """Return negatives, finite for every anchor, and a mask of anchors without any, or None.

        Anchors without negatives get columns at a right angle; their results must be dropped.
        """
        xp, cosine = array_namespace(self.cosine), self.cosine
        alone = xp.all(self.masked, axis=-1)
        if not compiled(alone) and not bool(xp.any(alone)):
            return self, None
        filled = xp.where(alone[..., None], xp.zeros_like(cosine), cosine)
        # In a row without negatives the gaps are already 1, as in all masked columns.
        return AllCosines(filled, self.measure, gaps=self._known_gap), alone

    def softmax(self, temperature: float) -> Float[Array, "*n k"]:
        """Return the softmax of ``cos θ_k / τ``."""
        if not is_numpy_array(self.cosine) or temperature not in self._exponentials:
            return softmax(self.cosine / temperature)
        powers, total, _ = self._exponentials.pop(temperature)
        return divide(powers, total)

    @cached_property
    def _exponentials(self) -> dict[float, tuple[Array, Array, Array]]:
        """The `exponentials` of a log-sum-exp by temperature, which the next `softmax` takes."""
        return {}

    def softmax_of_columns(self, temperature: float) -> Float[Array, "n k"]:
        """Return entry i of row j's softmax at row i, column j, for similarities in one view."""
        xp = array_namespace(self.cosine)
        if self.whole is None:
            return xp.permute_dims(self.softmax(temperature), (1, 0))
        return xp.exp(self.cosine / temperature - self._of_whole.log_sum_exp(temperature))

    def log_sum_exp_of_all(self, temperature: float) -> Float[Array, ""]:
        """Return ``log Σ_ik exp(cos θ_ik / τ)`` over all pairs of the batch."""
        if self.whole is not None:
            return self._of_whole.log_sum_exp_of_all(temperature)
        xp = array_namespace(self.cosine)
        return logsumexp(xp.reshape(_logits(self.cosine, temperature), (-1,)))

    def softmax_of_all(self, temperature: float) -> Float[Array, "*n k"]:
        """Return the softmax of ``cos θ_ik / τ`` over all pairs of the batch together."""
        if self.whole is None:
            return softmax_of_all(self.cosine / temperature)
        total = self._of_whole.log_sum_exp_of_all(temperature)
        return array_namespace(self.cosine).exp(self.cosine / temperature - total)

    def shares_of_all(self, temperature: float) -> Float[Array, "*n"]:
        """Return each anchor's share of `softmax_of_all`, without gradient."""
        weight = detach(self.softmax_of_all(temperature))
        return array_namespace(weight).sum(weight, axis=-1)

    @cached_property
    def _of_whole(self) -> Negatives:
        assert self.whole is not None
        return self.whole()

    def weighted_by(
        self, batch: Any, weight: Callable[[Any], Float[Array, "*n k"]]
    ) -> tuple[Float[Array, "*n"], Float[Array, "*n"]]:
        """Return `weighted` with the weights of ``batch``, a `Batch` that has these negatives."""
        return self.weighted(lambda _: weight(batch))

    def shifted(self, increment: Float[Array, "*n k"]) -> AllCosines:
        """Return the same negatives with their cosines changed by ``increment``, to first order."""
        return AllCosines(
            self.cosine + increment,
            lambda index: self.measure(index).shifted(take(increment, index)),
            gaps=lambda sign: self._known_gap(sign) + sign * increment,
        )


def log_sum_exp(cosine: Float[Array, "*n k"], temperature: float) -> Float[Array, "*n"]:
    """Return ``log Σ_k exp(cos θ_k / τ)``."""
    return logsumexp(_logits(cosine, temperature))


def sum_of_each(negatives: AllCosines, quantity: OfEach) -> Float[Array, "*n"]:
    """Return ``Σ_k f_k`` over the columns that are not masked."""
    masked = negatives.masked  # first, because the quantity may overwrite the cosines
    xp = array_namespace(masked)
    return xp.sum(xp.where(masked, 0.0, quantity(negatives)), axis=-1)


def _logits(cosine: Float[Array, "*n k"], temperature: Any) -> Float[Array, "*n k"]:
    """Return ``cos θ_k / τ``; a learned τ skips masked columns: -inf makes its derivative NaN."""
    if not is_torch_array(temperature):
        return cosine / temperature
    masked = cosine.isinf()
    return (cosine.masked_fill(masked, 0.0) / temperature).masked_fill(masked, -math.inf)


# A function of each negative by itself, (..., K).
OfEach = Callable[[Any], Array]
