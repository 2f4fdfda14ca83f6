"""Sound tables of short, repeating and reordered texts, for inspection before training."""

from __future__ import annotations

import random

from tests.judgement.case import INSPECT, sound
from tests.judgement.first import fields_of_wishes_and_mails as fields
from tests.judgement.first.tables_of_wishes import seen_by_its_encoder
from tests.judgement.stage import Stage


@sound("table of very short texts", tools=(INSPECT,))
def table_of_moves_by_name_and_sign(stage: Stage) -> None:
    seen_by_its_encoder(stage, fields.CHESS.table(180))


@sound("table of texts alone", tools=(INSPECT,))
def table_of_bulletins_alone(stage: Stage) -> None:
    seen_by_its_encoder(stage, {"bulletin": fields.WEATHER.table(200)["bulletin"]})


@sound("table of refrains", tools=(INSPECT,))
def table_of_repeating_songs(stage: Stage) -> None:
    seen_by_its_encoder(stage, fields.REFRAINS.table(200))


@sound("table of lists in any order", tools=(INSPECT,))
def table_of_baskets_and_till_lines(stage: Stage) -> None:
    seen_by_its_encoder(stage, fields.baskets(240))


@sound("table of numbers in words and signs", tools=(INSPECT,))
def table_of_sums_in_words_and_signs(stage: Stage) -> None:
    seen_by_its_encoder(stage, fields.SUMS.table(300))


@sound("table of flights with hard negatives", tools=(INSPECT,))
def table_of_flights_and_wrong_hours(stage: Stage) -> None:
    """A negative differs in its hour or its cabin."""
    table, draw = fields.FLIGHTS.table(300), random.Random(1)
    hours, cabins = fields.FLIGHTS.near(300, slot=3), fields.FLIGHTS.near(300, slot=2)
    table["wrong"] = [draw.choice(texts) for texts in zip(hours, cabins, strict=True)]
    seen_by_its_encoder(stage, table)
