"""CoSENT, a loss that ranks similar pairs above dissimilar ones (Su 2022)."""

from __future__ import annotations

from array_api_compat import array_namespace, is_torch_array

from gradlab.arrays import (
    Array,
    Float,
    divide,
    log_sigmoid,
    logsumexp,
    sigmoid,
)
from gradlab.batch.batch import Batch
from gradlab.errors import GradlabError
from gradlab.losses.batch_loss import BatchLoss
from gradlab.losses.candidate_loss import log_sum_exp_over
from gradlab.losses.components import Components
from gradlab.losses.registry import register
from gradlab.losses.temperature import SoftmaxTemperature
from gradlab.settings import setting


@register("cosent", cites="su2022cosent")
class CoSENT(SoftmaxTemperature, BatchLoss):
    """CoSENT (Su 2022) on all N² pairs of a batch, of which the N on the diagonal are similar.

    Every negative pair competes with every positive pair, in one softmax over each kind. The
    dissipation is one number for the whole batch, the weights of an anchor are its share of the
    batch's push, and its ratio is its share of the pull over its share of the push. A queued
    sentence is a pair whose two views coincide.

    With ``scores=``, the similarity of the two sentences of each pair, it is the published loss of
    graded pairs, ``log(1 + Σ exp((cos θ_bb' - cos θ_aa')/τ))`` over all a and b with score(a) >
    score(b). Only the N pairs then act: pairs with higher scores push a pair apart, pairs with
    lower scores pull it together. The pull of a pair is the difference, negative if it is pushed
    apart; the dissipation is ``1 - e^{-L}``. AnglE's loss, on angles in complex space, has no such
    form; use `gradlab.decompose` or autograd.
    """

    temperature: float = setting(
        0.05, "temperature τ; the published scale λ is 1/τ", rule="positive"
    )

    settings_source = (
        "Temperature: 1 over the scale 20, the default of sentence-transformers' CoSENTLoss."
    )
    formula = "log(1 + Σ_i Σ_{k≠l} exp((cos θ_kl' - cos θ_ii')/τ))"
    has_one_value = True
    looks_at = frozenset({"scores"})

    def value(self, batch: Batch) -> Float[Array, ""]:
        """Return ``log(1 + e^u)``, a scalar."""
        return -log_sigmoid(-self._gap(batch))

    def components(self, batch: Batch) -> Components:
        """Return declared components; for graded pairs, a pull of either sign and zero weights."""
        if batch.supervision.scores is None:
            return super().components(batch)
        xp, (above, below) = array_namespace(batch.anchors), self._graded(batch)
        total = -log_sigmoid(-self._gap(batch))
        pull = (xp.exp(below - total) - xp.exp(above - total)) / self.temperature
        dissipation = self.dissipation(batch)
        weight = xp.zeros((pull.shape[0], batch.count), dtype=pull.dtype, device=pull.device)
        return Components(dissipation, weight, divide(pull, dissipation), given_pull=pull)

    def dissipation(self, batch: Batch) -> Float[Array, "n"]:
        """Return ``σ(u)``, the same for every anchor, (n,)."""
        xp = array_namespace(batch.anchors)
        return sigmoid(self._gap(batch)) + xp.zeros_like(batch.positive.chord)

    def negative_weight(self, batch: Batch) -> Float[Array, "n k"]:
        """Return ``e^{S_ij/τ} / (τ Σ_{k≠l} e^{S_kl/τ})``, a softmax over all pairs divided by τ."""
        return batch.other_view.softmax_of_all(self.temperature) / self.temperature

    def positive_weight(self, batch: Batch, total: Float[Array, "n"]) -> Float[Array, "n *d"]:
        """Return ``softmax_i(-p_i/τ)/τ``."""
        everyone = logsumexp(-batch.whole.positive.cosine / self.temperature)
        own = -batch.positive.cosine / self.temperature
        return array_namespace(own).exp(own - everyone) / self.temperature

    def _gap(self, batch: Batch) -> Float[Array, ""]:
        """Return ``u = log Σ_{k≠l} e^{S_kl/τ} + log Σ_i e^{-p_i/τ}``, or that of graded pairs."""
        if batch.supervision.scores is not None:
            above = self._graded(batch)[0][None]
            return log_sum_exp_over(~array_namespace(above).isinf(above), above)[0]
        positives = logsumexp(-batch.whole.positive.cosine / self.temperature)
        return batch.whole.other_view.log_sum_exp_of_all(self.temperature) + positives

    def _graded(self, batch: Batch) -> tuple[Float[Array, "n"], Float[Array, "n"]]:
        """Return logs of each pair's sums over pairs with higher scores and with lower scores."""
        logits, scores = batch.positive.cosine / self.temperature, batch.supervision.scores
        assert scores is not None
        return _over_greater(logits, scores), _over_greater(-logits, -scores)

    def _whole(self, batch: Batch) -> Batch:
        if batch.supervision.scores is not None and batch.extra_negatives is not None:
            raise GradlabError(
                "cosent with scores compares the pairs of a batch; "
                "extra negatives have no score, leave them out"
            )
        return super()._whole(batch)


def _over_greater(logits: Float[Array, "n"], scores: Float[Array, "n"]) -> Float[Array, "n"]:
    """Return ``x_b + log Σ_a exp(-x_a)`` over all a with higher scores than b; -inf if none has."""
    xp = array_namespace(logits)
    order = xp.argsort(-scores)
    sums = _cumulative_logsumexp(-logits[order])
    greater = xp.searchsorted(-scores[order], -scores)
    log_sums = logits + sums[xp.where(greater > 0, greater - 1, greater)]
    return xp.where(greater > 0, log_sums, -xp.inf)


def _cumulative_logsumexp(x: Float[Array, "n"]) -> Float[Array, "n"]:
    """Return ``log Σ_{k<=i} exp(x_k)`` for each i."""
    xp = array_namespace(x)
    return xp.logcumsumexp(x, 0) if is_torch_array(x) else xp.logaddexp.accumulate(x)
