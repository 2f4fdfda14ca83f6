"""Log-sum-exps of dot products and the gradients of their softmaxes.

As no cosine exceeds 1, ``log Σ_k e^{c_k/τ} = 1/τ + log Σ_k e^{(c_k - 1)/τ}`` adds up numbers of at
most 1. The reference 1/τ is the same everywhere, so nothing looks for the largest cosine of a row,
and an exponential is a term of its row's and of its column's sum. Where τ is so small that terms
would underflow, `fixed_reference` is False: each row then refers to its own largest cosine.
"""

from __future__ import annotations

import dataclasses

from torch import Tensor

from gradlab.batch.candidates import Block
from gradlab.scale.blocks import Gradients
from gradlab.scale.matrix_products import cosines


@dataclasses.dataclass(frozen=True)
class Product:
    """All dot products of rows (n, D) with columns (k, D).

    Attributes:
        own: whether column i holds the sentence of row i, so that the pair is left out.
    """

    rows: Tensor
    columns: Tensor
    own: bool

    @classmethod
    def of(cls, block: Block) -> Product:
        return cls(block.rows, block.vectors, block.own is not None)

    @property
    def key(self) -> tuple[int, int, bool]:
        return id(self.rows), id(self.columns), self.own

    @property
    def transposed(self) -> Product:
        return Product(self.columns, self.rows, self.own)

    @property
    def within(self) -> bool:
        """Whether all pairs are within one view."""
        return self.rows is self.columns

    def cosines(
        self, share: slice, first: int = 0, scale: float = 1.0, memory: Tensor | None = None
    ) -> Tensor:
        """Return cosines of a share of rows with the columns from ``first`` on, times a scale."""
        rows = self.rows.detach()[share]
        own = share.start - first if self.own else None
        return cosines(
            rows if scale == 1 else rows * scale, self.columns.detach()[first:], own, memory
        )

    def push(
        self,
        coefficients: Tensor,
        share: slice,
        first: int,
        half: bool,
        gradients: Gradients,
        factor: float = 1.0,
    ) -> None:
        """Add the gradients of rows and columns, given the derivatives with respect to cosines.

        With ``half``, pairs among these rows are present in both orders.
        """
        rows, columns = self.rows.detach(), self.columns.detach()
        by_rows, by_columns = gradients.by(self.rows), gradients.by(self.columns)
        if by_rows is not None:
            by_rows[share].addmm_(coefficients, columns[first:], alpha=factor)
        start = share.stop if half else first
        if by_columns is not None:
            by_columns[start:].addmm_(coefficients[:, start - first :].T, rows[share], alpha=factor)


@dataclasses.dataclass
class Softmax:
    """Log-sum-exps of a product's rows (0) or columns (1) at one temperature, with derivatives."""

    product: Product
    temperature: float
    terms: list[tuple[int, Tensor, Tensor]] = dataclasses.field(default_factory=list)
