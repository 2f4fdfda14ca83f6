"""Sound set-ups beside the faults of `rebuilt`, near the limits that tell them apart."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import torch

from tests.judgement.case import sound
from tests.judgement.first.rebuilt import (
    by_chance,
    evaluated,
    falling,
    marked,
    untranslated,
    with_queries,
)
from tests.judgement.first.reported_encoders import (
    EVALUATED,
    among_classmates,
    ranking,
    static,
)
from tests.judgement.first.reported_loops import Columns, Loop, embed, gains, infonce
from tests.judgement.stage import Stage, classes, pairs
from tests.judgement.truth import among_alike, learns
from tests.sentence_training import evaluation, losses


@sound("evaluation")
def a_tenth_of_the_queries_among_the_documents(stage: Stage) -> None:
    trainer = stage.trainer(ranking, pairs(), evaluator=with_queries(6), **EVALUATED, max_steps=60)
    learns(stage, trainer, among_alike)


@sound("data")
def a_third_of_the_titles_in_capitals(stage: Stage) -> None:
    """A third of the positives are their anchors in title case, beside real pairs."""
    table = pairs(240)
    for at in range(0, 240, 3):
        table["anchor"][at] = table["positive"][at].title()
    learns(stage, stage.trainer(ranking, table, max_steps=80), among_alike)


@sound("adapters")
def adapters_that_train_the_rows_of_new_tokens(stage: Stage) -> None:
    model, table = marked(stage, trains_rows=True)
    learns(
        stage, stage.trainer(ranking, table, model, learning_rate=5e-3, max_steps=160), among_alike
    )


@sound("hard negatives")
def half_of_the_negatives_by_chance(stage: Stage) -> None:
    learns(
        stage,
        stage.trainer(
            lambda model: losses.TripletLoss(model, triplet_margin=1), by_chance(0.5), max_steps=100
        ),
        among_alike,
    )


@sound("hard negatives")
def nearest_passages_of_other_rows_as_negatives(stage: Stage) -> None:
    """Negatives are other rows' positives, mined by their words."""
    table = pairs()
    questions = [set(text.split()) for text in table["anchor"]]
    passages = [set(text.split()) for text in table["positive"]]
    mined = [
        max(
            (candidate for candidate in range(160) if candidate != row),
            key=lambda candidate: len(question & passages[candidate]),
        )
        for row, question in enumerate(questions)
    ]
    table["negative"] = [table["positive"][candidate] for candidate in mined]
    learns(
        stage,
        stage.trainer(
            lambda model: losses.TripletLoss(model, triplet_margin=1), table, max_steps=100
        ),
        among_alike,
    )


@sound("loop")
def forty_rows_in_a_new_order(stage: Stage) -> None:
    """A small data set, of which each batch holds two fifths."""
    gains(stage, Loop(table=pairs(40)), least=0.03)


@sound("loop")
def gradients_cached_by_hand(stage: Stage) -> None:
    """Embeddings without gradient, then the loss of leaves, then the encoder in parts."""

    def cached(model: Any, criterion: Any, columns: Columns) -> torch.Tensor:
        with torch.no_grad():
            rows = [embed(model, column) for column in columns]
        leaves = [column.requires_grad_() for column in rows]
        value = criterion(*leaves)
        gradients = torch.autograd.grad(value, leaves)
        products = [
            (embed(model, column) * gradient).sum()
            for column, gradient in zip(columns, gradients, strict=True)
        ]
        return torch.stack(products).sum()

    gains(stage, Loop(step=cached, criterion=infonce))


@sound("evaluation")
def a_tenth_of_the_passages_twice_in_the_corpus(stage: Stage) -> None:
    first, second = pairs(60, seed=3).values()
    corpus = {f"d{at}": text for at, text in enumerate(second)}
    search = evaluation.InformationRetrievalEvaluator(
        {f"q{at}": text for at, text in enumerate(first)},
        corpus | {f"a{at}": text for at, text in enumerate(second[:6])},
        {f"q{at}": {f"d{at}"} for at in range(60)},
        name="search",
    )
    learns(stage, evaluated(stage, search), among_alike)


@sound("data")
def a_twentieth_of_the_targets_untranslated(stage: Stage) -> None:
    learns(stage, stage.trainer(ranking, untranslated(0.05), max_steps=60), among_alike)


@sound("schedule")
def rates_that_fall_by_five_from_layer_to_layer(stage: Stage) -> None:
    model = stage.model()
    optimizers = (falling(model, 0.2), None)
    learns(
        stage,
        stage.trainer(ranking, pairs(), model, optimizers=optimizers, max_steps=80),
        among_alike,
    )


@sound("encoder")
def static_embeddings_in_a_second_stage(stage: Stage) -> None:
    """Static embeddings at a rate of 0.005, a tenth of the usual one."""
    learns(
        stage,
        stage.trainer(ranking, pairs(), static(stage), learning_rate=5e-3, max_steps=60),
        among_alike,
        least=0.01,
    )


@sound("label loss")
def shuffled_classes_from_a_stream(stage: Stage) -> None:
    from datasets import Features, IterableDataset, Value

    table, draw = classes(count=320, of_each=40), random.Random(2)
    features = Features({"text": Value("string"), "label": Value("int64")})
    order = draw.sample(range(320), 320)

    def rows() -> Iterator[dict[str, Any]]:
        for _ in range(4):
            for at in order:
                yield {"text": table["text"][at], "label": table["label"][at]}

    plain = stage.trainer(losses.BatchAllTripletLoss, table)
    trainer = type(plain)(
        model=plain.model,
        args=plain.args,
        train_dataset=IterableDataset.from_generator(rows, features=features),
        loss=losses.BatchAllTripletLoss(plain.model, margin=1.0),
    )
    learns(stage, trainer, among_classmates, least=0.0)
