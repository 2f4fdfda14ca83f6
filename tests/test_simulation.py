"""The exact engine against independent references, and both engines against each other."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from queue import SimpleQueue
from types import NoneType

import mpmath as mp
import numpy as np
import pytest
import scipy.special
import scipy.stats
import torch

import gradlab
from gradlab import simulate
from gradlab.batch.similarity import AngleSimilarity, PairSimilarity
from gradlab.losses.exact_gates import ConstantGate, SoftGate, SumGate
from gradlab.losses.link_loss import LinkLoss
from gradlab.losses.mask import Mask
from gradlab.losses.pair_loss import PairLoss
from gradlab.losses.registry import loss_class
from gradlab.simulation import monte_carlo
from gradlab.simulation.forces import _AnchorGradients
from gradlab.simulation.grid_and_result import AngleGrid
from gradlab.simulation.sampled import sampled

PAIR_NAMES = [n for n in gradlab.loss_names() if issubclass(loss_class(n), PairLoss)]
EXACT_NAMES = [
    n
    for n in PAIR_NAMES
    if not isinstance(gradlab.get_loss(n).exact_gate(), (ConstantGate, NoneType))
]

# --- similarities ---------------------------------------------------------------------------------


def test_cosines_beyond_a_margin_against_mpmath() -> None:
    angles = np.linspace(0, np.pi, 1001)
    eps = np.finfo(float).eps  # of numbers near 1, so that a few roundings are a few of these
    for margin in (0.0, 0.1745, 1.2):
        expected = [float(mp.cos(mp.mpf(float(angle)) + mp.mpf(margin))) for angle in angles]
        for pairs, roundings in (
            (AngleSimilarity(angles), 3),
            (PairSimilarity.from_angles(angles), 8),
        ):
            np.testing.assert_allclose(
                pairs.cosine_beyond(margin), expected, rtol=0, atol=roundings * eps
            )
        np.testing.assert_allclose(AngleSimilarity(angles).cosine, np.cos(angles), rtol=0, atol=0)


# --- hard gates in 30 digits, from the definition ------------------------------------------------

GATES = {  # does this positive angle let this negative angle pass? as the largest open angle
    "mpt": lambda t, m: mp.acos(max(-1, min(1, mp.cos(t) - m))),
    "met": lambda t, m: 2 * mp.asin(max(0, min(1, abs(mp.sin(t / 2)) + m / 2))),
    "mat": lambda t, m: max(0, min(mp.pi, mp.acos(mp.cos(t)) + m)),
}


def hard_reference(
    name: str,
    margin: float,
    mu_pos: float,
    mu_neg: float,
    sigma_pos: float,
    sigma_neg: float,
    k: int,
):
    """``∫ φ(θ) [1 - P(all negatives farther than the gate allows)] dθ`` by adaptive quadrature."""

    def reach(angle):
        """P(a negative, folded, is within ``angle``): images of the normal distribution."""
        if angle >= mp.pi:
            return mp.mpf(1)
        return mp.fsum(
            mp.ncdf((2 * mp.pi * n + angle - mu_neg) / sigma_neg)
            - mp.ncdf((2 * mp.pi * n - angle - mu_neg) / sigma_neg)
            for n in range(-2, 3)
        )

    def integrand(t):
        return mp.npdf(t, mu_pos, sigma_pos) * (1 - (1 - reach(GATES[name](t, margin))) ** k)

    kinks = {  # where the gate closes for good, and where it stays open
        "mpt": (mp.acos(min(1, 1 + margin)), mp.acos(max(-1, margin - 1))),
        "met": (2 * mp.asin(max(0, -margin / 2)), 2 * mp.asin(min(1, 1 - margin / 2))),
        "mat": (max(0, -margin), min(mp.pi, mp.pi - margin)),
    }[name]
    low, high = mu_pos - 9 * sigma_pos, mu_pos + 9 * sigma_pos
    images = {
        2 * mp.pi * n + sign * c for n in (-1, 0, 1) for sign in (-1, 1) for c in (0, mp.pi, *kinks)
    }
    cuts = sorted({low, high, *(c for c in images if low < c < high)})
    points = []
    for start, end in itertools.pairwise(cuts):
        points += [start + (end - start) * i / 6 for i in range(6)]
    return mp.quad(integrand, [*points, cuts[-1]])


@pytest.mark.parametrize(
    ("name", "margin", "mu_pos", "mu_neg", "sigma_pos", "sigma_neg", "k"),
    [
        ("mpt", None, math.pi / 20, 0.9, 0.05, 0.10, 127),
        ("met", None, 0.7, 1.3, 0.05, 0.10, 127),
        ("mat", None, math.pi / 2, 2.2, 0.05, 0.10, 127),
        ("mpt", None, math.pi / 2, math.pi, 0.05, 0.10, 127),
        *((name, None, 1.0, 1.4, 0.2, 0.4, 3) for name in GATES),
        *((name, None, 2.3, 2.9, 0.3, 0.5, 1) for name in GATES),
        # Margins of 0 and below, where many widely spread negatives fill an opening of any size.
        ("mpt", -0.2, 0.9, 0.4, 0.3, 1.0, 127),
        ("met", -0.1, 0.5, 0.4, 0.02, 0.5, 10_000),
        ("mat", 0.0, 0.1, 0.4, 0.5, 1.0, 1000),
    ],
)
def test_hard_gates_against_mpmath(name, margin, mu_pos, mu_neg, sigma_pos, sigma_neg, k) -> None:
    loss = gradlab.get_loss(name, **({} if margin is None else {"margin": margin}))
    with mp.workdps(18):
        means = mp.mpf(loss.margin), mp.mpf(mu_pos), mp.mpf(mu_neg)
        expected = hard_reference(name, *means, sigma_pos, sigma_neg, k)
    at = {"mu_pos": [mu_pos], "mu_neg": [mu_neg], "sigma_pos": sigma_pos, "sigma_neg": sigma_neg}
    simulated = simulate(loss, negatives=k, **at).value[0, 0]
    assert abs(float(expected) - simulated) <= (1e-10 if margin is None else 1e-9)


def test_hard_gates_with_a_grid_through_the_kink() -> None:
    """A grid of mean angles, so that the panels do not happen to start at the cell's own mean."""
    whole, p, n = simulate("met", grid=25), 20, 14
    with mp.workdps(18):
        means = mp.mpf(whole.mu_pos[p]), mp.mpf(whole.mu_neg[n])
        expected = hard_reference("met", mp.mpf(0.45), *means, 0.05, 0.1, 127)
    assert abs(float(expected) - whole.value[p, n]) <= 1e-10


