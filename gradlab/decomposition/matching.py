"""Third step: which registered loss has these components? Hyper-parameters are fitted, up to a common factor.

Every loss is fitted roughly first, from the best of a few starting points; only those that come close are fitted to the
last digit.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from tqdm import tqdm

from gradlab.arrays import Array, Bool, Float, to_numpy
from gradlab.batch.batch import Batch
from gradlab.decomposition.split import CanonicalSplit
from gradlab.errors import GradlabError
from gradlab.losses.base import Loss, PairLoss
from gradlab.losses.components import Components
from gradlab.losses.registry import get_loss, loss_class, loss_names
from gradlab.losses.temperature import OF_TRAINING
from gradlab.waiting import bar_interval

# Relative difference of all coefficients below which two losses are called the same.
SAME = 1e-6
# Only the nearest losses are fitted to the last digit: so many, and none that is further away than this times the nearest.
REFINED, CLOSE = 5, 10.0
# Factors on positive hyper-parameters at which the rough fit may begin.
_STARTS = (1 / 16, 1 / 4, 1.0, 4.0, 16.0)
_ROUGH: dict[str, Any] = {"xtol": 1e-3, "ftol": 1e-3, "gtol": 1e-10, "max_nfev": 15}
_EXACT: dict[str, Any] = {"xtol": 1e-12, "ftol": 1e-14, "gtol": 1e-14, "max_nfev": 50}
# No difference of two cosines, chords or angles is wider than this: a margin that wide opens every gate.
WIDEST = 4.0
_BISECTIONS = 34  # of an interval of 8: to 5e-10


@dataclasses.dataclass(frozen=True)
class _Batch:
    """The batch of a decomposition, and the side whose components are compared."""

    views: Batch
    side: str
    both_directions: bool = False  # whether losses are compared in both directions

    @classmethod
    def of(cls, found: CanonicalSplit) -> _Batch:
        """In numpy; as the loss takes it, the anchors first."""
        rows = found.views.mapped(lambda _, part: to_numpy(part))
        return cls(rows if found.side == "anchors" else rows.exchanged(), found.side)

    @property
    def sentences(self) -> int:
        """N."""
        return len(self.views.anchors)

    @property
    def extra_negatives(self) -> int:
        """M."""
        extra = self.views.extra_negatives
        return 0 if extra is None else len(extra)

    def components_of(self, loss: Loss) -> Components:
        """Of this side."""
        loss = get_loss("symmetric", loss=loss) if self.both_directions else loss
        return loss.components_of(self.views) if self.side == "anchors" else loss.sides_of(self.views)[1]


@dataclasses.dataclass(frozen=True)
class Match:
    """A registered loss and how well its closed-form components agree with those found.

    Attributes:
        loss: the loss, with fitted hyper-parameters.
        factor: found coefficients are ``factor`` times those of the loss (1/N where the found loss averages).
        mismatch: norm of what is left, relative to the norm of the found coefficients, of the negatives and of the
            positive, whichever is larger.
        undetermined: hyper-parameters of gates, which a batch fixes only to an interval: name -> (low, high).
    """

    loss: Loss
    factor: float
    mismatch: float
    undetermined: Mapping[str, tuple[float, float]] = dataclasses.field(default_factory=dict)

    @property
    def same(self) -> bool:
        """Whether the components agree to `SAME`."""
        return self.mismatch <= SAME

    @property
    def symmetric(self) -> bool:
        """Whether it is a registered loss in both directions."""
        return self.loss.name == "symmetric"

    @property
    def name(self) -> str:
        """Such as ``infonce`` or ``symmetric(infonce)``."""
        return f"symmetric({self.loss.loss.name})" if self.symmetric else self.loss.name  # type: ignore[attr-defined]  # a combinator has one

    def words(self) -> str:
        """Such as ``InfoNCE with temperature 0.05``, for people."""
        base = self.loss.loss if self.symmetric else self.loss  # type: ignore[attr-defined]  # a combinator has one
        fields = [f"{name.replace('_', ' ')} {value:.3g}" for name, value in _hyperparameters(base).items()]
        *first, last = fields or [""]
        listed = f"{', '.join(first)} and {last}" if first else last
        title = base.title.partition(" (")[0]
        return f"{'symmetric ' if self.symmetric else ''}{title}{' with ' if fields else ''}{listed}"

    def text(self, sentences: int) -> str:
        """Such as ``infonce(temperature=0.05), divided by N = 64``."""
        base = self.loss.loss if self.symmetric else self.loss  # type: ignore[attr-defined]  # likewise
        fields = ", ".join(f"{name}={value:.6g}" for name, value in _hyperparameters(base).items())
        text = f"{base.name}({fields})"
        text = f"{self.loss.name}({text})" if self.symmetric else text
        if abs(self.factor * sentences - 1) < SAME:
            text += f", divided by N = {sentences}"
        elif abs(self.factor - 1) >= SAME:
            text += f", times {self.factor:.6g}"
        for name, (low, high) in self.undetermined.items():
            within = f"between {low:.4g} and {high:.4g}" if high < WIDEST else f"above {low:.4g}"
            text += f" (any {name} {within} opens the same gates)"
        return text


def nearest_losses(found: CanonicalSplit) -> list[Match]:
    """Registered losses by how well their components agree with ``found``, the simplest of equals first.

    Where none has them, losses of pairs in both directions are tried too. The list is empty where no negative acts on
    the anchors (every gate is closed).
    """
    target = np.concatenate(
        [
            _flat(part)
            for part in (
                found.other_view_gradient,
                found.same_view_gradient,
                found.own_gradient,
                found.positive,
            )
            if part is not None
        ]
    )
    if not np.any(target[: -len(found.positive)]):
        return []
    batch, active = _Batch.of(found), to_numpy(found.positive) != 0
    names = loss_names()
    matches = _refined(_rough(names, batch, target, active), batch, target)
    if not any(match.same for match in matches):
        both = dataclasses.replace(batch, both_directions=True)
        pairs = [name for name in names if issubclass(loss_class(name), PairLoss)]
        fitted = _refined(_rough(pairs, both, target, active), both, target, matches)
        matches += [dataclasses.replace(one, loss=get_loss("symmetric", loss=one.loss)) for one in fitted]
    # A further hyper-parameter that takes away less than a tenth of what is left explains nothing: a margin of 2e-8.
    least = max(SAME, 1.1 * min((match.mismatch for match in matches), default=0.0))
    return sorted(
        matches,
        key=lambda match: (max(match.mismatch, least), _cost(match) if match.mismatch <= least else ()),
    )


def coefficients_of(match: Match, found: CanonicalSplit) -> tuple[np.ndarray, np.ndarray]:
    """The match's coefficients on the batch of ``found``: those of the negatives, (n, 2n + m), and of the positive.

    The columns are the other view's sentences, the extra negatives, then the other anchors.
    """
    batch = _Batch.of(found)
    flat = _coefficients(match.loss, batch)
    assert flat is not None  # it was compared with them
    n, m = batch.sentences, batch.extra_negatives
    other, same, rest = np.split(match.factor * flat, [n * (n + m), n * (2 * n + m)])
    positive = rest[-n:]
    return np.concatenate([other.reshape(n, n + m), same.reshape(n, n)], axis=1), positive


def _rough(
    names: Sequence[str], batch: _Batch, target: Float[np.ndarray, "entries"], active: Bool[np.ndarray, "n"]
) -> list[Match]:
    """The named losses, roughly fitted, without those that have no components here."""
    title = "comparing with registered losses" + (" in both directions" if batch.both_directions else "")
    bar = tqdm(names, desc=title, unit=" losses", delay=2, leave=False, mininterval=bar_interval())
    return [match for name in bar if (match := _fit(name, batch, target, active)) is not None]


def _refined(
    matches: Sequence[Match],
    batch: _Batch,
    target: Float[np.ndarray, "entries"],
    others: Sequence[Match] = (),
) -> list[Match]:
    """The same, the nearest of them fitted to the last digit; ``others`` are already."""
    least = min((match.mismatch for match in others), default=1.0)
    ranked = sorted(matches, key=lambda match: match.mismatch)
    near = [match for match in ranked[:REFINED] if match.mismatch <= CLOSE * least]
    return [_refine(match, batch, target) for match in near] + ranked[len(near) :]


def _fit(
    name: str, batch: _Batch, target: Float[np.ndarray, "entries"], active: Bool[np.ndarray, "n"]
) -> Match | None:
    """A rough fit of the named loss, or None where it has no components here."""
    try:
        loss = get_loss(name)
    except (GradlabError, TypeError):
        return None
    at_default = _coefficients(loss, batch)
    if at_default is None or at_default.shape != target.shape:
        return None
    if not np.any((at_default != 0) & (target != 0)) and np.any(at_default):
        return Match(loss, 0.0, 1.0)  # nothing in common: the other kind of negatives
    undetermined = {}
    for field in _gates(loss, batch, at_default):
        interval = _open_gates(loss, field, batch, active)
        if interval is not None:
            loss = dataclasses.replace(loss, **{field: _inside(getattr(loss, field), interval)})
            undetermined[field] = interval
    match = Match(loss, *_compare(loss, batch, target), undetermined)
    for fields in _smooth(match):
        if match.mismatch > SAME:
            match = _least_squares(match, fields, batch, target, starts=_STARTS, **_ROUGH)
    return match


def _refine(match: Match, batch: _Batch, target: Float[np.ndarray, "entries"]) -> Match:
    """The same, fitted to the last digit."""
    for fields in _smooth(match):
        if match.mismatch > SAME:
            match = _least_squares(match, fields, batch, target, **_EXACT)
    return match


def _smooth(match: Match) -> Iterator[list[str]]:
    """Hyper-parameters to fit: first without, then with those that sit on a limit of their range.

    What sits on a limit, as a part that is switched off, is moved only if the rest does not suffice.
    """
    loss = match.loss
    smooth = [field for field in _hyperparameters(loss) if field not in match.undetermined]
    limits = {field.name: field.metadata.get("limits", {}).values() for field in dataclasses.fields(loss)}
    inside = [field for field in smooth if getattr(loss, field) not in limits[field]]
    yield from (fields for fields in ([inside] if inside == smooth else [inside, smooth]) if fields)


def _cost(match: Match) -> tuple[int, int]:
    return len(dataclasses.fields(match.loss)), match.loss.table_order


def _flat(array: Float[Array, "..."]) -> Float[np.ndarray, "entries"]:
    return to_numpy(array).reshape(-1)


def _hyperparameters(loss: Loss) -> dict[str, float]:
    """Numeric hyper-parameters of a loss by name, without those of its training."""
    names = [field.name for field in dataclasses.fields(loss) if field.name not in OF_TRAINING]
    values = {name: getattr(loss, name) for name in names}
    return {n: v for n, v in values.items() if isinstance(v, (int, float)) and not isinstance(v, bool)}


def _coefficients(loss: Loss, batch: _Batch) -> Float[np.ndarray, "entries"] | None:
    """All coefficients of the closed form in the order of the target, or None where it has none here."""
    try:
        with np.errstate(all="ignore"):
            components = batch.components_of(loss)
            dissipation = components.gradient_dissipation
            negatives = dissipation[:, None] * components.weight
            positive = components.pull
    except (GradlabError, ValueError):
        return None
    if positive.ndim != 1 or not (np.isfinite(negatives).all() and np.isfinite(positive).all()):
        return None
    n, m = batch.sentences, batch.extra_negatives
    other, same = np.zeros((n, n + m)), np.zeros((n, n))
    for name, target in (("other", other[:, :n]), ("same", same), ("extra", other[:, n:])):
        if name in components.columns:
            target[...] = negatives[:, components.columns[name]]
    own = [] if components.own is None else [dissipation[:, None] * components.own]
    return np.concatenate([part.reshape(-1) for part in (other, same, *own, positive)])


def _compare(loss: Loss, batch: _Batch, target: Float[np.ndarray, "entries"]) -> tuple[float, float]:
    """Best common factor, and the relative mismatch that it leaves."""
    closed = _coefficients(loss, batch)
    if closed is None or not np.any(closed):
        return 0.0, 1.0
    factor = float(closed @ target / (closed @ closed))
    whole = float(np.linalg.norm(target))
    mismatch = 0.0
    for part in (slice(0, -batch.sentences), slice(-batch.sentences, None)):
        size = float(np.linalg.norm(target[part]))
        left = float(np.linalg.norm(target[part] - factor * closed[part]))
        mismatch = max(mismatch, left / (size or whole))
    return factor, mismatch


def _gates(loss: Loss, batch: _Batch, here: Float[np.ndarray, "entries"]) -> list[str]:
    """Hyper-parameters whose small change moves no coefficient, as margins of hard gates."""
    found = []
    for field, value in _hyperparameters(loss).items():
        there = _coefficients(_with(loss, {field: value * (1 + 1e-9) + 1e-12}), batch)
        if there is not None and np.array_equal(here, there):
            found.append(field)
    return found


def _open_gates(
    loss: Loss, field: str, batch: _Batch, active: Bool[np.ndarray, "n"]
) -> tuple[float, float] | None:
    """Interval of a gate's margin that opens as many gates as were found open; None where it opens none at all.

    Wider margins open more.
    """

    def opened(margin: float) -> int:
        coefficients = _coefficients(_with(loss, {field: margin}), batch)
        return 0 if coefficients is None else int(np.count_nonzero(coefficients[-len(active) :]))

    if opened(-WIDEST) == opened(WIDEST):
        return None
    wanted = int(active.sum())
    low = _boundary(lambda margin: opened(margin) >= wanted)
    high = _boundary(lambda margin: opened(margin) > wanted)
    return (low, high) if low < high else None


def _boundary(holds: Callable[[float], bool]) -> float:
    """Smallest margin up to `WIDEST` at which a monotone condition holds."""
    low, high = -WIDEST, WIDEST
    if not holds(high):
        return high
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


def _inside(value: float, interval: tuple[float, float]) -> float:
    """``value`` if it lies inside, else the number of fewest digits that does."""
    low, high = interval
    if low <= value <= high:
        return value
    middle = (low + high) / 2
    for digits in range(1, 17):
        rounded = float(f"{middle:.{digits}g}")
        if low < rounded < high:
            return rounded
    return middle


def _with(loss: Loss, values: Mapping[str, float]) -> Loss:
    try:
        return dataclasses.replace(loss, **values)
    except GradlabError:
        return loss


def _least_squares(
    match: Match,
    fields: list[str],
    batch: _Batch,
    target: Float[np.ndarray, "entries"],
    starts: Sequence[float] = (1.0,),
    **options: float,
) -> Match:
    """The match with these hyper-parameters fitted by Gauss-Newton, positive ones in the logarithm, if that is nearer.

    Args:
        match: where to begin.
        fields: the hyper-parameters.
        batch, target: what is compared.
        starts: factors on the positive ones; the nearest of these is where the iteration begins.
        options: of `scipy.optimize.least_squares`.
    """
    from scipy.optimize import least_squares

    loss, size = match.loss, float(np.linalg.norm(target))
    rules = {field.name: field.metadata.get("rule", "any") for field in dataclasses.fields(loss)}
    logarithmic = np.array([rules[field] == "positive" for field in fields])

    def at(x: Float[np.ndarray, "fields"]) -> Loss:
        values = np.where(logarithmic, np.exp(np.where(logarithmic, np.clip(x, -12, 12), 0)), x)
        return _with(loss, dict(zip(fields, values.tolist(), strict=True)))

    def residual(x: Float[np.ndarray, "fields"]) -> Float[np.ndarray, "entries"]:
        closed = _coefficients(at(x), batch)
        if closed is None or not np.any(closed):
            return target / size
        left: np.ndarray = target - closed * (closed @ target / (closed @ closed))
        return left / size

    here = np.array([getattr(loss, field) for field in fields], dtype=float)
    here = np.where(logarithmic, np.log(np.where(logarithmic, np.maximum(here, 1e-300), 1)), here)
    begins = [here + np.where(logarithmic, np.log(factor), 0) for factor in starts]
    if not logarithmic.any():
        begins = begins[:1]
    with np.errstate(all="ignore"):
        begin = min(begins, key=lambda x: float(np.linalg.norm(residual(x)))) if begins[1:] else begins[0]
        candidate = at(least_squares(residual, begin, **options).x)
    factor, mismatch = _compare(candidate, batch, target)
    better = mismatch < match.mismatch
    return dataclasses.replace(match, loss=candidate, factor=factor, mismatch=mismatch) if better else match
