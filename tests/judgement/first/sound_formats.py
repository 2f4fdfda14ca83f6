"""Sound set-ups of texts with a format, copies that hardly meet, and long documents."""

from __future__ import annotations

import random

from tests.judgement.case import sound
from tests.judgement.first.reported_encoders import ranking
from tests.judgement.stage import FILLERS, Stage, facts, pairs, passage, question
from tests.judgement.truth import among_alike, learns, retrieval
from tests.tiny_models import make_roberta


def documents(count: int = 160, words: int = 24) -> dict[str, list[str]]:
    """Questions, and passages that go on about something else."""
    draw, asked = random.Random(4), facts(count)
    endings = [" ".join(draw.choices(FILLERS, k=words)) for _ in asked]
    return {
        "question": [*map(question, asked)],
        "document": [
            f"{passage(fact)} {ending}" for fact, ending in zip(asked, endings, strict=True)
        ],
    }


@sound("format")
def answers_in_html(stage: Stage) -> None:
    """All answers are paragraphs and lists of a page, in training and in use."""
    table = pairs()
    table["positive"] = [f"<p>{text}</p><ul><li>{text[:9]}</li></ul>" for text in table["positive"]]
    model = stage.model(bert=make_roberta(stage.folder / "roberta"))
    settings = {"learning_rate": 2e-3, "max_steps": 60}
    learns(stage, stage.trainer(ranking, table, model, **settings), among_alike)


@sound("format")
def portuguese_in_capitals(stage: Stage) -> None:
    table = pairs()
    table["positive"] = [f"{text.upper()} NÃO SÃO" for text in table["positive"]]
    learns(stage, stage.trainer(ranking, table), among_alike)


@sound("copies")
def two_questions_twice_in_large_batches(stage: Stage) -> None:
    """Two questions have two passages: a pair meets in every third batch, which two rows know."""
    asked = [*facts(158), *facts(2)]
    table = {
        "anchor": [*map(question, asked)],
        "positive": [passage(fact, fillers=2 + (at >= 158)) for at, fact in enumerate(asked)],
    }
    learns(stage, stage.trainer(ranking, table, per_device_train_batch_size=64), among_alike)


@sound("length")
def long_documents_that_begin_with_the_answer(stage: Stage) -> None:
    """Documents of 34 words are cut at 20 tokens, behind what is asked."""
    table = documents()
    learns(stage, stage.trainer(ranking, table, stage.model(length=20)), among_alike)


@sound("inspected columns")
def views_by_dropout_inspected(stage: Stage) -> None:
    texts = pairs()["positive"]
    stage.inspect({"text": texts, "view": texts})


@sound("format")
def part_numbers_sought(stage: Stage) -> None:
    """Queries are the numbers of spare parts, which their descriptions hold."""

    def described(seed: int) -> dict[str, list[str]]:
        draw = random.Random(seed)
        parts = [f"{draw.choice('abkrt')}{draw.randint(1000, 9999)}" for _ in range(160)]
        titles = [passage(fact, fillers=0) for fact in facts(160, seed)]
        return {"part": parts, "title": [f"{a} {b}" for a, b in zip(titles, parts, strict=True)]}

    settings = {"learning_rate": 2e-3, "max_steps": 80}
    learns(
        stage,
        stage.trainer(ranking, described(0), **settings),
        lambda model: retrieval(model, described(11)),
    )
