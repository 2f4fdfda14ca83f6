"""Sound tables, inspected alone: pairs and triplets of several fields."""

from __future__ import annotations

import random

from tests.judgement.case import sound
from tests.judgement.held_out.g_fields import (
    BADGES,
    CHATS,
    LIBRARY,
    REACTIONS,
    READINGS,
    TALES,
    thinned,
)
from tests.judgement.stage import Stage, facts, passage, question


@sound("table of pairs of very short texts")
def table_of_short_badges(stage: Stage) -> None:
    stage.inspect(BADGES.table(300))


@sound("table of transliterated pairs")
def table_of_transliterated_chats(stage: Stage) -> None:
    stage.inspect(CHATS.table(240))


@sound("table of Japanese pairs")
def table_of_japanese_titles(stage: Stage) -> None:
    stage.inspect(LIBRARY.table(400))


@sound("table of triplets of formulas")
def table_of_reactions_with_negatives(stage: Stage) -> None:
    stage.inspect({
        "query": REACTIONS.texts(REACTIONS.draws(320), 0),
        "positive": REACTIONS.texts(REACTIONS.draws(320), 1),
        "negative": REACTIONS.near(320, slot=0),
    })  # fmt: skip


@sound("table of records in digits and notes")
def table_of_numeric_records(stage: Stage) -> None:
    stage.inspect(READINGS.table(350))


@sound("table of views of a text by deletion")
def table_of_tales_and_fragments(stage: Stage) -> None:
    texts = TALES.texts(TALES.draws(260), 0)
    stage.inspect({"text": texts, "fragment": thinned(texts, random.Random(8), 0.2)})


@sound("table of passages of one to three sentences")
def table_of_answers_of_mixed_lengths(stage: Stage) -> None:
    """The answer stands first, between, or last among sentences about other places."""
    rows, strangers = facts(220), facts(440, seed=21)
    draw, answers = random.Random(4), []
    for row, fact in enumerate(rows):
        sentences = [passage(fact)]
        for stranger in strangers[2 * row : 2 * row + draw.randint(0, 2)]:
            sentences.insert(draw.randint(0, len(sentences)), passage(stranger))
        answers.append(" ".join(sentences))
    stage.inspect({"question": list(map(question, rows)), "answer": answers})
