"""Semantic textual similarity: Spearman's correlation of cosines with human scores.

STS12–16 (Agirre et al., 2012–2016), STS-B (Cer et al., 2017) and SICK-R (Marelli et al., 2014),
scored as Gao et al. (2021, SimCSE) do.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gradlab.errors import GradlabError, reason
from gradlab.evaluate.embed import Embedder, Encode, as_encode
from gradlab.evaluate.task_files import ScoredPairs, load_stsb_dev


def spearman(cosines: ArrayLike, gold: ArrayLike) -> float:
    """Return Spearman's correlation of two series, in [-1, 1]; NaN if one is constant or has a NaN.

    Raises:
        GradlabError: the arguments are not two series of n >= 2 real numbers.
    """
    from scipy.stats import spearmanr

    cosines, gold = _paired(cosines, gold, 1, "a correlation is of two series of n >= 2 numbers")
    if np.ptp(cosines) == 0 or np.ptp(gold) == 0:
        return float("nan")
    return float(spearmanr(cosines, gold).statistic)


def cosines(first: ArrayLike, second: ArrayLike) -> NDArray[np.float64]:
    """Return the cosines of paired rows of two (n, D) matrices, (n,) in float64; 0 for a zero row.

    Computed as 1 - ||u - v||^2 / 2 of unit rows, so that pairs of equal sentences tie at exactly 1;
    otherwise their ranks would depend on rounding. Zero rows are scored as in SentEval.

    Raises:
        GradlabError: the arguments are not two matrices of real numbers with the same shape.
    """
    left, right = _paired(first, second, 2, "cosines are of rows in pairs, (n, D) both")
    u, v = _unit(left), _unit(right)
    zero = ~(u.any(axis=1) & v.any(axis=1))
    result: NDArray[np.float64] = 1 - 0.5 * np.square(u - v).sum(axis=1)
    result[zero] = 0
    return result


def sts_scores(embed: Embedder, subsets: Sequence[ScoredPairs]) -> dict[str, float]:
    """Return Spearman's correlations, and the number of pairs.

    The names are "all", "mean", "wmean", "subset/NAME" and "pairs".
    """
    predicted = [cosines(embed(pairs.first), embed(pairs.second)) for pairs in subsets]
    gold = [pairs.gold for pairs in subsets]
    correlations = [
        spearman(cosines_of_pairs, scores_of_pairs)
        for cosines_of_pairs, scores_of_pairs in zip(predicted, gold, strict=True)
    ]
    sizes = [len(scores_of_pairs) for scores_of_pairs in gold]
    scores = {
        "all": spearman(np.concatenate(predicted), np.concatenate(gold)),
        "mean": float(np.mean(correlations)),
        "wmean": float(np.average(correlations, weights=sizes)),
        "pairs": sum(sizes),
    }
    if len(subsets) > 1:
        scores |= {
            f"subset/{pairs.name}": value
            for pairs, value in zip(subsets, correlations, strict=True)
        }
    return scores


def stsb_dev(encode: Encode | Any, path: str | os.PathLike[str]) -> float:
    """Return Spearman's correlation on the STS-B dev set, the usual criterion to select a model.

    Args:
        encode: a callable from a list of sentences to an (n, D) array, called once, or an object
            with such a method ``encode``.
        path: SentEval's ``data/downstream``, its ``STS/STSBenchmark``, or ``sts-dev.csv`` itself.

    Returns:
        The correlation, in [-1, 1]; NaN if all pairs have the same cosine.

    Raises:
        GradlabError: the file is absent or malformed, or an embedding is not finite.
    """
    return spearman(*stsb_dev_cosines(encode, path))


def stsb_dev_cosines(
    encode: Encode | Any, path: str | os.PathLike[str]
) -> tuple[NDArray[np.float64], list[float]]:
    """Return the cosines (n,) and the n human scores that :func:`stsb_dev` correlates."""
    pairs = load_stsb_dev(path)
    embed = Embedder(as_encode(encode), chunk=2 * len(pairs.gold))
    embed.prepare(pairs.sentences)
    return cosines(embed(pairs.first), embed(pairs.second)), pairs.gold


def _paired(
    first: ArrayLike, second: ArrayLike, dimensions: int, expected: str
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return two arrays of one shape in float64; series need two entries."""
    try:
        left, right = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    except (TypeError, ValueError) as error:  # texts, and rows of different lengths
        raise GradlabError(f"{expected}, of real numbers: {reason(error)}") from error
    if left.ndim != dimensions or left.shape != right.shape or (left.ndim == 1 and len(left) < 2):
        raise GradlabError(f"{expected}, not of shapes {left.shape} and {right.shape}")
    return left, right


def _unit(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    # Divide by the largest entry first: squares of very small or large ones leave float64's range.
    largest = np.abs(rows).max(axis=1, keepdims=True)
    scaled = rows / np.where(largest == 0, 1, largest)
    norms = np.linalg.norm(scaled, axis=1, keepdims=True)
    return scaled / np.where(norms == 0, 1, norms)
