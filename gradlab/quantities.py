"""What is each quantity of a loss's gradient called, in results, options, tables and pictures?

Results have attributes, ``of=`` and ``quantity=`` have values, and CSV files have columns by these
names; pictures have the labels. `docs/glossary.md` shows the table.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, TypeVar

Number = TypeVar("Number")


class Quantity(NamedTuple):
    """A quantity of one anchor, or its mean over anchors."""

    label: str  # on an axis
    symbol: str
    meaning: str


# Names in records of a loss given as code, by the name for a loss with formulas. Code declares no
# dissipation; numbers of "pushed" anchors are over those with a relative push of at least 0.01.
OF_CODE = {
    "gradient_dissipation": "relative_push",
    "active": "pushed",
    "hardest_share": "hardest_share_of_pushed",
    "ratio": "ratio_of_pushed",
    "ratio_median": "ratio_median_of_pushed",
}

QUANTITIES = {
    "relative_push": Quantity(
        "relative push",
        "P_i / max P_i",
        "total push over the largest one as the positive moves; one definition for every loss",
    ),
    "gradient_dissipation": Quantity(
        "mean gradient dissipation",
        "GD_i",
        "the share of the gradient that the loss declares alive",
    ),
    "total_push": Quantity(
        "total push", "P_i = GD_i Σ_j W_ij", "sum of the coefficients of all negatives; absolute"
    ),
    "pull": Quantity("pull", "a_i", "coefficient of the positive; absolute"),
    "ratio": Quantity("ratio (pull / push)", "R_i", "pull over total push"),
    "weight": Quantity("weight", "W_ij", "what each negative gets"),
    "total_weight": Quantity("total weight", "Σ_j W_ij", "sum of the weights of an anchor"),
    "positive_weight": Quantity(
        "weight of the positive", "Σ_j W_ij R_i", "pull over gradient dissipation"
    ),
    "hardest_share": Quantity(
        "share of the hardest negative in the weight",
        "max_j |W_ij| / Σ_j |W_ij|",
        "how much of the weight one negative has",
    ),
    "effective_negatives": Quantity(
        "effective negatives",
        "exp H(W_i)",
        "how many equal negatives would spread the weight as much",
    ),
    "same_view_share": Quantity(
        "share of same-view negatives",
        "Σ_same |n_ij| / Σ_j |n_ij|",
        "how much of the push comes from the anchor's own view",
    ),
    "ratio_positives": Quantity(
        "ratio of positives", "R'_j", "the same ratio of a positive, as a negative of others"
    ),
    "ratio_both_sides": Quantity(
        "ratio of both sides", "R̄_i", "pull over push of a sentence on both sides"
    ),
    "hubness": Quantity(
        "hubness (Gini)", "", "how unequal the push is that sentences receive as negatives"
    ),
}
# What `simulate` averages over angles, and what `plot_curves` and the explorer draw.
OF_ANGLES = ("relative_push", "gradient_dissipation", "hardest_share", "ratio")
OF_CURVES = ("relative_push", "hardest_share", "ratio")


def table() -> str:
    """Return the table of names as Markdown."""
    rows = []
    for name, (_, symbol, meaning) in QUANTITIES.items():
        escaped = symbol.replace("|", "\\|")
        rows.append(f"| `{name}` | {f'`{escaped}`' if symbol else ''} | {meaning} |")
    return "\n".join(["| name | symbol | meaning |", "|---|---|---|", *rows]) + "\n"


def of_code(numbers: Mapping[str, Number]) -> dict[str, Number]:
    """Return numbers of a record under the names for a loss given as code."""
    return {OF_CODE.get(name, name): number for name, number in numbers.items()}
