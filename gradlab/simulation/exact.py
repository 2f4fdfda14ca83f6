"""Mean gradient dissipation by quadrature, accurate to 1e-10 for up to 10,000 negatives.

With a million negatives at mean angles of 0, a hard gate is off by up to 1e-8, because its
threshold is a cosine.

A loss sees a normally distributed angle only through its cosine, so the angle is folded to [0, π].
The folded density is smooth there, and composite Gauss-Legendre panels converge to rounding error.
Negatives are independent and have one distribution, or two if there are own negatives. The rest of
the computation is a matrix product over the grid of mean angles.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from gradlab.arrays import Bool, Float
from gradlab.errors import GradlabError
from gradlab.losses.exact_gates import ConstantGate, ExactGate, HardGate, SoftGate, SumGate
from gradlab.simulation.grid_and_result import AngleGrid

Logit = Callable[[Float[np.ndarray, "*n"]], Float[np.ndarray, "*n"]]  # of angles in [0, π]
Grid = Float[np.ndarray, "p q"]
Means = Float[np.ndarray, "p"]
Nodes = Float[np.ndarray, "a"]
Panels = tuple[Nodes, Nodes]  # nodes, and their weights
Rule = tuple[Nodes, Float[np.ndarray, "p a"]]  # nodes, and for each mean angle their weights

REACH = 8.5  # half-width of the integration range in spreads; the tails beyond weigh 2e-17
NODES = 12  # Gauss-Legendre nodes per panel
WIDEST_PANEL = 0.25  # radians; limit for hard gates, even if the spreads are wider
LAPLACE_STEP = 0.25  # trapezoid step in log t; the error is 1e-13, with 0.5 it would be 2e-8
LAPLACE_BLOCK = 128  # values of v per block; in a small one, few angles matter and memory is small
LAPLACE_SPAN = LAPLACE_STEP * LAPLACE_BLOCK
LOGITS_A_PANEL = 4.0  # largest change of a logit that 12 nodes integrate to rounding error
LARGEST_RULE = 400_000  # nodes; the exact engine gives up at spreads below about 1e-4


def dissipation(gate: ExactGate, angle_grid: AngleGrid) -> Grid:
    """Return ``E[GD]`` for every pair of mean angles, (p, q)."""
    if isinstance(gate, ConstantGate):
        return np.full((angle_grid.mu_pos.size, angle_grid.mu_neg.size), gate.value)
    if isinstance(gate, SumGate):
        return _sum(gate, angle_grid)
    mean = _hard(gate, angle_grid) if isinstance(gate, HardGate) else _soft(gate, angle_grid)
    return mean.clip(max=1)  # rounded quadrature weights may sum to one unit in the last place more


def _hard(gate: HardGate, angle_grid: AngleGrid) -> Grid:
    """Return ``E_p[1 - (1 - q)^K (1 - q_own)^H]``, where ``q = P(cos θ_neg > x(θ_pos))``."""
    spread = min(sigma for _, _, sigma in angle_grid.kinds)
    if spread == 0 and angle_grid.sigma_pos > 0:
        raise GradlabError(
            "the exact engine cannot integrate a hard gate over negatives without spread; "
            "use engine='monte_carlo'"
        )
    # The nearest of K negatives spreads less than each: in a normal tail by the factor √(2 log K).
    tail = max(3.0, np.sqrt(2 * np.log(angle_grid.columns)))
    width = min(2 * angle_grid.sigma_pos, 3 / tail * spread, WIDEST_PANEL)
    angles, weights = _rule(
        angle_grid.mu_pos, angle_grid.sigma_pos, width, _kinks(gate, angle_grid.columns)
    )
    total = np.zeros((angle_grid.mu_pos.size, angle_grid.mu_neg.size))
    # For each kind, the probability that a negative exceeds the gate's ceiling and does not count.
    edge = np.arccos(np.array([gate.ceiling]))
    out = [_cap_probability(edge, mu, sigma) for _, mu, sigma in angle_grid.kinds]
    for start in range(0, angles.size, 2048):
        block = slice(start, start + 2048)
        threshold = gate.threshold(angles[block])
        weight = weights[:, block]
        # At thresholds up to -1 the gate is open unless no negative counts; from the ceiling on,
        # the gate is closed.
        total += weight[:, threshold <= -1].sum(axis=1)[:, None] * (1 - _none_of(angle_grid, out))
        inside = (threshold > -1) & (threshold < gate.ceiling)
        closed = np.zeros((1, 1))  # logarithm of the probability that no negative opens the gate
        for (count, mu, sigma), uncounted in zip(angle_grid.kinds, out, strict=True):
            chance = _cap_probability(np.arccos(threshold[inside]), mu, sigma)
            chance = np.maximum(chance - uncounted, 0)  # rounding can make the difference negative
            # log 0 = -inf is the intended limit: the gate is open.
            with np.errstate(divide="ignore"):
                closed = closed + count * np.log1p(-chance)
        total += weight[:, inside] @ -np.expm1(closed)
    return total


def _none_of(
    angle_grid: AngleGrid, chances: Sequence[Float[np.ndarray, "..."]]
) -> Float[np.ndarray, "..."]:
    """Return an event's probability for all negatives, given that for one of each kind."""
    kinds = zip(angle_grid.kinds, chances, strict=True)
    return np.asarray(math.prod(chance**count for (count, _, _), chance in kinds))


