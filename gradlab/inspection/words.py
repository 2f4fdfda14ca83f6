"""Texts that say the same by their words: duplicates, near-duplicates (MinHash), template slots."""

from __future__ import annotations

import functools
import itertools
import math
import re
import unicodedata
import zlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gradlab.inspection.texts import Texts, normalize
from gradlab.inspection.vectors import Groups
from gradlab.waiting import progress_bar

# Signatures of 160 minima in bands of 8: two texts share a band with probability .97 at a Jaccard
# index of .8 between their sets of words, .99999 at .9, and .001 at .3.
BANDS, ROWS = 20, 8
# Each text of a band is compared with so many others, which is enough for copies, but not for a
# template of thousands.
MOST = 64
_CHUNK = 2048
_TABLE = 2**22
# A word fills a slot if it changes in more than SHARE of the pairs with it, in at least PAIRS, and
# against at least COUNTERPARTS other words: two spellings of a word replace only each other.
PAIRS, COUNTERPARTS, SHARE = 5, 3, 0.5
# Share of common words from which on pairs reveal slots, and largest number of pairs to look at.
ALIKE, ASKED = 0.5, 50_000
# Words that turn a statement into its opposite; "t" is what remains of "don't".
NEGATIONS = frozenset((
    "not", "no", "never", "none", "nobody", "nothing", "nowhere", "neither", "nor", "without",
    "cannot", "t", "nicht", "nie", "kein", "keine", "keinen", "keiner", "niet", "geen", "inte",
    "ne", "pas", "non", "nunca", "sin", "não", "senza",
))  # fmt: skip


def words_of(text: str) -> list[str]:
    """Return the words of a text as written; a hyphen joins words: ``south-east`` is one word."""
    return re.findall(r"\w+(?:-\w+)*", unicodedata.normalize("NFKC", text))


def say_the_same(first: str, second: str) -> bool:
    """Return whether the longer text has all words of the shorter, and at most half as many more.

    Words may be moved and, beside at least four, added. An *exchanged* word states another fact, as
    do a negation in one text and distant words that swap ("Rome beat Ghent", "Ghent beat Rome").
    """
    short, long = sorted((normalize(first).split(), normalize(second).split()), key=len)
    if 2 * len(long) > 3 * len(short) or (len(short) < 4 and len(short) < len(long)):
        return False
    added = Counter(long)
    added.subtract(short)
    if min(added.values()) < 0 or any(added[word] for word in NEGATIONS):
        return False
    moved = [place for place in range(len(short)) if short[place] != long[place]]
    return (
        len(short) < len(long)
        or not moved
        or moved[-1] - moved[0] == 1
        or 2 * len(moved) > len(long)
    )


def looks_like_a_positive(text: str, anchor: str, positive: str) -> bool:
    """Return whether a hard negative says the same as its anchor or positive.

    It is compared with whichever shares more words.
    """
    counts, *references = (
        Counter(normalize(sentence).split()) for sentence in (text, anchor, positive)
    )
    common = [(counts & words).total() for words in references]
    return any(
        count == max(common) and say_the_same(text, reference)
        for count, reference in zip(common, (anchor, positive), strict=True)
    )


@dataclass(frozen=True, eq=False)
class WordIndex(Groups):
    """Index of many texts by their words; a group holds the texts with the same normalised form."""

    close: NDArray[np.int64]  # (P, 2) groups that may share most of their words, the smaller first
    texts: Texts | Sequence[str]  # by number
    _frequency: NDArray[np.uint32]
    _capitals: NDArray[np.int32]

    @classmethod
    def build(cls, texts: Texts | Sequence[str], count: int, progress: bool = False) -> WordIndex:
        """Read all ``count`` texts once."""
        from rensa import RMinHash

        frequency = np.zeros(_TABLE, dtype=np.uint32)
        capitals = np.zeros(_TABLE, dtype=np.int32)
        hashes = np.empty(count, dtype=np.int64)
        bands = np.empty((BANDS, count), dtype=np.uint32)
        constants = np.random.default_rng(0).integers(1, 2**63, ROWS, dtype=np.uint64) * 2 + 1
        start = 0
        read = progress_bar(texts, progress, desc="Reading words", total=count)
        for chunk in chunks(read, _CHUNK):
            keys = [normalize(text) for text in chunk]
            words = [sorted(set(key.split())) for key in keys]
            counts = Counter(itertools.chain.from_iterable(words))
            np.add.at(frequency, [_place(word) for word in counts], list(counts.values()))
            _count_capitals(chunk, capitals)
            span = slice(start, start + len(chunk))
            hashes[span] = [hash(key) for key in keys]
            signatures = RMinHash.digest_matrix_from_token_sets(words, BANDS * ROWS, 1).to_rows()
            minima = np.array(signatures, dtype=np.uint64).reshape(len(keys), BANDS, ROWS)
            # Equal bands give equal numbers; the few other bands that do are told apart by words.
            bands[:, span] = (minima * constants).sum(2, dtype=np.uint64).T >> np.uint64(32)
            start = span.stop
        same = Groups.of(hashes)
        close = _close_pairs(bands, same.first, progress)
        return cls(same.group, same.first, same.size, close, texts, frequency, capitals)

    def overlap(self, first: int, second: int) -> float:
        """Return the share of words that two groups have in common, with more weight on rare words.

        This is the weighted Jaccard index of their sets of words; a word in ``n`` of ``N`` texts
        has the weight ``log(N/n)``. It is NaN if numbers in the texts differ, because they then
        state other facts.
        """
        first_words, second_words = self._words(first), self._words(second)
        apart = first_words ^ second_words
        if any(character.isdigit() for word in apart for character in word):
            return math.nan
        # The order of sets differs between processes.
        shared = sum(sorted(map(self._weight, first_words & second_words)))
        everything = shared + sum(sorted(map(self._weight, apart)))
        return shared / everything if everything else 1.0

    def is_name(self, word: str) -> bool:
        """Return whether a word has a capital that the corpus rarely omits within a sentence."""
        return word[0].isupper() and bool(self._capitals[_place(word.casefold())] >= 0)

    @functools.lru_cache(maxsize=20_000)  # noqa: B019  # as long-lived as the inspection itself
    def _words(self, group: int) -> frozenset[str]:
        return frozenset(normalize(self.texts[int(self.first[group])]).split())

    def _weight(self, word: str) -> float:
        # Words with the same place count as one, which is rare among 4 million places.
        count = len(self.group)
        return math.log(count / min(int(self._frequency[_place(word)]), count))


