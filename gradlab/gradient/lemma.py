"""Lemma 1 and its exact form: which ratios bring an anchor closer to its positive.

A step moves the unit anchor ``h`` by ``λ (r h' - n)``: towards its positive ``h'`` with ratio ``r``, away
from a negative ``n``. The unified-gradient paper (Lemma 1) asks how large ``r`` must be for the anchor to end
closer to ``h'``, and answers in the tangent plane, with a lower bound only. This module has that lemma
completed (upper bound, feasibility) and the exact answers on the sphere, for three kinds of step:

- ``"tangent"``: everything is projected onto the tangent plane at ``h``; distances are those of the plane.
- ``"unprojected"``: the step is taken as it stands and the result renormalised.
- ``"projected"``: the step is projected onto the tangent plane first, then taken and renormalised. This is
  what gradient descent on an embedding ``z`` with ``h = z/|z|`` does, with ``λ`` divided by ``|z|²``.

"Closer" means "not farther", so that a bound belongs to its interval. All functions take numpy arrays or
torch tensors of any broadcastable shapes and return the same kind, dtype and device; angles are in radians.
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
from gradlab.errors import GradlabError, check_known
from gradlab.seeds import random_generator


@dataclasses.dataclass(frozen=True, eq=False)
class RatioInterval:
    """The ratios that bring the anchor closer (not farther), elementwise."""

    low: Float[Array, "*n"]  #: lower bound, included; -inf where there is none
    high: Float[Array, "*n"]  #: upper bound, included; inf where there is none
    feasible: Bool[Array, "*n"]  #: False where no ratio does it; ``low`` and ``high`` are NaN there
    #: True where the ratios are those outside a gap, ``r >= low`` or ``r <= high`` with ``high < low``: it happens for
    #: projected steps on the sphere at θ >= 3π/4
    outside: Bool[Array, "*n"]

    def contains(self, ratio: Numbers) -> Bool[Array, "*n"]:
        """Whether each ratio is in the interval; NaN is in none."""
        xp = array_namespace(self.low)
        ratio = as_like(ratio, self.low)
        check_broadcast(ratio=ratio.shape, interval=self.low.shape)
        above, below = ratio >= self.low, ratio <= self.high
        return self.feasible & xp.where(self.outside, above | below, above & below)


def tangent_bounds(triple: Triple, step: Numbers) -> RatioInterval:
    """Lemma 1 completed: both bounds in the tangent plane, and where they exist.

    ``r± = 1/λ + sin θ_neg cos α / sin θ ± √(1/λ² - sin² θ_neg sin² α / sin² θ)``, feasible if and only if
    ``λ sin θ_neg |sin α| <= sin θ`` (unified-gradient paper, Lemma 1, which has ``r-`` alone). The anchor
    lies on the positive's projection, and no ratio is feasible, at θ = 0 and θ = π.

    Args:
        triple: the geometry.
        step: step size ``λ`` > 0, any shape that broadcasts.

    Raises:
        GradlabError: a step size that is not positive and finite.
    """
    xp, s, step = _prepare(triple, step)
    y = step * triple.aside
    feasible = (y <= s) & (s > 0)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        root = xp.sqrt((s - y) * (s + y))
        middle = triple.toward / s
        # r- with its cancelling difference 1/λ - √(1/λ² - q) rationalised.
        low = middle + y * triple.aside / (s + root) / s
        high = middle + (s + root) / s / step
    return _interval(xp, low, high, feasible)


def sphere_bound(triple: Triple, step: Numbers) -> RatioInterval:
    """Exact bound for a step taken unprojected and renormalised: closer if and only if ``r >= low``.

    ``low = e + c (ρ/s - 1)/λ`` where ``ρ`` is the distance of ``h - λ n`` from the line of the positive.
    Every ratio above serves (``high`` is inf). At θ = 0 no ratio is feasible; at θ = π every ratio is. Arguments and
    `GradlabError`s are those of `tangent_bounds`.
    """
    xp, s, step = _prepare(triple, step)
    c = triple.positive_cosine
    # Component of the negative along the anchor's offset from the positive's line: (s, -c) in the frame.
    back = s * triple.radial - c * triple.toward
    rho = xp.hypot(s - step * back, step * triple.aside)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        # ρ/s - 1 = (ρ² - s²)/(s (s + ρ)), and ρ² - s² without the s² that cancels.
        change = (step * (back * back + triple.aside * triple.aside) - 2 * s * back) / (s + rho) / s
        low = triple.cross_cosine + c * change
    low = xp.where((s == 0) & (c < 0), -xp.inf, low)
    return _interval(xp, low, xp.full_like(low, xp.inf), (s > 0) | (c < 0))


def projected_sphere_bounds(triple: Triple, step: Numbers) -> RatioInterval:
    """Exact bounds for a step projected onto the tangent plane, taken, and renormalised.

    With ``y = λ aside`` and ``Δ = s² - y² cos 2θ`` there are three regimes of the anchor-positive angle:
    below π/4, ``Δ >= 0`` and ``low <= r <= high``; below 3π/4, ``r >= low``; from 3π/4, ``r >= low`` or
    ``r <= high`` or, where ``Δ < 0``, any ratio. At θ = 0 no ratio is feasible; at θ = π every ratio is. Arguments and
    `GradlabError`s are those of `tangent_bounds`.
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
    """The interval of ratios for one kind of step: ``tangent``, ``unprojected`` or ``projected``.

    Raises:
        GradlabError: another kind, or a step that is not positive and finite.
    """
    check_known("kind of step", kind, KINDS)
    return KINDS[kind](triple, step)


