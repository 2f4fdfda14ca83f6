"""Do the two texts of a row go together: by the words they share, or by words that foretell others?

Texts in other words, or in two languages, share none; then the words of one text foretell those of
the other. The way that tells more of a table is asked.
"""

from __future__ import annotations

import functools
import itertools
from collections import Counter
from collections.abc import Sequence

import numpy as np
import torch

from gradlab.data.cooccurrence import (
    FEWEST_ROWS,
    Texts,
    foretold_ranks,
    rank_of_partners,
    rank_within_group,
    words_in_rows,
)
from gradlab.data.words import word_overlap, words_of

MOST_ROWS = 512  # that are compared
# Ranks above which a row has taught which words go together, below which its partner is a stranger,
# above which it is a match, and between which there are few of either.
TEACHES, STRANGER, MATCH, BETWEEN = 0.75, 0.5, 0.95, 0.9
# Mean ranks of partners below which the next column is asked, and whether they are of a category.
BY_CHANCE, UNSURE = 0.7, 0.9
# Fewest texts, and largest share of them, that hold a word which can tell partners.
RECURS, COMMON = 4, 0.25


def partner_numbers(
    first: Sequence[str], second: Sequence[str], third: Sequence[str] = ()
) -> dict[str, float]:
    """Return how the texts of rows go together; nothing of few rows.

    Args:
        first: texts of a column.
        second: their partners.
        third: the next column, which is asked where the second one goes together by chance only.

    Returns:
        ``rows``; ``told``, the mean share of other rows' second texts that go less with a first
        text than its own; ``strangers``, ``matched`` and ``between``, the shares of rows below 0.5,
        above 0.95, and from 0.5 to 0.9; ``recurring``, the words of a text that stand in other rows
        as well, and not in most, of the column with fewer; ``sorted_column``, 1 or 2 for a column
        that is sorted where the other one is not, else 0; ``within``, what ``told`` is among rows
        with the same telling word, 1 where partners are told; ``third``, the same as ``told`` with
        the next column, and ``repetition``, the share of an anchor's words that it has, by
        `repetitions`.
    """
    places = range(0, len(first), -(-len(first) // MOST_ROWS) if first else 1)
    texts, partners = ([set(words_of(column[place])) for place in places]
                       for column in (first, second))  # fmt: skip
    numbers = numbers_of_words(texts, partners)
    if not numbers:
        return {}
    is_sorted = [all(a <= b for a, b in itertools.pairwise(c)) for c in (first, second)]
    alone = sum(is_sorted) == 1 and all(column[0] != column[-1] for column in (first, second))
    numbers |= {"sorted_column": is_sorted.index(True) + 1 if alone else 0}
    if len(third) and numbers["told"] < BY_CHANCE:
        further = [set(words_of(third[place])) for place in places]
        numbers |= {"third": numbers_of_words(texts, further)["told"]}
        columns = ([column[place] for place in places] for column in (first, second, third))
        numbers |= {"repetition": repetitions(*columns)["repetition"]}
    return numbers


def ranks_of_partners(first: Sequence[str], second: Sequence[str]) -> np.ndarray:
    """Return each row's share of other partners that go less with its text than its own.

    The way is asked, of shared and of foretold words, by which partners go together better.
    """
    return _ranks_of_texts(tuple(first), tuple(second))


def repetitions(
    anchors: Sequence[str], positives: Sequence[str], negatives: Sequence[str]
) -> dict[str, float]:
    """Return whether negatives repeat their anchors, and whether positives belong to them.

    Both are of the rows in which the negative has more words in common with the anchor than the
    positive: ``repetition`` is the median share that it has, and ``own_rank`` the mean of the
    `ranks_of_partners` of the positives.
    """
    overlap = word_overlap([anchors, positives, negatives])
    shares = [(overlap(0, row, 1, row), overlap(0, row, 2, row)) for row in range(len(anchors))]
    astray = [row for row, (positive, negative) in enumerate(shares) if negative > positive]
    if not astray:
        return {"repetition": 0.0, "own_rank": 0.0}
    return {
        "repetition": float(np.median([shares[row][1] for row in astray])),
        "own_rank": float(ranks_of_partners(anchors, positives)[astray].mean()),
    }


def numbers_of_words(
    first: Texts, second: Texts, foretold: np.ndarray | None = None
) -> dict[str, float]:
    """Return the same of the words, or tokens, of texts, without what is sorted.

    ``foretold`` are the `foretold_ranks` of the texts, where they are known.
    """
    if len(first) < FEWEST_ROWS:
        return {}
    shared = _ranks_of_shared(first, second)
    foretold = foretold_ranks(first, second) if foretold is None else foretold
    ranks, mean = shared, float(shared.mean())
    if foretold.mean() > shared.mean():
        teaching = np.flatnonzero(foretold > TEACHES)
        ranks, mean = foretold_ranks(first, second, teaching), float(foretold.mean())
    return {
        "rows": len(ranks), "told": mean, "strangers": float((ranks < STRANGER).mean()),
        "matched": float((ranks > MATCH).mean()),
        "between": float(((ranks >= STRANGER) & (ranks < BETWEEN)).mean()),
        "recurring": min(_recurring(first), _recurring(second)),
        "within": rank_within_group(first, second) if mean < UNSURE else 1.0,
    }  # fmt: skip


@functools.lru_cache(maxsize=4)  # several checks ask the same texts
def _ranks_of_texts(first: tuple[str, ...], second: tuple[str, ...]) -> np.ndarray:
    texts, partners = ([set(words_of(text)) for text in column] for column in (first, second))
    shared = _ranks_of_shared(texts, partners)
    if len(texts) < FEWEST_ROWS:
        return shared
    foretold = foretold_ranks(texts, partners)
    return foretold if foretold.mean() > shared.mean() else shared


def _ranks_of_shared(first: Texts, second: Texts) -> np.ndarray:
    """Return each row's share of other second texts with fewer words of its first, rare ones more.

    Shares are of the words of both texts.
    """
    held = words_in_rows([*first, *second])
    weights = np.log(1 + 2 * len(first) / np.maximum(held.sum(0), 1))
    of_first, of_second = held[: len(first)], held[len(first) :]
    common = ((of_first * weights) @ of_second.T).toarray()
    union = (of_first @ weights)[:, None] + of_second @ weights - common
    # Rounded, so that equal shares stay equal.
    shares = np.round(common / np.where(union > 0, union, 1.0), 9)
    return rank_of_partners(torch.from_numpy(shares)).numpy()


def _recurring(texts: Texts) -> float:
    """Return the mean number of words of a text that some other texts hold, and not most."""
    times = Counter(word for text in texts for word in text)
    most = COMMON * len(texts)
    return sum(RECURS <= times[word] <= most for text in texts for word in text) / len(texts)
