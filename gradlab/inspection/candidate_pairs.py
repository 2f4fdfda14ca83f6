"""Candidates for false negatives: pairs of sentences in a corpus that say the same.

Each text has a number, see `gradlab.inspection.texts.Texts`. Anchors and positives push hard
negatives, but hard negatives never push each other.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections import defaultdict
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from gradlab.errors import GradlabError
from gradlab.inspection.texts import Texts
from gradlab.inspection.vectors import Groups, Neighbours, Vectors, cosines_of, nearest_pairs
from gradlab.inspection.words import (
    ALIKE,
    WordIndex,
    looks_like_a_positive,
    slot_words,
    state_other_facts,
)
from gradlab.waiting import progress_bar

KINDS = ("duplicate", "near_duplicate", "neighbour")
DUPLICATE, NEAR_DUPLICATE, NEIGHBOUR = range(len(KINDS))
_NEITHER = -1  # not a candidate for a false negative
# Reduction of the required share of common words for two texts with close embeddings.
LOOSER = 0.1
# A cosine can be trusted if this share of the pairs above it, which must be at least FEWEST, are
# near-duplicates by words.
TRUST, FEWEST = 0.8, 20
_MOST_NEIGHBOURS = 200_000
# Number of pairs that `CandidatePairs.once` compares at a time, unless a single row has more.
_AT_ONCE = 1 << 22


@dataclass(frozen=True)
class CandidatePairs:
    """Candidates for false negatives in a corpus of N rows."""

    # One line per candidate: ``first`` and ``second``, numbers of two texts (see `Texts`);
    # ``kind``, index in `KINDS`; ``overlap``, share of common words; ``rows``, number of pairs of
    # different rows with these texts, each of which may be in several rows; ``cosine`` and
    # ``centred``, see `Neighbours`.
    lines: pd.DataFrame
    count: int  # number N of rows in the corpus
    threshold: float  # centred cosine from which on neighbours are candidates
    near: Neighbours  # nearest pairs of different texts, whether candidates or not
    # Which pairs of ``near`` are near-duplicates by words; empty without texts.
    confirmed: NDArray[np.bool_]
    repeats: int  # number of anchors and positives with the words of one in an earlier row
    # (R, 2) rows, and columns (from 1) of their own hard negatives that say the same as the anchor
    # or positive, judged by words, or without texts by equal embeddings.
    false_negatives: NDArray[np.int64]
    groups: Groups  # texts with the same words or, without texts, with the same embedding

    @property
    def words(self) -> WordIndex | None:
        """The index of words; None if only embeddings are known."""
        return self.groups if isinstance(self.groups, WordIndex) else None

    def __len__(self) -> int:
        return len(self.lines)

    @functools.cached_property
    def once(self) -> tuple[NDArray[np.float64], int]:
        """Number of places in the push that each line has, and of pairs of rows in all lines.

        A place is a pair of rows, or a row with a hard negative of another. It may be in several
        lines, such as that of the anchors and that of the positives of the same rows, but counts
        for one of them. So does a pair of rows.
        """
        of_texts = self.groups.group.astype(np.int64)
        pairs, pair = np.unique(
            np.sort(of_texts[self.lines[["first", "second"]].to_numpy()], axis=1),
            axis=0, return_inverse=True,
        )  # fmt: skip
        # Rows are of one kind if they have the same groups, as far as lines have these.
        linked = np.where(np.isin(of_texts, pairs), of_texts, _NEITHER).reshape(-1, self.count)
        kinds, size = np.unique(linked, axis=1, return_counts=True)
        column, kind = np.nonzero(kinds != _NEITHER)
        # Columns of hard negatives count from 1; anchors and positives share a column of the push.
        places = pd.DataFrame(
            {"group": kinds[column, kind], "kind": kind, "column": np.maximum(column - 1, 0)}
        )
        links = pd.DataFrame(np.concatenate([pairs, pairs[:, ::-1]]), columns=["mine", "group"])
        partners = links.assign(pair=np.tile(np.arange(len(pairs)), 2)).merge(places, on="group")
        number = places["group"].map(partners["mine"].value_counts())
        parts = number.groupby(places["kind"]).sum().cumsum() // _AT_ONCE
        of_pairs, rows = np.zeros(len(pairs)), 0
        for _, part in places.groupby(places["kind"].map(parts)):
            met = part.merge(partners, left_on="group", right_on="mine", suffixes=("", "_other"))
            hard = (met["column"] > 0) & (met["column_other"] > 0)
            met = met[~hard & (met["kind"] <= met["kind_other"])].sort_values("pair")
            met = met.drop_duplicates(["kind", "kind_other", "column", "column_other"])
            one, other = size[met["kind"]], size[met["kind_other"]]
            times = np.where(met["kind"] == met["kind_other"], one * (one - 1) // 2, one * other)
            of_pairs += np.bincount(met["pair"], times, len(pairs))
            rows += int(times[~met.duplicated(["kind", "kind_other"])].sum())
        # Several lines of two groups share what these have.
        pair, of_lines = pair.reshape(-1), self.lines["rows"].to_numpy()
        return of_lines * of_pairs[pair] / np.bincount(pair, of_lines)[pair], rows

    def to_mask(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return what `gradlab.losses.mask` must leave out, without repetitions.

        Returns:
            (R, 2) pairs of rows whose anchors or positives say the same, the smaller first; and
            (R, 3) rows with the rows and columns (from 1) of hard negatives that say the same as
            anchor or positive. Of a row's own hard negatives, which resemble it by design, only
            those in `false_negatives` count.
        """
        count, found = self.count, [np.empty((0, 2), dtype=np.int64)]
        # The texts on both sides of each line, once per pair of groups.
        groups = np.unique(
            self.groups.group[self.lines[["first", "second"]].to_numpy()], axis=0
        ).tolist()
        for one, other in (map(self.groups.texts_of, pair) for pair in groups):
            for first, second in ((_own(one, count), other), (one, _own(other, count))):
                pairs = np.sort(
                    np.stack(np.meshgrid(first, second), axis=-1).reshape(-1, 2), axis=1
                )
                found.append(pairs[pairs[:, 0] % count != pairs[:, 1] % count])
        texts = np.concatenate(found)  # the smaller number first, so that a hard negative is second
        of_rows = np.sort(texts[texts[:, 1] < 2 * count] % count, axis=1)
        own, hard = texts[texts[:, 1] >= 2 * count].T
        triples = np.stack([own % count, hard % count, hard // count - 1], axis=1)
        triples = np.concatenate([triples, self.false_negatives[:, [0, 0, 1]]])
        return np.unique(of_rows, axis=0), np.unique(triples, axis=0)

    def distinct_rows(self) -> NDArray[np.int64]:
        """Return the rows that remain without exact and near duplicates of earlier rows, ascending.

        A row is left out if its anchor or positive has (nearly) the words of an anchor or positive
        in a kept row, or if one of its hard negatives says the same as its own anchor or positive.

        Raises:
            GradlabError: only embeddings are known.
        """
        if self.words is None:
            raise GradlabError(
                "embeddings alone do not tell which rows repeat others; inspect the sentences too"
            )
        near: defaultdict[int, list[int]] = defaultdict(list)
        alike = self.lines.loc[self.lines["kind"] == NEAR_DUPLICATE, ["first", "second"]].to_numpy()
        for first, second in self.words.group[alike].tolist():
            near[first].append(second)
            near[second].append(first)
        own = self.words.group[: 2 * self.count].reshape(-1, self.count).T.tolist()
        taken, left_out = set[int](), set(self.false_negatives[:, 0].tolist())
        kept = []
        for row, groups in enumerate(own):
            if row not in left_out and taken.isdisjoint(groups):
                kept.append(row)
                taken.update(groups, *(near[one] for one in groups))
        return np.array(kept, dtype=np.int64)

    @property
    def mask_above(self) -> float:
        """Uncentred cosine above which 4 of 5 near pairs are near-duplicates by words, or NaN."""
        if not len(self.confirmed):
            return float("nan")
        order = np.argsort(-self.near.cosine, kind="stable")
        cosines, confirmed = self.near.cosine[order], self.confirmed[order]
        trust = np.cumsum(confirmed) / np.arange(1, len(confirmed) + 1)
        # The limit is a near-duplicate itself; below it, the running mean would admit other pairs.
        good = np.flatnonzero((trust >= TRUST) & confirmed)
        return float(cosines[good[-1]]) if len(good) and good[-1] + 1 >= FEWEST else float("nan")

    def confirmed_above(self, cosine: float) -> float:
        """Return the share of near-duplicates by words among near pairs of at least this cosine.

        It is NaN without such pairs or without texts.
        """
        above = self.near.cosine >= cosine
        known = len(self.confirmed) and above.any()
        return float(self.confirmed[above].mean()) if known else float("nan")


def find_candidates(
    texts: Texts | None,
    vectors: Vectors,
    count: int,
    *,
    overlap: float,
    cosine: float | None,
    progress: bool = False,
) -> CandidatePairs:
    """Search a corpus of ``count`` rows for candidates; ``texts`` is None for embeddings alone."""
    if texts is None:
        return _by_embedding_alone(vectors, count, cosine, progress)
    words = WordIndex.build(texts, texts.count, texts.__getitem__, progress)
    overlaps = _overlaps("Comparing words", words, words.close, progress)
    alike = overlaps >= min(ALIKE, overlap)
    near = nearest_pairs(vectors, words.first, _MOST_NEIGHBOURS, progress)
    nearest = len(near.pairs)
    overlaps = np.append(
        _overlaps("Comparing their words", words, near.pairs, progress), overlaps[alike]
    )
    # Unique pairs, the near ones first.
    pairs = np.concatenate([near.pairs, words.close[alike]])
    first = np.sort(np.unique(pairs @ [len(words.first), 1], return_index=True)[1])
    pairs, overlaps = pairs[first], overlaps[first]
    # First by words alone; NEIGHBOUR pairs must be confirmed by their embeddings.
    kind = np.full(len(pairs), _NEITHER, dtype=np.int8)
    kind[overlaps >= overlap - LOOSER] = NEIGHBOUR
    kind[overlaps >= overlap] = NEAR_DUPLICATE
    slots = slot_words(words.first[pairs[overlaps >= min(ALIKE, overlap)]], words.text)
    asked = np.flatnonzero(kind != _NEITHER)
    kind[asked[state_other_facts(words.first[pairs[asked]], words, slots, progress)]] = _NEITHER
    threshold, doubtful = (
        near.by_chance if cosine is None else cosine,
        np.flatnonzero(kind == NEIGHBOUR),
    )
    kind[doubtful[cosines_of(vectors, words.first[pairs[doubtful]], near.mean)[1] < threshold]] = (
        _NEITHER
    )
    if cosine is not None:  # a given cosine decides alone
        far = (
            (kind[:nearest] == _NEITHER) & ~np.isnan(overlaps[:nearest]) & (near.centred >= cosine)
        )
        kind[:nearest][far] = NEIGHBOUR
    lines = _duplicates(words, texts)
    kept = np.flatnonzero(kind != _NEITHER)
    kept = kept[np.lexsort(pairs[kept].T[::-1])]
    of_kept = (pairs[kept].tolist(), kind[kept].tolist(), overlaps[kept].tolist())
    for groups, of_kind, value in zip(*of_kept, strict=True):
        one, other = map(words.texts_of, groups)
        pair = different_rows(one, other, len(texts))
        if pair is not None:
            lines.append((*pair, of_kind, value, count_row_pairs(one, other, len(texts))))
    own = words.group[: 2 * len(texts)].astype(np.int64)
    in_rows = np.unique(own * len(texts) + np.arange(len(own)) % len(texts))
    repeats = len(in_rows) - len(np.unique(own))
    near = dataclasses.replace(near, pairs=words.first[near.pairs])
    table, confirmed = _table(lines, near, vectors), kind[:nearest] == NEAR_DUPLICATE
    false = _false_by_words(texts, progress)
    return CandidatePairs(table, len(texts), threshold, near, confirmed, repeats, false, words)


def _overlaps(
    title: str, words: WordIndex, pairs: NDArray[np.int64], progress: bool
) -> NDArray[np.float64]:
    """Return the shares of common words of pairs of groups, (P,)."""
    found = (
        words.overlap(int(one), int(other))
        for one, other in progress_bar(pairs, progress, desc=title)
    )
    return np.fromiter(found, float, len(pairs))


def _false_by_words(texts: Texts, progress: bool) -> NDArray[np.int64]:
    """Return `CandidatePairs.false_negatives` by words."""
    found = []
    columns = {} if texts.positives is None else dict(enumerate(texts.negatives.values(), start=1))
    places = itertools.product(columns, range(len(texts)))
    total = len(columns) * len(texts)
    for column, row in progress_bar(places, progress, desc="Comparing hard negatives", total=total):
        if looks_like_a_positive(columns[column][row], texts[row], texts[row + len(texts)]):
            found.append((row, column))
    return np.array(found, dtype=np.int64).reshape(-1, 2)


def _duplicates(words: WordIndex, texts: Texts) -> list[tuple[Any, ...]]:
    """Return a line per text in several rows and per other spelling; pairs of rows count once."""
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
                lines.append((*pair, DUPLICATE, 1.0, total - counted))
            before, counted = every, total
    return lines


def _by_embedding_alone(
    vectors: Vectors, count: int, cosine: float | None, progress: bool
) -> CandidatePairs:
    """Return candidates without texts: equal embeddings, or neighbours from a given cosine on."""
    groups = vectors.copies()
    if len(groups.first) == 1 or vectors.all_alike():
        raise GradlabError(
            f"all {vectors.shape[0]} embeddings are equal; give embeddings that tell rows apart"
        )
    near = nearest_pairs(vectors, groups.first, _MOST_NEIGHBOURS, progress)
    threshold = 1 - 2**-10 if cosine is None else cosine  # rounding to float16 may turn 1 into this
    alike, copied = near.pairs[near.centred >= threshold], np.flatnonzero(groups.size > 1)
    lines = []
    for pair in [*zip(copied.tolist(), copied.tolist(), strict=True), *alike.tolist()]:
        one, other = map(groups.texts_of, pair)
        places = different_rows(one, other, count)
        if places is not None:
            lines.append((*sorted(places), NEIGHBOUR, np.nan, count_row_pairs(one, other, count)))
    false = _false_by_embedding(groups, alike, count)
    near = dataclasses.replace(near, pairs=groups.first[near.pairs])
    table, confirmed = _table(lines, near, vectors), np.empty(0, dtype=bool)
    return CandidatePairs(table, count, threshold, near, confirmed, 0, false, groups)


def _false_by_embedding(groups: Groups, alike: NDArray[np.int64], count: int) -> NDArray[np.int64]:
    """Return `CandidatePairs.false_negatives`; ``alike`` (P, 2) are equal groups, smaller first."""
    own, hard = np.split(groups.group.astype(np.int64).reshape(-1, count), [2])
    keys, found = alike @ [len(groups.first), 1], []
    for column, theirs in enumerate(hard, start=1):
        pairs = np.stack([np.minimum(own, theirs), np.maximum(own, theirs)], axis=-1)
        same = (own == theirs) | np.isin(pairs @ [len(groups.first), 1], keys)
        found += [(row, column) for row in np.flatnonzero(same.any(0)).tolist()]
    return np.array(sorted(found), dtype=np.int64).reshape(-1, 2)


def _table(lines: list[tuple[Any, ...]], near: Neighbours, vectors: Vectors) -> pd.DataFrame:
    """Return `CandidatePairs.lines` with duplicates first, then by share of common words."""
    table = pd.DataFrame(lines, columns=["first", "second", "kind", "overlap", "rows"])
    table = table.astype({"first": int, "second": int, "kind": int, "overlap": float, "rows": int})
    pairs = table[["first", "second"]].to_numpy()
    table["cosine"], table["centred"] = cosines_of(vectors, pairs, near.mean)
    by = {"kind": True, "overlap": False, "rows": False}
    return table.sort_values([*by], ascending=[*by.values()], kind="stable", ignore_index=True)


def _own(numbers: NDArray[np.int64], count: int) -> NDArray[np.int64]:
    """Return the texts that are not hard negatives, in a corpus of ``count`` rows."""
    return numbers[numbers < 2 * count]


def different_rows(
    one: NDArray[np.int64], other: NDArray[np.int64], count: int
) -> tuple[int, int] | None:
    """Return the first two texts, in rising order, that different rows push apart, or None."""
    if not len(_own(one, count)) and not len(_own(other, count)):
        return None
    pairs = itertools.product(one.tolist(), other.tolist())
    return next(
        ((a, b) for a, b in pairs if a % count != b % count and min(a, b) < 2 * count), None
    )


def count_row_pairs(one: NDArray[np.int64], other: NDArray[np.int64], count: int) -> int:
    """Count unordered pairs of different rows with a text of each group.

    Two hard negatives do not count.
    """
    if len(one) == len(other) == 1:
        return int(different_rows(one, other, count) is not None)
    rows = np.unique(np.append(one, other) % count)
    sides = [
        np.isin(rows, side % count) for side in (_own(one, count), one, _own(other, count), other)
    ]
    kinds, size = np.unique(np.stack(sides, axis=1), axis=0, return_counts=True)
    own, any_, others_own, others_any = kinds.T
    meet = np.outer(own, others_any) | np.outer(any_, others_own)
    pairs = np.outer(size, size) - np.diag(size)
    return int(pairs[meet | meet.T].sum()) // 2
