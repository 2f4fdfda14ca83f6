"""Candidates for false negatives: pairs of sentences in a corpus that say the same.

Each text has a number, see `gradlab.inspection.texts.Texts`. Anchors and positives push hard
negatives, but hard negatives never push each other.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from gradlab.errors import GradlabError
from gradlab.inspection.equal_texts import Groups
from gradlab.inspection.same_meaning import (
    ALIKE,
    looks_like_a_positive,
    slot_words,
    state_other_facts,
)
from gradlab.inspection.texts import Texts
from gradlab.inspection.vectors import Vectors, cosines_of, nearest_pairs
from gradlab.inspection.word_index import WordIndex
from gradlab.inspection.workspace import Workspace
from gradlab.progress_bars import progress_bar

KINDS = ("duplicate", "near_duplicate", "neighbour")
DUPLICATE, NEAR_DUPLICATE, NEIGHBOUR = range(len(KINDS))
_NEITHER = -1  # not a candidate for a false negative
SIDES = ["first", "second"]  # columns of the two texts, or groups of texts, of a pair
# Reduction of the required share of common words for two texts with close embeddings.
LOOSER = 0.1
# A cosine can be trusted if this share of the pairs above it, which must be at least FEWEST, are
# near-duplicates by words.
TRUST, FEWEST = 0.8, 20
_MOST_NEIGHBOURS = 200_000
# Number of pairs that `_count` compares at a time, unless a single row has more.
_AT_ONCE = 1 << 22


# Reasons why a clean file leaves a row out.
REASONS = REPEATS, NEARLY_REPEATS, FALSE_NEGATIVE = (
    "repeat an earlier row",
    "nearly repeat an earlier row",
    "have a false hard negative",
)


@dataclass(frozen=True)
class CandidatePairs:
    """Candidates for false negatives in a corpus of N rows."""

    # One line per pair of groups of texts: ``first`` and ``second``, numbers of a text of each (see
    # `Texts`); ``kind``, index in `KINDS`; ``overlap``, share of common words; ``rows`` and
    # ``places``, see `_count`; ``cosine`` and ``centred``, see `nearest_pairs`. An inspection adds
    # ``push``, ``share`` and ``hidden``, see `gradlab.inspection.gradient_share`.
    lines: pd.DataFrame
    row_pairs: int  # number of pairs of rows in all lines, each counted once
    count: int  # number N of rows in the corpus
    threshold: float  # centred cosine from which on neighbours are candidates
    # Nearest pairs of different texts, whether candidates or not, by their numbers, see
    # `nearest_pairs`; ``confirmed`` says which are near-duplicates by words, NaN without texts.
    near: pd.DataFrame
    # (R, 2) rows, and columns (from 1) of their own hard negatives that say the same as the anchor
    # or positive, judged by words, or without texts by equal embeddings.
    false_negatives: NDArray[np.int64]
    groups: Groups  # texts with the same words or, without texts, with the same embedding

    def __len__(self) -> int:
        return len(self.lines)

    @property
    def repeats(self) -> int:
        """Number of anchors and positives that repeat one in an earlier row."""
        own = self.groups.group[: 2 * self.count].astype(np.int64)
        in_rows = np.unique(own * self.count + np.arange(len(own)) % self.count)
        return len(in_rows) - len(np.unique(own))

    def shared(self, batch_size: int) -> NDArray[np.bool_]:
        """Return which lines are texts that a sampler can keep apart, (lines,).

        Such a text stands in several rows that do not repeat each other, as an answer to several
        questions does, and in so few that batches of ``batch_size`` can be filled without two of
        them.
        """
        repeated = set(self.rows_left_out()[REPEATS].tolist())
        shared = (self.lines["kind"] == DUPLICATE).to_numpy(copy=True)
        for place in np.flatnonzero(shared):
            group = self.groups.group[self.lines[SIDES[0]].iloc[place]]
            rows = np.unique(self.groups.texts_of(group) % self.count)
            fits = len(rows) * batch_size <= self.count
            shared[place] = fits and repeated.isdisjoint(rows.tolist())
        return shared

    def to_mask(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return what `gradlab.losses.mask` must leave out, without repetitions.

        Returns:
            (R, 2) pairs of rows whose anchors or positives say the same, the smaller first; and
            (R, 3) rows with the rows and columns (from 1) of hard negatives that say the same as
            anchor or positive. Of a row's own hard negatives, which resemble it by design, only
            those in `false_negatives` count.
        """
        count, pushed = self.count, [np.empty((0, 2), dtype=np.int64)]
        for groups in self.groups.group[self.lines[SIDES].to_numpy()]:
            left, right = map(self.groups.texts_of, groups)
            for first, second in (
                (left[left < 2 * count], right),
                (left, right[right < 2 * count]),
            ):
                pairs = np.stack(np.meshgrid(first, second), axis=-1).reshape(-1, 2)
                pushed.append(np.sort(pairs[pairs[:, 0] % count != pairs[:, 1] % count], axis=1))
        texts = np.concatenate(
            pushed
        )  # the smaller number first, so that a hard negative is second
        of_rows = np.sort(texts[texts[:, 1] < 2 * count] % count, axis=1)
        own, hard = texts[texts[:, 1] >= 2 * count].T
        triples = np.stack([own % count, hard % count, hard // count - 1], axis=1)
        triples = np.concatenate([triples, self.false_negatives[:, [0, 0, 1]]])
        return np.unique(of_rows, axis=0), np.unique(triples, axis=0)

    def rows_left_out(self) -> dict[str, NDArray[np.int64]]:
        """Return the rows that a clean file leaves out, by `REASONS`, each row once, ascending.

        A row repeats an earlier one that stays if its anchor and positive, in either order, have
        the words, or nearly the words, of those there, and each of its hard negatives has the words
        of one there. A row with another positive, or another hard negative, of an anchor stays.
        """
        near: defaultdict[int, set[int]] = defaultdict(set)
        alike = self.lines.loc[self.lines["kind"] == NEAR_DUPLICATE, SIDES].to_numpy()
        for first, second in self.groups.group[alike].tolist():
            near[first].add(second)
            near[second].add(first)
        false = set(self.false_negatives[:, 0].tolist())
        rows: dict[str, list[int]] = {reason: [] for reason in REASONS}
        stays: defaultdict[tuple[int, ...], list[set[int]]] = defaultdict(list)
        for row, groups in enumerate(self.groups.group.reshape(-1, self.count).T.tolist()):
            pair, hard = groups[:2], groups[2:]
            if row in false:
                rows[FALSE_NEGATIVE].append(row)
            elif _repeats(stays, pair, hard, {}):
                rows[REPEATS].append(row)
            elif near and _repeats(stays, pair, hard, near):
                rows[NEARLY_REPEATS].append(row)
            else:
                stays[tuple(sorted(pair))].append(set(hard))
        return {reason: np.array(numbers, dtype=np.int64) for reason, numbers in rows.items()}

    def distinct_rows(self) -> NDArray[np.int64]:
        """Return the rows that remain without those of `rows_left_out`, ascending."""
        left_out = np.concatenate([*self.rows_left_out().values()])
        return np.setdiff1d(np.arange(self.count), left_out)

    @property
    def mask_above(self) -> float:
        """Uncentred cosine above which 4 of 5 near pairs are near-duplicates by words, or NaN."""
        near = self.near.sort_values("cosine", ascending=False, kind="stable")
        confirmed = near["confirmed"].to_numpy() == 1
        trust = np.cumsum(confirmed) / np.arange(1, len(near) + 1)
        # The limit is a near-duplicate itself; below it, the running mean would admit other pairs.
        good = np.flatnonzero((trust >= TRUST) & confirmed)
        enough = len(good) and good[-1] + 1 >= FEWEST
        return float(near["cosine"].iloc[good[-1]]) if enough else float("nan")


def find_candidates(
    texts: Texts | None,
    vectors: Vectors,
    count: int,
    *,
    overlap: float,
    cosine: float | None,
    progress: bool = False,
    work: Workspace | None = None,
) -> CandidatePairs:
    """Search a corpus of ``count`` rows for candidates; ``texts`` is None for embeddings alone."""
    if texts is None:
        return _by_embedding_alone(vectors, count, cosine, progress, work)
    words = WordIndex.build(texts, texts.count, progress)
    near, mean, by_chance = nearest_pairs(vectors, words.first, _MOST_NEIGHBOURS, progress, work)
    # Unique pairs, the near ones first.
    lines = pd.concat([near[SIDES], pd.DataFrame(words.close, columns=SIDES)]).drop_duplicates()
    pairs = lines.to_numpy()
    overlaps = words.overlap(pairs, progress)
    # First by words alone; NEIGHBOUR pairs must be confirmed by their embeddings.
    kind = np.full(len(pairs), _NEITHER)
    kind[overlaps >= overlap - LOOSER] = NEIGHBOUR
    kind[overlaps >= overlap] = NEAR_DUPLICATE
    slots = slot_words(words.first[pairs[overlaps >= min(ALIKE, overlap)]], texts)
    alike = np.flatnonzero(kind != _NEITHER)
    differ = state_other_facts(words.first[pairs[alike]], words, slots, progress)
    kind[alike[differ]] = _NEITHER
    threshold = by_chance if cosine is None else cosine
    doubtful = np.flatnonzero(kind == NEIGHBOUR)
    centred = cosines_of(vectors, words.first[pairs[doubtful]], mean)[1]
    kind[doubtful[centred < threshold]] = _NEITHER
    if cosine is not None:  # a given cosine decides alone
        close = (near["centred"] >= cosine) & ~np.isnan(overlaps[: len(near)])
        kind[: len(near)][close & (kind[: len(near)] == _NEITHER)] = NEIGHBOUR
    near["confirmed"] = kind[: len(near)] == NEAR_DUPLICATE
    lines = lines.assign(kind=kind, overlap=overlaps)[kind != _NEITHER].sort_values(SIDES)
    lines = pd.concat([_copies(words, kind=DUPLICATE, overlap=1.0), lines])
    false = _false_by_words(texts, progress)
    return _collect(lines, words, vectors, count, near, mean, threshold, false)


def _repeats(
    stays: Mapping[tuple[int, ...], list[set[int]]],
    pair: Sequence[int],
    hard: Sequence[int],
    near: Mapping[int, set[int]],
) -> bool:
    """Return whether a row that stays has the groups of a row, or groups ``near`` them.

    ``stays`` holds, for anchor and positive in rising order, the hard negatives of each such row.
    """
    alike = [{group, *near.get(group, ())} for group in pair]
    return any(
        negatives.issuperset(hard)
        for groups in itertools.product(*alike)
        for negatives in stays.get(tuple(sorted(groups)), ())
    )


def _by_embedding_alone(
    vectors: Vectors, count: int, cosine: float | None, progress: bool, work: Workspace | None
) -> CandidatePairs:
    """Return candidates without texts: equal embeddings, or neighbours from a given cosine on."""
    groups = vectors.copies()
    if len(groups.first) == 1 or vectors.all_alike():
        raise GradlabError(
            f"all {vectors.shape[0]} embeddings are equal; give embeddings that tell rows apart"
        )
    near, mean, _ = nearest_pairs(vectors, groups.first, _MOST_NEIGHBOURS, progress, work)
    near["confirmed"] = float("nan")
    threshold = 1 - 2**-10 if cosine is None else cosine  # rounding to float16 may turn 1 into this
    alike = near.loc[near["centred"] >= threshold, SIDES]
    same = {"kind": NEIGHBOUR, "overlap": float("nan")}
    lines = pd.concat([_copies(groups, **same), alike.assign(**same)])
    false = _false_by_embedding(groups, alike.to_numpy(), count)
    return _collect(lines, groups, vectors, count, near, mean, threshold, false)


def _copies(groups: Groups, **columns: float) -> pd.DataFrame:
    """Return each group of several texts as a pair with itself."""
    repeated = np.flatnonzero(groups.size > 1)
    return pd.DataFrame({"first": repeated, "second": repeated}).assign(**columns)


def _collect(
    candidates: pd.DataFrame,
    groups: Groups,
    vectors: Vectors,
    count: int,
    near: pd.DataFrame,
    mean: NDArray[np.float32],
    threshold: float,
    false: NDArray[np.int64],
) -> CandidatePairs:
    """Return the pairs of groups that were found as candidates.

    Duplicates come first, then pairs in the order of their common words.
    """
    pairs = candidates[SIDES].to_numpy()
    rows, places, row_pairs = _count(groups, pairs, count)
    lines, pairs = candidates.assign(rows=rows, places=places)[rows > 0], pairs[rows > 0]
    text_pairs = [
        _pushed_pair(groups.texts_of(first), groups.texts_of(second), count)
        for first, second in pairs
    ]
    texts = np.array(text_pairs, dtype=np.int64).reshape(-1, 2)
    cosine, centred = cosines_of(vectors, texts, mean)
    lines = lines.assign(first=texts[:, 0], second=texts[:, 1], cosine=cosine, centred=centred)
    by = {"kind": True, "overlap": False, "rows": False}
    lines = lines.sort_values([*by], ascending=[*by.values()], kind="stable", ignore_index=True)
    near[SIDES] = groups.first[near[SIDES].to_numpy()]
    return CandidatePairs(lines, row_pairs, count, threshold, near, false, groups)


def _pushed_pair(
    first_texts: NDArray[np.int64], second_texts: NDArray[np.int64], count: int
) -> list[int]:
    """Return the first two texts of two groups, in rising order, that different rows push apart."""
    pairs = itertools.product(first_texts.tolist(), second_texts.tolist())
    return next(
        [min(a, b), max(a, b)] for a, b in pairs if a % count != b % count and min(a, b) < 2 * count
    )


def _count(
    groups: Groups, pairs: NDArray[np.int64], count: int
) -> tuple[NDArray[np.int64], NDArray[np.float64], int]:
    """Count where texts of pairs of groups (P, 2) are pushed apart in a corpus of ``count`` rows.

    Returns:
        the number of pairs of different rows with these texts, (P,), where two hard negatives do
        not count; the number of places in the push, (P,); and the number of pairs of rows in all.
        A place is a pair of rows, or a row with a hard negative of another. It may be in several
        pairs of groups, such as that of the anchors and that of the positives of the same rows,
        but counts for one of them.
    """
    of_texts = groups.group.astype(np.int64)
    # Rows are of one kind if they have the same groups, as far as these are in pairs.
    linked = np.where(np.isin(of_texts, pairs), of_texts, _NEITHER).reshape(-1, count)
    kinds, size = np.unique(linked, axis=1, return_counts=True)
    column, kind = np.nonzero(kinds != _NEITHER)
    # Columns of hard negatives count from 1; anchors and positives share a column of the push.
    members = pd.DataFrame(
        {"group": kinds[column, kind], "kind": kind, "column": np.maximum(column - 1, 0)}
    )
    links = pd.DataFrame(np.concatenate([pairs, pairs[:, ::-1]]), columns=["mine", "group"])
    partners = links.assign(pair=np.tile(np.arange(len(pairs)), 2)).merge(members, on="group")
    number = members["group"].map(partners["mine"].value_counts())
    chunks = number.groupby(members["kind"]).sum().cumsum() // _AT_ONCE
    rows, places, row_pairs = np.zeros(len(pairs), dtype=np.int64), np.zeros(len(pairs)), 0
    for _, chunk in members.groupby(members["kind"].map(chunks)):
        meetings = chunk.merge(partners, left_on="group", right_on="mine", suffixes=("", "_other"))
        hard = (meetings["column"] > 0) & (meetings["column_other"] > 0)
        meetings = meetings[~hard & (meetings["kind"] <= meetings["kind_other"])].sort_values(
            "pair"
        )
        own_size, partner_size = size[meetings["kind"]], size[meetings["kind_other"]]
        same = meetings["kind"] == meetings["kind_other"]
        meetings["times"] = np.where(same, own_size * (own_size - 1) // 2, own_size * partner_size)
        row_pairs += int(meetings.drop_duplicates(["kind", "kind_other"])["times"].sum())
        of_pairs = meetings.drop_duplicates(["pair", "kind", "kind_other"])
        np.add.at(rows, of_pairs["pair"], of_pairs["times"])
        meetings = meetings.drop_duplicates(["kind", "kind_other", "column", "column_other"])
        places += np.bincount(meetings["pair"], meetings["times"], len(pairs))
    return rows, places, row_pairs


def _false_by_words(texts: Texts, progress: bool) -> NDArray[np.int64]:
    """Return `CandidatePairs.false_negatives` by words."""
    columns = list(enumerate(texts.negatives.values(), start=1))
    rows = progress_bar(range(len(texts)), progress, desc="Comparing hard negatives")
    pairs = [
        (row, column)
        for row in rows
        for column, hard in columns
        if looks_like_a_positive(hard[row], texts[row], texts[row + len(texts)])
    ]
    return np.array(pairs, dtype=np.int64).reshape(-1, 2)


def _false_by_embedding(groups: Groups, alike: NDArray[np.int64], count: int) -> NDArray[np.int64]:
    """Return `CandidatePairs.false_negatives`; ``alike`` (P, 2) are equal groups, smaller first."""
    own, hard = np.split(groups.group.astype(np.int64).reshape(-1, count), [2])
    keys = alike @ [len(groups.first), 1]
    pairs = np.stack(np.broadcast_arrays(own[:, None], hard), axis=-1)  # (own, hard, count, 2)
    same = np.isin(np.sort(pairs, axis=-1) @ [len(groups.first), 1], keys)
    column, row = np.nonzero((same | (pairs[..., 0] == pairs[..., 1])).any(0))
    return np.stack([row, column + 1], axis=1)