# --- soft gates by direct integration over all angles, without the Laplace transform --------------


@functools.cache
def normal_rule(mu: float, sigma: float, nodes: int) -> tuple[np.ndarray, np.ndarray]:
    """Gauss-Legendre on mu ± 9 sigma, in two halves at 0 where the folded margin has its kink."""
    low, high = mu - 9 * sigma, mu + 9 * sigma
    edges = np.array([low, 0.0, high] if low < 0 < high else [low, high])
    x, w = np.polynomial.legendre.leggauss(nodes)
    half, middle = np.diff(edges)[:, None] / 2, (edges[1:] + edges[:-1])[:, None] / 2
    t = (middle + half * x).ravel()
    return t, (half * w).ravel() * scipy.stats.norm.pdf(t, mu, sigma)


@pytest.mark.parametrize("name", ["infonce", "arccon"])
@pytest.mark.parametrize("temperature", [0.05, 0.3])
@pytest.mark.parametrize(
    ("mu_pos", "mu_neg"), [(0.2, 0.35), (0.8, 1.1), (1.5, 2.0), (math.pi / 2, math.pi)]
)
def test_soft_gates_by_direct_integration(name, temperature, mu_pos, mu_neg) -> None:
    """Of two negatives."""
    loss = gradlab.get_loss(name, temperature=temperature)
    positive, wp = normal_rule(mu_pos, 0.05, 160)
    negative, wn = normal_rule(mu_neg, 0.10, 160)
    own = np.exp(np.cos(np.arccos(np.cos(positive)) + getattr(loss, "margin", 0.0)) / temperature)
    exponentials = np.exp(np.cos(negative) / temperature)
    sums = exponentials[:, None] + exponentials
    expected = sum(
        w * np.einsum("n,m,nm->", wn, wn, sums / (sums + a)) for w, a in zip(wp, own, strict=True)
    )
    simulated = simulate(loss, mu_pos=[mu_pos], mu_neg=[mu_neg], negatives=2).value[0, 0]
    assert abs(expected - simulated) <= 1e-10


