"""Sound tables of texts: pairs and triplets of several domains, scripts and lengths."""

from __future__ import annotations

import random

from tests.judgement.case import sound
from tests.judgement.first.fields import Field
from tests.judgement.first.fields_of_orders_and_mails import (
    CHEMISTRY,
    HINDI,
    MUSEUM,
    SHELL,
    TENNIS,
    calls,
    near_texts,
    with_near,
)
from tests.judgement.stage import Stage

GREEK = Field(
    {
        "island": "κρήτη/crete ρόδος/rhodes σάμος/samos χίος/chios λέσβος/lesbos "
        "νάξος/naxos πάρος/paros σύρος/syros",
        "food": "ψωμί/bread τυρί/cheese ψάρι/fish μέλι/honey κρασί/wine λάδι/oil ελιές/olives",
        "place": "λιμάνι/harbour πλατεία/square παραλία/beach βουνό/mountain χωριό/village",
        "hour": "πρωί/morning βράδυ/evening νύχτα/night μεσημέρι/noon",
    },
    {
        "greek": "το {hour} τρώμε {food} ( {place} , {island} )",
        "english": "at {hour} we eat {food} at the {place} of {island}",
    },
)
ERRORS = Field(
    {
        "fault": "NullPointerException/null IndexError/range KeyError/key TimeoutError/slow "
        "SegmentationFault/memory OverflowError/number DecodeError/encoding",
        "unit": "parser/parse.c:88 cache/lru.py:12 scheduler/cron.go:301 router/urls.rb:7 "
        "renderer/gl.cpp:940 session/auth.js:55 backup/tar.rs:19",
        "cause": "upgrade/v2.0 reload/SIGHUP restart/boot import/csv login/sso",
        "extent": "always/10_of_10 sometimes/3_of_10 once/1_of_10",
    },
    {
        "title": "{unit} raises {fault} {extent} after {cause}",
        "trace": "at {unit} ({cause}) -> {fault} ; reproduced {extent}",
    },
)

# Cards that repeat a warning.
CARDS = Field(
    MUSEUM.slots,
    {
        "visitor": MUSEUM.columns["visitor"],
        "card": "do not touch . {object} , {stuff} , {land} , {age} . do not touch",
    },
)


@sound("table of wishes and shell commands")
def table_of_wishes_and_shell_commands(stage: Stage) -> None:
    stage.inspect(SHELL.table(240, seed=2))


@sound("table of two scripts without a common word")
def table_of_greek_and_english_sentences(stage: Stage) -> None:
    stage.inspect(GREEK.table(220))


@sound("table of titles and stack traces")
def table_of_titles_and_stack_traces(stage: Stage) -> None:
    stage.inspect(ERRORS.table(200))


@sound("table of spoken calls and terse notes")
def table_of_spoken_calls_and_notes(stage: Stage) -> None:
    table = calls(900, seed=2)
    short = [at for at, text in enumerate(table["call"]) if len(text.split()) <= 14]
    stage.inspect({name: [texts[at] for at in short] for name, texts in table.items()})


@sound("table with hard negatives that differ in a word")
def table_of_protocols_with_lookalikes(stage: Stage) -> None:
    stage.inspect(with_near(CHEMISTRY, 240, seed=2))


@sound("table of cards with repeated phrases")
def table_of_cards_with_repeated_phrases(stage: Stage) -> None:
    stage.inspect(with_near(CARDS, 200, seed=4))


@sound("table of English with Hindi and its hard negatives")
def table_of_orders_in_hindi_with_negatives(stage: Stage) -> None:
    table = HINDI.table(200, seed=4)
    stage.inspect({
        "english": table["english"], "hindi": table["hindi"],
        "negative": _hindi_lookalikes(200),
    })  # fmt: skip


def _hindi_lookalikes(count: int) -> list[str]:
    """Hindi texts of rows of which none stands in the table, in the table's script."""
    taken, draw = set(HINDI.draws(count, seed=4)), random.Random(8)
    lists = [entries.split() for entries in HINDI.slots.values()]
    texts = []
    for row in HINDI.draws(count, seed=4):
        while True:
            at = draw.randrange(len(row))
            change = (*row[:at], draw.choice(lists[at]), *row[at + 1 :])
            if change not in taken:
                break
        texts += HINDI.texts([change], 0)
    return texts


@sound("table of ticker lines of a few words")
def table_of_ticker_lines_and_news(stage: Stage) -> None:
    table = TENNIS.table(300, seed=2)
    stage.inspect({**table, "negative": near_texts(TENNIS, 300, slot=1, seed=2)})
