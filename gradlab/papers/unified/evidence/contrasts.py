"""What is tested, fixed before any of it was trained: contrasts of the factorial, margins, features of the prediction."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

GATES = ("none", "hard", "soft")
WEIGHTS = ("uniform", "softmax .3", "softmax .05")
RATIOS = (0.5, 1.0, 1.75)
Cell = tuple[str, str, float]

# Differences that would matter, in points of Spearman's correlation times 100: of marginal means, and of single cells.
MARGIN, CELL_MARGIN = 1.5, 3.0
# Runs of two conditions from which on their difference is tested for equivalence.
ENOUGH = 12

# Measured in steps 0 to 10, in the unit gauge, of losses that the factorial did not train: `features.measure`.
FEATURES = ("push", "hardest_share", "pull", "pull_squared")
RIVALS = ("alignment", "uniformity")


@dataclass(frozen=True)
class Contrast:
    """A difference of means.

    Attributes:
        name: what it compares.
        plus, minus: cells whose means are averaged and subtracted; for a factor's levels all cells of that level.
        expected: the sign that the unified paper's account lets one expect.
        margin: differences within this are no effect of a size that matters.
    """

    name: str
    plus: tuple[Cell, ...]
    minus: tuple[Cell, ...]
    expected: int = 1
    margin: float = MARGIN

    @property
    def weights(self) -> Mapping[Cell, float]:
        """Cell -> its factor."""
        found = {cell: 1 / len(self.plus) for cell in self.plus}
        for cell in self.minus:
            found[cell] = found.get(cell, 0.0) - 1 / len(self.minus)
        return found


def cells(gate: str | None = None, weight: str | None = None, ratio: float | None = None) -> tuple[Cell, ...]:
    """Cells of the factorial with the levels that are given."""
    return tuple(
        (g, w, r)
        for g in GATES
        for w in WEIGHTS
        for r in RATIOS
        if gate in (None, g) and weight in (None, w) and ratio in (None, r)
    )


CONTRASTS = (
    Contrast("hard gate − none", cells(gate="hard"), cells(gate="none")),
    Contrast("soft gate − none", cells(gate="soft"), cells(gate="none")),
    Contrast("softmax .05 − uniform", cells(weight="softmax .05"), cells(weight="uniform")),
    Contrast("softmax .3 − uniform", cells(weight="softmax .3"), cells(weight="uniform")),
    Contrast("softmax .05 − softmax .3", cells(weight="softmax .05"), cells(weight="softmax .3")),
    Contrast("ratio 1.75 − 1", cells(ratio=1.75), cells(ratio=1.0)),
    Contrast("ratio 1 − .5", cells(ratio=1.0), cells(ratio=0.5)),
    Contrast(
        "all three − none of them",
        cells("hard", "softmax .05", 1.75),
        cells("none", "uniform", 0.5),
        margin=CELL_MARGIN,
    ),
)


def _longer(found: tuple[Cell, ...]) -> tuple[Cell, ...]:
    return tuple(cell for cell in found if cell[0] != "soft" and cell[1] != "uniform")


# Of the cells that are trained once more, over 150 steps.
LONGER = (
    Contrast("hard gate − none", _longer(cells(gate="hard")), _longer(cells(gate="none"))),
    Contrast(
        "softmax .05 − softmax .3", _longer(cells(weight="softmax .05")), _longer(cells(weight="softmax .3"))
    ),
    Contrast("ratio 1 − .5", _longer(cells(ratio=1.0)), _longer(cells(ratio=0.5))),
    *(
        Contrast(
            f"ratio 1.75 − 1 at {weight}",
            _longer(cells(weight=weight, ratio=1.75)),
            _longer(cells(weight=weight, ratio=1.0)),
            margin=CELL_MARGIN,
        )
        for weight in WEIGHTS[:0:-1]
    ),
)
# Of MHE and InfoNCE in the setting of the exchanges and of the older study.
SETTINGS = ("as here", "clip 1", "100 steps", "32 tokens", "all three")
