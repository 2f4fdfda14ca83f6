"""Sound columns of texts: pairs and hard negatives that any encoder may be trained on."""

from __future__ import annotations

from typing import Any

from tests.judgement.case import INSPECT, sound
from tests.judgement.first.fields import KITCHEN, Field
from tests.judgement.first.trades_and_texts import (
    BANK,
    GARDEN,
    HOUSES,
    JOBS,
    SPORT,
    encoder_of,
    triples,
)
from tests.judgement.first.turns import warmed
from tests.judgement.stage import Stage


def trained_on(stage: Stage, field: Field) -> Any:
    """The folder of an encoder that was trained on other rows of a field."""
    folder = stage.folder / "trained"
    model = warmed(encoder_of(stage, field), field.table(160, seed=3), steps=40)
    model.save_pretrained(str(folder))
    return str(folder)


@sound("inspected pairs of gardening", tools=(INSPECT,))
def inspected_garden_questions_and_advice(stage: Stage) -> None:
    """Questions of gardeners and the advice on each."""
    stage.inspect(GARDEN.table(300), trained_on(stage, GARDEN))


@sound("inspected pairs of banking", tools=(INSPECT,))
def inspected_bank_queries_and_articles(stage: Stage) -> None:
    """Short queries of customers and the article for each."""
    stage.inspect(BANK.table(240), trained_on(stage, BANK))


@sound("inspected hard negatives of adverts", tools=(INSPECT,))
def inspected_adverts_with_near_misses(stage: Stage) -> None:
    """Searches, adverts, and adverts of another trade at the same place."""
    stage.inspect(triples(JOBS, 240), trained_on(stage, JOBS))


@sound("inspected hard negatives of houses", tools=(INSPECT,))
def inspected_houses_with_another_asset(stage: Stage) -> None:
    """Wishes, offers, and offers that differ in one asset."""
    stage.inspect(triples(HOUSES, 240, slots=(1,)), trained_on(stage, HOUSES))


@sound(
    "inspected random negatives",
    tools=(INSPECT,),
    allowed={"harder negatives": "Other stories are easy negatives."},
)
def inspected_sport_with_other_stories(stage: Stage) -> None:
    """Headlines, their stories, and the stories of other headlines, which are easy negatives."""
    table = SPORT.table(240)
    table["negative"] = table["story"][120:] + table["story"][:120]
    stage.inspect(table, trained_on(stage, SPORT))


@sound("inspected single column", tools=(INSPECT,))
def inspected_column_of_different_sentences(stage: Stage) -> None:
    """One column of different sentences, for training without labels."""
    wishes = {"sentence": KITCHEN.table(300)["anchor"]}
    stage.inspect(wishes, trained_on(stage, KITCHEN))