def _kinks(gate: HardGate, negatives: int) -> dict[float, int]:
    """Return angles at which the opening is not smooth, with the panel halvings towards each.

    Where the opening vanishes, K negatives fill it within 1/K of the kink, so panels halve about
    log2(K) times. Where it becomes all of [0, π], only a square root is left. A gate open at angle
    0 is smooth there.
    """
    depth = int(np.ceil(np.log2(negatives))) + 6
    closed_at_0 = gate.threshold(np.zeros(1))[0] >= gate.ceiling
    angles = np.array([*([0.0] if closed_at_0 else []), *gate.kinks])
    depths = depth * (gate.threshold(angles) > gate.ceiling - 0.5)
    return dict(zip(angles.tolist(), depths.tolist(), strict=True))


def _cap_probability(
    angle: Nodes, mu: Float[np.ndarray, "q"], sigma: float
) -> Float[np.ndarray, "a q"]:
    """Return ``P(|θ folded to [0, π]| < angle)`` for ``θ ~ N(μ, σ²)``, (a, q)."""
    if sigma == 0:
        return (_fold(mu) < angle[:, None]).astype(float)
    # The import takes a sixth of a small simulation; soft gates avoid it.
    from scipy.special import ndtr

    reach = REACH * sigma
    chance = np.zeros((angle.size, mu.size))
    for turn in _turns(mu, reach):
        centre = turn - mu
        chance += ndtr((centre + angle[:, None]) / sigma) - ndtr((centre - angle[:, None]) / sigma)
    return np.minimum(chance, 1)  # the sum of rounded differences can exceed 1 in the last digit


def _sum(gate: SumGate, angle_grid: AngleGrid) -> Grid:
    """Return ``K E f(θ_neg)``, plus ``H E f(θ_own)`` for own negatives; positives do not matter."""
    total = np.zeros((angle_grid.mu_pos.size, angle_grid.mu_neg.size))
    for count, mu, sigma in angle_grid.kinds:
        width = min(2 * sigma, 4 * gate.scale)
        angles, weights = _rule(mu, sigma, width, dict.fromkeys(gate.kinks, 0))
        total += count * (weights @ gate.term(angles))
    return total


