"""What to compare a run with: the loss of guessing, and what a loss usually does at such cosines."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from gradlab.batch.similarity import Negatives, PairSimilarity
from gradlab.errors import GradlabError
from gradlab.losses.base import Loss, PairLoss
from gradlab.losses.combinator import Combinator
from gradlab.monitor.history import DIAGNOSTICS, History
from gradlab.simulation import simulate

# Moments of a run at which the loss is simulated, batches of a simulation by Monte Carlo, and angles of one of a loss's value.
MOMENTS, BATCHES, ANGLES = 12, 200, 1 << 20
# Of a bin of cosines.
WIDTH = 0.05
# Larger batches are not laid out for their loss of guessing; cosines may add up to this much too much.
MOST_SENTENCES, ROUNDING = 1024, 1e-9


def loss_at(loss: Loss, positive: float, negative: float, sentences: int, extra: int = 0) -> float | None:
    """The loss of a batch in which all pairs of views have one cosine and all other cosines are equal.

    Where the two are equal too it is the loss of guessing: ``log(1 + K)`` for InfoNCE. None if the loss needs more than
    embeddings, or no embeddings have these cosines.
    """
    shared, own = abs(negative), positive - negative
    rest = 1 - shared - own
    if not 2 <= sentences <= MOST_SENTENCES or own < 0 or rest < -ROUNDING:
        return None
    # Rows √|n| u + √(p - n) e_i + √rest f_i, with -u for the other view where n is negative.
    eye, none = np.eye(sentences), np.zeros((sentences, sentences))
    towards, apart = math.sqrt(own) * eye, math.sqrt(max(rest, 0.0)) * eye
    column = np.full((sentences, 1), math.sqrt(shared))
    anchors = np.hstack([column, towards, apart, none])
    positives = np.hstack([math.copysign(1, negative) * column, towards, none, apart])
    others = None
    if extra:
        others = np.zeros((extra, anchors.shape[1] + extra))
        others[:, 0] = math.copysign(math.sqrt(shared), negative)
        others[:, -extra:] = math.sqrt(1 - shared) * np.eye(extra)
        anchors, positives = (np.pad(rows, ((0, 0), (0, extra))) for rows in (anchors, positives))
    try:
        with np.errstate(all="ignore"):
            value = float(loss(anchors, positives, others, normalize=True))
    except GradlabError:
        return None
    return value if math.isfinite(value) else None


def usual(loss: Loss, quantity: str, history: History) -> tuple[list[int], list[float]]:
    """What a loss does on average if angles are independent and normal, with the means and spreads that a run recorded.

    Steps, at most `MOMENTS` of them, and values by `gradlab.simulate`; nothing for a loss that it does not simulate.
    """
    steps, values = [], []
    for step, mu, sigma, count in _angles(loss, history, MOMENTS):
        try:
            found = simulate(
                loss, quantity, mu_pos=mu[:1], mu_neg=mu[1:], sigma_pos=sigma[0], sigma_neg=sigma[1],
                negatives=count, batches=BATCHES, progress=False,
            )  # fmt: skip
        except GradlabError:
            return [], []
        steps.append(step)
        values.append(float(found.value[0, 0]))
    return steps, values


def loss_at_first(loss: Loss, history: History) -> tuple[int, float] | None:
    """The step of the first record, and the mean loss at independent normal angles with its means and spreads, by Monte Carlo.

    None for a loss that is not one of pairs, or where no angles were recorded.
    """
    for step, mu, sigma, count in _angles(loss, history, 1):
        assert isinstance(loss, PairLoss)
        draw, anchors = np.random.default_rng(0).standard_normal, max(1, ANGLES // count)
        positive = PairSimilarity.from_angles(mu[0] + sigma[0] * draw(anchors))
        negatives = Negatives.from_angles(mu[1] + sigma[1] * draw((anchors, count)))
        return step, float(np.mean(loss.value(positive, negatives)))
    return None


def _angles(
    loss: Loss, history: History, moments: int
) -> Iterator[tuple[int, Sequence[float], Sequence[float], int]]:
    """Step, means and spreads of the angles of positives and negatives, and their number, at some records of a loss of pairs."""
    if not isinstance(loss, PairLoss) or isinstance(loss, Combinator):
        return
    spreads = [history.histograms(f"{kind}_cosine") for kind in ("positive", "negative")]
    series = [
        history.series(DIAGNOSTICS, name) for name in ("positive_cosine", "negative_cosine", "uniform_share")
    ]
    *means, uniform = (dict(zip(*one, strict=True)) for one in series)
    known = sorted(set(uniform).intersection(*spreads, *means))
    for step in sorted({known[round(at)] for at in np.linspace(0, len(known) - 1, moments)}) if known else []:
        sigma = [_spread(shares[step]) for shares in spreads]
        mu = [_mean_angle(cosines[step], s) for cosines, s in zip(means, sigma, strict=True)]
        yield step, mu, sigma, round(1 / uniform[step])


def _spread(shares: Mapping[float, float]) -> float:
    """Standard deviation of the angles of a histogram of cosines, radians."""
    angles = np.arccos(np.clip(np.array(list(shares)) + WIDTH / 2, -1, 1))
    weights = list(shares.values())
    mean = np.average(angles, weights=weights)
    return math.sqrt(np.average((angles - mean) ** 2, weights=weights))


def _mean_angle(cosine: float, sigma: float) -> float:
    """The mean of normal angles whose cosines have this mean: ``E cos θ = e^{-σ²/2} cos μ``."""
    return math.acos(max(-1.0, min(1.0, cosine * math.exp(sigma**2 / 2))))
