"""Evaluation by fused kernels, which store no similarities of the whole batch.

A loss of pairs runs on some rows at a time, as in `blocks`. One kernel computes the log-sum-exps of
these rows and stores their exponentials, from which torch's matrix products, the fastest, make the
gradient: each cosine is computed once, 6 N² D operations in all. Where that is not possible, a
second kernel computes the cosines again as coefficients: for losses that run as in `log_sums`, as
the two directions of a symmetric one, which share their cosines, and for logits whose exponentials
would underflow. These take 8 N² D operations, and a value without gradient takes 2 N² D.

A loss may use only log-sum-exps of its negatives; anything else is refused. `triton_kernels`, which
needs Triton, is imported at the first computation.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import os
from collections.abc import Sequence
from typing import Any, NoReturn

import torch
from array_api_compat import is_torch_array
from packaging.version import Version
from torch import Tensor

from gradlab.arrays import cached_property
from gradlab.batch.batch import Batch
from gradlab.batch.candidates import Block, Rule
from gradlab.batch.comparison import own_cosines
from gradlab.batch.similarity import Negatives, OfEach
from gradlab.errors import GradlabError
from gradlab.scale.block_size import default_block_size
from gradlab.scale.blocks import Blocks, Gradients
from gradlab.scale.log_sums import StreamedComparison
from gradlab.scale.logit_translation import Link, NotServed, link_at, link_of
from gradlab.scale.matrix_products import in_tf32, slices, tf32_allowed
from gradlab.scale.processes import Processes

# Bytes that blocks hold per similarity; a slice of coefficients may take as many, in whole tiles.
BLOCK_BYTES, TILE = 16, 128


def interpreted() -> bool:
    """Whether Triton's interpreter replaces a GPU."""
    return os.environ.get("TRITON_INTERPRET") == "1"


def kernels_are_available() -> bool:
    """Whether kernels can be used here."""
    try:
        check_kernels(())
    except GradlabError:
        return False
    return True


def check_kernels(learned: Sequence[str]) -> None:
    """Raise `GradlabError` if kernels are not available, or the loss learns something."""
    if importlib.util.find_spec("triton") is None:
        raise GradlabError('way="kernels" needs Triton: pip install triton')
    if Version(torch.__version__) < Version("2.8"):
        raise GradlabError(f'way="kernels" needs torch 2.8 or newer; this is {torch.__version__}')
    if not (torch.cuda.is_available() or interpreted()):
        raise GradlabError(
            f'way="kernels" needs a GPU, and torch {torch.__version__} finds no CUDA device'
        )
    if learned:
        raise GradlabError(
            f'way="kernels" takes losses that learn nothing; this one learns {", ".join(learned)}'
        )


def check_rows(rows: Any) -> None:
    """Raise `GradlabError` unless kernels can process these rows."""
    if not is_torch_array(rows) or not (rows.is_cuda or interpreted()):
        where = f"on {rows.device}" if is_torch_array(rows) else f"a {type(rows).__name__}"
        raise GradlabError(f'way="kernels" takes rows on a CUDA device; these are {where}')
    if rows.dtype == torch.float64:
        raise GradlabError(
            "kernels compute in float32; give float32, bfloat16 or float16 rows, or leave "
            'way="kernels" out'
        )
    if rows.dtype == torch.bfloat16 and not rows.is_cuda:
        raise GradlabError(
            "Triton's interpreter multiplies no bfloat16; give float32 or float16 rows"
        )


def rows_in_slice(columns: int, rows: Tensor, dtype: torch.dtype) -> int:
    """Return how many rows have their coefficients stored at a time, in the memory of blocks."""
    size = default_block_size(columns, rows.device) * BLOCK_BYTES
    size //= 2 if dtype == torch.bfloat16 else 4
    return size - size % TILE


