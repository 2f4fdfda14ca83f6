"""Whether the two texts of a row go together, on tables made for it."""

import math
import random

import numpy as np
import pytest

from gradlab.data import cooccurrence
from gradlab.data.partner_verdicts import partners
from gradlab.data.partners import partner_numbers
from gradlab.diagnosis.foretold_measurements import foretold_gold, foretold_labels

COUNT = 200


def table(seed: int = 0) -> tuple[list[str], list[str]]:
    """Pairs of two vocabularies: word k of the first stands for word k of the second."""
    draw = random.Random(seed)
    rows = [[draw.randrange(8) + 8 * slot for slot in range(4)] for _ in range(COUNT)]
    return tuple(
        [" ".join(f"{letter}{'abcdefgh'[n % 8]}{'wxyz'[n // 8]}" for n in row) for row in rows]
        for letter in ("k", "t")
    )  # type: ignore[return-value]


def mixed(texts: list[str], rows: range) -> list[str]:
    """Return texts of which some rows have exchanged theirs."""
    places = [*rows]
    moved = dict(zip(places, places[7:] + places[:7], strict=True))
    return [texts[moved.get(place, place)] for place in range(len(texts))]


def test_pairs_in_other_words_are_told() -> None:
    numbers = partner_numbers(*table())
    assert numbers["told"] > 0.95
    assert numbers["strangers"] < 0.02
    assert partners(**numbers) is None


@pytest.mark.parametrize("same_words", [True, False])
def test_pairs_that_were_mixed_are_unrelated(same_words: bool) -> None:
    first, second = table()
    numbers = partner_numbers(first, mixed(first if same_words else second, range(COUNT)))
    verdict = partners(**numbers)
    assert verdict is not None
    assert verdict.name == "texts of other rows"


def test_a_column_that_was_sorted_by_itself_is_named() -> None:
    first, second = table()
    verdict = partners(**partner_numbers(first, sorted(second)))
    assert verdict is not None
    assert "second column is sorted" in verdict.finding
    order = np.argsort(second)
    rows = ([column[place] for place in order] for column in (first, second))
    assert partners(**partner_numbers(*rows)) is None


@pytest.mark.parametrize("same_words", [True, False])
def test_a_part_of_the_pairs_is_unrelated(same_words: bool) -> None:
    first, second = table()
    numbers = partner_numbers(first, mixed(first if same_words else second, range(0, COUNT, 2)))
    verdict = partners(**numbers)
    assert verdict is not None
    assert verdict.name == "part of the pairs unrelated"


def test_positives_in_the_third_column_are_named() -> None:
    first, second = table()
    verdict = partners(**partner_numbers(first, mixed(second, range(COUNT)), second))
    assert verdict is not None
    assert verdict.name == "positives and negatives exchanged"


def test_right_documents_of_an_evaluator_are_asked_of_the_words_of_training() -> None:
    learnt = dict(zip(("first", "second"), table(), strict=True))
    queries, documents = table(seed=1)
    right = [{row} for row in range(COUNT)]
    numbers = foretold_gold([learnt], [[], [], []], [], (queries, documents, right))
    assert numbers["mutual"] > COUNT / 2
    assert numbers["right"] > 0.8
    later = [{row + 1} for row in range(COUNT)]
    numbers = foretold_gold([learnt], [[], [], []], [], (queries, documents, later))
    assert numbers["right"] < 0.05
    assert numbers["beside"] > 0.8


def test_partners_of_a_category_are_named() -> None:
    first, second = table()
    draw, groups = random.Random(2), dict[int, list[str]]()
    kinds = [ord(text[1]) % 3 for text in first]  # the first letter of the first word
    for kind, text in zip(kinds, second, strict=True):
        groups.setdefault(kind, []).append(text)
    firsts = [f"kind{kind} {text}" for kind, text in zip(kinds, first, strict=True)]
    seconds = [f"{'abc'[kind]}sort {draw.choice(groups[kind])}" for kind in kinds]
    drawn = draw.sample(first, COUNT)
    verdict = partners(
        **partner_numbers([f"k{k} {t}" for k, t in zip(kinds, drawn, strict=True)], seconds)
    )
    assert verdict is not None
    assert verdict.name == "positives of a group"
    assert partners(**partner_numbers(firsts, second)) is None


def test_few_rows_tell_nothing() -> None:
    first, second = table()
    assert partner_numbers(first[:40], second[:40]) == {}
    assert foretold_labels([first[:40], second[:40]], [0.0, 1.0] * 20) == {}


def test_labels_of_pairs_in_other_words_are_told_from_their_reverse_and_from_others() -> None:
    first, second = table()
    labels = [float(row % 2) for row in range(COUNT)]
    half = mixed(second, range(0, COUNT, 2))
    assert foretold_labels([first, half], labels)["fitting"] > 0.6
    assert foretold_labels([first, half], [1 - label for label in labels])["fitting"] < -0.6
    shuffled = random.Random(1).sample(labels, COUNT)
    assert abs(foretold_labels([first, half], shuffled)["fitting"]) < 0.15


def test_gold_of_an_evaluator_is_asked_of_the_words_of_training() -> None:
    learnt = dict(zip(("first", "second"), table(), strict=True))
    first, second = table(seed=1)
    half = mixed(second, range(0, COUNT, 2))
    labels = [float(row % 2) for row in range(COUNT)]
    assert foretold_gold([learnt], [first, half, labels], [])["fitting"] > 0.6
    triplets = list(zip(first, second, mixed(second, range(COUNT)), strict=True))
    assert foretold_gold([learnt], [[], [], []], triplets)["contrary"] < 0.05
    exchanged = [(anchor, wrong, right) for anchor, right, wrong in triplets]
    assert foretold_gold([learnt], [[], [], []], exchanged)["contrary"] > 0.95


def test_scores_are_those_of_a_loop_over_words() -> None:
    """Against the definition, word by word, with words that no learnt row has and empty texts."""
    draw = random.Random(1)
    first, second = (
        [{f"{letter}{draw.randrange(12)}" for _ in range(draw.randrange(5))} for _ in range(60)]
        for letter in ("a", "b")
    )

    def probability(word: str, text: set[str]) -> float:
        """Mean over the words of a text of how many learnt rows that have it have the word too."""
        shares = []
        for own in text:
            rows = [row for row in range(40) if own in first[row]]
            shares.append(sum(word in second[row] for row in rows) / max(len(rows), 1))
        return sum(shares) / max(len(text), 1)

    def gain(text: set[str], candidate: set[str]) -> float:
        total = 0.0
        for word in candidate:
            usual = (sum(word in second[row] for row in range(40)) + 1) / 41
            total += math.log((0.1 * usual + 0.9 * probability(word, text)) / usual)
        return total / max(len(candidate), 1)

    expected = [[gain(text, candidate) for candidate in second[40:]] for text in first[40:]]
    learnt = (first[:40], second[:40])
    scores = cooccurrence.foretold_scores(learnt, first[40:], second[40:])
    np.testing.assert_allclose(scores, expected, atol=2e-9)
