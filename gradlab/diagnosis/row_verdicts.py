"""Do labels, teachers and neighbouring rows agree with the words of a row?

Arguments are measured by the functions of the same names in `gradlab.diagnosis.row_measurements`.
"""

from __future__ import annotations

from collections.abc import Iterator

from gradlab.numbers import percent
from gradlab.verdict import BAD, GOOD, WATCH, Verdict

# Rank correlation with common words below which labels are reversed, if that with cosines is below
# 0 as well; fewest rows that say so.
REVERSED, ENOUGH_ROWS = -0.3, 32


def agreement(rows: int, words: float, embedded: int, embeddings: float) -> Iterator[Verdict]:
    """Judge whether labels rise with the likeness of texts.

    Words and embeddings must both say no: an untuned encoder and a paraphrase mislead either.

    Args:
        rows: rows whose words were compared.
        words: rank correlation of labels with the share of common words.
        embedded: rows whose embeddings were compared.
        embeddings: rank correlation of labels with the cosines of the encoder as it is.
    """
    evidence = {"words": words, "embeddings": embeddings, "rows": float(rows)}
    if rows < ENOUGH_ROWS or abs(words) < -REVERSED or not embedded:
        return
    finding = (
        f"Over {rows:,} rows the rank correlation of the labels with common words is {words:.2f}, "
        f"and with the cosines of the encoder {embeddings:.2f}."
    )
    if words < 0 and embeddings < 0:
        finding += (
            " The labels fall where texts are more alike: they are reversed, as distances are."
        )
        change = "Give a higher label to texts that are more alike: 1 - label, or -label."
        yield Verdict("agreement", BAD, finding, change, "labels reversed", "labels-do-not-fit",
                      evidence)  # fmt: skip
    elif words > 0 and embeddings > 0:
        yield Verdict("agreement", GOOD, finding, name="labels agree", evidence=evidence)


# Share of rows in which a teacher may prefer the negative.
MOST_PREFERRED = 0.6


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
        finding += " So the teacher's scores are in the opposite order of the columns."
        yield Verdict("teacher", BAD, finding, change, "teacher reversed", "labels-do-not-fit",
                      evidence)  # fmt: skip
    else:
        change = f"{change} Or the columns of positives and negatives are exchanged."
        yield Verdict("teacher", WATCH, finding, change, "teacher prefers negatives",
                      "labels-do-not-fit", evidence)  # fmt: skip


# Rank correlation of a teacher's cosines with common words that is none, and fewest values of the
# share of common words.
UNRELATED, FEWEST_SHARES = 0.05, 8


def taught_embeddings(pairs: int, words: int, teacher: float) -> Iterator[Verdict]:
    """Judge whether a teacher's embeddings belong to the texts beside them.

    Args:
        pairs: pairs of texts that were compared.
        words: different shares of common words among them.
        teacher: rank correlation of these shares with the teacher's cosines.
    """
    if words < FEWEST_SHARES:
        return
    finding = (
        f"The rank correlation of a teacher's cosines with common words is {teacher:.2f}, over "
        f"{pairs:,} pairs of texts."
    )
    evidence = {"teacher": teacher, "pairs": float(pairs)}
    if teacher >= UNRELATED:
        yield Verdict("teacher", GOOD, finding, name="teacher fits", evidence=evidence)
        return
    finding += " The embeddings do not belong to the texts: they may be in another order."
    change = "Compute the teacher's embeddings after shuffling and filtering, in one map()."
    yield Verdict("teacher", WATCH, finding, change, "teacher of other texts",
                  "labels-do-not-fit", evidence)  # fmt: skip


# Share of rows that fit their neighbour and no other row; chance gives one in 18.
MANY_SHIFTED = 0.2


def shift(rows: int, before: float, after: float) -> Iterator[Verdict]:
    """Judge whether a column is shifted by a row.

    Args:
        rows: rows that were compared.
        before: share of rows whose second text fits the row before best.
        after: share of rows whose second text fits the row after best.
    """
    share, neighbour = max((before, "before"), (after, "after"))
    if share < MANY_SHIFTED:
        return
    finding = (
        f"In {percent(share)} of {rows:,} rows the second text has more words in common with the "
        f"first text of the row {neighbour} than with that of its own row: columns are shifted "
        "against each other, from some row on."
    )
    change = "Look for a row that one column lacks, and join columns by an id instead of by place."
    evidence = {"share": share, "rows": float(rows)}
    yield Verdict("pairs", BAD, finding, change, "rows shifted", "loss-at-chance", evidence)
