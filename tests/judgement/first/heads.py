"""The loss's own weights: centres that never leave zero."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from tests.judgement.case import faulty
from tests.judgement.stage import Stage, classes
from tests.judgement.truth import suffers

OUTSIDE = (
    r"optimi[sz]er", r"loss'?s? (own )?(weight|parameter|head|cent)", r"classifier", r"proxies",
    r"(centres|centers|head|weights?|parameters?).{0,80}(never|not|no|stay|still|frozen|zero|0\b)",
    r"(no|zero|without) gradient", r"gradient.{0,60}(zero|\b0\b|none|no\b|nothing)",
    r"(does|do|did) not (move|learn|change|train)", r"unchanged", r"frozen", r"not trained",
    r"(nothing|hardly anything) (is|was) (learned|learnt)", r"stands? still",
)  # fmt: skip


class Centres(nn.Module):
    """Class scores by centres, which begin at 0 like the last layer of many classifiers."""

    def __init__(self, model: Any, count: int) -> None:
        super().__init__()
        self.model, self.centres = model, nn.Parameter(torch.zeros(count, 32))

    def forward(self, features: Any, labels: torch.Tensor) -> torch.Tensor:
        rows = [self.model(column)["sentence_embedding"] for column in features]
        return F.cross_entropy(rows[0] @ self.centres.T, labels)

    def get_config_dict(self) -> Mapping[str, Any]:
        return {}


def _classified(stage: Stage, prepare: Callable[[Centres], Any], holds_all: bool) -> Any:
    model = stage.model()
    loss = Centres(model, 20)
    prepare(loss)
    weights = [
        weight for weight in (loss if holds_all else model).parameters() if weight.requires_grad
    ]
    descent = torch.optim.AdamW(weights, lr=2e-3)
    return stage.trainer(lambda _: loss, classes(), model, optimizers=(descent, None))


@faulty(
    "class centres at zero outside the optimizer",
    "The optimizer was made of model.parameters(): the centres of the loss stay at 0, and through "
    "them no gradient reaches the encoder.",
    OUTSIDE,
)
def optimizer_made_of_the_model_alone(stage: Stage) -> None:
    suffers(
        stage,
        _classified(stage, lambda loss: None, False),
        lambda: _classified(stage, lambda loss: None, True),
    )


@faulty(
    "class centres frozen with everything new",
    "Whatever is not of the encoder was frozen by its name, also the centres of the loss, which "
    "stand at 0: nothing can be learnt.",
    OUTSIDE,
)
def centres_frozen_by_name(stage: Stage) -> None:
    def freeze(loss: Centres) -> None:
        for name, weight in loss.named_parameters():
            weight.requires_grad_("auto_model" in name or "model.0" in name)

    suffers(
        stage,
        _classified(stage, freeze, True),
        lambda: _classified(stage, lambda loss: None, True),
    )