def test_soft_gate_with_127_negatives_against_mpmath() -> None:
    """Laplace integral in t itself, by 25-digit tanh-sinh; the expectations by Gauss-Legendre."""
    mu_pos, mu_neg, k, temperature = 0.6, 1.2, 127, 0.02
    positive, wp = normal_rule(mu_pos, 0.05, 120)
    negative, wn = normal_rule(mu_neg, 0.10, 120)
    with mp.workdps(25):
        own = [mp.exp(mp.cos(mp.mpf(float(t))) / temperature) for t in positive]
        exponentials = [mp.exp(mp.cos(mp.mpf(float(t))) / temperature) for t in negative]
        wp, wn = [mp.mpf(float(w)) for w in wp], [mp.mpf(float(w)) for w in wn]

        def integrand(v):
            t = mp.exp(v)
            left = mp.fsum(w * t * a * mp.exp(-t * a) for w, a in zip(wp, own, strict=True))
            right = (
                1 - mp.fsum(w * mp.exp(-t * s) for w, s in zip(wn, exponentials, strict=True)) ** k
            )
            return left * right

        peak = -mp.cos(mu_pos) / temperature
        expected = mp.fsum(integrand(peak + mp.mpf(i) / 8) for i in range(-500, 300)) / 8
    loss = gradlab.get_loss("infonce", temperature=temperature)
    simulated = simulate(loss, mu_pos=[mu_pos], mu_neg=[mu_neg], negatives=k).value[0, 0]
    assert abs(float(expected) - simulated) <= 1e-10


# --- any link, by integration over all angles -----------------------------------------------------


@dataclasses.dataclass(frozen=True)
class RandomLink(LinkLoss):
    """``Σ a_k f_k(cos θ)`` of increasing functions, from nearly flat to a step."""

    terms: tuple[tuple[str, float, float, float], ...] = (("linear", 200.0, 0.0, 0.0),)

    def link(self, cosine):
        kinds = {
            "linear": lambda c, at, width: c,
            "kink": lambda c, at, width: np.maximum(c - at, 0),
            "sigmoid": lambda c, at, width: np.tanh((c - at) / width),
            "step": lambda c, at, width: np.where(c > at, 1.0, 0.0),
            "arctanh": lambda c, at, width: np.log1p(c) - np.log1p(-c),
            "near": lambda c, at, width: 1 / (1 - c + width),
        }
        return sum(size * kinds[kind](cosine, at, width) for kind, size, at, width in self.terms)

    def slope(self, cosine):
        raise NotImplementedError


def random_link(rng) -> RandomLink:
    terms = []
    for kind in rng.choice(
        ["linear", "kink", "sigmoid", "step", "arctanh", "near"], rng.integers(1, 4)
    ):
        width = 10 ** rng.uniform(-5, 0)
        size = 10 ** rng.uniform(-1, 2.5 if kind == "sigmoid" else 3.5) * (
            width if kind == "near" else 1
        )
        terms.append((str(kind), float(size), float(rng.uniform(-0.8, 0.8)), float(width)))
    return RandomLink(tuple(terms))


def graded_rule(
    mu: float, sigma: float, breaks: np.ndarray, finest: float
) -> tuple[np.ndarray, np.ndarray]:
    """Gauss-Legendre on mu ± 9 sigma, (..., nodes).

    Panels are at most ``finest`` wide, and shrink towards each break.
    """
    reach = 9 * sigma
    ladder = np.outer([-1.0, 1.0], 2.0 ** -np.arange(45)).ravel()
    even = np.linspace(mu - reach, mu + reach, int(np.ceil(2 * reach / finest)) + 1)
    edges = (breaks[..., None] + np.concatenate([ladder, [0.0]])).reshape(*breaks.shape[:-1], -1)
    edges = np.concatenate([edges, np.broadcast_to(even, (*breaks.shape[:-1], even.size))], axis=-1)
    edges = np.sort(np.clip(edges, mu - reach, mu + reach), axis=-1)
    x, w = np.polynomial.legendre.leggauss(8)
    half = np.diff(edges, axis=-1)[..., None] / 2
    middle = (edges[..., 1:] + edges[..., :-1])[..., None] / 2
    t = (middle + half * x).reshape(*breaks.shape[:-1], -1)
    return t, (half * w).reshape(t.shape) * scipy.stats.norm.pdf(t, mu, sigma)