def _soft(gate: SoftGate, angle_grid: AngleGrid) -> Grid:
    """Return ``E[S/(S + a)] = 1 - E ∫ a e^{-t(a + S)} dt``, where ``t = e^v``."""
    logit, weights = _logit_rule(gate.positive_logit, angle_grid.mu_pos, angle_grid.sigma_pos)
    kinds = [
        (count, (gate.negative_logit, mu.tobytes(), sigma)) for count, mu, sigma in angle_grid.kinds
    ]
    total = np.zeros((angle_grid.mu_pos.size, angle_grid.mu_neg.size))
    vanished = np.isneginf(logit)  # a = 0: the gate is open if any negative counts
    if vanished.any():
        rules = [_negative_rule(*kind) for _, kind in kinds]
        uncounted = [
            node_weights[:, np.isneginf(logits)].sum(axis=1) for logits, node_weights in rules
        ]
        total += weights[:, vanished].sum(axis=1)[:, None] * (1 - _none_of(angle_grid, uncounted))
    finite = logit[np.isfinite(logit)]
    if finite.size == 0:
        return total
    # Outside this range of v the integrand vanishes for every positive.
    first = math.floor((-finite.max() - 45) / LAPLACE_SPAN)
    last = math.ceil((-finite.min() + 5) / LAPLACE_SPAN)
    for block in range(first, last):
        v = _laplace_grid(block)
        _, active = _regimes(logit, v)
        if active.any():
            exponent = v + logit[active, None]
            kernel = weights[:, active] @ np.exp(exponent - np.exp(exponent))
            closed = sum(count * _log_closed(*kind, block) for count, kind in kinds)
            total += kernel @ (-LAPLACE_STEP * np.expm1(closed))
    return total


@functools.lru_cache(maxsize=256)
def _laplace_grid(block: int) -> Float[np.ndarray, "v"]:
    grid = LAPLACE_SPAN * block + LAPLACE_STEP * np.arange(LAPLACE_BLOCK)
    grid.flags.writeable = False
    return grid


@functools.lru_cache(maxsize=256)
def _log_closed(
    logit: Logit, mu_bytes: bytes, sigma: float, block: int
) -> Float[np.ndarray, "v q"]:
    """Return ``log E[exp(-e^v e^{logit(θ)})]`` of a negative, (v, q), reused by similar losses."""
    logits, weights = _negative_rule(logit, mu_bytes, sigma)
    v = _laplace_grid(block)
    saturated, active = _regimes(logits, v)
    opened = -np.expm1(-np.exp(v[:, None] + logits[active])) @ weights[:, active].T
    opened += weights[:, saturated].sum(axis=1)
    np.minimum(opened, 1, out=opened)  # the quadrature can exceed 1 in the last digit
    with np.errstate(divide="ignore"):  # log 0 = -inf is the intended limit
        closed: np.ndarray = np.log1p(-opened)
    closed.flags.writeable = False
    return closed


@functools.lru_cache(maxsize=4)
def _negative_rule(logit: Logit, mu_bytes: bytes, sigma: float) -> Rule:
    return _logit_rule(logit, np.frombuffer(mu_bytes), sigma)


def _logit_rule(logit: Logit, mu: Means, sigma: float) -> Rule:
    """Return logits at nodes, and weights with ``weights @ g(logits) = E g(logit(folded θ))``.

    This holds for sigmoids g. Panels are halved until the logit changes by at most
    `LOGITS_A_PANEL` in each panel and agrees with the polynomial through the panel's nodes. This
    refines them towards steps, kinks and infinite ends of the logit.
    """
    folded = _fold(mu)
    if sigma == 0:
        return _logits(logit, folded), np.eye(mu.size)
    edges = _edges(*_limits(folded, sigma, 2 * sigma), 2 * sigma)
    start, end = edges[:-1], edges[1:]
    panels, logits = np.empty((2, 0)), np.empty((0, NODES))  # those that are accepted
    points, interpolate = _check_points()
    while start.size:
        if (start.size + panels.shape[1]) * NODES > LARGEST_RULE:
            raise GradlabError(
                "the logits are too steep for the exact engine; raise the temperature, "
                "or use engine='monte_carlo'"
            )
        angles = (start + end)[:, None] / 2 + (end - start)[:, None] / 2 * points
        at_points = _logits(logit, angles.clip(0, np.pi), NODES)
        with np.errstate(all="ignore"):  # logits can be infinite at 0 and π
            misfit = at_points[:, :NODES] @ interpolate - at_points[:, NODES:]
            rough = _is_rough(start, end, sigma, at_points, np.abs(misfit).max(axis=1))
        panels = np.hstack([panels, np.stack([start, end])[:, ~rough]])
        logits = np.vstack([logits, at_points[~rough, :NODES]])
        start, end = start[rough], end[rough]
        cut = (start + end) / 2
        start, end = np.concatenate([start, cut]), np.concatenate([cut, end])
    nodes, w = _panels(*panels)
    return logits.ravel(), _folded_density(nodes, mu, sigma) * w


