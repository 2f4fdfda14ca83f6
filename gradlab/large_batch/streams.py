"""Two views whose N x N similarities are never held: only their summaries, and the similarities of a block of anchors.

A `BatchLoss` is evaluated on them as it stands. Its value asks `Negatives` for summaries and `Views` for sums over its
own weights; here each of these is a node of torch's graph that goes over the similarities block by block, forward and
backward, so that the rest of the loss is differentiated as always.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator
from typing import Any

import torch

from gradlab.errors import GradlabError
from gradlab.geometry.similarity import Negatives, PairSimilarity
from gradlab.geometry.views import Views
from gradlab.large_batch.evaluation import LossEvaluation
from gradlab.large_batch.products import default_block_size, slices, write_cosines
from gradlab.large_batch.similarity import LazyPairs
from gradlab.large_batch.streamed_sums import SoftmaxOfAll, WeightedCosines, total_weight


class StreamedNegatives(Negatives):
    """Similarities of N rows to K others; summaries of them cost time, not memory.

    Attributes:
        first: (N, D).
        second: (K, D).
        masked: whether column i is no negative of row i.
        block_size: rows of a block.
    """

    first: torch.Tensor
    second: torch.Tensor
    masked: bool
    block_size: int
    _all_pairs: dict[tuple[float, bool], tuple[torch.Tensor, torch.Tensor]]

    def __init__(
        self, first: torch.Tensor, second: torch.Tensor, masked: bool, block_size: int | None
    ) -> None:
        """Compare ``first`` (N, D) with ``second`` (K, D)."""
        size = block_size or default_block_size(second.shape[0], first.device)
        # Set past the frozen dataclass, whose fields are never computed here.
        self.__dict__.update(first=first, second=second, masked=masked, block_size=size, _all_pairs={})

    @property
    def cosine(self) -> torch.Tensor:  # type: ignore[override]  # a field there, computed when asked for here
        """Refused.

        Raises:
            GradlabError: always.
        """
        raise GradlabError(
            "this loss needs all similarities of the batch at once, which blockwise never holds; blockwise needs "
            "a value made of summaries, such as hardest, log_sum_exp_of_all or weighted_cosines"
        )

    def blocks(self) -> Iterator[slice]:
        """Rows of each block."""
        return slices(self.first.shape[0], self.block_size)

    def block(self, rows: slice) -> StreamedBlock:
        """The similarities of some rows to all others, (B, K), without gradient."""
        first, second = self.first.detach()[rows], self.second.detach()
        cosine = first.new_empty(first.shape[0], second.shape[0])
        write_cosines(first, second, cosine)
        if self.masked:
            cosine[:, rows].diagonal().fill_(-torch.inf)
        return StreamedBlock(cosine, lambda index: LazyPairs(first, second[index]), self)

    def measure(self, index: torch.Tensor) -> PairSimilarity:  # type: ignore[override]  # likewise
        """Each row to the one in column ``index``, (N,), by chords."""
        return LazyPairs(self.first, self.second[index])

    @functools.cached_property
    def hardest_index(self) -> torch.Tensor:  # type: ignore[override]  # likewise
        """Column of the largest cosine, (N,); the first one where several are equal."""
        return torch.cat([self.block(rows).hardest_index for rows in self.blocks()])

    def log_sum_exp(self, temperature: float) -> torch.Tensor:
        """``log Σ_k exp(cos θ_k / τ)``, (N,); its gradient is that of the cosines' mean under the softmax."""
        value = torch.cat([self.block(rows).log_sum_exp(temperature) for rows in self.blocks()])
        if not torch.is_grad_enabled():
            return value
        _, mean = self.weighted_sums(lambda rows: self.block(rows).softmax(temperature))
        return value + (mean - mean.detach()) / temperature

    def log_sum_exp_of_all(self, temperature: float) -> torch.Tensor:
        """``log Σ_ik exp(cos θ_ik / τ)``, a scalar."""
        return self._of_all(temperature)[0]

    def shares_of_all(self, temperature: float) -> torch.Tensor:
        """What falls to each row of the softmax over all pairs, (N,); without gradient."""
        return self._of_all(temperature)[1]

    def weighted_sums(self, weight: Callable[[slice], torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
        """``Σ_j sg(W_ij)`` and ``Σ_j sg(W_ij) cos θ_ij``, (N,); ``weight`` maps rows to their weights, (B, K)."""
        return WeightedCosines.apply(self.first, self.second, weight, list(self.blocks()))

    def _of_all(self, temperature: float) -> tuple[torch.Tensor, torch.Tensor]:
        graph = torch.is_grad_enabled()
        if (temperature, graph) not in self._all_pairs:
            first = self.first if graph else self.first.detach()
            second = self.second if graph else self.second.detach()
            self._all_pairs[temperature, graph] = SoftmaxOfAll.apply(
                first, None if second is first else second, temperature, self.masked, self.block_size
            )
        return self._all_pairs[temperature, graph]


@dataclasses.dataclass(frozen=True)
class StreamedBlock(Negatives):
    """Similarities of some rows, which know what they are of the whole."""

    whole: StreamedNegatives

    def softmax_of_columns(self, temperature: float) -> torch.Tensor:
        """Of similarities within one view, what each column gives to these rows in its own softmax, (B, N)."""
        with torch.no_grad():
            total = self.whole.log_sum_exp(temperature)
        return torch.div(self.cosine, temperature).sub_(total).exp_()

    def softmax_of_all(self, temperature: float) -> torch.Tensor:
        """These rows of the softmax over all pairs of the batch, (B, K)."""
        with torch.no_grad():
            total = self.whole.log_sum_exp_of_all(temperature)
        return torch.div(self.cosine, temperature).sub_(total).exp_()


@dataclasses.dataclass(frozen=True)
class StreamedViews(Views):
    """Views that compare their rows block by block.

    Attributes:
        block_size: anchors in a block; None chooses by their number and the device.
    """

    block_size: int | None = dataclasses.field(default=None, kw_only=True)

    @functools.cached_property
    def positive(self) -> PairSimilarity:
        """Anchor i to its own positive, (N,), by chords."""
        return LazyPairs(self.anchors, self.positives)

    def total_weight(self, weight: Callable[[Views], Any]) -> torch.Tensor:
        """``Σ_j sg(W_ij)``, (N,)."""
        return total_weight(self._by_rows(weight), list(_streamed(self.same_view).blocks()))

    def weighted_cosines(
        self, weight: Callable[[Views], Any], negatives: Negatives
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """``Σ_j sg(W_ij)`` and ``Σ_j sg(W_ij) cos θ_ij``, (N,) each, of these views' negatives."""
        return _streamed(negatives).weighted_sums(self._by_rows(weight))

    def products(self, first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
        """Pools, masks and hardness are not streamed yet."""
        raise GradlabError(
            "blockwise does not take this combinator: it computes all similarities of the batch at once, which blockwise "
            "never holds"
        )

    def _by_rows(self, weight: Callable[[Views], Any]) -> Callable[[slice], torch.Tensor]:
        return lambda rows: weight(BlockViews(self.anchors, self.positives, whole=self, rows=rows))

    def sharing_products(self) -> StreamedViews:
        """These views: they hold no products."""
        return self

    def _compare(
        self,
        first: torch.Tensor,
        second: torch.Tensor,
        own: slice | None = slice(0, None),
        products: torch.Tensor | None = None,
    ) -> StreamedNegatives:
        return StreamedNegatives(first, second, own is not None, self.block_size)


@dataclasses.dataclass(frozen=True)
class BlockViews(Views):
    """Whole views as some of their anchors see them: similarities are those of these anchors, without gradient.

    Attributes:
        whole: the views.
        rows: the anchors.
    """

    whole: StreamedViews = dataclasses.field(kw_only=True)
    rows: slice = dataclasses.field(kw_only=True)

    @functools.cached_property
    def positive(self) -> PairSimilarity:
        """Anchors to their own positives, (B,)."""
        return LazyPairs(self.anchors[self.rows], self.positives[self.rows])

    @functools.cached_property
    def other_view(self) -> Negatives:
        """Anchors to the other view, (B, K)."""
        return _streamed(self.whole.other_view).block(self.rows)

    @functools.cached_property
    def same_view(self) -> Negatives:
        """Anchors to the other anchors, (B, N)."""
        return _streamed(self.whole.same_view).block(self.rows)

    @functools.cached_property
    def same_view_fixed(self) -> Negatives:
        """The same."""
        return _streamed(self.whole.same_view_fixed).block(self.rows)

    @functools.cached_property
    def positive_view(self) -> Negatives:
        """Positives to the other positives, (B, N)."""
        return _streamed(self.whole.positive_view).block(self.rows)


def _streamed(negatives: Negatives) -> StreamedNegatives:
    """The negatives of `StreamedViews`, by their type."""
    assert isinstance(negatives, StreamedNegatives)
    return negatives


class BatchEvaluation(LossEvaluation):
    """Automatic differentiation of the loss as it stands, on views that stream their similarities."""

    def values(self) -> torch.Tensor:
        """``L_i``, (N,), or a scalar."""
        rows = [self.views.anchors, self.views.positives, self.views.extra_negatives]
        with torch.no_grad(), torch.autocast(self.views.anchors.device.type, enabled=False):
            return self._evaluate(rows)

    def differentiate(
        self, scale: torch.Tensor, wanted: tuple[bool, bool, bool]
    ) -> tuple[torch.Tensor, list[torch.Tensor | None]]:
        """The values and their derivatives; see `LossEvaluation.differentiate`."""
        rows = [self.views.anchors, self.views.positives, self.views.extra_negatives]
        leaves = [
            None if part is None else part.detach().requires_grad_(want)
            for part, want in zip(rows, wanted, strict=True)
        ]
        moving = [leaf for leaf in leaves if leaf is not None and leaf.requires_grad]
        found = [torch.zeros_like(leaf) for leaf in moving]
        with torch.enable_grad(), torch.autocast(scale.device.type, enabled=False):
            value = self._evaluate(leaves)
            if value.requires_grad:
                upstream = scale if value.ndim else None
                found = list(
                    torch.autograd.grad(value, moving, upstream, allow_unused=True, materialize_grads=True)
                )
        for part in found:
            self.check_gradient(part)
        gradients = iter(found)
        return value.detach(), [next(gradients) if want else None for want in wanted]

    def _evaluate(self, rows: list[torch.Tensor | None]) -> torch.Tensor:
        anchors, positives, extra_negatives = rows
        assert anchors is not None
        assert positives is not None
        views = StreamedViews(
            anchors,
            positives,
            extra_negatives,
            self.views.in_batch_negatives,
            block_size=self.block_size,
        )
        value = self.loss.value_of(views)
        self.check_values(value.detach())
        return value
