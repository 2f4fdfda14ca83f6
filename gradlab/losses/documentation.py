"""What pages, tables and model cards say of a loss."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from gradlab.losses.formula_markup import COMPONENT_SYMBOLS, formula_latex


class Documentation:
    """Base class of a loss: attributes for people to read, which change no number."""

    title: ClassVar[str]  #: of a registered loss that has none the name of its class
    paper: ClassVar[str]  #: such as ``Wang and Isola (2020)``
    bibtex: ClassVar[str] = ""  #: entry of the paper, for model cards
    formula: ClassVar[str]  #: the value, in plain text
    #: of ``gradient_dissipation``, ``weight`` and ``ratio``, for tables
    latex: ClassVar[Mapping[str, str]] = {}
    #: where the defaults come from, where that is not plainly the paper
    settings_source: ClassVar[str] = ""
    #: text at which its page shows its numbers; empty for its name alone
    example: ClassVar[str] = ""
    table_order: ClassVar[int] = 100  #: place in the papers' tables
    #: why it is not a function of the angles that `gradlab.simulate` draws
    not_simulated: ClassVar[str] = (
        "it compares whole views, "
        "of which the angles of one anchor to the other view do not tell enough"
    )

    def formulas_markdown(self, *, with_value: bool) -> str:
        """Return the formulas of the components, after that of the value, as Markdown."""
        formulas = [formula_latex(self.formula)] if with_value else []
        formulas += [
            f"{symbol} = {self.latex[name]}"
            for name, symbol in COMPONENT_SYMBOLS
            if name in self.latex
        ]
        return "\n\n".join(f"$${formula}$$" for formula in formulas)
