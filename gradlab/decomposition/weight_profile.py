"""How does the weight of a negative depend on its cosine, within the rows of a batch?

In each row i, the logarithm of a coefficient is compared with a line in the cosine, ``c_i + b s``,
which is a softmax of temperature 1/b; with lines of a slope for each row; with a line that steps at
one cosine; and with polynomials, of which a parabola is a bell. The first comparison that explains
the coefficients is the sentence that their author would say.
"""

from __future__ import annotations

import dataclasses
import itertools
import math

import numpy as np

from gradlab.arrays import Bool, Float, Int
from gradlab.errors import listed

Coefficients = Float[np.ndarray, "n k"]
Entries = Float[np.ndarray, "entries"]
Rows = Int[np.ndarray, "entries"]
# Residual of an explanation relative to the spread of the logarithms within rows.
EXPLAINED = 0.02
# Residual of the line from which another explanation is sought; it must remove most of it.
UNEXPLAINED, MOST = 1e-4, 5.0
# Smallest step of a weight at a cosine, as a factor.
STEP = 1.1
# Part of a row's largest coefficient from which its logarithm counts: below it is rounding.
FAINT = 1e-9
# The same where all of them have no explanation: coefficients with few wrong digits, and those that
# matter.
ROUNDED, NOTICED = 1e-6, 1e-2
# Smallest change of the temperature between rows, as a factor.
VARIED = 1.05
# Smallest change of the sharpness between near and far negatives, as a factor.
SHARPER = 1.1
# Rank correlation from which temperatures follow the positive's angle.
FOLLOWS = 0.9
# Degree of the polynomial that stands for any smooth weight.
DEGREE = 8
# Cosines at which a step is looked for first.
COARSE = 64
# Share of pairs below which they are exceptions; rounds in which their line is found.
FEW, ROUNDS = 0.2, 50


def is_monotone(coefficients: Coefficients, cosines: Coefficients) -> bool:
    """Return whether nearer negatives never have less weight within any row, rounding aside."""
    for row, cosine in zip(coefficients, cosines, strict=True):
        negatives = np.isfinite(cosine)
        weights = row[negatives][np.argsort(cosine[negatives], kind="stable")]
        falls = np.diff(weights)
        if falls.size and falls.min() < -1e-6 * np.abs(weights).max():
            return False
    return True


def profile_sentence(
    coefficients: Coefficients,
    cosines: Coefficients,
    angles: Float[np.ndarray, "n"],
    *,
    all_push: bool = True,
) -> str:
    """Return a sentence on the weight by cosine; empty if it is a plain softmax or unexplained.

    Args:
        coefficients: of the negatives.
        cosines: to the negatives; -inf where a column is not a negative of the row.
        angles: to the positive, radians.
        all_push: whether hardly any negative attracts. Only then are faint ones left aside.
    """
    if limits := beyond_a_limit(coefficients, cosines, angles):
        return limits
    for least in (FAINT, ROUNDED, NOTICED) if all_push else (FAINT,):
        used = _in_use(coefficients, cosines, least)
        if not used.any():
            return ""
        rows, _ = np.nonzero(used)
        nearest = np.where(used, cosines, np.inf).min(1, keepdims=True)
        left_out = int((np.isfinite(cosines) & (coefficients == 0) & (cosines > nearest)).sum())
        explained = _explained(np.log(coefficients[used]), cosines[used], rows, angles, left_out)
        if explained is not None:
            break
    return explained or ""


def beyond_a_limit(
    coefficients: Coefficients,
    cosines: Coefficients,
    angles: Float[np.ndarray, "n"],
    noun: str = "negatives",
) -> str:
    """Return a sentence if exactly the negatives beyond one cosine have no weight.

    The limit is a cosine, what it exceeds the positive's by, or a share of the positive's.
    """
    own = np.cos(angles)[:, None]
    with np.errstate(divide="ignore"):
        of_own = np.where(own > 0, cosines / own, -np.inf)
    kinds = {
        "with a cosine": (cosines, ""),
        "whose cosine less the positive's is": (cosines - own, ""),
        "whose cosine is": (of_own, " of the positive's"),
    }
    for words, (values, of_positive) in kinds.items():
        acting = np.isfinite(values) & (coefficients != 0).any(1, keepdims=True)
        zero, pushed = values[acting & (coefficients == 0)], values[acting & (coefficients != 0)]
        if len(zero) < 4 or len(pushed) < 4:
            return ""
        if zero.min() > pushed.max():
            limit = f"{(zero.min() + pushed.max()) / 2:.2g}{of_positive}"
            return f"It leaves {noun} {words} above {limit} out, as false ones."
        if zero.max() < pushed.min():
            limit = f"{(zero.max() + pushed.min()) / 2:.2g}{of_positive}"
            return f"It leaves {noun} {words} below {limit} alone."
    return ""


