"""Sound set-ups: data of many kinds, mixed sources, odd names, prompts, other scripts."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

from tests.judgement.case import sound
from tests.judgement.first.evaluations import search
from tests.judgement.first.loop_materials import FAST, cosent, ranking, shuffled, uneven
from tests.judgement.stage import (
    FILLERS,
    PEOPLE,
    Stage,
    facts,
    lookalike,
    pairs,
    passage,
    question,
    triplets,
)
from tests.judgement.truth import alike, among_alike, learns, retrieval
from tests.tiny_models import make_bert


@sound("columns with names of another language")
def spalten_mit_deutschen_namen(stage: Stage) -> None:
    table = dict(zip(("frage", "antwort"), pairs().values(), strict=True))
    learns(stage, stage.trainer(ranking, table, **FAST), among_alike)


@sound("titles that seek their articles")
def title_and_body(stage: Stage) -> None:
    stories = facts(160)
    table = {
        "title": [f"{fact[2]} {fact[3]} {fact[1]}" for fact in stories],
        "body": [passage(fact, 10) for fact in stories],
    }
    stage.inspect(table)
    learns(stage, stage.trainer(ranking, table, **FAST), among_alike)


@sound("texts of very different lengths")
def short_and_long_passages(stage: Stage) -> None:
    learns(
        stage,
        stage.trainer(ranking, uneven(), **FAST),
        lambda model: retrieval(model, uneven(100, seed=11)),
    )


@sound("labels of one word")
def products_and_their_category(stage: Stage) -> None:
    """Names of products with a path of categories: the texts are short, and none repeats."""
    sold = facts(160)
    table = {
        "product": [f"{fact[1]} {fact[2]}" for fact in sold],
        "path": [f"{fact[2]} , {fact[1]} , {fact[3]}" for fact in sold],
    }
    unseen = facts(100, seed=11)
    sought = {
        "product": [f"{fact[1]} {fact[2]}" for fact in unseen],
        "path": [f"{fact[2]} , {fact[1]} , {fact[3]}" for fact in unseen],
    }
    learns(stage, stage.trainer(ranking, table), lambda model: retrieval(model, sought))


@sound("questions with several answers each, kept apart in batches")
def four_answers_to_each_question(stage: Stage) -> None:
    table: dict[str, list[str]] = {"question": [], "answer": []}
    for fact in facts(50):
        for number in range(4):
            table["question"].append(question(fact))
            table["answer"].append(passage((*fact[:4], PEOPLE[number], str(number + 5)), 3))
    settings = {"batch_sampler": "no_duplicates", **FAST}
    learns(stage, stage.trainer(ranking, shuffled(table), **settings), among_alike)


@sound("a few hard negatives of a single word")
def one_negative_in_fifty_is_short(stage: Stage) -> None:
    table = triplets()
    negatives = [
        text.split()[0] if row % 50 == 0 else text for row, text in enumerate(table["negative"])
    ]
    learns(stage, stage.trainer(ranking, table | {"negative": negatives}, **FAST), among_alike)


@sound("far more pairs that do not fit than pairs that do")
def one_pair_in_four_fits(stage: Stage) -> None:
    asked, strangers = facts(160), facts(160, seed=6)
    table = {
        "sentence1": [*map(question, asked)],
        "sentence2": [
            passage(asked[row] if row % 4 == 0 else strangers[row]) for row in range(160)
        ],
        "score": [float(row % 4 == 0) for row in range(160)],
    }
    learns(stage, stage.trainer(cosent, shuffled(table), **FAST), retrieval)


def prompted(model: Any) -> float:
    return retrieval(model, alike(), prompts=("query : ", "passage : "))


@sound("prompts of E5 for questions and passages")
def query_and_passage_prompts(stage: Stage) -> None:
    prompts = {"anchor": "query : ", "positive": "passage : "}
    evaluator = search(alike(seed=12), query_prompt="query : ", corpus_prompt="passage : ")
    settings = {"eval_strategy": "steps", "eval_steps": 20, "evaluator": evaluator, **FAST}
    learns(stage, stage.trainer(ranking, pairs(), prompts=prompts, **settings), prompted)


@sound("instruction for questions only, left out of the mean")
def instruction_left_out_of_the_mean(stage: Stage) -> None:
    instruction = f"{' '.join(FILLERS[70:76])} : "
    model = stage.model()
    model[1].include_prompt = False
    learns(
        stage,
        stage.trainer(ranking, pairs(), model, prompts={"anchor": instruction}, **FAST),
        lambda encoder: retrieval(encoder, alike(), prompts=(instruction, "")),
    )


CYRILLIC = str.maketrans("abdefgijklmnoprstuvz", "абдефгийклмнопрстувз")


def in_cyrillic(table: dict[str, list[str]]) -> dict[str, list[str]]:
    return {name: [text.translate(CYRILLIC) for text in texts] for name, texts in table.items()}


def cyrillic_bert(folder: Path) -> Path:
    """A tiny BERT whose vocabulary is written in Cyrillic letters."""
    import json

    make_bert(folder)
    file = folder / "tokenizer.json"
    content = json.loads(file.read_text(encoding="utf-8"))
    content["model"]["vocab"] = {
        token if token.startswith("[") else token.translate(CYRILLIC): number
        for token, number in content["model"]["vocab"].items()
    }
    file.write_text(json.dumps(content), encoding="utf-8")
    return folder


@sound("another script, which the vocabulary has")
def texts_in_cyrillic(stage: Stage) -> None:
    unseen = in_cyrillic(alike())
    model = stage.model(bert=cyrillic_bert(stage.folder / "cyrillic"))
    learns(
        stage,
        stage.trainer(ranking, in_cyrillic(pairs()), model, **FAST),
        lambda encoder: retrieval(encoder, unseen),
    )


def mixed(stage: Stage, sampler: str, **settings: Any) -> Any:
    """A trainer of two sources of pairs, one three times as large as the next."""
    from datasets import Dataset

    base = stage.trainer(
        ranking, pairs(), multi_dataset_batch_sampler=sampler, **{**FAST, **settings}
    )
    small = [lookalike(fact) for fact in facts(64, seed=9)]
    sources = {
        "faq": Dataset.from_dict(pairs(192)),
        "titles": Dataset.from_dict(
            {"title": [" ".join(text.split()[:2]) for text in small], "text": small}
        ),
    }
    return type(base)(
        model=base.model, args=base.args, train_dataset=sources, loss=ranking(base.model)
    )


@sound("two sources in proportion")
def sources_in_proportion(stage: Stage) -> None:
    learns(stage, mixed(stage, "proportional"), among_alike)


@sound("passages cut at their ends, where nothing is asked")
def long_passages_cut_at_the_end(stage: Stage) -> None:
    stories = facts(160)
    table = {
        "anchor": [*map(question, stories)],
        "positive": [passage(fact, 12) for fact in stories],
    }
    learns(stage, stage.trainer(ranking, table, stage.model(length=14), **FAST), among_alike)


@sound("numbers and dates in all texts")
def invoices_with_numbers(stage: Stage) -> None:
    draw, table = random.Random(2), {"query": [], "invoice": []}
    for fact in facts(160):
        day = f"{draw.randint(1, 28)} . {draw.randint(1, 12)} . 2024"
        table["query"].append(f"{fact[2]} {fact[1]} {day}")
        table["invoice"].append(f"{day} {passage(fact)}")
    stage.inspect(table)
    learns(stage, stage.trainer(ranking, table, **FAST), among_alike)
