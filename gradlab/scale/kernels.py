"""Evaluation of a whole batch by fused kernels that store no similarities; losses run as in `laps`.

The gradient's coefficients are stored for some rows at a time, because torch's matrix products are
the fastest.

A loss may use only log-sum-exps of its negatives; anything else is refused. `triton_kernels`, which
needs Triton, is imported at the first computation.
"""

from __future__ import annotations

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
from gradlab.batch.similarity import Negatives, OfEach
from gradlab.errors import GradlabError
from gradlab.scale.blocks import Gradients
from gradlab.scale.laps import Laps
from gradlab.scale.links import link_at, link_of
from gradlab.scale.processes import Processes
from gradlab.scale.products import default_block_size, in_tf32, slices, tf32_allowed

# Bytes that blocks hold per similarity; a slice of coefficients may take as many, in whole tiles.
BLOCK_BYTES, TILE = 16, 128


def interpreted() -> bool:
    """Whether Triton's interpreter replaces a GPU."""
    return os.environ.get("TRITON_INTERPRET") == "1"


def check_kernels(learned: Sequence[str]) -> None:
    """Raise `GradlabError` if kernels are not available, or the loss learns something."""
    if importlib.util.find_spec("triton") is None:
        raise GradlabError("kernels=True needs Triton: pip install triton")
    if Version(torch.__version__) < Version("2.8"):
        raise GradlabError(f"kernels=True needs torch 2.8 or newer; this is {torch.__version__}")
    if not (torch.cuda.is_available() or interpreted()):
        raise GradlabError(
            f"kernels=True needs a GPU, and torch {torch.__version__} finds no CUDA device"
        )
    if learned:
        raise GradlabError(
            f"kernels=True takes losses that learn nothing; this one learns {', '.join(learned)}"
        )


def check_rows(rows: Any) -> None:
    """Raise `GradlabError` unless kernels can process these rows."""
    if not is_torch_array(rows) or not (rows.is_cuda or interpreted()):
        where = f"on {rows.device}" if is_torch_array(rows) else f"a {type(rows).__name__}"
        raise GradlabError(f"kernels=True takes rows on a CUDA device; these are {where}")
    if rows.dtype == torch.float64:
        raise GradlabError(
            "kernels compute in float32; give float32, bfloat16 or float16 rows, or leave "
            "kernels=True out"
        )
    if rows.dtype == torch.bfloat16 and not rows.is_cuda:
        raise GradlabError(
            "Triton's interpreter multiplies no bfloat16; give float32 or float16 rows"
        )


