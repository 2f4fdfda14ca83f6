"""Sound tables, as they are inspected before a training."""

from __future__ import annotations

from tests.judgement.case import sound
from tests.judgement.first.sound_texts import asked, made, searched, sold, titled
from tests.judgement.stage import Stage, facts, lookalike

# What is true of an encoder of two layers that is random at the start.
UNTUNED = {r"^(inspect: )?Train a little before you choose a temperature": "the encoder is untuned"}


@sound("inspect", allowed=UNTUNED)
def table_of_titles_and_abstracts(stage: Stage) -> None:
    stage.inspect(made(titled, 200))


@sound("inspect", allowed=UNTUNED)
def table_of_key_words_and_documents(stage: Stage) -> None:
    stage.inspect(made(searched, 240))


@sound("inspect", allowed=UNTUNED)
def table_of_product_names(stage: Stage) -> None:
    stage.inspect(made(sold, 128))


@sound("inspect", allowed=UNTUNED)
def table_of_questions_with_mined_negatives(stage: Stage) -> None:
    negatives = [lookalike(fact) for fact in facts(160)]
    stage.inspect(made(asked, 160) | {"negative": negatives})


@sound("inspect", allowed=UNTUNED)
def table_of_abstracts_alone(stage: Stage) -> None:
    stage.inspect({"abstract": made(titled, 160)["abstract"]})
