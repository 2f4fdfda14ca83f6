"""Losses of an anchor's cosines to its candidates, of which any number may pull or push.

Labels, a relation or a teacher determine the candidates' roles (`gradlab.batch.check.check_batch`).
Such a loss defines, row by row, its value and how strongly each candidate pushes and pulls,
``∂L_i/∂s_ic``. The components of both sides follow, including the pull shares.
"""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Sequence
from typing import Any

from array_api_compat import array_namespace

from gradlab.arrays import Array, Bool, Float, Int, cached_property, logsumexp, partners_at_angles
from gradlab.batch.batch import Batch
from gradlab.batch.candidates import BESIDE, Block, Rule
from gradlab.batch.comparison import joined, own_pairs
from gradlab.batch.roles import Labelled, own_role, positive_is_inside, roles_of, teacher_scores
from gradlab.errors import GradlabError
from gradlab.losses.base import Loss
from gradlab.losses.canonical_split import both_sides
from gradlab.losses.components import ANGLES_AWAY, Components
from gradlab.losses.temperature import SoftmaxTemperature


@dataclasses.dataclass(frozen=True)
class ScoredCandidates:
    """Each anchor's candidates: the weight's columns, positive at j = i (first if not in-batch)."""

    cosine: Float[Array, "n c"]  # 0 if the column is not a candidate
    role: Int[Array, "n c"]  # 1 if positive, -1 if negative, 0 if the column is not a candidate
    is_own_positive: Bool[Array, "n c"]  # True in the column of the anchor's own positive
    teacher: Any = None  # the teacher's scores, (n, c); None if the loss does not need them

    @cached_property
    def positive(self) -> Bool[Array, "n c"]:
        return self.role == 1

    @cached_property
    def negative(self) -> Bool[Array, "n c"]:
        return self.role == -1

    def count(self, selected: Bool[Array, "n c"]) -> Float[Array, "n"]:
        """Return the number of selected candidates of each anchor, (n,), or 1 if there are none."""
        xp = array_namespace(self.cosine)
        count = xp.sum(xp.astype(selected, self.cosine.dtype), axis=-1)
        return xp.where(count > 0, count, xp.ones_like(count))


@dataclasses.dataclass(frozen=True)
class CandidateLoss(Loss):
    """Base class of losses of anchors' cosines to candidates; push and pull are equal (R = 1)."""

    looks_at = frozenset({"own_negatives"})  # they are further candidates of the row

    def is_scalar(self, batch: Batch) -> bool:
        return False

    @property
    def unit(self) -> Any:
        """Unit of the dissipation: GD is the sum of all pushes times this."""
        return 1.0

    @abc.abstractmethod
    def value(self, candidates: ScoredCandidates) -> Float[Array, "n"]:
        """Return the loss of each anchor, (n,)."""

    @abc.abstractmethod
    def coefficients(
        self, candidates: ScoredCandidates
    ) -> tuple[Float[Array, "n c"], Float[Array, "n c"]]:
        """Return how strongly each candidate pushes and pulls, (n, c) each; 0 if it does not."""

    def factor(self, batch: Batch) -> Any:
        """Return the factor on the values and gradients of all rows; 1 by default."""
        return 1.0

    def value_of(self, batch: Batch) -> Float[Array, "*n"]:
        """Return the loss of each anchor, (N,); 0 for an anchor without positives."""
        candidates, lacks_positive = self._candidates_of(batch)
        value = self.value(candidates) * self.factor(batch)
        if lacks_positive is None:
            return value
        return array_namespace(value).where(lacks_positive, 0 * value, value)

    def components_of(self, batch: Batch) -> Components:
        return self.sides_of(batch)[0]

    def sides_of(self, batch: Batch) -> tuple[Components, Components]:
        """Return the components of both sides; GD counts the push of the own positive, too."""
        candidates, lacks_positive = self._candidates_of(batch)
        xp, factor = array_namespace(candidates.cosine), self.factor(batch)
        is_own_positive = candidates.is_own_positive
        push, pull = (coefficient * factor for coefficient in self.coefficients(candidates))
        zero, statistics = xp.zeros_like(push), {}
        if lacks_positive is not None:
            push, pull = (
                xp.where(lacks_positive[:, None], 0 * coefficient, coefficient)
                for coefficient in (push, pull)
            )
            share = xp.mean(xp.astype(lacks_positive, candidates.cosine.dtype))
            statistics["without_positives"] = share
        # A push of the own positive, which the weight does not have, weakens its pull.
        weaker = xp.sum(xp.where(is_own_positive, push, zero), axis=-1)
        positive = xp.sum(xp.where(is_own_positive, pull, zero), axis=-1) - weaker
        first = int(not positive_is_inside(batch))
        out = ~candidates.negative[:, first:]
        arguments = batch.supervision
        several = (
            "teacher" in self.looks_at
            or arguments.labels is not None
            or arguments.relation is not None
        )
        anchors, positives = both_sides(
            xp.where(is_own_positive, zero, push)[:, first:],
            xp.sum(push, axis=-1) - weaker,
            batch,
            left_out={block.name: out[:, block.columns] for block in batch.candidate_blocks},
            pull_of_positive=positive,
            pulls=xp.where(is_own_positive, zero, pull)[:, first:] if several else None,
            beside=weaker,
            statistics=statistics,
        )
        return anchors.rescaled(1 / self.unit), positives

    def displaced_pushes(self, batch: Batch) -> Sequence[Float[Array, "n"]] | None:
        """Return the total push on all anchors with their positives away; None for other pools."""
        if batch.candidates.pools != ("other",):
            return None
        return self._pushes_of_rows(
            batch, partners_at_angles(batch.anchors, batch.positives, ANGLES_AWAY)
        )

    def _candidates_of(self, batch: Batch) -> tuple[ScoredCandidates, Bool[Array, "n"] | None]:
        """Return candidates, and which anchors have no positive, (n,), or None without a relation.

        Such an anchor gets its own pair, to stay finite; what is computed for it must be dropped.
        """
        if not set(batch.candidates.pools) <= {"other", "same", *BESIDE}:
            raise GradlabError(
                f"{self.name} takes pools of the anchors, not {'+'.join(batch.candidates.pools)}"
            )
        rules = tuple(
            _OfNegatives(rule) for rule in batch.candidates.rules if not isinstance(rule, Labelled)
        )
        blocks, xp = batch.candidate_blocks, array_namespace(batch.anchors)
        cosine = batch.comparison.negatives(batch, blocks, rules).cosine
        positive = batch.positive.cosine[:, None]
        roles, role_of_own = [roles_of(batch, block) for block in blocks], own_role(batch)[:, None]
        if not positive_is_inside(batch):
            cosine = xp.concat([positive, cosine], axis=-1)
            roles = [role_of_own, *roles]
            is_own_positive = xp.zeros_like(cosine, dtype=xp.bool)
            is_own_positive = is_own_positive | (
                xp.arange(cosine.shape[-1], device=cosine.device) == 0
            )
        else:
            is_own_positive = own_pairs(cosine, batch.start)
            cosine = xp.where(is_own_positive, positive, cosine)
        role = xp.where(is_own_positive, role_of_own, joined(roles, axis=-1))
        score = teacher_scores(batch, self.name) if "teacher" in self.looks_at else None
        absent = xp.isinf(cosine)
        role = xp.where(absent, xp.zeros_like(role), role)
        cosine = xp.where(absent | (role == 0), xp.zeros_like(cosine), cosine)
        if batch.supervision.relation is None:
            return ScoredCandidates(cosine, role, is_own_positive, score), None
        lacks_positive = ~xp.any(
            (role == 1) & (is_own_positive | (not self.pulls_only_own)), axis=-1
        )
        role = xp.where(is_own_positive & lacks_positive[:, None], xp.ones_like(role), role)
        return ScoredCandidates(cosine, role, is_own_positive, score), lacks_positive


