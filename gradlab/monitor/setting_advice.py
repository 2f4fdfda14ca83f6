"""Advice on the settings of the loss in use, found by trying other values."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gradlab.arrays import unit_rows
from gradlab.batch.triple import tangent
from gradlab.errors import GradlabError
from gradlab.gradient.components_and_autograd import components
from gradlab.losses.base import Loss
from gradlab.settings import declarations

# Statistics that advice can raise or lower: attributes of the components of a loss on a batch.
LEARNING, HARDEST, PULL = "gradient_dissipation", "hardest_share", "scalar_ratio"
# Learning rates that publications use.
USUAL_RATES = "encoders are tuned at 1e-5 to 1e-4, adapters at 1e-4 to 1e-3"
# Losses of sentence-transformers whose labels rate a pair, and those with negatives in each row.
RATED = {
    "CosineSimilarityLoss", "CoSENTLoss", "AnglELoss", "ContrastiveLoss", "OnlineContrastiveLoss",
}  # fmt: skip
WITH_OWN_NEGATIVES = {"TripletLoss", "MarginMSELoss"}
# Names of settings in the losses of other libraries. A larger scale is a smaller temperature.
MARGINS, TEMPERATURES, SCALES = ("margin", "triplet_margin"), ("temperature", "tau"), ("scale",)
# Factors by which settings are multiplied and divided, in turn, until the statistic changes by more
# than MOVED (relative). Settings that change it by less than MINOR times the largest change are not
# named in the advice.
STEPS, MOVED, MINOR = (1.5, 10.0, 100.0), 1e-6, 0.1


@dataclass(frozen=True)
class LossInUse:
    """The loss that is trained, and the settings that its user can change."""

    loss: Loss | None = None  # the gradlab loss that computes it; None if unknown
    # Numeric attributes of another library's loss object, such as {"scale": 20.0}; otherwise empty.
    settings: Mapping[str, float] = field(default_factory=dict)
    # Arguments beside embeddings that a loss given as code gets, such as ``labels``.
    arguments: frozenset[str] = frozenset()
    name: str = ""  # name of the loss among the settings of its trainer

    @property
    def bases(self) -> tuple[Loss, ...]:
        """The base losses under any combinators, without repetitions."""
        bases = self.loss.bases if self.loss else ()
        return tuple(base for at, base in enumerate(bases) if base not in bases[:at])

    @property
    def temperature(self) -> float | None:
        """The softmax temperature τ; None unless the base losses have exactly one."""
        temperatures = {float(b.temperature) for b in self.bases if hasattr(b, "temperature")}
        return temperatures.pop() if len(temperatures) == 1 else None

    @property
    def groups_rows(self) -> bool:
        """Whether a loss given as code is told which other rows are positives of a row."""
        return bool(self.arguments & {"labels", "relation", "mask"})

    @property
    def is_rated(self) -> bool:
        """Whether labels or scores say how close the texts of a row should be."""
        return self.has_labels or self.name in RATED

    @property
    def compared(self) -> str:
        """What the order of cosines is compared with, in words."""
        if self.is_rated:
            return "two pairs by their labels"
        if self.name in WITH_OWN_NEGATIVES:
            return "a positive with the negatives of its row"
        return "two pairs by their labels, or of a positive (a row of the class) with negatives,"

    @property
    def has_labels(self) -> bool:
        """Whether labels or a teacher, and not negatives, say how close sentences should be."""
        return any({"scores", "teacher"} & base.looks_at for base in self.bases)


def settings_of(loss: Any) -> dict[str, float]:
    """Return the margins, temperatures and scales of another library's loss object, by name."""
    settings = {name: getattr(loss, name, None) for name in (*MARGINS, *TEMPERATURES, *SCALES)}
    numbers = {name: float(v) for name, v in settings.items() if isinstance(v, int | float)}
    return {name: value for name, value in numbers.items() if math.isfinite(value)}


def setting_change(
    used: LossInUse, statistic: str, raises: bool, *, unusual_only: bool = False
) -> str:
    """Return which settings move a statistic: ``"raise tau from 0.001 to 0.05"``; '' if none do.

    With ``unusual_only``, only settings whose default lies in that direction are named.
    """
    if used.loss is None:
        return " or ".join(_by_name(used.settings, statistic, raises))
    words = [
        _worded(used, base, *lever)
        for base in used.bases
        for lever in levers(base, statistic, raises)
        if not unusual_only or _is_unusual(base, *lever)
    ]
    return " or ".join(dict.fromkeys(words))


def alternative(
    used: LossInUse, statistic: str, raises: bool, *, unusual_only: bool = False
) -> str:
    """Return `setting_change` as an addition: ``"; or raise tau from 0.001 to 0.05"``, or ''."""
    settings = setting_change(used, statistic, raises, unusual_only=unusual_only)
    return f"; or {settings}" if settings else ""


def sentence(words: str, end: str = ".") -> str:
    """Return the words as a sentence, with a capital and ``end``; empty for no words."""
    return words[:1].upper() + words[1:] + end if words else ""


