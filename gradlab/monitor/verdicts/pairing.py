"""Does a loss of one's own heed which rows are pairs, and all rows alike?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gradlab.monitor.label_trials import TARGETS
from gradlab.numbers import percent, short
from gradlab.verdict import BAD, WATCH, Verdict

# Relative difference of two values of a loss that is none, in double precision.
EQUAL = 1e-6
# Loss of right pairs and of wrong ones, relative to that of random embeddings, of a loss whose
# targets point at few of the positives; sound losses are lowest at right pairs.
MISDIRECTED = 1.5
# Relative change of the loss of random pairs by their place in the batch.
PLACED = 0.02
# Loss of right pairs, relative to that of equal embeddings, of a loss that asks for right pairs:
# contrastive ones and hinges have 0.01 and less; .83 where the weights of two terms are mistaken.
MUCH_LOWER = 0.5
# Share of the records, and of batches of wrong and of random pairs, with a loss of exactly 0.
ZERO, FEWEST = 0.5, 4
TRIALS = ("solved", "wrong", "after_next", "halfway", "alike", "drawn", "exchanged")


def pairing(values: Mapping[str, Any]) -> Verdict | None:
    """Judge whether the targets of a loss are the positives of its anchors.

    A loss that gets a label for each row is not judged, since not all pairs need be alike.

    Args:
        values: see `gradlab.monitor.formula_trials.values_on_known_batches`.
    """
    numbers = numbers_of(values, TRIALS)
    if numbers is None or values.get("rows_have_labels"):
        return None
    solved, wrong, following, halfway, alike, drawn, exchanged = numbers.values()
    is_among_columns = bool(values.get("further"))
    of_pairs = (solved, wrong, following)
    # Beside that of random pairs, a loss of pairs may be 0 apart from rounding.
    is_zero = all(abs(number) <= EQUAL * abs(drawn) for number in of_pairs) and drawn != 0
    is_same = solved > 0 and _equal(*of_pairs)
    is_indifferent = (is_same or is_zero) and _equal(drawn, exchanged)
    if is_indifferent and not (_heeds_gathered(values) or values.get(TARGETS)):
        return _indifferent(numbers)
    if is_same and is_among_columns and _equal(solved, halfway) and not values.get(TARGETS):
        return _over_queries(numbers)
    of_random = max(drawn, exchanged)
    # Smoothed targets also have a large loss at right pairs, but a small one at equal embeddings.
    # Other columns may be positives as well.
    lowest = min(solved, wrong, following, float(values.get("united", solved)))
    if lowest > MISDIRECTED * of_random > 0 and alike > of_random:
        return _misdirected(numbers)
    if is_among_columns and drawn and _equal(drawn, float(values.get("scaled", 0.0))):
        return _along_candidates(numbers, float(values["scaled"]))
    return None


def other_column(values: Mapping[str, Any]) -> Verdict | None:
    """Judge whether a loss of several columns of candidates prefers wrong pairs to right ones.

    Args:
        values: see `gradlab.monitor.formula_trials.values_on_known_batches`.
    """
    numbers = numbers_of(values, ("solved", "wrong"))
    if numbers is None or numbers["solved"] <= numbers["wrong"]:
        return None
    finding = (
        f"The loss is {short(numbers['solved'])} where positives equal their anchors, and lower, "
        f"{short(numbers['wrong'])}, where they equal another row: its target is a candidate of "
        "another column, as where candidates or a teacher's scores are sorted alone, or its sign "
        "is reversed."
    )
    change = "Bring targets, scores and candidates into the same order; check the sign."
    return Verdict("Formula", WATCH, finding, change, "target of another column", "loss-at-chance",
                   numbers)  # fmt: skip


def place(values: Mapping[str, Any]) -> Verdict | None:
    """Judge whether a loss that compares all rows heeds their place in the batch.

    A loss that compares some rows only may do so on purpose, such as with the next row.

    Args:
        values: see `gradlab.monitor.formula_trials.values_on_known_batches`.
    """
    names = ("drawn", "reordered", "others", "nearer", "solved", "alike")
    numbers = numbers_of(values, names)
    if numbers is None or values.get("rows_have_labels"):
        return None
    drawn, reordered, negatives, nearer, solved, alike = numbers.values()
    compares_all = nearer == negatives and solved < PLACED * alike
    if not compares_all or abs(reordered - drawn) <= PLACED * abs(drawn):
        return None
    finding = (
        f"The loss of random pairs changes from {short(drawn)} to {short(reordered)} where all "
        "pairs move three places along in their batch: rows count by their place, as where rows "
        "are sliced (rows[:d]) in place of dimensions (rows[:, :d])."
    )
    change = "Slice dimensions, rows[:, :d], and weigh all rows of the batch alike."
    return Verdict("Formula", WATCH, finding, change, "rows by their place", "loss-value", numbers)


def compares_structures(values: Mapping[str, Any]) -> bool:
    """Return whether a loss compares distances within a view with those of the other view only.

    It heeds which rows are pairs, and not how all rows of one view are turned.

    Args:
        values: see `gradlab.monitor.formula_trials.values_on_known_batches`.
    """
    numbers = numbers_of(values, ("drawn", "exchanged", "turned_apart"))
    if numbers is None:
        return False
    drawn, exchanged, turned = numbers.values()
    heeds_pairs = not _equal(drawn, exchanged) or _heeds_gathered(values)
    return _equal(drawn, turned) and heeds_pairs


def asks_for_pairs(values: Mapping[str, Any]) -> bool:
    """Return whether a loss is much lower for right pairs than where all embeddings are equal.

    Args:
        values: see `gradlab.monitor.formula_trials.values_on_known_batches`.
    """
    numbers = numbers_of(values, ("solved", "alike"))
    return numbers is not None and 0 <= numbers["solved"] < MUCH_LOWER * numbers["alike"]


def asks_for_other_rows(values: Mapping[str, Any]) -> bool:
    """Return whether a loss does not ask that a row's views are alike, as where it masks the row.

    Args:
        values: see `gradlab.monitor.formula_trials.values_on_known_batches`.
    """
    numbers = numbers_of(values, ("solved", "alike"))
    return numbers is not None and 0 < numbers["alike"] * (1 - EQUAL) <= numbers["solved"]


def zero(values: Mapping[str, Any], losses: Sequence[float]) -> Verdict | None:
    """Judge whether a loss is 0 whatever its pairs are.

    Args:
        values: see `gradlab.monitor.formula_trials.values_on_known_batches`.
        losses: the loss of each recorded batch.
    """
    numbers = numbers_of(values, ("wrong", "after_next", "drawn", "exchanged"))
    if numbers is None or len(losses) < FEWEST:
        return None
    share = sum(loss == 0 for loss in losses) / len(losses)
    of_known = sum(number == 0 for number in numbers.values()) / len(numbers)
    if share < ZERO or of_known <= ZERO:
        return None
    finding = (
        f"The loss is exactly 0 in {percent(share)} of the records, and for wrong and random pairs "
        "as well: weights or a mask of the loss are zero, such as weights cast to int, or its "
        "margin has the wrong sign."
    )
    change = "Look at the weights, the mask and the margin of the loss; keep weights as floats."
    return Verdict("Formula", BAD, finding, change, "zero weights", "loss-zero",
                   numbers | {"zero_share": share})  # fmt: skip


def numbers_of(values: Mapping[str, Any], names: Sequence[str]) -> dict[str, float] | None:
    """Return values of a trial by name as floats; None if one of them is missing."""
    if not all(isinstance(values.get(name), int | float) for name in names):
        return None
    return {name: float(values[name]) for name in names}


def is_by_chance(solved: float, wrong: float, turned: Sequence[float]) -> bool:
    """Return whether weights of the loss itself, such as a predictor's, answer, at first by chance.

    Then the gap between wrong pairs and right ones depends on how embeddings are turned, by more
    than rounding.
    """
    gaps = [wrong - solved, *(-difference for difference in turned)]
    differ = max(gaps) - min(gaps)
    return differ > max(EQUAL * abs(solved), abs(sum(gaps)) / len(gaps))


def _heeds_gathered(values: Mapping[str, Any]) -> bool:
    """Return whether a loss heeds which rows are pairs where all have nearly one direction."""
    numbers = numbers_of(values, ("gathered", "gathered_exchanged"))
    return numbers is not None and not _equal(*numbers.values())


def _equal(first: float, *numbers: float) -> bool:
    return all(abs(number - first) <= EQUAL * abs(first) for number in numbers)


def _indifferent(numbers: Mapping[str, float]) -> Verdict:
    finding = (
        f"The loss is {short(numbers['solved'])} where positives equal their anchors, and the same "
        "where they equal the next row or the one after: it does not depend on which rows are "
        "pairs. Targets (labels) or an axis (dim) are wrong: each row may be its own target, "
        "targets may point into a queue, or rows are compared along an axis of the batch or by "
        "their mean."
    )
    change = (
        "Look at the shape of the logits, (anchors, candidates), and at what each target points "
        "at; compare along the dimensions (dim=-1), and mask each row itself."
    )
    return Verdict("Formula", BAD, finding, change, "pairs without a part", "loss-at-chance",
                   numbers)  # fmt: skip


def _over_queries(numbers: Mapping[str, float]) -> Verdict:
    finding = (
        f"The loss is {short(numbers['solved'])} whether positives equal their anchors, lie at 60° "
        "or equal another row: cosines of an anchor are not compared with those of its other "
        "candidates, as where softmax goes over the queries of the batch (dim=0)."
    )
    change = "Take softmax, log_softmax or the ranking along the candidates of a query: dim=1."
    return Verdict("Formula", BAD, finding, change, "softmax over the batch", "loss-at-chance",
                   numbers)  # fmt: skip


def _misdirected(numbers: Mapping[str, float]) -> Verdict:
    finding = (
        f"The loss is {short(numbers['solved'])} where positives equal their anchors, far more "
        f"than for random embeddings, {short(numbers['drawn'])}, and no lower where they equal "
        "other rows: the targets (labels, indices) do not point at the positives, but at other "
        "candidates, such as those of a queue or hard negatives."
    )
    change = (
        "Count the targets in the order in which candidates are concatenated; own documents first "
        "makes them torch.arange(len(anchors))."
    )
    return Verdict("Formula", BAD, finding, change, "targets misdirected", "loss-at-chance",
                   numbers)  # fmt: skip


def _along_candidates(numbers: Mapping[str, float], scaled: float) -> Verdict:
    finding = (
        f"The loss of random embeddings stays at {short(scaled)} where each dimension of the "
        "candidates of a row is multiplied by a factor of its own: candidates are normalised along "
        "their own axis, the default dim=1 of F.normalize for three axes, and not along the "
        "dimensions."
    )
    change = "Normalise each row: F.normalize(rows, dim=-1)."
    return Verdict("Formula", BAD, finding, change, "normalised along the candidates", "loss-value",
                   {**numbers, "scaled": scaled})  # fmt: skip
