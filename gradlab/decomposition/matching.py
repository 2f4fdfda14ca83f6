"""Third step of `decompose`: find the registered loss with these components, up to a common factor.

Hyper-parameters are fitted: roughly for every loss, from the best of a few starting points, then to
the last digit for the closest losses.
"""

from __future__ import annotations

import bisect
import contextlib
import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from gradlab.arrays import Float
from gradlab.batch.batch import Batch
from gradlab.errors import GradlabError, listed
from gradlab.losses.base import Loss
from gradlab.losses.pair_loss import PairLoss
from gradlab.losses.registry import get_loss, loss_names
from gradlab.losses.temperature import OF_TRAINING
from gradlab.progress_bars import progress_bar

# Relative difference of the coefficients up to which two losses count as the same.
SAME = 1e-6
# Mismatch down to which the hyper-parameters of the nearest losses are fitted.
FITTED = 1e-12
# Mismatch up to which a loss counts as found; rounding in single precision can leave as much.
PRACTICALLY = 1e-3
# Number of losses fitted to the last digit; symmetric ones within this factor of the best mismatch.
REFINED, CLOSE = 5, 10.0
# Factors on positive hyper-parameters from which the rough fit starts.
_STARTS = (1 / 16, 1 / 4, 1.0, 4.0, 16.0)
_ROUGH: dict[str, Any] = {"xtol": 1e-3, "ftol": 1e-3, "gtol": 1e-10, "max_nfev": 15}
_EXACT: dict[str, Any] = {"xtol": 1e-12, "ftol": 1e-14, "gtol": 1e-14, "max_nfev": 50}
# A margin this wide opens every gate: no two cosines, chords or angles differ by more.
WIDEST = 4.0
_STEPS = 2**34  # steps in the interval [-WIDEST, WIDEST], of 5e-10 each


@dataclasses.dataclass(frozen=True)
class Target:
    """Coefficients to compare losses with, and the batch on which they were found.

    Attributes:
        values: coefficients of the negatives, row by row in the columns of `Decomposition.weight`,
            then of the positives.
        batch: the batch in numpy, with the views in the order that a loss takes.
        side: ``"anchors"`` or ``"positives"``: the view whose coefficients these are.
    """

    values: Float[np.ndarray, "entries"]
    batch: Batch
    side: str

    @property
    def sentences(self) -> int:
        """Number of sentences N."""
        return len(self.batch.anchors)

    def split(self, values: Float[np.ndarray, "entries"]) -> tuple[np.ndarray, np.ndarray]:
        """Split coefficients into those of negatives, (n, columns), and of positives, (n,)."""
        negatives, positive = np.split(values, [-self.sentences])
        return negatives.reshape(self.sentences, -1), positive

    def coefficients(self, loss: Loss) -> Float[np.ndarray, "entries"] | None:
        """Return the closed form's coefficients in the order of `values`; None if it has none."""
        try:
            with np.errstate(all="ignore"):
                if self.side == "anchors":
                    components = loss.components_of(self.batch)
                else:
                    components = loss.sides_of(self.batch)[1]
                negatives = components.gradient_dissipation[:, None] * components.weight
                positive = components.pull
        except (GradlabError, ValueError):
            return None
        if positive.ndim != 1 or not (np.isfinite(negatives).all() and np.isfinite(positive).all()):
            return None
        n, extra = self.sentences, self.batch.extra_negatives
        widths = {"other": n, "same": n, "extra": 0 if extra is None else len(extra)}
        blocks = {name: np.zeros((n, width)) for name, width in widths.items()}
        blocks |= {name: negatives[:, columns] for name, columns in components.columns.items()}
        return np.append(np.concatenate(list(blocks.values()), axis=1), positive)

    def compare(self, loss: Loss) -> tuple[float, float]:
        """Return the best common factor and the relative mismatch that remains."""
        closed = self.coefficients(loss)
        if closed is None or not np.any(closed):
            return 0.0, 1.0
        fitted, factor = _projected(self.values, closed)
        if not np.isfinite(factor):
            return 0.0, 1.0
        norm = np.linalg.norm
        whole, splits = norm(self.values), map(self.split, (self.values - fitted, self.values))
        return factor, max(
            float(norm(difference) / (norm(block) or whole))
            for difference, block in zip(*splits, strict=True)
        )


