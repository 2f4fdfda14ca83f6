"""What is compared, fixed before it was trained: contrasts, margins, and the features of the prediction."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

GATES = ("none", "hard", "soft")
WEIGHTS = ("uniform", "softmax .3", "softmax .05")
RATIOS = (0.5, 1.0, 1.75)

# Differences that would matter, in points of Spearman's correlation times 100: of marginal means, and of single cells.
MARGIN, CELL_MARGIN = 1.5, 3.0

# Measured in steps 0 to 10, in the unit gauge, of losses that the factorial did not train: `features.measure`.
FEATURES = ("push", "hardest_share", "pull", "pull_squared")
RIVALS = ("alignment", "uniformity")


@dataclass(frozen=True)
class Contrast:
    """The mean over the conditions ``plus`` minus that over ``minus``, by their labels.

    Attributes:
        expected: the sign that the unified paper's account lets one expect.
        margin: differences within this are no effect of a size that matters; None where none was stated.
    """

    name: str
    plus: tuple[str, ...]
    minus: tuple[str, ...]
    expected: int = 1
    margin: float | None = MARGIN

    @property
    def weights(self) -> Mapping[str, float]:
        """Label -> its factor."""
        found = {label: 1 / len(self.plus) for label in self.plus}
        for label in self.minus:
            found[label] = found.get(label, 0.0) - 1 / len(self.minus)
        return found


def cells(gate: str | None = None, weight: str | None = None, ratio: float | None = None) -> tuple[str, ...]:
    """Labels of the factorial's cells with the levels that are given."""
    return tuple(
        cell(g, w, r)
        for g in GATES
        for w in WEIGHTS
        for r in RATIOS
        if gate in (None, g) and weight in (None, w) and ratio in (None, r)
    )


def cell(gate: str, weight: str, ratio: float) -> str:
    """The label of one cell, as the sweep writes it."""
    return f"{gate} / {weight}, loss_settings.ratio={ratio}"


def _softmax(*gate: Any, **levels: Any) -> tuple[str, ...]:
    return tuple(one for one in cells(*gate, **levels) if "softmax" in one)


def _longer(*gate: Any, **levels: Any) -> tuple[str, ...]:
    return tuple(one for one in _softmax(*gate, **levels) if not one.startswith("soft /"))


def _temperatures(among: Callable[..., tuple[str, ...]]) -> Iterator[Contrast]:
    for ratio in RATIOS:
        plus, minus = (among(weight=weight, ratio=ratio) for weight in ("softmax .05", "softmax .3"))
        yield Contrast(f"softmax .05 − softmax .3 at ratio {ratio:g}", plus, minus)


def _pairs(*pairs: tuple[str, str], margin: float | None = None) -> tuple[Contrast, ...]:
    return tuple(Contrast(f"{plus} − {minus}", (plus,), (minus,), margin=margin) for plus, minus in pairs)


# Part -> what is judged of it: together one family.
JUDGED = {
    "factorial": (
        Contrast("hard gate − none", cells("hard"), cells("none")),
        Contrast("soft gate − none", cells("soft"), cells("none")),
        Contrast("softmax .05 − uniform", cells(weight="softmax .05"), cells(weight="uniform")),
        Contrast("softmax .3 − uniform", cells(weight="softmax .3"), cells(weight="uniform")),
        Contrast("softmax .05 − softmax .3", cells(weight="softmax .05"), cells(weight="softmax .3")),
        Contrast("ratio 1.75 − 1", cells(ratio=1.75), cells(ratio=1.0)),
        Contrast("ratio 1 − .5", cells(ratio=1.0), cells(ratio=0.5)),
        Contrast("all three − none of them", cells("hard", "softmax .05", 1.75), cells("none", "uniform", 0.5),
                 margin=CELL_MARGIN),
    ),
    "longer": (
        Contrast("hard gate − none", _longer("hard"), _longer("none")),
        Contrast("softmax .05 − softmax .3", _longer(weight="softmax .05"), _longer(weight="softmax .3")),
        Contrast("ratio 1 − .5", _longer(ratio=1.0), _longer(ratio=0.5)),
        *(
            Contrast(f"ratio 1.75 − 1 at {weight}", _longer(weight=weight, ratio=1.75), _longer(weight=weight, ratio=1.0),
                     margin=CELL_MARGIN)
            for weight in WEIGHTS[:0:-1]
        ),
    ),
    "recipes": _pairs(("MoCoSE", "SimCSE"), ("ESimCSE", "SimCSE"), ("MoCoSE", "ESimCSE")),
    "collapse": _pairs(
        ("MoCoSE", "symmetric, no inertia"), ("MoCoSE", "predictor, no inertia"), ("MoCoSE", "heads at random")
    ),
    "dissipation": _pairs(
        ("on", "off"), ("on", "random"), ("on", "scaled"), ("random", "off"), ("scaled", "off"), margin=CELL_MARGIN
    ),
    # MHE and InfoNCE in the setting of the exchanges and of the older study.
    "setting": _pairs(
        *(
            (f"infonce: {name}", f"mhe: {name}")
            for name in ("as here", "clip 1", "100 steps", "32 tokens", "all three")
        )
    ),
}  # fmt: skip
# Looked at after the results: intervals and no verdict.
EXPLORED = {
    "factorial": (
        Contrast("hard gate − none, softmax weights", _softmax("hard"), _softmax("none")),
        Contrast("soft gate − none, softmax weights", _softmax("soft"), _softmax("none")),
        Contrast("soft gate − none, uniform weights", cells("soft", "uniform"), cells("none", "uniform")),
        Contrast("no gate, softmax .05, ratio 1.75 − InfoNCE's cell",
                 cells("none", "softmax .05", 1.75), cells("soft", "softmax .05", 1.0)),
        Contrast("no gate, softmax .05, ratio 1.75 − ratio 1",
                 cells("none", "softmax .05", 1.75), cells("none", "softmax .05", 1.0)),
        *_temperatures(cells),
        *(
            Contrast(f"ratio 1 − .5 at {weight}", cells(weight=weight, ratio=1.0), cells(weight=weight, ratio=0.5))
            for weight in WEIGHTS[1:]
        ),
    ),
    "longer": tuple(_temperatures(_longer)),
    # A repair's parts counted from the loss as it is published.
    "exchanges": tuple(
        Contrast(f"{loss}: {name}", (f"{loss}: {plus}",), (f"{loss}: {minus}",))
        for loss, whole in (("mhe", "gate+weight+ratio"), ("barlow_twins", "gate+weight+ratio"), ("mhs", "gate+ratio"))
        for name, plus, minus in (
            ("ratio alone − published", "ratio", "native"),
            ("whole repair − published", whole, "native"),
            ("whole repair − ratio alone", whole, "ratio"),
        )
    ),
}  # fmt: skip
