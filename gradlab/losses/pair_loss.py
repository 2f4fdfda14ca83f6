"""Base classes of losses of each anchor's similarities to its positive and to its negatives.

Apart from its weights, a `PairLoss` reduces the K negatives of an anchor to one `summary` (a
log-sum-exp, or the hardest negative). This makes simulation cheap: the summary depends only on the
negatives; the dissipation and the ratio depend only on the positive and the summary. A
`SoftmaxLoss`, such as InfoNCE, takes the softmax of cosines over a temperature.
"""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from array_api_compat import array_namespace

from gradlab.arrays import (
    Array,
    Bool,
    Float,
    as_float,
    detach,
    divide,
    log_sigmoid,
    partners_at_angles,
    sigmoid,
)
from gradlab.batch.batch import Batch
from gradlab.batch.comparison import joined
from gradlab.batch.roles import own_role
from gradlab.batch.similarity import AllCosines, AngleSimilarity, Negatives, PairSimilarity
from gradlab.losses.base import Loss
from gradlab.losses.canonical_split import from_pools, with_positives
from gradlab.losses.components import ANGLES_AWAY, Components
from gradlab.losses.exact_gates import CosineLogit, ExactGate, SoftGate
from gradlab.losses.temperature import SoftmaxTemperature


@dataclasses.dataclass(frozen=True)
class PairLoss(Loss):
    """Base class of losses of each anchor's similarities to its positive and to its negatives.

    Shapes: ``positive`` is a `PairSimilarity` of shape (...,) and ``negatives`` a `Negatives` of
    shape (..., K). A summary broadcasts against (...,).
    """

    looks_at = frozenset({"own_negatives"})  # they are further columns of the row
    pulls_only_own = True
    one_hot_weight: ClassVar[bool] = False  #: whether the hardest negative has all the weight
    #: whether negatives enter as cosines over `temperature` only
    takes_hardness: ClassVar[bool] = False
    #: whether an anchor without negatives keeps its pull (and its value)
    pulls_alone: ClassVar[bool] = False
    #: whether training moves no negative: only the pull acts on both views, as 2r for r
    negatives_are_fixed: ClassVar[bool] = False

    def row_loss(self) -> PairLoss:
        return self

    def is_scalar(self, batch: Batch) -> bool:
        return False

    @property
    def moves_positives(self) -> str:
        """``"all"``, or ``"pull"`` if the negatives are fixed."""
        return "pull" if self.negatives_are_fixed else "all"

    @abc.abstractmethod
    def summary(self, negatives: Negatives) -> Any:
        """Return what dissipation and ratio need of the negatives: arrays, (...,), of any kind."""

    @abc.abstractmethod
    def dissipation(self, positive: PairSimilarity, summary: Any) -> Float[Array, "*n"]:
        """Return the gradient dissipation ``GD_i``, (...,)."""

    @abc.abstractmethod
    def ratio(self, positive: PairSimilarity, summary: Any) -> Float[Array, "*#n"]:
        """Return the ratio ``R_i``, (...,)."""

    @abc.abstractmethod
    def weight(self, negatives: Negatives) -> Float[Array, "*n k"]:
        """Return the weight ``W_ij`` of every negative, (..., K); 0 in masked columns."""

    @abc.abstractmethod
    def value(self, positive: PairSimilarity, negatives: Negatives) -> Float[Array, "*n"]:
        """Return the loss of each anchor, (...,)."""

    def components(self, positive: PairSimilarity, negatives: Negatives) -> Components:
        """Compute the components from similarities."""
        pull, summary = self.pull(positive), self.summary(negatives)
        weight = self.weight(negatives)
        ratio, dissipation = self.ratio(positive, summary), self.dissipation(positive, summary)
        xp = array_namespace(weight)
        total = xp.sum(weight, axis=-1)
        with np.errstate(invalid="ignore"):  # 0 · ∞ if all weights are 0
            positive_weight = total * ratio
        if pull is not None:
            positive_weight = xp.where(total == 0, divide(pull, total), positive_weight)
        return Components(dissipation, weight, positive_weight, given_pull=pull)

    def pull(self, positive: PairSimilarity) -> Float[Array, "*n"] | None:
        """Return each anchor's pull, (...,), if the loss `pulls_alone`; else None: see `ratio`."""
        return None

    def value_of(self, batch: Batch) -> Float[Array, "*n"]:
        """Return each anchor's loss, (N,); 0 without negatives, unless the loss `pulls_alone`."""
        fixed = batch.with_fixed_positives() if self.negatives_are_fixed else batch
        positive = batch.positive  # first: the order of autograd's sums determines the last bits
        negatives, alone = self._negatives(fixed)
        value = self.value(positive, negatives)
        return value if alone is None else unless(alone, value)

    def components_of(self, batch: Batch) -> Components:
        """Return the components, weight (N, K); canonical with any pool but ``"other"``."""
        if batch.candidates.pools != ("other",):
            return self.sides_of(batch)[0]
        return self._rows(batch)

    def sides_of(self, batch: Batch) -> tuple[Components, Components]:
        if batch.candidates.pools != ("other",):
            return from_pools(self._rows(batch), batch)
        return with_positives(self.components_of, batch, self.moves_positives)

    def displaced_pushes(self, batch: Batch) -> Sequence[Float[Array, "n"]] | None:
        """Return the total push on all anchors with their positives away; None for other pools."""
        if batch.candidates.pools != ("other",):
            return None
        displaced = partners_at_angles(batch.anchors, batch.positives, ANGLES_AWAY)
        if batch.candidates.rules:  # which may look at positives
            return self._pushes_of_rows(batch, displaced)
        return list(self.total_push(batch, displaced))

    def total_push(self, batch: Batch, positives: Float[Array, "*a n d"]) -> Float[Array, "*a n"]:
        """Return each anchor's total push for other positives, with its negatives as they are."""
        negatives, alone = self._negatives(batch)
        summary, weight = self.summary(negatives), self.weight(negatives)
        total = array_namespace(weight).sum(weight, axis=-1)
        dissipation = self.dissipation(batch.comparison.pair(batch.anchors, positives), summary)
        return unless(alone, dissipation * total)

    def _rows(self, batch: Batch) -> Components:
        """Return the declared components of each anchor, one weight column per negative."""
        negatives, alone = self._negatives(batch)
        statistics = _masked(batch) if batch.candidates.rules else {}
        if batch.supervision.relation is not None:
            without = as_float(own_role(batch) != 1, batch.anchors)
            statistics["without_positives"] = array_namespace(without).mean(without)
        components = self.components(batch.positive, negatives)
        attributes: dict[str, Any] = {} if alone is None else _without(components, alone)
        if batch.candidates.rules or "positive_same" in batch.candidates.pools:
            attributes["left_out"] = _left_out(batch)
        return dataclasses.replace(components, views=batch, statistics=statistics, **attributes)

    def _negatives(self, batch: Batch) -> tuple[Negatives, Bool[Array, "n"] | None]:
        """Return negatives, and which anchors lack them or a positive, (N,), or None if none can.

        The results of these anchors must be dropped; see `Negatives.with_some`.
        """
        negatives = batch.negatives
        if batch.candidates.hardness:
            negatives = _hardened(batch, negatives, self.temperature)  # type: ignore[attr-defined]  # every loss that takes hardness has one
        alone = None
        if batch.may_lack_negatives and not self.pulls_alone:
            negatives, alone = negatives.with_some()
        if batch.supervision.relation is None:
            return negatives, alone
        without = own_role(batch) != 1
        return negatives, without if alone is None else alone | without


