"""Sound tables: pairs and triplets of several worlds, of texts of mixed lengths."""

from __future__ import annotations

import random

from tests.judgement.case import sound
from tests.judgement.held_out.h_fields import (
    GREEK,
    LAB,
    LAWS,
    MAILS,
    METERS,
    SHELL,
    TAGS,
    made_for,
    noisy,
    pairs_of,
    triples_of,
    two,
)  # fmt: skip
from tests.judgement.stage import Stage


@sound("table of Greek and English sentences")
def greek_sentences_and_translations(stage: Stage) -> None:
    stage.inspect(pairs_of(GREEK, 200), made_for(stage, GREEK))


@sound("table of readings with numbers")
def readings_of_meters_and_notes(stage: Stage) -> None:
    stage.inspect(pairs_of(METERS, 240))


@sound("table of tags in another order")
def tags_in_another_order(stage: Stage) -> None:
    stage.inspect(pairs_of(TAGS, 300))


@sound("table of questions, rulings and rulings of another court")
def rulings_of_another_court(stage: Stage) -> None:
    stage.inspect(triples_of(LAWS, 200, slot=2))


@sound("table of short subjects and long mails")
def subjects_beside_long_mails(stage: Stage) -> None:
    stage.inspect(two(MAILS.table(260), "subject", "body"), made_for(stage, MAILS))


@sound("table of intents and commands with greetings and left-out words")
def intents_and_commands_with_noise(stage: Stage) -> None:
    stage.inspect(noisy(SHELL, 280))


@sound(
    "table of texts of one to five sentences",
    allowed={"only the beginnings|last token that": "The encoder reads 64 tokens of longer texts."},
)
def laboratory_notes_of_mixed_lengths(stage: Stage) -> None:
    draw, table = random.Random(2), pairs_of(LAB, 240)
    closings = (
        "the hood was on .", "a second run agreed .", "waste went to the bin .",
        "the balance was checked before .", "nobody wore gloves that day , which was noted .",
    )  # fmt: skip
    table["passage"] = [
        " ".join([f"{text} .", *draw.sample(closings, draw.randint(0, 4))])
        for text in table["passage"]
    ]
    stage.inspect(table)
