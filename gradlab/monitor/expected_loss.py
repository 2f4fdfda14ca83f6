"""Reference values for a run: the loss of guessing, and the usual components of its loss."""

from __future__ import annotations

import contextlib
import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from gradlab.batch.similarity import Negatives, PairSimilarity
from gradlab.errors import GradlabError
from gradlab.losses.base import Loss
from gradlab.losses.combinator import Combinator
from gradlab.losses.pair_loss import PairLoss
from gradlab.monitor.metrics import DIAGNOSTICS, TRAIN, History
from gradlab.settings.module import LEARNED
from gradlab.simulation import simulate

# Limits on simulated moments, Monte Carlo batches of a simulation, and angles for a loss value.
MOMENTS, BATCHES, ANGLES = 12, 200, 1 << 20
# Logarithm of a learned setting beyond which the number would overflow.
LARGEST_LOG = 700.0
# Equal share of the most negatives that are simulated.
SMALLEST_SHARE = 2.0**-20
# Width of a bin of cosines.
WIDTH = 0.05
# Larger batches have no loss of guessing; of a loss that is not of pairs, neither have more rows.
# Cosines may exceed 1 by this rounding error.
MOST_SENTENCES, MOST_ROWS, ROUNDING = 1024, 3072, 1e-9


def loss_of_guessing(loss: Loss, cosine: float, sentences: int, extra: int = 0) -> float | None:
    """Return the loss of a batch whose anchors have one cosine to positives and negatives alike.

    This is ``log(1 + K)`` for InfoNCE with K negatives. The result is None if the loss needs more
    than embeddings, the batch is too large, or no embeddings have this cosine.
    """
    if not 2 <= sentences <= MOST_SENTENCES or abs(cosine) > 1 + ROUNDING:
        return None
    try:
        with np.errstate(all="ignore"):
            if isinstance(loss, PairLoss) and not isinstance(loss, Combinator):
                value = _of_equal_pairs(loss, cosine, sentences - 1 + extra)
            elif 2 * sentences + extra <= MOST_ROWS:
                value = _of_equal_rows(loss, cosine, sentences, extra)
            else:
                return None
    except GradlabError:
        return None
    return value if math.isfinite(value) else None


def expected_component(
    loss: Loss, quantity: str, history: History
) -> tuple[list[int], list[float]]:
    """Simulate a loss component for independent normal angles with recorded means and spreads.

    What the loss learns has the values that were recorded.

    Returns up to `MOMENTS` steps and their values, those before the first that cannot be simulated.
    """
    means: dict[int, float] = {}
    with contextlib.suppress(GradlabError):
        for step, mu, sigma, count in _angles(loss, history, MOMENTS):
            simulation = simulate(
                _as_learned(loss, history, step), quantity, mu_pos=mu[:1], mu_neg=mu[1:],
                sigma_pos=sigma[0], sigma_neg=sigma[1], negatives=count, batches=BATCHES,
                progress=False,
            )  # fmt: skip
            means[step] = float(simulation.value[0, 0])
    return list(means), list(means.values())


def loss_at_first(loss: Loss, history: History) -> tuple[int, float] | None:
    """Return the first record's step, and its mean loss for independent normal angles.

    The angles have the means and spreads of that record, and the mean is by Monte Carlo. The result
    is None if the loss is not a loss of pairs, or without angles.
    """
    for step, mu, sigma, count in _angles(loss, history, 1):
        assert isinstance(loss, PairLoss)
        draw, anchors = np.random.default_rng(0).standard_normal, max(1, ANGLES // count)
        positive = PairSimilarity.from_angles(mu[0] + sigma[0] * draw(anchors))
        negatives = Negatives.from_angles(mu[1] + sigma[1] * draw((anchors, count)))
        return step, float(np.mean(loss.value(positive, negatives)))
    return None


def _of_equal_pairs(loss: PairLoss, cosine: float, negatives: int) -> float:
    """Return the loss of an anchor whose positive and negatives have one cosine."""
    angle = math.acos(min(1.0, max(-1.0, cosine)))
    positive = PairSimilarity.from_angles(np.full(1, angle))
    return float(
        np.mean(loss.value(positive, Negatives.from_angles(np.full((1, negatives), angle))))
    )


def _of_equal_rows(loss: Loss, cosine: float, sentences: int, extra: int) -> float:
    """Return the loss of rows in which anchors have one cosine to all columns.

    Rows are √|c| u + √(1 - |c|) e_i, each with a direction e_i of its own; with -u for all but
    anchors if c is negative. Their size grows with the square of their number.
    """
    count, apart = 2 * sentences + extra, math.sqrt(max(1 - abs(cosine), 0.0))
    rows = np.hstack([np.full((count, 1), math.sqrt(abs(cosine))), apart * np.eye(count)])
    rows[sentences:, 0] *= math.copysign(1, cosine)
    anchors, positives, extra_negatives = np.split(rows, [sentences, 2 * sentences])
    return float(loss(anchors, positives, extra_negatives if extra else None, normalize=True))


def _as_learned(loss: Loss, history: History, step: int) -> Loss:
    """Return the loss with the settings that it had learned by a step, as far as recorded."""
    settings = {}
    for name in loss.learned:
        number = history.at(TRAIN, f"{LEARNED}{name}", step)
        log = history.at(TRAIN, f"{LEARNED}log_{name}", step)  # the parameter of a watched module
        if number is not None:
            settings[name] = number
        elif log is not None:
            settings[name] = math.exp(min(log, LARGEST_LOG))
    return dataclasses.replace(loss, **settings)


def _angles(
    loss: Loss, history: History, moments: int
) -> Iterator[tuple[int, Sequence[float], Sequence[float], int]]:
    """Yield step, means, spreads (positives, negatives) and number of negatives of a pair loss."""
    if not isinstance(loss, PairLoss) or isinstance(loss, Combinator):
        return
    names = "positive_cosine", "negative_cosine"
    spreads = [history.histograms(name) for name in names]
    means = [history.points(DIAGNOSTICS, name) for name in names]
    equal = history.points(DIAGNOSTICS, "uniform_share")
    measured = sorted(set(equal).intersection(*spreads, *means))
    steps = [s for s in measured if SMALLEST_SHARE <= equal[s] <= 1 and _are_cosines(s, means)]
    places = np.linspace(0, len(steps) - 1, moments if steps else 0)
    for step in dict.fromkeys(steps[round(place)] for place in places):
        sigma = [_spread(shares[step]) for shares in spreads]
        mu = [_mean_angle(cosines[step], s) for cosines, s in zip(means, sigma, strict=True)]
        yield step, mu, sigma, round(1 / equal[step])


def _are_cosines(step: int, series: Sequence[Mapping[int, float]]) -> bool:
    return all(abs(points[step]) <= 1 + ROUNDING for points in series)


def _spread(shares: Mapping[float, float]) -> float:
    """Return the standard deviation, in radians, of the angles in a histogram of cosines."""
    angles = np.arccos(np.clip(np.array(list(shares)) + WIDTH / 2, -1, 1))
    weights = list(shares.values())
    mean = np.average(angles, weights=weights)
    return math.sqrt(np.average((angles - mean) ** 2, weights=weights))


def _mean_angle(cosine: float, sigma: float) -> float:
    """Return the mean of normal angles from their mean cosine: ``E cos θ = e^{-σ²/2} cos μ``."""
    return math.acos(max(-1.0, min(1.0, cosine * math.exp(sigma**2 / 2))))
