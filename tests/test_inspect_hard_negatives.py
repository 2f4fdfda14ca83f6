"""False hard negatives are found by their words, sound ones are not accused.

On planted lists of made sentences.
"""

from __future__ import annotations

import random

import numpy as np
import pytest

pytest.importorskip("rensa")

import gradlab
from gradlab.errors import GradlabError
from gradlab.inspection.same_meaning import looks_like_a_positive, say_the_same
from gradlab.inspection.tables import EASY, FALSE, MATTERS, NEARER

COUNT = 120
WORDS = """\
miller painter teacher sailor farmer doctor baker tailor singer soldier
old young tall quiet famous clever lonely cheerful tired angry
Ghent Lyon Porto Turin Gdansk Bergen Aarhus Cork Graz Basel
bread paper copper linen honey timber salt glass leather wool
spring summer autumn winter March April May June July August"""
PEOPLE, ADJECTIVES, TOWNS, GOODS, TIMES = map(str.split, WORDS.splitlines())


def sentence(generator):
    town, second_town = generator.sample(TOWNS, 2)
    person, adjective, goods, time = (
        generator.choice(words) for words in (PEOPLE, ADJECTIVES, GOODS, TIMES)
    )
    number = generator.randint(10, 99)
    return (
        f"The {adjective} {person} from {town} was selling {number} bags of {goods} "
        f"to a friend in {second_town} every {time}."
    )


def exchanged(words, text, generator):
    """The text with another word of the list."""
    present = next(word for word in words if f" {word}" in text)
    return text.replace(present, generator.choice([word for word in words if word != present]), 1)


def less(text, share, generator):
    words = text.split()
    left_out = generator.sample(range(len(words)), round(share * len(words)))
    return " ".join(word for place, word in enumerate(words) if place not in left_out)


def roles(text):
    seller_town, friend_town = sorted((place for place in TOWNS if place in text), key=text.index)
    return (
        text.replace(seller_town, "#").replace(friend_town, seller_town).replace("#", friend_town)
    )


FALSE_ONES = {
    "less a fifth": lambda text, g: less(text, 0.2, g),
    "shuffled": lambda text, g: " ".join(g.sample(text.split(), len(text.split()))),
    "capitals and commas": lambda text, g: text.upper().replace(" ", ", ", 3),
    "longer": lambda text, g: "As everybody knows, " + text[0].lower() + text[1:],
    "clauses moved": lambda text, g: " ".join([*text.split()[-2:], *text.split()[:-2]]),
}
SOUND_ONES = {
    "another sentence": lambda text, g: sentence(g),
    "another name": lambda text, g: exchanged(TOWNS, text, g),
    "another adjective": lambda text, g: exchanged(ADJECTIVES, text, g),
    "another number": lambda text, g: text.replace(" bags", "0 bags"),
    "denied": lambda text, g: text.replace("was selling", "was not selling"),
    "denied in short": lambda text, g: text.replace("was selling", "wasn't selling"),
    "roles exchanged": lambda text, g: roles(text),
    "much longer": lambda text, g: text + " " + sentence(g),
    "much shorter": lambda text, g: " ".join(text.split()[:6]),
}


def inspected(seed, make_hard, **options):
    """An inspection of made pairs with hard negatives made of them; embeddings know nothing."""
    generator = random.Random(seed)
    anchors, positives = ([sentence(generator) for _ in range(COUNT)] for _ in range(2))
    hard = make_hard(anchors, positives, generator)
    rows = np.random.default_rng(seed).normal(size=(3, COUNT, 16))
    embeddings = dict(zip(("anchors", "positives", "hard_negatives"), rows, strict=True))
    texts = {"sentences": anchors, "positives": positives, "hard_negatives": hard}
    return gradlab.inspect(embeddings=embeddings, **texts, **options)


def judged(make, seed, of_positive=False):
    """Verdicts of hard negatives that are made of the anchors, or of the positives."""

    def make_hard(anchors, positives, generator):
        return [make(text, generator) for text in (positives if of_positive else anchors)]

    table = inspected(seed, make_hard).table("hard-negatives")
    assert sorted(table["row"]) == list(range(COUNT))
    return table["verdict"]


@pytest.mark.parametrize("kind", FALSE_ONES)
def test_false_ones_are_found(kind):
    assert (
        judged(FALSE_ONES[kind], 1, of_positive=kind in ("shuffled", "longer")) == FALSE
    ).mean() >= 0.95