def one_negative(
    loss: RandomLink,
    mu_pos: float,
    mu_neg: float,
    sigma_pos: float,
    sigma_neg: float,
    above: float = 1.0,
) -> float:
    """``E σ(φ(cos θ_neg) - φ(cos θ_pos))``, 0 for negatives above a cosine.

    The inner integral is broken where both angles are alike, too.
    """
    angles = np.arccos([above, *(at for _, _, at, _ in loss.terms)])
    fixed = np.concatenate([angles, -angles, 2 * np.pi - angles, [0, np.pi]])
    outer, weight = graded_rule(mu_pos, sigma_pos, fixed, min(sigma_pos, sigma_neg))
    outer, weight = outer[weight > 1e-13], weight[weight > 1e-13]
    total = 0.0
    for chunk in np.array_split(np.arange(outer.size), max(1, outer.size // 100)):
        own = outer[chunk, None]
        same = np.concatenate([own, -own, 2 * np.pi - own], axis=-1)
        breaks = np.concatenate([np.broadcast_to(fixed, (chunk.size, fixed.size)), same], axis=-1)
        inner, density = graded_rule(mu_neg, sigma_neg, breaks, sigma_neg)
        with np.errstate(all="ignore"):
            gap = loss.link(np.cos(own)) - loss.link(np.cos(inner))
            density_left = np.where(np.cos(inner) > above, 0.0, density)
            total += weight[chunk] @ np.sum(density_left / (1 + np.exp(gap)), axis=-1)
    return float(total)


@pytest.mark.parametrize("seed", range(12))
def test_any_link_is_right_or_refused(seed: int) -> None:
    """Also as the gate of a recombined loss, or where a mask leaves near-duplicates out."""
    rng = np.random.default_rng(seed)
    loss, limit = random_link(rng), 1.0
    mu_pos = rng.uniform(0.1, 3)
    mu_neg = float(np.clip(mu_pos + rng.choice([0.05, 1.0]) * rng.normal(), 0, np.pi))
    sigma_pos, sigma_neg = 10 ** rng.uniform(-1.7, -0.7, 2)
    combined = [loss, gradlab.recombine(gate=loss, weight="met", ratio=1)][seed % 2]
    if seed % 3 == 2:
        limit = rng.uniform(-0.9, 0.95)
        combined = Mask(loss, above=limit)
    at = {"mu_pos": [mu_pos], "mu_neg": [mu_neg], "sigma_pos": sigma_pos, "sigma_neg": sigma_neg}
    try:
        outcome = simulate(combined, negatives=1, **at).value[0, 0]
    except gradlab.GradlabError as error:
        outcome = str(error)
    if isinstance(outcome, str):
        assert any(kind == "arctanh" and size > 300 for kind, size, _, _ in loss.terms)
        assert "the logits are too steep for the exact engine" in outcome
    else:
        expected = one_negative(loss, mu_pos, mu_neg, sigma_pos, sigma_neg, limit)
        assert outcome == pytest.approx(expected, abs=1e-9)  # the reference is no better


@pytest.mark.parametrize(
    ("loss", "mu_pos", "mu_neg"),
    [
        ("tvmf(temperature=0.005)", 1.5, 1.0),
        (RandomLink(), 0.1, 0.05),
        (RandomLink((("linear", 2000.0, 0.0, 0.0),)), 0.7, 1.0),
        (RandomLink((("linear", 300.0, 0.0, 0.0), ("step", 20.0, 0.6, 0.0))), 0.7, 0.95),
    ],
)
def test_steep_links_with_many_negatives(loss, mu_pos: float, mu_neg: float) -> None:
    """Against draws of the loss itself, of ``σ(log Σ_k e^φ_k - φ)``."""
    loss, rng = gradlab.get_loss(loss), np.random.default_rng(0)
    own = loss.link(np.cos(mu_pos + 0.05 * rng.standard_normal(20_000)))
    negative_logits = loss.link(np.cos(mu_neg + 0.1 * rng.standard_normal((20_000, 127))))
    with np.errstate(over="ignore"):
        drawn = 1 / (1 + np.exp(own - scipy.special.logsumexp(negative_logits, axis=1)))
    simulated = simulate(loss, mu_pos=[mu_pos], mu_neg=[mu_neg]).value[0, 0]
    assert abs(simulated - drawn.mean()) <= 4 * drawn.std() / math.sqrt(20_000) + 1e-12


# --- the engines against each other ---------------------------------------------------------------


@pytest.mark.parametrize("name", EXACT_NAMES)
def test_engines_agree_within_four_standard_errors(name: str) -> None:
    """In at least 99.9% of cells; gates by the exact p's error, else where 0.01 < GD < 0.99."""
    exact = simulate(name, grid=60).value
    sampled = simulate(name, engine="monte_carlo", seed=3, grid=60)
    gate = gradlab.get_loss(name).exact_gate()
    if isinstance(gate, SumGate):  # of many independent terms: the normal bound holds everywhere
        cells, error = exact > 0, sampled.standard_error
    elif isinstance(gate, SoftGate):
        cells = (exact > 0.01) & (exact < 0.99)
        error = sampled.standard_error
    else:
        error = np.sqrt(exact * (1 - exact) / 1000)
        # Where fewer than one opening (or closing) is expected the normal bound does not apply.
        cells = (exact * 1000 > 1) & ((1 - exact) * 1000 > 1)
    assert cells.sum() > 200
    deviation = np.abs(exact - sampled.value)[cells] / error[cells]
    assert (deviation <= 4).mean() >= 0.999
    assert np.median(deviation) > 0.2  # the stated error is not far too large either
    assert np.abs(exact - sampled.value)[~cells].max(initial=0) < 0.02


def test_a_unanimous_gate_has_a_bound_not_a_zero_error() -> None:
    result = simulate(
        "mpt", engine="monte_carlo", mu_pos=[0.2, 1.2], mu_neg=[0.2, 3.0], batches=100
    )
    assert result.value[1, 0] == 1
    assert result.standard_error[1, 0] == pytest.approx(math.sqrt(101 / (102**2 * 103)))


def test_blocks_of_batches_merge_to_the_same_moments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(monte_carlo, "DRAWS_A_BLOCK", 127 * 60)
    setting = {"mu_pos": [0.8], "mu_neg": [1.3], "batches": 200}
    result = simulate("infonce", engine="monte_carlo", seed=np.random.default_rng(5), **setting)
    rng, values = np.random.default_rng(5), []
    for size in (60, 60, 60, 20):
        positive = np.exp(np.cos(0.8 + 0.05 * rng.standard_normal(size)) / 0.05)
        total = np.exp(np.cos(1.3 + 0.1 * rng.standard_normal((size, 127))) / 0.05).sum(axis=1)
        values.append(total / (total + positive))
    values = np.concatenate(values)
    assert result.value[0, 0] == pytest.approx(values.mean(), rel=1e-12)
    assert result.standard_error[0, 0] == pytest.approx(
        values.std(ddof=1) / math.sqrt(200), rel=1e-10
    )


@pytest.mark.parametrize("name", PAIR_NAMES)
def test_hardest_share(name: str) -> None:
    """Against a loop over batches, counting those whose dissipation reaches 0.01."""
    settings = {"mu_pos": [0.5], "mu_neg": [0.6, 1.0, 1.4], "batches": 100, "negatives": 9}
    result = simulate(name, "hardest_share", "monte_carlo", seed=7, **settings)
    loss, rng = gradlab.get_loss(name), np.random.default_rng(7)
    positive = PairSimilarity.from_angles(0.5 + 0.05 * rng.standard_normal(100))
    z = rng.standard_normal((100, 9))
    for column, mu in enumerate(settings["mu_neg"]):
        components = loss.components(positive, gradlab.Negatives.from_angles(mu + 0.1 * z))
        passes = components.gradient_dissipation >= 0.01
        assert result.pass_probability[0, column] == pytest.approx(passes.mean(), abs=1e-12)
        expected = components.hardest_share[passes].mean() if passes.any() else math.nan
        assert result.value[0, column] == pytest.approx(expected, rel=1e-10, nan_ok=True)


@pytest.mark.parametrize("name", ["mpt", "met", "mat"])
def test_hardest_share_of_a_one_hot_weight_is_exact(name: str) -> None:
    result = simulate(name, "hardest_share")
    assert result.engine == "exact"
    np.testing.assert_array_equal(result.pass_probability, simulate(name).value)
    assert set(np.unique(result.value[np.isfinite(result.value)])) == {1.0}


@pytest.mark.parametrize("sigma_pos", [0.0, 0.05])
def test_zero_spreads(sigma_pos: float) -> None:
    at = {"mu_pos": [0.5, 0.9], "mu_neg": [0.7, 1.2], "sigma_pos": sigma_pos, "sigma_neg": 0.0}
    exact = simulate("arccon", negatives=5, **at).value
    sampled = simulate("arccon", engine="monte_carlo", batches=4000, negatives=5, **at)
    assert np.all(np.abs(exact - sampled.value) <= 5 * sampled.standard_error + 1e-12)
    if sigma_pos:
        with pytest.raises(gradlab.GradlabError, match="monte_carlo"):
            simulate("mpt", **at)
    else:
        drawn = simulate("mpt", engine="monte_carlo", batches=10, **at)
        np.testing.assert_array_equal(simulate("mpt", **at).value, drawn.value)


def test_a_median_goes_by_the_batches_that_have_a_ratio():
    values = np.random.default_rng(0).normal(size=(2, 50))
    few = np.full((2, 80), np.nan)
    few[:, 10:60] = values
    median, error = monte_carlo.median_and_error(values)
    np.testing.assert_array_equal(monte_carlo.median_and_error(few), [median, error])
    np.testing.assert_array_equal(median, np.median(values, axis=-1))
    assert np.isnan(monte_carlo.median_and_error(np.full((1, 4), np.nan))[0])


def test_a_median_between_infinite_values_has_no_error() -> None:
    """A closed gate of circle has an infinite ratio; nothing can be said halfway from ∞ to ∞."""
    simulated = simulate("circle", "ratio", "monte_carlo", grid=4, batches=20, negatives=15)
    infinite = np.isinf(simulated.value)
    assert np.isnan(simulated.standard_error[infinite]).any()
    assert not np.isfinite(simulated.standard_error[infinite]).any()
    assert np.isfinite(simulated.standard_error[~infinite]).any()


def test_a_gate_that_is_a_sum_passes_as_often_as_it_reaches_a_hundredth() -> None:
    """One negative's GD is a sigmoid of its cosine; the angle where it is 0.01 gives the chance."""
    loss = gradlab.recombine(gate="siglip(bias=-1, temperature=0.1)", weight="mpt", ratio=1.0)
    simulated = simulate(
        loss, "hardest_share", mu_pos=[0.5], mu_neg=[1.9], negatives=1, batches=20_000
    )
    edge = math.acos(0.1 * (1 - math.log(99)))
    expected = 0.5 * (1 + math.erf((edge - 1.9) / 0.1 / math.sqrt(2)))
    assert 0.3 < expected < 0.7
    assert simulated.pass_probability[0, 0] == pytest.approx(
        expected, abs=5 * math.sqrt(0.25 / 20_000)
    )
    assert simulated.value[0, 0] == 1


def test_frame_save_and_load(tmp_path) -> None:
    result = simulate("infonce", "hardest_share", grid=(3, 4), batches=50, seed=2)
    frame = result.to_frame()
    assert set(frame) == {"mu_pos", "mu_neg", "value", "standard_error", "pass_probability"}
    assert len(frame) == 12
    row = frame.iloc[6]
    assert (row.mu_pos, row.mu_neg) == (result.mu_pos[1], result.mu_neg[2])
    np.testing.assert_array_equal(row.value, result.value[1, 2])
    loaded = gradlab.SimulationResult.load(result.save(tmp_path / "temperature-0.05"))
    assert loaded.manifest() == result.manifest()
    np.testing.assert_array_equal(loaded.value, result.value)
    np.testing.assert_array_equal(loaded.pass_probability, result.pass_probability)
    assert [path.name for path in tmp_path.iterdir()] == ["temperature-0.05.npz"]


def test_saving_losses_made_of_others_and_given_as_objects(tmp_path) -> None:
    result = simulate("hardness(infonce(temperature=0.1), alpha=2)", mu_pos=[0.5], mu_neg=[0.7])
    assert gradlab.SimulationResult.load(result.save(tmp_path / "hard")).loss == result.loss
    simulated = simulate(
        lambda anchors, positives: (anchors @ positives.T).sum(),
        mu_pos=[0.5],
        mu_neg=[0.7],
        batches=2,
    )
    with pytest.raises(gradlab.GradlabError, match="given as an object and could not be read back"):
        simulated.save(tmp_path / "own")


@pytest.mark.parametrize("kind", ["empty", "text", "cut", "array", "other"])
def test_files_that_are_no_simulation(tmp_path, kind: str) -> None:
    path = tmp_path / "bad.npz"
    if kind == "array":
        path = tmp_path / "bad.npy"
        np.save(path, np.ones(3))
    elif kind == "other":
        np.savez(path, manifest="[]", value=np.ones(3))
    else:
        simulate("mpt", grid=2).save(path)
        path.write_bytes({"empty": b"", "text": b"nothing", "cut": path.read_bytes()[:-100]}[kind])
    with pytest.raises(gradlab.GradlabError, match=r"not a saved simulation|must be an \.npz file"):
        gradlab.SimulationResult.load(path)


def test_a_seed_repeats_and_a_generator_moves_on() -> None:
    rng = np.random.default_rng(0)
    seeded, repeated, first, second = (
        simulate("infonce", engine="monte_carlo", grid=3, batches=20, seed=seed).value
        for seed in (1, 1, rng, rng)
    )
    assert np.array_equal(seeded, repeated)
    assert not np.array_equal(first, second)


def test_a_sampled_loss_is_saved_whatever_integer_counts_its_batches(tmp_path) -> None:
    loss = "torch.nn:MSELoss(reduction=sum)"
    result = simulate(loss, **AT, negatives=2, batches=np.int64(2))
    path = result.save(tmp_path / "cell")
    assert result.load(path, loss=loss).settings["batches"] == 2


def test_draws_on_a_torch_device_are_the_same() -> None:
    """The torch path, on the CPU by its indexed name."""
    setting = {"engine": "monte_carlo", "grid": 4, "batches": 50}
    by_numpy, by_torch = (
        simulate("arccon", **setting, **device) for device in ({}, {"device": "cpu:0"})
    )
    np.testing.assert_allclose(by_numpy.value, by_torch.value, rtol=1e-11, atol=1e-15)
    np.testing.assert_allclose(
        by_numpy.standard_error, by_torch.standard_error, rtol=1e-8, atol=1e-15
    )


AT = {"mu_pos": 0.5, "mu_neg": 1.0}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"quantity": "weight"}, "unknown quantity"),
        ({"quantity": "hardest_share", "engine": "exact"}, "no exact form"),
        ({"grid": 1}, "grid"),
        ({"mu_pos": [-0.1]}, "between 0 and π"),
        ({"engine": "monte_carlo", "device": "cuda:99"}, "not available"),
        ({"sigma_pos": 1e-7, "sigma_neg": 1e-7}, "monte_carlo"),
        ({"loss": RandomLink((("near", 1.0, 0.0, math.nan),)), "grid": 3}, "logit .* not a number"),
        ({"engine": "exact", "batches": 10}, "leave batches out"),
        ({"engine": "exact", "seed": np.random.default_rng(0)}, "leave seed out"),
        ({"engine": "exact", "seed": 3, "device": "cuda"}, "leave seed and device out"),
        (AT | {"grid": 3}, "grid has no effect where mu_pos and mu_neg"),
        (AT | {"loss": torch.nn.MSELoss(reduction="sum"), "device": "cuda"}, "on the CPU"),
    ],
)
def test_bad_input_and_settings_without_effect(settings: dict, message: str) -> None:
    with pytest.raises(gradlab.GradlabError, match=message) as refusal:
        simulate(**{"loss": "infonce", **settings})
    assert "\n" not in str(refusal.value)


