"""Do words of first texts foretell those of second texts, as in pairs that belong together?"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Sequence

import numpy as np
import torch

# Fewest rows that tell; weight of a word's usual frequency.
FEWEST_ROWS, SMOOTHING = 64, 0.1


def foretold_rank(
    first_texts: Sequence[Collection[Hashable]], second_texts: Sequence[Collection[Hashable]]
) -> float:
    """Return the mean share of other rows whose second text is foretold less by a first text.

    Which words of second texts go with those of first texts is learnt from every other row, and
    asked of the rows between: words of translations go together without being equal. Shares are
    0.5 by chance, and without enough rows.

    Args:
        first_texts: the words, or tokens, of the first text of each row.
        second_texts: those of the second text.
    """
    if len(first_texts) < FEWEST_ROWS:
        return 0.5
    first, second = map(_words_in_rows, (first_texts, second_texts))
    shares = []
    for learnt, asked in ((0, 1), (1, 0)):
        times = np.maximum(first[learnt::2].sum(0), 1)
        # Probability of a word given a text: means over the words of the text, smoothed.
        together = (first[asked::2] / times) @ first[learnt::2].T @ second[learnt::2]
        given_text = together / np.maximum(first[asked::2].sum(1, keepdims=True), 1)
        frequency = (second[learnt::2].sum(0) + 1) / (len(second[learnt::2]) + 1)
        gain = np.log(SMOOTHING * frequency + (1 - SMOOTHING) * given_text) - np.log(frequency)
        candidates = second[asked::2] / np.maximum(second[asked::2].sum(1, keepdims=True), 1)
        shares.append(rank_of_partners(torch.from_numpy(gain @ candidates.T)))
    return float(torch.cat(shares).mean())


def rank_of_partners(scores: torch.Tensor) -> torch.Tensor:
    """Return each row's share of candidates with a lower score than its partner; ties count half.

    Args:
        scores: (N, N) scores of rows and candidates, partners on the diagonal.
    """
    partners = scores.diagonal()[:, None]
    ties = ((scores == partners).double().sum(1) - 1) / 2
    return ((scores < partners).double().sum(1) + ties) / (scores.shape[1] - 1)


def _words_in_rows(texts: Sequence[Collection[Hashable]]) -> np.ndarray:
    """Return which words texts hold, (rows, words), as 0 and 1."""
    places: dict[Hashable, int] = {}
    for words in texts:
        for word in words:
            places.setdefault(word, len(places))
    held = np.zeros((len(texts), len(places)))
    for row, words in enumerate(texts):
        held[row, [places[word] for word in words]] = 1.0
    return held
