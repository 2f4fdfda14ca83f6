"""What each hard negative is good for: false by its words, harder than the positive, useful, or too easy."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from gradlab.inspection.texts import Texts
from gradlab.inspection.words import normalize

FALSE, NEARER, MATTERS, EASY = VERDICTS = (
    "looks like a positive",
    "nearer than the positive",
    "matters",
    "too easy",
)
# One of them more or fewer turns a statement into its opposite; "t" is what is left of "don't".
NEGATIONS = frozenset((
    "not", "no", "never", "none", "nobody", "nothing", "nowhere", "neither", "nor", "without", "cannot", "t",
    "nicht", "nie", "kein", "keine", "keinen", "keiner", "niet", "geen", "inte", "ne", "pas", "non", "nunca", "sin", "não", "senza",
))  # fmt: skip


def say_the_same(one: str, other: str) -> bool:
    """Whether a text holds all words of another one, at least four, and at most half as many more.

    Words may be left out, added or moved; a word that is *exchanged* for another states another fact. So do
    a negation that only one of the texts has, and two words far apart that change places, as in "Rome beat
    Ghent" and "Ghent beat Rome".
    """
    short, long = sorted((normalize(one).split(), normalize(other).split()), key=len)
    if 2 * len(long) > 3 * len(short) or (len(short) < 4 and len(short) < len(long)):
        return False
    added = Counter(long)
    added.subtract(short)
    if min(added.values()) < 0 or any(added[word] for word in NEGATIONS):
        return False
    moved = [place for place in range(len(short)) if short[place] != long[place]]
    return len(short) < len(long) or not moved or moved[-1] - moved[0] == 1 or 2 * len(moved) > len(long)


def looks_like_a_positive(text: str, anchor: str, positive: str) -> bool:
    """Whether a hard negative says the same as its anchor or positive, whichever has more words in common with it."""
    mine, *others = (Counter(normalize(one).split()) for one in (text, anchor, positive))
    common = [(mine & words).total() for words in others]
    return any(
        count == max(common) and say_the_same(text, other)
        for count, other in zip(common, (anchor, positive), strict=True)
    )


def false_by_words(texts: Texts, advance: Callable[[int], object] = lambda n: None) -> NDArray[np.int64]:
    """Hard negatives that say the same as their own anchor or positive: rows and columns from 1, (R, 2)."""
    found = []
    for column, hard in enumerate(texts.negatives.values(), start=1):
        assert texts.positives is not None  # `Texts` asks for them beside hard negatives
        for row, text in enumerate(hard):
            if looks_like_a_positive(text, texts.anchors[row], texts.positives[row]):
                found.append((row, column))
            advance(1)
    return np.array(found, dtype=np.int64).reshape(-1, 2)


def verdicts(hard: pd.DataFrame) -> NDArray[np.str_]:
    """One of :data:`VERDICTS` for each hard negative.

    It looks like a positive if its words (without texts, its embedding) say so. That an encoder finds it nearer than
    the positive proves nothing: it is either false, or what the encoder has still to learn. Otherwise it
    matters if its anchor pushes it more than the mean negative, and is too easy if not.

    Args:
        hard: of each whether it is ``false`` by its words, ``cosine``, ``positive_cosine`` and ``times_average``.
    """
    cases = [hard["false"], hard["cosine"] >= hard["positive_cosine"], hard["times_average"] > 1]
    return np.select(cases, VERDICTS[:3], EASY)
