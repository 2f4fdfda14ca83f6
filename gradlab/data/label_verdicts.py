"""Do the labels of pairs go with texts whose words belong together without being equal?"""

from __future__ import annotations

import math
from collections.abc import Iterator

from gradlab.verdict import BAD, WATCH, Verdict

SYMPTOM = "labels-do-not-fit"
# Mean share of other partners that are foretold less, between which words tell pairs apart: below,
# they foretell nothing; above, all pairs belong together, whatever their labels mean.
TELLS, ALL_TOGETHER = 0.6, 0.97
# Rank correlation of labels that fall, and standard errors by which they do; standard errors within
# which there is no correlation; rank correlation with common words that is one. Where words tell
# pairs apart, sound labels have a correlation of .46 and more with what they foretell, reversed
# ones -.36 and less, and those of other rows up to .1 (148 sound tables, 50 faulty ones).
FALLS, CLEARLY, NO_RELATION, RELATED = -0.3, 3.5, 2.0, 0.3
ENOUGH_ROWS = 96  # that say so


def labels_foretold(
    rows: int, distinct: int, words: float, foretold: float, fitting: float
) -> Iterator[Verdict]:
    """Judge whether labels rise with how far the words of one text foretell those of the other.

    Args:
        rows: rows that were compared.
        distinct: number of different labels.
        words: rank correlation of labels with the share of common words.
        foretold: mean share of other rows whose second text is foretold less.
        fitting: rank correlation of labels with these shares.
    """
    if rows < ENOUGH_ROWS or distinct < 2 or foretold < TELLS or abs(words) >= RELATED:
        return
    evidence = {"foretold": foretold, "fitting": fitting}
    finding = (
        f"Learnt from other rows, the words of a text foretell those of its partner better than "
        f"those of {foretold:.0%} of other partners, and over {rows:,} rows the labels have a rank "
        f"correlation of {fitting:.2f} with that"
    )
    if labels_fall(fitting, rows):
        finding += (
            ": the labels fall where texts belong together. They are reversed, as distances and "
            "places in a ranking are, or 1 stands for pairs that differ."
        )
        change = "Give a higher label to texts that are more alike: 1 - label, or -label."
        yield Verdict("agreement", BAD, finding, change, "labels reversed", SYMPTOM, evidence)
    elif foretold <= ALL_TOGETHER and are_unrelated(fitting, rows):
        finding += (
            f", with common words {words:.2f}: the labels have no relation to the texts. They may "
            "belong to other rows, or say something else than how alike two texts are, such as a "
            "price, votes or certainty."
        )
        change = (
            "Check that labels were not sorted or shuffled without the texts, and what their "
            "column says."
        )
        yield Verdict("labels", WATCH, finding, change, "labels unrelated", SYMPTOM, evidence)


def labels_fall(fitting: float, count: int) -> bool:
    """Whether a rank correlation over so many pairs is clearly negative."""
    return fitting <= FALLS and fitting * math.sqrt(count - 1) <= -CLEARLY


def are_unrelated(fitting: float, count: int) -> bool:
    """Whether a rank correlation over so many pairs may be 0."""
    return abs(fitting) * math.sqrt(count - 1) < NO_RELATION
