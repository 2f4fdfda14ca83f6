"""Do labels, teachers and neighbouring rows agree with the texts beside them?

Arguments are measured by the functions of the same names in
`gradlab.diagnosis.label_agreement_measurements`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from gradlab.data.label_verdicts import TELLS, labels_foretold
from gradlab.diagnosis.data_verdicts import is_above_chance
from gradlab.numbers import percent
from gradlab.verdict import BAD, GOOD, WATCH, Verdict

SYMPTOM = "labels-do-not-fit"
# Standard errors within which a correlation is none; fewest rows that say so; range of the shares
# of common words (from a tenth to nine tenths) that would show one; share of words that texts which
# are nothing to each other have in common at most.
NO_RELATION, ROWS_TO_RELATE, WIDE_RANGE, NOTHING_COMMON = 2.0, 96, 0.15, 0.05
# Standard errors by which words fit the label of a neighbouring row better than their own.
FITS_NEIGHBOUR = 5.0
# Root of the chi-squared of five groups of labels by common words from which on these differ.
TOLD_IN_GROUPS = 3.7


def relation(
    rows: int, distinct: int, words: float, low: float, high: float,
    embedded: int, embeddings: float, before: float = 0.0, after: float = 0.0,
    foretold: float = 0.5, fitting: float = 0.0, paired: float = 1.0, ranked: float = 0.0,
    explained: float = 0.0,
) -> Iterator[Verdict]:  # fmt: skip
    """Judge whether labels have to do with the texts, or with those of a neighbouring row.

    Labels of paraphrases and of mined negatives need not go with common words. So texts must differ
    widely in what they have in common, some belong together, and both words and embeddings must
    show no relation.

    Args:
        rows: rows whose words were compared.
        distinct: number of different labels.
        words: rank correlation of labels with the share of common words.
        low: share of common words below which a tenth of the rows are.
        high: share of common words above which a tenth of the rows are.
        embedded: rows whose embeddings were compared.
        embeddings: rank correlation of labels with the cosines of the encoder as it is.
        before: rank correlation of the share of common words with the label of the row before.
        after: the same with the label of the row after.
        foretold: see `gradlab.diagnosis.foretold_verdicts.labels_foretold`.
        fitting: see there.
        paired: mean share of other partners that go less with a text than its own.
        ranked: rank correlation of labels with these shares.
        explained: correlation ratio of the share of common words with the labels.
    """
    neighbour, place = max((before, "before"), (after, "after"))
    # Labels that go with words, in whatever way, and take turns fit those of a neighbour as well.
    is_theirs = max(abs(words), explained) < neighbour / 2
    if rows >= ROWS_TO_RELATE and is_theirs and neighbour >= FITS_NEIGHBOUR / math.sqrt(rows - 1):
        finding = (
            f"Over {rows:,} rows the share of common words has a rank correlation of "
            f"{neighbour:.2f} with the label of the row {place}, and of {words:.2f} with their own "
            "label: labels are shifted against the texts by a row."
        )
        change = "Look for a header that was read as a row, and join labels by an id."
        yield Verdict("labels", BAD, finding, change, "labels shifted", SYMPTOM,
                      {"words": words, "neighbour": neighbour})  # fmt: skip
        return
    if high - low < WIDE_RANGE:
        yield from labels_foretold(rows, distinct, words, foretold, fitting)
    if rows < ROWS_TO_RELATE or distinct < 2 or not embedded or high - low < WIDE_RANGE:
        return
    if paired < TELLS or (distinct == 2 and low > NOTHING_COMMON):
        return
    by_words = max(abs(words), abs(ranked)) * math.sqrt(rows - 1)
    by_embeddings = abs(embeddings) * math.sqrt(max(1, embedded - 1))
    is_told = explained * math.sqrt(rows - 1) >= TOLD_IN_GROUPS
    if by_words < NO_RELATION and by_embeddings < NO_RELATION + 1 and not is_told:
        finding = (
            f"The labels have no relation to the texts: over {rows:,} rows their rank correlation "
            f"with common words is {words:.2f}, and with the cosines of the encoder "
            f"{embeddings:.2f}. They may belong to other rows."
        )
        change = "Check that labels were not sorted or shuffled without the texts."
        yield Verdict("labels", WATCH, finding, change, "labels unrelated", SYMPTOM,
                      {"words": words, "embeddings": embeddings})  # fmt: skip


# By how much the largest share of common words with another class exceeds the mean, where texts
# have words that could tell classes; standard errors by which words, and nearest texts, tell them.
TELLING_WORDS, TOLD_CLASSES, NEARER = 0.1, 3.0, 2.5


def grouping(
    rows: int, classes: int, rank: float, nearest: float, own: float = 0.5, class_words: float = 0.0
) -> Iterator[Verdict]:
    """Judge whether texts of a class have more in common than texts of different classes.

    Args:
        rows: rows that were compared.
        classes: number of classes.
        rank: mean share of texts of other classes with fewer common words than one of its own.
        nearest: by how much the largest of their shares of common words exceeds their mean.
        own: share of rows whose nearest text of their class is nearer than that of as many others.
        class_words: by how many standard errors words tell classes, as learnt from other texts.
    """
    is_nearer = (own - 0.5) * 2 * math.sqrt(rows) >= NEARER
    are_related = is_nearer or class_words >= TOLD_CLASSES or is_above_chance(rank, rows)
    if rows < ROWS_TO_RELATE or nearest < TELLING_WORDS or are_related:
        return
    finding = (
        f"Texts of a class have no more words in common than texts of different classes: more than "
        f"{rank:.0%} of them, and chance gives 50%. The classes may belong to other texts."
    )
    change = "Check that labels were not sorted or shuffled without the texts."
    yield Verdict("classes", WATCH, finding, change, "classes unrelated", SYMPTOM,
                  {"rank": rank, "rows": float(rows)})  # fmt: skip


# Rank of the texts of a class up to which they have no more in common than texts of different
# classes; by how much the nearest of them is nearer than any of these; share of the rows of a class
# that holds most, and rank of the other classes where words tell them; rank of all texts of classes
# that words tell: sound ones have .58 and more, joined ones up to .55.
NO_MORE_ALIKE, CLOSER, MOST_ROWS, ALIKE, TOLD_BY_WORDS = 0.52, 0.15, 0.5, 0.75, 0.565


def groups(
    rows: int, rank: float, closest: float, commonest: float, alike: float, others_alike: float
) -> Iterator[Verdict]:
    """Judge whether a class holds texts about different things.

    Args:
        rows: rows of whose class not all texts are near.
        rank: mean share of texts of other classes with fewer common words than one of the same
            class, both without those that are near.
        closest: by how much the nearest text of the class exceeds that of other classes.
        commonest: share of the rows that have the commonest class.
        alike: the rank of all its texts.
        others_alike: the rank of all texts of the other classes.
    """
    if rows < ROWS_TO_RELATE:
        return
    if commonest >= MOST_ROWS and alike < NO_MORE_ALIKE and others_alike >= ALIKE:
        finding = (
            f"{percent(commonest)} of the rows are of one class, whose texts have no more words in "
            f"common than texts of different classes (more than {alike:.0%} of them; in the other "
            f"classes {others_alike:.0%}): it seems to be the class of everything else, and a "
            "label loss draws its texts together."
        )
        change = (
            "Leave the class out, or give each of its rows a class of its own, so that its texts "
            "are negatives only."
        )
        yield Verdict("classes", WATCH, finding, change, "class of everything else", SYMPTOM,
                      {"commonest": commonest, "alike": alike})  # fmt: skip
    elif closest >= CLOSER and rank < NO_MORE_ALIKE and alike < TOLD_BY_WORDS:
        finding = (
            "The texts of a class are of groups that have nothing in common: beside the nearest "
            f"ones, they have more common words than {rank:.0%} of texts of different classes, and "
            "chance gives 50%. Several data sets or files may each have counted their classes from "
            "0, so that one number stands for unrelated classes."
        )
        change = "Before joining data sets, let each one's class numbers begin behind the last."
        yield Verdict("classes", WATCH, finding, change, "classes of unrelated groups", SYMPTOM,
                      {"rank": rank, "closest": closest})  # fmt: skip


# Share of the loss with labels of other rows at which labels are met from the beginning.
MET = 0.01


def met(share: float) -> Iterator[Verdict]:
    """Judge whether the labels or the teacher's scores are what the encoder gives already.

    ``share`` is the loss without dropout over its value where rows exchange labels.
    """
    if share < MET:
        finding = (
            "Before training the loss without dropout is "
            f"{percent(share)} of what it is with the labels of other rows: the encoder already "
            "gives what the labels ask for, as if they were made with itself."
        )
        change = "Make labels or a teacher's scores with another model than the trained one."
        yield Verdict("labels", WATCH, finding, change, "labels already met", "loss-zero",
                      {"share": share})  # fmt: skip


# Share of labels near -1 that are no ends of a graded scale; common words, beside those of rows
# that are drawn by chance, up to which texts have nothing to do with each other.
MANY_OPPOSITE, UNRELATED = 0.3, 0.05


def opposite(rows: int, share: float, common: float, chance: float) -> Iterator[Verdict]:
    """Judge whether labels of -1 are of texts that are the opposite of each other.

    Args:
        rows: rows that were compared.
        share: share of them with a label near -1.
        common: mean share of common words of these rows.
        chance: the same of texts of different rows.
    """
    if share < MANY_OPPOSITE or common > chance + UNRELATED:
        return
    finding = (
        f"{percent(share)} of the labels are -1, of texts that have no more in common than those "
        "of different rows. CosineSimilarityLoss takes a label for a cosine: -1 asks for opposite "
        "directions, and texts that do not belong together are merely unrelated, 0."
    )
    change = "Give 0 to pairs that do not belong together."
    yield Verdict("labels", WATCH, finding, change, "unrelated at minus one", SYMPTOM,
                  {"share": share, "common": common, "chance": chance})  # fmt: skip


# Share of the rows of a label that are as unlike as those of the lowest label, and of those that
# are as alike as the highest, from which on it has two meanings; difference of these in common
# words; different labels up to which that is no scale of many grades; share of the range of labels
# up to which the highest one of a smaller scale lies: a scale of 0 to 5 is half of one to 10.
TWO_MEANINGS, TOLD_APART, FEW_GRADES, SMALLER_SCALE = 0.2, 0.15, 10, 0.6


def scales(
    distinct: int, low: float, high: float, between: float, share: float, label: float, ends: float
) -> Iterator[Verdict]:
    """Judge whether labels come from sources with different scales.

    Args:
        distinct: number of different labels.
        low: lowest label.
        high: highest label.
        between: difference of the common words of their rows.
        share: smaller share of the rows of ``label`` that are like those of ``low`` and ``high``.
        label: the label between them that is the most divided.
        ends: share of the rows of ``low`` or ``high`` that are unlike the other rows of their
            label: where it is large, words do not tell labels.
    """
    if distinct > FEW_GRADES or between < TOLD_APART or share < max(TWO_MEANINGS, 2 * ends):
        return
    if label - low > SMALLER_SCALE * (high - low):
        return
    finding = (
        f"Of the rows with the label {label:g}, some have as few words in common as those with "
        f"{low:g}, and others as many as those with {high:g} (each at least {percent(share)}): "
        "labels seem to come from two sources with different scales."
    )
    change = "Bring the labels of all sources to one scale, from 0 to 1."
    yield Verdict("labels", WATCH, finding, change, "two scales", SYMPTOM,
                  {"share": share, "between": between})  # fmt: skip


# Rank correlations with common words and ranks of partners below which labels are reversed, if that
# with cosines is below 0: the latter are up to -.33 in faulty sets, and from -.1 where unlike texts
# repeat each other but for some words. Fewest rows that say so.
REVERSED, FALLS_WITH_RANKS, ENOUGH_ROWS = -0.3, -0.2, 32
BELONG = 0.8  # rank of partners that belong together, whatever their labels


def agreement(
    rows: int, words: float, embedded: int, embeddings: float, ranked: float = -1.0,
    highest: float = 0.0,
) -> Iterator[Verdict]:  # fmt: skip
    """Judge whether labels rise with the likeness of texts.

    Words and embeddings must both say no: an untuned encoder and a paraphrase mislead either.

    Args:
        rows: rows whose words were compared.
        words: rank correlation of labels with the share of common words.
        embedded: rows whose embeddings were compared.
        embeddings: rank correlation of labels with the cosines of the encoder as it is.
        ranked: rank correlation of labels with the ranks of partners; see `relation`.
        highest: mean rank of the partners of the rows with the highest labels: where it is high,
            these are in other words, and others repeat each other but for some.
    """
    evidence = {"words": words, "embeddings": embeddings, "rows": float(rows)}
    if rows < ENOUGH_ROWS or abs(words) < -REVERSED or not embedded:
        return
    finding = (
        f"Over {rows:,} rows the rank correlation of the labels with common words is {words:.2f}, "
        f"and with the cosines of the encoder {embeddings:.2f}."
    )
    if max(words, embeddings) < 0 and ranked < FALLS_WITH_RANKS:
        finding += (
            " The labels fall where texts are more alike: they are reversed, as distances are."
        )
        change = "Give a higher label to texts that are more alike: 1 - label, or -label."
        grade = BAD if highest < BELONG else WATCH
        yield Verdict("agreement", grade, finding, change, "labels reversed", SYMPTOM, evidence)
    elif words > 0 and embeddings > 0:
        yield Verdict("agreement", GOOD, finding, name="labels agree", evidence=evidence)


# Share of rows in which a teacher may prefer the negative.
MOST_PREFERRED = 0.6
SURELY = 1.9  # standard errors by which both teacher and words prefer one of them


def preference(rows: int, teacher: float, words: float) -> Iterator[Verdict]:
    """Judge whether a teacher prefers the positive to the negative.

    Args:
        rows: rows that were compared.
        teacher: share of rows in which the teacher prefers the negative.
        words: share of rows in which the negative has more words of the anchor.
    """
    if rows < ENOUGH_ROWS:
        return
    evidence = {"teacher": teacher, "words": words, "rows": float(rows)}
    finding = f"The teacher prefers the negative to the positive in {percent(teacher)} of the rows."
    if teacher < MOST_PREFERRED:
        yield Verdict("teacher", GOOD, finding, name="teacher agrees", evidence=evidence)
        return
    finding += f" By common words the negative is nearer in {percent(words)} of them."
    change = (
        "Check the order of the teacher's scores: the positive's first, or the margin of the "
        "positive over the negative."
    )
    if words < 1 - MOST_PREFERRED:
        surely = min(teacher, 1 - words) - 0.5 >= SURELY * 0.5 / math.sqrt(rows)
        finding += " So the teacher's scores are in the opposite order of the columns."
        grade = BAD if surely else WATCH
        yield Verdict("teacher", grade, finding, change, "teacher reversed", SYMPTOM, evidence)
    else:
        change = f"{change} Or the columns of positives and negatives are exchanged."
        yield Verdict("teacher", WATCH, finding, change, "teacher prefers negatives",
                      "labels-do-not-fit", evidence)  # fmt: skip


# Rank correlation of a teacher's cosines with common words that is none, and fewest values of the
# share of common words.
FEWEST_SHARES = 8


def taught_embeddings(
    pairs: int, words: int, teacher: float, nearest: float = 0.0, rows: int = 0
) -> Iterator[Verdict]:
    """Judge whether a teacher's embeddings belong to the texts beside them.

    Args:
        pairs: pairs of texts that were compared.
        words: different shares of common words among them.
        teacher: rank correlation of these shares with the teacher's cosines.
        nearest: mean share of texts that the teacher has farther from a text than the one with most
            words of it.
        rows: texts for which that was looked for.
    """
    if words < FEWEST_SHARES:
        return
    finding = (
        f"The rank correlation of a teacher's cosines with common words is {teacher:.2f}, over "
        f"{pairs:,} pairs of texts."
    )
    evidence = {"teacher": teacher, "pairs": float(pairs)}
    if abs(teacher) >= UNRELATED or is_above_chance(nearest, rows):
        yield Verdict("teacher", GOOD, finding, name="teacher fits", evidence=evidence)
        return
    finding += " The embeddings do not belong to the texts: they may be in another order."
    change = "Compute the teacher's embeddings after shuffling and filtering, in one map()."
    yield Verdict("teacher", WATCH, finding, change, "teacher of other texts",
                  "labels-do-not-fit", evidence)  # fmt: skip


# Share of rows that fit their neighbour and no other row; chance gives one in 18.
MANY_SHIFTED = 0.2


def shift(rows: int, before: float, after: float, own_rank: float = 0.0) -> Iterator[Verdict]:
    """Judge whether a column is shifted by a row.

    Args:
        rows: rows that were compared.
        before: share of rows whose second text fits the row before best.
        after: share of rows whose second text fits the row after best.
        own_rank: mean share of other rows that fit such a text less than its own row: sentences of
            a document paired with the next one, or turns of a dialogue, fit their own row as well.
    """
    share, neighbour = max((before, "before"), (after, "after"))
    if share < MANY_SHIFTED or is_above_chance(own_rank, round(share * rows)):
        return
    finding = (
        f"In {percent(share)} of {rows:,} rows the second text has more words in common with the "
        f"first text of the row {neighbour} than with that of its own row: columns are shifted "
        "against each other, from some row on."
    )
    change = "Look for a row that one column lacks, and join columns by an id instead of by place."
    evidence = {"share": share, "rows": float(rows)}
    yield Verdict("pairs", BAD, finding, change, "rows shifted", "loss-at-chance", evidence)
