"""Sound tables: pairs and triplets of code, logs, short texts, letters, numbers, scripts, lines."""

from __future__ import annotations

import random
from typing import Any

from tests.judgement.case import sound
from tests.judgement.first.bodies import encoder
from tests.judgement.first.fields_of_daily_use import (
    DOSES,
    LOGLINES,
    MAILS,
    NEWS,
    RENTS,
    SHORT,
    SNIPPETS,
    jumbled,
    notes,
    starter,
    thinned,
    verses,
    ward_words,
)
from tests.judgement.first.turns import warmed
from tests.judgement.stage import Stage


@sound("table of comments and code")
def table_of_comments_and_code(stage: Stage) -> None:
    table = SNIPPETS.table(240)
    stage.inspect(table, warmed(starter(stage, SNIPPETS), table, steps=25))


@sound("table of log lines with a negative each")
def table_of_log_lines_with_negatives(stage: Stage) -> None:
    table = LOGLINES.table(200) | {"negative": LOGLINES.near(200, slot=1)}
    stage.inspect(table, warmed(starter(stage, LOGLINES), table, steps=30))


@sound("table of two words a text")
def table_of_two_words_a_text(stage: Stage) -> None:
    stage.inspect(SHORT.table(220))


@sound("table of letters of mixed lengths")
def table_of_letters_of_mixed_lengths(stage: Stage) -> None:
    table = notes(260)
    stage.inspect(table, warmed(encoder(stage, ward_words()), table, steps=25))


@sound("table of numbers between repeated phrases")
def table_of_doses_between_repeated_phrases(stage: Stage) -> None:
    """The negative is the leaflet of another drug, with the same amounts."""
    table = DOSES.table(200) | {"negative": DOSES.near(200, slot=0)}
    stage.inspect(table, warmed(starter(stage, DOSES, width=32), table, steps=40))


@sound("table in two scripts")
def table_of_news_in_two_scripts(stage: Stage) -> None:
    table = NEWS.table(300)
    stage.inspect(table, warmed(starter(stage, NEWS), table, steps=20))


@sound("table of single texts")
def table_of_single_lines_of_verse(stage: Stage) -> None:
    """Texts for training without labels: one column, no line twice."""
    lines = verses(240, seed=4)
    stage.inspect({"line": lines}, encoder(stage, lines))


@sound("table of views of one text")
def table_of_thinned_lines_and_their_verses(stage: Stage) -> None:
    draw, lines = random.Random(12), verses(200, seed=6, shortest=8)
    thin = [jumbled(thinned(line, draw, 0.25), draw) for line in lines]
    table: dict[str, Any] = {"thin": thin, "line": lines}
    stage.inspect(table, warmed(encoder(stage, lines), table, steps=25))


@sound("table of mails with adverts mixed in")
def table_of_mails_and_adverts_in_one(stage: Stage) -> None:
    """Two sets of pairs in one table, in any order."""
    draw = random.Random(2)
    rows = [
        *zip(*MAILS.table(120).values(), strict=False),
        *zip(*RENTS.table(120).values(), strict=False),
    ]
    draw.shuffle(rows)
    first, second = map(list, zip(*rows, strict=False))
    table = {"anchor": first, "positive": second}
    stage.inspect(table, warmed(starter(stage, MAILS, RENTS), table, steps=25))
