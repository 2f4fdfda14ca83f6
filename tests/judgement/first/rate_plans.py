"""Rates and frozen weights by which a run gets nowhere, or too far."""

from __future__ import annotations

from typing import Any

import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer import losses
from sentence_transformers.sentence_transformer.modules import Dense, Pooling, Transformer

from tests.judgement.case import faulty
from tests.judgement.first.catalogue import (
    Setting,
    adamw,
    draws,
    embed,
    info_nce,
    on_shelf,
    sales,
    slips,
)
from tests.judgement.stage import Stage
from tests.judgement.truth import suffers
from tests.tiny_models import make_bert

ranking = losses.MultipleNegativesRankingLoss
SLOW = (
    r"(learning )?rates?.{0,80}(0\b|zero|small|low|vanish|decay|fall|ends?|tiny|never|raise)",
    r"warm-?up|schedul",
    r"(weights?|encoder|embeddings?).{0,60}(hardly|not|barely|no longer|nothing).{0,20}("
    r"chang|mov|learn)",
    r"(hardly|barely|not|never) (chang|mov|learn|reach)",
)


def _scheduled(stage: Stage, schedule_of: Any, steps_it: bool) -> Setting:
    model = stage.model()
    draw, optimizer = draws(sales()), adamw(model)
    schedule = schedule_of(optimizer)

    def update(criterion: Any, step: int) -> None:
        optimizer.zero_grad()
        criterion(*(embed(model, texts) for texts in draw())).backward()
        optimizer.step()
        if steps_it:
            schedule.step()

    return model, info_nce, update


def _linear(warmup: int, steps: int) -> Any:
    from transformers import get_linear_schedule_with_warmup

    return lambda optimizer: get_linear_schedule_with_warmup(optimizer, warmup, steps)


@faulty(
    "a schedule counted in epochs, stepped by batches",
    "The linear schedule ends after 5 epochs and is stepped after each batch: the rate is 0 from "
    "the sixth batch on.",
    SLOW,
)
def linear_schedule_of_five_epochs_stepped_per_batch(stage: Stage) -> None:
    """num_training_steps is the number of epochs, and schedule.step() stands in the inner loop."""
    slips(
        stage,
        lambda: _scheduled(stage, _linear(0, 5), True),
        lambda: _scheduled(stage, _linear(0, 60), True),
    )


@faulty(
    "a warm-up that is never stepped",
    "The schedule begins its warm-up at a rate of 0, and schedule.step() is missing.",
    SLOW,
)
def warmup_schedule_never_stepped(stage: Stage) -> None:
    """A schedule with warm-up was added to the loop, but not its step."""
    slips(
        stage,
        lambda: _scheduled(stage, _linear(6, 60), False),
        lambda: _scheduled(stage, _linear(6, 60), True),
    )


@faulty(
    "a rate halved at each batch",
    "ExponentialLR(gamma=0.5), meant for epochs, is stepped by the trainer after each batch.",
    SLOW,
)
def exponential_decay_stepped_by_the_trainer(stage: Stage) -> None:
    """A pair of optimiser and schedule from a plain loop goes to the trainer's `optimizers`."""

    def trainer(gamma: float) -> Any:
        model = stage.model()
        optimizer = adamw(model)
        schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=gamma)
        return stage.trainer(ranking, sales(), model, optimizers=(optimizer, schedule))

    suffers(stage, trainer(0.5), lambda: trainer(0.99), on_shelf)


def _with_head(stage: Stage) -> Any:
    torch.manual_seed(7)
    body = Transformer(str(make_bert(stage.folder / "bert")))
    head = Dense(32, 32, activation_function=torch.nn.Tanh())
    return SentenceTransformer(modules=[body, Pooling(32), head], device="cpu")


@faulty(
    "no layer of the name that is to be trained",
    "All weights without 'layer.11' in their name are frozen, and the encoder has two layers: only "
    "the dense module on top is trained.",
    (
        r"frozen|freez|requires_grad|(not|never|no) train|trainable",
        r"(weights?|layers?|encoder).{0,80}(not|never|no).{0,20}(chang|mov|train|learn|gradient)",
    ),
)
def only_the_twelfth_of_two_layers_unfrozen(stage: Stage) -> None:
    """The loop that unfreezes the last layer was written for a larger encoder."""

    def trainer(last: str) -> Any:
        model = _with_head(stage)
        for name, row in model[0].named_parameters():
            row.requires_grad = last in name
        return stage.trainer(ranking, sales(), model, learning_rate=1e-3, max_steps=60)

    suffers(stage, trainer("layer.11"), lambda: trainer("layer."), on_shelf, share=0.8)


@faulty(
    "gradient descent at a rate for Adam",
    "Plain SGD runs at the 2e-5 that suits AdamW: the weights hardly move.",
    SLOW,
)
def sgd_at_the_rate_of_adamw(stage: Stage) -> None:
    """The optimiser was exchanged to spare memory, and the rate stayed."""
    settings = {"optim": "sgd", "max_steps": 60}
    suffers(
        stage,
        stage.trainer(ranking, sales(), learning_rate=2e-5, **settings),
        lambda: stage.trainer(ranking, sales(), learning_rate=0.2, **settings),
        on_shelf,
    )


@faulty(
    "a rate a hundred times too high",
    "The rate is 0.1 for AdamW: the encoder is destroyed in a few steps.",
    (
        r"(learning )?rates?.{0,80}(high|large|too|great|lower|reduce)|"
        r"lower (the )?(learning )?rate",
        r"diverg|collaps|explod|unstable|blow|alike|spread|rank",
    ),
)
def adamw_at_a_rate_for_sgd(stage: Stage) -> None:
    """A rate that served plain SGD stays when AdamW takes its place."""
    suffers(
        stage,
        stage.trainer(ranking, sales(), learning_rate=0.1, max_steps=50, warmup_steps=0),
        lambda: stage.trainer(ranking, sales(), learning_rate=1e-3, max_steps=50),
        on_shelf,
    )
