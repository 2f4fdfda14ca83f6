"""How are labels distributed, and do the same texts have the same ones?

Arguments are measured by the functions of the same names in
`gradlab.diagnosis.label_values_measurements`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from gradlab.numbers import percent
from gradlab.verdict import BAD, WATCH, Verdict

SYMPTOM = "labels-do-not-fit"
# Shares of one label that leave little to learn, of scores and of two labels, of which one may be
# rare; share of labels at one end, and their distance from the others relative to the range of
# these, that mark rows without a label.
MOSTLY_EQUAL, MOSTLY_ONE_OF_TWO, MANY_AT_EDGE, FAR_AWAY = 0.85, 0.95, 0.03, 0.5
# Standard errors by which common words place a label at its end of the scale.
BY_WORDS = 2.5
# Share of texts with the same words among those of the highest score, where only these kept it.
MANY_SAME = 0.5
OF_TWO_LABELS = ("ContrastiveLoss", "OnlineContrastiveLoss")


def balance(
    loss: str, rows: int, label: float, commonest: float, whole: bool,
    edge: float, gap: float, at_edge: float, equal: float = 1.0, place: float = 0.5,
    placed: int = 0,
) -> Iterator[Verdict]:  # fmt: skip
    """Judge how labels are distributed.

    Args:
        loss: name of the loss.
        rows: number of labels.
        label: the commonest label.
        commonest: its share.
        whole: whether all labels are whole numbers.
        edge: the lowest or highest label, whichever is farther from the others.
        gap: its distance from the nearest other label, relative to the range of the others.
        at_edge: share of the labels that have it.
        equal: share of the rows with the highest label whose texts have the same words, as scores
            that were cast to integers leave it.
        place: mean share of the other rows with fewer common words than the rows with ``edge``.
        placed: number of these; 0 if unknown.
    """
    of_two = loss in OF_TWO_LABELS or (whole and equal < MANY_SAME)
    most = MOSTLY_ONE_OF_TWO if of_two else MOSTLY_EQUAL
    if most <= commonest < 1:
        finding = f"{percent(commonest)} of the labels are {label:g}."
        change = "Add rows with other labels, or leave out some of these."
        if whole and not of_two:
            finding += " All are whole numbers: scores may have been rounded or cast to integers."
            change = "Give the scores as they are, such as 0.73."
        yield Verdict("labels", WATCH, finding, change, "labels mostly equal", SYMPTOM,
                      {"commonest": commonest})  # fmt: skip
    # A scale may have nothing between rows that do not belong together and those that do.
    beyond = place - 0.5
    if edge <= label:
        beyond = -beyond if edge < label else abs(beyond)
    is_grade = placed > 0 and beyond * math.sqrt(12 * placed) >= BY_WORDS
    if gap >= FAR_AWAY and at_edge >= MANY_AT_EDGE and not is_grade:
        finding = (
            f"{percent(at_edge)} of the labels are {edge:g}, far from all others: it seems to mark "
            "a missing label, and is learned as a score."
        )
        change = "Leave out rows without a label."
        yield Verdict("labels", BAD, finding, change, "labels missing", SYMPTOM,
                      {"at edge": at_edge, "gap": gap})  # fmt: skip


# Shares of rows with contradicting labels that are worth a remark and bad.
SOME_CONTRADICT, MANY_CONTRADICT = 0.05, 0.25
# Difference of labels of the same texts, relative to any two, from which on they contradict.
AS_ANY_TWO = 0.75


def contradictions(
    rows: int, share: float, example: str, labels: Sequence[float], within: float = 1.0
) -> Iterator[Verdict]:
    """Judge whether the same texts have different labels.

    Args:
        rows: rows that were compared.
        share: share of them whose texts stand in another row with a label that is far from theirs.
        example: the texts of one such row.
        labels: its lowest and highest label.
        within: mean difference of two labels of the same texts, relative to that of any two: below
            1, where people judged the same texts a little differently.
    """
    if share < SOME_CONTRADICT:
        return
    finding = (
        f"In {percent(share)} of {rows:,} rows the same texts stand in two rows with different "
        f"labels, which contradict each other: {example[:60]!r} has {labels[0]:.3g} and "
        f"{labels[1]:.3g}."
    )
    change = "Keep one label for each pair of texts; check that all annotators used one scale."
    grade = BAD if share >= MANY_CONTRADICT and within >= AS_ANY_TWO else WATCH
    yield Verdict("labels", grade, finding, change, "labels contradict", SYMPTOM,
                  {"share": share})  # fmt: skip
