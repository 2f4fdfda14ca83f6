"""Measures how labels and gold go with texts whose words belong together without being equal.

Texts in other words, or in two languages, have hardly any words in common. But some words of one
text foretell those of its partner, which is learnt from other rows; no label has a part in it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from gradlab.data.cooccurrence import (
    FEWEST_ROWS,
    correlation,
    foretold_numbers,
    foretold_scores,
)
from gradlab.data.partners import repetitions
from gradlab.data.words import words_of

MOST_ROWS = 512  # whose words are compared


def foretold_labels(texts: Sequence[Sequence[str]], labels: Sequence[float]) -> dict[str, float]:
    """Return the mean rank by which words foretell those of partners, and how labels go with it.

    Args:
        texts: both columns of pairs.
        labels: how alike the texts of each pair are said to be.

    Returns:
        ``foretold``, the mean of `gradlab.data.cooccurrence.foretold_ranks`, and ``fitting``, the
        rank correlation of these ranks with the labels; nothing of few rows.
    """
    first, second = _words(texts)
    return foretold_numbers(first, second, labels)


def foretold_gold(
    tables: Iterable[Mapping[str, Sequence[str]]],
    rated: Sequence[Sequence[Any]],
    triplets: Sequence[tuple[str, ...]],
    sought: tuple[Sequence[str], Sequence[str], Sequence[set[int]]] = ((), (), ()),
) -> dict[str, float]:
    """Return how gold goes with what the words of training foretell.

    Args:
        tables: the columns of texts of each data set of training, of which the first with enough
            rows of two texts is learnt from.
        rated: first and second texts of an evaluator, and their scores.
        triplets: its anchors, each with a positive and a negative.
        sought: its queries, its documents, and the places of each query's right ones.

    Returns:
        Of rated pairs ``foretold``, the mean share of other partners that are foretold less than a
        pair's own, and ``fitting``, the rank correlation of these shares with the scores. Of
        triplets `repetitions`, ``triplets``, their number, and ``contrary``, the share of those
        whose negative is foretold more than the positive. Of queries ``mutual``, the number of
        those whose most foretold document is foretold most by them in turn, and ``right``,
        ``beside`` and ``of_others``, the shares of these whose document is a right one, stands next
        to one, and is a right one of other queries.
    """
    columns = [list(table.values())[:2] for table in tables if len(table) > 1]
    learnt = next((_words(c) for c in columns if len(c[0]) >= FEWEST_ROWS), None)
    edits = repetitions(*zip(*triplets, strict=True)) if triplets else {}
    if learnt is None:
        return edits
    first, second, scores = rated
    are_numbers = all(isinstance(score, int | float) for score in scores)
    if len(first) == len(second) == len(scores) > 1 and are_numbers:
        values = foretold_scores(learnt, *_words([first, second]))
        own, count = values.diagonal()[:, None], len(values)
        ranks = ((values < own).sum(1) + ((values == own).sum(1) - 1) / 2) / (count - 1)
        fitting = correlation(scores[:count], ranks)
        return {"foretold": float(ranks.mean()), "fitting": fitting}
    if triplets:
        anchors, *others = _words(list(zip(*triplets, strict=True)))
        right, wrong = (foretold_scores(learnt, anchors, texts).diagonal() for texts in others)
        contrary = (right < wrong) + (right == wrong) / 2
        return {"triplets": len(contrary), "contrary": float(contrary.mean()), **edits}
    queries, documents, places = sought
    if len(queries) < 2 or len(documents) < 2:
        return {}
    values = foretold_scores(learnt, *_words([queries, documents]))
    best = values.argmax(1)
    mutual = [(int(best[row]), places[row]) for row in range(len(best))
              if values[:, best[row]].argmax() == row]  # fmt: skip
    answering = set[int]().union(*places)
    beside = [not right.isdisjoint({place - 1, place + 1}) for place, right in mutual]
    shares = {
        "beside": beside,
        "right": [place in right for place, right in mutual],
        "of_others": [place in answering - right for place, right in mutual],
    }
    return {
        "mutual": len(mutual),
        **{name: sum(cells) / max(1, len(mutual)) for name, cells in shares.items()},
    }


def _words(columns: Sequence[Sequence[str]]) -> list[list[set[str]]]:
    return [[set(words_of(text)) for text in column[:MOST_ROWS]] for column in columns]