@dataclasses.dataclass(frozen=True)
class SeveralPositives(SoftmaxTemperature, CandidateLoss):
    """Base class of softmax losses of several positives (InfoNCE without labels or relation)."""

    @property
    def unit(self) -> Any:
        """τ, as in InfoNCE."""
        return self.temperature

    not_simulated = (
        "which candidates are positives does not depend on their angles; "
        "with one positive it is infonce"
    )

    def logits(self, candidates: ScoredCandidates) -> Float[Array, "n c"]:
        """Return ``s/τ``, (n, c)."""
        return candidates.cosine / self.temperature


def log_sum_exp_over(
    selected: Bool[Array, "n c"], logits: Float[Array, "n c"]
) -> Float[Array, "n"]:
    """Return ``log Σ exp`` over a row's selected entries, (n,); -inf, without gradient, of none."""
    xp = array_namespace(logits)
    any_selected = xp.any(selected, axis=-1)
    masked = xp.where(selected, logits, -xp.inf)
    log_sum = logsumexp(xp.where(any_selected[:, None], masked, xp.zeros_like(masked)))
    return xp.where(any_selected, log_sum, -xp.inf)


def softmax_over(selected: Bool[Array, "n c"], logits: Float[Array, "n c"]) -> Float[Array, "n c"]:
    """Return the softmax over the selected entries of each row, (n, c); 0 elsewhere."""
    xp = array_namespace(logits)
    log_sum = log_sum_exp_over(selected, logits)
    log_sum = xp.where(xp.isinf(log_sum), xp.zeros_like(log_sum), log_sum)
    return xp.exp(xp.where(selected, logits - log_sum[:, None], -xp.inf))


def by_sign(coefficient: Float[Array, "n c"]) -> tuple[Float[Array, "n c"], Float[Array, "n c"]]:
    """Split signed coefficients into pushes (positive) and pulls (negative), as absolute values."""
    xp = array_namespace(coefficient)
    zero = xp.zeros_like(coefficient)
    push = xp.where(coefficient > 0, coefficient, zero)
    return push, xp.where(coefficient < 0, -coefficient, zero)


@dataclasses.dataclass(frozen=True)
class _OfNegatives:
    """Wrap a rule so that it leaves out negatives but never positives."""

    rule: Rule

    @property
    def must_leave_negatives(self) -> bool:
        return self.rule.must_leave_negatives

    def left_out(
        self, block: Block, cosine: Float[Array, "n k"], batch: Any
    ) -> Bool[Array, "n k"] | None:
        out, xp = self.rule.left_out(block, cosine, batch), array_namespace(cosine)
        if out is None:
            return None
        out = xp.asarray(out, device=cosine.device)  # a rule may return a numpy array
        return out & (roles_of(batch, block) != 1)