def test_batches_without_any_push_have_no_hardest_share() -> None:
    """The debiased loss pushes nothing at its clamped estimate; its dissipation is not 0 there."""
    simulated = gradlab.simulate(
        "debiased", "hardest_share", mu_pos=[0.2], mu_neg=[1.0, 3.1], batches=20
    )
    assert np.isfinite(simulated.value[0, 0])
    assert simulated.pass_probability is not None
    assert simulated.pass_probability[0, 0] > 0.9
    assert np.isnan(simulated.value[0, 1])
    assert simulated.pass_probability[0, 1] == 0


@pytest.mark.parametrize("text", ["infonce", "symmetric(infonce)"])
def test_a_push_with_the_positive_away_is_computed_where_it_may_differ(text, monkeypatch):
    """Values are those of a run in which no row of cells takes over another row's."""
    loss = gradlab.get_loss(text)

    def code(anchors, positives):
        return loss(anchors, positives, reduction="sum")

    arguments = {"mu_pos": np.linspace(0.2, 1.5, 6), "mu_neg": [0.9], "negatives": 4, "batches": 2}
    shared = gradlab.simulate(code, **arguments).value
    monkeypatch.setattr("gradlab.simulation.forces.PROBES", 100)
    np.testing.assert_allclose(shared, gradlab.simulate(code, **arguments).value, rtol=1e-10)


