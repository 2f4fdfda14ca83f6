"""Weights of the loss itself: classifiers, prototypes and learned scales."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from tests.judgement.case import DOCTOR, REPORT, faulty
from tests.judgement.first.scenes import (
    across,
    bilingual,
    by_hand,
    by_topic,
    loop_suffers,
    topical,
)
from tests.judgement.stage import Stage
from tests.judgement.truth import suffers

PLAN = {"learning_rate": 5e-3, "max_steps": 100}
SLOW = {"learning_rate": 2e-3, "max_steps": 80}
OWN = (
    r"classif",
    r"prototype",
    r"(loss|criterion).{0,40}(own|weight|parameter)",
    r"head\b",
    r"(weight|parameter)s? of the loss",
    r"optimi[sz]er",
    r"never (move|change|train|update)",
    r"(not|n.t) (train|updat|mov|chang|learn)",
)
SCALE = (r"scale", r"temperature", r"logit", r"\btau\b", r"τ")


class Prototypes(nn.Module):
    """Softmax over a vector for each class, which starts at zero or is drawn in each call."""

    def __init__(self, model: Any, classes: int = 12, *, drawn: bool = False) -> None:
        super().__init__()
        self.model, self.drawn = model, drawn
        self.classifier = nn.Linear(32, classes)
        nn.init.zeros_(self.classifier.weight)

    def forward(self, sentence_features: Any, labels: torch.Tensor) -> torch.Tensor:
        rows = self.model(next(iter(sentence_features)))["sentence_embedding"]
        if self.drawn:
            self.classifier = nn.Linear(32, self.classifier.out_features)
        return F.cross_entropy(self.classifier(rows), labels)


class ScaledRanking(nn.Module):
    """InfoNCE of cosines times the exponential of a learned number."""

    def __init__(self, model: Any, start: float) -> None:
        super().__init__()
        self.model, self.log_scale = model, nn.Parameter(torch.tensor(start))

    def forward(self, sentence_features: Any, labels: Any = None) -> torch.Tensor:
        first, second = (
            F.normalize(self.model(features)["sentence_embedding"], dim=1)
            for features in sentence_features
        )
        logits = self.log_scale.exp() * first @ second.T
        return F.cross_entropy(logits, torch.arange(len(first)))


@faulty(
    "classifier left out of the optimiser",
    "The optimiser was made of the encoder's weights only: the classifier of the loss stays at "
    "zero and sends no gradient.",
    OWN,
)
def optimiser_of_the_encoder_only(stage: Stage) -> None:
    model = stage.model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
    suffers(
        stage,
        stage.trainer(Prototypes, topical(), model, optimizers=(optimizer, None), **PLAN),
        lambda: stage.trainer(Prototypes, topical(), **PLAN),
        by_topic,
    )


@faulty(
    "prototypes drawn anew in each call",
    "The loss makes its classifier in forward, so that the encoder follows new random classes with "
    "each step.",
    (
        *OWN,
        r"random",
        r"\banew\b",
        r"each (call|step)",
        r"re-?initiali",
        r"(does not|never|n.t) (fall|decrease|learn|improve)",
        r"chance",
        r"no progress",
        r"stands? still",
    ),
)
def classifier_made_in_each_forward(stage: Stage) -> None:
    suffers(
        stage,
        stage.trainer(lambda model: Prototypes(model, drawn=True), topical(), **PLAN),
        lambda: stage.trainer(Prototypes, topical(), **PLAN),
        by_topic,
    )


@faulty(
    "learned scale starts far too high",
    "The learned scale of the logits starts at the exponential of 9 and overflows all gradients "
    "but those of mistakes.",
    SCALE,
)
def learned_scale_that_starts_far_too_high(stage: Stage) -> None:
    suffers(
        stage,
        stage.trainer(lambda model: ScaledRanking(model, 9.0), bilingual(640), **SLOW),
        lambda: stage.trainer(lambda model: ScaledRanking(model, 3.0), bilingual(640), **SLOW),
        across,
    )


class Cosines(nn.Module):
    """InfoNCE of two views with a factor that a loop may learn or forget."""

    def __init__(self, start: float) -> None:
        super().__init__()
        self.log_scale = nn.Parameter(torch.tensor(start))

    def forward(self, first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
        logits = self.log_scale.exp() * F.normalize(first, dim=1) @ F.normalize(second, dim=1).T
        return F.cross_entropy(logits, torch.arange(len(logits)))


@faulty(
    "learned scale not in the optimiser",
    "The loop's optimiser lacks the scale of the loss, which starts at a tenth and stays there.",
    (*SCALE, r"optimi[sz]er", r"uniform", r"flat"),
    tools=(REPORT,),
)
def scale_that_no_optimiser_moves(stage: Stage) -> None:
    def loop(criterion: Any, rate: float = 0.0, own: Any = None) -> tuple[float, float]:
        model = stage.model()
        groups = [{"params": list(model.parameters()), "lr": 3e-3}]
        if own is not None:
            groups.append({"params": list(own.parameters()), "lr": rate})
        return by_hand(model, criterion, optimizer=torch.optim.SGD(groups, momentum=0.9))

    learned = Cosines(3.0)
    loop_suffers(
        stage, loop, lambda criterion: loop(criterion, 1e-4, learned), Cosines(-2.3), learned
    )


@faulty(
    "classifier decays to nothing",
    "The decay of weights meant for another optimiser takes the classifier of the loss to zero.",
    (*OWN, r"decay", r"shrink", r"(towards?|near|to) zero"),
    tools=(DOCTOR, REPORT),
)
def decay_of_the_classifier(stage: Stage) -> None:
    def trainer(decay: float) -> Any:
        model, criteria = stage.model(), []

        def loss(encoder: Any) -> Prototypes:
            criteria.append(Prototypes(encoder))
            return criteria[0]

        trainer = stage.trainer(loss, topical(), model, **PLAN)
        groups = [
            {"params": list(model.parameters())},
            {"params": list(criteria[0].classifier.parameters()), "weight_decay": decay},
        ]
        trainer.optimizer = torch.optim.AdamW(groups, lr=5e-3, weight_decay=0.0)
        return trainer

    suffers(stage, trainer(500.0), lambda: trainer(0.01), by_topic)
