"""Sound trainings on pairs and triplets of several fields."""

from __future__ import annotations

import random

from tests.judgement.case import sound
from tests.judgement.first.sound_texts import (
    asked,
    coded,
    filling,
    learned,
    made,
    searched,
    sold,
    sought,
    titled,
    translated,
)
from tests.judgement.stage import Stage, facts, lookalike, passage, question
from tests.sentence_training import losses

ranking = losses.MultipleNegativesRankingLoss


@sound("data")
def titles_and_abstracts_both_ways(stage: Stage) -> None:
    loss = losses.MultipleNegativesSymmetricRankingLoss
    learned(stage, stage.trainer(loss, made(titled)), sought(titled))


@sound("data")
def descriptions_and_code(stage: Stage) -> None:
    learned(stage, stage.trainer(ranking, made(coded), max_steps=60), sought(coded))


@sound("data")
def sentences_and_translations(stage: Stage) -> None:
    table = made(translated, 480)
    learned(stage, stage.trainer(ranking, table, max_steps=90), sought(translated))


@sound("data")
def key_words_and_opened_documents(stage: Stage) -> None:
    learned(stage, stage.trainer(ranking, made(searched)), sought(searched))


@sound("data")
def product_names_of_two_shops(stage: Stage) -> None:
    learned(stage, stage.trainer(ranking, made(sold)), sought(sold))


@sound("data")
def frequent_questions_in_three_wordings(stage: Stage) -> None:
    """Three questions share an answer, and no batch has an answer twice."""
    table: dict[str, list[str]] = {"question": [], "answer": []}
    for fact in facts(100):
        verb, topic, place, near, *_ = fact
        for number, start in enumerate(("ka", "bo ka", "ti")):
            extra = filling(fact, 1 + number, str(number))
            table["question"].append(f"{start} {verb} {topic} {place} {near} {extra} ?")
            table["answer"].append(passage(fact, fillers=4))
    trainer = stage.trainer(ranking, table, batch_sampler="no_duplicates", max_steps=36)
    learned(stage, trainer, sought(asked))


@sound("data")
def triplets_of_two_sources(stage: Stage) -> None:
    """Half the rows are questions and answers, the other half titles and abstracts."""
    first, second = facts(100), facts(100, seed=4)
    titles = titled(second)
    rows = [
        *zip(map(question, first), map(passage, first), map(lookalike, first), strict=True),
        *zip(titles["title"], titles["abstract"], map(lookalike, second), strict=True),
    ]
    random.Random(3).shuffle(rows)
    columns = ("anchor", "positive", "negative")
    table = {
        name: list(texts) for name, texts in zip(columns, zip(*rows, strict=True), strict=True)
    }
    learned(stage, stage.trainer(ranking, table), sought(asked))


@sound("data")
def posts_and_their_duplicates(stage: Stage) -> None:
    """Two users ask for the same in other words and in another order."""
    rows = facts(160)
    table = {
        "post": [
            f"{filling(fact, 4, 'a')} {verb} {topic} {place} {near} ?"
            for fact in rows
            for verb, topic, place, near, *_ in [fact]
        ],
        "duplicate": [
            f"{place} {near} {topic} {verb} , {filling(fact, 4, 'b')} ?"
            for fact in rows
            for verb, topic, place, near, *_ in [fact]
        ],
    }
    learned(stage, stage.trainer(ranking, table))
