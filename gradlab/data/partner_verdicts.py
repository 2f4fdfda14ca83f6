"""Do the two texts of a row belong together, in a table or in the data set of a trainer?"""

from __future__ import annotations

import math

from gradlab.numbers import percent
from gradlab.verdict import BAD, WATCH, Verdict

# Fewest rows that say so; standard errors above a half from which on texts of a row go together;
# words of a text that stand in other rows as well, from which on these would tell: sound tables
# whose words do reach .93 (in 900), unrelated ones .5 to .53. Such words below which a partner that
# is not told may be right all the same: codes, formulas and names have 0 to .4.
ENOUGH_ROWS, ABOVE_CHANCE, ENOUGH_WORDS, SOME_WORDS = 96, 4.0, 2.0, 1.0
# Shares of rows whose partner is a stranger and a match, of a table of both; how many times as many
# rows are between them at most: by chance four fifths as many as strangers, and more where words
# tell all rows a little.
SOME_STRANGERS, SOME_MATCHES, FEW_BETWEEN = 0.12, 0.12, 1.25
# Mean ranks of partners, among all and among rows with the same telling word, below which they are
# those of a category: faulty tables have .83 and .57, sound ones at least .91 or .81. Below the
# least one, groups would be nearly all rows.
LOOSELY_TOLD, ANY_OF_GROUP, HARDLY_TOLD = 0.87, 0.65, 0.68
# What the third column reaches where it holds the partners: .95 and more.
FITS, SYMPTOM = 0.85, "loss-at-chance"
REPEATS = 0.5  # share of an anchor's words from which on a text repeats it
CHANGE = (
    "Print some rows, and join columns by an id in place of their order; do not sort, shuffle or "
    "filter one column without the other."
)


def partners(
    rows: int, told: float, strangers: float, matched: float, between: float, recurring: float,
    sorted_column: int, third: float = 0.5, within: float = 1.0, repetition: float = 0.0,
) -> Verdict | None:  # fmt: skip
    """Judge whether the second text of a row belongs to its first.

    For the arguments see `gradlab.data.partners.partner_numbers`.
    """
    if rows < ENOUGH_ROWS:
        return None
    if (told - 0.5) * math.sqrt(12 * rows) < ABOVE_CHANCE:
        finding = (
            f"The texts of a row have no more to do with each other than those of different rows: "
            f"by words that both have, or that go together in other rows, a row's own partner fits "
            f"better than {told:.0%} of others, and chance gives 50%"
        )
        evidence = {"told": told, "rows": float(rows)}
        if third >= FITS:
            finding += (
                ". The texts of the third column, taken for hard negatives, do: they fit better "
                f"than {third:.0%}. Positives and negatives are exchanged, or another column "
                "stands between the texts of a pair."
            )
            change = "Order the columns: anchor, positive, then negatives (select_columns)."
            # Negatives may repeat their anchor but for some words, beside positives in other words.
            grade = BAD if repetition < REPEATS else WATCH
            return Verdict("pairs", grade, finding, change, "positives and negatives exchanged",
                           SYMPTOM, evidence | {"third": third})  # fmt: skip
        if recurring < ENOUGH_WORDS:
            return None
        finding += ". The pairs seem wrong: mixed, shifted or shuffled."
        if sorted_column:
            column = "second" if sorted_column > 1 else "first"
            finding += f" Indeed the {column} column is sorted, while the other one is not."
        return Verdict("pairs", WATCH, finding, CHANGE, "texts of other rows", SYMPTOM, evidence)
    if recurring < SOME_WORDS:
        return None
    if (
        min(strangers / SOME_STRANGERS, matched / SOME_MATCHES) >= 1
        and between <= FEW_BETWEEN * strangers
    ):
        finding = (
            f"In about {percent(min(1 - matched, 2 * strangers))} of the rows the second text has "
            "nothing to do with the first, and in the others it fits: by words that both have, or "
            f"that go together in other rows, {percent(matched)} of the partners fit better than "
            "nearly all others, and the rest as by chance. These positives are strangers."
        )
        change = (
            "Leave out pairs that do not belong together (label 0), rows without an answer, and "
            "rows that were joined or shifted wrongly; read some of them."
        )
        return Verdict("pairs", WATCH, finding, change, "part of the pairs unrelated",
                       "false-negatives", {"strangers": strangers, "matched": matched})  # fmt: skip
    if HARDLY_TOLD < told < LOOSELY_TOLD and within < ANY_OF_GROUP:
        finding = (
            f"The second text of a row fits any row of a group, about {percent(2 - 2 * told)} of "
            "all: it goes with the word that tells its group, and among the rows with this word it "
            f"fits better than {within:.0%} of the partners, where chance gives 50%. The positive "
            "is of the same category or key and not the row's own, and other rows of the group are "
            "false negatives in a batch."
        )
        change = (
            "Join on a key that is unique, and take the text that answers this row; or keep rows "
            "of a group out of each other's batches."
        )
        return Verdict("pairs", WATCH, finding, change, "positives of a group", "false-negatives",
                       {"told": told, "within": within})  # fmt: skip
    return None