def _is_rough(
    start: Float[np.ndarray, "panels"],
    end: Float[np.ndarray, "panels"],
    sigma: float,
    logits: Float[np.ndarray, "panels points"],
    misfit: Float[np.ndarray, "panels"],
) -> Bool[np.ndarray, "panels"]:
    """Return which panels to halve, because their nodes do not integrate sigmoids of the logit."""
    change = logits.max(axis=1) - logits.min(axis=1)
    largest = np.abs(logits[:, :NODES]).max(axis=1)
    constant = np.all(logits[:, :1] == logits, axis=1)
    width = (end - start) / sigma
    # Cosines do not resolve angles near 0 and π: a narrow panel's misfit there is rounding.
    near = np.minimum(start, np.pi - end)
    noise = (near < 1e-3) & (near >= end - start)
    smooth = misfit <= 1e-10 + 64 * np.finfo(float).eps * largest
    smooth |= (misfit * width < 1e-13) | noise
    rough: np.ndarray = ~(smooth & (change <= LOGITS_A_PANEL))
    rough &= ~constant & (width > 1e-14) & (end - start > 1e-15 * end)
    return rough


def _logits(
    logit: Logit, angles: Float[np.ndarray, "*n k"], checked: int | None = None
) -> Float[np.ndarray, "*n k"]:
    """Return the logits of angles; of the first ``checked`` columns, none may be NaN."""
    with np.errstate(all="ignore"):  # logits can be infinite, or NaN beside their ends
        logits = np.asarray(logit(angles), dtype=np.float64)
    wrong = np.isnan(logits[..., :checked])
    if wrong.any():
        at = float(angles[..., :checked][wrong][0])
        raise GradlabError(
            f"the logit of this loss is not a number at {at:.6g} radians, cosine {np.cos(at):.6g}"
        )
    return logits


@functools.cache
def _check_points() -> tuple[Float[np.ndarray, "points"], Float[np.ndarray, "a c"]]:
    """Return a panel's nodes, then its ends and points between; and the matrix interpolating these.

    The polynomial through the logits at the nodes is compared with the logits at the others.
    """
    x, _ = _legendre()
    checks = np.concatenate([[-1.0], (x[1:] + x[:-1]) / 2, [1.0]])
    at_nodes, at_checks = (np.polynomial.legendre.legvander(at, NODES - 1) for at in (x, checks))
    return np.concatenate([x, checks]), np.linalg.solve(at_nodes.T, at_checks.T)


def _regimes(
    logit: Nodes, v: Float[np.ndarray, "v"]
) -> tuple[Bool[np.ndarray, "a"], Bool[np.ndarray, "a"]]:
    """Return masks of nodes: ``exp(-e^{v + logit})`` is 0 on a whole block of v, or it varies."""
    saturated = logit + v[0] > 4.5  # exp(-exp(4.5)) is 8e-40
    return saturated, ~saturated & (logit + v[-1] > -45)  # 1 - exp(-exp(-45)) is 3e-20


