"""Measures whether labels, teachers and neighbouring rows agree with the words of a row, for JSON.

An untuned encoder cannot tell which texts belong together, so that words are asked first and
embeddings second. Each function returns the arguments of the function of the same name in
`gradlab.diagnosis.row_verdicts`, or None where there is nothing to measure.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import torch

from gradlab.diagnosis.label_measurements import label_cells, name_of_loss
from gradlab.diagnosis.observation import Observation, ObservedBatch

# Rows whose words are compared, and other rows with which each is compared.
WORDED_ROWS, COMPARED_ROWS = 512, 16
# Losses whose label says how alike the two texts of a row are.
RATING = (
    "CosineSimilarityLoss", "CoSENTLoss", "AnglELoss", "ContrastiveLoss", "OnlineContrastiveLoss",
)  # fmt: skip
TAUGHT = ("MarginMSELoss", "DistillKLDivLoss")
Numbers = dict[str, Any]
Overlap = Callable[[int, int, int, int], float]


def agreement(
    observation: Observation, dataset: str, batches: list[ObservedBatch]
) -> Numbers | None:
    """Return rank correlations of the labels with common words and with initial cosines."""
    cells, texts = label_cells(observation, dataset), _texts(observation, dataset)
    is_rating = name_of_loss(batches[0].loss) in RATING
    if not is_rating or len(texts) != 2 or not all(isinstance(c, int | float) for c in cells):
        return None
    overlap, rows = word_overlap(texts), range(min(len(cells), len(texts[0])))
    words = [overlap(0, row, 1, row) for row in rows]
    pairs = [batch for batch in batches if batch.labels is not None and len(batch.embedded) == 2]
    cosines, labels = list[float](), list[float]()
    for batch in pairs:
        first, second = (rows.double() for rows in batch.embedded)
        cosines += torch.nn.functional.cosine_similarity(first, second).tolist()
        labels += batch.labels.double().flatten().tolist() if batch.labels is not None else []
    return {
        "rows": len(rows),
        "words": rank_correlation([float(cells[row]) for row in rows], words),
        "embedded": len(labels),
        "embeddings": rank_correlation(labels, cosines),
    }


def preference(
    observation: Observation, dataset: str, batches: list[ObservedBatch]
) -> Numbers | None:
    """Return how often a teacher, and the words, prefer the first negative to the positive."""
    cells, texts = label_cells(observation, dataset), _texts(observation, dataset)
    if name_of_loss(batches[0].loss) not in TAUGHT or len(texts) < 3 or not cells:
        return None
    scores = torch.as_tensor(cells[: len(texts[0])], dtype=torch.float64)
    scores = scores.reshape(len(scores), -1)
    margins = scores[:, 0]
    if scores.shape[1] == len(texts) - 1 and scores.shape[1] > 1:
        margins = scores[:, 0] - scores[:, 1]
    overlap = word_overlap(texts[:3])
    words = [overlap(0, row, 1, row) - overlap(0, row, 2, row) for row in range(len(margins))]
    return {
        "rows": len(margins),
        "teacher": float((margins < 0).double().mean()),
        "words": sum((m < 0) + (m == 0) / 2 for m in words) / len(words),
    }


def taught_embeddings(
    observation: Observation, dataset: str, batches: list[ObservedBatch]
) -> Numbers | None:
    """Return the rank correlation of a teacher's cosines of two texts with their common words."""
    cells, texts = label_cells(observation, dataset), _texts(observation, dataset)
    is_embedding = bool(cells) and isinstance(cells[0], Sequence) and len(cells[0]) > 8
    if name_of_loss(batches[0].loss) not in ("MSELoss", "EmbedDistillLoss") or not is_embedding:
        return None
    if not texts or not isinstance(cells[0][0], int | float):
        return None
    count = min(len(cells), len(texts[0]), WORDED_ROWS)
    rows = torch.nn.functional.normalize(torch.as_tensor(cells[:count], dtype=torch.float64))
    overlap, words, cosines = word_overlap(texts[:1]), list[float](), list[float]()
    for shift in range(1, min(COMPARED_ROWS, count - 1) + 1):
        words += [overlap(0, row, 0, (row + shift) % count) for row in range(count)]
        cosines += (rows * rows.roll(-shift, 0)).sum(1).tolist()
    return {
        "pairs": len(words),
        "words": len({word for word in words if word}),
        "teacher": rank_correlation(words, cosines),
    }


def shift(observation: Observation, dataset: str, batches: list[ObservedBatch]) -> Numbers | None:
    """Return the share of rows whose second text fits the first text of the row before or after.

    It fits better than its own row's and all other rows' that are compared, and better than the
    second text of that row before or after.
    """
    texts = _texts(observation, dataset)[:2]
    if len(texts) < 2 or len(texts[0]) < 2 * COMPARED_ROWS or batches[0].labelled:
        return None
    overlap, count = word_overlap(texts), len(texts[0])
    shares = {}
    for name, step in (("before", -1), ("after", 1)):
        fits = 0
        for row in range(count):
            neighbour = (row + step) % count
            near = overlap(0, neighbour, 1, row)
            compared = [(row + 3 * far) % count for far in range(1, COMPARED_ROWS + 1)]
            own = overlap(0, row, 1, row), overlap(0, neighbour, 1, neighbour)
            fits += near > max(own) and all(
                near > overlap(0, partner, 1, row) for partner in compared
            )
        shares[name] = fits / count
    return {"rows": count, **shares}


def plain(text: str) -> str:
    """Return the words of a text in lower case, without punctuation; the text if it has none."""
    return " ".join(re.findall(r"\w+", text.lower())) or text


def word_overlap(columns: Sequence[Sequence[str]]) -> Overlap:
    """Return a function (column, row, column, row) -> share of common words, rare ones more."""
    words = [[set(re.findall(r"\w+", text.lower())) for text in column] for column in columns]
    frequency = Counter(word for column in words for of_text in column for word in of_text)
    texts = sum(map(len, words))
    weight = {word: math.log(1 + texts / times) for word, times in frequency.items()}

    def overlap(column: int, row: int, partner_column: int, partner: int) -> float:
        first, second = words[column][row], words[partner_column][partner]
        union = sum(map(weight.__getitem__, first | second))
        return sum(map(weight.__getitem__, first & second)) / union if union else 0.0

    return overlap


def rank_correlation(first: Sequence[float], second: Sequence[float]) -> float:
    """Return Spearman's correlation; 0 where one is constant."""
    from scipy.stats import spearmanr

    if len(first) < 3 or min(first) == max(first) or min(second) == max(second):
        return 0.0
    return float(spearmanr(first, second).statistic)


def _texts(observation: Observation, dataset: str) -> list[Sequence[str]]:
    columns = observation.table_of(dataset).values()
    return [column[:WORDED_ROWS] for column in columns if column]


OF_LOSS: tuple[Callable[..., Numbers | None], ...] = (
    agreement,
    preference,
    taught_embeddings,
    shift,
)
