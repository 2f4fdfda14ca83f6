"""Sound tables: anchors, positives and hard negatives as they are read before training."""

from __future__ import annotations

import random

from tests.judgement.case import sound
from tests.judgement.first.fields_of_cheers_and_shells import (
    AUCTION,
    BLURBS,
    MAILS,
    NEWS,
    QUERIES,
    RAILWAY,
    REACTIONS,
    RECALLS,
    SHELL,
    SKY,
    TURKISH,
    WEATHER,
    model_of,
)
from tests.judgement.stage import Stage


@sound("mails of several wordings with signatures and asides")
def table_of_mails_with_signatures(stage: Stage) -> None:
    stage.inspect(MAILS.table(280))


@sound("two scripts that have no letter in common")
def table_of_russian_beside_english(stage: Stage) -> None:
    stage.inspect(RAILWAY.table(360), model_of(stage, RAILWAY))


@sound("formulas without a blank between symbols, hard negatives")
def table_of_esters_with_a_changed_alcohol(stage: Stage) -> None:
    table = REACTIONS.table(260) | {"negative": REACTIONS.near(260, slot=1)}
    stage.inspect(table, model_of(stage, REACTIONS))


@sound("short queries for long articles of mixed lengths")
def table_of_headlines_and_long_articles(stage: Stage) -> None:
    stage.inspect(NEWS.table(300), model_of(stage, NEWS))


@sound(
    "one column only",
    allowed={"only the beginnings|last token that": "The encoder reads 64 tokens of longer texts."},
)
def table_of_blurbs_alone(stage: Stage) -> None:
    stage.inspect({"text": BLURBS.table(320)["blurb"]})


@sound("statements of SQL with hard negatives of another column")
def table_of_sql_with_another_column(stage: Stage) -> None:
    stage.inspect(QUERIES.table(400) | {"negative": QUERIES.near(400, slot=1)})


@sound("numbers, units and abbreviations in place of sentences")
def table_of_headers_of_telescopes(stage: Stage) -> None:
    stage.inspect(SKY.table(420), model_of(stage, SKY))


@sound("rows of four worlds, shuffled")
def table_of_four_worlds_in_any_order(stage: Stage) -> None:
    pairs = [pair for field in (AUCTION, RECALLS, SHELL, TURKISH)
             for pair in zip(*field.table(120).values(), strict=True)]  # fmt: skip
    random.Random(2).shuffle(pairs)
    anchors, positives = zip(*pairs, strict=True)
    stage.inspect({"anchor": list(anchors), "positive": list(positives)})


@sound("a script with marks above and below its letters, negatives of another row")
def table_of_hindi_weather_with_random_negatives(stage: Stage) -> None:
    table = WEATHER.table(240)
    english = table["english"]
    stage.inspect(table | {"negative": english[31:] + english[:31]}, model_of(stage, WEATHER))