@dataclasses.dataclass(frozen=True)
class SoftmaxLoss(SoftmaxTemperature, PairLoss):
    """Softmax loss with negative logits ``S_ik/τ`` and ratio 1: ``L_i = -log σ(A_i - LSE_i)``.

    The positive logit ``A_i = p_i/τ`` gives InfoNCE. Other losses override `positive_logit`, and
    `ratio` if the derivative of the logit is not ``1/τ``.
    """

    takes_hardness: ClassVar[bool] = True

    def positive_logit(self, positive: PairSimilarity) -> Float[Array, "*n"]:
        """Return ``A_i = p_i/τ``."""
        return positive.cosine / self.temperature

    def summary(self, negatives: Negatives) -> Float[Array, "*n"]:
        """Return ``LSE_i = log Σ_k exp(S_ik/τ)``."""
        return negatives.log_sum_exp(self.temperature)

    def value(self, positive: PairSimilarity, negatives: Negatives) -> Float[Array, "*n"]:
        """Return ``-log σ(A_i - LSE_i)``."""
        return -log_sigmoid(self.positive_logit(positive) - self.summary(negatives))

    def dissipation(
        self, positive: PairSimilarity, summary: Float[Array, "*#n"]
    ) -> Float[Array, "*n"]:
        """Return ``σ(LSE_i - A_i)``."""
        return sigmoid(summary - self.positive_logit(positive))

    def weight(self, negatives: Negatives) -> Float[Array, "*n k"]:
        """Return ``softmax_j(S_ij/τ)/τ`` over the negatives."""
        return negatives.softmax(self.temperature) * (1 / self.temperature)

    def ratio(self, positive: PairSimilarity, summary: Float[Array, "*#n"]) -> Float[Array, "*#n"]:
        """Return 1; a positive logit with a slope other than ``1/τ`` needs another ratio."""
        return array_namespace(positive.chord).ones_like(positive.chord)

    def exact_gate(self) -> ExactGate:
        """Return a `SoftGate`; losses of one temperature share their cached negative logits."""
        logit = CosineLogit(self.temperature)
        return SoftGate(logit, lambda angle: self.positive_logit(AngleSimilarity(angle)))