def gets_closer(ratio: Numbers, triple: Triple, step: Numbers, kind: str = "projected") -> Bool[Array, "..."]:
    """Whether a step with this ratio brings the anchor closer; arguments and `GradlabError`s as of `ratio_bounds`."""
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
    """Bounds for a step ``λ (P h' - Σ_j W_j n_j)`` with many negatives and weights of any signs.

    With the `Components` of a loss, ``λ`` is the learning rate times the gradient dissipation, ``W`` the
    weight and ``P = Σ_j W_j R_j`` the positive weight. Anchors whose dissipation is zero do not move: leave
    them out.

    Args:
        anchor: unit rows.
        positive: unit rows.
        negatives: ``(*n, k, d)``, or ``(k, d)`` for every anchor.
        weight: of the negatives.
        step: ``λ`` > 0.
        kind: ``tangent``, ``unprojected`` or ``projected``.
        bound: what is bounded: ``"positive_weight"`` serves weights of any signs; ``"ratio"``, ``P / Σ W``,
            needs a positive sum, and is the single-negative bound with the mean negative ``Σ W n / Σ W``
            and the step ``λ Σ W``.

    Raises:
        GradlabError: bad vectors, step or names; ``bound="ratio"`` where weights have no positive sum.
    """
    if bound not in ("positive_weight", "ratio"):
        raise GradlabError(f"bound must be 'positive_weight' or 'ratio', not {bound!r}")
    triple = Triple.from_vectors(anchor, positive, negatives, weight)
    if bound == "positive_weight":
        return ratio_bounds(triple, step, kind)
    xp = array_namespace(triple.toward)
    total = xp.sum(as_like(weight, triple.toward), axis=-1)
    if not bool(xp.all(total > 0)):
        raise GradlabError(
            "bound='ratio' needs a positive sum of weights for every anchor; bound='positive_weight' does not"
        )
    check_broadcast(step=as_like(step, total).shape, weights=total.shape)
    mean = dataclasses.replace(
        triple, radial=triple.radial / total, toward=triple.toward / total, aside=triple.aside / total
    )
    return ratio_bounds(mean, as_like(step, total) * total, kind)