class Operands:
    """Rows in the dtype in which they are multiplied, and products that accumulate in float32."""

    def __init__(self, dtype: torch.dtype) -> None:
        """Set the dtype of the rows that are multiplied."""
        self.dtype = dtype
        self._operands: dict[int, tuple[Tensor, Tensor]] = {}

    def of(self, rows: Tensor) -> Tensor:
        """Return the rows of a whole batch, converted once."""
        if id(rows) not in self._operands:
            self._operands[id(rows)] = rows, self.converted(rows)
        return self._operands[id(rows)][1]

    def converted(self, rows: Tensor) -> Tensor:
        """Return rows without their graph, rounded as they are multiplied."""
        operand = rows.detach().to(self.dtype).contiguous()
        return _in_tf32(operand) if operand.dtype == torch.float32 and tf32_allowed() else operand

    def scaled(self, rows: Tensor, factors: Tensor) -> Tensor:
        """Return rows times factors (n,), as the right-hand side of `add_product`."""
        product = rows.float() * factors[:, None]
        if self.dtype == torch.bfloat16:
            return product.to(torch.bfloat16)
        return _in_tf32(product) if self.dtype == torch.float16 or tf32_allowed() else product

    def add_product(
        self, total: Tensor, left: Tensor, right: Tensor, factors: Tensor | None = None
    ) -> None:
        """Add the product of coefficients and rows, times factors (n,) of its rows, in float32."""
        # float16 rows, and coefficients that were rounded for them, are represented in TF32.
        with in_tf32() if self.dtype == torch.float16 else contextlib.nullcontext():
            if self.dtype == torch.bfloat16:  # torch 2.8 adds only bfloat16 in `addmm`
                product = torch.mm(left, right, out_dtype=torch.float32)
            elif factors is None:
                total.addmm_(left, right.float())
                return
            else:
                product = left @ right.float()
            if factors is None:
                total += product
            else:
                total.addcmul_(product, factors[:, None])

    def clear(self) -> None:
        """Release the rows."""
        self._operands.clear()


class KernelInterface:
    """What kernels serve: log-sum-exps of negatives as they are.

    Attributes:
        loss_name: the name of the loss, for errors.
        used: whether kernels, or products with own negatives, have computed anything.
    """

    loss_name: str
    used: bool

    def refuse(self) -> NoReturn:
        """Raise the error that kernels do not serve this loss."""
        raise NotServed(
            'way="kernels" serves losses that take nothing but log-sum-exps from their negatives; '
            f"{self.loss_name} takes something else"
        )

    def negatives(self, batch: Batch, blocks: list[Block], rules: Sequence[Rule] = ()) -> Negatives:
        """Return negatives that are not computed yet."""
        if (
            rules
            or batch.candidates.hardness
            or any(block.name.startswith("positive") for block in blocks)
        ):
            raise NotServed(
                f'way="kernels" takes all pairs as they are; {self.loss_name} leaves some out, '
                "changes them or compares positives"
            )
        if blocks[-1].name == "own":
            return KernelNegatives(self, blocks[:-1], (blocks[-1], batch.own_start))  # type: ignore[arg-type]  # one of its two subclasses
        return KernelNegatives(self, blocks, None)  # type: ignore[arg-type]  # one of its two subclasses


class KernelBlocks(KernelInterface, Blocks):
    """Compares some rows with all columns by a kernel; their exponentials make the gradient."""

    def __init__(self, gradients: Gradients, operands: Operands, loss_name: str) -> None:
        """Set the accumulator of gradients, the rows as they are multiplied, the loss's name."""
        super().__init__(gradients)
        self.gradients, self.operands = gradients, operands
        self.loss_name, self.used = loss_name, False

    def log_sum_exp(self, blocks: list[Block], link: Link) -> Tensor:
        """Return ``log Σ_k exp(φ_ik)`` of each row, (n,)."""
        self.used = True
        rows = blocks[0].rows
        arguments = self, blocks, link, torch.is_grad_enabled(), self._totals.get(id(rows))
        sums: Tensor = _KernelLogSumExp.apply(rows, self.trigger, *arguments)
        return sums

    def own_cosines(self, block: Block, first: int) -> Tensor:
        """Return the cosines of rows with their own negatives, which need no kernel."""
        self.used = True
        return own_cosines(block.rows, block.vectors)