@dataclasses.dataclass(frozen=True)
class _Profile:
    """Logarithms of the coefficients, minus the mean of their row, with their cosines and rows."""

    values: Entries
    cosines: Entries
    rows: Rows

    @property
    def size(self) -> float:
        """Norm of the values."""
        return float(np.linalg.norm(self.values))

    def fit(self, *columns: Entries) -> tuple[float, Float[np.ndarray, "columns"]]:
        """Return the relative residual of the best sum of columns, and its factors."""
        matrix = np.stack(columns, 1)
        factors = np.linalg.lstsq(matrix, self.values, rcond=None)[0]
        return float(np.linalg.norm(self.values - matrix @ factors)) / self.size, factors

    def weighted_line(self, weights: Entries) -> tuple[Entries, float]:
        """Return residuals and slope of a line with an intercept for each row."""
        sums = np.maximum(np.bincount(self.rows, weights), 1e-300)

        def centred(values: Entries) -> Entries:
            means = np.bincount(self.rows, weights * values) / sums
            around: np.ndarray = values - means[self.rows]
            return around

        values, line = centred(self.values), centred(self.cosines)
        slope = float((weights * line) @ values / ((weights * line) @ line))
        return values - slope * line, slope


def softmax_temperature(coefficients: Coefficients, cosines: Coefficients) -> float:
    """Return the temperature of the softmax that the weights of all rows are; NaN if none is."""
    used = _in_use(coefficients, cosines)
    if not used.any():
        return math.nan
    rows, _ = np.nonzero(used)
    profile = _Profile(_centred(np.log(coefficients[used]), rows), cosines[used], rows)
    if profile.size == 0:
        return math.nan
    misfit, (slope,) = profile.fit(_centred(cosines[used], rows))
    return 1 / float(slope) if misfit < EXPLAINED and slope > 0 else math.nan


def _explained(
    logarithms: Entries,
    cosines: Entries,
    rows: Rows,
    angles: Float[np.ndarray, "n"],
    left_out: int,
) -> str | None:
    """Return the sentence of the first explanation that leaves almost nothing; None without any.

    The sentence is empty for a plain softmax.
    """
    profile = _Profile(_centred(logarithms, rows), cosines, rows)
    if profile.size < 1e-6 * len(rows) ** 0.5:
        return "It weighs all negatives that act on an anchor alike."
    line = _centred(cosines, rows)
    misfit, (slope,) = profile.fit(line)
    if misfit < UNEXPLAINED:
        return _masked(left_out, float(slope), len(rows))
    most = min(EXPLAINED, misfit / MOST)
    return (
        _temperatures(profile, line, angles, most)
        or _step(profile, line, most)
        or _exceptions(profile)
        or _curve(profile, 2, most)
        or _curve(profile, DEGREE, most)
        or None
    )


def _centred(values: Entries, rows: Rows) -> Entries:
    """Return the values minus the mean of their row."""
    means = np.bincount(rows, values) / np.maximum(np.bincount(rows), 1)
    centred: np.ndarray = values - means[rows]
    return centred


def _temperatures(
    profile: _Profile, line: Entries, angles: Float[np.ndarray, "n"], most: float
) -> str:
    """Return a sentence if each row is a softmax with a temperature of its own."""
    rows = profile.rows
    squares = np.bincount(rows, line * line)
    slopes = np.bincount(rows, line * profile.values) / np.where(squares > 0, squares, 1)
    misfit = float(np.linalg.norm(profile.values - slopes[rows] * line)) / profile.size
    present = np.unique(rows)
    if misfit > most or len(present) < 3 or slopes[present].min() <= 0:
        return ""
    temperatures = 1 / slopes[present]
    low, high = float(temperatures.min()), float(temperatures.max())
    if high < VARIED * low:
        return ""
    ranks = np.argsort(np.argsort(np.stack([angles[present], temperatures]), axis=1), axis=1)
    agreement = float(np.asarray(np.corrcoef(ranks))[0, 1])
    way = "higher" if agreement > 0 else "lower"
    follows = f", {way} the farther the positive" if abs(agreement) > FOLLOWS else ""
    return (
        "Each anchor has a softmax with a temperature of its own, "
        f"from {low:.2g} to {high:.2g}{follows}."
    )