class KernelLaps(Laps):
    """Compares all rows with all columns by kernels, for losses that use log-sum-exps of negatives.

    Where `Laps` takes a temperature, it takes a logit's Triton source, see `gradlab.scale.links`.
    """

    def __init__(
        self, processes: Processes, block_size: int | None, dtype: torch.dtype, name: str
    ) -> None:
        """Set the rows in a slice of coefficients, the dtype, and the loss's name.

        Rows are multiplied in this dtype; errors give the name.
        """
        super().__init__(processes, block_size)
        self._dtype, self._name = dtype, name
        self._operands: dict[int, tuple[Tensor, Tensor]] = {}
        self._multiplied_own = False

    @property
    def used(self) -> bool:
        """Whether kernels have computed anything."""
        return bool(self._totals) or self._multiplied_own

    def refuse(self) -> NoReturn:
        """Raise the error that kernels do not serve this loss."""
        raise GradlabError(
            "kernels=True serves losses that take nothing but log-sum-exps from their negatives; "
            f"{self._name} takes something else"
        )

    def negatives(self, batch: Batch, blocks: list[Block], rules: Sequence[Rule] = ()) -> Negatives:
        """Return the negatives of all rows, not yet computed."""
        if (
            rules
            or batch.candidates.hardness
            or any(block.name.startswith("positive") for block in blocks)
        ):
            raise GradlabError(
                f"kernels=True takes all pairs as they are; {self._name} leaves some out, "
                "changes them or compares positives"
            )
        if blocks[-1].name == "own":
            return KernelColumns(self, blocks[:-1], (blocks[-1], batch.own_start))
        return KernelColumns(self, blocks, None)

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

    def _sum_exponentials(
        self, products: list[Any], temperature: Any, pushes: Gradients | None = None
    ) -> tuple[Tensor, None]:
        from gradlab.scale.triton_kernels import log_sum_exps

        n = len(products[0].rows)
        share = self._share(n)
        log_sums = [
            log_sum_exps(
                self._operand(product.rows)[share],
                self._operand(product.columns),
                share.start if product.own else None,
                temperature,
            )
            for product in products
        ]
        return self.gather(functools.reduce(torch.logaddexp, log_sums), n), None

    def _add_softmax(self, softmax: Any, gradients: Gradients) -> None:
        from gradlab.scale.triton_kernels import coefficients

        product, link = softmax.product, softmax.temperature
        by_rows, by_columns = gradients.by(product.rows), gradients.by(product.columns)
        if by_rows is None and by_columns is None:
            return
        rows, columns = self._operand(product.rows), self._operand(product.columns)
        of_rows, of_columns = (_merged(softmax.terms, axis) for axis in (0, 1))
        if self._half(product):  # all coefficients of a row in one pass
            of_columns, by_columns = of_rows, None
        half = rows.dtype == torch.bfloat16
        size = self._block_size
        if size is None:
            size = default_block_size(len(columns), rows.device) * BLOCK_BYTES // (2 if half else 4)
            size -= size % TILE
        right = (rows, columns) if half else (rows.float(), columns.float())
        share = self._share(len(rows))
        for few in slices(share.start, share.stop, size):
            of_few = None if of_rows is None else (of_rows[0][few], of_rows[1][few])
            own = few.start if product.own else None
            factors = coefficients(rows[few], columns, own, link, of_few, of_columns)
            # float16 rows, and coefficients that were rounded for them, are represented in TF32.
            with in_tf32(rows.dtype == torch.float16):
                if by_rows is not None:
                    _add_product(by_rows[few], factors, right[1])
                if by_columns is not None:
                    _add_product(by_columns, factors.T, right[0][few])
            del factors  # before the next slice takes its memory

    def _operand(self, rows: Tensor) -> Tensor:
        """Return the rows in the dtype in which they are multiplied."""
        if id(rows) not in self._operands:
            operand = rows.detach().to(self._dtype).contiguous()
            if operand.dtype == torch.float32 and tf32_allowed():
                # Rounded to the ten mantissa bits of TF32: tensor cores would truncate to them.
                operand = ((operand.view(torch.int32) + 0x1000) & -0x2000).view(torch.float32)
            self._operands[id(rows)] = rows, operand
        return self._operands[id(rows)][1]

    def close(self) -> None:
        """Release the batches, which hold a reference to this object."""
        super().close()
        self._operands.clear()


def _add_product(total: Tensor, left: Tensor, right: Tensor) -> None:
    """Add the matrix product of coefficients and rows to a float32 matrix."""
    if left.dtype == torch.bfloat16:
        total += torch.mm(left, right, out_dtype=torch.float32)
    else:
        total.addmm_(left, right)


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


class KernelColumns(Negatives):
    """Negatives of all rows of a batch that are never stored and provide only log-sum-exps."""

    def __init__(
        self, laps: KernelLaps, blocks: list[Block], own: tuple[Block, int] | None
    ) -> None:
        """Store blocks of all rows, and own negatives with the index of their first row."""
        self._laps, self._blocks, self._own = laps, blocks, own

    def __repr__(self) -> str:
        return f"KernelColumns({[block.name for block in self._blocks]})"

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
        return torch.softmax(self._laps.fixed_log_sum_exp(self._blocks, link_at(temperature)), 0)

    @cached_property
    def count(self) -> Tensor:
        """Number of negatives of each anchor, (n,)."""
        if self._own is not None:  # their number may differ between processes
            self._laps.refuse()
        count = sum(len(block.vectors) - (block.own is not None) for block in self._blocks)
        rows = self._blocks[0].rows
        return rows.new_full((len(rows),), count)

    def sum_of(self, quantity: OfEach) -> NoReturn:
        """Refuse the loss: kernels make no other sums."""
        self._laps.refuse()

    def mean_of(self, quantity: OfEach, logit: OfEach) -> NoReturn:
        """Refuse the loss: kernels make no means."""
        self._laps.refuse()

    def weighted_by(self, batch: Any, weight: Any) -> NoReturn:
        """Refuse the loss: kernels compute no weights."""
        self._laps.refuse()

    @property
    def hardest_index(self) -> NoReturn:
        """Refuse the loss: kernels look for no largest cosine."""
        self._laps.refuse()

    @property
    def hardest(self) -> NoReturn:
        """Refuse the loss: kernels look for no largest cosine."""
        self._laps.refuse()

    def _log_sum_exp(self, link: Any, logit: OfEach) -> Tensor:
        if self._own is None:
            return self._laps.log_sum_exp(self._blocks, link)
        own = Negatives.from_cosines(self._laps.own_cosines(*self._own))
        of_own = torch.logsumexp(logit(own), -1)
        if not self._blocks:
            return of_own
        return torch.logaddexp(self._laps.log_sum_exp(self._blocks, link), of_own)
