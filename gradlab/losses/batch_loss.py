"""Base classes of losses of whole views: similarities within a view, or statistics of the batch."""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Mapping
from typing import ClassVar

from array_api_compat import array_namespace

from gradlab.arrays import Array, Float
from gradlab.batch.batch import Batch
from gradlab.errors import GradlabError
from gradlab.losses.base import Loss
from gradlab.losses.canonical_split import positives_from_anchors
from gradlab.losses.components import Components, completed
from gradlab.losses.exact_gates import ConstantGate, ExactGate


@dataclasses.dataclass(frozen=True)
class BatchLoss(Loss):
    """Base class of losses of whole views: similarities within a view, or statistics of the batch.

    Such a loss treats the M extra negatives (of a queue) as further sentences whose two views
    coincide. They enter similarities, statistics and counts (N becomes N + M), but they are not
    anchors: if the value has one term per anchor, the loss consists of the first N terms.

    `gradlab.blockwise` holds the similarities of one block of anchors at a time. This is possible
    if the value uses N x N similarities only through summaries (such as `Negatives.hardest`) and
    sums over its own weights (`Batch.weighted_cosines`). ``dissipation``, ``negative_weight`` and
    ``positive_weight`` must then accept a block: a `Batch` with some of the rows, whose
    `Batch.whole` has all. If processes share the batch, these rows have only some of the columns;
    use summaries for results of whole rows.
    """

    #: whether the value is one number for the whole batch; None if a value has to tell
    has_one_value: ClassVar[bool | None] = None

    def is_scalar(self, batch: Batch) -> bool:
        if self.has_one_value is None:
            return bool(self.value(self._whole(batch.whole.first(2))).ndim == 0)
        return self.has_one_value

    @abc.abstractmethod
    def value(self, batch: Batch) -> Float[Array, "*n"]:
        """Return the loss: a scalar, or a value per anchor, (N,), if the published loss has one."""

    @abc.abstractmethod
    def dissipation(self, batch: Batch) -> Float[Array, "n"]:
        """Return the gradient dissipation ``GD_i``, (n,)."""

    @abc.abstractmethod
    def negative_weight(self, batch: Batch) -> Float[Array, "n k"]:
        """Return the weight ``W_ij``, (n, n), zero at j = i."""

    @abc.abstractmethod
    def positive_weight(self, batch: Batch, total: Float[Array, "n"]) -> Float[Array, "n *d"]:
        """Return ``Σ_j W_ij R_ij``, (n,), or (n, d) if R is diagonal; ``total`` is ``Σ_j W_ij``."""

    def extra_terms(self, batch: Batch) -> Mapping[str, Float[Array, "n d"]]:
        """Return named parts of the exact gradient that the paper's form omits, (n, d) each."""
        return {}

    def components(self, batch: Batch) -> Components:
        """Return the declared components; weight (N, N)."""
        weight = self.negative_weight(batch)
        return Components(
            self.dissipation(batch),
            weight,
            self.positive_weight(batch, array_namespace(weight).sum(weight, axis=-1)),
            negative_view=self.negative_view,
            extra_terms=self.extra_terms(batch),
        )

    def value_of(self, batch: Batch) -> Float[Array, "*n"]:
        """Return `value` on the batch with extra negatives, without their own terms, if any."""
        whole = self._whole(batch)
        if whole.count == 1:  # 0, as for a `PairLoss` without negatives
            return array_namespace(batch.anchors).sum(0 * batch.anchors)
        value = self.value(whole)
        return value if value.ndim == 0 else value[: batch.anchors.shape[0]]

    def components_of(self, batch: Batch) -> Components:
        """Return the anchors' rows of `components` with extra negatives; weight (N, N + M)."""
        whole = self._whole(batch)
        if whole.count == 1:
            zero, view = 0 * batch.anchors[:, 0], self.negative_view
            return Components(zero, zero[:, None], zero, negative_view=view, views=batch)
        return first_rows(self.components(whole), batch)

    def sides_of(self, batch: Batch) -> tuple[Components, Components]:
        """Return both sides; in a scalar loss, extra negatives are anchors that push positives."""
        whole = self._whole(batch)
        if whole is batch or self.moves_positives != "all" or not self.is_scalar(batch):
            return super().sides_of(batch)
        sentences = dataclasses.replace(self.components(whole), views=whole)
        positives = first_rows(positives_from_anchors(sentences, whole), batch.exchanged())
        return completed(self.components_of(batch), counterpart=positives), positives

    def _whole(self, batch: Batch) -> Batch:
        """Return the batch with extra negatives as sentences; refuse what the loss cannot use."""
        if batch.own_negatives is not None:
            raise GradlabError(
                f"{self.name} compares whole views; "
                "own_negatives are for losses of pairs, such as infonce"
            )
        if not batch.in_batch_negatives:
            raise GradlabError(
                f"{self.name} compares the sentences of a batch; "
                "it cannot do without in-batch negatives"
            )
        return batch if batch.extra_negatives is None else batch.with_extra_sentences()


def first_rows(whole: Components, batch: Batch) -> Components:
    """Return the components of the rows of ``views``, which come first in the whole."""
    rows, pull = slice(batch.anchors.shape[0]), whole.given_pull
    return dataclasses.replace(
        whole,
        gradient_dissipation=whole.gradient_dissipation[rows],
        weight=whole.weight[rows],
        positive_weight=whole.positive_weight[rows],
        given_pull=None if pull is None else pull[rows],
        extra_terms={name: term[rows] for name, term in whole.extra_terms.items()},
        views=batch,
    )


@dataclasses.dataclass(frozen=True)
class UngatedBatchLoss(BatchLoss):
    """Base class of losses of whole views without a gate: the dissipation is always 1."""

    def dissipation(self, batch: Batch) -> Float[Array, "n"]:
        return array_namespace(batch.anchors).ones_like(batch.positive.chord)

    def exact_gate(self) -> ExactGate:
        return ConstantGate()