@dataclasses.dataclass(frozen=True, eq=False)
class Step:
    """A step that was taken."""

    #: where the anchor ends: a unit vector; for ``tangent`` a point of that plane
    anchor: Float[Array, "*n d"]
    before: Float[Array, "*n"]  #: angle to the positive, radians; for ``tangent`` the distance in the plane
    after: Float[Array, "*n"]  #: the same after the step
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
    """Move the anchor by ``λ (r h' - n)``, renormalise, and measure the angle to the positive by chords.

    This uses no bound: it is what the bounds are checked against. The new anchor is rounded to its dtype,
    so a change of angle below the rounding unit is not resolved.

    Args:
        anchor: unit rows.
        positive: unit rows.
        negative: unit rows, ``(*n, d)``, or with ``weight`` ``(*n, k, d)`` or ``(k, d)``.
        ratio: ``r``; with ``weight``, the positive weight ``P = Σ_j W_j R_j``.
        step: ``λ`` > 0.
        kind: ``tangent``, ``unprojected`` or ``projected``.
        weight: of any signs; the step is then ``λ (P h' - Σ_j W_j n_j)``.

    Raises:
        GradlabError: bad vectors, step, weight or kind, or a ratio that is not finite.
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
    if kind == "tangent":
        before, after = xp.linalg.vector_norm(pull, axis=-1), xp.linalg.vector_norm(pull - moved, axis=-1)
        return Step(end, before, after, after <= before)
    with np.errstate(invalid="ignore"):
        end = end / xp.linalg.vector_norm(end, axis=-1, keepdims=True)
    old, new = PairSimilarity.from_vectors(anchor, positive), PairSimilarity.from_vectors(end, positive)
    # tan(θ/2) = chord/antichord is relatively accurate near 0 and near π alike.
    return Step(end, old.angle, new.angle, new.chord * old.antichord <= old.chord * new.antichord)


@dataclasses.dataclass(frozen=True)
class LemmaAccuracy:
    """How well Lemma 1 tells what a step on the sphere does, as shares of triples."""

    step: float  #: step size ``λ``
    kind: str  #: kind of step
    closer: float  #: the step brings the anchor closer (what always answering yes would score)
    published: (
        float  #: the published rule, ``r > r-``, decides correctly; where ``r-`` is undefined it answers no
    )
    completed: float  #: the completed lemma, feasible and ``r- <= r <= r+``, decides correctly
    false_yes: float  #: the published rule promises an anchor that ends closer, and it does not
    false_no: float  #: the published rule denies it, and the anchor does end closer
    undefined: float  #: ``r-`` is undefined (a negative number under the root)


def random_triples(samples: int = 200_000, seed: int = 0) -> tuple[Triple, Float[Array, "{samples}"]]:
    """Random geometry and ratios: independent and uniform over the papers' ranges.

    Anchor-positive angle in [π/20, π/2], anchor-negative angle in [π/20, π], dihedral angle in [0, π],
    ratio in [0.25, 2].

    Raises:
        GradlabError: fewer than one sample.
    """
    if samples < 1:
        raise GradlabError(f"samples must be at least 1 (got {samples})")
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
    """Measure how often Lemma 1 decides correctly whether a step on the sphere brings the anchor closer.

    Args:
        step: ``λ`` > 0.
        kind: ``projected`` or ``unprojected``.
        triple: geometry to measure on; with ``ratio``. None: `random_triples`.
        ratio: ratios, same shape as the triple's fields.
        samples: number of random triples.
        seed: of the random triples.

    Raises:
        GradlabError: bad step or kind, or only one of ``triple`` and ``ratio``.
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
        count = float(array_namespace(condition).count_nonzero(condition))
        return count / int(math.prod(condition.shape))

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
    return RatioInterval(xp.where(feasible, low, xp.nan), xp.where(feasible, high, xp.nan), feasible, outside)


def _prepare(triple: Triple, step: Any) -> tuple[Any, Float[Array, "*#n"], Float[Array, "*#n"]]:
    """Namespace, ``sin θ`` and the checked step."""
    s = triple.positive_sine
    step = _check_step(as_like(step, s))
    check_broadcast(**{name: part.shape for name, part in vars(triple).items()}, step=step.shape)
    return array_namespace(s), s, step


def _check_step(step: Float[Array, "*n"]) -> Float[Array, "*n"]:
    xp = array_namespace(step)
    if not bool(xp.all((step > 0) & xp.isfinite(step))):
        raise GradlabError(f"the step size must be positive and finite (got {extremes(step)})")
    return step