def _rule(mu: Means, sigma: float, width: float, kinks: Mapping[float, int]) -> Rule:
    """Return nodes in [0, π] and weights such that ``weights @ f(nodes)`` is ``E f(folded θ)``.

    ``kinks`` maps angles to the number of times that panels are halved towards them.
    """
    folded = _fold(mu)
    if sigma == 0:
        return folded, np.eye(mu.size)
    low, high = _limits(folded, sigma, width)
    ends = [low, *sorted(kink for kink in kinks if low < kink < high), high]
    segments = (_segment(*segment, width, kinks) for segment in itertools.pairwise(ends))
    nodes, weights = np.hstack([panels for segment in segments for panels in segment])
    return nodes, _folded_density(nodes, mu, sigma) * weights


def _limits(folded: Means, sigma: float, width: float) -> tuple[float, float]:
    """Return the part of [0, π] to integrate over, in panels of this width."""
    low = max(0.0, float(folded.min()) - REACH * sigma)
    high = min(np.pi, float(folded.max()) + REACH * sigma)
    if (high - low) / width * NODES > LARGEST_RULE:
        raise GradlabError(
            "spreads or temperature are too small for the exact engine; use engine='monte_carlo'"
        )
    return low, high


def _segment(
    start: float, end: float, width: float, kinks: Mapping[float, int]
) -> Iterator[Panels]:
    """Yield Gauss-Legendre panels on [start, end], in the square root of the distance near a kink.

    A threshold's inverse cosine has a square-root singularity there; the substitution removes it.
    """
    zone = min(4 * width, (end - start) / 2)
    left, right = start + zone * (start in kinks), end - zone * (end in kinks)
    edges = _edges(left, right, width)
    yield _panels(edges[:-1], edges[1:])
    for kink, sign in ((start, 1), (end, -1)):
        if kink in kinks:
            edges = _edges(0, np.sqrt(zone), 0.5 * width)
            halved = edges[1] * 0.5 ** np.arange(kinks[kink], 0, -1)
            edges = np.concatenate([edges[:1], halved, edges[1:]])
            t, w = _panels(edges[:-1], edges[1:])
            yield kink + sign * t**2, 2 * t * w


def _edges(start: float, end: float, width: float) -> Float[np.ndarray, "edges"]:
    return np.linspace(start, end, max(1, int(np.ceil((end - start) / width))) + 1)


def _panels(start: Float[np.ndarray, "panels"], end: Float[np.ndarray, "panels"]) -> Panels:
    x, w = _legendre()
    half = (end - start)[:, None] / 2
    return ((start + end)[:, None] / 2 + half * x).ravel(), (half * w).ravel()


@functools.cache
def _legendre() -> Panels:
    return np.polynomial.legendre.leggauss(NODES)


def _folded_density(angle: Nodes, mu: Means, sigma: float) -> Float[np.ndarray, "p a"]:
    """Return the density at ``angle`` in [0, π] of ``θ ~ N(μ, σ²)`` folded to [0, π], (p, a)."""
    total = np.zeros((mu.size, angle.size))
    for turn in _turns(mu, REACH * sigma):
        for image in (turn + angle, turn - angle):
            total += np.exp(-0.5 * ((image - mu[:, None]) / sigma) ** 2)
    density: np.ndarray = total / (sigma * np.sqrt(2 * np.pi))
    return density


def _turns(mu: Means, reach: float) -> Float[np.ndarray, "turns"]:
    """Return the multiples of 2π whose images of [-π, π] come within ``reach`` of a mean angle."""
    first = np.floor((float(mu.min()) - reach + np.pi) / (2 * np.pi))
    last = np.ceil((float(mu.max()) + reach - np.pi) / (2 * np.pi))
    return 2 * np.pi * np.arange(first, last + 1)


def _fold(angle: Float[np.ndarray, "*n"]) -> Float[np.ndarray, "*n"]:
    """Return the angle in [0, π] with the same cosine."""
    turned: np.ndarray = np.remainder(angle + np.pi, 2 * np.pi) - np.pi
    return abs(turned)
