"""What `decompose` found, to look at: as a table, a picture or text."""

from __future__ import annotations

import dataclasses

from gradlab.decomposition.report import report_text, sentence
from gradlab.decomposition.split import CanonicalSplit
from gradlab.drawing import Shown


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Decomposition(CanonicalSplit, Shown):
    """A `CanonicalSplit` of a loss on one batch, to look at as a table, a picture or text.

    Gradient dissipation, weight and ratio of ``T_i ∂L/∂h_i = GD_i Σ_j W_ij T_i (n_j - R_ij h_i')``, the coefficients they come from, and
    what these leave unexplained; see `CanonicalSplit` for what each attribute is. `to_frame` has one row an anchor; `plot` draws
    dissipation, ratio and weights, on a given axis the dissipation alone.
    """

    kind = "components"

    @property
    def caption(self) -> str:
        """What stands above its picture."""
        side = "" if self.side == "anchors" else ", its positives"
        name = self.loss if len(self.loss) <= 60 else self.loss[:59] + "…"
        return f"{name}{side}   (outside the paradigm: {self.relative_residual:.1g} of the gradient)"

    def summary(self) -> str:
        """One sentence: which registered loss this is, or in what it differs from the nearest one."""
        return sentence(self)

    def headline(self) -> str:
        """The sentence, and how it was found."""
        return f"{self.summary()}\n{self!r}"

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
