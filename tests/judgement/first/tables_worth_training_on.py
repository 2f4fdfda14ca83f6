"""Good tables inspected with an encoder that has learned other texts of the trade."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tests.judgement.case import INSPECT, sound
from tests.judgement.first.homes_and_studies import SPACE
from tests.judgement.first.talk_and_reports import CARS, SPORTS
from tests.judgement.first.trades_of_text import GARDEN, PHRASES, Trade
from tests.judgement.first.turns import warmed
from tests.judgement.stage import Stage
from tests.judgement.truth import keep, retrieval, truth


def inspected(
    stage: Stage, trade: Trade, table: Mapping[str, Sequence[str]], *, steps: int = 18
) -> None:
    """Inspect a table with a trained encoder, for which its pairs belong together."""
    model = trade.encoder(stage, name="trained", dropout=0.0)
    columns = list(table.values())
    pairs = {"first": columns[0], "second": columns[1]}
    before = retrieval(model, pairs)
    warmed(model, trade.pairs(320, seed=2), steps=steps)
    keep(stage, before=before, after=retrieval(model, pairs))
    assert truth(stage)["after"] >= 0.5, truth(stage)
    model.save(str(stage.folder / "kept"))
    stage.inspect(table, str(stage.folder / "kept"))


@sound("table of gardeners' pairs", tools=[INSPECT])
def garden_pairs_looked_at(stage: Stage) -> None:
    """Questions with the advice that answers them."""
    inspected(stage, GARDEN, GARDEN.pairs(240, seed=11))


@sound("table of sentences with translations", tools=[INSPECT])
def french_translations_looked_at(stage: Stage) -> None:
    """English sentences with their French."""
    inspected(stage, PHRASES, PHRASES.pairs(220, seed=11))


@sound("table of titles with abstracts", tools=[INSPECT])
def planet_abstracts_looked_at(stage: Stage) -> None:
    """Short titles and long abstracts."""
    inspected(stage, SPACE, SPACE.pairs(240, seed=11), steps=28)


@sound("table of complaints, repairs and other repairs", tools=[INSPECT])
def car_triplets_looked_at(stage: Stage) -> None:
    """Hard negatives that are of another fault in two respects."""
    inspected(stage, CARS, CARS.triplets(240, seed=11, changes=2))


@sound("table of headlines, leads and leads of other games", tools=[INSPECT])
def headline_triplets_looked_at(stage: Stage) -> None:
    """Hard negatives that differ in half of what the headline says."""
    inspected(stage, SPORTS, SPORTS.triplets(220, seed=11, changes=2))
