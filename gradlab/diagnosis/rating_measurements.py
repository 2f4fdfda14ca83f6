"""Measures whether labels say something about the texts beside them, for JSON.

Each function returns the arguments of the function of the same name in
`gradlab.diagnosis.rating_verdicts`, or None where there is nothing to measure.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from gradlab.diagnosis.label_measurements import label_cells, name_of_loss
from gradlab.diagnosis.observation import Observation, ObservedBatch
from gradlab.diagnosis.row_measurements import RATING, WORDED_ROWS, rank_correlation, word_overlap
from gradlab.diagnosis.shortcut_measurements import words_of

# Other rows with which a row of a class is compared.
OTHERS = 16
Numbers = dict[str, Any]


def balance(observation: Observation, dataset: str, batches: list[ObservedBatch]) -> Numbers | None:
    """Return the commonest label, and the lowest and highest one beside the range of the others."""
    cells = _labels(observation, dataset)
    name = name_of_loss(batches[0].loss)
    if not cells or name not in RATING:
        return None
    counts = Counter(cells)
    commonest, times = counts.most_common(1)[0]
    edge, gap, share = 0.0, 0.0, 0.0
    for end, rest in ((min(counts), sorted(counts)[1:]), (max(counts), sorted(counts)[:-1])):
        spread = rest[-1] - rest[0] if len(rest) > 1 else 0.0
        distance = min((abs(end - label) for label in rest), default=0.0)
        if len(rest) > 3 and spread and distance / spread > gap:
            edge, gap, share = end, distance / spread, counts[end] / len(cells)
    return {
        "loss": name,
        "rows": len(cells),
        "label": float(commonest),
        "commonest": times / len(cells),
        "whole": all(float(cell).is_integer() for cell in cells),
        "edge": float(edge),
        "gap": float(gap),
        "at_edge": share,
    }


def contradictions(
    observation: Observation, dataset: str, batches: list[ObservedBatch]
) -> Numbers | None:
    """Return the share of rows whose texts stand in another row with another label."""
    cells, texts = _labels(observation, dataset), _texts(observation, dataset)
    if not cells or not texts or len(texts[0]) != len(cells) or batches[0].ignores_labels:
        return None
    spread = max(cells) - min(cells)
    groups: dict[Any, list[float]] = {}
    keys = [
        tuple(sorted(" ".join(words_of(text)) for text in row)) for row in zip(*texts, strict=True)
    ]
    for key, cell in zip(keys, cells, strict=True):
        groups.setdefault(key, []).append(cell)
    clashing = [
        key
        for key, labels_of_key in groups.items()
        if spread and max(labels_of_key) - min(labels_of_key) >= spread / 4
    ]
    rows = sum(len(groups[key]) for key in clashing)
    example = " | ".join(clashing[0]) if clashing else ""
    labels = sorted(set(groups[clashing[0]])) if clashing else []
    return {
        "rows": len(cells), "share": rows / len(cells), "example": example,
        "labels": [labels[0], labels[-1]] if labels else [],
    }  # fmt: skip


def relation(
    observation: Observation, dataset: str, batches: list[ObservedBatch]
) -> Numbers | None:
    """Return how labels of pairs go with common words and cosines, and how much these vary."""
    cells, texts = _labels(observation, dataset), _texts(observation, dataset)
    if name_of_loss(batches[0].loss) not in RATING or len(texts) != 2 or not cells:
        return None
    overlap = word_overlap([column[:WORDED_ROWS] for column in texts])
    words = [overlap(0, row, 1, row) for row in range(min(len(cells), WORDED_ROWS))]
    cosines, labels = list[float](), list[float]()
    for batch in batches:
        if batch.labels is not None and len(batch.embedded) == 2:
            first, second = (rows.double() for rows in batch.embedded)
            cosines += torch.nn.functional.cosine_similarity(first, second).tolist()
            labels += batch.labels.double().flatten().tolist()
    return {
        "rows": len(words),
        "distinct": len(set(cells)),
        "words": rank_correlation([float(cell) for cell in cells[: len(words)]], words),
        "low": float(np.quantile(words, 0.1)),
        "high": float(np.quantile(words, 0.9)),
        "embedded": len(labels),
        "embeddings": rank_correlation(labels, cosines),
    }


def grouping(
    observation: Observation, dataset: str, batches: list[ObservedBatch]
) -> Numbers | None:
    """Return how often a text has more words in common with its class than with others.

    Ranks are among texts of other classes; ``nearest`` is the mean of the largest shares.
    """
    cells, texts = _labels(observation, dataset), _texts(observation, dataset)
    if len(texts) != 1 or not cells or not all(isinstance(cell, int) for cell in cells):
        return None
    count, draw = min(len(cells), WORDED_ROWS), random.Random(0)
    overlap = word_overlap([texts[0][:count]])
    rows_of: dict[Any, list[int]] = {}
    for row in range(count):
        rows_of.setdefault(cells[row], []).append(row)
    ranks, nearest = list[float](), list[float]()
    for row in range(count):
        mates = [mate for mate in rows_of[cells[row]] if mate != row]
        sample = draw.sample(range(count), min(count, 2 * OTHERS))
        foreign = [at for at in sample if cells[at] != cells[row]][:OTHERS]
        if mates and foreign:
            own = overlap(0, row, 0, draw.choice(mates))
            far = [overlap(0, row, 0, at) for at in foreign]
            ranks.append(sum((size < own) + (size == own) / 2 for size in far) / len(far))
            nearest.append(max(far) - sum(far) / len(far))
    if not ranks:
        return None
    return {
        "rows": len(ranks),
        "classes": len(rows_of),
        "rank": sum(ranks) / len(ranks),
        "nearest": sum(nearest) / len(nearest),
    }


def met(observation: Observation, dataset: str, batches: list[ObservedBatch]) -> Numbers | None:
    """Return the loss over its value where rows exchange labels, without dropout, or None."""
    values = [batch.met for batch in batches if batch.met is not None]
    return {"share": sum(values) / len(values)} if values else None


def opposite(
    observation: Observation, dataset: str, batches: list[ObservedBatch]
) -> Numbers | None:
    """Return the share of labels near -1, and what texts of such rows have in common.

    None for losses that take no label for a cosine.
    """
    cells, texts = _labels(observation, dataset), _texts(observation, dataset)
    if name_of_loss(batches[0].loss) != "CosineSimilarityLoss" or len(texts) != 2 or not cells:
        return None
    overlap = word_overlap([column[:WORDED_ROWS] for column in texts])
    count = min(len(cells), WORDED_ROWS)
    rows = [row for row in range(count) if cells[row] <= -0.9]
    low = [overlap(0, row, 1, row) for row in rows]
    chance = [overlap(0, row, 1, (row + 1 + row % OTHERS) % count) for row in range(count)]
    return {
        "rows": count, "share": len(rows) / count, "common": sum(low) / max(1, len(low)),
        "chance": sum(chance) / count,
    }  # fmt: skip


def scales(observation: Observation, dataset: str, batches: list[ObservedBatch]) -> Numbers | None:
    """Return the label between lowest and highest that stands for like and unlike texts alike.

    ``share`` is the smaller of the shares of its rows whose common words are near those of the
    lowest and of the highest label, ``between`` the difference of these two, and ``ends`` the
    larger share of their own rows that are farther from the median than a quarter of it.
    """
    cells, texts = _labels(observation, dataset), _texts(observation, dataset)
    if name_of_loss(batches[0].loss) not in RATING or len(texts) != 2 or not cells:
        return None
    groups: dict[float, list[float]] = {}
    overlap = word_overlap([column[:WORDED_ROWS] for column in texts])
    for row in range(min(len(cells), WORDED_ROWS)):
        groups.setdefault(float(cells[row]), []).append(overlap(0, row, 1, row))
    ends = [float(np.median(groups[end])) for end in (min(groups), max(groups))]
    quarter, most = (ends[1] - ends[0]) / 4, (0.0, 0.0)
    for label, words in groups.items():
        if min(groups) < label < max(groups) and len(words) >= OTHERS and quarter > 0:
            near = [np.mean([word < ends[0] + quarter for word in words]),
                    np.mean([word > ends[1] - quarter for word in words])]  # fmt: skip
            most = max(most, (float(min(near)), label))
    low, high = groups[min(groups)], groups[max(groups)]
    astray = [np.mean([abs(word - end) > quarter for word in words])
              for end, words in zip(ends, (low, high), strict=True)]  # fmt: skip
    return {
        "distinct": len(groups), "low": min(groups), "high": max(groups), "between": 4 * quarter,
        "share": most[0], "label": most[1], "ends": float(max(astray)),
    }  # fmt: skip


def _labels(observation: Observation, dataset: str) -> list[Any]:
    cells = label_cells(observation, dataset)
    is_number = all(isinstance(cell, int | float) and cell == cell for cell in cells)
    return cells if is_number else []


def _texts(observation: Observation, dataset: str) -> list[Sequence[str]]:
    return [column for column in observation.table_of(dataset).values() if column]


OF_LOSS = (balance, contradictions, relation, grouping, met, opposite, scales)
