"""Measures whether the labels of some of the rows mean something else, as plain values for JSON.

Each function returns the arguments of the function of the same name in
`gradlab.diagnosis.label_structure_verdicts`, or None where there is nothing to measure.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from gradlab.data.cooccurrence import foretold_ranks
from gradlab.data.partners import ranks_of_partners
from gradlab.data.words import plain, word_overlap, words_of
from gradlab.diagnosis.label_agreement_measurements import (
    RATING,
    TAUGHT,
    _common_words,
    _mean_rank,
    rank_correlation,
)
from gradlab.diagnosis.label_measurements import label_cells, name_of_loss
from gradlab.diagnosis.observation import Observation, ObservedBatch
from gradlab.gradient.statistics import effective_rank, mean_cosine

# Rows whose words are compared, from the whole data set, and of classes; fewest rows of a part;
# share of the rows that one label has at least, and how many times as common as the next it is,
# where it fills in for missing labels.
WORDED_ROWS, CLASSED_ROWS, FEWEST, OFTEN, FILLED_TIMES = 512, 256, 8, 0.05, 1.5
# Mean rank of the texts of a class below which they have no more words in common than texts of
# different classes; distance of two targets, relative to their length, up to which they are equal;
# rows with the target of one, from which on they are more than its translations.
NO_MORE_ALIKE, EQUAL_TARGETS, TRANSLATIONS = 0.52, 1e-4, 4
# Rows that have a text in common, and difference of their labels up to which these are one.
SEVERAL, SAME_LABEL = 3, 1e-6
# Range of common words below which they may not tell classes, and by how much the mean rank of
# partners exceeds a half where words foretell them; probability of differences between classes in
# common words below which these tell them nevertheless.
NARROW, BY_WORDS = 0.15, 0.05
# Losses whose label is a teacher's embedding.
OF_EMBEDDINGS = ("MSELoss", "EmbedDistillLoss")
Numbers = dict[str, Any]


def ratings(observation: Observation, dataset: str, batches: list[ObservedBatch]) -> Numbers | None:
    """Return how labels of pairs go with common words in parts of the rows.

    ``halves`` are the rank correlations in both halves of the file. ``corners`` are the shares of
    all rows whose label is in the lowest third and whose common words are in the highest and in the
    middle third, and whose label is in the highest and whose words are in the lowest and in the
    middle third. ``label``, ``share``, ``spread`` and ``correlation`` are of the label whose rows
    differ most in common words: its share, their standard deviation relative to that of the other
    rows, and the rank correlation of these. ``apart`` is the share of the variance of common words
    that two groups explain, ``low_with_many`` and ``high_with_few`` the shares of all rows with the
    lower of two labels in the upper group, and the other way round. ``equal`` counts rows of equal
    words, whose mean label is ``label_of_equal``. For ``groups`` see `_of_groups`.
    """
    cells, texts = _rows(observation, dataset)
    if name_of_loss(batches[0].loss) not in RATING or len(texts) != 2 or not cells:
        return None
    overlap = word_overlap(texts)
    words = np.array([overlap(0, row, 1, row) for row in range(len(cells))])
    labels, half = np.array(cells, dtype=float), len(cells) // 2
    equal = np.array([plain(first) == plain(second) for first, second in zip(*texts, strict=True)])
    two = len(set(cells)) == 2
    return {
        "loss": name_of_loss(batches[0].loss), "rows": len(cells),
        "halves": [rank_correlation(labels[rows].tolist(), words[rows].tolist())
                   for rows in (slice(half), slice(half, None))],
        "corners": _corners(labels, words), **_filled(labels, words),
        **(_two_groups(labels, words, ranks_of_partners(*texts)) if two else {}),
        "equal": int(equal.sum()),
        "label_of_equal": float(labels[equal].mean()) if equal.any() else 1.0,
        **_of_groups(label_cells(observation, dataset), observation.table_of(dataset)),
    }  # fmt: skip


def pair_classes(
    observation: Observation, dataset: str, batches: list[ObservedBatch]
) -> Numbers | None:
    """Return whether classes of pairs differ in common words, in the whole file and in its halves.

    ``chances`` are the probabilities of such differences by chance, in all rows and in each half;
    ``order`` the rank correlation of the mean common words of classes between the halves. Where
    common words do not tell classes, ``foretold`` is true, and all of this is of the ranks by
    which the words of one text foretell those of the other.
    """
    from scipy.stats import kruskal

    cells, texts = _rows(observation, dataset)
    if name_of_loss(batches[0].loss) != "SoftmaxLoss" or len(texts) != 2 or not cells:
        return None
    overlap, half = word_overlap(texts), len(cells) // 2
    words = np.array([overlap(0, row, 1, row) for row in range(len(cells))])
    first, second = ([set(words_of(text)) for text in column] for column in texts)
    ranks, of_class = foretold_ranks(first, second), {cell: list[float]() for cell in cells}
    for cell, share in zip(cells, words.tolist(), strict=True):
        of_class[cell].append(share)
    is_narrow = np.quantile(words, 0.9) - np.quantile(words, 0.1) < NARROW < ranks.mean() - 0.5
    tells = words.std() > 0 and len(of_class) > 1 and kruskal(*of_class.values()).pvalue < BY_WORDS
    foretold = bool(is_narrow and not tells)
    words = ranks if foretold else words
    labels, chances, means = np.array(cells), list[float](), list[dict[Any, float]]()
    for rows in (slice(None), slice(half), slice(half, None)):
        groups = {
            label: of_label for label in sorted(set(cells))
            if len(of_label := words[rows][labels[rows] == label]) >= FEWEST
        }  # fmt: skip
        if len(groups) < 2 or float(words[rows].std()) == 0:
            return None
        chances.append(float(kruskal(*groups.values()).pvalue))
        means.append({label: float(of_label.mean()) for label, of_label in groups.items()})
    common = sorted(means[1].keys() & means[2].keys())
    return {
        "rows": len(cells), "classes": len(set(cells)), "chances": chances,
        "order": _order([means[1][label] for label in common],
                        [means[2][label] for label in common]),
        "low": float(np.quantile(words, 0.1)), "high": float(np.quantile(words, 0.9)),
        "foretold": foretold,
    }  # fmt: skip


def teacher_margins(
    observation: Observation, dataset: str, batches: list[ObservedBatch]
) -> Numbers | None:
    """Return rank correlations of a teacher's margins with common words of positive and negative.

    ``difference`` is that with the difference of both, ``alone`` with the positive's. ``before``
    and ``after`` are those of the difference with the margins of the rows before and after.
    """
    cells = label_cells(observation, dataset)
    columns = [column for column in observation.table_of(dataset).values() if column]
    if name_of_loss(batches[0].loss) not in TAUGHT or len(columns) < 3 or not cells:
        return None
    count = min(len(cells), len(columns[0]))
    places = _places(count)
    scores = np.array([np.atleast_1d(cell) for cell in cells[:count]], dtype=float)
    whole = scores.shape[1] > 1 and scores.shape[1] == len(columns) - 1
    margins = scores[:, 0] - scores[:, 1] if whole else scores[:, 0]
    overlap = word_overlap([[column[place] for place in places] for column in columns[:3]])
    positive, negative = (
        np.array([overlap(0, row, place, row) for row in range(len(places))]) for place in (1, 2)
    )
    differences = (positive - negative).tolist()
    own, before, after = (
        margins.take([place + step for place in places], mode="wrap").tolist()
        for step in (0, -1, 1)
    )
    return {
        "rows": len(places),
        "difference": rank_correlation(own, differences),
        "alone": rank_correlation(own, positive.tolist()),
        "spread": float((positive - negative).std()),
        "before": rank_correlation(before, differences),
        "after": rank_correlation(after, differences),
    }


def twin_classes(
    observation: Observation, dataset: str, batches: list[ObservedBatch]
) -> Numbers | None:
    """Return the share of classes whose texts have as many words of another class as of their own.

    ``example`` are two such classes.
    """
    cells, texts = _rows(observation, dataset, CLASSED_ROWS)
    if len(texts) != 1 or not cells or not all(isinstance(cell, int) for cell in cells):
        return None
    common, labels = _common_words(texts[0]), np.array(cells)
    groups = [label for label, count in Counter(cells).items() if count >= OF_CLASS]
    if len(groups) < 3:
        return None
    twins = []
    for label in groups:
        own = common[np.ix_(labels == label, labels == label)]
        inner = (own.sum() - np.trace(own)) / (len(own) * (len(own) - 1))
        outer = sorted(
            (float(common[np.ix_(labels == label, labels == far)].mean()), far)
            for far in groups if far != label
        )  # fmt: skip
        middle = outer[len(outer) // 2][0]
        # By how much of the way from an unrelated class to its own the nearest class is.
        if inner > 2 * middle:
            twins.append(((outer[-1][0] - middle) / (inner - middle), label, outer[-1][1]))
    if not twins:
        return None
    nearest, label, twin = max(twins)
    return {
        "rows": len(cells), "classes": len(groups), "nearest": nearest,
        "share": sum(nearness >= NEARLY_OWN for nearness, *_ in twins) / len(groups),
        "example": [int(label), int(twin)],
    }  # fmt: skip


# Part of the way from an unrelated class to its own at which a class is the same; fewest texts of a
# class that show its own: of a hundred classes, one is as near as two texts in other words.
NEARLY_OWN, OF_CLASS = 0.8, 4


def mixed_classes(
    observation: Observation, dataset: str, batches: list[ObservedBatch]
) -> Numbers | None:
    """Return how many classes hold texts that are no more alike than those of different classes.

    The rank of a row is the mean share of texts of other classes that have fewer words in common
    with it than one of its class. Classes of 8 rows or more with a mean rank near 1/2 are mixed:
    ``mixed`` of them hold a ``share`` of the rows. ``alike`` is the mean rank of the other rows,
    which are ``unmixed``, and ``rank`` that of all. ``same`` is the share of rows whose nearest
    text has their class, and ``chance`` that of any text; ``nearest`` by how much it exceeds the
    mean of all texts. None for classifiers and proxies, as for `groups`.
    """
    cells, texts = _rows(observation, dataset)
    if len(texts) != 1 or len(set(cells)) < 2 or not all(isinstance(cell, int) for cell in cells):
        return None
    encoder = {id(weight) for weight in observation.trainer.model.parameters()}
    if any(id(weight) not in encoder for weight in getattr(batches[0].loss, "parameters", list)()):
        return None
    common, labels = _common_words(texts[0]), np.array(cells)
    ranks: dict[int, list[float]] = {}
    same, chance, nearest = list[float](), list[float](), list[float]()
    for row, label in enumerate(cells):
        words, is_own = np.delete(common[row], row), np.delete(labels == label, row)
        if is_own.any() and not is_own.all():
            far = np.sort(words[~is_own])
            ranks.setdefault(label, []).append(_mean_rank(words[is_own], far))
            same.append(float(is_own[words == words.max()].mean()))
            chance.append(float(is_own.mean()))
            nearest.append(float(words.max() - words.mean()))
    if not ranks:
        return None
    mixed = {label for label, of_class in ranks.items()
             if len(of_class) >= FEWEST and np.mean(of_class) < NO_MORE_ALIKE}  # fmt: skip
    unmixed = [rank for label, of_class in ranks.items() if label not in mixed for rank in of_class]
    everything = [rank for of_class in ranks.values() for rank in of_class]
    return {
        "rows": len(cells), "classes": len(set(cells)), "mixed": len(mixed),
        "share": sum(len(ranks[label]) for label in mixed) / len(cells),
        "unmixed": len(unmixed), "alike": float(np.mean(unmixed or [0.0])),
        "same": float(np.mean(same)), "chance": float(np.mean(chance)),
        "nearest": float(np.mean(nearest)), "rank": float(np.mean(everything)),
    }  # fmt: skip


def targets(observation: Observation, dataset: str, batches: list[ObservedBatch]) -> Numbers | None:
    """Return the share of rows whose target another row with other words in each text has as well.

    Targets are a teacher's embeddings; words count in any order, as a mean of word vectors does.
    ``cosine`` is the mean cosine of targets of different rows, ``rank`` their effective rank. For
    ``near``, ``far`` and ``spread`` see `_by_distance`.
    """
    cells, texts = label_cells(observation, dataset), observation.table_of(dataset)
    if name_of_loss(batches[0].loss) not in OF_EMBEDDINGS or not texts:
        return None
    if not all(isinstance(cell, Sequence) and len(cell) == len(cells[0]) for cell in cells):
        return None
    rows = np.array(cells[:WORDED_ROWS], dtype=float)
    if rows.ndim != 2 or len(rows) < 2 or not np.isfinite(rows).all():
        return None
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    units = rows / np.where(lengths > 0, lengths, 1.0)
    squares = (lengths**2 + lengths.T**2 - 2 * rows @ rows.T).clip(min=0.0)
    equal = squares <= (EQUAL_TARGETS * lengths.mean()) ** 2
    for column in texts.values():
        numbers: dict[tuple[str, ...], int] = {}
        words = np.array([numbers.setdefault(tuple(sorted(words_of(text))), len(numbers))
                          for text in column[: len(rows)]])  # fmt: skip
        equal &= words[:, None] != words
    # A text and its translations have one target.
    partners = equal.sum(axis=1) >= TRANSLATIONS
    first = int(partners.argmax())
    column = next(iter(texts.values()))
    example = [column[first], column[int(equal[first].argmax())]] if partners.any() else []
    return {
        "rows": len(rows), "equal": float(partners.mean()), "example": example,
        "cosine": mean_cosine(units), "rank": effective_rank(units) if units.any() else 0.0,
        **_by_distance(cells, column),
    }  # fmt: skip


def _by_distance(targets_of_rows: Sequence[Any], texts: Sequence[str]) -> Numbers:
    """Return how cosines of targets go with common words, of neighbours in a file and of others.

    ``near`` is the correlation over pairs of rows at most a sixteenth of the file apart, ``far``
    over those more than half of it apart; ``spread`` is the standard deviation of the common words
    of the latter over that of the former.
    """
    places = _places(min(len(targets_of_rows), len(texts)), CLASSED_ROWS)
    rows = np.array([targets_of_rows[place] for place in places], dtype=float)
    units = rows - rows.mean(axis=0)
    units /= np.linalg.norm(units, axis=1, keepdims=True).clip(min=1e-12)
    overlap, count = word_overlap([[texts[place] for place in places]]), len(places)
    correlations, spreads = list[float](), list[float]()
    for least, most in ((1, count // 16), (count // 2 + 1, count - 1)):
        pairs = [
            (row, row + step) for step in range(least, most + 1) for row in range(count - step)
        ]
        words = np.array([overlap(0, first, 0, second) for first, second in pairs])
        cosines = np.array([units[first] @ units[second] for first, second in pairs])
        varies = len(pairs) > 2 and words.std() > 0 and cosines.std() > 0
        correlations.append(float(np.corrcoef(words, cosines)[0, 1]) if varies else 0.0)
        spreads.append(float(words.std()) if pairs else 0.0)
    near, far = correlations
    return {"near": near, "far": far, "spread": spreads[1] / spreads[0] if spreads[0] else 0.0}


def _rows(
    observation: Observation, dataset: str, most: int = WORDED_ROWS
) -> tuple[list[Any], list[list[str]]]:
    """Return labels and texts of rows from the whole data set; empty without numbers as labels."""
    cells = label_cells(observation, dataset)
    columns = [column for column in observation.table_of(dataset).values() if column]
    if not columns or not all(isinstance(cell, int | float) and cell == cell for cell in cells):
        return [], []
    places = _places(min(len(cells), len(columns[0])), most)
    return (
        [cells[place] for place in places],
        [[column[place] for place in places] for column in columns],
    )


def _places(count: int, most: int = WORDED_ROWS) -> list[int]:
    """Return the places of rows from a whole data set."""
    return list(range(0, count, -(-count // most) if count else 1))


def _corners(labels: np.ndarray, words: np.ndarray) -> list[float]:
    from scipy.stats import rankdata

    label_third, word_third = (
        np.minimum((rankdata(values) - 1) * 3 // max(1, len(values)), 2)
        for values in (labels, words)
    )
    return [
        float(((label_third == label) & (word_third == word)).mean())
        for label, word in ((0, 2), (0, 1), (2, 0), (2, 1))
    ]


def _filled(labels: np.ndarray, words: np.ndarray) -> dict[str, float]:
    """Return how the rows of the commonest label differ in common words from the other rows.

    ``offset`` is the distance of their means, in standard deviations of the other rows. Of grades
    that are about equally common, none fills in for missing ones, nor does the highest one.
    """
    (label, times), *others = Counter(labels.tolist()).most_common(2)
    of_label = labels == label
    remaining = words[~of_label]
    few = label == labels.max() or times < max(
        FEWEST, OFTEN * len(labels), *(FILLED_TIMES * count for _, count in others)
    )
    if few or len(remaining) < 3 * FEWEST:
        return {"label": 0.0, "share": 0.0, "spread": 0.0, "correlation": 0.0}
    return {
        "label": label,
        "share": times / len(labels),
        "spread": float(words[of_label].std() / (remaining.std() or 1.0)),
        "offset": abs(float(words[of_label].mean() - remaining.mean())) / (remaining.std() or 1.0),
        "correlation": rank_correlation(labels[~of_label].tolist(), remaining.tolist()),
    }


def _of_groups(cells: Sequence[float], table: Mapping[str, Sequence[str]]) -> Numbers:
    """Return how many texts stand in three rows or more, with other texts, and have one label.

    ``column`` is the one of which most do so: ``averaged`` is their share of ``groups``, and
    ``levels`` counts their different labels.
    """
    most: Numbers = {"groups": 0, "averaged": 0.0, "levels": 0, "column": ""}
    for name, column in table.items():
        partners = list(zip(*(texts for at, texts in table.items() if at != name), strict=True))
        rows_of: dict[str, list[int]] = {}
        for row, text in enumerate(column[: len(cells)]):
            rows_of.setdefault(text, []).append(row)
        labels = [
            [cells[row] for row in rows] for rows in rows_of.values()
            if len(rows) >= SEVERAL and len({partners[row] for row in rows}) > 1
        ]  # fmt: skip
        single = [group[0] for group in labels if max(group) - min(group) <= SAME_LABEL]
        if len(single) > most["averaged"] * most["groups"]:
            levels = len({round(label, 6) for label in single})
            most = {"groups": len(labels), "averaged": len(single) / len(labels),
                    "levels": levels, "column": name}  # fmt: skip
    return most


def _two_groups(labels: np.ndarray, words: np.ndarray, ranks: np.ndarray) -> dict[str, float]:
    """Return how far common words fall into two groups, and which rows are in the other one.

    ``reworded`` is the mean of the ranks of partners of rows with the higher label and few words.
    """
    ordered = np.sort(words)
    best, border = 0.0, 0.0
    for cut in range(FEWEST, len(ordered) - FEWEST):
        low, high = ordered[:cut], ordered[cut:]
        within = low.var() * len(low) + high.var() * len(high)
        explained = 1 - within / ((ordered.var() or 1.0) * len(ordered))
        if explained > best:
            best, border = float(explained), float((low.mean() + high.mean()) / 2)
    low_label, many = labels == labels.min(), words > border
    few = ~low_label & ~many
    return {
        "apart": best, "low_with_many": float((low_label & many).mean()),
        "high_with_few": float(few.mean()),
        "reworded": float(ranks[few].mean()) if few.any() else 0.0,
    }  # fmt: skip


def _order(first: Sequence[float], second: Sequence[float]) -> float:
    """Return the correlation of two lists of means; their common direction for two classes."""
    if len(first) < 2:
        return 1.0
    if len(first) == 2:
        return 1.0 if (first[0] < first[1]) == (second[0] < second[1]) else -1.0
    return float(np.corrcoef(first, second)[0, 1])


OF_LOSS = (ratings, pair_classes, teacher_margins, twin_classes, mixed_classes, targets)