@dataclasses.dataclass(frozen=True)
class Match:
    """A registered loss and the mismatch between its components and those found.

    Attributes:
        loss: the loss, with fitted hyper-parameters.
        factor: found coefficients over the loss's; 1/N if the found loss averages over anchors.
        mismatch: norm of the difference relative to the norm of the found coefficients, for the
            negatives or the positives, whichever is larger.
        undetermined: name -> (low, high) of gate hyper-parameters fixed only to an interval.
        free: hyper-parameters of which any value fits this batch, with another factor; only of the
            nearest loss, if it counts as found.
    """

    loss: Loss
    factor: float
    mismatch: float
    undetermined: Mapping[str, tuple[float, float]] = dataclasses.field(default_factory=dict)
    free: tuple[str, ...] = ()

    @property
    def same(self) -> bool:
        """Whether the mismatch is at most `SAME`."""
        return self.mismatch <= SAME

    @property
    def name(self) -> str:
        """Name of the loss, such as ``infonce`` or ``symmetric(infonce)``."""
        name = self.base.name
        return name if self.base is self.loss else f"{self.loss.name}({name})"

    @property
    def base(self) -> Loss:
        """The loss; for a symmetric loss that of one direction."""
        return _base(self.loss)

    def words(self) -> str:
        """Return the loss in words, such as ``InfoNCE with temperature 0.05``."""
        fields = [
            f"{name.replace('_', ' ')} {value:.3g}"
            for name, value in _hyperparameters(self.loss).items()
            if name not in self.free
        ]
        title = self.base.title.partition(" (")[0]
        direction = "" if self.base is self.loss else "symmetric "
        return f"{direction}{title}{' with ' if fields else ''}{listed(fields)}"

    def text(self, sentences: int) -> str:
        """Return the loss as text, such as ``infonce(temperature=0.05), divided by N = 64``."""
        values = _hyperparameters(self.loss).items()
        fields = ", ".join(f"{name}={value:.6g}" for name, value in values)
        text = f"{self.base.name}({fields})"
        text = text if self.base is self.loss else f"{self.loss.name}({text})"
        if abs(self.factor * sentences - 1) < SAME:
            text += f", divided by N = {sentences}"
        elif abs(self.factor - 1) >= SAME:
            text += f", times {self.factor:.6g}"
        for name, (low, high) in self.undetermined.items():
            within = f"between {low:.4g} and {high:.4g}" if high < WIDEST else f"above {low:.4g}"
            text += f" (any {name} {within} opens the same gates)"
        return text


def nearest_losses(target: Target) -> list[Match]:
    """Return registered losses sorted by mismatch, simpler losses first among equals.

    If no loss matches, losses of pairs in both directions are tried too. Losses that have nothing
    in common with the target are left out, as are all if no negative acts.
    """
    if not np.any(target.values[: -target.sentences]):
        return []
    losses = []
    for name in loss_names():
        with contextlib.suppress(GradlabError, TypeError):  # not every loss has defaults
            losses.append(get_loss(name))
    matches = _fits(losses, target, "")
    nearest = min((match.mismatch for match in matches), default=1.0)
    if not any(match.same for match in matches):
        pairs = [get_loss("symmetric", loss=loss) for loss in losses if isinstance(loss, PairLoss)]
        matches += _fits(pairs, target, " in both directions", nearest)
        nearest = min((match.mismatch for match in matches), default=1.0)
    # A further hyper-parameter must remove a tenth of the mismatch, or it explains nothing, like a
    # margin of 2e-8. It must remove half of a mismatch that can be single-precision noise, which
    # any parameter fits.
    least = max(SAME, (2 if nearest <= PRACTICALLY else 1.1) * nearest)

    def rank(match: Match) -> tuple[float, ...]:
        if match.mismatch > least:
            return (match.mismatch,)
        names = {field.name for field in dataclasses.fields(match.base)}
        # Two digits decide, because some losses are the same function.
        rounded = 0.0 if match.same else float(f"{match.mismatch:.2g}")
        return least, len(names - set(OF_TRAINING)), rounded, match.base.table_order

    ranked = sorted((match for match in matches if match.factor), key=rank)
    ranked[:1] = [
        dataclasses.replace(match, free=_undetermined_settings(match, target))
        for match in ranked[:1]
    ]
    return ranked


