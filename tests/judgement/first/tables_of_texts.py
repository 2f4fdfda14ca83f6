"""Sound set-ups: tables of texts that are inspected, beside trainings that prove them."""

from __future__ import annotations

from tests.judgement.case import sound
from tests.judgement.first.common_tools import QUICK, fresh, nearer, warm, with_near
from tests.judgement.first.drawn_texts import doubles
from tests.judgement.first.loop_materials import ranking
from tests.judgement.first.slot_fields import ADDRESSES, FUNCTIONS, JOBS, RUSSIAN
from tests.judgement.stage import Stage
from tests.judgement.truth import learns, retrieval
from tests.sentence_training import losses


@sound("table of addresses in two spellings")
def table_of_addresses_in_two_spellings(stage: Stage) -> None:
    """Pairs of different rows, each with its own partner; a register has few common words."""
    table = ADDRESSES.table(360, seed=4)
    stage.inspect(table)
    trainer = stage.trainer(ranking, table, fresh(stage, table), **QUICK)
    learns(stage, trainer, ADDRESSES.sought, least=0.1)


@sound("table of functions with a near negative")
def table_of_functions_and_near_functions(stage: Stage) -> None:
    """The negative differs from the positive in the object, which the docstring names."""
    table = with_near(FUNCTIONS, 400, 4, 1)
    stage.inspect(table)
    trainer = stage.trainer(ranking, table, fresh(stage, table), learning_rate=2e-3, max_steps=90)
    tested = with_near(FUNCTIONS, 100, 11, 1)
    learns(stage, trainer, lambda model: nearer(model, tested), least=0.1)


@sound("table of double questions of a forum")
def table_of_double_questions(stage: Stage) -> None:
    """Only those rows of a labelled table that ask the same, each pair once."""
    labelled, held = doubles(700), doubles(200, True)
    table, tested = (
        {name: [text for text, same in zip(rows[name], rows["label"], strict=True) if same]
         for name in ("question1", "question2")}
        for rows in (labelled, held)
    )  # fmt: skip
    stage.inspect(table)
    trainer = stage.trainer(
        losses.MultipleNegativesSymmetricRankingLoss, table, fresh(stage, table, tested),
        batch_sampler="no_duplicates", **QUICK,
    )  # fmt: skip
    learns(stage, trainer, lambda model: retrieval(model, tested), least=0.1)


@sound("table of Russian, inspected by an encoder that knows it")
def table_of_russian_seen_by_its_own_encoder(stage: Stage) -> None:
    """The encoder with Russian words that is tuned is also the one that inspects the table."""
    table = RUSSIAN.table(240, seed=4)
    model = warm(stage, RUSSIAN.table(150, seed=2), table, steps=10)
    folder = str(stage.folder / "russian")
    model.save(folder)
    stage.inspect(table, folder)
    trainer = stage.trainer(ranking, table, model, learning_rate=1e-3, max_steps=60)
    learns(stage, trainer, RUSSIAN.sought, least=0.1)


@sound("table of posts with profiles of another city")
def table_of_posts_and_profiles_elsewhere(stage: Stage) -> None:
    """Profiles of the same craft in another city are true negatives, since the post names it."""
    table = with_near(JOBS, 360, 4, 3)
    stage.inspect(table)
    trainer = stage.trainer(
        ranking, table, fresh(stage, table), learning_rate=1.5e-3, max_steps=90,
        per_device_train_batch_size=24,
    )  # fmt: skip
    tested = with_near(JOBS, 100, 11, 3)
    learns(stage, trainer, lambda model: nearer(model, tested), least=0.1)
