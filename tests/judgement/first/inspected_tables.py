"""Sound set-ups: tables of texts that are looked at, each beside a training that proves it."""

from __future__ import annotations

from sentence_transformers.sentence_transformer import losses

from tests.judgement.case import sound
from tests.judgement.first.more_fields import (
    GREEK_ARTICLES,
    LAB_VALUES,
    MENUS,
    TIMETABLES,
    TWEETS,
)
from tests.judgement.first.training_parts import encoder_of, ranking
from tests.judgement.stage import Stage
from tests.judgement.truth import learns

QUICK = {"max_steps": 80, "learning_rate": 1e-3, "per_device_train_batch_size": 32}


@sound(
    "table of dishes and allergens, long and short",
    allowed={
        r"length|to the last token|only the beginnings": "The inspection reads 64 tokens, and "
        "half of these texts have more."
    },
)
def table_of_menus_and_allergens(stage: Stage) -> None:
    """Each dish is told by other words than the kitchen's note on it."""
    table = MENUS.table(400)
    stage.inspect(table)
    trainer = stage.trainer(ranking(), table, encoder_of(stage, MENUS), **QUICK)
    learns(stage, trainer, MENUS.sought("dish", "note"))


@sound("table with hard negatives of the same place")
def table_of_timetables_with_near_departures(stage: Stage) -> None:
    """The third column has the departure of another line at the same stop."""
    table = TIMETABLES.table(400)
    stage.inspect(table)
    trainer = stage.trainer(ranking(), table, encoder_of(stage, TIMETABLES), **QUICK)
    learns(stage, trainer, TIMETABLES.sought("asked", "departure"))


@sound("table of short messages and their tags")
def table_of_messages_and_tags(stage: Stage) -> None:
    """Short messages with their tags in any order; all rows differ."""
    table = TWEETS.table(480)
    stage.inspect(table)
    trainer = stage.trainer(
        losses.MultipleNegativesSymmetricRankingLoss, table, encoder_of(stage, TWEETS), **QUICK
    )
    learns(stage, trainer, TWEETS.sought("message", "tags"))


@sound("table of values of a laboratory")
def table_of_laboratory_values(stage: Stage) -> None:
    """Names and levels of two values, and the sentence that a physician writes of them."""
    table = LAB_VALUES.table(400)
    stage.inspect(table)
    trainer = stage.trainer(
        ranking(), table, encoder_of(stage, LAB_VALUES, width=64),
        **{**QUICK, "lr_scheduler_type": "cosine"},
    )  # fmt: skip
    learns(stage, trainer, LAB_VALUES.sought("values", "comment"))


@sound("table of titles and texts in Greek")
def table_of_greek_titles_and_texts(stage: Stage) -> None:
    """Greek titles and first sentences of articles."""
    table = GREEK_ARTICLES.table(360)
    stage.inspect(table)
    trainer = stage.trainer(ranking(), table, encoder_of(stage, GREEK_ARTICLES), **QUICK)
    learns(stage, trainer, GREEK_ARTICLES.sought("title", "opening"))
