"""Sound tables of texts, for inspection before training."""

from __future__ import annotations

from tests.judgement.case import INSPECT, sound
from tests.judgement.first import fields_of_wishes_and_mails as fields
from tests.judgement.first.bodies import encoder, words_of
from tests.judgement.stage import Stage


def seen_by_its_encoder(stage: Stage, table: dict[str, list[str]]) -> None:
    """Inspect a table with an encoder that knows its words; no text stands twice in a column."""
    assert all(len(set(texts)) == len(texts) for texts in list(table.values())[:2])
    stage.inspect(table, encoder(stage, words_of([table])))


@sound("table of code", tools=(INSPECT,))
def table_of_docstrings_and_functions(stage: Stage) -> None:
    seen_by_its_encoder(stage, fields.CODE.table(400))


@sound("table of formulae", tools=(INSPECT,))
def table_of_reactions_with_hard_negatives(stage: Stage) -> None:
    seen_by_its_encoder(stage, fields.triplets(fields.REACTIONS, 220))


@sound("table of subjects and long bodies", tools=(INSPECT,))
def table_of_short_and_long_mails(stage: Stage) -> None:
    seen_by_its_encoder(stage, fields.MAILS.table(240))


@sound("table of two scripts", tools=(INSPECT,))
def table_of_greek_and_english(stage: Stage) -> None:
    seen_by_its_encoder(stage, fields.GREEK.table(300))


@sound("table of noisy typing", tools=(INSPECT,))
def table_of_adverts_typed_in_haste(stage: Stage) -> None:
    seen_by_its_encoder(stage, fields.typed(280))


@sound("table of tales of one to four sentences", tools=(INSPECT,))
def table_of_tales_and_synopses(stage: Stage) -> None:
    seen_by_its_encoder(stage, fields.tales(260))


@sound("table of pairs with mixed near misses", tools=(INSPECT,))
def table_of_adverts_profiles_and_near_misses(stage: Stage) -> None:
    """A profile in the third column lacks the craft, the skill, the hours or the place."""
    table = dict(list(fields.JOBS.table(320).items())[:2])
    near = [fields.JOBS.near(320, slot=slot) for slot in range(4)]
    table["miss"] = [near[at % 4][at] for at in range(320)]
    seen_by_its_encoder(stage, table)
