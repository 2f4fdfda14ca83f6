"""Measures whether labels, teachers and neighbouring rows agree with the texts, for JSON.

An untuned encoder cannot tell which texts belong together, so that words are asked first and
embeddings second. Each function returns the arguments of the function of the same name in
`gradlab.diagnosis.label_agreement_verdicts`, or None where there is nothing to measure.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from scipy.stats import rankdata

from gradlab.data.class_words import told_by_words
from gradlab.data.partners import ranks_of_partners
from gradlab.data.words import word_overlap, words_of
from gradlab.diagnosis.foretold_measurements import foretold_labels
from gradlab.diagnosis.label_measurements import label_cells, name_of_loss
from gradlab.diagnosis.observation import Observation, ObservedBatch

# Rows whose words are compared, and other rows with which each is compared: any, and of a class;
# rows that are compared with all.
WORDED_ROWS, COMPARED_ROWS, OTHERS, NEAREST_ROWS = 512, 16, 16, 64
# Rows whose words are compared with those of all others; quantile of the common words with other
# classes beyond which a text of the same class is near.
GROUPED_ROWS, NEAR = 128, 0.9
# Losses whose label says how alike the two texts of a row are.
RATING = (
    "CosineSimilarityLoss", "CoSENTLoss", "AnglELoss", "ContrastiveLoss", "OnlineContrastiveLoss",
)  # fmt: skip
TAUGHT = ("MarginMSELoss", "DistillKLDivLoss")
# Labels that only say whether the two texts of a row belong together.
OF_PAIRS = 2
HIGHEST = 0.75  # quantile of the labels that are the highest
FEW_VALUES = 5  # groups of labels
Numbers = dict[str, Any]


def relation(
    observation: Observation, dataset: str, batches: list[ObservedBatch]
) -> Numbers | None:
    """Return how labels of pairs go with common words and cosines, and how much these vary.

    For ``foretold`` and ``fitting`` see `foretold_labels`; ``paired`` is the mean of the
    `ranks_of_partners`, and ``ranked`` their rank correlation with the labels.
    """
    cells, texts = labels_of(observation, dataset), texts_of(observation, dataset)
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
    values = [float(cell) for cell in cells[: len(words)]]
    ranks = ranks_of_partners(*(column[: len(words)] for column in texts))
    return {
        "explained": _explained(values, words),
        **foretold_labels(texts, values),
        "paired": float(ranks.mean()),
        "ranked": rank_correlation(values, ranks.tolist()),
        "rows": len(words),
        "distinct": len(set(cells)),
        "words": rank_correlation(values, words),
        "before": rank_correlation(values[:-1], words[1:]),
        "after": rank_correlation(values[1:], words[:-1]),
        "low": float(np.quantile(words, 0.1)),
        "high": float(np.quantile(words, 0.9)),
        "embedded": len(labels),
        "embeddings": rank_correlation(labels, cosines),
    }


def grouping(
    observation: Observation, dataset: str, batches: list[ObservedBatch]
) -> Numbers | None:
    """Return how often a text has more words in common with its class than with others.

    Ranks are among texts of other classes; ``nearest`` is the mean of the largest shares. ``own``
    is the share of rows whose nearest text of their class is nearer than the nearest of as many
    texts of others, where half of the ties count. For ``class_words`` see `told_by_words`.
    """
    cells, texts = labels_of(observation, dataset), texts_of(observation, dataset)
    if len(texts) != 1 or not cells or not all(isinstance(cell, int) for cell in cells):
        return None
    count, draw = min(len(cells), WORDED_ROWS), random.Random(0)
    overlap = word_overlap([texts[0][:count]])
    rows_of: dict[Any, list[int]] = {}
    for row in range(count):
        rows_of.setdefault(cells[row], []).append(row)
    ranks, nearest, own_nearer = list[float](), list[float](), list[float]()
    for row in range(count):
        mates = [mate for mate in rows_of[cells[row]] if mate != row]
        sample = draw.sample(range(count), min(count, 2 * OTHERS))
        foreign = [at for at in sample if cells[at] != cells[row]][:OTHERS]
        if mates and foreign:
            own = overlap(0, row, 0, draw.choice(mates))
            far = [overlap(0, row, 0, at) for at in foreign]
            ranks.append(sum((size < own) + (size == own) / 2 for size in far) / len(far))
            nearest.append(max(far) - sum(far) / len(far))
            few_mates = draw.sample(mates, min(len(mates), len(far)))
            near = max(overlap(0, row, 0, mate) for mate in few_mates)
            farther = max(far[: len(few_mates)])
            own_nearer.append(float(near > farther) + (near == farther) / 2)
    if not ranks:
        return None
    return {
        "own": sum(own_nearer) / len(own_nearer),
        "rows": len(ranks),
        "classes": len(rows_of),
        "rank": sum(ranks) / len(ranks),
        "nearest": sum(nearest) / len(nearest),
        "class_words": told_by_words(
            [set(words_of(text)) for text in texts[0][:count]], cells[:count]
        ),
    }


def groups(observation: Observation, dataset: str, batches: list[ObservedBatch]) -> Numbers | None:
    """Return whether texts of a class are alike beside those of them that are near.

    ``rank`` is the mean share of texts of other classes with fewer common words than one of the
    same class, both without those that are near; ``closest`` by how much the nearest text of the
    class exceeds that of other classes. ``alike`` is the rank of all texts of the commonest class,
    whose share is ``commonest``, and ``others_alike`` that of the other classes.
    """
    cells, texts = labels_of(observation, dataset), texts_of(observation, dataset)
    if len(texts) != 1 or not cells or not all(isinstance(cell, int) for cell in cells):
        return None
    encoder = {id(weight) for weight in observation.trainer.model.parameters()}
    if any(id(weight) not in encoder for weight in getattr(batches[0].loss, "parameters", list)()):
        return None  # a classifier or proxies, which do not draw the texts of a class together
    cells = cells[:WORDED_ROWS]
    common, commonest = _common_words(texts[0][: len(cells)]), Counter(cells).most_common(1)[0]
    ranks, closest, alike, others = list[float](), list[float](), list[float](), list[float]()
    for row in random.Random(0).sample(range(len(cells)), min(len(cells), GROUPED_ROWS)):
        is_own = np.array([cell == cells[row] for cell in cells])
        far, own = np.sort(common[row][~is_own]), np.delete(common[row], row)
        own = own[np.delete(is_own, row)]
        if not len(far) or not len(own):
            continue
        closest.append(float(own.max() - far[-1]))
        (alike if cells[row] == commonest[0] else others).append(_mean_rank(own, far))
        near = far[int(NEAR * (len(far) - 1))]
        if bool((own <= near).any()):
            ranks.append(_mean_rank(own[own <= near], far[far <= near]))
    if not closest:
        return None
    mean_alike, mean_of_others = (float(np.mean(of or [0.0])) for of in (alike, others))
    return {
        "rows": len(ranks), "rank": float(np.mean(ranks or [0.0])),
        "closest": float(np.mean(closest)), "commonest": commonest[1] / len(cells),
        "alike": mean_alike, "others_alike": mean_of_others,
    }  # fmt: skip


def met(observation: Observation, dataset: str, batches: list[ObservedBatch]) -> Numbers | None:
    """Return the loss over its value where rows exchange labels, without dropout, or None.

    None for labels of two values: an encoder that was trained before tells such pairs apart, and a
    loss with margins is 0 then. Its own scores have many values.
    """
    if 0 < len(set(labels_of(observation, dataset) or ())) <= OF_PAIRS:
        return None
    values = [batch.met for batch in batches if batch.met is not None]
    return {"share": sum(values) / len(values)} if values else None


def opposite(
    observation: Observation, dataset: str, batches: list[ObservedBatch]
) -> Numbers | None:
    """Return the share of labels near -1, and what texts of such rows have in common.

    None for losses that take no label for a cosine.
    """
    cells, texts = labels_of(observation, dataset), texts_of(observation, dataset)
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
    cells, texts = labels_of(observation, dataset), texts_of(observation, dataset)
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


def agreement(
    observation: Observation, dataset: str, batches: list[ObservedBatch]
) -> Numbers | None:
    """Return rank correlations of the labels with common words and with initial cosines.

    ``ranked`` is that with the `ranks_of_partners`, and ``highest`` the mean of these over the rows
    with the highest labels.
    """
    cells, texts = label_cells(observation, dataset), texts_of(observation, dataset, WORDED_ROWS)
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
    values = [float(cells[row]) for row in rows]
    ranks = ranks_of_partners(*(column[: len(rows)] for column in texts))
    highest = np.array(values) >= np.quantile(values, HIGHEST)
    return {
        "highest": float(ranks[highest].mean()),
        "rows": len(rows),
        "words": rank_correlation(values, words),
        "ranked": rank_correlation(values, ranks.tolist()),
        "embedded": len(labels),
        "embeddings": rank_correlation(labels, cosines),
    }


def preference(
    observation: Observation, dataset: str, batches: list[ObservedBatch]
) -> Numbers | None:
    """Return how often a teacher, and the words, prefer the first negative to the positive."""
    cells, texts = label_cells(observation, dataset), texts_of(observation, dataset, WORDED_ROWS)
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
    """Return the rank correlation of a teacher's cosines of two texts with their common words.

    ``nearest`` is the mean share of texts that are farther than the one with most common words.
    """
    cells, texts = label_cells(observation, dataset), texts_of(observation, dataset, WORDED_ROWS)
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
    nearest = []
    for row in range(0, count, max(1, count // NEAREST_ROWS)):
        common = [overlap(0, row, 0, partner) for partner in range(count)]
        common[row] = -1.0
        partner = common.index(max(common))
        cosines_of_row = rows @ rows[row]
        nearest.append(float((cosines_of_row < cosines_of_row[partner]).double().mean()))
    return {
        "pairs": len(words),
        "words": len({word for word in words if word}),
        "teacher": rank_correlation(words, cosines),
        "nearest": sum(nearest) / len(nearest),
        "rows": len(nearest),
    }


def shift(observation: Observation, dataset: str, batches: list[ObservedBatch]) -> Numbers | None:
    """Return the share of rows whose second text fits the first text of the row before or after.

    Texts that are equal, as of sentences that are paired with the next one, are left out.

    It fits better than its own row's and all other rows' that are compared, and better than the
    second text of that row before or after. ``own_rank`` is the mean share of other rows' first
    texts that fit the second texts of such rows less than their own.
    """
    texts = texts_of(observation, dataset, WORDED_ROWS)[:2]
    if len(texts) < 2 or len(texts[0]) < 2 * COMPARED_ROWS or batches[0].labelled:
        return None
    overlap, count = word_overlap(texts), len(texts[0])
    shares, own_ranks = {}, list[float]()
    for name, step in (("before", -1), ("after", 1)):
        fits = 0
        for row in range(count):
            neighbour = (row + step) % count
            near = overlap(0, neighbour, 1, row)
            compared = [(row + 3 * far) % count for far in range(1, COMPARED_ROWS + 1)]
            own = overlap(0, row, 1, row), overlap(0, neighbour, 1, neighbour)
            overlaps = [overlap(0, partner, 1, row) for partner in compared]
            is_next = texts[1][row] == texts[0][neighbour]
            if near > max(own) and near > max(overlaps) and not is_next:
                fits += 1
                ranks = [(size < own[0]) + (size == own[0]) / 2 for size in overlaps]
                own_ranks.append(sum(ranks) / len(ranks))
        shares[name] = fits / count
    own_rank = sum(own_ranks) / len(own_ranks) if own_ranks else 0.0
    return {"rows": count, **shares, "own_rank": own_rank}


def labels_of(observation: Observation, dataset: str) -> list[Any]:
    """Return the labels of a data set's rows; empty where they are no numbers."""
    cells = label_cells(observation, dataset)
    is_number = all(isinstance(cell, int | float) and cell == cell for cell in cells)
    return cells if is_number else []


