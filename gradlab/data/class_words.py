"""Do the words of texts tell their classes, as learnt from other texts?"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np
from scipy.sparse import csr_array

from gradlab.data.cooccurrence import Texts, words_in_rows

# Words of the usual text that each class has beforehand, relative to the root of their number; how
# often rows are halved by chance; fewest rows that tell.
PRIOR, HALVINGS, FEWEST_ROWS = 2.0, 4, 32


def told_by_words(texts: Texts, labels: Sequence[Hashable]) -> float:
    """Return by how many standard errors the words of texts tell their classes.

    Which words the texts of a class have is learnt from a half of the rows, drawn by chance, and
    asked of the other half: a row's rank is the share of other classes whose words fit its text
    less. So texts of a class that have any of many words of a field are told as well as those that
    have one word in common. The number is about 0 where labels belong to other texts.

    Args:
        texts: the words of each text.
        labels: the class of each text.
    """
    if len(texts) < FEWEST_ROWS or len(set(labels)) < 2:
        return 0.0
    held, draw = words_in_rows(texts), np.random.default_rng(0)
    numbers = {label: number for number, label in enumerate(dict.fromkeys(labels))}
    classes = np.array([numbers[label] for label in labels])
    ranks = np.full((HALVINGS, len(classes)), 0.5)
    for halving in range(HALVINGS):
        order = draw.permutation(len(classes))
        # Halves have as many rows of each class: a class of which little is learnt fits any text.
        order = order[classes[order].argsort(kind="stable")]
        halves = (order[::2], order[1::2])
        for learnt, asked in (halves, halves[::-1]):
            ranks[halving, asked] = _ranks(
                held[learnt], classes[learnt], held[asked], classes[asked]
            )
    above = ranks.mean(0) - 0.5
    spread = float(above.std())
    return float(above.mean()) / spread * len(above) ** 0.5 if spread else 0.0


def _ranks(
    texts: csr_array, classes: np.ndarray, asked: csr_array, of_asked: np.ndarray
) -> np.ndarray:
    """Return the share of other classes whose words fit each asked text less; ties count half.

    It is 0.5 for texts of a class that no learnt text has.
    """
    learnt_classes = np.unique(classes)
    words = np.stack([texts[np.flatnonzero(classes == label)].sum(0) for label in learnt_classes])
    frequency = (words.sum(0) + 1) / (words.sum() + words.shape[1])
    prior = PRIOR * len(frequency) ** 0.5
    shares = (words + prior * frequency) / (words.sum(1, keepdims=True) + prior)
    # Rounded, so that equal scores stay equal.
    scores = np.round(asked @ np.log(shares / frequency).T, 9)
    places = np.searchsorted(learnt_classes, of_asked).clip(max=len(learnt_classes) - 1)
    own = scores[np.arange(len(scores)), places][:, None]
    below = (scores < own).sum(1) + ((scores == own).sum(1) - 1) / 2
    return np.where(
        learnt_classes[places] == of_asked, below / max(1, len(learnt_classes) - 1), 0.5
    )
