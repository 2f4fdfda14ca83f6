"""Measures how labels are distributed, and whether the same texts have the same ones, for JSON.

Each function returns the arguments of the function of the same name in
`gradlab.diagnosis.label_values_verdicts`, or None where there is nothing to measure.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from gradlab.data.words import plain, signed, word_overlap, words_of
from gradlab.diagnosis.label_agreement_measurements import (
    RATING,
    WORDED_ROWS,
    Numbers,
    labels_of,
    texts_of,
)
from gradlab.diagnosis.label_measurements import name_of_loss
from gradlab.diagnosis.observation import Observation, ObservedBatch

# Steps between other labels from which on a label is far from them.
STEPS = 2.5
OF_GROUP = 16  # labels of the same texts that are compared


def balance(observation: Observation, dataset: str, batches: list[ObservedBatch]) -> Numbers | None:
    """Return the commonest label, and the lowest and highest one beside the range of the others.

    Of a scale whose steps grow, such as 1, 2, 4 and 8, none is beside it.

    ``equal`` is the share of the rows with the highest label whose texts have the same words, and
    ``place`` the mean share of the other rows whose texts have fewer words in common than those of
    the label that is beside them, over ``placed`` rows; it is 0.5 where these are no pairs.
    """
    cells = labels_of(observation, dataset)
    name = name_of_loss(batches[0].loss)
    if not cells or name not in RATING:
        return None
    counts = Counter(cells)
    commonest, times = counts.most_common(1)[0]
    edge, gap, share = 0.0, 0.0, 0.0
    for end, levels in ((min(counts), sorted(counts)[1:]), (max(counts), sorted(counts)[:-1])):
        spread = levels[-1] - levels[0] if len(levels) > 1 else 0.0
        distance = min((abs(end - label) for label in levels), default=0.0)
        step = max((b - a for a, b in itertools.pairwise(sorted(levels))), default=0.0)
        if len(levels) > 3 and spread and distance > max(gap * spread, STEPS * step):
            edge, gap, share = end, distance / spread, counts[end] / len(cells)
    rows = zip(cells, *texts_of(observation, dataset)[:2], strict=False)
    highest = [[set(words_of(text)) for text in texts] for label, *texts in rows
               if label == max(counts)]  # fmt: skip
    return {
        "loss": name,
        "rows": len(cells),
        "equal": sum(words[0] == words[-1] for words in highest) / max(1, len(highest)),
        "label": float(commonest),
        "commonest": times / len(cells),
        "whole": all(float(cell).is_integer() for cell in cells),
        "edge": float(edge),
        "gap": float(gap),
        "at_edge": share,
        **_place_by_words(cells, texts_of(observation, dataset, WORDED_ROWS), edge, share),
    }


def contradictions(
    observation: Observation, dataset: str, batches: list[ObservedBatch]
) -> Numbers | None:
    """Return the share of rows whose texts stand in another row with another label.

    ``within`` is the mean difference of two labels of the same texts, relative to that of any two.
    """
    cells, texts = labels_of(observation, dataset), texts_of(observation, dataset)
    if not cells or not texts or len(texts[0]) != len(cells) or batches[0].ignores_labels:
        return None
    spread = max(cells) - min(cells)
    groups: dict[Any, list[float]] = {}
    keys = [tuple(sorted(map(signed, row))) for row in zip(*texts, strict=True)]
    for key, cell in zip(keys, cells, strict=True):
        groups.setdefault(key, []).append(cell)
    clashing = [
        key
        for key, labels_of_key in groups.items()
        if spread and max(labels_of_key) - min(labels_of_key) >= spread / 4
    ]
    rows = sum(len(groups[key]) for key in clashing)
    example = " | ".join(map(plain, clashing[0])) if clashing else ""
    labels = sorted(set(groups[clashing[0]])) if clashing else []
    return {
        "rows": len(cells), "share": rows / len(cells), "example": example,
        "within": _difference_within([*groups.values()], cells),
        "labels": [labels[0], labels[-1]] if labels else [],
    }  # fmt: skip


def _place_by_words(
    cells: Sequence[float], texts: Sequence[Sequence[str]], edge: float, share: float
) -> dict[str, float]:
    """Return the place of the rows with a label among the others by their common words."""
    if not share or len(texts) != 2:
        return {"place": 0.5, "placed": 0}
    overlap = word_overlap(texts)
    words = np.array([overlap(0, row, 1, row) for row in range(min(len(cells), len(texts[0])))])
    is_edge = np.array(cells[: len(words)]) == edge
    of_labels = words[~is_edge]
    ranks = [
        float((of_labels < size).mean() + (of_labels == size).mean() / 2) for size in words[is_edge]
    ]
    return {"place": float(np.mean(ranks)) if ranks else 0.5, "placed": len(ranks)}


def _difference_within(groups: Sequence[Sequence[float]], cells: Sequence[float]) -> float:
    """Return the mean difference of two labels of a group, relative to that of any two labels."""
    apart = [abs(a - b) for group in groups for a, b in itertools.combinations(group[:OF_GROUP], 2)]
    any_two = np.abs(np.subtract.outer(cells[:WORDED_ROWS], cells[:WORDED_ROWS]))
    return float(np.mean(apart or [0.0]) / (any_two.mean() or 1.0))


OF_LOSS = (balance, contradictions)
