"""Prompts that run into texts, rows that contradict others, and the similarity of a model."""

from __future__ import annotations

import itertools
import random
from types import SimpleNamespace

import pytest

from gradlab.diagnosis.answer_measurements import conflicts, seams
from tests.judgement.stage import Stage, pairs
from tests.sentence_training import losses


def observation(tables, prompts=None, tokenize=str.split, labels=()):
    """An observation of tables of texts alone."""
    rows = {name: SimpleNamespace(column_names=[*table, *labels]) for name, table in tables.items()}
    return SimpleNamespace(
        tables=tables,
        args=SimpleNamespace(prompts=prompts),
        trainer=SimpleNamespace(
            model=SimpleNamespace(tokenizer=SimpleNamespace(tokenize=tokenize))
        ),
        rows_of=rows.get,
        table_of=tables.get,
    )


def contrary_share(tables):
    """Compare every row with every other one."""
    rows = [
        (name, *row) for name, table in tables.items() for row in zip(*table.values(), strict=True)
    ]
    due = [row for row in rows if len(row) > 3]
    contrary = 0
    for name, anchor, positive, *negatives in due:
        contrary += any(
            other_anchor == anchor
            and other_positive == negative != positive
            and (other != name or positive in others)
            for negative, (other, other_anchor, other_positive, *others) in itertools.product(
                negatives, rows
            )
        )
    return contrary / len(due)


def table_of(draw, columns, count=40):
    texts = {"a": "query"} | {name: "text" for name in columns}
    return {
        name: [f"{word} {draw.randrange(5)}" for _ in range(count)] for name, word in texts.items()
    }


@pytest.mark.parametrize("seed", range(4))
def test_contrary_rows_are_those_of_every_comparison(seed):
    draw = random.Random(seed)
    tables = {"x": table_of(draw, "pn"), "y": table_of(draw, "pnm"), "z": table_of(draw, "p", 3)}
    assert conflicts(observation(tables))["share"] == contrary_share(tables)
    alone = {"": table_of(draw, "pn")}
    assert 0 < conflicts(observation(alone))["share"] == contrary_share(alone)


def test_rankings_of_answers_are_no_conflict():
    table = {"a": ["q"] * 3, "p": ["best", "best", "good"], "n": ["good", "bad", "bad"]}
    assert conflicts(observation({"": table}))["share"] == 0
    assert conflicts(observation({"": table}, labels=["score"])) is None
    assert conflicts(observation({"": {"a": ["q"], "p": ["b"]}})) is None


@pytest.mark.parametrize(
    ("prompt", "share"),
    [("query", 0.75), ("query ", 0.0), ("query: ", 0.0), ("query:", 0.0), ("", None)],
)
def test_prompt_and_first_word_are_one(prompt, share):
    table = {"a": ["what is it", "why", "8 of them", "(none)"], "b": ["x", "y", "z", "w"]}
    numbers = seams(observation({"": table}, prompts={"a": prompt}))
    assert (numbers and numbers["share"]) == share


def test_pieces_that_stay_are_not_lost():
    table = {"a": ["what is it", "why"]}
    assert seams(observation({"": table}, prompts="query", tokenize=list))["share"] == 0


def test_similarity_of_a_model_counts_without_an_evaluator(tmp_path):
    from gradlab import doctor

    judged = {}
    for name in ("dot", "cosine"):
        stage = Stage(tmp_path)
        model = stage.model()
        model.similarity_fn_name = name
        trainer = stage.trainer(losses.MultipleNegativesRankingLoss, pairs(), model)
        names = [verdict.name for verdict in doctor(trainer, progress=False).verdicts]
        judged[name] = "compared otherwise" in names
    assert judged == {"dot": True, "cosine": False}
