"""Do words of first texts foretell those of second texts, as in pairs that belong together?"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Sequence

import numpy as np
import torch

# Fewest rows that tell; weight of a word's usual frequency; how often rows are halved by chance.
FEWEST_ROWS, SMOOTHING, HALVINGS = 64, 0.1, 2
SMALLEST_GROUP = 3  # other rows with a word
Texts = Sequence[Collection[Hashable]]


def foretold_rank(first_texts: Texts, second_texts: Texts) -> float:
    """Return the mean of `foretold_ranks`; 0.5, as by chance, without enough rows."""
    if len(first_texts) < FEWEST_ROWS:
        return 0.5
    return float(foretold_ranks(first_texts, second_texts).mean())


def foretold_ranks(
    first_texts: Texts, second_texts: Texts, teaching: np.ndarray | None = None
) -> np.ndarray:
    """Return each row's share of other rows whose second text is foretold less by its first text.

    Which words of second texts go with those of first texts is learnt from a half of the rows, and
    asked of the other half: words of translations go together without being equal. Halves are drawn
    by chance, as rows may take turns in a file. Shares are 0.5 on average by chance.

    Args:
        first_texts: the words, or tokens, of the first text of each row.
        second_texts: those of the second text.
        teaching: rows from which that is learnt; None for all.
    """
    first, second = map(_words_in_rows, (first_texts, second_texts))
    ranks, draw = np.zeros(len(first)), np.random.default_rng(0)
    for _ in range(HALVINGS):
        order = draw.permutation(len(first))
        halves = (order[::2], order[1::2])
        for half, asked in (halves, halves[::-1]):
            learnt = half if teaching is None else np.intersect1d(half, teaching)
            scores = _scores(first[learnt], second[learnt], first[asked], second[asked])
            ranks[asked] += rank_of_partners(torch.from_numpy(scores)).numpy() / HALVINGS
    return ranks


def foretold_numbers(
    first_texts: Texts, second_texts: Texts, labels: Sequence[float]
) -> dict[str, float]:
    """Return the mean of `foretold_ranks`, and their rank correlation with labels of the rows.

    They are ``foretold`` and ``fitting``; nothing of few rows.
    """
    if len(labels) < FEWEST_ROWS:
        return {}
    ranks = foretold_ranks(first_texts, second_texts)
    return {"foretold": float(ranks.mean()), "fitting": correlation(labels, ranks)}


def correlation(labels: Sequence[float], numbers: Sequence[float] | np.ndarray) -> float:
    """Return a rank correlation; 0 where either side does not vary."""
    from scipy.stats import spearmanr

    sides = [np.asarray(side, dtype=float) for side in (labels, numbers)]
    return float(spearmanr(*sides)[0]) if all(side.std() > 0 for side in sides) else 0.0


def foretold_scores(learnt: Sequence[Texts], first_texts: Texts, candidates: Texts) -> np.ndarray:
    """Return how far words of first texts foretell those of candidates, (first texts, candidates).

    Args:
        learnt: first and second texts of rows that belong together.
        first_texts: the words of each first text.
        candidates: the words of each candidate.
    """
    count = len(learnt[0])
    first = _words_in_rows([*learnt[0], *first_texts])
    second = _words_in_rows([*learnt[1], *candidates])
    return _scores(first[:count], second[:count], first[count:], second[count:])


def rank_within_group(first_texts: Texts, second_texts: Texts) -> float:
    """Return the mean rank of partners among those of rows with the same telling word.

    The telling word of a row is the word of its first text that foretells its partner most. Where
    all words tell, a partner fits its own row better than the others of that group; where partners
    are of a category, any of them fits as well, and the rank is 0.5. It is 1 without groups.
    """
    first, second = map(_words_in_rows, (first_texts, second_texts))
    ranks, draw = list[float](), np.random.default_rng(0)
    order = draw.permutation(len(first))
    halves = (order[::2], order[1::2]) if first.any() else ()
    for learnt, asked in (halves, halves[::-1]) if halves else ():
        one_word = np.eye(first.shape[1])
        alone = _scores(first[learnt], second[learnt], one_word, second[asked])
        scores = _scores(first[learnt], second[learnt], first[asked], second[asked])
        telling = np.where(first[asked] > 0, alone.T, -np.inf).argmax(1)
        for row, word in enumerate(telling):
            group = first[asked][:, word] * first[asked][row, word] > 0
            group[row] = False
            if group.sum() >= SMALLEST_GROUP:
                of_group, own = scores[row, group], scores[row, row]
                ranks.append(float(((of_group < own) + (of_group == own) / 2).mean()))
    return float(np.mean(ranks)) if ranks else 1.0


def rank_of_partners(scores: torch.Tensor) -> torch.Tensor:
    """Return each row's share of candidates with a lower score than its partner; ties count half.

    Args:
        scores: (N, N) scores of rows and candidates, partners on the diagonal.
    """
    partners = scores.diagonal()[:, None]
    ties = ((scores == partners).double().sum(1) - 1) / 2
    return ((scores < partners).double().sum(1) + ties) / (scores.shape[1] - 1)


def _scores(
    first: np.ndarray, second: np.ndarray, asked: np.ndarray, candidates: np.ndarray
) -> np.ndarray:
    """Return the mean gain of the words of candidates by those of texts that are asked.

    The gain is the logarithm of a word's probability given a text over its usual one; the former is
    the mean over the words of the text, smoothed.
    """
    together = (asked / np.maximum(first.sum(0), 1)) @ first.T @ second
    given_text = together / np.maximum(asked.sum(1, keepdims=True), 1)
    frequency = (second.sum(0) + 1) / (len(second) + 1)
    gain = np.log(SMOOTHING * frequency + (1 - SMOOTHING) * given_text) - np.log(frequency)
    shares = candidates / np.maximum(candidates.sum(1, keepdims=True), 1)
    return np.asarray(gain @ shares.T)


def _words_in_rows(texts: Texts) -> np.ndarray:
    """Return which words texts hold, (rows, words), as 0 and 1."""
    places: dict[Hashable, int] = {}
    for words in texts:
        for word in words:
            places.setdefault(word, len(places))
    held = np.zeros((len(texts), len(places)))
    for row, words in enumerate(texts):
        held[row, [places[word] for word in words]] = 1.0
    return held
