"""Which of many texts share most of their words? An index by MinHash, read on all cores.

Words are numbers of 31 bits (CRC-32), so that a million sentences take 100 MB.
"""

from __future__ import annotations

import hashlib
import itertools
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from gradlab.inspection.equal_texts import Groups
from gradlab.inspection.texts import Texts, normalize, words_of
from gradlab.progress_bars import progress_bar

# Signatures of 160 minima in bands of 8: two texts share a band with probability .97 at a Jaccard
# index of .8 between their sets of words, .99999 at .9, and .001 at .3.
BANDS, ROWS = 20, 8
# Each text of a band is compared with so many others, which is enough for copies, but not for a
# template of thousands.
MOST = 64
# Number of texts from which on other processes read them; each needs seconds to start.
PARALLEL = 300_000
_CHUNK = 2048
_WORDS = 2**31 - 1  # word numbers are below it
_TABLE = 2**22  # places of the tables of frequencies and capitals
_PAIRS = 1 << 16  # pairs that are compared at a time


class WordSets(NamedTuple):
    """The words of some texts."""

    hashes: NDArray[np.int64]  # (n,) of the normalised texts
    bands: NDArray[np.uint32]  # (BANDS, n)
    words: NDArray[np.int32]  # different words of each text, ascending, text after text
    lengths: NDArray[np.int32]  # (n,) number of different words
    numerals: NDArray[np.int32]  # words with a digit, and signs
    capitals: tuple[NDArray[np.int64], NDArray[np.int64]]  # places, and what to add there


def read_words(texts: Sequence[str]) -> WordSets:
    """Return the words of some texts; equal in all processes."""
    from rensa import RMinHash

    keys = [normalize(text) for text in texts]
    words = [sorted(set(key.split())) for key in keys]
    numbers = {word: number_of(word) for word in set(itertools.chain.from_iterable(words))}
    ids = [sorted({numbers[word] for word in text_words}) for text_words in words]
    signatures = RMinHash.digest_matrix_from_token_sets(words, BANDS * ROWS, 1).to_rows()
    minima = np.array(signatures, dtype=np.uint64).reshape(len(keys), BANDS, ROWS)
    constants = np.random.default_rng(0).integers(1, 2**63, ROWS, dtype=np.uint64) * 2 + 1
    # Equal bands give equal numbers; the few other bands that do are told apart by words.
    bands = (minima * constants).sum(2, dtype=np.uint64).T >> np.uint64(32)
    # Signs, which no word holds, state facts as numbers do.
    numerals = [
        number for word, number in numbers.items()
        if any(map(str.isdigit, word)) or not any(map(str.isalnum, word))
    ]  # fmt: skip
    return WordSets(
        np.array([_hash(key) for key in keys], dtype=np.int64),
        bands.astype(np.uint32),
        np.fromiter(itertools.chain.from_iterable(ids), np.int32),
        np.fromiter(map(len, ids), np.int32, len(ids)),
        np.array(numerals, dtype=np.int32),
        _capitals(texts),
    )


