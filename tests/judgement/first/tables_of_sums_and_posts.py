"""Sound tables of texts of many shapes."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

from tests.judgement.case import sound
from tests.judgement.first.bodies import encoder, words_of
from tests.judgement.first.fields_of_dreams_and_roads import (
    DREAMS,
    JOBS,
    MUSEUM,
    POSTS,
    QUERIES,
    ROADS,
    STATIONS,
    VERDICTS,
    contrasted,
    reader,
    scripted,
)
from tests.judgement.first.turns import warmed
from tests.judgement.stage import Stage
from tests.tiny_models import WORDS


def words_reader(stage: Stage, *tables: Mapping[str, Sequence[str]], **options: Any) -> Any:
    """A fresh encoder that knows the words of tables."""
    return encoder(stage, words_of(tables), **options)


@sound("pairs in two scripts")
def table_of_roads_in_two_scripts(stage: Stage) -> None:
    model = warmed(reader(stage, ROADS), scripted(ROADS, 300, 2), steps=20)
    stage.inspect(scripted(ROADS, 280), model)


@sound("announcements that repeat themselves")
def table_of_announcements_with_repeated_phrases(stage: Stage) -> None:
    model = warmed(reader(stage, STATIONS), scripted(STATIONS, 300, 2), steps=40)
    stage.inspect(scripted(STATIONS, 240), model)


@sound("hard negatives that differ in a slot")
def table_of_museum_cards_with_near_negatives(stage: Stage) -> None:
    model = warmed(reader(stage, MUSEUM), scripted(MUSEUM, 300, 2), steps=25)
    stage.inspect(contrasted(MUSEUM, 320, slot=1), model)


@sound("a column of single texts")
def table_of_single_verdicts(stage: Stage) -> None:
    model = warmed(reader(stage, VERDICTS), scripted(VERDICTS, 300, 2), steps=20)
    stage.inspect({"head": scripted(VERDICTS, 220)["head"]}, model)


def notices(seed: int) -> dict[str, list[str]]:
    """Rows join one to four of the vacancies of a list, so that their lengths differ."""
    draw, facts = random.Random(seed), JOBS.draws(600, seed)
    table: dict[str, list[str]] = {"notice": [], "summary": []}
    while facts:
        rows = [facts.pop() for _ in range(min(len(facts), draw.choice((1, 1, 2, 2, 3, 4))))]
        table["notice"].append(" . ".join(JOBS.texts(rows, 0)))
        roles = [row[0].split("/")[0] + " in " + row[1].split("/")[0] for row in rows]
        draw.shuffle(roles)
        traits = sorted(row[2].split("/")[1] + " " + row[3].split("/")[1] for row in rows)
        table["summary"].append(f"{len(rows)} : {' , '.join(roles)} ( {' , '.join(traits)} )")
    return table


@sound("rows of several sentences in any order")
def table_of_notices_with_several_vacancies(stage: Stage) -> None:
    table, earlier = notices(0), notices(2)
    stage.inspect(table, warmed(words_reader(stage, table, earlier), earlier, steps=20))


@sound("terms of a word or two and their translations")
def table_of_very_short_terms(stage: Stage) -> None:
    """Terms are a stem or two; each stem has its translation, and the second goes in front."""
    draw = random.Random(5)
    words = draw.sample(WORDS, 80)
    translation = dict(zip(words[:40], words[40:], strict=True))
    compounds = [(head, tail) for head in words[:40] for tail in words[:40] if head != tail]
    terms = [*((word,) for word in words[:40]), *draw.sample(compounds, 200)]
    draw.shuffle(terms)
    stage.inspect({
        "term": [" ".join(term) for term in terms],
        "meaning": [" ".join(translation[word] for word in term[::-1]) for term in terms],
    })  # fmt: skip


def sums(seed: int) -> dict[str, list[str]]:
    """Tasks of two numbers in signs, and the same in words with the answer."""
    draw, names = random.Random(seed), {"plus": "and", "times": "fold"}
    numbers = dict.fromkeys((draw.randint(2, 60), draw.randint(2, 60)) for _ in range(220))
    rows = [(*pair, draw.choice(list(names))) for pair in numbers]
    return {
        "task": [f"{a} {sign} {b} ?" for a, b, sign in rows],
        "text": [
            f"{a} {names[sign]} {b} is {a + b if sign == 'plus' else a * b}" for a, b, sign in rows
        ],
    }


@sound("sums in digits and in words")
def table_of_sums_with_numbers(stage: Stage) -> None:
    table, earlier = sums(6), sums(8)
    stage.inspect(table, warmed(words_reader(stage, table, earlier), earlier, steps=20))


@sound("pairs with slips of the keyboard")
def table_of_posts_with_typing_errors(stage: Stage) -> None:
    """A third of the words of the posts lack a letter or have two exchanged."""
    draw, table = random.Random(7), scripted(POSTS, 320)

    def typed(word: str) -> str:
        if len(word) < 3 or draw.random() > 0.3:
            return word
        at = draw.randrange(len(word) - 1)
        swapped = word[:at] + word[at + 1] + word[at] + word[at + 2 :]
        return draw.choice([word[:at] + word[at + 1 :], swapped])

    table["post"] = [" ".join(map(typed, text.split())) for text in table["post"]]
    earlier = scripted(POSTS, 320, 2)
    model = warmed(words_reader(stage, table, earlier, pooling="max"), earlier, steps=20)
    stage.inspect(table, model)


@sound("negatives drawn at random")
def table_of_dreams_with_random_negatives(stage: Stage) -> None:
    table = DREAMS.table(300)
    strangers = DREAMS.texts(DREAMS.draws(300, 4), 1)
    columns = {"dream": table["dream"], "reading": table["reading"], "stranger": strangers}
    same = [row for row in range(300) if columns["reading"][row] == strangers[row]]
    columns = {name: [text for row, text in enumerate(texts) if row not in same]
               for name, texts in columns.items()}  # fmt: skip
    model = warmed(reader(stage, DREAMS, width=32), scripted(DREAMS, 300, 2), steps=20)
    stage.inspect(columns, model)


@sound("questions and code of a language of tables")
def table_of_questions_with_their_statements(stage: Stage) -> None:
    model = warmed(reader(stage, QUERIES, pooling="max"), scripted(QUERIES, 300, 2), steps=30)
    stage.inspect(contrasted(QUERIES, 300, slot=2), model)