@pytest.mark.parametrize("kind", SOUND_ONES)
def test_sound_ones_are_not_accused(kind):
    verdict = judged(SOUND_ONES[kind], 2)
    assert (verdict == FALSE).mean() <= 0.02
    assert (verdict == NEARER).any()  # what random embeddings say of half of them is no accusation


@pytest.mark.parametrize(
    ("text", "second_text", "same"),
    [
        ("Rome beat Ghent in the final", "Ghent beat Rome in the final", False),
        ("He quickly ran home again", "He ran quickly home again", True),
        ("New York", "New York City", False),
        ("Er kommt heute aus Berlin zurück", "Er kommt heute nicht aus Berlin zurück", False),
        ("one two three four", "one two three four five six", True),
        ("one two three four", "one two three four five six seven", False),
    ],
)
def test_what_says_the_same(text, second_text, same):
    assert say_the_same(text, second_text) is say_the_same(second_text, text) is same


def test_of_anchor_and_positive_the_one_with_more_common_words_decides():
    """All words of the positive are in this hard negative; the anchor's date is not."""
    anchor = "On 3 May the old bridge over the river was closed for repairs."
    positive = "The old bridge over the river was closed."
    assert say_the_same(positive, "On 4 May the old bridge over the river was closed.")
    assert not looks_like_a_positive(
        "On 4 May the old bridge over the river was closed for repairs.", anchor, positive
    )
    assert looks_like_a_positive("Then the old bridge over the river was closed.", anchor, positive)


def test_false_ones_that_no_batch_met_are_listed():
    def make_hard(anchors, positives, generator):
        hard = [sentence(generator) for _ in range(COUNT)]
        hard[7], hard[90] = positives[7].upper(), less(anchors[90], 0.2, generator)
        return hard

    inspection = inspected(3, make_hard, batch_size=8, batches=1)
    table = inspection.table("hard-negatives")
    assert len(table) <= 10
    assert sorted(table["row"][table["verdict"] == FALSE]) == [7, 90]
    assert inspection.numbers["hard_negatives_false"] == 2
    assert sum(inspection.numbers["hard_negatives"].values()) == 8
    assert {"7,7,1", "90,90,1"} <= set(inspection.masked())


def test_hard_negatives_of_anchors_without_push_were_met():
    """Hard negatives lie opposite to their anchors, where a triplet loss pushes none: too easy."""
    anchors = np.eye(20)
    embeddings = {"anchors": anchors, "positives": anchors, "hard_negatives": -anchors}
    inspection = gradlab.inspect(embeddings=embeddings, loss="triplet", batch_size=5)
    assert (inspection.table("hard-negatives")["verdict"] == EASY).sum() == 20
    assert inspection.numbers["hard_negatives"] == {FALSE: 0, NEARER: 0, MATTERS: 0, EASY: 20}
    assert "Of 20 hard negatives met in batches, 0 (0%) are pushed more" in inspection.headline()


@pytest.mark.parametrize(
    "loss", ["hardness(infonce, on=hard)", "pool(infonce, negatives=other+positive_same)"]
)
def test_whose_hard_negatives_they_are_is_known_as_in_training(loss):
    rows = np.random.default_rng(0).normal(size=(4, 12, 6))
    embeddings = {"anchors": rows[0], "positives": rows[1], "hard_negatives": [*rows[2:]]}
    inspection = gradlab.inspect(embeddings=embeddings, loss=loss, batch_size=12, batches=1)
    components = gradlab.components(
        loss, rows[0], rows[1], np.concatenate(rows[2:]), normalize=True, owners=[*range(12)] * 2
    )
    push = np.maximum(components.gradient_dissipation[:, None] * components.weight, 0)
    by_hand = push[:, components.columns["extra"]].sum() / push.sum()
    assert inspection.numbers["hard_negatives_share"] == pytest.approx(by_hand, rel=1e-5)


@pytest.mark.parametrize("name", ["sentence", "positive"])
def test_hard_negatives_do_not_take_the_place_of_another_column(name):
    texts = ["one two", "three four", "five six"]
    with pytest.raises(GradlabError, match="hard negatives cannot be called"):
        gradlab.inspect(
            sentences=texts, positives=texts, hard_negatives={name: texts}, embeddings=np.eye(9)
        )