def lines_on_losses(
    matches: Sequence[Match], nearest: Sequence[Match], sentences: int
) -> Iterator[tuple[str, str]]:
    """Yield labels and texts: losses with the same components, or else the three nearest ones."""
    same = [match for match in matches if match.same]
    if same:
        yield "these are the components of", same[0].text(sentences)
        yield "", f"(they agree to {same[0].mismatch:.1g})"
        if further := ", ".join(match.name for match in same[1:]):
            yield "on this batch also of", further
        return
    for place, match in enumerate(nearest[:3]):
        text = f"{match.text(sentences)}: {match.mismatch:.2g}"
        yield ("", text) if place else ("nearest registered losses", f"{text} relative")


def _projected(
    values: Float[np.ndarray, "entries"], closed: Float[np.ndarray, "entries"]
) -> tuple[Float[np.ndarray, "entries"], float]:
    """Return the multiple of ``closed`` that is nearest to ``values``, and the factor."""
    unit = float(np.abs(closed).max())
    scaled = closed / unit  # squares of coefficients of closed gates underflow
    factor = float(scaled @ values / (scaled @ scaled))
    with np.errstate(over="ignore"):
        return factor * scaled, float(np.float64(factor) / unit)


def _undetermined_settings(match: Match, target: Target) -> tuple[str, ...]:
    """Return the hyper-parameters that can change without a larger mismatch.

    All negatives at one angle, say, leave nothing but a factor for a temperature to change.
    """
    if match.mismatch > PRACTICALLY:
        return ()
    enough = max(SAME, 1.1 * match.mismatch)

    def fits(name: str, value: float) -> bool:
        changed = _with(match.loss, {name: value})
        return changed != match.loss and target.compare(changed)[1] <= enough

    return tuple(
        name
        for name, value in _hyperparameters(match.loss).items()
        if name not in match.undetermined and fits(name, 1.1 * value)
    )


def _fits(
    losses: Sequence[Loss], target: Target, direction: str, least: float = 1.0
) -> list[Match]:
    """Return fits of the losses that have components here, the nearest to the last digit.

    ``least`` is the smallest mismatch so far.
    """
    title = f"comparing with registered losses{direction}"
    bar = progress_bar(losses, True, desc=title, unit=" losses")
    rough = [match for loss in bar if (match := _fit(loss, target)) is not None]
    ranked = sorted(rough, key=lambda match: match.mismatch)
    near = [match for match in ranked[:REFINED] if match.mismatch <= CLOSE * least]
    return [_fitted(match, target, enough=FITTED, **_EXACT) for match in near] + ranked[len(near) :]


def _fit(loss: Loss, target: Target) -> Match | None:
    """Return a rough fit of the loss, or None if it has no components here."""
    at_default = target.coefficients(loss)
    if at_default is None or at_default.shape != target.values.shape:
        return None
    if not np.any((at_default != 0) & (target.values != 0)) and np.any(at_default):
        return Match(loss, 0.0, 1.0)  # nothing in common, such as negatives of the other view only
    undetermined = {}
    for field in _gates(loss, target, at_default):
        interval = _open_gates(loss, field, target)
        if interval is not None:
            loss = _with(loss, {field: _inside(getattr(_base(loss), field), interval)})
            undetermined[field] = interval
    return _fitted(Match(loss, *target.compare(loss), undetermined), target, _STARTS, **_ROUGH)


def _fitted(
    match: Match,
    target: Target,
    starts: Sequence[float] = (1.0,),
    *,
    enough: float = SAME,
    **options: Any,
) -> Match:
    """Fit the hyper-parameters of a match with a mismatch above ``enough``; see `_least_squares`.

    A value at a limit of its range, which switches a part off, is moved only if the others do not
    suffice.
    """
    smooth = [name for name in _hyperparameters(match.loss) if name not in match.undetermined]
    fields = dataclasses.fields(match.base)
    limits = {field.name: field.metadata.get("limits", {}).values() for field in fields}
    inside = [name for name in smooth if getattr(match.base, name) not in limits[name]]
    if inside and match.mismatch > enough:
        match = _least_squares(match, inside, target, starts, **options)
    if inside != smooth and match.mismatch > SAME:
        match = _least_squares(match, smooth, target, starts, **options)
    return match


def _base(loss: Loss) -> Loss:
    """Return the loss of one direction of a symmetric loss; any other loss as it is."""
    return loss.loss if loss.name == "symmetric" else loss  # type: ignore[attr-defined]  # a combinator has one


def _with(loss: Loss, values: Mapping[str, float]) -> Loss:
    """Return the loss with other hyper-parameters, or unchanged if they are out of range."""
    base = _base(loss)
    try:
        changed = dataclasses.replace(base, **values)
    except GradlabError:
        return loss
    return changed if base is loss else dataclasses.replace(loss, loss=changed)  # type: ignore[call-arg]


