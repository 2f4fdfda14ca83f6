"""Faults between training and use: prompts, lengths and dimensions that only one of them has."""

from __future__ import annotations

from typing import Any

import torch

from tests.judgement.case import faulty
from tests.judgement.first.damaged_texts import EVALUATED, searching
from tests.judgement.first.materials import (
    CUT,
    LONGER,
    InOrder,
    pretrained,
    ranking,
    translated,
)
from tests.judgement.stage import FILLERS, Stage, facts, pairs, passage, question
from tests.judgement.truth import alike, among_alike, reciprocal_rank, retrieval, suffers
from tests.sentence_training import losses

QUERY = " ".join(FILLERS[:7]) + " : "
PASSAGE = " ".join(FILLERS[30:37]) + " : "
PROMPT = [r"prompt|instruction|prefix"]


def asked(model: Any) -> float:
    return retrieval(model, alike(), prompts=(QUERY, ""))


def asked_both(model: Any) -> float:
    return retrieval(model, alike(), prompts=(QUERY, PASSAGE))


@faulty(
    "prompt added at encoding but not in training",
    "The model has a prompt for queries, which encode adds and the trainer does not: training and "
    "evaluation see other texts.",
    PROMPT,
    never=[LONGER],
)
def prompt_of_the_model_alone(stage: Stage) -> None:
    """https://github.com/huggingface/sentence-transformers/issues/2945: prompts of encode."""

    def model() -> Any:
        encoder = stage.model()
        encoder.prompts = {"query": QUERY, "document": ""}
        return encoder

    evaluator = searching(alike(), query_prompt_name="query")
    suffers(
        stage,
        stage.trainer(ranking, pairs(), model(), evaluator=evaluator, **EVALUATED),
        lambda: stage.trainer(ranking, pairs(), model(), prompts={"anchor": QUERY}),
        asked,
        share=None,
    )


@faulty(
    "prompts of query and passage exchanged",
    "In training the questions have the prompt of passages, and the passages that of questions.",
    PROMPT,
    never=[LONGER],
)
def prompts_in_the_other_column(stage: Stage) -> None:
    """https://github.com/basicmachines-co/basic-memory/issues/1284: queries as passages."""
    evaluator = searching(alike(), query_prompt=QUERY, corpus_prompt=PASSAGE)
    exchanged = {"anchor": PASSAGE, "positive": QUERY}
    suffers(
        stage,
        stage.trainer(ranking, pairs(), prompts=exchanged, evaluator=evaluator, **EVALUATED),
        lambda: stage.trainer(ranking, pairs(), prompts={"anchor": QUERY, "positive": PASSAGE}),
        asked_both,
        share=None,
    )


@faulty(
    "prompt for a column that there is not",
    "Prompts are given for the columns query and passage, but the columns are called anchor and "
    "positive: no prompt is added.",
    [*PROMPT, r"column.{0,60}(query|passage|name)"],
    never=[LONGER],
)
def prompts_for_other_columns(stage: Stage) -> None:
    """https://github.com/huggingface/sentence-transformers/pull/2964: prompts by column names."""
    evaluator = searching(alike(), query_prompt=QUERY, corpus_prompt=PASSAGE)
    prompts = {"query": QUERY, "passage": PASSAGE}
    suffers(
        stage,
        stage.trainer(ranking, pairs(), prompts=prompts, evaluator=evaluator, **EVALUATED),
        lambda: stage.trainer(ranking, pairs(), prompts={"anchor": QUERY, "positive": PASSAGE}),
        asked_both,
        share=None,
    )


@faulty(
    "evaluated on a prefix that is not trained",
    "The embeddings are searched by their first four dimensions, but trained whole, without "
    "MatryoshkaLoss.",
    [r"truncat|dimension|matryoshka|prefix|first \d+"],
    never=[LONGER],
)
def four_dimensions_without_matryoshka(stage: Stage) -> None:
    """https://github.com/huggingface/sentence-transformers/pull/2485: truncated embeddings."""

    def short(model: Any) -> float:
        whole, model.truncate_dim = model.truncate_dim, 4
        score = retrieval(model)
        model.truncate_dim = whole
        return score

    def matryoshka(model: Any) -> Any:
        return losses.MatryoshkaLoss(model, ranking(model), [32, 16, 8, 4])

    table = pairs(100, seed=11)
    evaluator = searching(table, truncate_dim=4)
    settings = {"learning_rate": 2e-3, "max_steps": 80}
    suffers(
        stage,
        stage.trainer(ranking, pairs(), evaluator=evaluator, **EVALUATED, **settings),
        lambda: stage.trainer(matryoshka, pairs(), **settings),
        short,
        share=None,
    )


