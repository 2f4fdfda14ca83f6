"""Do labels and gold go with texts whose words belong together without being equal?

Arguments are measured by `gradlab.diagnosis.foretold_measurements`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from gradlab.numbers import percent
from gradlab.verdict import BAD, WATCH, Verdict

SYMPTOM, OF_SCORE = "labels-do-not-fit", "score-does-not-rise"
# Mean share of other partners that are foretold less, between which words tell pairs apart: below,
# they foretell nothing; above, all pairs belong together, whatever their labels mean.
TELLS, ALL_TOGETHER = 0.6, 0.97
# Rank correlation of labels that fall, and standard errors by which they do; standard errors within
# which there is no correlation; rank correlation with common words that is one. Where words tell
# pairs apart, sound labels have a correlation of .46 and more with what they foretell, reversed
# ones -.36 and less, and those of other rows up to .1 (148 sound tables, 50 faulty ones).
FALLS, CLEARLY, NO_RELATION, RELATED = -0.3, 3.5, 2.0, 0.3
# Fewest rows and fewest pairs of an evaluator that say so.
ENOUGH_ROWS, ENOUGH_GOLD = 96, 32
# Share of triplets whose negative is foretold more: up to .08 in sound ones, .97 and more where
# columns are exchanged.
MOST_CONTRARY = 0.8
# Fewest queries that a document finds in turn, and share of them whose document may be right where
# gold is of other texts: sound gold has .56 and more, wrong ids have 0; share of those beside it
# where ids are shifted.
FEWEST_MUTUAL, FEW_RIGHT, SHIFTED = 12, 0.2, 0.6


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
    if _falls(fitting, rows):
        finding += (
            ": the labels fall where texts belong together. They are reversed, as distances and "
            "places in a ranking are, or 1 stands for pairs that differ."
        )
        change = "Give a higher label to texts that are more alike: 1 - label, or -label."
        yield Verdict("agreement", BAD, finding, change, "labels reversed", SYMPTOM, evidence)
    elif foretold <= ALL_TOGETHER and _is_none(fitting, rows):
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


def gold_foretold(answer: Mapping[str, Any]) -> Iterator[Verdict]:
    """Judge whether an evaluator's gold goes with what the words of training foretell.

    Args:
        answer: ``name`` of the evaluator, ``gold``, the number of its scores, and what
            `gradlab.diagnosis.foretold_measurements.foretold_gold` returns.
    """
    name, pairs = answer["name"], int(answer["gold"])
    if answer.get("triplets", 0) >= ENOUGH_GOLD and answer["contrary"] >= MOST_CONTRARY:
        finding = (
            f"In {percent(answer['contrary'])} of the triplets of {name!r}, by the words that go "
            "together in training, the negative belongs to the anchor rather than the positive: "
            "positives and negatives of the evaluator are exchanged, and its accuracy falls as the "
            "encoder learns."
        )
        change = "Check the order of the evaluator's columns: anchors, positives, negatives."
        yield Verdict("evaluation", BAD, finding, change, "gold reversed", OF_SCORE,
                      {"contrary": answer["contrary"]})  # fmt: skip
    mutual, right = answer.get("mutual", 0), answer.get("right", 1.0)
    if mutual >= FEWEST_MUTUAL and right <= FEW_RIGHT:
        finding = (
            f"By the words that go together in training, {mutual:.0f} queries of {name!r} and a "
            f"document each belong together, and of these documents {percent(right)} are the right "
            "ones: ids of relevant documents, or translations, belong to other texts"
        )
        finding += (
            ". They stand next to them: ids are shifted by one, as where one file counts from 0 "
            "and the other from 1."
            if answer["beside"] >= SHIFTED
            else ", and are in another order."
        )
        change = "Join queries, relevant documents and the corpus by their ids, not by their order."
        yield Verdict("evaluation", BAD, finding, change, "gold unrelated", OF_SCORE,
                      {"right": right, "mutual": float(mutual)})  # fmt: skip
    foretold, fitting = answer.get("foretold", 0.5), answer.get("fitting", 0.0)
    if pairs < ENOUGH_GOLD or answer["commonest"] == 1 or foretold < TELLS:
        return
    finding = (
        f"By the words that go together in training, some pairs of {name!r} belong together and "
        f"others do not, and over {pairs:,} pairs the gold scores have a rank correlation of "
        f"{fitting:.2f} with that"
    )
    evidence = {"foretold": foretold, "fitting": fitting}
    if _falls(fitting, pairs):
        finding += ": they fall where texts belong together, as distances do."
        change = "Give a higher gold score to pairs that are more alike."
        yield Verdict("evaluation", BAD, finding, change, "gold reversed", OF_SCORE, evidence)
    elif foretold <= ALL_TOGETHER and _is_none(fitting, pairs):
        finding += (
            ": the gold scores have no relation to the texts, and seem to be those of other pairs, "
            "in another order. The evaluator's correlation says nothing."
        )
        change = "Join gold scores and pairs by an id; look where one of them was sorted."
        yield Verdict("evaluation", WATCH, finding, change, "gold unrelated", OF_SCORE, evidence)


def _falls(fitting: float, count: int) -> bool:
    return fitting <= FALLS and fitting * math.sqrt(count - 1) <= -CLEARLY


def _is_none(fitting: float, count: int) -> bool:
    return abs(fitting) * math.sqrt(count - 1) < NO_RELATION