def compares_near_anchors(anchors, positives):
    """Compares anchors with each other, but only those within a cosine of 0.3."""
    cosines = anchors @ positives.T
    own = (anchors @ anchors.T - 0.3).relu().triu(1)
    return torch.nn.functional.cross_entropy(cosines / 0.1, torch.arange(len(cosines))) + own.sum()


def multiplies_by_uniformity(anchors, positives):
    """Compares the other anchors with each other, and no anchor's gradient has their directions."""
    rows = anchors[1:] @ anchors[1:].T
    return (anchors @ positives.T).sum() * rows.detach().exp().mean() - (anchors * positives).sum()


def of_distances(anchors, positives):
    distances = (anchors[:, None] - positives[None]).norm(dim=-1)
    return torch.nn.functional.cross_entropy(-distances / 0.1, torch.arange(len(distances)))


def masks_near_anchors(anchors, positives):
    """Leaves a column out of a row if their anchors are within a cosine of 0.5, in both directions.

    No gradient tells it, and where all anchors are near their positives, no number does.
    """
    cosines = anchors @ positives.T / 0.1
    near = (anchors @ anchors.T).detach().fill_diagonal_(0) > 0.5
    masked = cosines.masked_fill(near, float("-inf"))
    own = torch.arange(len(cosines))
    cross_entropy = torch.nn.functional.cross_entropy
    return cross_entropy(masked, own) + cross_entropy(masked.T, own)


