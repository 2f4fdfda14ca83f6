"""Losses of an anchor's cosines to all of its candidates, any number of which may pull or push.

Labels, a relation or a teacher say what the candidates are (`gradlab.batch.check.check_batch`). A loss of this kind has two
methods, of one row each: its value, and by how much each candidate pushes and pulls, ``∂L_i/∂s_ic``. Components of both sides,
the pull shares among them, follow.
"""

from __future__ import annotations

import abc
import dataclasses
from typing import Any

from array_api_compat import array_namespace

from gradlab.arrays import Array, Bool, Float, Int, logsumexp
from gradlab.batch.batch import Batch, own_pairs
from gradlab.batch.candidates import BESIDE, Block, Labelled, Rule
from gradlab.errors import GradlabError
from gradlab.losses.base import Loss
from gradlab.losses.components import Components, from_candidates
from gradlab.losses.softmax_family import SoftmaxTemperature


@dataclasses.dataclass(frozen=True)
class Seen:
    """What anchors see of their C candidates: the columns of the weight, the own positive at j = i (first without in-batch columns)."""

    cosine: Float[Array, "n c"]  # 0 where there is no candidate
    role: Int[Array, "n c"]  # 1 for a positive, -1 for a negative, 0 where there is no candidate
    own: Bool[Array, "n c"]  # whether the column is that of the anchor's own positive
    teacher: Any = None  # the teacher's scores, as the cosines, or None of losses that need none

    @property
    def positive(self) -> Bool[Array, "n c"]:
        return self.role == 1

    @property
    def negative(self) -> Bool[Array, "n c"]:
        return self.role == -1

    def count(self, which: Bool[Array, "n c"]) -> Float[Array, "n"]:
        """How many candidates of a kind each anchor has, at least 1."""
        xp = array_namespace(self.cosine)
        found = xp.sum(xp.astype(which, self.cosine.dtype), axis=-1)
        return xp.where(found > 0, found, xp.ones_like(found))


@dataclasses.dataclass(frozen=True)
class CandidateLoss(Loss):
    """A loss of each anchor's cosines to its candidates; it pulls and pushes with the same force, so that the ratio is 1."""

    takes_own_negatives = True  # further candidates of the row

    @property
    def unit(self) -> Any:
        """What the dissipation is counted in: GD is the sum of all pushes times this."""
        return 1.0

    @abc.abstractmethod
    def value(self, seen: Seen) -> Float[Array, "n"]:
        """The loss of each anchor."""

    @abc.abstractmethod
    def coefficients(self, seen: Seen) -> tuple[Float[Array, "n c"], Float[Array, "n c"]]:
        """By how much each candidate pushes, and by how much it pulls; 0 where it does not."""

    def factor(self, views: Batch) -> Any:
        """What values and gradients of the rows are multiplied by; 1 unless a loss says otherwise."""
        return 1.0

    def is_scalar(self, views: Batch) -> bool:
        return False

    def value_of(self, views: Batch) -> Float[Array, "*n"]:
        """The loss of each anchor, (N,); 0 for one without positives."""
        seen, without = self._seen(views)
        value = self.value(seen) * self.factor(views)
        return value if without is None else array_namespace(value).where(without, 0 * value, value)

    def components_of(self, views: Batch) -> Components:
        return self.sides_of(views)[0]

    def sides_of(self, views: Batch) -> tuple[Components, Components]:
        seen, without = self._seen(views)
        xp, factor = array_namespace(seen.cosine), self.factor(views)
        push, pull = (part * factor for part in self.coefficients(seen))
        statistics = {}
        if without is not None:
            push, pull = (xp.where(without[:, None], 0 * part, part) for part in (push, pull))
            statistics["without_positives"] = xp.mean(xp.astype(without, seen.cosine.dtype))
        anchors, positives = from_candidates(
            push,
            pull,
            seen.own,
            views.candidate_blocks,
            views,
            several=self.needs_teacher or views.known.labels is not None or views.known.relation is not None,
        )
        anchors = dataclasses.replace(anchors.rescaled(1 / self.unit), statistics=statistics)
        return dataclasses.replace(anchors, counterpart=positives), positives

    def _seen(self, views: Batch) -> tuple[Seen, Bool[Array, "n"] | None]:
        """The candidates, and which anchors have no positive, or None where all have one.

        Those take their own for one, so that everything stays finite; what comes of it is to be dropped.
        """
        if not set(views.candidates.pools) <= {"other", "same", *BESIDE}:
            raise GradlabError(
                f"{self.name} takes pools of the anchors, not {'+'.join(views.candidates.pools)}"
            )
        rules = tuple(_OfNegatives(rule) for rule in views.candidates.rules if not isinstance(rule, Labelled))
        blocks, xp = views.candidate_blocks, array_namespace(views.anchors)
        cosine = views.comparison.negatives(views, blocks, rules).cosine
        positive = views.positive.cosine[:, None]
        roles = [views.roles(block) for block in blocks]
        if not views.begins_inside:
            cosine = xp.concat([positive, cosine], axis=-1)
            roles = [views.own_role[:, None], *roles]
            own = xp.zeros_like(cosine, dtype=xp.bool)
            own = own | (xp.arange(cosine.shape[-1], device=cosine.device) == 0)
        else:
            own = own_pairs(cosine, views.start)
            cosine = xp.where(own, positive, cosine)
        role = xp.where(own, views.own_role[:, None], xp.concat(roles, axis=-1))
        score = views.taught(self.name) if self.needs_teacher else None
        absent = xp.isinf(cosine)
        role = xp.where(absent, xp.zeros_like(role), role)
        cosine = xp.where(absent | (role == 0), xp.zeros_like(cosine), cosine)
        if views.known.relation is None:
            return Seen(cosine, role, own, score), None
        without = ~xp.any(role == 1, axis=-1)
        role = xp.where(own & without[:, None], xp.ones_like(role), role)
        return Seen(cosine, role, own, score), without