class KernelStreamedComparison(KernelInterface, StreamedComparison):
    """Compares all rows with all columns by kernels, for losses that use log-sum-exps of negatives.

    Where `StreamedComparison` takes a temperature, it takes a `Link`.
    """

    def __init__(
        self, processes: Processes, block_size: int | None, operands: Operands, loss_name: str
    ) -> None:
        """Set the rows in a slice of coefficients, the rows as multiplied, and the loss's name."""
        super().__init__(processes, block_size)
        self._operands, self.loss_name = operands, loss_name
        self._multiplied_own = False
        self._sums_by_product: dict[Any, Tensor] = {}  # log-sum-exps by product and link

    @property
    def used(self) -> bool:  # type: ignore[override]  # an attribute there
        """Whether kernels have computed anything."""
        return bool(self._totals) or self._multiplied_own

    def own_cosines(self, block: Block, first: int) -> Tensor:
        """Return the cosines of all rows with their own negatives, which need no kernel."""
        self._multiplied_own = True
        return super().own_cosines(block, first)

    def row_slices(self, rows: Tensor, columns: int, least: int = 1) -> NoReturn:
        """Refuse the loss, because kernels compute nothing block by block."""
        self.refuse()

    def _store(
        self, products: list[Any], temperature: Any, rows: Tensor, columns: Tensor | None
    ) -> None:
        for product in products:
            # The second lap computes both directions together.
            if product.transposed.key in self._computed:
                self._computed.setdefault(product.key, (product.transposed, 1))
        super()._store(products, temperature, rows, columns)

    def _log_sums(
        self, products: list[Any], temperature: Any, pushes: Gradients | None = None
    ) -> tuple[Tensor, None]:
        assert pushes is None  # kernels answer `log_sum_exp_of_all` from sums of rows
        log_sums = [self._log_sums_of(product, temperature) for product in products]
        return functools.reduce(torch.logaddexp, log_sums), None

    def _log_sums_of(self, product: Any, link: Link) -> Tensor:
        """Return log-sum-exps of a product's rows; pairs across views serve both directions."""
        from gradlab.scale.triton_kernels import log_sum_exps

        if (product.key, link) not in self._sums_by_product:
            n, k = len(product.rows), len(product.columns)
            share, across = self._share(n), product.own and not product.within
            sums = log_sum_exps(
                self._operands.of(product.rows)[share],
                self._operands.of(product.columns),
                share.start if product.own else None,
                link,
                column_sums=across,
            )
            self._sums_by_product[product.key, link] = self.gather(sums.rows, n)
            if sums.columns is not None:
                of_all = self.processes.gather(sums.columns, [k] * self.processes.count)
                self._sums_by_product[product.transposed.key, link] = of_all.view(-1, k).logsumexp(
                    0
                )
        return self._sums_by_product[product.key, link]

    def _add_softmax(self, softmax: Any, gradients: Gradients) -> None:
        from gradlab.scale.triton_kernels import coefficients

        product, link = softmax.product, softmax.temperature
        by_rows, by_columns = gradients.by(product.rows), gradients.by(product.columns)
        if by_rows is None and by_columns is None:
            return
        operands = self._operands
        rows, columns = operands.of(product.rows), operands.of(product.columns)
        of_rows, of_columns = (_merged(softmax.terms, axis) for axis in (0, 1))
        if self._half(product):  # all coefficients of a row in one pass
            of_columns, by_columns = of_rows, None
        size = self._block_size or rows_in_slice(len(columns), rows, operands.dtype)
        share = self._share(len(rows))
        for few in slices(share.start, share.stop, size):
            of_few = None if of_rows is None else (of_rows[0][few], of_rows[1][few])
            own = few.start if product.own else None
            factors = coefficients(rows[few], columns, own, link, of_few, of_columns)
            if by_rows is not None:
                operands.add_product(by_rows[few], factors, columns)
            if by_columns is not None:
                operands.add_product(by_columns, factors.T, rows[few])
            del factors  # before the next slice takes its memory

    def close(self) -> None:
        """Release the batches, which hold a reference to this object."""
        super().close()
        self._sums_by_product.clear()


