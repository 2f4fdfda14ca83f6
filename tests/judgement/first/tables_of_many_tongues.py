"""Sound tables for training, inspected before any: pairs, triplets and single columns."""

from __future__ import annotations

import random

from tests.judgement.case import sound
from tests.judgement.first.bodies import encoder
from tests.judgement.first.fields_of_many_tongues import (
    COMMITS,
    GREEK,
    HEADLINES,
    HOTELS,
    MAILS,
    TAGS,
    WEATHER,
    ragged,
    small,
    triples,
)
from tests.judgement.stage import Stage


@sound("table of triplets with near commits")
def table_of_issues_with_near_commits(stage: Stage) -> None:
    stage.inspect(triples(COMMITS, 220), small(stage, COMMITS))


@sound("table of texts of mixed lengths with remarks")
def table_of_ragged_mails(stage: Stage) -> None:
    stage.inspect(ragged(MAILS, 240), small(stage, MAILS))


@sound("table of two scripts")
def table_of_english_and_greek(stage: Stage) -> None:
    stage.inspect(GREEK.table(300), small(stage, GREEK))


@sound("table of a single column")
def column_of_hotel_reviews(stage: Stage) -> None:
    table = HOTELS.table(240)
    texts = [(table["review"], table["summary"])[at % 2][at] for at in range(240)]
    stage.inspect({"text": texts}, small(stage, HOTELS))


@sound("table of very short texts")
def table_of_short_tags(stage: Stage) -> None:
    stage.inspect(TAGS.table(200), small(stage, TAGS))


@sound("table of numbers and codes")
def table_of_weather_and_its_codes(stage: Stage) -> None:
    stage.inspect(WEATHER.table(320), small(stage, WEATHER))


@sound("table of triplets whose negatives are other headlines' leads")
def table_of_headlines_with_distant_leads(stage: Stage) -> None:
    """The negatives, of the same field, tell of rows that are not in the table."""
    table = HEADLINES.table(440)
    columns = {name: texts[:220] for name, texts in table.items()}
    stage.inspect(columns | {"negative": table["lead"][220:]}, small(stage, HEADLINES))


_GIVEN = [
    "alma",
    "boris",
    "celia",
    "dmitri",
    "edda",
    "farid",
    "gudrun",
    "haruto",
    "ines",
    "jonas",
    "kaya",
    "lorenz",
    "milena",
    "nils",
    "olga",
    "pavel",
    "quirin",
    "rosa",
    "stefan",
    "tamar",
    "ulla",
    "viktor",
    "wanda",
    "xenia",
    "yusuf",
    "zita",
]
_FAMILY = [
    "abel",
    "brandt",
    "castro",
    "drumm",
    "ekberg",
    "fiala",
    "grau",
    "hoxha",
    "ivers",
    "jansen",
    "kovac",
    "lund",
    "moreau",
    "nagy",
    "okafor",
    "pohl",
    "quist",
    "rossi",
    "sato",
    "turek",
    "umar",
    "vogel",
    "weiss",
    "xu",
    "yilmaz",
    "zeman",
]
_STREETS = [
    "acacia",
    "birch",
    "castle",
    "dyke",
    "elm",
    "fern",
    "gate",
    "harbour",
    "iron",
    "juniper",
    "kings",
    "lime",
    "mill",
    "north",
    "oak",
    "park",
    "quarry",
    "river",
    "spring",
    "tower",
    "upper",
    "vine",
    "well",
    "yew",
]


def addresses(count: int, seed: int = 0) -> dict[str, list[str]]:
    """Names with an address, and how a careless clerk typed it: swapped, shortened, in part."""
    draw, rows = random.Random(seed), dict[tuple[str, ...], None]()
    while len(rows) < count:
        number, code = str(draw.randint(2, 180)), str(draw.randint(10000, 99999))
        rows[draw.choice(_GIVEN), draw.choice(_FAMILY), draw.choice(_STREETS), number, code] = None
    table: dict[str, list[str]] = {"entry": [], "typed": []}
    for given_name, family, street, number, code in rows:
        table["entry"].append(f"{given_name} {family} , {number} {street} street , {code}")
        table["typed"].append(draw.choice((
            f"{family} {given_name} {street} {number}",
            f"{given_name[0]} . {family} , {code} {street} st . {number}",
            f"{family} / {street} str {number} / {code}",
            f"mr or mrs {given_name} {family} ( {street} , {number} )",
        )))  # fmt: skip
    return table


@sound("table of names and addresses typed in several ways")
def table_of_addresses_typed_carelessly(stage: Stage) -> None:
    table = addresses(240)
    texts = [text for column in table.values() for text in column]
    stage.inspect(table, encoder(stage, texts))