def texts_of(
    observation: Observation, dataset: str, rows: int | None = None
) -> list[Sequence[str]]:
    """Return the columns of a data set that hold texts, of its first rows."""
    columns = observation.table_of(dataset).values()
    return [column[:rows] for column in columns if column]


def rank_correlation(first: Sequence[float], second: Sequence[float]) -> float:
    """Return Spearman's correlation; 0 where one is constant."""
    from scipy.stats import spearmanr

    if len(first) < 3 or min(first) == max(first) or min(second) == max(second):
        return 0.0
    return float(spearmanr(first, second).statistic)


def _explained(labels: Sequence[float], words: Sequence[float]) -> float:
    """Return the correlation ratio of ranks of common words with labels, of few values or groups.

    Labels that take turns in a file tell words by their own rows as well as by the next ones.
    """
    edges = np.unique(labels)
    if len(edges) > FEW_VALUES:
        edges = np.quantile(labels, np.linspace(0, 1, FEW_VALUES + 1)[:-1])
    groups = np.searchsorted(edges, labels, side="right")
    ranks = rankdata(words)
    means = {group: ranks[groups == group].mean() for group in np.unique(groups)}
    spread = float(ranks.std())
    return float(np.std([means[group] for group in groups])) / spread if spread else 0.0


def _common_words(texts: Sequence[str]) -> np.ndarray:
    """Return the share of common words of each text and each other one, rare ones more."""
    words = [set(words_of(text)) for text in texts]
    frequency = Counter(word for of_text in words for word in of_text)
    places = {word: at for at, word in enumerate(frequency)}
    weights = np.log(1 + len(texts) / np.array([*frequency.values()], dtype=float))
    holds = np.zeros((len(texts), len(places)))
    for row, of_text in enumerate(words):
        holds[row, [places[word] for word in of_text]] = 1.0
    common, sizes = (holds * weights) @ holds.T, holds @ weights
    union = sizes[:, None] + sizes - common
    # Rounded, so that equal shares stay equal.
    return np.round(common / np.where(union > 0, union, 1.0), 9)


def _mean_rank(values: np.ndarray, among: np.ndarray) -> float:
    """Return the mean share of sorted numbers that are below a value; half of equal ones count."""
    below, up_to = (np.searchsorted(among, values, side=side) for side in ("left", "right"))
    return float((below + up_to).mean() / (2 * len(among)))


OF_LOSS: tuple[Callable[..., Numbers | None], ...] = (
    *(agreement, preference, taught_embeddings, shift),
    *(relation, grouping, groups, met, opposite, scales),
)