class KernelNegatives(Negatives):
    """Negatives of rows, in a kernel or to be computed by one, that provide only log-sum-exps."""

    def __init__(
        self,
        streamed: KernelStreamedComparison | KernelBlocks,
        blocks: list[Block],
        own: tuple[Block, int] | None,
    ) -> None:
        """Store blocks of columns, and own negatives with the index of their first row.

        ``streamed`` computes the answers, for all rows or for some.
        """
        self._streamed, self._blocks, self._own = streamed, blocks, own

    def __repr__(self) -> str:
        return f"KernelNegatives({[block.name for block in self._blocks]})"

    def log_sum_exp(self, temperature: float) -> Tensor:
        """Return ``log Σ_k exp(cos θ_k / τ)``, (n,)."""
        return self._log_sum_exp(
            link_at(temperature), lambda negatives: negatives.cosine / temperature
        )

    def log_sum_exp_of(self, logit: OfEach) -> Tensor:
        """Return ``log Σ_k exp(φ_k)``, (n,)."""
        return self._log_sum_exp(link_of(logit), logit)

    def log_sum_exp_of_all(self, temperature: float) -> Tensor:
        """Return ``log Σ_ik exp(cos θ_ik / τ)``."""
        return torch.logsumexp(self.log_sum_exp(temperature), 0)

    def shares_of_all(self, temperature: float) -> Tensor:
        """Return each anchor's share of a softmax over all pairs, (n,), without gradient."""
        if isinstance(self._streamed, KernelBlocks):
            self._streamed.refuse()
        link: Any = link_at(temperature)
        return torch.softmax(self._streamed.fixed_log_sum_exp(self._blocks, link), 0)

    @cached_property
    def count(self) -> Tensor:
        """Number of negatives of each anchor, (n,)."""
        if self._own is not None:  # their number may differ between processes
            self._streamed.refuse()
        count = sum(len(block.vectors) - (block.own is not None) for block in self._blocks)
        rows = self._blocks[0].rows
        return rows.new_full((len(rows),), count)

    def sum_of(self, quantity: OfEach) -> NoReturn:
        """Refuse the loss: kernels make no other sums."""
        self._streamed.refuse()

    def mean_of(self, quantity: OfEach, logit: OfEach) -> NoReturn:
        """Refuse the loss: kernels make no means."""
        self._streamed.refuse()

    def weighted_by(self, batch: Any, weight: Any) -> NoReturn:
        """Refuse the loss: kernels compute no weights."""
        self._streamed.refuse()

    @property
    def hardest_index(self) -> NoReturn:
        """Refuse the loss: kernels look for no largest cosine."""
        self._streamed.refuse()

    @property
    def hardest(self) -> NoReturn:
        """Refuse the loss: kernels look for no largest cosine."""
        self._streamed.refuse()

    def _log_sum_exp(self, link: Any, logit: OfEach) -> Tensor:
        if self._own is None:
            return self._streamed.log_sum_exp(self._blocks, link)
        own = Negatives.from_cosines(self._streamed.own_cosines(*self._own))
        of_own = torch.logsumexp(logit(own), -1)
        if not self._blocks:
            return of_own
        return torch.logaddexp(self._streamed.log_sum_exp(self._blocks, link), of_own)


def _in_tf32(rows: Tensor) -> Tensor:
    """Round to the ten mantissa bits of TF32, because tensor cores would truncate to them."""
    return ((rows.view(torch.int32) + 0x1000) & -0x2000).view(torch.float32)


class _KernelLogSumExp(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        rows: Tensor,
        trigger: Tensor,
        comparison: KernelBlocks,
        blocks: list[Block],
        link: Link,
        differentiated: bool,
        total: Tensor | None,
    ) -> Tensor:
        from gradlab.scale.triton_kernels import log_sum_exps

        operand = comparison.operands.converted(rows)
        stored = differentiated and link.reference is not None
        columns = [comparison.operands.of(block.vectors) for block in blocks]
        sums_by_block = [
            log_sum_exps(operand, vectors, block.own, link, exponentials=stored)
            for block, vectors in zip(blocks, columns, strict=True)
        ]
        log_sums = functools.reduce(torch.logaddexp, [sums.rows for sums in sums_by_block])
        if differentiated:
            ctx.arguments = comparison, blocks, link, total, operand, log_sums
            ctx.exponentials = [sums.exponentials for sums in sums_by_block]
        return log_sums

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> tuple[None, ...]:
        from gradlab.scale.triton_kernels import coefficients

        comparison, blocks, link, by_rows, rows, sums = ctx.arguments
        operands, upstream = comparison.operands, upstream.contiguous()
        exponentials, ctx.exponentials = ctx.exponentials, None
        factors, scaled = None, rows
        if link.reference is not None:
            factors = upstream * (link.reference - sums).exp()
            scaled = operands.scaled(rows, factors)
        for place, block in enumerate(blocks):
            by_columns = comparison.gradients.by(block.vectors)
            columns, terms = operands.of(block.vectors), exponentials[place]
            if terms is None:
                terms = coefficients(rows, columns, block.own, link, (sums, upstream), None)
            exponentials[place] = None
            if by_rows is not None:
                operands.add_product(by_rows, terms, columns, factors)
            if by_columns is not None:
                operands.add_product(by_columns, terms.T, scaled)
            del terms  # before the next block takes its memory
        return (None,) * 7


def _merged(terms: list[tuple[int, Tensor, Tensor]], axis: int) -> tuple[Tensor, Tensor] | None:
    """Merge log-sum-exps and derivatives of a product's rows (0) or columns (1) in one softmax."""
    merged: tuple[Tensor, Tensor] | None = None
    for term_axis, total, upstream in terms:
        if term_axis != axis:
            continue
        if merged is None:
            merged = total.detach(), upstream.contiguous()
        else:  # another softmax with further columns; the smaller sum avoids overflow
            least = torch.minimum(total.detach(), merged[0])
            factors = upstream * (least - total).exp() + merged[1] * (least - merged[0]).exp()
            merged = least, factors
    return merged
