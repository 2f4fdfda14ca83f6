"""What sentences made from a template differ in: these have most words in common and state other facts."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

# A word fills a slot if it is among the changed words in more than half of the pairs that have it, in this many at least, and
# stands against this many others: two spellings of a word only ever stand against each other.
PAIRS, COUNTERPARTS, SHARE = 5, 3, 0.5
# Share of common words from which on pairs tell what templates vary in, and how many pairs are asked.
ALIKE, MOST = 0.5, 50_000


def words_of(text: str) -> list[str]:
    """The words of a text as they are written; those joined by a hyphen are one: ``south-east`` is not ``south`` and ``east``."""
    return re.findall(r"\w+(?:-\w+)*", unicodedata.normalize("NFKC", text))


def slot_words(pairs: NDArray[np.int64], text: Callable[[int], str]) -> frozenset[str]:
    """Words that keep changing among pairs of texts with many words in common: north, south, west.

    Args:
        pairs: (P, 2) numbers of texts; of many, some are looked at.
        text: finds one by its number.
    """
    seen: Counter[str] = Counter()
    changes: Counter[str] = Counter()
    against: defaultdict[str, set[str]] = defaultdict(set)
    for first, second in pairs[:: max(1, len(pairs) // MOST)].tolist():
        one, other = _counted(text(first)), _counted(text(second))
        mine, yours = one - other, other - one
        seen.update(one.keys() | other.keys())
        changes.update(mine.keys() | yours.keys())
        for words, others in ((mine, yours), (yours, mine)):
            for word in words:
                if len(against[word]) < COUNTERPARTS:
                    against[word].update(others)
    return frozenset(
        word
        for word, count in changes.items()
        if count >= PAIRS and count > SHARE * seen[word] and len(against[word]) >= COUNTERPARTS
    )


def state_other_facts(
    pairs: NDArray[np.int64],
    text: Callable[[int], str],
    is_name: Callable[[str], bool],
    slots: frozenset[str],
    advance: Callable[[int], object] = lambda n: None,
) -> NDArray[np.bool_]:
    """Which of many pairs of texts with most words in common differ in what they are about, (P,).

    In these each text has a name that the other lacks, or they differ in a word that fills a slot.

    Args:
        pairs: (P, 2) numbers of texts.
        text: finds one by its number.
        is_name: whether a word, as it is written, is a name in this corpus.
        slots: see `slot_words`.
        advance: called with the number of pairs that were compared.
    """
    found = np.zeros(len(pairs), dtype=bool)
    for place, (first, second) in enumerate(pairs.tolist()):
        one, other = _counted(text(first)), _counted(text(second))
        named = [
            any(is_name(word) and word.casefold() not in theirs for word in words_of(text(number)))
            for number, theirs in ((first, other), (second, one))
        ]
        found[place] = all(named) or not slots.isdisjoint(((one - other) | (other - one)).keys())
        advance(1)
    return found


def _counted(text: str) -> Counter[str]:
    return Counter(word.casefold() for word in words_of(text))
