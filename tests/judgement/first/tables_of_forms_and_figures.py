"""Sound tables of pairs and triplets, as they are inspected before training."""

from __future__ import annotations

import random

from tests.judgement.case import sound
from tests.judgement.first.fields_of_offices_and_ports import (
    BENCH,
    CHATTER,
    COMMITS,
    DIGITS,
    MATCHES,
    QUERIES,
    RUSSIAN,
    briefs,
    noised,
    varied,
)
from tests.judgement.stage import Stage


@sound("table of questions and queries with near negatives")
def table_of_database_questions(stage: Stage) -> None:
    stage.inspect(QUERIES.table(240) | {"negative": varied(QUERIES, 240)})


@sound("table of two scripts")
def table_of_russian_and_english(stage: Stage) -> None:
    stage.inspect(RUSSIAN.table(300))


@sound(
    "table of short headlines and long reports",
    allowed={"only the beginnings|last token that": "The encoder reads 64 tokens of longer texts."},
)
def table_of_match_reports(stage: Stage) -> None:
    stage.inspect(MATCHES.table(200))


@sound(
    "table of texts of mixed lengths",
    allowed={"only the beginnings|last token that": "The encoder reads 64 tokens of longer texts."},
)
def table_of_headlines_with_articles(stage: Stage) -> None:
    stage.inspect(briefs(260))


@sound("table of noisy short posts")
def table_of_noisy_posts(stage: Stage) -> None:
    table = CHATTER.table(220)
    stage.inspect({name: noised(texts, at) for at, (name, texts) in enumerate(table.items())})


@sound("table of numbers in figures and in words")
def table_of_figures_and_words(stage: Stage) -> None:
    stage.inspect(DIGITS.table(180))


@sound("table of messages, changes and near changes")
def table_of_commits_and_near_changes(stage: Stage) -> None:
    stage.inspect(COMMITS.table(260) | {"negative": varied(COMMITS, 260)})


@sound("table of single texts for training without labels")
def table_of_unlabelled_protocols(stage: Stage) -> None:
    texts = BENCH.table(240)["protocol"]
    random.Random(2).shuffle(texts)
    stage.inspect({"text": texts})
