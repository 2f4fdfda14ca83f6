"""Sound set-ups and loops that experts accept without a remark."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from tests.judgement.case import sound
from tests.judgement.first.materials import ranking
from tests.judgement.first.pair_labels import cosent, labelled
from tests.judgement.first.reported_loops import Columns, Loop, embed, gains
from tests.judgement.first.sound_library_losses import teacher
from tests.judgement.stage import Stage, facts, pairs, scored, triplets
from tests.judgement.truth import among_alike, learns, retrieval
from tests.sentence_training import modules
from tests.tiny_models import make_bert

FAST = {"learning_rate": 1e-3}


def quick(weights: Any) -> torch.optim.Optimizer:
    return torch.optim.AdamW(weights, lr=1e-3)


@sound("encoder with convolutions")
def convolutions_of_three_widths(stage: Stage) -> None:
    from sentence_transformers import SentenceTransformer

    torch.manual_seed(7)
    body = modules.Transformer(str(make_bert(stage.folder / "convolved")))
    layers = [modules.CNN(32, 32, [1, 3, 5]), modules.Pooling(96, "mean")]
    model = SentenceTransformer(modules=[body, *layers], device="cpu")
    learns(stage, stage.trainer(ranking, pairs(), model, max_steps=60, **FAST), among_alike)


@sound("answers with a greeting")
def a_quarter_of_the_answers_with_a_greeting(stage: Stage) -> None:
    greeting = "ba lo na ti ka ra bo mu "
    table = pairs()
    answers = [greeting * (at % 4 == 0) + text for at, text in enumerate(table["positive"])]
    learns(stage, stage.trainer(ranking, table | {"positive": answers}, **FAST), among_alike)


@sound("held-out loss near 0")
def rate_lowered_on_a_plateau(stage: Stage) -> None:
    """The held-out loss falls to a thousandth of what it was, and varies there."""
    from datasets import Dataset

    settings = {
        "lr_scheduler_type": "reduce_lr_on_plateau",
        "eval_dataset": Dataset.from_dict(pairs(40, seed=9)),
        "eval_strategy": "steps",
        "eval_steps": 5,
        "metric_for_best_model": "eval_loss",
    }
    learns(stage, stage.trainer(ranking, pairs(), **settings, **FAST), among_alike)


@sound("data sets in turns")
def three_data_sets_of_which_the_smallest_ends_an_epoch(stage: Stage) -> None:
    """An epoch ends with the smallest data set, and the next one draws other rows of the others."""
    from datasets import Dataset

    first = stage.trainer(ranking, pairs(), multi_dataset_batch_sampler="round_robin", **FAST)
    model = first.model
    sets = {
        "faq": Dataset.from_dict(pairs(200)),
        "nli": Dataset.from_dict(triplets(120, seed=3)),
        "sts": Dataset.from_dict(scored(80, seed=4)),
    }
    of_sets = {"faq": ranking(model), "nli": ranking(model), "sts": cosent(model)}
    trainer = type(first)(model=model, args=first.args, train_dataset=sets, loss=of_sets)
    learns(stage, trainer, among_alike)


def signed(margin: float) -> Callable[[Stage], None]:
    """CosineEmbeddingLoss of PyTorch on pairs with the labels 1 and -1."""
    table = labelled()
    labels = [1 if label else -1 for label in table["label"]]
    columns = {"first": table["sentence1"], "second": table["sentence2"], "label": labels}

    def play(stage: Stage) -> None:
        loop = Loop(
            nn.CosineEmbeddingLoss(margin=margin), columns, optimizer=quick, steps=80,
            views=lambda first, second, labels: (first, second),
        )  # fmt: skip
        gains(stage, loop, retrieval)

    return play


@sound("loop with labels of pairs")
def cosine_embeddings_at_a_margin_of_three_tenths(stage: Stage) -> None:
    signed(0.3)(stage)


@sound("loop with labels of pairs")
def cosine_embeddings_at_a_margin_of_a_half(stage: Stage) -> None:
    signed(0.5)(stage)


@sound("loop with triplets")
def triplets_of_unit_vectors_with_swap(stage: Stage) -> None:
    """The margin is met by all triplets before the run ends."""
    loss = nn.TripletMarginLoss(margin=0.3, swap=True)

    def criterion(*views: torch.Tensor) -> torch.Tensor:
        return loss(*(F.normalize(rows, dim=-1) for rows in views))

    gains(stage, Loop(criterion, triplets(), optimizer=quick, steps=80))


@sound("loop with a teacher")
def embeddings_of_a_frozen_teacher(stage: Stage) -> None:
    guide, table = teacher(stage), pairs()

    def step(model: Any, criterion: Any, columns: Columns) -> torch.Tensor:
        with torch.no_grad():
            targets = embed(guide, columns[0])
        return criterion(embed(model, columns[0]), targets)

    texts = {"text": table["anchor"] + table["positive"]}
    loop = Loop(
        nn.MSELoss(), texts, step=step, steps=100,
        optimizer=lambda weights: torch.optim.AdamW(weights, lr=2e-3),
    )  # fmt: skip
    gains(stage, loop)


@sound("functions and their descriptions")
def functions_with_an_argument_x(stage: Stage) -> None:
    asked = facts(160)
    table = {
        "docstring": [f"{fact[0]} the {fact[1]} of {fact[2]} and {fact[3]} ." for fact in asked],
        "code": [
            f"def {fact[0]}_{fact[1]}(x, {fact[2]}):\n    return {fact[0]}(x).{fact[3]}[{fact[5]}]"
            for fact in asked
        ],
    }
    learns(stage, stage.trainer(ranking, table, max_steps=80, learning_rate=2e-3), among_alike)
