"""Do words of first texts foretell those of second texts, as in pairs that belong together?"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Sequence

import numpy as np
import torch
from scipy.sparse import csr_array

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
    first, second = map(words_in_rows, (first_texts, second_texts))
    ranks, draw = np.zeros(first.shape[0]), np.random.default_rng(0)
    for _ in range(HALVINGS):
        order = draw.permutation(first.shape[0])
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
    first = words_in_rows([*learnt[0], *first_texts])
    second = words_in_rows([*learnt[1], *candidates])
    return _scores(first[:count], second[:count], first[count:], second[count:])


def rank_within_group(first_texts: Texts, second_texts: Texts) -> float:
    """Return the mean rank of partners among those of rows with the same telling word.

    The telling word of a row is the word of its first text that foretells its partner most. Where
    all words tell, a partner fits its own row better than the others of that group; where partners
    are of a category, any of them fits as well, and the rank is 0.5. It is 1 without groups.
    """
    first, second = map(words_in_rows, (first_texts, second_texts))
    ranks, draw = list[float](), np.random.default_rng(0)
    order = draw.permutation(first.shape[0])
    halves = (order[::2], order[1::2])
    for learnt, asked in (halves, halves[::-1]):
        scores = _scores(first[learnt], second[learnt], first[asked], second[asked])
        held = first[asked].tocsc()
        telling = _telling_words(first[learnt], second[learnt], first[asked], second[asked])
        for row, word in enumerate(telling):
            group = (
                held[:, [word]].toarray()[:, 0] > 0 if word >= 0 else np.zeros(len(scores), bool)
            )
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


def words_in_rows(texts: Texts) -> csr_array:
    """Return which words texts hold, (rows, words), as 0 and 1."""
    places: dict[Hashable, int] = {}
    columns = [[places.setdefault(word, len(places)) for word in words] for words in texts]
    ends = np.cumsum([0, *map(len, columns)])
    entries = np.ones(ends[-1])
    flat = np.array([column for row in columns for column in row], dtype=np.int64)
    return csr_array((entries, flat, ends), shape=(len(columns), max(len(places), 1)))


def _scores(
    first: csr_array, second: csr_array, asked: csr_array, candidates: csr_array
) -> np.ndarray:
    """Return the mean gain of the words of candidates by those of texts that are asked.

    The gain is the logarithm of a word's probability given a text over its usual one; the former is
    the mean over the words of the text, smoothed.
    """
    times, lengths = first.sum(0), np.maximum(asked.sum(1), 1)
    # How much of each learnt row a text brings to mind, (asked, learnt).
    weights = (asked @ (first / np.maximum(times, 1)).T).toarray() / lengths[:, None]
    shares = (candidates / np.maximum(candidates.sum(1), 1)[:, None]).tocsc()
    in_rows = second.sum(0)
    # Of a word that no learnt row has, the gain is the logarithm of the smoothing.
    unknown = np.log(SMOOTHING) * (shares @ (in_rows == 0))
    words = np.flatnonzero((in_rows > 0) & (candidates.sum(0) > 0))
    gain = _gain(weights @ second.tocsc()[:, words], in_rows[words], second.shape[0])
    # Rounded, so that equal scores stay equal.
    return np.round(gain @ shares[:, words].T + unknown, 9)


def _gain(given_text: np.ndarray, in_rows: np.ndarray, count: int) -> np.ndarray:
    """Return logarithms of the smoothed probabilities of words given texts, over the usual ones.

    Args:
        given_text: (texts, words) probabilities.
        in_rows: the learnt rows that have each word, of ``count``.
    """
    frequency = (in_rows + 1) / (count + 1)
    return np.log(SMOOTHING * frequency + (1 - SMOOTHING) * given_text) - np.log(frequency)


def _telling_words(
    first: csr_array, second: csr_array, asked: csr_array, candidates: csr_array
) -> list[int]:
    """Return for each text the word that foretells its candidate most by itself; -1 without any."""
    times, in_rows = first.sum(0), second.sum(0)
    first, second = first.tocsc(), second.tocsc()
    telling = []
    for row in range(asked.shape[0]):
        words, own = asked[[row]].indices, candidates[[row]].indices
        if not len(words):
            telling.append(-1)
            continue
        together = (first[:, words].T @ second[:, own]).toarray()
        given_word = together / np.maximum(times[words], 1)[:, None]
        scores = np.round(_gain(given_word, in_rows[own], second.shape[0]).sum(1), 9)
        telling.append(int(words[scores == scores.max()].min()))  # the first of equals
    return telling
