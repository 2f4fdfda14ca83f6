"""Losses that are computed well and do not reach the weights as they should."""

from __future__ import annotations

import copy
from typing import Any

import torch
import torch.nn.functional as F
from sentence_transformers import SentenceTransformerTrainer
from sentence_transformers.sentence_transformer import losses
from torch import Tensor, nn

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

ranking = losses.MultipleNegativesRankingLoss
STILL = (
    r"(weights?|encoder|embeddings?|parameters?|model|nothing).{0,80}(not|never|no longer|hardly|"
    r"barely|nothing|does not|do not|has) (been )?(chang|mov|train|updat|learn)",
    r"(not|never|hardly|barely) (chang|mov|train|updat|reach)",
    r"no gradient|without gradient|gradients?.{0,60}(zero|none|missing|lost|not reach|detach)",
    r"optimi[sz]er|zero_grad|requires_grad|detach|no_grad",
)


def _loop(stage: Stage, step_of: Any) -> Setting:
    model = stage.model()
    draw, optimizer = draws(sales()), adamw(model)

    def update(criterion: Any, step: int) -> None:
        step_of(model, draw(), optimizer, criterion)

    return model, info_nce, update


def _right(model: Any, batch: Any, optimizer: Any, criterion: Any) -> None:
    optimizer.zero_grad()
    criterion(*(embed(model, texts) for texts in batch)).backward()
    optimizer.step()


@faulty(
    "gradients wiped before the step",
    "zero_grad() stands between backward() and step(), so that nothing is left to step by.",
    STILL,
)
def zero_grad_between_backward_and_step(stage: Stage) -> None:
    """Three lines of the loop stand in the wrong order."""

    def wrong(model: Any, batch: Any, optimizer: Any, criterion: Any) -> None:
        criterion(*(embed(model, texts) for texts in batch)).backward()
        optimizer.zero_grad()
        optimizer.step()

    slips(stage, lambda: _loop(stage, wrong), lambda: _loop(stage, _right))


@faulty(
    "the optimiser of a copy",
    "The optimiser was built from a copy of the encoder that was then replaced.",
    STILL,
)
def optimizer_of_a_replaced_encoder(stage: Stage) -> None:
    """The encoder is loaded anew after the optimiser was built from its parameters."""

    def setting() -> Setting:
        model = stage.model()
        optimizer = adamw(copy.deepcopy(model))
        draw = draws(sales())

        def update(criterion: Any, step: int) -> None:
            _right(model, draw(), optimizer, criterion)

        return model, info_nce, update

    slips(stage, setting, lambda: _loop(stage, _right))


@faulty(
    "a loss rebuilt from its value",
    "backward() was refused, and the loss was turned into a new tensor that requires gradient: its "
    "gradient ends there.",
    STILL,
)
def loss_rebuilt_from_its_value(stage: Stage) -> None:
    """`torch.tensor(loss.item(), requires_grad=True).backward()`."""

    def wrong(model: Any, batch: Any, optimizer: Any, criterion: Any) -> None:
        optimizer.zero_grad()
        value = criterion(*(embed(model, texts) for texts in batch))
        torch.tensor(value.item(), requires_grad=True).backward()
        optimizer.step()

    slips(stage, lambda: _loop(stage, wrong), lambda: _loop(stage, _right))


@faulty(
    "embeddings of encode() in a loop",
    "encode() computes without gradient; requires_grad_() on its output makes backward() run, and "
    "nothing reaches the encoder.",
    STILL,
)
def encode_called_in_the_training_loop(stage: Stage) -> None:
    """`model.encode(texts, convert_to_tensor=True).requires_grad_()` in place of a forward pass."""

    def wrong(model: Any, batch: Any, optimizer: Any, criterion: Any) -> None:
        optimizer.zero_grad()
        rows = [
            model.encode(list(texts), convert_to_tensor=True, show_progress_bar=False).clone()
            for texts in batch
        ]
        criterion(*(embeddings.requires_grad_() for embeddings in rows)).backward()
        optimizer.step()

    slips(stage, lambda: _loop(stage, wrong), lambda: _loop(stage, _right))


class Anchored(SentenceTransformerTrainer):
    """A trainer that holds the weights near their start by a penalty outside the loss."""

    strength = 0.0

    def compute_loss(self, model: Any, inputs: Any, *further: Any, **options: Any) -> Any:
        if not hasattr(self, "start"):
            self.start = [row.detach().clone() for row in model.parameters()]
        value = super().compute_loss(model, inputs, *further, **options)
        drift = sum(
            (row - first).square().sum()
            for row, first in zip(model.parameters(), self.start, strict=True)
        )
        return value + self.strength * drift


class Chained(Anchored):
    strength = 3e4


@faulty(
    "a penalty outside the loss",
    "The trainer adds 30,000 times the squared distance from the first weights, which outweighs "
    "the loss.",
    (
        *STILL,
        r"penalt|regulari|(added|further|outside|additional) (term|loss)|"
        r"term.{0,40}(outside|added)",
        r"(loss|value).{0,80}(differ|not the|larger than|recorded|optimi[sz]ed)",
    ),
)
def penalty_on_drift_that_outweighs_the_loss(stage: Stage) -> None:
    """L2-SP with the strength of a sum where that of a mean was meant."""
    settings = {"learning_rate": 1e-3, "max_steps": 60}
    suffers(
        stage,
        stage.trainer(ranking, sales(), kind=Chained, **settings),
        lambda: stage.trainer(ranking, sales(), kind=Anchored, **settings),
        on_shelf,
        share=0.8,
    )


class Likelihood(nn.Module):
    """The mean log-likelihood of the positives times a sign."""

    def __init__(self, model: Any, sign: float) -> None:
        super().__init__()
        self.model, self.sign = model, sign

    def forward(self, features: Any, labels: Tensor | None = None) -> Tensor:
        first, second = (F.normalize(self.model(column)["sentence_embedding"], dim=1)
                         for column in features)  # fmt: skip
        return self.sign * (20 * first @ second.T).log_softmax(1).diagonal().mean()


@faulty(
    "the likelihood minimised",
    "The loss is the mean log-likelihood without its minus: positives are pushed away.",
    (
        r"\bsign\b|minus|revers|invert|opposite|negated|wrong way",
        r"(positive|pair)s?.{0,80}(away|apart|farther|fall|less alike|below|worse|last|lower)",
        r"loss.{0,40}(negative|below (0|zero))|negative loss",
        r"(score|accuracy|margin|gap).{0,60}(falls|fell|below chance|worse|negative)",
    ),
)
def log_likelihood_without_its_minus(stage: Stage) -> None:
    """log_softmax(...).diagonal().mean() is returned as the loss."""
    suffers(
        stage,
        stage.trainer(lambda model: Likelihood(model, 1.0), sales(), learning_rate=1e-3),
        lambda: stage.trainer(lambda model: Likelihood(model, -1.0), sales(), learning_rate=1e-3),
        on_shelf,
    )
