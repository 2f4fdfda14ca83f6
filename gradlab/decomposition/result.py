"""What `decompose` found, to look at: as a table, a picture or text."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from gradlab.decomposition.report import report_text, sentence
from gradlab.decomposition.split import CanonicalSplit
from gradlab.drawing import draw

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from pandas import DataFrame


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Decomposition(CanonicalSplit):
    """A `CanonicalSplit` of a loss on one batch, to look at as a table, a picture or text.

    Gradient dissipation, weight and ratio of ``T_i ∂L/∂h_i = GD_i Σ_j W_ij T_i (n_j - R_ij h_i')``, the coefficients they come from, and
    what these leave unexplained; see `CanonicalSplit` for what each attribute is.
    """

    def to_frame(self) -> DataFrame:
        """One row an anchor, as a pandas DataFrame: components, similarities, error and residual."""
        import pandas as pd

        return pd.DataFrame(self.columns())

    def plot(self) -> tuple[Figure, list[Axes]]:
        """Draw GD, ratio and weights; a matplotlib figure and its axes."""
        drawn: tuple[Figure, list[Axes]] = draw("decomposition", self)
        return drawn

    def summary(self) -> str:
        """One sentence: which registered loss this is, or in what it differs from the nearest one."""
        return sentence(self)

    def report(self) -> str:
        """The components in a few lines of text."""
        return report_text(self)

    def __repr__(self) -> str:
        """One line: what was decomposed, how, and how well."""
        n, d = self.residual.shape
        return (
            f"Decomposition({self.loss}: {n} anchors, {d} dimensions, {self.method}, "
            f"residual {self.relative_residual:.1g}, error {self.relative_error:.1g})"
        )
