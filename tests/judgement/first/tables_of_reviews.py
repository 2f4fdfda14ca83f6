"""Sound tables: pairs and triples of several fields, as they are before training."""

from __future__ import annotations

import random

from tests.judgement.case import sound
from tests.judgement.first.fields_of_reviews_and_cards import (
    CHEMISTRY,
    GREEK,
    MAILS,
    MINERALS,
    QUERIES,
    RUSSIAN,
    SHORT,
    reviews,
    triples,
)
from tests.judgement.stage import Stage


@sound(
    "table of mails",
    allowed={"only the beginnings|last token that": "The encoder reads 64 tokens of longer texts."},
)
def table_of_subjects_and_bodies_of_mails(stage: Stage) -> None:
    stage.inspect(MAILS.table(260))


@sound(
    "table of reviews of mixed lengths",
    allowed={"only the beginnings|last token that": "The encoder reads 64 tokens of longer texts."},
)
def table_of_reviews_with_noise_between_sentences(stage: Stage) -> None:
    stage.inspect(reviews(420))


@sound("table of translations")
def table_of_cyrillic_translations_of_short_sentences(stage: Stage) -> None:
    stage.inspect(RUSSIAN.table(240))


@sound("table of very short texts")
def table_of_three_words_in_two_languages(stage: Stage) -> None:
    stage.inspect(SHORT.table(300))


def _distinct(table: dict[str, list[str]]) -> dict[str, list[str]]:
    """The rows whose hard negative is no positive of the table."""
    first, right, wrong = table.values()
    positives = set(right)
    rows = [row for row in zip(first, right, wrong, strict=True) if row[2] not in positives]
    return dict(zip(table, map(list, zip(*rows, strict=True)), strict=True))


@sound("table with hard negatives of code")
def table_of_queries_with_a_wrong_aggregate(stage: Stage) -> None:
    stage.inspect(_distinct(triples(QUERIES, 400)))


@sound(
    "table with hard negatives among long texts",
    allowed={"only the beginnings|last token that": "The encoder reads 64 tokens of longer texts."},
)
def table_of_minerals_with_a_wrong_stone(stage: Stage) -> None:
    stage.inspect(_distinct(triples(MINERALS, 300)))


@sound("table with negatives drawn from its own rows")
def table_of_reactions_with_negatives_of_its_rows(stage: Stage) -> None:
    """A negative is the equation of another row that shares at most one slot with its own."""
    draw, rows = random.Random(4), CHEMISTRY.draws(280)
    table = CHEMISTRY.table(280)
    wrong = []
    for row in rows:
        far = [at for at, foreign in enumerate(rows)
               if sum(a == b for a, b in zip(row, foreign, strict=True)) <= 1]  # fmt: skip
        wrong.append(table["equation"][draw.choice(far)])
    stage.inspect(table | {"negative": wrong})


@sound("table of one column")
def table_of_greek_and_english_forecasts_without_partners(stage: Stage) -> None:
    """Texts for training without labels: each row of the field once, in one of its languages."""
    table = GREEK.table(300)
    columns = [table["english"][::2], table["greek"][1::2]]
    texts = [text for row in zip(*columns, strict=True) for text in row]
    stage.inspect({"text": random.Random(2).sample(texts, len(texts))})