def _step(profile: _Profile, line: Entries, most: float) -> str:
    """Return a sentence if the weight steps at one cosine, beside a softmax."""
    ordered = np.unique(profile.cosines)

    def at(place: int) -> tuple[float, float, float, float]:
        above = (profile.cosines >= ordered[place]).astype(float)
        misfit, (slope, step) = profile.fit(line, _centred(above, profile.rows))
        limit = float(ordered[place - 1] + ordered[place]) / 2
        return misfit, float(slope), float(step), limit

    width = max(1, len(ordered) // COARSE)
    coarse = min(range(1, len(ordered), width), key=lambda place: at(place)[0])
    near = range(max(1, coarse - width), min(len(ordered), coarse + width + 1))
    misfit, slope, step, limit = min(map(at, near))
    if misfit > most or abs(step) < np.log(STEP):
        return ""
    times = f"{'only ' if step < 0 else ''}{np.exp(step):.2g} times as much"
    shape = f", beside a softmax of temperature {1 / slope:.2g}" if slope > 0 else ""
    return f"It counts negatives with a cosine above {limit:.2g} {times}{shape}."


def _exceptions(profile: _Profile) -> str:
    """Return a sentence if a few pairs differ from a softmax that all others follow exactly.

    The line has the least sum of absolute residuals, which a few pairs do not move.
    """
    weights = np.ones_like(profile.values)
    for _ in range(ROUNDS):
        residual, slope = profile.weighted_line(weights)
        weights = 1 / np.maximum(np.abs(residual), 1e-9)
    outliers = np.abs(residual) > np.log(STEP)
    exact = np.abs(residual[~outliers]).max(initial=0) < UNEXPLAINED
    if not exact or slope <= 0 or not 0 < outliers.mean() < FEW:
        return ""
    signs = set(np.sign(residual[outliers]))
    amount = "another" if len(signs) > 1 else "more" if signs == {1.0} else "less"
    weight = "another weight" if amount == "another" else f"{amount} weight"
    return (
        f"It gives {int(outliers.sum())} of {len(outliers)} pairs {weight} than their cosine says; "
        f"the others have a softmax of temperature {1 / slope:.2g}."
    )


def _masked(left_out: int, slope: float, used: int) -> str:
    """Return a sentence if pairs between others of a softmax have no weight."""
    if not left_out or slope <= 0:
        return ""
    return (
        f"It leaves {left_out} of {left_out + used} pairs out, not by their cosine; "
        f"the others have a softmax of temperature {1 / slope:.2g}."
    )


def _curve(profile: _Profile, degree: int, most: float) -> str:
    """Return a sentence if the logarithm of the weight is a polynomial of the cosine."""
    cosines, powers = profile.cosines, range(1, degree + 1)
    misfit, factors = profile.fit(*(_centred(cosines**power, profile.rows) for power in powers))
    if misfit > most:
        return ""
    law = np.polynomial.Polynomial([0.0, *factors])
    # At cosines of the batch only: between groups of them, a polynomial may be anything.
    slope, grid = law.deriv(), np.quantile(cosines, np.linspace(0.02, 0.98, 201))
    far, near, heights = grid[0], grid[-1], law(grid)
    rises = slope(grid) > 0
    if not rises.any():
        around = ""
        if degree == 2 and factors[1] < 0:
            around = f": a bell around a cosine of {-factors[0] / (2 * factors[1]):.2g}"
        return f"Its weight falls as negatives come near{around}."
    if rises[0] and not rises[-1]:
        peak, half = float(grid[np.argmax(heights)]), ""
        if degree == 2:
            peak = -factors[0] / (2 * factors[1])
            half = f", half of that {np.sqrt(np.log(2) / -factors[1]):.2g} away"
        return (
            f"Its weight is a bell over the cosine: largest at {peak:.2g}{half}; "
            "nearer negatives are pushed less."
        )
    if not rises.all():
        return _waves(heights, grid) or _growth_by_thirds(heights, grid)
    sharpness = float(slope(far)), float(slope(near))
    return _growth(sharpness, (f"at a cosine of {far:.2g}", f"at {near:.2g}"))


def _growth(sharpness: tuple[float, float], places: tuple[str, str]) -> str:
    """Return a sentence on a weight that grows with another sharpness at near negatives."""
    if min(sharpness) <= 0 or max(sharpness) < SHARPER * min(sharpness):
        return ""
    way = "faster" if sharpness[1] > sharpness[0] else "more slowly"
    far, near = (f"{1 / slope:.2g} {place}" for slope, place in zip(sharpness, places, strict=True))
    return (
        f"Its weight grows {way} for near negatives: like a softmax of temperature {far}, {near}."
    )


def _growth_by_thirds(heights: Entries, grid: Entries) -> str:
    """Return a sentence on a weight that grows but for dips too small to matter.

    Its sharpness is that of straight lines over the far and the near third of the negatives.
    """
    third = len(grid) // 3
    ends = ((0, third), (-1 - third, -1))
    far, near = (float((heights[b] - heights[a]) / (grid[b] - grid[a])) for a, b in ends)
    below, above = (f"{grid[a]:.2g} to {grid[b]:.2g}" for a, b in ends)
    return _growth((far, near), (f"at cosines from {below}", f"from {above}"))


def _in_use(
    coefficients: Coefficients, cosines: Coefficients, least: float = FAINT
) -> Bool[np.ndarray, "n k"]:
    """Return which coefficients are pushes beyond a share of the largest, in rows of four."""
    largest = np.abs(coefficients).max(1, keepdims=True)
    used = np.isfinite(cosines) & (coefficients > least * largest)
    used &= used.sum(1, keepdims=True) >= 4
    return used if used.sum() >= 24 else np.zeros_like(used)


def _waves(heights: Entries, grid: Entries) -> str:
    """Return a sentence on a logarithm of the weight that falls and rises again."""
    ends = np.r_[-np.inf, heights, -np.inf]
    tops = np.flatnonzero((heights > ends[:-2]) & (heights > ends[2:]))
    between = itertools.pairwise(tops)
    if not any(
        min(heights[left], heights[right]) - heights[left:right].min() > np.log(STEP)
        for left, right in between
    ):
        return ""
    places = listed([f"{grid[top]:.2g}" for top in tops])
    return f"Its weight rises and falls with the cosine: most near {places}, with less between."
