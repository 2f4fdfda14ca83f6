"""Negatives of all rows of a batch that are never stored: blocks of rows answer each question."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from gradlab.arrays import cached_property
from gradlab.batch.batch import Batch
from gradlab.batch.candidates import Block
from gradlab.batch.comparison import PLAIN, Comparison
from gradlab.batch.similarity import Negatives, OfEach, PairSimilarity
from gradlab.scale.blocks import Blocks, Gradients


class StreamedNegatives(Negatives):
    """Negatives of all rows of a batch, never stored; requests are computed block by block."""

    def __init__(
        self, streamed: Any, blocks: list[Block], own: tuple[Block, int] | None = None
    ) -> None:
        """Store blocks of all rows; own negatives serve only the log-sum-exp.

        Args:
            streamed: the `gradlab.scale.log_sums.StreamedComparison` that computes the answers.
            blocks: columns that all rows share.
            own: own negatives, and the index of the first row that has some here.
        """
        self._streamed, self._blocks, self._own = streamed, blocks, own

    def __repr__(self) -> str:
        return f"StreamedNegatives({len(self._blocks[0].rows)} rows)"

    def log_sum_exp(self, temperature: float) -> Tensor:
        """Return ``log Σ_k exp(cos θ_k / τ)``, (n,)."""
        if self._own is not None:
            shared = StreamedNegatives(self._streamed, self._blocks).log_sum_exp(temperature)
            return torch.logaddexp(
                shared, torch.logsumexp(self._streamed.own_cosines(*self._own) / temperature, -1)
            )
        if isinstance(temperature, Tensor):
            rows = self.log_sum_exp(float(temperature.detach()))
            return rows + self._slope(temperature.detach()) * (temperature - temperature.detach())
        return self._streamed.log_sum_exp(self._blocks, temperature)

    def log_sum_exp_of_all(self, temperature: float) -> Tensor:
        """Return ``log Σ_ik exp(cos θ_ik / τ)``."""
        if isinstance(temperature, Tensor):
            rows = self.log_sum_exp_of_all(float(temperature.detach()))
            slope = (
                self.shares_of_all(float(temperature.detach())) * self._slope(temperature.detach())
            ).sum()
            return rows + slope * (temperature - temperature.detach())
        return self._streamed.log_sum_exp_of_all(self._blocks, temperature)

    def _slope(self, temperature: Tensor) -> Tensor:
        """Return the derivative of `log_sum_exp` with respect to a learned temperature, (n,)."""
        with torch.no_grad():
            mean = self.mean_of(
                lambda negatives: negatives.finite_cosine,
                lambda negatives: negatives.cosine / temperature,
            )
            return -mean / temperature**2

    def shares_of_all(self, temperature: float) -> Tensor:
        """Return each anchor's share of a softmax over all pairs, (n,), without gradient."""
        return torch.softmax(self._streamed.fixed_log_sum_exp(self._blocks, temperature), 0)

    def log_sum_exp_of(self, logit: OfEach) -> Tensor:
        """Return ``log Σ_k exp(φ_k)``, (n,)."""
        return self._ask(lambda negatives: negatives.log_sum_exp_of(logit))

    def sum_of(self, quantity: OfEach) -> Tensor:
        """Return ``Σ_k f_k``, (n,)."""
        return self._ask(lambda negatives: negatives.sum_of(quantity))

    def mean_of(self, quantity: OfEach, logit: OfEach) -> Tensor:
        """Return ``Σ_k softmax_k(φ) f_k``, (n,)."""
        return self._ask(lambda negatives: negatives.mean_of(quantity, logit))

    @cached_property
    def count(self) -> Tensor:  # type: ignore[override]  # a property there
        """Number of negatives of each anchor, (n,)."""
        return self._ask(lambda negatives: negatives.count)

    @cached_property
    def hardest_index(self) -> Tensor:
        """Column of the largest cosine, (n,)."""
        with torch.no_grad():
            rows = self._blocks[0].rows
            indices = [self._of_rows(block_slice).hardest_index for block_slice in self._slices()]
            return self._streamed.gather(torch.cat(indices), len(rows))

    @cached_property
    def hardest(self) -> PairSimilarity:
        """Similarity to the hardest negative, measured by chords."""
        return self._streamed.pair(*self._streamed._pairs(self._blocks, self.hardest_index))

    def weighted_by(self, batch: Any, weight: Callable[[Any], Tensor]) -> tuple[Tensor, Tensor]:
        """Return ``Σ_k sg(W_k)`` and ``Σ_k sg(W_k) cos θ_k``, (n,) each."""
        streamed, blocks = self._streamed, self._blocks
        rows = blocks[0].rows
        totals, sums = [], []
        with torch.no_grad():
            for _, block_rows in streamed.blocks(batch):
                weights = weight(block_rows)
                totals.append(weights.sum(-1))
                sums.append(sum(weights[:, block.columns] @ block.vectors for block in blocks))
            total = streamed.gather(torch.cat(totals), len(rows))
            vectors = streamed.gather(torch.cat(sums), len(rows))
        cosines = torch.linalg.vecdot(rows, vectors)
        if any(block.vectors.requires_grad for block in blocks):

            def backward(gradients: Gradients, upstream: Tensor) -> None:
                for block_slice, block_rows in streamed.blocks(batch):
                    weights = weight(block_rows).mul(upstream[block_slice, None])
                    for block in blocks:
                        by_vectors = gradients.by(block.vectors)
                        if by_vectors is not None:
                            by_vectors.addmm_(
                                weights[:, block.columns].T, rows.detach()[block_slice]
                            )

            cosines = cosines + streamed.answer(torch.zeros_like(total), backward)
        return total, cosines

    def _slices(self) -> list[slice]:
        return self._streamed.row_slices(self._blocks[0].rows, self._blocks[-1].columns.stop)

    def _of_rows(
        self,
        block_slice: slice,
        comparison: Comparison = PLAIN,
        rows: Tensor | None = None,
        vectors: list[Tensor] | None = None,
    ) -> Negatives:
        """Return negatives of the rows of a slice, with all similarities.

        Args:
            block_slice: the positions of the rows.
            comparison: computes the similarities.
            rows, vectors: tensors in place of these rows, and of the columns of each block.
        """
        assert self._own is None
        rows = self._blocks[0].rows[block_slice] if rows is None else rows
        blocks = [
            dataclasses.replace(
                block,
                rows=rows,
                vectors=columns,
                own=None if block.own is None else block_slice.start,
            )
            for block, columns in zip(self._blocks, vectors or self._vectors, strict=True)
        ]
        return comparison.negatives(Batch(rows, rows), blocks)

    @property
    def _vectors(self) -> list[Tensor]:
        return [block.vectors for block in self._blocks]

    def _ask(self, question: Callable[[Negatives], Tensor]) -> Tensor:
        """Return any function of each row's negatives, (n,), as an answer."""
        streamed, rows = self._streamed, self._blocks[0].rows
        with torch.no_grad():
            answers = [question(self._of_rows(block_slice)) for block_slice in self._slices()]
            answer = streamed.gather(torch.cat(answers), len(rows))

        def backward(gradients: Gradients, upstream: Tensor) -> None:
            total = gradients.by(rows)
            vectors = [gradients.detached(columns) for columns in self._vectors]
            blocks = Blocks(gradients)
            for block_slice in self._slices():
                leaf = rows.detach()[block_slice].requires_grad_()
                blocks.begin([(leaf, None if total is None else total[block_slice])])
                with torch.enable_grad():
                    value = question(self._of_rows(block_slice, blocks, leaf, vectors))
                if value.requires_grad:
                    inputs = [leaf, blocks.trigger]
                    by_leaf, _ = torch.autograd.grad(
                        value, inputs, upstream[block_slice], allow_unused=True
                    )
                    if total is not None and by_leaf is not None:
                        total[block_slice] += by_leaf

        return streamed.answer(answer, backward)
