"""Does the gold of evaluators go with texts whose words belong together without being equal?

Arguments are measured by `gradlab.diagnosis.foretold_measurements`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from gradlab.data.label_verdicts import ALL_TOGETHER, TELLS, are_unrelated, labels_fall
from gradlab.data.partner_verdicts import REPEATS
from gradlab.numbers import percent
from gradlab.verdict import BAD, WATCH, Verdict

OF_SCORE = "score-does-not-rise"
ENOUGH_GOLD = 32  # pairs of an evaluator that say so
# Share of triplets whose negative is foretold more: up to .08 in sound ones, .97 and more where
# columns are exchanged.
MOST_CONTRARY = 0.8
# Fewest queries that a document finds in turn, and shares of them whose document may be right where
# ids are shifted, and where gold is of other texts: wrong ids have 0, and questions that several
# documents fit alike .16; share of those beside it where ids are shifted.
FEWEST_MUTUAL, FEW_RIGHT, BY_CHANCE, SHIFTED = 12, 0.2, 0.08, 0.6
# Share of documents beside right ones, or in their place, that are right for another query.
RIGHT_FOR_ANOTHER = 0.5
IS_ANCHOR = 0.95  # share of the words of an anchor at which a negative is the anchor


def are_edited(answer: Mapping[str, Any], belong: float) -> bool:
    """Return whether negatives repeat their anchors but for some words, beside positives that fit.

    Args:
        answer: ``repetition`` and ``own_rank`` of `gradlab.data.partners.repetitions`.
        belong: rank from which on positives belong to their anchors.
    """
    repeats = REPEATS <= answer.get("repetition", 0.0) < IS_ANCHOR
    return repeats and answer.get("own_rank", 0.0) >= belong


def gold_foretold(answer: Mapping[str, Any]) -> Iterator[Verdict]:
    """Judge whether an evaluator's gold goes with what the words of training foretell.

    Args:
        answer: ``name`` of the evaluator, ``gold``, the number of its scores, and what
            `gradlab.diagnosis.foretold_measurements.foretold_gold` returns.
    """
    name, pairs = answer["name"], int(answer["gold"])
    is_contrary = answer.get("contrary", 0.0) >= MOST_CONTRARY and not are_edited(answer, TELLS)
    if answer.get("triplets", 0) >= ENOUGH_GOLD and is_contrary:
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
    is_shifted = answer.get("beside", 0.0) >= SHIFTED
    if mutual >= FEWEST_MUTUAL and right <= (FEW_RIGHT if is_shifted else BY_CHANCE):
        finding = (
            f"By the words that go together in training, {mutual:.0f} queries of {name!r} and a "
            f"document each belong together, and of these documents {percent(right)} are the right "
            "ones: ids of relevant documents, or translations, belong to other texts"
        )
        finding += (
            ". They stand next to them: ids are shifted by one, as where one file counts from 0 "
            "and the other from 1."
            if is_shifted
            else ", and are in another order."
        )
        change = "Join queries, relevant documents and the corpus by their ids, not by their order."
        # Documents that are right for no query may be hard negatives with more of its words.
        grade = BAD if answer.get("of_others", 1.0) >= RIGHT_FOR_ANOTHER else WATCH
        yield Verdict("evaluation", grade, finding, change, "gold unrelated", OF_SCORE,
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
    if labels_fall(fitting, pairs):
        finding += ": they fall where texts belong together, as distances do."
        change = "Give a higher gold score to pairs that are more alike."
        yield Verdict("evaluation", BAD, finding, change, "gold reversed", OF_SCORE, evidence)
    elif foretold <= ALL_TOGETHER and are_unrelated(fitting, pairs):
        finding += (
            ": the gold scores have no relation to the texts, and seem to be those of other pairs, "
            "in another order. The evaluator's correlation says nothing."
        )
        change = "Join gold scores and pairs by an id; look where one of them was sorted."
        yield Verdict("evaluation", WATCH, finding, change, "gold unrelated", OF_SCORE, evidence)
