"""Pairs that may be false negatives: sentences of a corpus that say the same.

A text is known by its number, see `gradlab.inspection.texts.Texts`. Hard negatives are pushed by anchors and positives, but
never by each other.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from gradlab.inspection.hard_negatives import false_by_words
from gradlab.inspection.neighbours import Neighbours, nearest_pairs
from gradlab.inspection.texts import Texts
from gradlab.inspection.vectors import Vectors
from gradlab.inspection.words import ALIKE, BANDS, WordIndex, normalize, slot_words, state_other_facts
from gradlab.waiting import counted

KINDS = ("duplicate", "near_duplicate", "neighbour")
# How much less of their words two texts need to share where their embeddings are near.
LOOSER = 0.1
# Share of neighbouring pairs above a cosine that must be near-duplicates by their words before the cosine alone decides.
TRUST, FEWEST = 0.8, 20
_MOST_NEIGHBOURS = 200_000
# Which kinds of texts a row has, in four bits: those of two groups, each a sentence's own or a hard negative.
_SIDES = (np.arange(16)[:, None] >> np.arange(4) & 1).astype(bool).T
# Shows progress: from a title and a total a context of a function that takes what was done.
Bar = Callable[[str, int], contextlib.AbstractContextManager[Callable[[int], object]]]


@dataclass(frozen=True)
class CandidatePairs:
    """Candidates for false negatives.

    Attributes:
        lines: a row each: ``first`` and ``second``, the numbers of two texts (see `Texts`); ``kind``, a place in :data:`KINDS`;
            ``overlap``, the share of the words that both have; ``rows``, the pairs of different rows that it stands for (a
            text that three rows have stands for three); ``cosine`` and ``centred``, see `Neighbours`.
        count: rows of the corpus, N.
        threshold: centred cosine from which on neighbours are candidates.
        near: the nearest pairs of different texts, candidates or not, nearest first.
        confirmed: (len(near.pairs),) whether these are near-duplicates by their words; empty without texts.
        repeats: anchors and positives that have the words of one of an earlier row.
        false_negatives: (R, 2) rows, and columns (from 1) of their own hard negatives that say the same as their anchor or
            positive by their words; without texts, those that have the same embedding.
        words: of the texts; None where only embeddings are known.
    """

    lines: pd.DataFrame
    count: int
    threshold: float
    near: Neighbours
    confirmed: NDArray[np.bool_]
    repeats: int
    false_negatives: NDArray[np.int64]
    words: WordIndex | None = None

    def __len__(self) -> int:
        return len(self.lines)

    def pairs_of_rows(self) -> NDArray[np.int64]:
        """All pairs of rows (R, 2) whose anchors or positives say the same, the smaller first, each once."""
        found = [row_pairs(*sides, self.count) for sides in self._sides()]
        return np.unique(np.concatenate([np.empty((0, 2), dtype=np.int64), *found]), axis=0)

    def pairs_with_hard_negatives(self) -> NDArray[np.int64]:
        """(R, 3) rows, and the rows and columns (from 1) of hard negatives that say the same as their anchor or positive.

        Of the row's own hard negatives, which are made to resemble it, only `false_negatives` count.
        """
        found = [hard_pairs(*sides, self.count) for sides in self._sides()]
        numbers = np.concatenate([np.empty((0, 2), dtype=np.int64), *found])
        column, row = np.divmod(numbers[:, 1], self.count)
        triples = np.stack([numbers[:, 0], row, column - 1], axis=1)
        return np.unique(np.concatenate([triples, self.false_negatives[:, [0, 0, 1]]]), axis=0)

    def _sides(self) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
        """Numbers of the texts that each line stands for, each pair of groups once."""
        seen: set[tuple[int, int]] = set()
        for first, second in self.lines[["first", "second"]].to_numpy().tolist():
            if self.words is None:
                yield np.array([first]), np.array([second])
                continue
            groups = int(self.words.group[first]), int(self.words.group[second])
            if groups not in seen:
                seen.add(groups)
                yield self.words.texts_of(groups[0]), self.words.texts_of(groups[1])

    @property
    def mask_above(self) -> float:
        """Cosine (not centred) from which on four of five near pairs are near-duplicates by their words; NaN if none is."""
        if not len(self.confirmed):
            return float("nan")
        order = np.argsort(-self.near.cosine, kind="stable")
        return _threshold(self.near.cosine[order], self.confirmed[order])

    def confirmed_above(self, cosine: float) -> float:
        """Share of near-duplicates by words among the near pairs of at least this cosine; NaN if there are none."""
        above = self.near.cosine >= cosine
        known = len(self.confirmed) and above.any()
        return float(self.confirmed[above].mean()) if known else float("nan")


def _overlaps(
    words: WordIndex, pairs: NDArray[np.int64], advance: Callable[[int], object]
) -> NDArray[np.float64]:
    """Shares of common words of pairs of groups, (P,)."""
    found = np.empty(len(pairs))
    for start in range(0, len(pairs), 10_000):
        part = pairs[start : start + 10_000].tolist()
        found[start : start + len(part)] = [words.overlap(*pair) for pair in part]
        advance(len(part))
    return found


def find_candidates(
    texts: Texts | None,
    vectors: Vectors,
    count: int,
    *,
    overlap: float,
    cosine: float | None,
    bar: Bar = functools.partial(counted, visible=False),  # noqa: B008  # it keeps nothing
) -> CandidatePairs:
    """Look through the whole corpus of ``count`` rows; see `gradlab.find_false_negatives`. Where only embeddings are known, ``texts`` is None."""
    if texts is None:
        return _by_embedding_alone(vectors, count, cosine, bar)
    with bar("Reading words", texts.count) as advance:
        words = WordIndex.build(texts, texts.count, texts.__getitem__, advance)
    with bar("Sorting words", BANDS) as advance:
        pairs = words.close(advance)
    with bar("Comparing words", len(pairs)) as advance:
        overlaps = _overlaps(words, pairs, advance)
    alike = overlaps >= min(ALIKE, overlap)
    pairs, overlaps = pairs[alike], overlaps[alike]
    with bar("Nearest neighbours", 2 * len(words.first)) as advance:
        near = nearest_pairs(vectors, words.first, _MOST_NEIGHBOURS, advance)
    threshold, nearest = near.by_chance if cosine is None else cosine, len(near.pairs)
    with bar("Comparing their words", nearest) as advance:
        found = _overlaps(words, near.pairs, advance)
    # Each pair once, the near ones first.
    pairs, overlaps = np.concatenate([near.pairs, pairs]), np.append(found, overlaps)
    first = np.sort(np.unique(pairs @ [len(words.first), 1], return_index=True)[1])
    pairs, overlaps = pairs[first], overlaps[first]
    kind = _kinds(words, pairs, overlaps, overlap, bar)
    doubtful = np.flatnonzero(kind == 2)
    kind[doubtful[near.measure(vectors, words.first[pairs[doubtful]])[1] < threshold]] = 0
    if cosine is not None:  # which decides alone
        far = (kind[:nearest] == 0) & ~np.isnan(overlaps[:nearest]) & (near.centred >= cosine)
        kind[:nearest][far] = 2
    lines = [*_duplicates(words, texts)]
    kept = np.flatnonzero(kind)
    kept = kept[np.lexsort(pairs[kept].T[::-1])]
    for (one, other), of_kind, value in zip(
        pairs[kept].tolist(), kind[kept].tolist(), overlaps[kept].tolist(), strict=True
    ):
        sides = words.texts_of(one), words.texts_of(other)
        pair = different_rows(*sides, len(texts))
        if pair is not None:
            lines.append((*pair, of_kind, value, count_row_pairs(*sides, len(texts))))
    own = words.group[: 2 * len(texts)].astype(np.int64)
    in_rows = np.unique(own * len(texts) + np.arange(len(own)) % len(texts))
    repeats = len(in_rows) - len(np.unique(own))
    near = dataclasses.replace(near, pairs=words.first[near.pairs])
    with bar("Comparing hard negatives", len(texts.negatives) * len(texts)) as advance:
        false_negatives = false_by_words(texts, advance)
    confirmed = kind[:nearest] == 1
    return CandidatePairs(
        _table(lines, near, vectors), count, threshold, near, confirmed, repeats, false_negatives, words
    )


def repeated_positives(texts: Texts) -> NDArray[np.int64]:
    """Rows whose positive has the words of its anchor: dropout alone makes two views of them."""
    if texts.positives is None:
        return np.empty(0, dtype=np.int64)
    pairs = zip(texts.anchors, texts.positives, strict=True)
    return np.flatnonzero([normalize(one) == normalize(other) for one, other in pairs])


def _threshold(cosines: NDArray[np.float32], confirmed: NDArray[np.bool_]) -> float:
    """The smallest of falling cosines down to which the pairs can be trusted; NaN if there is none."""
    trust = np.cumsum(confirmed) / np.arange(1, len(confirmed) + 1)
    # It lies at a near-duplicate: beyond the last of them only the mean would carry others along.
    good = np.flatnonzero((trust >= TRUST) & confirmed)
    return float(cosines[good[-1]]) if len(good) and good[-1] + 1 >= FEWEST else np.nan


def _kinds(
    words: WordIndex,
    pairs: NDArray[np.int64],
    overlaps: NDArray[np.float64],
    least: float,
    bar: Bar,
) -> NDArray[np.int8]:
    """Places in :data:`KINDS` by the words alone (P,): 1, 2 where the embeddings are to confirm it, and 0 for no candidates."""
    kind = np.zeros(len(pairs), dtype=np.int8)
    kind[overlaps >= least - LOOSER] = 2
    kind[overlaps >= least] = 1
    slots = slot_words(words.first[pairs[overlaps >= min(ALIKE, least)]], words.text)
    asked = np.flatnonzero(kind)
    with bar("Comparing what differs", len(asked)) as advance:
        others = state_other_facts(words.first[pairs[asked]], words.text, words.is_name, slots, advance)
    kind[asked[others]] = 0
    return kind


def _duplicates(words: WordIndex, texts: Texts) -> list[tuple[int, int, int, float, int]]:
    """A line for each text that several rows have, and one for each other way of writing it; each pair of rows counts once."""
    lines, count = [], len(texts)
    for group in np.flatnonzero(words.size > 1).tolist():
        written: dict[str, list[int]] = {}
        for number in words.texts_of(group).tolist():
            written.setdefault(texts[number], []).append(number)
        before, counted = np.empty(0, dtype=np.int64), 0
        for numbers in map(np.array, written.values()):
            every = np.sort(np.append(before, numbers))
            total = count_row_pairs(every, every, count)
            pair = different_rows(before, numbers, count) or different_rows(numbers, numbers, count)
            if pair is not None and total > counted:
                lines.append((*pair, 0, 1.0, total - counted))
            before, counted = every, total
    return lines


def _by_embedding_alone(vectors: Vectors, count: int, cosine: float | None, bar: Bar) -> CandidatePairs:
    """Without texts nothing tells how far a cosine can be trusted: identical embeddings unless one is given."""
    with bar("Nearest neighbours", 2 * len(vectors)) as advance:
        near = nearest_pairs(vectors, np.arange(len(vectors)), _MOST_NEIGHBOURS, advance)
    threshold = 1 - 2**-10 if cosine is None else cosine  # what float16 keeps of a cosine of 1
    pairs = near.pairs[near.centred >= threshold]
    own = (pairs[:, 0] % count == pairs[:, 1] % count) & (is_hard(pairs, count).sum(1) == 1)
    false_negatives = np.stack([pairs[own, 0] % count, pairs[own, 1] // count - 1], axis=1)
    lines = [
        (first, second, 2, np.nan, 1)
        for first, second in pairs.tolist()
        if different_rows(np.array([first]), np.array([second]), count)
    ]
    table, confirmed = _table(lines, near, vectors), np.empty(0, dtype=bool)
    return CandidatePairs(table, count, threshold, near, confirmed, 0, np.unique(false_negatives, axis=0))


def _table(lines: list[tuple[Any, ...]], near: Neighbours, vectors: Vectors) -> pd.DataFrame:
    """`CandidatePairs.lines`, those of duplicates first, then by the words that they share."""
    table = pd.DataFrame(lines, columns=["first", "second", "kind", "overlap", "rows"])
    table = table.astype({"first": int, "second": int, "kind": int, "overlap": float, "rows": int})
    table["cosine"], table["centred"] = near.measure(vectors, table[["first", "second"]].to_numpy())
    by = {"kind": True, "overlap": False, "rows": False}
    return table.sort_values([*by], ascending=[*by.values()], kind="stable", ignore_index=True)


def is_hard(numbers: NDArray[np.int64], count: int) -> NDArray[np.bool_]:
    """Which texts are hard negatives, of N = ``count`` rows."""
    return numbers >= 2 * count


def different_rows(one: NDArray[np.int64], other: NDArray[np.int64], count: int) -> tuple[int, int] | None:
    """The first two texts, in rising order, that different rows push apart; None if there are none."""
    if is_hard(one, count).all() and is_hard(other, count).all():
        return None
    pairs = itertools.product(one.tolist(), other.tolist())
    return next(((a, b) for a, b in pairs if a % count != b % count and min(a, b) < 2 * count), None)


def count_row_pairs(one: NDArray[np.int64], other: NDArray[np.int64], count: int) -> int:
    """Unordered pairs of different rows of which one has a text of ``one`` and the other a text of ``other``, not both hard."""
    if len(one) == len(other) == 1:
        return int(different_rows(one, other, count) is not None)
    sides = [side[is_hard(side, count) == hard] % count for side in (one, other) for hard in (False, True)]
    rows = np.unique(np.concatenate(sides))
    kind = np.zeros(len(rows), dtype=np.int64)
    for bit, side in enumerate(sides):
        kind[np.searchsorted(rows, side)] |= 1 << bit
    size = np.bincount(kind, minlength=16)
    mine, mine_hard, yours, yours_hard = _SIDES
    meet = np.outer(mine, yours | yours_hard) | np.outer(mine_hard, yours)
    pairs = np.outer(size, size) - np.diag(size)
    return int(pairs[meet | meet.T].sum()) // 2


def row_pairs(one: NDArray[np.int64], other: NDArray[np.int64], count: int) -> NDArray[np.int64]:
    """Pairs of different rows (P, 2), the smaller first, whose own texts are of ``one`` and of ``other``."""
    sides = [np.unique(side[~is_hard(side, count)] % count) for side in (one, other)]
    pairs = np.sort(np.stack(np.meshgrid(*sides), axis=-1).reshape(-1, 2), axis=1)
    return pairs[pairs[:, 0] < pairs[:, 1]]


def hard_pairs(one: NDArray[np.int64], other: NDArray[np.int64], count: int) -> NDArray[np.int64]:
    """(P, 2) rows with a text of their own in one of both, and numbers of hard negatives of other rows in the other."""
    parts = []
    for first, second in ((one, other), (other, one)):
        rows = np.unique(first[~is_hard(first, count)] % count)
        parts.append(np.stack(np.meshgrid(rows, second[is_hard(second, count)]), axis=-1).reshape(-1, 2))
    pairs = np.concatenate(parts)
    return pairs[pairs[:, 0] != pairs[:, 1] % count]