def long_pairs(count: int = 160, seed: int = 0) -> dict[str, list[str]]:
    """Passages whose answer stands behind many other words."""
    asked_for = facts(count, seed)
    return {
        "anchor": [*map(question, asked_for)],
        "positive": [
            " ".join([passage(facts(1, 1000 + at)[0], 8), passage(facts(1, 5000 + at)[0], 8),
                      passage(fact)])
            for at, fact in enumerate(asked_for)
        ],
    }  # fmt: skip


@faulty(
    "trained on shorter texts than used",
    "Passages of training are short, and those of the evaluator, as of the search, are four times "
    "as long.",
    [CUT, r"longer|shorter|length", r"(evaluator|evaluat).{0,100}(other|differ|unlike|training)"],
    never=[LONGER],
)
def evaluated_on_long_passages(stage: Stage) -> None:
    """https://github.com/EmilyAlsentzer/clinicalBERT/issues/40: longer inputs than in training."""
    unseen = long_pairs(100, 11)

    def long_score(model: Any) -> float:
        return retrieval(model, unseen)

    suffers(
        stage,
        stage.trainer(ranking, pairs(), evaluator=searching(unseen), **EVALUATED),
        lambda: stage.trainer(ranking, long_pairs()),
        long_score,
        share=None,
    )


def in_german(table: dict[str, list[str]]) -> dict[str, list[str]]:
    return {name: [translated(text, 60) for text in texts] for name, texts in table.items()}


@faulty(
    "earlier domain forgotten",
    "An encoder that knows one language is trained in another alone, at a high rate; the evaluator "
    "asks in the first.",
    [
        r"forg[eo]t|learning rate|evaluat.{0,80}(other|differ|training)|mix",
    ],
    never=[LONGER],
)
def second_language_alone(stage: Stage) -> None:
    """https://github.com/jina-ai/now/issues/76: generalisation lost by fine-tuning."""
    folder = pretrained(stage, pairs(), max_steps=60, learning_rate=1e-3)
    german, unseen = in_german(pairs(160, seed=3)), alike()
    joined = {name: german[name][:80] + pairs()[name][:80] for name in german}
    settings = {"learning_rate": 5e-3, "max_steps": 60}
    evaluator = searching(unseen)
    suffers(
        stage,
        stage.trainer(ranking, german, stage.model(bert=folder), evaluator=evaluator,
                      eval_strategy="steps", eval_steps=10, **settings),
        lambda: stage.trainer(ranking, joined, stage.model(bert=folder), **settings),
        among_alike,
        share=None,
    )  # fmt: skip


@faulty(
    "second data set trained after the first",
    "Two data sets were appended and rows are taken in order: when the second is done, the first "
    "is forgotten.",
    [
        r"order|shuffl|sort|mix|one after",
        r"forg[eo]t",
    ],
    never=[LONGER],
)
def one_language_after_the_other(stage: Stage) -> None:
    """https://github.com/huggingface/sentence-transformers/issues/2708: the order of two sets."""
    first, second = pairs(160), in_german(pairs(160, seed=3))
    table = {name: first[name] + second[name] * 3 for name in first}
    settings = {"learning_rate": 3e-3, "max_steps": 40, "evaluator": searching(alike())}
    suffers(
        stage,
        stage.trainer(ranking, table, kind=InOrder, **EVALUATED, **settings),
        lambda: stage.trainer(ranking, table, **settings),
        among_alike,
        share=None,
    )


@faulty(
    "weights too coarse for the updates",
    "The weights are kept in bfloat16 and the rate is small: most updates are less than half of "
    "the least step of a weight, and are lost.",
    [
        r"bfloat16|bf16|precision|half|round",
        r"weights?.{0,60}(not|hardly|barely|unchanged|moved)|nothing.{0,40}(moved|changed)",
    ],
    never=[],
)
def bfloat16_weights_at_a_small_rate(stage: Stage) -> None:
    """https://github.com/FlagOpen/FlagEmbedding/issues/353: half precision, nothing learned."""
    settings = {"learning_rate": 5e-5, "max_steps": 80, "lr_scheduler_type": "constant"}

    def score(model: Any) -> float:
        rows = [
            model.encode(texts, show_progress_bar=False, convert_to_tensor=True).float().numpy()
            for texts in pairs(100, seed=11).values()
        ]
        return reciprocal_rank(*rows)

    coarse = stage.model().to(torch.bfloat16)
    suffers(
        stage,
        stage.trainer(ranking, pairs(), coarse, **settings),
        lambda: stage.trainer(ranking, pairs(), **settings),
        score,
    )
