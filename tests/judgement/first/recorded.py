"""What is optimised is not what the recorded loss says."""

from __future__ import annotations

from typing import Any

import torch
from sentence_transformers import SentenceTransformerTrainer

from tests.judgement.case import REPORT, faulty
from tests.judgement.first.scenes import across, bilingual, by_hand, loop_suffers
from tests.judgement.stage import Stage
from tests.judgement.truth import suffers
from tests.sentence_training import losses

ranking = losses.MultipleNegativesRankingLoss
OTHER = (
    r"(another|other|different|additional|extra|further) (loss|term|objective|gradient)",
    r"\bterms?\b",
    r"(outside|beyond|besides|apart from) the (loss|criterion)",
    r"(not|n.t|hardly) .{0,40}(follow|from|explain|agree)",
    r"regulari[sz]",
    r"penalt",
    r"weight decay",
    r"outweigh",
    r"(gradient|step)s? .{0,60}(opposite|against|away)",
    r"does not (come|stem) from",
    r"(share|part|fraction) of the gradient",
)


def _loops(stage: Stage, update: Any) -> None:
    """Play a loop with a step of its own beside one with an ordinary step."""
    model = stage.model()
    loop_suffers(
        stage,
        lambda criterion: by_hand(model, criterion, update=update(model)),
        lambda criterion: by_hand(stage.model(), criterion),
    )


@faulty(
    "gradients cleared between accumulated batches",
    "The optimiser steps after every 16 batches, but the gradients are cleared before each: "
    "fifteen of sixteen are thrown away.",
    (
        r"accumulat",
        r"zero_grad",
        r"clear",
        r"(thrown|throw) away",
        r"discard",
        r"lost",
        r"every \d+ (step|batch)",
        r"(only )?(one|1) (step|batch|call) (of|in|out of) \d+",
        r"(weight|parameter|embedding)s? .{0,60}(only|not|never|rarely|unchanged)",
        r"(no|few) (step|update)s?",
        r"(does not|do not|n.t) (change|move)",
        r"between steps?",
    ),
    tools=(REPORT,),
)
def accumulation_that_forgets(stage: Stage) -> None:
    def update(_: Any) -> Any:
        def step(optimizer: torch.optim.Optimizer, loss: torch.Tensor, number: int) -> None:
            optimizer.zero_grad()
            (loss / 16).backward()
            if number % 16 == 15:
                optimizer.step()

        return step

    _loops(stage, update)


@faulty(
    "penalty outside the watched loss",
    "A penalty on all weights is added after the criterion, with a weight that outweighs it.",
    (*OTHER, r"norms?\b", r"shrink", r"collaps", r"(towards?|near) zero"),
    tools=(REPORT,),
)
def penalty_of_weights_after_the_criterion(stage: Stage) -> None:
    def update(model: Any) -> Any:
        def step(optimizer: torch.optim.Optimizer, loss: torch.Tensor, _: int) -> None:
            optimizer.zero_grad()
            penalty = sum(weight.square().sum() for weight in model.parameters())
            (loss + 300.0 * penalty).backward()
            optimizer.step()

        return step

    _loops(stage, update)


@faulty(
    "sign flipped after the criterion",
    "The loop maximises the loss, as a reward was maximised in the code that it was copied from.",
    (
        *OTHER,
        r"sign\b",
        r"maximi[sz]",
        r"(loss|value) .{0,40}(rise|grow|increase|goes up|climb)",
        r"ascen[dt]",
        r"uphill",
        r"negat(ed|ive) (loss|gradient)",
        r"(revers|invert|flip)",
        r"diverg",
        r"wrong (way|direction)",
        r"away from",
    ),
    tools=(REPORT,),
)
def loop_that_climbs_its_loss(stage: Stage) -> None:
    def update(_: Any) -> Any:
        def step(optimizer: torch.optim.Optimizer, loss: torch.Tensor, _: int) -> None:
            optimizer.zero_grad()
            (-loss).backward()
            optimizer.step()

        return step

    _loops(stage, update)


class Anchored(SentenceTransformerTrainer):
    """A trainer that adds the distance from the weights at the start to the loss."""

    def compute_loss(self, model: Any, inputs: Any, *arguments: Any, **options: Any) -> Any:
        loss = super().compute_loss(model, inputs, *arguments, **options)
        weights = [weight for weight in model.parameters() if weight.requires_grad]
        if not hasattr(self, "start"):
            self.start = [weight.detach().clone() for weight in weights]
        drift = sum(
            (weight - start).square().sum()
            for weight, start in zip(weights, self.start, strict=True)
        )
        return loss + 1e3 * drift


@faulty(
    "anchor term added in compute_loss",
    "A trainer's compute_loss adds the distance from the first weights, a thousandfold: the "
    "encoder stays where it was.",
    (
        *OTHER,
        r"compute_loss",
        r"(hardly|barely|not|n.t) (move|change|learn|fall|train)",
        r"stands? still",
        r"(does not|never|n.t) (fall|decrease|learn|improve)",
        r"no progress",
        r"stay",
    ),
)
def trainer_that_pulls_weights_back(stage: Stage) -> None:
    plan = {"learning_rate": 2e-3, "max_steps": 80}
    suffers(
        stage,
        stage.trainer(ranking, bilingual(640), kind=Anchored, **plan),
        lambda: stage.trainer(ranking, bilingual(640), **plan),
        across,
    )
