"""Sound set-ups, each with other texts."""

from __future__ import annotations

import random
from typing import Any

from tests.judgement.case import sound
from tests.judgement.first.scenes import (
    across,
    agreement,
    among_uneven,
    bilingual,
    graded,
    inspect_tuned,
    translated,
    uneven,
)
from tests.judgement.first.units import apart
from tests.judgement.stage import FILLERS, Stage, facts, pairs, passage
from tests.judgement.truth import learns, retrieval
from tests.sentence_training import losses

ranking = losses.MultipleNegativesRankingLoss
PLAN = {"learning_rate": 2e-3, "max_steps": 80}


def _learns(
    stage: Stage, table: Any, score: Any = across, loss: Any = ranking, **plan: Any
) -> None:
    learns(stage, stage.trainer(loss, table, **{**PLAN, **plan}), score)


@sound("questions in another language")
def answers_in_another_language(stage: Stage) -> None:
    _learns(stage, bilingual(640))
    inspect_tuned(stage, bilingual(640))


@sound("several questions for each answer")
def several_questions_of_each_answer(stage: Stage) -> None:
    table = bilingual(160)
    rows = [at for at in range(160) for _ in range(3)]
    questions = {
        "question": [f"{table['anchor'][at]} {FILLERS[n % 40]}" for n, at in enumerate(rows)],
        "answer": [table["positive"][at] for at in rows],
    }
    _learns(stage, questions, batch_sampler="no_duplicates", max_steps=100)


def keywords(count: int, seed: int = 0) -> dict[str, list[str]]:
    """Two words for each passage in the other language."""
    statements = facts(count, seed)
    return {
        "query": [f"{topic} {place}" for _, topic, place, *_ in statements],
        "document": [translated(passage(fact)) for fact in statements],
    }


@sound("queries of two words")
def short_queries_of_keywords(stage: Stage) -> None:
    _learns(stage, keywords(640), lambda model: retrieval(model, keywords(100, seed=11)))
    inspect_tuned(stage, keywords(640))


def functions(count: int, seed: int = 0) -> dict[str, list[str]]:
    """Descriptions in words, and functions that do as they say."""
    statements = facts(count, seed)
    return {
        "description": [f"{verb} the {topic} of {place}" for verb, topic, place, *_ in statements],
        "code": [
            " ".join(map(translated, (verb, topic))).replace(" ", "_")
            + f"({translated(place)}, {number}): return {translated(near)}.{person}"
            for verb, topic, place, near, person, number in statements
        ],
    }


@sound("descriptions of code")
def code_that_descriptions_seek(stage: Stage) -> None:
    _learns(
        stage,
        functions(640),
        lambda model: retrieval(model, functions(100, seed=11)),
        max_steps=100,
    )


def templates(count: int, seed: int = 0) -> dict[str, list[str]]:
    """Tickets that are written by one template."""
    statements = facts(count, seed)
    return {
        "ticket": [
            f"dear team , {place} has a {topic} that does {verb} , please help ."
            for verb, topic, place, *_ in statements
        ],
        "solution": [
            translated(f"to {verb} a {topic} in {place} ask {person} .")
            for verb, topic, place, _, person, _ in statements
        ],
    }


@sound("texts of one template")
def tickets_of_one_template(stage: Stage) -> None:
    _learns(stage, templates(640), lambda model: retrieval(model, templates(100, seed=11)))


@sound("long and short passages")
def passages_of_different_lengths(stage: Stage) -> None:
    _learns(stage, uneven(320), among_uneven, learning_rate=1e-3)
    inspect_tuned(stage, uneven(320))


@sound("several hard negatives")
def three_negatives_of_each_row(stage: Stage) -> None:
    table = apart()
    for shift in (5, 7):
        table[f"negative_{shift}"] = table["positive"][shift:] + table["positive"][:shift]
    _learns(stage, table, max_steps=60)


@sound("datasets with a loss each")
def two_datasets_with_their_losses(stage: Stage) -> None:
    from datasets import Dataset, DatasetDict

    tables = {"pairs": bilingual(480), "scores": graded(160)}
    model = stage.model()
    trainer = stage.trainer(ranking, bilingual(16), model, **{**PLAN, "max_steps": 100})
    dataset = DatasetDict({name: Dataset.from_dict(table) for name, table in tables.items()})
    trainer = type(trainer)(
        model=model,
        args=trainer.args,
        train_dataset=dataset,
        loss={"pairs": ranking(model), "scores": losses.CoSENTLoss(model)},
    )
    learns(stage, trainer, across)


@sound("streamed rows")
def rows_that_are_streamed(stage: Stage) -> None:
    from datasets import Dataset

    model = stage.model()
    trainer = stage.trainer(ranking, bilingual(16), model, **PLAN)
    dataset = Dataset.from_dict(bilingual(1600)).to_iterable_dataset()
    trainer = type(trainer)(
        model=model, args=trainer.args, train_dataset=dataset, loss=ranking(model)
    )
    learns(stage, trainer, across)


@sound("prompts of both sides")
def prompts_before_questions_and_passages(stage: Stage) -> None:
    prompts = {"anchor": "zan : ", "positive": "zin : "}
    _learns(
        stage,
        bilingual(640),
        lambda model: retrieval(model, bilingual(100, seed=11), prompts=tuple(prompts.values())),
        prompts=prompts,
    )


@sound("few rows for many epochs")
def few_rows_and_many_epochs(stage: Stage) -> None:
    _learns(stage, pairs(48), retrieval, learning_rate=5e-4)


@sound("scores of 0 and 1 by order")
def two_scores_by_order(stage: Stage) -> None:
    first, right, wrong = apart().values()
    texts = [(wrong[at], right[at])[at % 2] for at in range(640)]
    table = {"a": first, "b": texts, "score": [float(at % 2) for at in range(640)]}
    _learns(stage, table, loss=losses.CoSENTLoss, max_steps=120)


@sound("capitals and marks")
def questions_with_capitals_and_marks(stage: Stage) -> None:
    draw, table = random.Random(0), bilingual(640)
    questions = [draw.choice((str.upper, str.title, str))(text) for text in table["anchor"]]
    _learns(stage, table | {"anchor": [text.replace(" ?", "??") for text in questions]})


@sound("scores of stars brought to cosines")
def stars_brought_to_cosines(stage: Stage) -> None:
    stars = [round(4 * score) / 4 for score in graded()["score"]]
    table = graded() | {"score": stars}
    _learns(stage, table, agreement, losses.CosineSimilarityLoss)