def _hyperparameters(loss: Loss) -> dict[str, float]:
    """Return numeric hyper-parameters of a loss by name, without settings of their training."""
    base = _base(loss)
    names = [field.name for field in dataclasses.fields(base) if field.name not in OF_TRAINING]
    values = {name: getattr(base, name) for name in names}
    return {name: value for name, value in values.items() if type(value) in (int, float)}


def _gates(loss: Loss, target: Target, coefficients: Float[np.ndarray, "entries"]) -> list[str]:
    """Return hyper-parameters whose small change moves no coefficient, as margins of hard gates."""
    fields = []
    for field, value in _hyperparameters(loss).items():
        changed = target.coefficients(_with(loss, {field: value * (1 + 1e-9) + 1e-12}))
        if changed is not None and np.array_equal(coefficients, changed):
            fields.append(field)
    return fields


def _open_gates(loss: Loss, field: str, target: Target) -> tuple[float, float] | None:
    """Return the interval of margins that open as many gates as were found open, or None.

    Gates of anchors count first, by their pulls. Within that interval, gates of pairs do, if they
    differ there: each triplet of a `triplet` loss has its own.
    """

    def margin(step: int) -> float:
        return WIDEST * (2 * step / _STEPS - 1)

    def opened(step: int) -> int:  # grows with the margin
        coefficients = target.coefficients(_with(loss, {field: margin(step)}))
        return 0 if coefficients is None else int(np.count_nonzero(coefficients[block]))

    first, last, narrowed = 0, _STEPS, False
    for block in (slice(-target.sentences, None), slice(-target.sentences)):
        if opened(first) == opened(last - 1):
            break
        open_gates, steps = int(np.count_nonzero(target.values[block])), range(first, last)
        low = bisect.bisect_left(steps, open_gates, key=opened)
        high = bisect.bisect_right(steps, open_gates, key=opened)
        if low == high:
            break
        first, last, narrowed = first + low, first + high, True
    return (margin(first), margin(last)) if narrowed else None


def _inside(value: float, interval: tuple[float, float]) -> float:
    """Return ``value`` if it is in the interval, else the number with the fewest digits that is."""
    low, high = interval
    if low <= value <= high:
        return value
    middle = (low + high) / 2
    rounded = (float(f"{middle:.{digits}g}") for digits in range(1, 17))
    return next((number for number in rounded if low < number < high), middle)


def _least_squares(
    match: Match, fields: list[str], target: Target, starts: Sequence[float], **options: float
) -> Match:
    """Fit hyper-parameters by least squares, positive ones in the logarithm.

    The match is kept if the fit is worse. ``starts`` are factors on the positive hyper-parameters;
    the iteration starts from the best of them.
    """
    from scipy.optimize import least_squares

    size = float(np.linalg.norm(target.values))
    rules = {
        field.name: field.metadata.get("rule", "any") for field in dataclasses.fields(match.base)
    }
    logarithmic = np.array([rules[field] == "positive" for field in fields])

    def at(x: Float[np.ndarray, "fields"]) -> Loss:
        numbers = x.copy()
        numbers[logarithmic] = np.exp(np.clip(x[logarithmic], -12, 12))
        return _with(match.loss, dict(zip(fields, numbers.tolist(), strict=True)))

    def residual(x: Float[np.ndarray, "fields"]) -> Float[np.ndarray, "entries"]:
        closed = target.coefficients(at(x))
        if closed is None or not np.any(closed):
            return target.values / size
        residuals: np.ndarray = target.values - _projected(target.values, closed)[0]
        return residuals / size

    initial = np.array([getattr(match.base, field) for field in fields], dtype=float)
    initial[logarithmic] = np.log(np.maximum(initial[logarithmic], 1e-300))
    factors = starts if logarithmic.any() else starts[:1]
    begins = [initial + logarithmic * np.log(factor) for factor in factors]
    with np.errstate(all="ignore"):
        begin = min(begins, key=lambda x: float(np.linalg.norm(residual(x))))
        candidate = at(least_squares(residual, begin, **options).x)
    factor, mismatch = target.compare(candidate)
    fitted = dataclasses.replace(match, loss=candidate, factor=factor, mismatch=mismatch)
    return fitted if mismatch < match.mismatch else match
