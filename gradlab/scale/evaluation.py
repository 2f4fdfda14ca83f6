"""Evaluation of a loss on a large batch: its value and the gradients of the rows, block by block.

A combinator is split into losses of pairs and losses of batches (`terms_of`). A loss of pairs sees
some rows at a time with all of their columns, and autograd runs through one block after another.
Other losses run once on all rows, in `laps`. So do the two directions of a softmax loss, because
they share their products.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor

from gradlab.batch.batch import KINDS, Batch
from gradlab.batch.candidates import USUAL
from gradlab.errors import GradlabError
from gradlab.losses.base import Loss, PairLoss
from gradlab.losses.candidate_loss import CandidateLoss
from gradlab.losses.combinator import Combinator
from gradlab.scale.blocks import Blocks, Gradients, default_block_size, in_tf32, slices
from gradlab.scale.kernels import KernelLaps
from gradlab.scale.laps import Laps
from gradlab.scale.processes import Processes


class _Term(NamedTuple):
    weight: float
    loss: Loss
    batch: Batch


@dataclasses.dataclass(frozen=True)
class Evaluation:
    """A loss, and the rows on which it is evaluated.

    Attributes:
        loss: the loss; its learned settings are tensors.
        batch: the batch of all processes, without a graph.
        block_size: rows in a block, or None for the default.
        learned: the settings that are tensors, as leaves.
        processes: the processes that share the batch.
        shares: the number of anchors, and of extra negatives, on each process.
        kernels: the dtype in which kernels multiply the rows; None to use blocks.
        bfloat16: whether the rows are bfloat16, or torch would multiply them in it; TF32 then
            rounds 8 times finer.
    """

    loss: Loss
    batch: Batch
    block_size: int | None
    learned: tuple[Tensor, ...]
    processes: Processes
    shares: tuple[list[int], list[int]]
    kernels: torch.dtype | None
    bfloat16: bool

    @property
    def anchors(self) -> slice:
        """Slice of this process's anchors and positives in the batch."""
        return self._share(self.shares[0])

    @property
    def extra(self) -> slice:
        """Slice of this process's extra negatives in the batch."""
        return self._share(self.shares[1])

    @property
    def told(self) -> list[Tensor]:
        """What the batch was given beside its rows without a copy; it may change in place."""
        given = self.batch.mask, self.batch.owners, self.batch.sentences
        return [one for one in given if one is not None]

    def _share(self, sizes: list[int]) -> slice:
        rank = self.processes.rank
        return slice(sum(sizes[:rank]), sum(sizes[: rank + 1]))

    @property
    def count(self) -> int:
        """Number of anchors N over which a mean is taken."""
        return self.batch.count

    def values(self) -> Tensor:
        """Return ``L_i`` of this process's anchors, (n,); a scalar if a batch has one value.

        Raises:
            GradlabError: a value is infinite or NaN.
        """
        with torch.no_grad(), self._precisely():
            return self._evaluate(self.batch, None)[0]

    def differentiate(
        self, scale: Tensor, wanted: tuple[bool, ...]
    ) -> tuple[Tensor, list[Tensor | None]]:
        """Return the values, and gradients of ``Σ_i scale_i L_i`` over all anchors or of a scalar.

        Args:
            scale: factors of this process's anchors, (n,); a scalar is not scaled.
            wanted: whether to compute gradients of anchors, positives, extra and own negatives.

        Returns:
            Values; gradients of this process's rows by kind, or None; those of learned settings.

        Raises:
            GradlabError: a value or gradient is infinite or NaN, on any process.
        """
        leaves = [
            # All processes compute the same together, even if one of them wants no gradient.
            None if rows is None else rows.detach().requires_grad_(want or self.processes.count > 1)
            for rows, want in zip(self.batch.embeddings, wanted, strict=True)
        ]
        with torch.enable_grad(), self._precisely():
            rows: dict[str, Any] = dict(zip(KINDS, leaves, strict=True))
            batch = dataclasses.replace(self.batch, **rows)
            values, gradients, settings = self._evaluate(batch, scale)
        own: list[Tensor | None] = []
        for want, gradient, some in zip(
            wanted, gradients, (self.anchors, self.anchors, self.extra, slice(None)), strict=True
        ):
            # With one process, the whole tensor: torch keeps it without a copy.
            part = gradient if gradient is None or self.processes.count == 1 else gradient[some]
            own.append(part if want else None)
        self._check_gradients([part for part in own if part is not None])
        return values, [*own, *settings]

    def reduced(self, values: Tensor, reduction: str) -> Tensor:
        """Return the mean or sum of values (n,) over all processes' anchors; a scalar as it is."""
        if values.ndim == 0 or reduction == "none":
            return values
        total = self.processes.total(values.sum())
        return total / self.count if reduction == "mean" else total

    @contextlib.contextmanager
    def _precisely(self) -> Iterator[None]:
        """Compute in float32, without autocast; on a GPU in TF32, if bfloat16 was good enough."""
        with torch.autocast(self.batch.anchors.device.type, enabled=False), in_tf32(self.bfloat16):
            yield

    def _evaluate(
        self, batch: Batch, scale: Tensor | None
    ) -> tuple[Tensor, list[Tensor | None], list[Tensor]]:
        """Return the values and the gradients of all rows, by kind, and of the learned settings."""
        gradients = Gradients()
        by_settings = [torch.zeros_like(setting) for setting in self.learned]
        terms = list(_terms(self.loss, batch, 1.0))
        if self.kernels is None:
            laps = Laps(self.processes, self.block_size)
            in_laps = [term for term in terms if _needs_all_rows(term, terms)]
            in_blocks = [term for term in terms if not _needs_all_rows(term, terms)]
        else:
            laps = KernelLaps(self.processes, self.block_size, self.kernels, self.loss.name)
            in_laps, in_blocks = terms, []
        with contextlib.closing(laps):
            values = self._sum_in_blocks(in_blocks, scale, gradients, by_settings)
            total = self._sum_in_laps(in_laps, laps)
            if total is not None:
                values = values + (total.detach()[self.anchors] if total.ndim else total.detach())
            self._check_values(values)
            if scale is None:
                return values, [], []
            if total is None:
                upstream = scale
            elif not total.ndim and not in_blocks:
                upstream = torch.ones_like(total)
            else:
                upstream = self.processes.gather(scale, self.shares[0])
                upstream = upstream if total.ndim else upstream.sum()
            by_rows, by_laps = self._through(batch, total, upstream, gradients, laps)
        settings = [
            self.processes.total(own).add_(other)
            for own, other in zip(by_settings, by_laps, strict=True)
        ]
        return values, by_rows, settings

    def _sum_in_blocks(
        self,
        terms: list[_Term],
        scale: Tensor | None,
        gradients: Gradients,
        by_settings: list[Tensor],
    ) -> Any:
        """Return the weighted sum of losses of pairs; an error is raised on all processes."""
        values: Any = 0.0
        error = None
        try:
            for term in terms:
                values = values + term.weight * self._in_blocks(term, scale, gradients, by_settings)
        except GradlabError as problem:  # reported to all processes below
            error = str(problem)
        self.processes.check(self.batch.anchors, error)
        return values

    def _sum_in_laps(self, terms: list[_Term], laps: Laps) -> Tensor | None:
        """Return the weighted sum of losses that run once on all rows; None if there are none.

        Raises:
            GradlabError: a loss uses no kernel, or draws random numbers over several processes.
        """
        total = None
        state = torch.get_rng_state() if self.processes.count > 1 else None
        for term in terms:
            value = term.weight * term.loss.value_of(
                dataclasses.replace(term.batch, comparison=laps)
            )
            total = value if total is None else total + value
        if isinstance(laps, KernelLaps) and not laps.used:
            laps.refuse()
        if state is not None and not torch.equal(state, torch.get_rng_state()):
            raise GradlabError(
                f"{self.loss.name} draws random numbers, which processes cannot share"
            )
        return total

    def _in_blocks(
        self, term: _Term, scale: Tensor | None, gradients: Gradients, by_settings: list[Tensor]
    ) -> Tensor:
        """Return this process's ``L_i`` of a loss of pairs, (n,); add gradients if ``scale``."""
        blocks = Blocks(gradients, self.learned)
        whole = dataclasses.replace(
            term.batch.mapped(lambda _, rows: gradients.detached(rows)), comparison=blocks
        )
        columns = len(whole.candidates.pools) * whole.count + whole.extra_count
        size = self.block_size or default_block_size(columns, whole.anchors.device)
        values = whole.anchors.new_empty(self.anchors.stop - self.anchors.start)
        kinds = term.batch.anchors, term.batch.positives, term.batch.own_negatives
        totals = [None if rows is None else gradients.by(rows) for rows in kinds]
        for some in slices(self.anchors.start, self.anchors.stop, size):
            rows = whole.rows(some.start, some.stop)
            here = slice(some.start - self.anchors.start, some.stop - self.anchors.start)
            ends, places = [], []
            kinds = rows.anchors, rows.positives, rows.own_negatives
            for part, total, at in zip(kinds, totals, (some, some, here), strict=True):
                ends.append(
                    None if part is None else part.detach().requires_grad_(total is not None)
                )
                places.append(None if total is None else total[at])
            blocks.begin(zip(ends, places, strict=True))
            rows = dataclasses.replace(
                rows, anchors=ends[0], positives=ends[1], own_negatives=ends[2]
            )
            found = term.loss.value_of(rows)
            values[here] = found.detach()
            if scale is None or not found.requires_grad:
                continue
            wanted = [
                *(end for end in ends if end is not None and end.requires_grad),
                *self.learned,
            ]
            parts = torch.autograd.grad(
                found, [*wanted, blocks.ticket], scale[here] * term.weight, allow_unused=True
            )
            into = [place for place in places if place is not None] + by_settings
            for total, part in zip(into, parts, strict=False):
                if part is not None:
                    total += part
            del found, parts
        return values

    @torch.no_grad()
    def _through(
        self,
        batch: Batch,
        value: Tensor | None,
        upstream: Tensor,
        gradients: Gradients,
        laps: Laps,
    ) -> tuple[list[Tensor | None], list[Tensor]]:
        """Return the gradients of rows and learned settings, summed over laps and blocks."""
        rows, answers = batch.embeddings, laps.answers
        leaves = [part for part in rows if part is not None and part.requires_grad]
        ends = [*answers, *leaves, *self.learned]
        found: list[Tensor | None] = [None] * len(ends)
        if value is not None and value.requires_grad and ends:
            again = bool(answers or gradients.found())  # the graph is used once more below
            found = list(
                torch.autograd.grad(value, ends, upstream, allow_unused=True, retain_graph=again)
            )
        laps.backward(found[: len(answers)], gradients)
        directly = found[len(answers) : len(answers) + len(leaves)]
        derived = [
            (part, total)
            for part, total in gradients.found()
            if not any(part is leaf for leaf in leaves)
        ]
        through: list[Tensor | None] = [None] * len(leaves)
        if derived and leaves:
            parts, totals = zip(*derived, strict=True)
            through = list(torch.autograd.grad(parts, leaves, totals, allow_unused=True))
        known = {id(part): total for part, total in gradients.found()}
        by_leaf = {}
        for leaf, plain, after in zip(leaves, directly, through, strict=True):
            total = known.get(id(leaf))
            if after is not None:
                total = after if total is None else total.add_(after)
            total = torch.zeros_like(leaf) if total is None else total.contiguous()
            if leaf is not batch.own_negatives:
                total = self.processes.to_owners(total, self.shares[leaf is batch.extra_negatives])
            by_leaf[id(leaf)] = total if plain is None else total.add_(plain)
        settings = [
            torch.zeros_like(end) if part is None else part
            for end, part in zip(self.learned, found[len(answers) + len(leaves) :], strict=True)
        ]
        return [None if part is None else by_leaf.get(id(part)) for part in rows], settings

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
        self.processes.check(values, error)

    def _check_gradients(self, found: list[Tensor]) -> None:
        bad = bool(found) and not math.isfinite(torch.stack([part.sum() for part in found]).sum())
        error = f"the gradient of {self.loss.name} is not finite on these rows" if bad else None
        self.processes.check(self.batch.anchors, error)


def _terms(loss: Loss, batch: Batch, weight: float) -> Iterator[_Term]:
    """Yield the elementary losses of a loss, with the batches that they see."""
    if not isinstance(loss, Combinator):
        yield _Term(weight, loss, batch)
        return
    for factor, term, seen in loss.terms_of(batch):
        yield from _terms(term, seen, weight * factor)


def _needs_all_rows(term: _Term, every: list[_Term]) -> bool:
    """Whether a term runs on all rows at once: a batch loss, or one of two softmax directions."""
    rows = term.batch.anchors, term.batch.positives
    return not isinstance(term.loss, PairLoss | CandidateLoss) or (
        _is_softmax(term)
        and any(
            _is_softmax(other)
            and rows[0] is other.batch.positives
            and rows[1] is other.batch.anchors
            for other in every
        )
    )


def _is_softmax(term: _Term) -> bool:
    """Whether a loss uses only the log-sum-exp of the usual negatives."""
    loss, batch = term.loss, term.batch
    return (
        isinstance(loss, PairLoss)
        and loss.takes_hardness
        and not isinstance(getattr(loss, "temperature", None), Tensor)
        and batch.candidates == USUAL
        and batch.in_batch_negatives
        and batch.count > 1
    )
