"""CoSENT on pairs and non-pairs."""

from __future__ import annotations

from array_api_compat import array_namespace

from gradlab.arrays import Array, Float, cumulative_logsumexp, divide, log_sigmoid, logsumexp, sigmoid
from gradlab.batch.batch import Batch
from gradlab.errors import GradlabError
from gradlab.losses.base import BatchLoss
from gradlab.losses.candidate_loss import log_sum_exp_over
from gradlab.losses.components import Components
from gradlab.losses.registry import cited, register
from gradlab.losses.softmax_family import SoftmaxTemperature
from gradlab.settings import setting


@register("cosent")
class CoSENT(SoftmaxTemperature, BatchLoss):
    """CoSENT (Su 2022) on all N² pairs of a batch, those of the diagonal being the similar ones.

    Every negative pair competes with every positive pair, in one softmax over each: the dissipation is one number for
    the whole batch, an anchor's weights are its share in the push of all, and its ratio says how its pair stands
    among the pairs. A queued sentence is one more pair, whose two views coincide.

    Called with ``scores=``, how similar the two sentences of each pair are, it is the published loss of graded pairs: of any two
    pairs a and b with score(a) > score(b), ``log(1 + Σ exp((cos θ_bb' - cos θ_aa')/τ))``. Then nothing but the pairs
    themselves act: a pair is pushed apart by those that should be nearer, and drawn together by those that should be less near. Its
    pull is the difference, below 0 where it is pushed apart; the dissipation is ``1 - e^{-L}``. AnglE's loss, the same of
    differences of angles in complex space, has no such form: `gradlab.decompose` and autograd take it.
    """

    temperature: float = setting(0.05, "temperature τ; the published scale λ is 1/τ", rule="positive")

    paper = "Su (2022)"
    bibtex = cited("su2022cosent")
    settings_source = "Temperature: 1 over the scale 20, the default of sentence-transformers' CoSENTLoss."
    formula = "log(1 + Σ_i Σ_{k≠l} exp((cos θ_kl' - cos θ_ii')/τ))"
    latex = {
        "gradient_dissipation": r"\left(1 + \frac{1}{\sum_{i}\sum_{k\neq l} e^{(\cos\theta_{kl'}-\cos\theta_{ii'})/\tau}}\right)^{-1}",
        "weight": r"\frac{e^{\cos\theta_{ij'}/\tau}}{\tau\sum_{k\neq l} e^{\cos\theta_{kl'}/\tau}}",
        "ratio": r"\frac{e^{-\cos\theta_{ii'}/\tau}\,\sum_{k\neq l} e^{\cos\theta_{kl'}/\tau}}{\sum_{k} e^{-\cos\theta_{kk'}/\tau}\,\sum_{k\neq i} e^{\cos\theta_{ik'}/\tau}}",
    }
    takes_scores = True

    def value(self, views: Batch) -> Float[Array, ""]:
        """``log(1 + e^u)``, a scalar."""
        return -log_sigmoid(-self._gap(views))

    def components(self, views: Batch) -> Components:
        """The declared components; of graded pairs a pull of either sign, without weights."""
        if views.known.scores is None:
            return super().components(views)
        xp, (above, below) = array_namespace(views.anchors), self._graded(views)
        total = -log_sigmoid(-self._gap(views))
        pull = (xp.exp(below - total) - xp.exp(above - total)) / self.temperature
        dissipation = self.dissipation(views)
        weight = xp.zeros((pull.shape[0], views.count), dtype=pull.dtype, device=pull.device)
        return Components(dissipation, weight, divide(pull, dissipation), given_pull=pull)

    def dissipation(self, views: Batch) -> Float[Array, "n"]:
        """``σ(u)``, the same for every anchor."""
        xp = array_namespace(views.anchors)
        return sigmoid(self._gap(views)) + xp.zeros_like(views.positive.chord)

    def negative_weight(self, views: Batch) -> Float[Array, "n k"]:
        """The share of each pair in the softmax over all, over τ."""
        return views.other_view.softmax_of_all(self.temperature) / self.temperature

    def positive_weight(self, views: Batch, total: Float[Array, "n"]) -> Float[Array, "n *d"]:
        """``softmax_i(-p_i/τ)/τ``."""
        everyone = logsumexp(-views.every.positive.cosine / self.temperature)
        own = -views.positive.cosine / self.temperature
        return array_namespace(own).exp(own - everyone) / self.temperature

    def _gap(self, views: Batch) -> Float[Array, ""]:
        """``u = log Σ_{k≠l} e^{S_kl/τ} + log Σ_i e^{-p_i/τ}``, or of graded pairs the log of the sum."""
        if views.known.scores is not None:
            above = self._graded(views)[0][None]
            return log_sum_exp_over(~array_namespace(above).isinf(above), above)[0]
        positives = logsumexp(-views.every.positive.cosine / self.temperature)
        return views.every.other_view.log_sum_exp_of_all(self.temperature) + positives

    def _graded(self, views: Batch) -> tuple[Float[Array, "n"], Float[Array, "n"]]:
        """Logs of the sums, over the pairs with greater scores, and over those with smaller ones, in which each pair stands."""
        logits, scores = views.positive.cosine / self.temperature, views.known.scores
        assert scores is not None
        return _over_greater(logits, scores), _over_greater(-logits, -scores)

    def _whole(self, views: Batch) -> Batch:
        """As of every loss of the batch; graded pairs are compared among themselves."""
        if views.known.scores is not None and views.extra_negatives is not None:
            raise GradlabError(
                "cosent with scores compares the pairs of a batch; extra negatives have no score, leave them out"
            )
        return super()._whole(views)


def _over_greater(logits: Float[Array, "n"], scores: Float[Array, "n"]) -> Float[Array, "n"]:
    """``x_b + log Σ_a exp(-x_a)`` over the a with greater scores; -inf where there are none."""
    xp = array_namespace(logits)
    order = xp.argsort(-scores)
    sums = cumulative_logsumexp(-logits[order])
    greater = xp.searchsorted(-scores[order], -scores)
    found = logits + sums[xp.where(greater > 0, greater - 1, greater)]
    return xp.where(greater > 0, found, -xp.inf)
