"""Lemma 1 and its exact form: ratios that bring an anchor closer to its positive.

A step moves the unit anchor ``h`` by ``λ (r h' - n)``: towards its positive ``h'`` with ratio
``r``, away from a negative ``n``. The unified-gradient paper (Lemma 1) gives a lower bound on ``r``
for the anchor to end closer to ``h'``, in the tangent plane. This module completes the lemma (upper
bound, feasibility) and has the exact bounds on the sphere, for three kinds of step:

- ``"tangent"``: all vectors are projected onto the tangent plane at ``h``, and distances are those
  between points of the plane.
- ``"unprojected"``: the step is taken unchanged and the result is renormalised.
- ``"projected"``: the step is projected onto the tangent plane, taken, and the result is
  renormalised. This is gradient descent on an embedding ``z`` with ``h = z/|z|``, with ``λ``
  divided by ``|z|²``.

"Closer" means "not farther", so a bound belongs to its interval. All functions take numpy arrays or
torch tensors of broadcastable shapes and return the same kind, dtype and device. Angles are in
radians.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from array_api_compat import array_namespace

from gradlab.arrays import Array, Bool, Float, Real
from gradlab.batch.similarity import PairSimilarity
from gradlab.batch.triple import (
    Numbers,
    Triple,
    as_like,
    check_broadcast,
    check_vectors,
    extremes,
    push,
    tangent,
)
from gradlab.errors import GradlabError, check_known, check_whole
from gradlab.seeds import random_generator


@dataclasses.dataclass(frozen=True, eq=False)
class RatioInterval:
    """Ratios that bring the anchor closer (not farther), elementwise."""

    low: Float[Array, "*n"]  #: lower bound, included; -inf if there is none
    high: Float[Array, "*n"]  #: upper bound, included; inf if there is none
    #: False where no ratio brings it closer; ``low`` and ``high`` are NaN there
    feasible: Bool[Array, "*n"]
    #: True where the ratios lie outside a gap, ``r >= low`` or ``r <= high`` with ``high < low``,
    #: as for projected steps on the sphere at θ > 3π/4
    outside: Bool[Array, "*n"]

    def contains(self, ratio: Numbers) -> Bool[Array, "*n"]:
        """Return whether each ratio is in the interval; False for NaN."""
        xp = array_namespace(self.low)
        ratio = as_like(ratio, self.low)
        check_broadcast(ratio=ratio.shape, interval=self.low.shape)
        above, below = ratio >= self.low, ratio <= self.high
        return self.feasible & xp.where(self.outside, above | below, above & below)


def tangent_bounds(triple: Triple, step: Numbers) -> RatioInterval:
    """Return both bounds of the completed Lemma 1 in the tangent plane, where they exist.

    ``r± = 1/λ + sin θ_neg cos α / sin θ ± √(1/λ² - sin² θ_neg sin² α / sin² θ)``, feasible if and
    only if ``λ sin θ_neg |sin α| <= sin θ`` (unified-gradient paper, Lemma 1, which has only
    ``r-``). At θ = 0 and θ = π, the anchor is the positive's projection and no ratio is feasible.

    Args:
        triple: the geometry.
        step: step size ``λ`` > 0, of any shape that broadcasts.

    Raises:
        GradlabError: the step size is not positive and finite, or shapes do not broadcast.
    """
    _, _, step = _prepare(triple, step)
    return tangent_interval(triple, step)


def tangent_interval(triple: Triple, step: Float[Array, "*#n"] | float) -> RatioInterval:
    """Return the `tangent_bounds` of a step that is known to be positive and finite."""
    s = triple.positive_sine
    xp, y = array_namespace(s), step * triple.aside
    feasible = (y <= s) & (s > 0)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        root = xp.sqrt((s - y) * (s + y))
        middle = triple.toward / s
        # r- with its cancelling difference 1/λ - √(1/λ² - q) rationalised.
        low = middle + y * triple.aside / (s + root) / s
        high = middle + (s + root) / s / step
    return _interval(xp, low, high, feasible)


def sphere_bound(triple: Triple, step: Numbers) -> RatioInterval:
    """Return the exact bound for an unprojected, renormalised step: closer iff ``r >= low``.

    ``low = e + c (ρ/s - 1)/λ``, where ``e`` is the cosine of positive and negative, ``c = cos θ``,
    ``s = sin θ`` and ``ρ`` is the distance of ``h - λ n`` from the line of the positive; ``high``
    is inf. At θ = 0 no ratio is feasible, at θ = π every ratio is. Arguments and `GradlabError`s
    are those of `tangent_bounds`.
    """
    xp, s, step = _prepare(triple, step)
    c = triple.positive_cosine
    # The negative's component along the anchor's offset, (s, -c), from the positive's line.
    offset = s * triple.radial - c * triple.toward
    rho = xp.hypot(s - step * offset, step * triple.aside)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        # ρ/s - 1 = (ρ² - s²)/(s (s + ρ)), and ρ² - s² without the s² that cancels.
        change = (
            (step * (offset * offset + triple.aside * triple.aside) - 2 * s * offset)
            / (s + rho)
            / s
        )
        low = triple.cross_cosine + c * change
    low = xp.where((s == 0) & (c < 0), -xp.inf, low)
    return _interval(xp, low, xp.full_like(low, xp.inf), (s > 0) | (c < 0))


def projected_sphere_bounds(triple: Triple, step: Numbers) -> RatioInterval:
    """Return the exact bounds for a step that is projected onto the tangent plane and renormalised.

    With ``y = λ aside`` and ``Δ = s² - y² cos 2θ``, there are three regimes of the anchor-positive
    angle θ. Below π/4, ``Δ >= 0`` and ``low <= r <= high``. From π/4 to 3π/4, ``r >= low``. Above
    3π/4, ``r >= low`` or ``r <= high``, or any ratio if ``Δ < 0``. At θ = 0 no ratio is feasible,
    at θ = π every ratio is. Arguments and `GradlabError`s are those of `tangent_bounds`.
    """
    xp, s, step = _prepare(triple, step)
    c, y = triple.positive_cosine, step * triple.aside
    cosine_2 = (c - s) * (c + s)
    narrow, wide = (cosine_2 > 0) & (c > 0), (cosine_2 > 0) & (c < 0)
    m = y * xp.sqrt(xp.abs(cosine_2))
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        root = xp.where(cosine_2 > 0, xp.sqrt((s - m) * (s + m)), xp.hypot(s, m))
        middle = triple.toward / s
        low = middle + c * y * triple.aside / (s + root) / s
        high = middle + c * (s + root) / s / step / cosine_2
    anything = wide & ((m > s) | (s == 0))
    low = xp.where(anything, -xp.inf, low)
    high = xp.where(anything | ~(narrow | wide), xp.inf, high)
    return _interval(xp, low, high, ~narrow | ((m <= s) & (s > 0)), outside=wide & ~anything)


KINDS: dict[str, Callable[[Triple, Numbers], RatioInterval]] = {
    "tangent": tangent_bounds,
    "unprojected": sphere_bound,
    "projected": projected_sphere_bounds,
}


def ratio_bounds(triple: Triple, step: Numbers, kind: str = "projected") -> RatioInterval:
    """Return the interval of ratios for a ``tangent``, ``unprojected`` or ``projected`` step.

    Raises:
        GradlabError: unknown kind, step not positive and finite, or shapes that do not broadcast.
    """
    check_known("kind of step", kind, KINDS)
    return KINDS[kind](triple, step)


def gets_closer(
    ratio: Numbers, triple: Triple, step: Numbers, kind: str = "projected"
) -> Bool[Array, "..."]:
    """Return whether a step with ``ratio`` gets closer; `GradlabError` as in `ratio_bounds`."""
    return ratio_bounds(triple, step, kind).contains(ratio)


def many_negatives_bound(
    anchor: Float[Array, "*#n d"],
    positive: Float[Array, "*#n d"],
    negatives: Float[Array, "*_ k d"],
    weight: Real[Array, "*#n k"] | Sequence[float],
    step: Numbers,
    kind: str = "projected",
    bound: str = "positive_weight",
) -> RatioInterval:
    """Return the bounds for a step ``λ (P h' - Σ_j W_j n_j)``: many negatives, weights of any sign.

    For the `Components` of a loss, ``λ`` is the learning rate times the gradient dissipation, ``W``
    the weight and ``P = Σ_j W_j R_j`` the positive weight. Leave out anchors with zero dissipation.

    Args:
        anchor: unit rows.
        positive: unit rows.
        negatives: unit rows ``(*n, k, d)``, or ``(k, d)`` for every anchor.
        weight: weights of the negatives, ``(*n, k)``.
        step: step size ``λ`` > 0.
        kind: ``tangent``, ``unprojected`` or ``projected``.
        bound: quantity to bound. ``"positive_weight"`` bounds ``P``, with weights of any sign.
            ``"ratio"`` bounds ``P / Σ W``, which needs a positive sum; it is the bound for the
            single negative ``Σ W n / Σ W`` and the step ``λ Σ W``.

    Raises:
        GradlabError: bad vectors, step or names, or ``bound="ratio"`` without a positive sum.
    """
    check_known("bound", bound, ("positive_weight", "ratio"))
    triple = Triple.from_vectors(anchor, positive, negatives, weight)
    if bound == "positive_weight":
        return ratio_bounds(triple, step, kind)
    xp = array_namespace(triple.toward)
    total = xp.sum(as_like(weight, triple.toward), axis=-1)
    if not bool(xp.all(total > 0)):
        raise GradlabError(
            "bound='ratio' needs a positive sum of weights for every anchor; "
            "bound='positive_weight' does not"
        )
    check_broadcast(step=as_like(step, total).shape, weights=total.shape)
    averages = {name: getattr(triple, name) / total for name in ("radial", "toward", "aside")}
    mean = dataclasses.replace(triple, **averages)
    return ratio_bounds(mean, as_like(step, total) * total, kind)


@dataclasses.dataclass(frozen=True, eq=False)
class Step:
    """Result of a step."""

    #: anchor after the step: a unit vector; for ``tangent`` a point of the tangent plane
    anchor: Float[Array, "*n d"]
    #: angle to the positive, radians; for ``tangent`` the distance in the plane
    before: Float[Array, "*n"]
    after: Float[Array, "*n"]  #: angle or distance to the positive after the step
    closer: Bool[Array, "*n"]  #: whether the anchor is not farther than before


def take_step(
    anchor: Float[Array, "*#n d"],
    positive: Float[Array, "*#n d"],
    negative: Float[Array, "*_ d"],
    ratio: Numbers,
    step: Numbers,
    kind: str = "projected",
    weight: Real[Array, "*#n k"] | Sequence[float] | None = None,
) -> Step:
    """Move the anchor by ``λ (r h' - n)``, renormalise, and measure its angle to the positive.

    The angle comes from chords. The computation uses no bound, and serves to check the bounds. The
    new anchor is rounded to its dtype: a change of angle below the rounding unit is not resolved.

    Args:
        anchor: unit rows.
        positive: unit rows.
        negative: unit rows, ``(*n, d)``, or with ``weight`` ``(*n, k, d)`` or ``(k, d)``.
        ratio: ratio ``r``; with ``weight``, the positive weight ``P = Σ_j W_j R_j``.
        step: step size ``λ`` > 0.
        kind: ``tangent``, ``unprojected`` or ``projected``.
        weight: weights of any sign, for a step ``λ (P h' - Σ_j W_j n_j)``; None for one negative.

    Raises:
        GradlabError: vectors, step, weight or kind are bad, or the ratio is not finite.
    """
    check_known("kind of step", kind, KINDS)
    anchor, positive, negative, weight = check_vectors(anchor, positive, negative, weight)
    xp = array_namespace(anchor)
    ratio, step = as_like(ratio, anchor), _check_step(as_like(step, anchor))
    check_broadcast(anchor=anchor.shape[:-1], ratio=ratio.shape, step=step.shape)
    ratio, step = ratio[..., None], step[..., None]
    if not bool(xp.all(xp.isfinite(ratio))):
        raise GradlabError("ratio must be finite")
    pull, (total, pushed) = tangent(anchor, positive), push(anchor, negative, weight)
    moved = step * (ratio * positive - total if kind == "unprojected" else ratio * pull - pushed)
    end = anchor + moved
    norm = xp.linalg.vector_norm
    if kind == "tangent":
        before, after = norm(pull, axis=-1), norm(pull - moved, axis=-1)
        return Step(end, before, after, after <= before)
    with np.errstate(invalid="ignore"):
        end = end / norm(end, axis=-1, keepdims=True)
    old, new = (PairSimilarity.from_vectors(rows, positive) for rows in (anchor, end))
    # tan(θ/2) = chord/antichord is relatively accurate near 0 and near π.
    return Step(end, old.angle, new.angle, new.chord * old.antichord <= old.chord * new.antichord)


@dataclasses.dataclass(frozen=True)
class LemmaAccuracy:
    """Accuracy of Lemma 1 for steps on the sphere, as shares of triples."""

    step: float  #: step size ``λ``
    kind: str  #: kind of step
    closer: float  #: the step brings the anchor closer (the accuracy of always answering yes)
    #: the published rule, ``r > r-``, decides correctly; it answers no if ``r-`` is undefined
    published: float
    completed: float  #: the completed lemma, feasible and ``r- <= r <= r+``, decides correctly
    false_yes: float  #: the published rule answers yes, but the anchor ends farther away
    false_no: float  #: the published rule answers no, but the anchor ends closer
    undefined: float  #: ``r-`` is undefined (a negative number under the root)


def random_triples(
    samples: int = 200_000, seed: int = 0
) -> tuple[Triple, Float[Array, "{samples}"]]:
    """Draw random triples and ratios, independent and uniform over the papers' ranges.

    The anchor-positive angle is in [π/20, π/2], the anchor-negative angle in [π/20, π], the
    dihedral angle in [0, π] and the ratio in [0.25, 2].

    Raises:
        GradlabError: ``samples`` is less than 1.
    """
    check_whole("samples", samples, 1)
    draw = random_generator(seed).uniform
    triple = Triple.from_angles(
        draw(math.pi / 20, math.pi / 2, samples),
        draw(math.pi / 20, math.pi, samples),
        draw(0.0, math.pi, samples),
    )
    return triple, draw(0.25, 2.0, samples)


def lemma_accuracy(
    step: float,
    kind: str = "projected",
    triple: Triple | None = None,
    ratio: Numbers | None = None,
    *,
    samples: int = 200_000,
    seed: int = 0,
) -> LemmaAccuracy:
    """Measure how often Lemma 1 correctly tells if a step on the sphere brings the anchor closer.

    Args:
        step: step size ``λ`` > 0.
        kind: ``projected`` or ``unprojected``.
        triple: geometry to measure on, given with ``ratio``; None draws `random_triples`.
        ratio: ratios, of the same shape as the triple's fields.
        samples: number of random triples.
        seed: seed of the random triples.

    Raises:
        GradlabError: step or kind is bad, or only one of ``triple`` and ``ratio`` is given.
    """
    if (triple is None) != (ratio is None):
        raise GradlabError("give triple and ratio together, or neither")
    if np.ndim(step):
        raise GradlabError(f"step must be one number, not an array of shape {np.shape(step)}")
    if triple is None:
        triple, ratio = random_triples(samples, seed)
    lemma = tangent_bounds(triple, step)
    closer = gets_closer(ratio, triple, step, kind)
    yes = as_like(ratio, lemma.low) > lemma.low  # NaN where undefined, and so False

    def share(condition: Bool[Array, "..."]) -> float:
        xp = array_namespace(condition)
        return float(xp.mean(xp.astype(condition, xp.float64)))

    return LemmaAccuracy(
        step=float(step),
        kind=kind,
        closer=share(closer),
        published=share(yes == closer),
        completed=share(lemma.contains(ratio) == closer),
        false_yes=share(yes & ~closer),
        false_no=share(~yes & closer),
        undefined=share(~lemma.feasible),
    )


def _interval(
    xp: Any,
    low: Float[Array, "*#n"],
    high: Float[Array, "*#n"],
    feasible: Bool[Array, "*#n"],
    outside: Bool[Array, "*#n"] | None = None,
) -> RatioInterval:
    outside = xp.zeros_like(feasible) if outside is None else outside
    low, high, feasible, outside = xp.broadcast_arrays(low, high, feasible, outside)
    return RatioInterval(
        xp.where(feasible, low, xp.nan), xp.where(feasible, high, xp.nan), feasible, outside
    )


def _prepare(triple: Triple, step: Any) -> tuple[Any, Float[Array, "*#n"], Float[Array, "*#n"]]:
    """Return the array namespace, ``sin θ`` and the checked step."""
    s = triple.positive_sine
    step = _check_step(as_like(step, s))
    check_broadcast(**{name: field.shape for name, field in vars(triple).items()}, step=step.shape)
    return array_namespace(s), s, step


def _check_step(step: Float[Array, "*n"]) -> Float[Array, "*n"]:
    xp = array_namespace(step)
    if not bool(xp.all((step > 0) & xp.isfinite(step))):
        raise GradlabError(f"the step size must be positive and finite (got {extremes(step)})")
    return step