@dataclasses.dataclass(frozen=True)
class _OfNegatives:
    """A rule that leaves out negatives alone, no positives."""

    rule: Rule

    @property
    def must_leave_negatives(self) -> bool:
        return self.rule.must_leave_negatives

    def left_out(self, block: Block, cosine: Float[Array, "n k"], batch: Any) -> Bool[Array, "n k"] | None:
        found, xp = self.rule.left_out(block, cosine, batch), array_namespace(cosine)
        if found is None:
            return None
        return xp.asarray(found, device=cosine.device) & (
            batch.roles(block) != 1
        )  # a rule may answer in numpy


@dataclasses.dataclass(frozen=True)
class SeveralPositives(SoftmaxTemperature, CandidateLoss):
    """What softmaxes over several positives share; without labels each of them is InfoNCE."""

    @property
    def unit(self) -> Any:
        """τ, as of InfoNCE."""
        return self.temperature

    not_simulated = (
        "which candidates are positives does not depend on their angles; with one positive it is infonce"
    )

    def logits(self, seen: Seen) -> Float[Array, "n c"]:
        """``s/τ``."""
        return seen.cosine / self.temperature


def log_sum_exp_over(which: Bool[Array, "n c"], logits: Float[Array, "n c"]) -> Float[Array, "n"]:
    """``log Σ exp`` of some entries of each row; -inf, without gradient, where there are none."""
    xp = array_namespace(logits)
    some = xp.any(which, axis=-1)
    kept = xp.where(which, logits, -xp.inf)
    found = logsumexp(xp.where(some[:, None], kept, xp.zeros_like(kept)))
    return xp.where(some, found, -xp.inf)


def softmax_over(which: Bool[Array, "n c"], logits: Float[Array, "n c"]) -> Float[Array, "n c"]:
    """Softmax over some entries of each row, 0 elsewhere."""
    xp = array_namespace(logits)
    total = log_sum_exp_over(which, logits)
    total = xp.where(xp.isinf(total), xp.zeros_like(total), total)
    return xp.exp(xp.where(which, logits - total[:, None], -xp.inf))


def by_sign(coefficient: Float[Array, "n c"]) -> tuple[Float[Array, "n c"], Float[Array, "n c"]]:
    """Who pushes and who pulls where nothing but the sign of a coefficient tells."""
    xp = array_namespace(coefficient)
    zero = xp.zeros_like(coefficient)
    return xp.where(coefficient > 0, coefficient, zero), xp.where(coefficient < 0, -coefficient, zero)
