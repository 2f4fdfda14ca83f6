"""Evaluation of a loss on a large batch: its value and the gradients of the rows, block by block.

A combinator is split into losses of pairs and losses of batches (`terms_of`). A loss of pairs sees
some rows at a time with all of their columns, and autograd runs through one block after another.
Other losses run once on all rows (`log_sums`). So do the two directions of a softmax loss, because
they share their products.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import itertools
import math
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from gradlab.batch.batch import KINDS, Batch
from gradlab.errors import GradlabError
from gradlab.losses.base import Loss
from gradlab.scale.block_size import default_block_size
from gradlab.scale.blocks import Blocks, Gradients
from gradlab.scale.combinator_terms import (
    Term,
    is_default_pair,
    is_softmax,
    needs_all_rows,
    terms_of,
)
from gradlab.scale.kernels import KernelBlocks, KernelStreamedComparison, Operands, rows_in_slice
from gradlab.scale.log_sums import StreamedComparison
from gradlab.scale.matrix_products import fixed_reference, in_tf32, reading_is_free, slices
from gradlab.scale.processes import Processes
from gradlab.scale.softmax_blocks import SoftmaxBlocks, SoftmaxNegatives
from gradlab.scale.streamed_negatives import StreamedNegatives


@dataclasses.dataclass(frozen=True)
class Evaluation:
    """A loss, and the rows on which it is evaluated.

    Attributes:
        loss: the loss; its learned settings are tensors.
        batch: the batch of all processes, without a graph.
        block_size: rows in a block, or None for the default.
        learned: the settings that are tensors, as leaves.
        processes: the processes that share the batch.
        local_counts: the number of anchors, and of extra negatives, on each process.
        kernels: the dtype in which kernels multiply the rows; None to use blocks.
        bfloat16: whether the rows are bfloat16, or torch would multiply them in it; TF32 then
            rounds 8 times finer.
        unchecked: whether values and gradients may be infinite or NaN without an error.
    """

    loss: Loss
    batch: Batch
    block_size: int | None
    learned: tuple[Tensor, ...]
    processes: Processes
    local_counts: tuple[list[int], list[int]]
    kernels: torch.dtype | None
    bfloat16: bool
    unchecked: bool = False

    @property
    def anchor_slice(self) -> slice:
        """Slice of this process's anchors and positives in the batch."""
        return self._slice_of_process(self.local_counts[0])

    @property
    def extra_slice(self) -> slice:
        """Slice of this process's extra negatives in the batch."""
        return self._slice_of_process(self.local_counts[1])

    @property
    def uncopied(self) -> list[Tensor]:
        """Arguments beside the rows of which the batch has no copy: they may change in place."""
        arguments = self.batch.mask, self.batch.owners, self.batch.sentences
        return [argument for argument in arguments if argument is not None]

    def _slice_of_process(self, sizes: list[int]) -> slice:
        rank = self.processes.rank
        return slice(sum(sizes[:rank]), sum(sizes[: rank + 1]))

    def values(self) -> Tensor:
        """Return ``L_i`` of this process's anchors, (n,); a scalar if a batch has one value.

        Raises:
            GradlabError: a value is infinite or NaN.
        """
        with torch.no_grad(), self._precisely():
            return self._evaluate(self.batch, None)[0]

    def differentiate(
        self, grad_output: Tensor, needed: tuple[bool, ...]
    ) -> tuple[Tensor, list[Tensor | None]]:
        """Return the values, and gradients of ``Σ_i scale_i L_i`` over all anchors or of a scalar.

        Args:
            grad_output: factors of this process's anchors, (n,); a scalar is not scaled.
            needed: whether to compute gradients of anchors, positives, extra and own negatives.

        Returns:
            Values; gradients of this process's rows by kind, or None; those of learned settings.

        Raises:
            GradlabError: a value or gradient is infinite or NaN, on any process.
        """
        several = self.processes.count > 1
        leaves = [
            # All processes compute the same together, even if one of them wants no gradient.
            None if rows is None else rows.detach().requires_grad_(need or several)
            for rows, need in zip(self.batch.embeddings, needed, strict=True)
        ]
        with torch.enable_grad(), self._precisely():
            rows: dict[str, Any] = dict(zip(KINDS, leaves, strict=True))
            batch = dataclasses.replace(self.batch, **rows)
            values, gradients, settings = self._evaluate(batch, grad_output)
        local_gradients: list[Tensor | None] = []
        local_slices = (
            (self.anchor_slice, self.anchor_slice, self.extra_slice, slice(None))
            if several
            else (None,) * 4
        )
        for need, gradient, local_slice in zip(needed, gradients, local_slices, strict=True):
            if gradient is not None and local_slice is not None:
                gradient = gradient[local_slice]
            # With one process, the whole tensor: torch keeps it without a copy.
            local_gradients.append(gradient if need else None)
        self._check_gradients(
            values, [gradient for gradient in local_gradients if gradient is not None]
        )
        return values, [*local_gradients, *settings]

    def reduced(self, values: Tensor, reduction: str) -> Tensor:
        """Return the mean or sum of values (n,) over all processes' anchors; a scalar as it is."""
        if values.ndim == 0 or reduction == "none":
            return values
        total = self.processes.total(values.sum())
        return total / self.batch.count if reduction == "mean" else total

    @contextlib.contextmanager
    def _precisely(self) -> Iterator[None]:
        """Compute in float32, without autocast; on a GPU in TF32, if bfloat16 was good enough."""
        device = self.batch.anchors.device.type
        coarse = in_tf32() if self.bfloat16 else contextlib.nullcontext()
        with torch.autocast(device, enabled=False), coarse:
            yield

    def _evaluate(
        self, batch: Batch, grad_output: Tensor | None
    ) -> tuple[Tensor, list[Tensor | None], list[Tensor]]:
        """Return the values and the gradients of all rows, by kind, and of the learned settings."""
        gradients = Gradients()
        setting_gradients = [torch.zeros_like(setting) for setting in self.learned]
        terms = terms_of(self.loss, batch, weight=1.0)
        operands = None if self.kernels is None else Operands(self.kernels)
        # Blocks share cosines between softmaxes of any temperatures, kernels
        # between equal logits.
        can_share_cosines = is_softmax if operands is None else is_default_pair
        sharing = [term for term in terms if len(terms) > 1 and can_share_cosines(term)]
        needs_batch = [
            needs_all_rows(term, sharing, only_equal_losses=operands is not None) for term in terms
        ]
        pair_terms = [term for term, needed in zip(terms, needs_batch, strict=True) if not needed]
        batch_terms = list(itertools.compress(terms, needs_batch))
        streamed = self._new_comparison(operands) if batch_terms else None
        with contextlib.nullcontext() if streamed is None else contextlib.closing(streamed):
            values = self._sum_in_blocks(
                pair_terms, grad_output, gradients, setting_gradients, operands
            )
            total = None if streamed is None else self._value_on_all_rows(batch_terms, streamed)
            if total is not None:
                values = values + (
                    total.detach()[self.anchor_slice] if total.ndim else total.detach()
                )
            if grad_output is None:
                self._check_values(values)
                return values, [], []
            if self._reading_is_free:
                self._check_values(values)
            upstream = grad_output
            if total is not None:
                upstream = self._upstream(grad_output, total, alone=not pair_terms)
            row_gradients, batch_setting_gradients = self._backward(
                batch, total, upstream, gradients, streamed
            )
        settings = [
            self.processes.total(in_blocks).add_(in_batch)
            for in_blocks, in_batch in zip(setting_gradients, batch_setting_gradients, strict=True)
        ]
        return values, row_gradients, settings

    def _upstream(self, grad_output: Tensor, total: Tensor, *, alone: bool) -> Tensor:
        """Return the derivative of what is differentiated with respect to losses on all rows.

        ``alone``: whether there is no loss of pairs beside them; a scalar is not scaled then.
        """
        if not total.ndim and alone:
            return torch.ones_like(total)
        upstream = self.processes.gather(grad_output, self.local_counts[0])
        return upstream if total.ndim else upstream.sum()

    def _sum_in_blocks(
        self,
        terms: list[Term],
        grad_output: Tensor | None,
        gradients: Gradients,
        setting_gradients: list[Tensor],
        operands: Operands | None,
    ) -> Any:
        """Return the weighted sum of losses of pairs; an error is raised on all processes."""
        values: Any = 0.0
        error = None
        try:
            for term in terms:
                in_blocks = self._term_in_blocks(
                    term, grad_output, gradients, setting_gradients, operands
                )
                values = values + term.weight * in_blocks
        except GradlabError as problem:
            if self.processes.count == 1:
                raise
            error = str(problem)  # reported to all processes below
        if self.processes.count > 1:
            self.processes.check(self.batch.anchors, error)
        return values

    def _new_comparison(self, operands: Operands | None) -> StreamedComparison:
        if operands is None:
            return StreamedComparison(self.processes, self.block_size)
        return KernelStreamedComparison(self.processes, self.block_size, operands, self.loss.name)

    def _value_on_all_rows(self, terms: list[Term], streamed: StreamedComparison) -> Tensor:
        """Return the weighted sum of losses that run once on all rows.

        Raises:
            GradlabError: a loss uses no kernel, or draws random numbers over several processes.
        """
        total: Any = None
        state = torch.get_rng_state() if self.processes.count > 1 else None
        for term in terms:
            batch = dataclasses.replace(term.batch, comparison=streamed)
            try:
                value = term.weight * term.loss.value_of(batch)
            except AttributeError as error:
                if not isinstance(error.obj, StreamedNegatives):
                    raise
                raise GradlabError(
                    f"the loss needs all similarities of the batch at once ({error.name}), which "
                    "blocks never hold; see gradlab.BatchLoss for what they answer"
                ) from error
            total = value if total is None else total + value
        if isinstance(streamed, KernelStreamedComparison) and not streamed.used:
            streamed.refuse()
        if state is not None and not torch.equal(state, torch.get_rng_state()):
            raise GradlabError(
                f"{self.loss.name} draws random numbers, which processes cannot share"
            )
        summed: Tensor = total
        return summed

    def _term_in_blocks(
        self,
        term: Term,
        grad_output: Tensor | None,
        gradients: Gradients,
        setting_gradients: list[Tensor],
        operands: Operands | None,
    ) -> Tensor:
        """Return this process's ``L_i`` of a loss of pairs, see `_in_blocks`."""
        arguments = term, grad_output, gradients, setting_gradients
        if operands is not None:
            return self._in_blocks(*arguments, KernelBlocks(gradients, operands, self.loss.name))
        if is_softmax(term) and fixed_reference(term.batch.anchors, term.loss.temperature):  # type: ignore[attr-defined]  # every softmax has one
            try:
                return self._in_blocks(*arguments, SoftmaxBlocks(gradients))
            except NotImplementedError:  # the loss asks for more, before it adds any gradient
                pass
            except AttributeError as error:
                if not isinstance(error.obj, SoftmaxNegatives):
                    raise
        return self._in_blocks(*arguments, Blocks(gradients, self.learned))

    def _in_blocks(
        self,
        term: Term,
        grad_output: Tensor | None,
        gradients: Gradients,
        setting_gradients: list[Tensor],
        blocks: Blocks,
    ) -> Tensor:
        """Return this process's ``L_i`` of a loss of pairs, (n,); add gradients, if asked."""
        whole = dataclasses.replace(
            term.batch.mapped(lambda _, rows: gradients.detached(rows)), comparison=blocks
        )
        anchor_slice = self.anchor_slice
        first, size = (
            anchor_slice.start,
            self._rows_in_block(whole, blocks, grad_output is not None),
        )
        values = whole.anchors.new_empty(anchor_slice.stop - first)
        row_kinds = term.batch.anchors, term.batch.positives, term.batch.own_negatives
        totals = [None if rows is None else gradients.by(rows) for rows in row_kinds]
        for block_slice in slices(first, anchor_slice.stop, size):
            block = whole.rows(block_slice.start, block_slice.stop)
            local_slice = slice(block_slice.start - first, block_slice.stop - first)
            leaves, accumulators = [], []
            row_kinds = block.anchors, block.positives, block.own_negatives
            for rows, total, at in zip(
                row_kinds, totals, (block_slice, block_slice, local_slice), strict=True
            ):
                leaf = None if rows is None else rows.detach().requires_grad_(total is not None)
                leaves.append(leaf)
                accumulators.append(None if total is None else total[at])
            blocks.begin(zip(leaves, accumulators, strict=True))
            block = dataclasses.replace(
                block, anchors=leaves[0], positives=leaves[1], own_negatives=leaves[2]
            )
            value = term.loss.value_of(block)
            values[local_slice] = value.detach()
            if grad_output is None or not value.requires_grad:
                continue
            inputs = [leaf for leaf in leaves if leaf is not None and leaf.requires_grad]
            derivatives = torch.autograd.grad(
                value,
                [*inputs, *self.learned, blocks.trigger],
                grad_output[local_slice] * term.weight,
                allow_unused=True,
            )
            of_inputs = [total for total in accumulators if total is not None]
            for total, derivative in zip(of_inputs + setting_gradients, derivatives, strict=False):
                if derivative is not None:
                    total += derivative
            del value, derivatives
        if isinstance(blocks, KernelBlocks) and not blocks.used:
            blocks.refuse()
        return values

    def _rows_in_block(self, whole: Batch, blocks: Blocks, differentiated: bool) -> int:
        columns = len(whole.candidates.pools) * whole.count + whole.extra_count
        if not isinstance(blocks, KernelBlocks):
            return self.block_size or default_block_size(columns, whole.anchors.device)
        if not differentiated:  # kernels then store nothing
            return max(1, len(whole.anchors))
        return self.block_size or rows_in_slice(columns, whole.anchors, blocks.operands.dtype)

    @torch.no_grad()
    def _backward(
        self,
        batch: Batch,
        value: Tensor | None,
        upstream: Tensor,
        gradients: Gradients,
        streamed: StreamedComparison | None,
    ) -> tuple[list[Tensor | None], list[Tensor]]:
        """Return the gradients of rows and learned settings, summed over both laps and blocks."""
        answers, embeddings = [] if streamed is None else streamed.answers, batch.embeddings
        leaves = [rows for rows in embeddings if rows is not None and rows.requires_grad]
        inputs = [*answers, *leaves, *self.learned]
        derivatives: list[Tensor | None] = [None] * len(inputs)
        if value is not None and value.requires_grad and inputs:
            retain = bool(answers or gradients.accumulated())  # the graph is used once more below
            derivatives = list(
                torch.autograd.grad(value, inputs, upstream, allow_unused=True, retain_graph=retain)
            )
        if streamed is not None:
            streamed.backward(derivatives[: len(answers)], gradients)
        from_value = derivatives[len(answers) : len(answers) + len(leaves)]
        accumulated = gradients.accumulated()
        from_derived = self._from_derived(leaves, accumulated)
        row_gradients = {id(rows): total for rows, total in accumulated}
        by_leaf = {}
        for leaf, of_value, of_derived in zip(leaves, from_value, from_derived, strict=True):
            total = row_gradients.get(id(leaf))
            if of_derived is not None:
                total = of_derived if total is None else total.add_(of_derived)
            total = torch.zeros_like(leaf) if total is None else total.contiguous()
            if leaf is not batch.own_negatives and self.processes.count > 1:
                total = self.processes.to_owners(
                    total, self.local_counts[leaf is batch.extra_negatives]
                )
            by_leaf[id(leaf)] = total if of_value is None else total.add_(of_value)
        settings = [
            torch.zeros_like(setting) if derivative is None else derivative
            for setting, derivative in zip(
                self.learned, derivatives[len(answers) + len(leaves) :], strict=True
            )
        ]
        by_kind = [None if rows is None else by_leaf.get(id(rows)) for rows in embeddings]
        return by_kind, settings

    def _from_derived(
        self, leaves: list[Tensor], accumulated: list[tuple[Tensor, Tensor]]
    ) -> list[Tensor | None]:
        """Return the leaves' gradients through rows that a loss derived, such as prefixes."""
        derived = [
            (rows, total) for rows, total in accumulated if not any(rows is leaf for leaf in leaves)
        ]
        if not (derived and leaves):
            return [None] * len(leaves)
        rows, totals = zip(*derived, strict=True)
        return list(torch.autograd.grad(rows, leaves, totals, allow_unused=True))

    def _check_values(self, values: Tensor) -> None:
        error = None
        if not math.isfinite(values.sum()):
            name = self.loss.name
            if values.ndim == 0:
                error = f"{name} is {float(values)} on these rows; look whether some coincide"
            else:
                worst = int(values.isfinite().to(torch.uint8).argmin())
                error = (
                    f"{name} is {float(values[worst])} at anchor {worst}; look whether it "
                    "coincides with its positive or a negative"
                )
        if error is not None or self.processes.count > 1:
            self.processes.check(values, error)

    def _check_gradients(self, values: Tensor, gradients: list[Tensor]) -> None:
        if self.unchecked:
            return
        sums = [gradient.sum() for gradient in gradients]
        if not self._reading_is_free:
            total, *sums = torch.stack([values.sum(), *sums]).tolist()  # one wait for all
            if not math.isfinite(total):
                self._check_values(values)
        wrong = not all(map(math.isfinite, sums))
        error = f"the gradient of {self.loss.name} is not finite on these rows" if wrong else None
        if error is not None or self.processes.count > 1:
            self.processes.check(self.batch.anchors, error)

    @functools.cached_property
    def _reading_is_free(self) -> bool:
        """Whether values are read before the gradient is made, rather than together with it."""
        free = self.processes.count > 1 or reading_is_free(self.batch.anchors)
        return not self.unchecked and free


def refuse_second_derivatives() -> None:
    """Raise `GradlabError` in a backward pass that makes a graph."""
    if torch.is_grad_enabled():
        raise GradlabError(
            "a blockwise loss has first derivatives only (create_graph=True was asked for); "
            "use the loss itself for higher ones"
        )
