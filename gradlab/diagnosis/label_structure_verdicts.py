"""Do the labels of some of the rows mean something else than those of the others?

Arguments are measured by the functions of the same names in
`gradlab.diagnosis.label_structure_measurements`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from gradlab.diagnosis.label_agreement_verdicts import FITS_NEIGHBOUR, TOLD_BY_WORDS
from gradlab.numbers import percent
from gradlab.verdict import WATCH, Verdict

SYMPTOM = "labels-do-not-fit"
# Fewest rows that say so; rank correlation of a half of the file that is one; rank correlation of
# other rows, beside which a label whose rows spread nearly as much as these has no meaning.
ENOUGH_ROWS, RELATED, CLEARLY_RELATED, AS_WIDE = 96, 0.3, 0.6, 0.85
# Shares of all rows whose label and common words are at opposite ends, and how many times as many
# as those in the middle they are, where a part of the labels is reversed.
MANY_OPPOSITE, MORE_THAN_BETWEEN = 0.1, 1.5
# Share of the variance that two groups of common words explain where they tell labels; shares of
# all rows that have the label of the other group, on both sides and among low labels alone.
TWO_GROUPS, SOME_ASTRAY, MANY_ASTRAY = 0.8, 0.08, 0.15
# Rank of partners from which on these belong together, though they have few words in common;
# distance of means, in standard deviations, from which on a label says something of its rows.
BELONG, OFFSET = 0.8, 0.75
# Texts in several rows, share of them with a single label, and different labels of these, where
# each group has one score.
SOME_GROUPS, MOSTLY_AVERAGED, MANY_LEVELS = 12, 0.8, 10
# Rows of equal words, and their mean label where labels are too low.
SOME_EQUAL, TOO_LOW = 6, 0.75


# Mean rank correlation with common words in both halves, without its sign, below which words do not
# tell labels: sound ratings of texts in other words have .15 and less, ratings of which a part is
# wrong .28 and more.
UNTOLD = 0.2


def ratings(
    loss: str, rows: int, halves: Sequence[float], corners: Sequence[float],
    label: float, share: float, spread: float, correlation: float, equal: int,
    label_of_equal: float, apart: float = 0.0, low_with_many: float = 0.0,
    high_with_few: float = 0.0, groups: int = 0, averaged: float = 0.0, levels: int = 0,
    column: str = "", reworded: float = 0.0, offset: float = 0.0,
) -> Iterator[Verdict]:  # fmt: skip
    """Judge whether the labels of pairs mean the same in all rows.

    Args:
        loss: name of the loss.
        rows: rows that were compared.
        halves: rank correlations of labels with common words in both halves of the file.
        corners: shares of rows with low labels and many or some common words, and with high labels
            and few or some.
        label: the commonest label, if it is much commoner than the next.
        share: its share.
        spread: standard deviation of the common words of its rows, relative to that of the others.
        correlation: rank correlation of labels with common words in the other rows.
        equal: number of rows of equal words.
        label_of_equal: their mean label.
        apart: share of the variance of common words that two groups explain; 0 for more labels.
        low_with_many: share of the rows with the lower label in the upper group.
        high_with_few: share of the rows with the higher label in the lower group.
        groups: texts of a column that stand in several rows with other texts.
        averaged: share of them of which all rows have the same label.
        levels: different labels of these.
        column: name of the column.
        reworded: mean share of other partners that go less with a text than its own, of the rows
            with the higher label in the lower group: these are put in other words.
        offset: distance of the mean common words of the commonest label from that of other rows, in
            their standard deviations: where there is one, the label says something of its rows.
    """
    if loss == "CosineSimilarityLoss" and equal >= SOME_EQUAL and 0 < label_of_equal < TOO_LOW:
        yield _scaled_low(loss, equal, label_of_equal)
    if rows < ENOUGH_ROWS:
        return
    if groups >= SOME_GROUPS and averaged >= MOSTLY_AVERAGED and levels >= MANY_LEVELS:
        finding = (
            f"{groups} texts of column {column!r} stand in three rows or more, and of "
            f"{percent(averaged)} of them all rows have the same label, one of {levels} in all: "
            "labels are of a text and not of a pair, as means of a group are."
        )
        change = "Give each pair its own score: join scores by both texts, without a mean."
        yield _verdict(finding, change, "labels of groups", averaged)
    elif sum(map(abs, halves)) < UNTOLD * len(halves):
        return  # texts are put in other words, which labels need not follow
    elif min(halves) < -RELATED and max(halves) > RELATED:
        finding = (
            "In one half of the rows labels rise with common words (rank correlation "
            f"{max(halves):.2f}), and in the other they fall ({min(halves):.2f}): two sources were "
            "joined whose labels are reversed to each other, such as distances and similarities."
        )
        change = "Bring all labels to one scale: 1 - label for distances."
        yield _verdict(finding, change, "labels reversed in a half", min(halves))
    elif not apart and _is_reversed_in_part(corners):
        finding = (
            f"In {percent(corners[0])} of the rows the label is low and the texts are alike, and in"
            f" {percent(corners[2])} it is high and they are not, more than in between: a part of "
            "the labels is reversed, or belongs to other rows."
        )
        change = "Look at these rows: one source or annotator may give distances."
        yield _verdict(finding, change, "labels reversed in part", corners[0] + corners[2])
    elif spread >= AS_WIDE and correlation >= CLEARLY_RELATED and not (apart or offset >= OFFSET):
        finding = (
            f"{percent(share)} of the labels are {label:g}, of texts with few and with many words "
            "in common, while the other labels go with common words (rank correlation "
            f"{correlation:.2f}): it seems to fill in for missing labels, or labels of a part of "
            "the rows are wrong."
        )
        change = "Leave out rows without a label, in place of fillna(); read some of these rows."
        yield _verdict(finding, change, "labels filled in", share)
    elif high_with_few >= SOME_ASTRAY and reworded >= BELONG:
        return  # words do not tell labels
    elif apart >= TWO_GROUPS and (
        (share and low_with_many >= MANY_ASTRAY) or min(low_with_many, high_with_few) >= SOME_ASTRAY
    ):
        finding = (
            "Texts of a row have either many or few words in common, and labels contradict that: "
            f"{percent(low_with_many)} of the rows have the lower label and many, and "
            f"{percent(high_with_few)} the higher label and few. Labels of these rows seem to be "
            "wrong, missing (filled with 0) or shuffled."
        )
        change = "Read some of these rows; leave out those without a label."
        yield _verdict(finding, change, "labels against words", low_with_many + high_with_few)


# Probability of the differences between classes by chance from which on there are none, and below
# which they are clear; range of common words that would show them.
BY_CHANCE, CLEAR, WIDE_RANGE = 0.1, 0.01, 0.15


def pair_classes(
    rows: int, classes: int, chances: Sequence[float], order: float, low: float, high: float,
    foretold: bool = False,
) -> Iterator[Verdict]:  # fmt: skip
    """Judge whether classes of pairs have to do with the texts, and mean one thing in the file.

    Args:
        rows: rows that were compared.
        classes: number of classes.
        chances: probabilities of the classes' differences in common words by chance, in all rows
            and in each half.
        order: correlation of the classes' mean common words between the halves.
        low: share of common words below which a tenth of the rows are.
        high: share of common words above which a tenth of the rows are.
        foretold: whether all of this is of words that go together in other rows, in place of words
            that both texts have.
    """
    if rows < ENOUGH_ROWS or high - low < WIDE_RANGE:
        return
    common = "words that go together" if foretold else "words in common"
    if max(chances[1:]) < CLEAR and order < 0:
        finding = (
            f"The {classes} classes of pairs differ in {common} in each half of the file, but "
            "in another order: one number stands for different classes, as where two data sets "
            "number entailment and contradiction the other way round."
        )
        change = "Give the classes of all data sets the same numbers before joining them."
        yield _verdict(finding, change, "classes numbered in two ways", order)
    elif min(chances) > BY_CHANCE:
        finding = (
            f"The {classes} classes of pairs have no relation to the texts: their rows have as "
            f"many {common} in each class, and differences are chance "
            f"(probability {chances[0]:.2g}). Labels may belong to other rows."
        )
        change = "Check that labels were not sorted or shuffled without the texts."
        yield _verdict(finding, change, "classes of pairs unrelated", chances[0])


# Standard deviation of differences in common words that would show a relation to margins; by how
# much that with the positive alone exceeds that with both.
WIDE, ALONE = 0.05, 0.2


def teacher_margins(
    rows: int, difference: float, alone: float, spread: float, before: float = 0.0,
    after: float = 0.0,
) -> Iterator[Verdict]:  # fmt: skip
    """Judge whether a teacher's margins belong to the texts beside them, and are margins.

    A teacher need not go by common words: that it does not says nothing, unless its margins go with
    those of a neighbouring row.

    Args:
        rows: rows that were compared.
        difference: rank correlation with what the positive has more in common than the negative.
        alone: rank correlation with what the positive has in common.
        spread: standard deviation of these differences.
        before: rank correlation of these differences with the margin of the row before.
        after: the same with the margin of the row after.
    """
    if rows < ENOUGH_ROWS or spread < WIDE:
        return
    neighbour, place = max((before, "before"), (after, "after"))
    is_theirs = abs(difference) < neighbour / 2
    if is_theirs and neighbour >= FITS_NEIGHBOUR / math.sqrt(rows - 1):
        finding = (
            "The teacher's margins belong to other rows: over "
            f"{rows:,} rows common words have a rank correlation of {neighbour:.2f} with the "
            f"margin of the row {place}, and of {difference:.2f} with their own."
        )
        change = "Score the texts after shuffling and filtering, in one map()."
        yield _verdict(finding, change, "teacher's scores of other rows", neighbour)
    elif alone - difference > ALONE:
        finding = (
            f"The teacher's margins go with the words of the positive alone (rank correlation "
            f"{alone:.2f}), and less with the difference to the negative ({difference:.2f}): they "
            "seem to be scores of the positive, from which those of the negative were not taken."
        )
        change = "Give score(positive) - score(negative) as the label of a row."
        yield _verdict(finding, change, "scores for margins", alone)


# Share of the classes that have a twin.
MANY_TWINS = 0.3


def twin_classes(
    rows: int, classes: int, nearest: float, share: float, example: Sequence[int]
) -> Iterator[Verdict]:
    """Judge whether classes are one class under two numbers.

    Args:
        rows: rows that were compared.
        classes: number of classes.
        nearest: how near the nearest of other classes is, from 0, unrelated, to 1, as its own.
        share: share of the classes that have one as near as their own texts.
        example: two such classes.
    """
    if rows < ENOUGH_ROWS or share < MANY_TWINS:
        return
    finding = (
        f"{percent(share)} of {classes} classes have as many words in common with another class as "
        f"among themselves, such as {example[0]} and {example[1]}: one class seems to have two "
        "numbers, and its texts are pushed apart."
    )
    change = "Join these classes: names that differ by case or spaces are one class."
    yield _verdict(finding, change, "classes split", nearest)


# Share of the rows that are in mixed classes; rank of the other rows where words tell classes, and
# fewest of these rows: sound sets have no mixed class.
MOSTLY_MIXED, UNMIXED_RANK, ENOUGH_UNMIXED = 0.5, 0.65, 16
# By how much the nearest text exceeds the mean where words tell which texts belong together; share
# of rows, beyond chance, whose nearest text has their class: sound sets have .6 and more where it
# is so near, and .2 elsewhere; fewest classes, as words need not tell opposites apart.
NEAR, SELDOM_SAME, MANY_CLASSES = 0.25, 0.12, 8


def mixed_classes(
    rows: int, classes: int, mixed: int, share: float, unmixed: int, alike: float,
    same: float, chance: float, nearest: float, rank: float,
) -> Iterator[Verdict]:  # fmt: skip
    """Judge whether texts of a class belong together, where the words of texts would say so.

    A single class that holds anything is judged by `label_agreement_verdicts.groups`.

    Args:
        rows: rows that were compared.
        classes: number of classes.
        mixed: classes of 8 rows or more whose texts are no more alike than those of different ones.
        share: share of the rows that are in these classes.
        unmixed: rows of other classes that have another text of their class.
        alike: mean share of texts of different classes with fewer words in common than texts of
            such a class.
        same: share of rows whose nearest text by words has their class.
        chance: share of all texts that have the class of a row.
        nearest: by how much the common words of the nearest text exceed the mean.
        rank: mean share of texts of different classes with fewer words in common than those of a
            class: paraphrases by one pattern are near, and yet a class has more in common.
    """
    if rows < ENOUGH_ROWS:
        return
    if mixed > 1 and share >= MOSTLY_MIXED and unmixed >= ENOUGH_UNMIXED and alike >= UNMIXED_RANK:
        finding = (
            f"{percent(share)} of the rows are in {mixed} of {classes} classes whose texts have no "
            "more words in common than texts of different classes; texts of the other classes have "
            f"more than {alike:.0%} of them. These classes seem to be general ones, which say "
            "little about a text."
        )
        change = (
            "Give each text its most special class, or leave the general classes out; look how "
            "texts that fit several classes got theirs."
        )
        yield _verdict(finding, change, "classes mixed", share)
        return
    is_seldom = same - chance < SELDOM_SAME * (1 - chance) and rank < TOLD_BY_WORDS
    if classes >= MANY_CLASSES and nearest >= NEAR and is_seldom:
        finding = (
            f"The text with most words in common has the same class in {percent(same)} of the "
            f"rows, and any text in {percent(chance)}; texts of a class have more words in common "
            f"than {rank:.0%} of others, and chance gives 50%: of texts that are alike, nearly all "
            "have different classes. Most labels do not fit the texts."
        )
        change = "Read some texts beside their class; leave out labels of rules that are unsure."
        yield _verdict(finding, change, "classes seldom fit", same)


# Fewest rows; share of them with equal targets, which sound teachers' texts never have; mean cosine
# of targets from which on they are nearly one vector: an untuned teacher has .95.
FEWEST_TARGETS, MANY_EQUAL, ONE_DIRECTION = 32, 0.2, 0.98
# Correlation of cosines and common words among neighbours in the file from which on it must hold
# among others as well, the least part of it there, and the least spread of words there: a table of
# vectors in eight coordinate systems had 0.01 of it among others, sound tables at least 0.9. Fewest
# rows of such a comparison.
ORDERED, PART_FAR, VARIED, FEWEST_PLACED = 0.12, 0.35, 0.7, 200


def targets(
    rows: int, equal: float, example: Sequence[str], cosine: float, rank: float,
    near: float = 0.0, far: float = 0.0, spread: float = 0.0,
) -> Iterator[Verdict]:  # fmt: skip
    """Judge whether a teacher's embeddings tell texts apart, and are of one space.

    Args:
        rows: rows that were compared.
        equal: share of them whose target another row with other words has as well.
        example: the texts of two such rows.
        cosine: mean cosine of targets of different rows.
        rank: their effective rank.
        near: correlation of their cosines and common words, of neighbours in the file.
        far: the same of rows that are far apart there.
        spread: how much common words vary among the latter, relative to the former.
    """
    if rows < FEWEST_TARGETS:
        return
    if equal >= MANY_EQUAL:
        finding = (
            f"{percent(equal)} of {rows} rows have the same target as a row with other words, such "
            f"as {example[0][:60]!r} and {example[1][:60]!r}: the teacher's embeddings do not tell "
            "these texts apart."
        )
        change = (
            "Compute them with the teacher's full max_seq_length, of texts whose words it knows, "
            "and keep them as floating-point numbers."
        )
        yield _verdict(finding, change, "targets equal", equal)
    elif cosine >= ONE_DIRECTION:
        finding = (
            f"The teacher's embeddings are nearly all the same: those of different rows have a "
            f"mean cosine of {cosine:.3f} and an effective rank of {rank:.1f}. An encoder that "
            "gives one vector for all texts nearly meets them."
        )
        change = (
            "Look at how they were computed, such as with a long prompt in the mean of the tokens; "
            "or subtract their mean."
        )
        yield _verdict(finding, change, "targets alike", cosine)
    elif rows >= FEWEST_PLACED and near >= ORDERED and spread >= VARIED and far < PART_FAR * near:
        finding = (
            f"The teacher's embeddings of texts with common words are alike among neighbours in "
            f"the file (a correlation of {near:.2f}) and not among rows that are far apart "
            f"({far:.2f}): parts of the file have vectors in coordinates of their own."
        )
        change = (
            "Compute all of them with one teacher, and reduce or normalise them by one fit over "
            "all rows, not by one for each shard or batch."
        )
        yield _verdict(finding, change, "targets in several spaces", far)


def _is_reversed_in_part(corners: Sequence[float]) -> bool:
    low_many, low_some, high_few, high_some = corners
    opposite = low_many + high_few
    return opposite >= MANY_OPPOSITE and opposite > MORE_THAN_BETWEEN * (low_some + high_some)


def _verdict(finding: str, change: str, name: str, value: float) -> Verdict:
    return Verdict("labels", WATCH, finding, change, name, SYMPTOM, {"value": value})


def _scaled_low(loss: str, equal: int, label_of_equal: float) -> Verdict:
    """Return the verdict on labels of equal texts that are too low for a cosine."""
    finding = (
        f"{equal} rows hold the same words twice, and their label is {label_of_equal:.2g} on "
        f"average: {loss} takes a label for a cosine, which is 1 for equal texts. Labels seem "
        "to be scaled too low."
    )
    change = "Divide the labels by the highest of their scale, so that a match has 1."
    return _verdict(finding, change, "labels of equal texts too low", label_of_equal)
