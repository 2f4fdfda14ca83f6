"""Sound set-ups: further tables that are inspected before they are used."""

from __future__ import annotations

from tests.judgement.case import sound
from tests.judgement.first.encoders_and_tables import look_at
from tests.judgement.first.made_fields import addresses
from tests.judgement.first.ranking_tools import encoder_of, ranking, seeks, seeks_in
from tests.judgement.first.turns import warmed
from tests.judgement.first.wider_fields import WEATHER
from tests.judgement.stage import Stage
from tests.judgement.truth import learns


@sound("table of addresses")
def inspected_addresses_as_typed(stage: Stage) -> None:
    """Short texts with numbers, each once, beside a briefly trained encoder's view of them."""
    table = addresses(320)
    tuned_encoder = warmed(encoder_of(stage, [table], name="other", seed=5), addresses(300, 2), 25)
    look_at(stage, tuned_encoder, table)
    trainer = stage.trainer(
        ranking,
        table,
        encoder_of(stage, [table]),
        learning_rate=1e-3,
        max_steps=100,
    )
    learns(stage, trainer, seeks_in(addresses), least=0.1)


@sound("table in Chinese with two words for each thing")
def inspected_weather_questions(stage: Stage) -> None:
    """Questions and advice share hardly a word, yet each pair fits; mean pooling, small batches."""
    table = WEATHER.table(400)
    tuned_encoder = warmed(
        encoder_of(stage, WEATHER, name="other", seed=5), WEATHER.table(400, 2), 70
    )
    look_at(stage, tuned_encoder, table)
    trainer = stage.trainer(
        ranking, table, encoder_of(stage, WEATHER), learning_rate=2e-3, max_steps=110,
        per_device_train_batch_size=12,
    )  # fmt: skip
    learns(stage, trainer, seeks(WEATHER), least=0.1)