@dataclass(frozen=True, eq=False)
class WordIndex(Groups):
    """Index of many texts by their words; a group holds the texts with the same normalised form."""

    close: NDArray[np.int64]  # (P, 2) groups that may share most of their words, the smaller first
    texts: Texts | Sequence[str]  # by number
    _words: scipy.sparse.csr_array  # (groups, words) 1 where a group has a word
    _weights: NDArray[np.float64]  # weight of each word by its place in the table
    _numerals: NDArray[np.int32]  # words with a digit, and signs
    _capitals: NDArray[np.int32]

    @classmethod
    def build(cls, texts: Texts | Sequence[str], count: int, progress: bool = False) -> WordIndex:
        """Read all ``count`` texts once."""
        capitals = np.zeros(_TABLE, dtype=np.int32)
        hashes = np.empty(count, dtype=np.int64)
        bands = np.empty((BANDS, count), dtype=np.uint32)
        words, lengths, numerals = [], [], np.empty(0, dtype=np.int32)
        start = 0
        with progress_bar(None, progress, desc="Reading words", total=count) as bar:
            for reading in _readings(texts, count):
                span = slice(start, start + len(reading.hashes))
                hashes[span], bands[:, span] = reading.hashes, reading.bands
                words.append(reading.words)
                lengths.append(reading.lengths)
                numerals = np.union1d(numerals, reading.numerals)
                np.add.at(capitals, *reading.capitals)
                start = span.stop
                bar.update(len(reading.hashes))
        same = Groups.of(hashes)
        close = _close_pairs(bands, same.first, progress)
        of_texts = np.concatenate(words)
        frequency = np.bincount(of_texts % _TABLE, minlength=_TABLE)
        # Words with the same place count as one, which is rare among 4 million places.
        weights = np.log(count / np.clip(frequency, 1, count))
        ends = np.append(0, np.cumsum(np.concatenate(lengths), dtype=np.int64))
        presence = np.ones(len(of_texts), dtype=np.int8)
        matrix = scipy.sparse.csr_array((presence, of_texts, ends), shape=(count, _WORDS))
        return cls(
            *(same.group, same.first, same.size, close, texts),
            *(matrix[same.first], weights, numerals, capitals),
        )

    def overlap(self, pairs: NDArray[np.int64], progress: bool = False) -> NDArray[np.float64]:
        """Return the share of words that pairs of groups (P, 2) have in common, (P,).

        Rare words count for more: this is the weighted Jaccard index of two sets of words, where a
        word in ``n`` of ``N`` texts has the weight ``log(N/n)``. It is NaN if numbers or signs in
        the texts differ, because they then state other facts.
        """
        shares = np.empty(len(pairs))
        starts = range(0, len(pairs), _PAIRS)
        for start in progress_bar(starts, progress, desc="Comparing words"):
            span = slice(start, start + _PAIRS)
            first_words, second_words = (self._words[pairs[span, side]] for side in (0, 1))
            total = self._weigh(first_words) + self._weigh(second_words)
            common = self._weigh(first_words.multiply(second_words))
            union = total[0] - common[0]
            shares[span] = np.divide(common[0], union, out=np.ones(len(union)), where=union > 0)
            shares[span][total[1] > 2 * common[1]] = np.nan
        return shares

    def is_name(self, word: str) -> bool:
        """Return whether a word has a capital that the corpus rarely omits within a sentence."""
        return word[0].isupper() and bool(self._capitals[number_of(word.casefold()) % _TABLE] >= 0)

    def _weigh(self, words: scipy.sparse.csr_array) -> NDArray[np.float64]:
        """Return the weight of all words, and the number of numerals, of some sets, (2, n)."""
        owners = np.repeat(np.arange(words.shape[0]), np.diff(words.indptr))
        weights = self._weights[words.indices % _TABLE]
        numerals = np.isin(words.indices, self._numerals)
        return np.stack([
            np.bincount(owners, kind, words.shape[0]) for kind in (weights, numerals)
        ])  # fmt: skip


def number_of(word: str) -> int:
    """Return the number of a word, which two words rarely share."""
    return zlib.crc32(word.encode("utf-8", "replace")) % _WORDS


def chunks(texts: Iterable[str], size: int) -> Iterator[list[str]]:
    """Yield lists of ``size`` texts; the last list may be shorter."""
    iterator = iter(texts)
    while chunk := list(itertools.islice(iterator, size)):
        yield chunk


def _readings(texts: Texts | Sequence[str], count: int) -> Iterator[WordSets]:
    """Yield the words of all texts in order, read by other processes if there are many."""
    pieces = chunks(texts, _CHUNK)
    if count < PARALLEL:
        yield from map(read_words, pieces)
        return
    from joblib import Parallel, cpu_count, delayed

    processes = Parallel(cpu_count(), return_as="generator", pre_dispatch="2 * n_jobs")
    yield from processes(delayed(read_words)(piece) for piece in pieces)


def _hash(key: str) -> int:
    digest = hashlib.blake2b(key.encode("utf-8", "replace"), digest_size=8).digest()
    return int.from_bytes(digest, "little", signed=True)


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


def _capitals(texts: Sequence[str]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return 1 for each word with a capital, -1 for each without, except for a text's first word.

    The first array has the words' places in the table.
    """
    words = Counter(word for text in texts for word in words_of(text)[1:])
    signs = [(word[0].isupper() - word[0].islower()) * count for word, count in words.items()]
    places = [number_of(word.casefold()) % _TABLE for word in words]
    return np.array(places, dtype=np.int64), np.array(signs, dtype=np.int64)
