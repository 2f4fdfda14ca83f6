"""Sound tables to inspect: pairs and triplets of several worlds."""

from __future__ import annotations

from tests.judgement.case import sound
from tests.judgement.first.regular_and_loose_fields import (
    ANIMALS,
    FLAWS,
    MAILS,
    MATCHES,
    METERS,
    PLANTS,
    QUERIES,
    REACTIONS,
    SAGAS,
    SUMS,
    VACANCIES,
    triples,
)
from tests.judgement.stage import Stage


@sound("table of translations into two other scripts")
def table_of_sentences_in_three_scripts(stage: Stage) -> None:
    columns = ANIMALS.table(300)
    stage.inspect({"english": columns["english"], "russian": columns["russian"]})


@sound(
    "table of short blurbs and long chapters that repeat themselves",
    allowed={"only the beginnings|last token that": "The encoder reads 64 tokens of longer texts."},
)
def table_of_blurbs_and_long_chapters(stage: Stage) -> None:
    stage.inspect(SAGAS.table(200))


@sound(
    "table of mails of mixed lengths with greetings in common",
    allowed={"only the beginnings|last token that": "The encoder reads 64 tokens of longer texts."},
)
def table_of_subjects_and_rambling_mails(stage: Stage) -> None:
    stage.inspect(MAILS.table(320))


@sound("table of sums in words and digits")
def table_of_sums_in_words_and_digits(stage: Stage) -> None:
    stage.inspect(SUMS.table(500))


@sound("table of triplets whose negatives differ in one fact")
def table_of_statements_with_near_misses(stage: Stage) -> None:
    stage.inspect(triples(QUERIES, 300, slot=1))


@sound("table of triplets with long anchors")
def table_of_rambling_complaints_with_misses(stage: Stage) -> None:
    stage.inspect(triples(PLANTS, 220, slot=1))


@sound("table of several kinds of texts, one after the other")
def table_of_three_worlds_in_sequence(stage: Stage) -> None:
    tables = [field.table(160) for field in (REACTIONS, VACANCIES, FLAWS)]
    stage.inspect({
        name: [text for table in tables for text in list(table.values())[at]]
        for at, name in enumerate(("anchor", "positive"))
    })  # fmt: skip


@sound("table of telegraphic records and hard negatives of another hour")
def table_of_meter_notes_with_other_hours(stage: Stage) -> None:
    stage.inspect(triples(METERS, 400, slot=3))


@sound(
    "table of one column, texts of mixed lengths without labels",
    allowed={"only the beginnings|last token that": "The encoder reads 64 tokens of longer texts."},
)
def table_of_match_reports_alone(stage: Stage) -> None:
    stage.inspect({"text": MATCHES.table(400)["report"]})
