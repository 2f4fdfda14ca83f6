"""Sound tables of texts to inspect: pairs, triplets and single columns of many fields."""

from __future__ import annotations

from tests.judgement.case import sound
from tests.judgement.first.bodies import encoder, words_of
from tests.judgement.held_out.i_fields import (
    CHANTS,
    CHEMISTRY,
    GARDEN,
    GAUGES,
    MATCHES,
    RUSSIAN,
    SQL,
    TRACES,
    decoys,
    diary,
    noisy,
    single,
    small,
)
from tests.judgement.stage import Stage


@sound("table: long articles for short headlines")
def table_of_headlines_and_articles(stage: Stage) -> None:
    stage.inspect(MATCHES.table(240), small(stage, MATCHES))


@sound("table: two scripts")
def table_of_russian_and_english_anew(stage: Stage) -> None:
    stage.inspect(RUSSIAN.table(300), small(stage, RUSSIAN))


@sound("table: hard negatives of code")
def table_of_queries_with_decoys(stage: Stage) -> None:
    code = SQL.table(260)
    table = {"docstring": code["docstring"], "code": code["code"],
             "negative": decoys(SQL, 260, column=0)}  # fmt: skip
    stage.inspect(table, small(stage, SQL))


@sound("table: one column of texts")
def table_of_chants_alone(stage: Stage) -> None:
    stage.inspect({"text": single(CHANTS, 220)}, small(stage, CHANTS))


@sound("table: numbers and very short texts")
def table_of_gauge_readings(stage: Stage) -> None:
    stage.inspect(GAUGES.table(320), small(stage, GAUGES))


@sound("table: texts of one to four sentences")
def table_of_diary_pages(stage: Stage) -> None:
    pages = diary(280)
    stage.inspect(pages, encoder(stage, words_of([pages])))


@sound("table: noisy questions and negatives of other rows")
def table_of_noisy_garden_questions(stage: Stage) -> None:
    hints = GARDEN.table(240)
    table = {"query": noisy(hints["query"], 3, rate=0.08), "document": hints["document"],
             "negative": GARDEN.texts(GARDEN.draws(240, 6), 1)}  # fmt: skip
    stage.inspect(table, small(stage, GARDEN))


@sound("table: traces and issues, chemistry and protocols together")
def table_of_two_fields_together(stage: Stage) -> None:
    traces, recipes = TRACES.table(150), CHEMISTRY.table(150)
    table = {"question": traces["issue"] + recipes["question"],
             "answer": traces["trace"] + recipes["protocol"]}  # fmt: skip
    words = [text for column in table.values() for text in column]
    stage.inspect(table, small(stage, TRACES, words=words))