def _close_pairs(
    bands: NDArray[np.uint32], first: NDArray[np.int64], progress: bool
) -> NDArray[np.int64]:
    """Return `WordIndex.close` from bands (bands, texts) and the first text of each group."""
    close: NDArray[np.int64] = np.empty(0, dtype=np.int64)
    count = len(first)
    for band in progress_bar(bands, progress, desc="Sorting words"):
        numbers = band[first]  # of one band at a time: a copy of all would take as much again
        order = np.argsort(numbers, kind="stable")
        keys, blocks = numbers[order], [close]
        for step in range(1, min(MOST, count)):
            same = np.flatnonzero(keys[step:] == keys[:-step])
            if not len(same):
                break
            pair = np.sort(np.stack([order[same], order[same + step]]), axis=0)
            blocks.append(pair[0] * count + pair[1])
        close = np.unique(np.concatenate(blocks))
    return np.stack(np.divmod(close, count), axis=1)


def _count_capitals(texts: Sequence[str], balance: NDArray[np.int32]) -> None:
    """Add 1 for each word with a capital, -1 for each without, except for a text's first word."""
    words = Counter(word for text in texts for word in words_of(text)[1:])
    signs = [(word[0].isupper() - word[0].islower()) * count for word, count in words.items()]
    np.add.at(balance, [_place(word.casefold()) for word in words], signs)


def _place(word: str) -> int:
    return zlib.crc32(word.encode("utf-8", "replace")) % _TABLE


def chunks(texts: Iterable[str], size: int) -> Iterator[list[str]]:
    """Yield lists of ``size`` texts; the last list may be shorter."""
    iterator = iter(texts)
    while chunk := list(itertools.islice(iterator, size)):
        yield chunk


def slot_words(pairs: NDArray[np.int64], texts: Texts | Sequence[str]) -> frozenset[str]:
    """Return words, such as north and south, that alternate in a sample of similar pairs (P, 2)."""
    frequency: Counter[str] = Counter()
    changes: Counter[str] = Counter()
    against: defaultdict[str, set[str]] = defaultdict(set)
    for first, second in pairs[:: max(1, len(pairs) // ASKED)].tolist():
        first_words, second_words = _counted(texts[first]), _counted(texts[second])
        only_first, only_second = first_words - second_words, second_words - first_words
        frequency.update(first_words.keys() | second_words.keys())
        changes.update(only_first.keys() | only_second.keys())
        for words, counterparts in ((only_first, only_second), (only_second, only_first)):
            for word in words:
                if len(against[word]) < COUNTERPARTS:
                    against[word].update(counterparts)
    return frozenset(
        word
        for word, count in changes.items()
        if count >= PAIRS and count > SHARE * frequency[word] and len(against[word]) >= COUNTERPARTS
    )


def state_other_facts(
    pairs: NDArray[np.int64], words: WordIndex, slots: frozenset[str], progress: bool = False
) -> NDArray[np.bool_]:
    """Return which pairs of texts with most words in common are about different things, (P,).

    Each text has a name that the other lacks, or they differ in a word that fills one of ``slots``.
    """
    differs = np.zeros(len(pairs), dtype=bool)
    asked = progress_bar(pairs.tolist(), progress, desc="Comparing what differs")
    for place, pair in enumerate(asked):
        texts = [words.texts[number] for number in pair]
        first_words, second_words = map(_counted, texts)
        named = [
            any(
                words.is_name(word) and word.casefold() not in counterpart
                for word in words_of(text)
            )
            for text, counterpart in zip(texts, (second_words, first_words), strict=True)
        ]
        differs[place] = all(named) or not slots.isdisjoint(
            ((first_words - second_words) | (second_words - first_words)).keys()
        )
    return differs


def _counted(text: str) -> Counter[str]:
    return Counter(word.casefold() for word in words_of(text))