def levers(loss: Loss, statistic: str, raises: bool) -> tuple[tuple[str, float, bool], ...]:
    """Return the numeric settings that move a statistic: (name, value, whether to raise the value).

    Each setting is tried on fixed batches. `LEARNING` uses easy batches, in which a temperature
    affects all sentences alike; other statistics use batches of mixed difficulty. A setting counts
    if one direction moves the statistic as wanted, the other direction does not, and no batch
    contradicts. Settings with a comparatively small effect are left out.
    """
    settings = (getattr(loss, field.name) for field in dataclasses.fields(loss))
    # Advice is asked for at every record: what depends on plain settings alone is tried once.
    is_plain = loss.closed_form and all(isinstance(v, int | float | str | None) for v in settings)
    return (_levers if is_plain else _levers.__wrapped__)(loss, statistic, raises)


@functools.lru_cache(maxsize=256)
def _levers(loss: Loss, statistic: str, raises: bool) -> tuple[tuple[str, float, bool], ...]:
    before, sign, gains = _measured(loss, statistic), 1 if raises else -1, {}
    moves = MOVED * abs(before)
    for name, value in _numbers(loss):
        for factor in STEPS:  # far from the values that matter, a small step has no effect
            ends = [_with(loss, name, _moved(value, up, factor)) for up in (True, False)]
            up, down = (sign * (_measured(end, statistic) - before) for end in ends)
            if (abs(up) > moves).any() or (abs(down) > moves).any():
                break
        for gain, opposite, rises in ((up, down, True), (down, up, False)):
            contradicted = (gain < -moves).any() or (opposite > moves).any()
            if (gain > moves).any() and not contradicted:
                gains[name, value, rises] = float(np.nanmax(gain))
    largest = max(gains.values(), default=0.0)
    return tuple(lever for lever, gain in gains.items() if gain >= MINOR * largest)


def _is_unusual(base: Loss, name: str, value: float, up: bool) -> bool:
    """Whether the default of a setting lies in the direction of a change."""
    default = declarations(type(base))[name].default
    return isinstance(default, int | float) and (default > value) == up and default != value


def _worded(used: LossInUse, base: Loss, name: str, value: float, up: bool) -> str:
    default = declarations(type(base))[name].default
    target = float(default) if _is_unusual(base, name, value, up) else _moved(value, up)
    scale = next((key for key in SCALES if key in used.settings), None)
    if name == "temperature" and scale is not None:  # sentence-transformers: scale = 1/τ
        name, value, target, up = scale, 1 / value, 1 / target, not up
    where = f" of {base.name}" if len(used.bases) > 1 else ""
    return f"{'raise' if up else 'lower'} {name}{where} from {value:.3g} to {target:.3g}"


def _by_name(settings: Mapping[str, float], statistic: str, raises: bool) -> Iterator[str]:
    """Yield advice from setting names alone: what margins, temperatures and scales usually do."""
    if statistic == PULL:
        return
    easier = raises == (statistic == LEARNING)  # more anchors learn, or negatives weigh more alike
    for name, value in settings.items():
        if name in MARGINS and statistic != LEARNING:
            continue
        up = easier != (name in SCALES)
        yield f"{'raise' if up else 'lower'} {name} from {value:.3g}"


def _numbers(loss: Loss) -> list[tuple[str, float]]:
    settings = [(field.name, getattr(loss, field.name)) for field in dataclasses.fields(loss)]
    plain = [(name, value) for name, value in settings if not isinstance(value, bool)]
    return [(name, float(value)) for name, value in plain if isinstance(value, int | float)]


def _moved(value: float, up: bool, factor: float = STEPS[0]) -> float:
    if value == 0:
        return 0.1 if up else -0.1
    return value * factor if up == (value > 0) else value / factor


def _with(loss: Loss, name: str, value: float) -> Loss | None:
    try:
        return dataclasses.replace(loss, **{name: value})
    except GradlabError:  # out of the setting's range
        return None


def _measured(loss: Loss | None, statistic: str) -> np.ndarray:
    """Return the statistic of each fixed batch, averaged over its anchors; NaN where undefined."""
    averages = []
    for batch in _batches(statistic == LEARNING):
        anchors = np.empty(0)
        if loss is not None:
            # A user's own loss may raise anything on these batches, and advice must not end a run.
            with contextlib.suppress(Exception), np.errstate(all="ignore"):
                anchors = np.asarray(getattr(components(loss, *batch), statistic), dtype=float)
        finite = anchors[np.isfinite(anchors)]
        middle = np.median if statistic == PULL else np.mean
        averages.append(float(middle(finite)) if finite.size else math.nan)
    return np.array(averages)


@functools.cache
def _batches(easy: bool) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return 48-pair batches at growing angles; unless easy, half the anchors have a neighbour."""
    random, batches = np.random.default_rng(0), []
    mixed = (6, 1.2), (12, 1.6), (24, 0.8), (48, 1.4)
    for size, widest in ((24, 0.4), (48, 0.6)) if easy else mixed:
        rows = random.standard_normal((48, size))
        if not easy:
            rows[24:] = rows[:24] + 0.5 * random.standard_normal((24, size))
        anchors = unit_rows(rows)
        aside = unit_rows(tangent(anchors, random.standard_normal(anchors.shape)))
        angle = np.linspace(0.1, widest, 48)[:, None]
        batches.append((anchors, np.cos(angle) * anchors + np.sin(angle) * aside))
    return batches