def unless(
    condition: Bool[Array, "*#n"] | None, values: Float[Array, "*n"], fill: float = 0.0
) -> Float[Array, "*n"]:
    """Return ``values``, but ``fill`` where ``condition`` is True; None means False everywhere."""
    if condition is None:
        return values
    xp = array_namespace(values)
    return xp.where(condition, xp.full_like(values, fill), values)


def _hardened(batch: Batch, negatives: Negatives, temperature: float) -> Negatives:
    """Return ``negatives`` with the hardness of the candidates, detached, added to ``cos θ / τ``.

    Raises:
        GradlabError: the hardness concerns hard negatives, but `owners` is None.
    """
    xp, cosine = array_namespace(negatives.cosine), negatives.cosine
    added = 0.0 * batch.anchors[:, :1]
    for term in batch.candidates.hardness:
        amount = term.alpha * temperature * detach(cosine)
        if term.on != "all":
            amount = xp.where(_hard_columns(batch, term.on), amount, xp.zeros_like(amount))
        added = added + amount
    hardened = xp.where(xp.isinf(cosine), cosine, cosine + added)
    return AllCosines(hardened, negatives.measure)


def _hard_columns(batch: Batch, on: str) -> Bool[Array, "n k"]:
    xp, n = array_namespace(batch.anchors), batch.anchors.shape[0]
    acts = {"other": ("other", "in_batch"), "extra": ("other",), "own": ("other", "hard")}
    conditions = []
    for block in batch.candidate_blocks:
        if block.name == "extra" and on in ("in_batch", "hard"):
            conditions.append(batch.owned if on == "hard" else ~batch.owned)
            continue
        shape, is_active = (n, block.vectors.shape[-2]), on in acts.get(block.name, ())
        conditions.append(xp.full(shape, is_active, dtype=xp.bool, device=batch.anchors.device))
    return joined(conditions, axis=-1)


def _without(components: Components, alone: Bool[Array, "n"]) -> dict[str, Array]:
    """Return the split with zeros for anchors that are ``alone``."""
    arrays = {
        name: getattr(components, name)
        for name in ("gradient_dissipation", "positive_weight", "given_pull")
        if getattr(components, name) is not None
    }
    weight = unless(alone[:, None], components.weight)
    return {name: unless(alone, array) for name, array in arrays.items()} | {"weight": weight}


def _left_out(batch: Batch) -> dict[str, Bool[Array, "n _"]]:
    """Return which columns of each block are not negatives."""
    masked = batch.negatives.masked
    return {block.name: masked[:, block.columns] for block in batch.candidate_blocks}


def _masked(batch: Batch) -> dict[str, Float[Array, ""]]:
    """Return the shares of pairs that rules leave out and of anchors without any negative left."""
    xp = array_namespace(batch.anchors)
    unmasked = batch.with_candidates(rules=()).negatives.cosine
    before, after = (~xp.isinf(cosine) for cosine in (unmasked, batch.negatives.cosine))
    masked, alone = xp.astype(before & ~after, unmasked.dtype), ~xp.any(after, axis=-1)
    count = xp.sum(xp.astype(before, unmasked.dtype))
    return {
        "masked_pairs": xp.sum(masked) / xp.where(count == 0, xp.ones_like(count), count),
        "without_negatives": xp.mean(xp.astype(alone, unmasked.dtype)),
    }
