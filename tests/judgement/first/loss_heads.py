"""Weights that belong to the loss or stand between it and the encoder."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.judgement.case import faulty
from tests.judgement.first.catalogue import (
    Setting,
    draws,
    embed,
    info_nce,
    on_shelf,
    sales,
    slips,
)
from tests.judgement.stage import Stage
from tests.judgement.truth import suffers


@faulty(
    "rates of encoder and head exchanged",
    "The encoder has the head's rate of 0.05, and the head the encoder's of 0.001.",
    (
        r"(learning )?rate.{0,80}(high|large|too|great|exchang|swap)",
        r"diverg|collaps|explod|unstable|blow|spread|alike|rank",
    ),
)
def rates_of_encoder_and_head_exchanged(stage: Stage) -> None:
    """Two parameter groups have each the rate that the other should have."""

    def setting(encoder_rate: float, head_rate: float) -> Setting:
        model = stage.model()
        head = nn.Linear(32, 32)
        draw = draws(sales())
        optimizer = torch.optim.AdamW(
            [
                {"params": model.parameters(), "lr": encoder_rate},
                {"params": head.parameters(), "lr": head_rate},
            ]
        )

        def update(criterion: Any, step: int) -> None:
            optimizer.zero_grad()
            criterion(*(head(embed(model, texts)) for texts in draw())).backward()
            optimizer.step()

        return model, info_nce, update

    slips(stage, lambda: setting(5e-2, 1e-3), lambda: setting(1e-3, 5e-2))


class Balanced(nn.Module):
    """Two ranking losses, of both directions, weighted by parameters that are learned."""

    def __init__(self, model: Any, variances: bool) -> None:
        super().__init__()
        self.model, self.variances = model, variances
        self.weights = nn.Parameter(torch.zeros(2))

    def forward(self, features: Any, labels: Tensor | None = None) -> Tensor:
        first, second = (F.normalize(self.model(column)["sentence_embedding"], dim=1)
                         for column in features)  # fmt: skip
        logits, targets = 20 * first @ second.T, torch.arange(len(first))
        terms = torch.stack([F.cross_entropy(logits, targets), F.cross_entropy(logits.T, targets)])
        if self.variances:
            return (terms * (-self.weights).exp() + self.weights).sum()
        return (terms * self.weights).sum()


@faulty(
    "learned weights of terms that turn negative",
    "The loss learns the weights of its terms without exp() or bound: they become negative, and "
    "the encoder learns to raise the terms.",
    (
        r"loss.{0,60}(negative|below (0|zero)|unbounded|without bound)|negative loss",
        r"\bsign\b|revers|invert|opposite|negative weight|weights?.{0,40}(negative|below)",
        r"(positive|pair)s?.{0,80}(away|apart|farther|fall|less alike|below|worse|lower)",
        r"(score|accuracy|margin|gap).{0,60}(falls|fell|below chance|worse|negative)",
    ),
)
def learned_weights_of_terms_without_bound(stage: Stage) -> None:
    """Weighting by uncertainty, of which exp(-s) and + s were left out."""
    settings = {"learning_rate": 1e-3, "max_steps": 50}
    suffers(
        stage,
        stage.trainer(lambda model: Balanced(model, False), sales(), **settings),
        lambda: stage.trainer(lambda model: Balanced(model, True), sales(), **settings),
        on_shelf,
    )


class Projected(nn.Module):
    """A ranking loss behind a projection; with ``probing`` the encoder's output is detached."""

    def __init__(self, model: Any, probing: bool) -> None:
        super().__init__()
        self.model, self.probing = model, probing
        self.projection = nn.Linear(32, 32)

    def forward(self, features: Any, labels: Tensor | None = None) -> Tensor:
        rows = [self.model(column)["sentence_embedding"] for column in features]
        if self.probing:
            rows = [embeddings.detach() for embeddings in rows]
        return info_nce(*map(self.projection, rows))


@faulty(
    "a projection trained on detached embeddings",
    "The loss detaches the embeddings before its projection, as for a probe: the loss falls, and "
    "the encoder is never trained.",
    (
        r"(encoder|embeddings?|weights?|model|parameters?).{0,80}(not|never|no|nothing|hardly|still)"
        r".{0,20}(chang|mov|train|learn|gradient|updat)",
        r"detach|no gradient|gradients?.{0,60}(zero|none|missing|not reach)|frozen",
    ),
)
def projection_of_detached_embeddings(stage: Stage) -> None:
    """detach() remains in the loss from a probe of the untrained encoder."""
    settings = {"learning_rate": 1e-3, "max_steps": 50}
    suffers(
        stage,
        stage.trainer(lambda model: Projected(model, True), sales(), **settings),
        lambda: stage.trainer(lambda model: Projected(model, False), sales(), **settings),
        on_shelf,
    )
