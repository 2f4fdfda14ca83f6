"""Sound tables of texts, as they are inspected before training."""

from __future__ import annotations

import random

from tests.judgement.case import sound
from tests.judgement.first.fields_of_scripts_and_signs import (
    CHEMISTRY,
    JOBS,
    MAILS,
    METERS,
    RHYMES,
    SCRIPTS,
    SHELL,
    SHELVES,
    encoder_of,
    pairs_of,
    ragged,
    ragged_pairs,
    stacked_pairs,
    triplets_of,
)
from tests.judgement.stage import Stage


@sound("table of mails with greetings and idle sentences")
def table_of_mails_with_greetings(stage: Stage) -> None:
    stage.inspect(ragged_pairs(MAILS, 240), encoder_of(stage, MAILS))


@sound("table of formulas with lookalikes of another solvent")
def table_of_formulas_and_lookalikes(stage: Stage) -> None:
    stage.inspect(triplets_of(CHEMISTRY, 220, slot=2), encoder_of(stage, CHEMISTRY))


@sound("table of sentences in two scripts")
def table_of_two_translations(stage: Stage) -> None:
    """Two columns: the Russian and the Greek, which share no word."""
    table = SCRIPTS.table(260)
    columns = {name: table[name] for name in ("russian", "greek")}
    stage.inspect(columns, encoder_of(stage, SCRIPTS))


@sound("table of very short texts")
def table_of_shelf_marks(stage: Stage) -> None:
    stage.inspect(pairs_of(SHELVES, 320), encoder_of(stage, SHELVES))


@sound("table of figures and number words")
def table_of_meter_readings(stage: Stage) -> None:
    stage.inspect(pairs_of(METERS, 300), encoder_of(stage, METERS))


@sound("table of repeated phrases")
def table_of_rhymes_and_songs(stage: Stage) -> None:
    stage.inspect(pairs_of(RHYMES, 280), encoder_of(stage, RHYMES))


@sound("table of short wishes, long adverts and long lookalikes")
def table_of_long_adverts_and_lookalikes(stage: Stage) -> None:
    stage.inspect(triplets_of(JOBS, 200, slot=1), encoder_of(stage, JOBS))


@sound("column of texts alone")
def column_of_shell_wishes_and_commands(stage: Stage) -> None:
    table = pairs_of(SHELL, 150)
    texts = [*table["wish"], *table["command"]]
    random.Random(6).shuffle(texts)
    stage.inspect({"text": ragged(texts, 3, most=1)}, encoder_of(stage, SHELL))


@sound("table of scripts of one to three commands")
def table_of_scripts_of_several_commands(stage: Stage) -> None:
    stage.inspect(stacked_pairs(SHELL, 240), encoder_of(stage, SHELL))