@pytest.mark.parametrize(
    ("loss", "fewest"),
    [
        (masks_near_anchors, False),
        (of_distances, True),
        (compares_near_anchors, False),
        (multiplies_by_uniformity, False),
    ],
)
def test_batches_have_half_as_many_dimensions_if_anchors_are_not_compared(
    loss, fewest, monkeypatch
):
    """Values are those of batches in which each other anchor has a dimension."""
    calls = SimpleQueue()  # which the copy of the function that is called shares

    def code(anchors, positives):
        calls.put(anchors.shape[1])
        return loss(anchors, positives)

    angle_grid = AngleGrid.create([0.2, 0.8, 1.4], [0.4, 1.1, 2.0], negatives=6)
    drawn = sampled(gradlab.get_loss(code), angle_grid, batches=3, progress=False)
    dimensions = [calls.get() for _ in range(calls.qsize())]
    assert (dimensions[-1] == 9) is fewest
    if fewest:  # one batch a cell is compared with the whole, the first one by products too
        assert dimensions[dimensions.index(9) :].count(14) == 9 + 1
    monkeypatch.setattr(_AnchorGradients, "_without_anchors", lambda *_: None)
    whole = sampled(gradlab.get_loss(code), angle_grid, batches=3, progress=False)
    for quantity, estimate in whole.items():
        np.testing.assert_allclose(
            drawn[quantity].value, estimate.value, rtol=1e-8, atol=1e-12, err_msg=quantity
        )
