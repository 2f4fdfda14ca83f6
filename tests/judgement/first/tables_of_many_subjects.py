"""Sound tables of texts that are inspected without training."""

from __future__ import annotations

import random

from tests.judgement.case import sound
from tests.judgement.first.fields_of_records import (
    BIRDS,
    CALLS,
    EXHIBITS,
    GREEK,
    METERS,
    QUERIES,
    REAGENTS,
    RULINGS,
    voyages,
)
from tests.judgement.stage import Stage


@sound("table of sentences in two scripts")
def table_of_greek_translations(stage: Stage) -> None:
    stage.inspect(GREEK.table(240))


@sound("table of sightings with a hard negative of another bird")
def table_of_birds_with_hard_negatives(stage: Stage) -> None:
    stage.inspect(BIRDS.table(200) | {"negative": BIRDS.near(200, slot=0)})


@sound(
    "table of keywords and texts of one to five sentences",
    allowed={"only the beginnings|last token that": "The encoder reads 64 tokens of longer texts."},
)
def table_of_voyages_of_mixed_lengths(stage: Stage) -> None:
    stage.inspect(voyages(220))


@sound(
    "table of one column, texts of two kinds",
    allowed={"only the beginnings|last token that": "The encoder reads 64 tokens of longer texts."},
)
def table_of_exhibits_without_partners(stage: Stage) -> None:
    rows = EXHIBITS.draws(240)
    texts = EXHIBITS.texts(rows[:120], 0) + EXHIBITS.texts(rows[120:], 1)
    random.Random(3).shuffle(texts)
    stage.inspect({"text": texts})


@sound("table of formulas with a negative of another alcohol")
def table_of_reactions_with_near_formulas(stage: Stage) -> None:
    stage.inspect(REAGENTS.table(180) | {"negative": REAGENTS.near(180, slot=1)})


@sound(
    "table of short titles and long texts of law",
    allowed={"only the beginnings|last token that": "The encoder reads 64 tokens of longer texts."},
)
def table_of_headnotes_and_rulings(stage: Stage) -> None:
    stage.inspect(RULINGS.table(160))


@sound("table of calls of two or three words")
def table_of_very_short_radio_calls(stage: Stage) -> None:
    stage.inspect(CALLS.table(200))


@sound("table of numbers and units and questions in two data sets")
def table_of_readings_and_queries_together(stage: Stage) -> None:
    readings, queries = METERS.table(120), QUERIES.table(120)
    first = [*readings["note"], *queries["question"]]
    second = [*readings["row"], *queries["sql"]]
    order = random.Random(4).sample(range(240), 240)
    stage.inspect({"text": [first[at] for at in order], "match": [second[at] for at in order]})
