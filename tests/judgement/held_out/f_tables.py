"""Sound tables of texts: pairs and triplets, short and long, noisy, in several scripts."""

from __future__ import annotations

import random

from tests.judgement.case import sound
from tests.judgement.held_out.f_fields import (
    BIRDS,
    JOBS,
    MAILS,
    PATENTS,
    QUERIES,
    RUSSIAN,
    SENSORS,
    TICKETS,
    diaries,
    model_of,
    rambling,
)
from tests.judgement.stage import Stage


@sound("table of titles and long claims")
def table_of_patents_with_long_claims(stage: Stage) -> None:
    stage.inspect(PATENTS.table(240), model_of(stage, PATENTS))


@sound("table of questions, statements and near misses")
def table_of_statements_with_near_misses_anew(stage: Stage) -> None:
    table = QUERIES.table(300) | {"negative": QUERIES.near(300, slot=2)}
    stage.inspect(table, model_of(stage, QUERIES))


@sound("table in Cyrillic script")
def table_of_russian_questions_and_answers(stage: Stage) -> None:
    stage.inspect(RUSSIAN.table(200), model_of(stage, RUSSIAN))


@sound("table of mails with asides before and after")
def table_of_mails_with_asides_anew(stage: Stage) -> None:
    table = MAILS.table(260)
    table["body"] = rambling(table["body"], seed=3, most=2)
    stage.inspect(table, model_of(stage, MAILS))


@sound("table of readings in numbers and signs")
def table_of_readings_and_remarks(stage: Stage) -> None:
    stage.inspect(SENSORS.table(320), model_of(stage, SENSORS))


@sound("table of sentences and entries with several of them")
def table_of_diaries_with_several_sentences(stage: Stage) -> None:
    stage.inspect(diaries(BIRDS, 180), model_of(stage, BIRDS))


@sound("table of tickets of two kinds, short and long, in random order")
def table_of_short_and_long_tickets(stage: Stage) -> None:
    tickets, postings = TICKETS.table(160), JOBS.table(120)
    rows = [*zip(*tickets.values(), strict=True), *zip(*postings.values(), strict=True)]
    random.Random(6).shuffle(rows)
    short, long = zip(*rows, strict=True)
    table = {"title": list(short), "text": rambling(long, seed=8)}
    stage.inspect(table, model_of(stage, TICKETS, JOBS))
