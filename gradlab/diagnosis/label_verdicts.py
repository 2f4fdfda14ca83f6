"""Do labels fit the loss, do batches hold what it compares, and can its margins be reached?

Arguments are measured by the functions of the same names in
`gradlab.diagnosis.label_measurements`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from gradlab.diagnosis.data_verdicts import is_above_chance
from gradlab.errors import counted
from gradlab.numbers import percent
from gradlab.verdict import BAD, GOOD, NOT_JUDGED, WATCH, Verdict

# Lowest and highest labels of losses that compare them with cosines or take them for yes and no.
RANGES = {
    "CosineSimilarityLoss": (-1.0, 1.0),
    "ContrastiveLoss": (0.0, 1.0),
    "OnlineContrastiveLoss": (0.0, 1.0),
}
ROUNDING = 1e-3  # of cosines that are labels
# Losses that compare rows by their labels, which learn nothing from one label; losses that pull or
# push all rows alike by one label; and losses of the labels 0 and 1, with the share of other labels
# that is worth a remark.
ORDERING = ("CoSENTLoss", "AnglELoss")
ONE_WAY = ("CosineSimilarityLoss", "ContrastiveLoss", "OnlineContrastiveLoss", "SoftmaxLoss")
OF_TWO_LABELS, MANY_BETWEEN = ("ContrastiveLoss", "OnlineContrastiveLoss"), 0.05


def labels(
    loss: str, low: float, high: float, distinct: int, ignored: bool | None, classes: int,
    between: float = 0.0, broadcast: bool = False, scaled: bool = False, of_sets: int = 0,
    telling: float = 1.0, ranked: int = 0,
) -> Iterator[Verdict]:  # fmt: skip
    """Judge whether labels fit a loss.

    Args:
        loss: name of the loss.
        low: lowest label.
        high: highest label.
        distinct: number of different labels.
        ignored: whether the loss stays the same when rows exchange labels; None if unknown.
        classes: number of classes of a classifier; 0 for other losses.
        between: share of labels that are neither 0 nor 1.
        broadcast: whether the loss compares each pair with the labels of all rows.
        scaled: whether the loss changes cosines before it compares them with labels.
        of_sets: number of different labels of all data sets.
        telling: rank correlation of labels that are ignored with what texts have in common.
        ranked: rows that say so; 0 if none do.
    """
    subject, finding = "labels", f"The labels go from {low:g} to {high:g}."
    evidence = {"low": low, "high": high, "distinct": float(distinct)}
    lowest, highest = RANGES.get(loss, (0.0, classes - 1.0) if classes else (low, high))
    if distinct == 1 and loss == "MarginMSELoss":
        yield _equal_margins(low)
        return
    grade = BAD
    if ignored and distinct > 1:
        grade = BAD if _tell_matches(low, high, distinct, telling, ranked) else WATCH
        finding += (
            f" {loss} ignores them: it stays the same when rows exchange labels, and takes every "
            "row for a match."
        )
        change = (
            "Keep only the rows that match and remove the label column, or use a loss that reads "
            "labels, such as CoSENTLoss for scores or ContrastiveLoss for 0 and 1."
        )
        name, symptom = "labels ignored", "labels-do-not-fit"
    elif broadcast:
        finding += f" {loss} compares each pair with the labels of all rows, by broadcasting."
        change = "Give scores and labels one shape: scores (N,) less labels (N, 1) make an (N, N)."
        name, symptom = "labels broadcast", "labels-do-not-fit"
    elif not scaled and (low < lowest - ROUNDING or high > highest + ROUNDING):
        finding += f" {loss} needs labels between {lowest:g} and {highest:g}."
        change = f"Scale the labels to the range from {lowest:g} to {highest:g}"
        change += f": divide them by {high:g}." if low >= 0 and not classes else "."
        name, symptom = "labels out of range", "labels-do-not-fit"
    elif distinct == 1 and loss in ORDERING:
        finding = f"All labels are {low:g}. {loss} learns from their order only, so it learns none."
        change = "Give pairs with different scores, or use a ranking loss without labels."
        name, symptom = "labels equal", "labels-do-not-fit"
    elif distinct == 1 and loss in ONE_WAY and of_sets < 2:
        finding = (
            f"All labels are {low:g}. {loss} then moves all rows the same way, and nothing holds "
            "different texts apart: there are no negatives, or no positives."
        )
        change = "Add rows with other labels, or use a ranking loss, which needs no labels."
        name, symptom = "labels equal", "labels-do-not-fit"
    elif loss in OF_TWO_LABELS and between > MANY_BETWEEN:
        finding += (
            f" {loss} expects labels 0 and 1, and {percent(between)} are between them"
            f"{': it leaves these rows out' if loss == 'OnlineContrastiveLoss' else ''}."
        )
        change = "Use CoSENTLoss or CosineSimilarityLoss for scores, or round labels to 0 and 1."
        name, symptom = "labels between", "labels-do-not-fit"
    else:
        yield Verdict(subject, GOOD, finding, name="labels fit", evidence=evidence)
        return
    yield Verdict(subject, grade, finding, change, name, symptom, evidence)


# Highest label of a loss that takes labels for cosines which is too low for a match, and lowest one
# that is too high for texts that do not match.
TOO_LOW, TOO_HIGH = 0.35, 0.8


def height(loss: str, high: float, distinct: int, low: float = 0.0) -> Iterator[Verdict]:
    """Judge whether the labels of a loss of cosines let texts match, and others not.

    Args:
        loss: name of the loss.
        high: highest label.
        distinct: number of different labels.
        low: lowest label.
    """
    if loss != "CosineSimilarityLoss" or distinct < 2:
        return
    if low > TOO_HIGH:
        finding = (
            f"All labels are between {low:.3g} and {high:.3g}: there are only pairs that fit, and "
            f"{loss} draws all texts together, since one embedding for all meets such scores."
        )
        change = (
            "Add pairs of different texts with low scores, or leave the scores out and use a "
            "ranking loss, which takes other rows for negatives."
        )
        yield Verdict("labels", WATCH, finding, change, "labels all high", "labels-do-not-fit",
                      {"low": low})  # fmt: skip
    if not 0 < high < TOO_LOW:
        return
    finding = (
        f"The highest label is {high:.3g}: {loss} draws even the best pairs to that cosine only. "
        "Labels may have been scaled twice."
    )
    change = "Scale the labels so that a match has 1: divide them by the highest of their scale."
    yield Verdict("labels", WATCH, finding, change, "labels too low", "labels-do-not-fit",
                  {"high": high})  # fmt: skip


# Share of rows with another row of their class in the batch that is worth a remark, and is bad;
# share of batches of one class that is bad.
FEW_MATES, TOO_FEW_MATES, MOST_SINGLE = 0.75, 0.25, 0.5
# Share of the rows that one class may have.
MOST_OF_ONE = 0.9


def classes(
    rows: int, with_mate: float, single_class: float, commonest: float = 0.0, own: bool = False
) -> Iterator[Verdict]:
    """Judge whether batches hold rows of the same class and of different classes.

    Args:
        rows: rows of the batches that the loader draws.
        with_mate: share of them with another row of their class in the batch.
        single_class: share of batches whose rows have one class.
        commonest: share of the rows that have the commonest class.
        own: whether the loss is one of the user's own, which may compare numbers, and no classes.
    """
    subject, symptom = "classes", "labels-do-not-fit"
    finding = (
        f"{percent(with_mate)} of {rows:,} drawn rows share their batch with another row of their "
        "class."
    )
    evidence = {"with mate": with_mate, "single class": single_class}
    if with_mate < FEW_MATES:
        grade = BAD if with_mate < TOO_FEW_MATES and not own else WATCH
        finding += " The others have no positive."
        change = (
            "Set batch_sampler=BatchSamplers.GROUP_BY_LABEL, which puts rows of a class together."
        )
        yield Verdict(subject, grade, finding, change, "classes alone", symptom, evidence)
    elif single_class > MOST_SINGLE:
        finding = f"{percent(single_class)} of the batches hold rows of one class, so no negatives."
        change = "Shuffle the rows, or set batch_sampler=BatchSamplers.GROUP_BY_LABEL."
        yield Verdict(subject, BAD, finding, change, "one class", symptom, evidence)
    elif commonest > MOST_OF_ONE:
        finding = (
            f"{percent(commonest)} of the drawn rows are of one class: classes are unbalanced, and "
            "batches hold hardly any pair of rows to tell apart."
        )
        change = "Add rows of the other classes, or draw as many of each (GROUP_BY_LABEL)."
        yield Verdict(subject, WATCH, finding, change, "classes unbalanced", symptom,
                      {"commonest": commonest})  # fmt: skip
    else:
        yield Verdict(subject, GOOD, finding, name="classes meet", evidence=evidence)


# Share of neighbours in a batch that are neighbours in the data set from which on rows are not
# shuffled; share of the data set that an epoch should draw.
NOT_SHUFFLED, MOST_ROWS = 0.5, 0.5


def order(pairs: int, consecutive: float, alike: float, rows: int, drawn: int) -> Iterator[Verdict]:
    """Judge whether batches hold rows that stand together in the data set and are alike.

    Args:
        pairs: pairs of neighbours in the batches that the loader draws.
        consecutive: share of them that are neighbours in the data set.
        alike: mean share of other rows with fewer words in common with a row than its neighbour.
        rows: rows of the data set; 0 if an epoch is too long to be drawn.
        drawn: rows that an epoch draws.
    """
    subject = "order of rows"
    evidence = {"consecutive": consecutive, "alike": alike}
    if drawn < MOST_ROWS * rows:
        finding = f"An epoch draws {drawn:,} of {rows:,} rows; the sampler leaves the others out."
        change = "Lower the batch size, or use another batch sampler."
        name = "rows left out"
        yield Verdict(subject, WATCH, finding, change, name, "score-does-not-rise", evidence)
    elif consecutive > NOT_SHUFFLED and is_above_chance(alike, pairs):
        finding = (
            "Rows are not shuffled but come in the order of the data set, in which neighbouring "
            f"rows are alike: they have more words in common than {alike:.0%} of other pairs."
        )
        change = "Shuffle the data set: train_dataset.shuffle(seed=…), or use a sampler that does."
        yield Verdict(subject, WATCH, finding, change, "sorted rows", "false-negatives", evidence)
    else:
        finding = "Batches hold rows from the whole data set."
        yield Verdict(subject, GOOD, finding, name="rows shuffled", evidence=evidence)


# Relative difference between the trainer's loss and the loss function, in full and half precision.
DIFFERENT, DIFFERENT_IN_HALF = 1e-3, 5e-2


# Relative difference below which a loss was hardly multiplied: a term or the inputs differ.
NO_FACTOR = 0.02


def outside(factor: float, half: bool, missed: str = "", instead: str = "") -> Iterator[Verdict]:
    """Judge whether the trainer trains with the loss and the columns that it was given.

    Args:
        factor: the trainer's loss over that of the loss function.
        half: whether it is computed in half precision.
        missed: column of the batch that never reaches the encoder; empty if all do.
        instead: column that the loss is given in its place.
    """
    if missed:
        finding = (
            f"compute_loss hands the column {instead!r} to the loss twice, and {missed!r} never: "
            "texts are compared with themselves, by their tokens."
        )
        change = (
            "Give the loss the features of all columns in their order, as collect_features(inputs) "
            "returns them."
        )
        yield Verdict("loss of the trainer", WATCH, finding, change, "column twice",
                      "loss-zero", {"factor": factor})  # fmt: skip
    elif abs(factor - 1) > (DIFFERENT_IN_HALF if half else DIFFERENT):
        finding = (
            f"The trainer's loss is {factor:.3g} times what its loss function returns: it is "
            "multiplied, or a term is added, outside the loss."
        )
        if abs(factor - 1) < NO_FACTOR:
            finding = (
                f"The trainer's loss differs by {abs(factor - 1):.2%} from what its loss function "
                "returns for this batch: a term is added, or its inputs are changed, outside the "
                "loss."
            )
        change = (
            "Change the loss function instead of compute_loss, so that the loss that is trained is "
            "also the loss that is recorded and decomposed."
        )
        evidence = {"factor": factor}
        yield Verdict("loss of the trainer", WATCH, finding, change, "loss changed outside",
                      "loss-value", evidence)  # fmt: skip


# Margin, relative to the largest distance, that is as good as none. Share of the negatives beyond
# it, and distance of positives in margins, where only pulls are left.
TINY, NEARLY_ALL, FAR_BEYOND = 0.01, 0.9, 4.0


def margin(
    margin: float, reach: float, bounded: bool, positives: float = 0.0, beyond: float = 0.0
) -> Iterator[Verdict]:
    """Judge whether a margin can be reached.

    Args:
        margin: margin of the loss.
        reach: largest distance of embeddings of the present length.
        bounded: whether distances never exceed it, as for cosines and unit vectors.
        positives: median distance of pairs with a label of 1; 0 without any.
        beyond: share of the pairs with a label of 0 that are farther apart than the margin.
    """
    evidence = {"margin": margin, "reach": reach}
    unpushed = beyond >= NEARLY_ALL and positives >= FAR_BEYOND * margin > 0
    finding = f"The margin is {margin:g}"
    finding += f", and the largest distance of embeddings is {reach:.3g}." if bounded else "."
    if bounded and margin > reach:
        finding += " No triplet or pair ever satisfies it, so all of them push for ever."
        change = "Set a margin below that: 0.2 to 0.5 is usual for cosines, 0.5 to 1 for distances."
        name, symptom = "margin out of reach", "labels-do-not-fit"
        yield Verdict("margin", BAD, finding, change, name, symptom, evidence)
    elif margin <= TINY * reach and not unpushed:
        if not bounded and margin > 0:
            finding += f" Embeddings are up to {reach:.3g} apart, so that it is small beside them."
        finding += " A positive that is about as far as a negative already satisfies it."
        change = "Set a margin above 0: 0.2 to 0.5 is usual for cosines."
        if not bounded:
            change += " Between vectors of any length, it is about the distance of two texts."
        yield Verdict("margin", BAD, finding, change, "margin met", "loss-zero", evidence)
    elif unpushed:
        finding += (
            f" Even positives are {positives:.3g} apart, and {percent(beyond)} of the negatives "
            "are beyond the margin: no negative is pushed until all texts have come together."
        )
        change = (
            "Set a margin above the distances that the encoder gives, or compare by cosines with "
            "a margin of 0.5."
        )
        evidence |= {"positives": positives}
        yield Verdict("margin", WATCH, finding, change, "margin below distances",
                      "labels-do-not-fit", evidence)  # fmt: skip
    else:
        yield Verdict("margin", GOOD, finding, name="margin in reach", evidence=evidence)


# Share of the margins that dot products reach below which a teacher's scores are in other units,
# and the largest margin of two cosines that are not below 0.
OTHER_UNITS, OF_COSINES = 0.05, 1.0
# Share of its margins beyond the reach of the student that are exceptions.
EXCEPTIONS = 0.05


def teacher(largest: float, reach: float, bounded: bool, beyond: float = 1.0) -> Iterator[Verdict]:
    """Judge whether the margins of a teacher's scores are in the units of the student.

    Args:
        largest: largest margin of the teacher.
        reach: largest margin of the student's embeddings at their present length.
        bounded: whether margins never exceed it, as for cosines.
        beyond: share of the teacher's margins that exceed it.
    """
    subject, evidence = "teacher", {"largest": largest, "reach": reach}
    finding = (
        f"The teacher's margins go up to {largest:.3g}, and those of the student's scores to "
        f"{reach:.3g}."
    )
    if bounded and largest > reach and beyond >= EXCEPTIONS:
        finding += " The student can never reach the teacher's."
        change = (
            "Compare by dot products of embeddings that are not normalised, or divide the "
            "teacher's scores."
        )
    elif not bounded and largest < OTHER_UNITS * reach and largest <= OF_COSINES:
        finding += " The teacher's seem to be cosines, and the student compares by dot products."
        change = "Set similarity_fct=util.pairwise_cos_sim, or multiply the teacher's scores."
    else:
        yield Verdict(subject, GOOD, finding, name="teacher in units", evidence=evidence)
        return
    name = "teacher in other units"
    yield Verdict(subject, WATCH, finding, change, name, "labels-do-not-fit", evidence)


# By how much a teacher's distribution should prefer its best candidate, relative to an equal share;
# relative difference of lengths that are not the same.
FLAT, OTHER_LENGTH = 0.1, 0.1


def teaching(
    preferred: float, temperature: float, lengths: Sequence[float], unit: bool
) -> Iterator[Verdict]:
    """Judge whether a teacher says anything, and whether the student can follow it.

    Args:
        preferred: probability of the best candidate of its distribution times their number; 0
            without a distribution.
        temperature: temperature of the distribution.
        lengths: mean lengths of the teacher's and the student's embeddings, if it gives some.
        unit: whether embeddings of the student have the length 1.
    """
    if 0 < preferred < 1 + FLAT:
        finding = (
            f"At temperature {temperature:g} the teacher's distribution gives its best candidate "
            f"{preferred:.3f} times an equal share: it prefers none, and teaches nothing. Scores "
            "from 0 to 1 are too close for this temperature."
        )
        change = "Give the teacher's logits in place of probabilities, or lower the temperature."
        yield Verdict("teacher", WATCH, finding, change, "teacher is flat", "labels-do-not-fit",
                      {"preferred": preferred})  # fmt: skip
    if lengths and unit and abs(lengths[0] - 1) > OTHER_LENGTH:
        finding = (
            f"The teacher's embeddings have a length of {lengths[0]:.3g}, and those of the student "
            "always 1: MSELoss stays above 0, and teaches the direction all the same."
        )
        change = "Normalise the teacher's embeddings, or leave models.Normalize() out."
        yield Verdict("teacher", NOT_JUDGED, finding, change, "teacher of another length",
                      "labels-do-not-fit", {"length": lengths[0]})  # fmt: skip


def lists(column: str, texts: int) -> Iterator[Verdict]:
    """Judge a column whose cells are lists of texts; ``texts`` is the number of the first."""
    finding = (
        f"The cells of column {column!r} are lists ({counted(texts, 'text')} in the first row): a "
        "list is read as one text, and not as several positives or negatives."
    )
    change = "Give each text a column of its own, such as negative_1 and negative_2, or a row."
    yield Verdict("columns", WATCH, finding, change, "lists of texts", "false-negatives")


def unread(loss: str, columns: Sequence[str]) -> Iterator[Verdict]:
    """Judge columns of texts without which a loss stays the same."""
    names = " and ".join(repr(name) for name in columns)
    finding = (
        f"Column{'s' if len(columns) > 1 else ''} {names}: not read by {loss}, which stays the "
        "same without, so that these texts take no part in training."
    )
    change = (
        "For a label loss, give each text a row of its own with its class; else use a loss that "
        "compares columns, or remove the column."
    )
    yield Verdict("columns", WATCH, finding, change, "column not read", "score-does-not-rise")


# Rank correlation of labels with what texts have in common, and its standard errors, from which on
# labels say whether these belong together.
TELLING, CLEARLY = 0.3, 3.5


def _tell_matches(low: float, high: float, distinct: int, telling: float, ranked: int) -> bool:
    """Return whether labels that a loss ignores say that some rows are no matches.

    Labels of two values do, and those that rise with what texts have in common from a low one on.
    The category of a row, or the scores of pairs that were chosen by them, do not.
    """
    if distinct <= 2 or not ranked:
        return True
    return telling >= TELLING and telling * math.sqrt(ranked) >= CLEARLY and low <= high / 2


def _equal_margins(margin: float) -> Verdict:
    finding = (
        f"All labels are {margin:g}: MarginMSELoss asks the same margin of all rows, and nothing "
        "is learned from the teacher, whose scores were not read or were rounded."
    )
    change = "Give each row the teacher's score of the positive minus that of the negative."
    return Verdict("labels", WATCH, finding, change, "labels equal", "labels-do-not-fit",
                   {"margin": margin})  # fmt: skip
