"""Faults of a loss's own weights, and of steps that do not optimise what is recorded."""

from __future__ import annotations

import copy
from typing import Any

import torch
import torch.nn.functional as functional
from torch import Tensor

from tests.judgement.case import REPORT, faulty
from tests.judgement.first.loop_materials import (
    FAST,
    MORE_OF_THE_SAME,
    STILL,
    Batches,
    embed,
    infonce,
    looped,
    looped_unwatched,
    ordinary_loop,
    plain_update,
    ranking,
)
from tests.judgement.stage import Stage, pairs
from tests.judgement.truth import among_alike, falls_short, retrieval, suffers

OPTIMISER = [
    r"optimi[sz]er.{0,120}(not|lack|miss|without|none|other|hold|parameter|weight)",
    r"(weight|parameter|classifier|head|layer)s?.{0,100}(not in|outside|no|miss|lack).{0,40}optimi",
    STILL,
]


class FrozenUnderHead(torch.nn.Module):
    """A loss that embeds without gradient and trains a projection of its own."""

    def __init__(self, model: Any, *, frozen: bool = True) -> None:
        super().__init__()
        self.model, self._frozen = model, frozen
        torch.manual_seed(4)
        self.head = torch.nn.Linear(32, 32)

    def forward(self, sentence_features: Any, labels: Tensor | None = None) -> Tensor:
        with torch.set_grad_enabled(not self._frozen):
            columns = [embed(self.model, features) for features in sentence_features]
        return infonce(*map(self.head, columns))


@faulty(
    "only the loss's own head learns",
    "The loss embeds under torch.no_grad and trains a projection that it holds itself; the "
    "encoder, which alone is saved, stays as it was.",
    [STILL, r"gradient|no_grad|detach|frozen|freez", r"(head|projection).{0,80}(loss|saved|own)"],
    never=[MORE_OF_THE_SAME],
)
def projection_of_the_loss_alone_learns(stage: Stage) -> None:
    suffers(
        stage,
        stage.trainer(FrozenUnderHead, pairs(), **FAST),
        lambda: stage.trainer(lambda model: FrozenUnderHead(model, frozen=False), pairs(), **FAST),
        among_alike,
    )


class WeightedTerms(torch.nn.Module):
    """Two directions of InfoNCE with a learned weight each, which nothing holds above 0."""

    def __init__(self) -> None:
        super().__init__()
        self.weights = torch.nn.Parameter(torch.ones(2))

    def forward(self, anchors: Tensor, positives: Tensor) -> Tensor:
        terms = torch.stack([infonce(anchors, positives), infonce(positives, anchors)])
        return (self.weights * terms).sum()


@faulty(
    "weights of the terms are learned by the loss itself",
    "The weights of two terms are parameters: the loss falls fastest where they fall, below 0 in "
    "the end, and then the terms are made to grow.",
    [
        r"loss.{0,80}(negative|below (zero|0)|-\d)|negative loss",
        r"weights? of (the )?(term|loss)|loss's (own )?(weight|parameter)|parameters? of the loss",
        r"positives?.{0,100}(apart|away|farther|further|lower|less|below)",
        r"\bsign\b|wrong (way|direction)",
    ],
    tools=(REPORT,),
    never=[MORE_OF_THE_SAME],
)
def learned_weights_of_two_terms(stage: Stage) -> None:
    """Asked often: two losses summed with nn.Parameter weights, and the sum falls below 0."""
    model, loss = stage.model(), WeightedTerms()
    optimizer = torch.optim.AdamW(
        [
            {"params": [*model.parameters()], "lr": 1e-3},
            {"params": [*loss.parameters()], "lr": 1e-1},
        ]
    )
    scores = looped(stage, model, loss, plain_update(model, Batches(model), optimizer))
    falls_short(stage, scores, ordinary_loop(stage))


class NewHead(torch.nn.Module):
    """A loss that makes its projection in each forward."""

    def __init__(self, *, made_once: bool = False) -> None:
        super().__init__()
        self.head = torch.nn.Linear(32, 4) if made_once else None

    def forward(self, anchors: Tensor, positives: Tensor) -> Tensor:
        heads = [self.head or torch.nn.Linear(32, 4) for _ in range(2)]
        return infonce(heads[0](anchors), heads[1](positives))


@faulty(
    "layers of the loss made anew at each step",
    "The loss makes its two projections inside forward: at each step they are other random ones, "
    "and what was learned for the last is wrong for the next.",
    [
        r"(head|layer|projection|weight|parameter)s?.{0,100}(random|anew|(made|drawn|new) at each)",
        r"(random|nois)\w*.{0,100}(loss|step|call|forward|value)",
        r"loss.{0,80}(random|same (batch|input)|nois|deterministic)",
    ],
    tools=(REPORT,),
    never=[MORE_OF_THE_SAME],
)
def projections_drawn_at_each_step(stage: Stage) -> None:
    model = stage.model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    scores = looped(stage, model, NewHead(), plain_update(model, Batches(model), optimizer))
    falls_short(stage, scores, ordinary_loop(stage))


@faulty(
    "loss as a new tensor",
    "The loop makes a new tensor of the loss's value, with requires_grad: backward ends there, "
    "and no weight moves.",
    [STILL, r"gradient|detach|graph|requires_grad|backward"],
    tools=(REPORT,),
    never=[MORE_OF_THE_SAME],
)
def loss_wrapped_in_a_new_tensor(stage: Stage) -> None:
    model = stage.model()
    draw, optimizer = Batches(model), torch.optim.AdamW(model.parameters(), lr=1e-3)

    def update(criterion: Any, step: int) -> None:
        loss = torch.tensor(criterion(*(embed(model, column) for column in draw())).item())
        loss.requires_grad_()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    falls_short(stage, looped(stage, model, infonce, update), ordinary_loop(stage))


@faulty(
    "optimiser of another copy of the model",
    "The optimiser was made before the model was loaded again: it steps the weights of the first "
    "copy, and those of the second get gradients and stay.",
    [*OPTIMISER, r"(copy|copies|another|other) (of the )?(model|encoder)"],
    tools=(REPORT,),
    never=[MORE_OF_THE_SAME],
)
def optimiser_of_the_model_before(stage: Stage) -> None:
    model = stage.model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    model = copy.deepcopy(model)
    scores = looped(stage, model, infonce, plain_update(model, Batches(model), optimizer))
    falls_short(stage, scores, ordinary_loop(stage))


@faulty(
    "second term, outside of what is watched, outweighs the loss",
    "The loop adds a penalty on the length of the embeddings with a hundredfold weight: the "
    "recorded loss is a small addition to what is optimised.",
    [
        r"(penalt|term|regulari[sz]|auxiliary|another loss|other loss|second loss|else|added)",
        r"(gradient|optimi[sz]ed|weights?).{0,100}(other|differ|more than|besides).{0,60}loss",
        r"(norm|length)s?.{0,80}(embedding|shrink|fall|small|0)|embeddings?.{0,60}(norm|length)",
    ],
    tools=(REPORT,),
    never=[MORE_OF_THE_SAME],
)
def spread_penalty_outweighs_the_loss(stage: Stage) -> None:
    model = stage.model()
    draw, optimizer = Batches(model), torch.optim.AdamW(model.parameters(), lr=1e-3)

    def update(criterion: Any, step: int) -> None:
        anchors, positives = (embed(model, column) for column in draw())
        lengths = anchors.square().sum(1).mean() + positives.square().sum(1).mean()
        loss = criterion(anchors, positives) + 100.0 * lengths
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    falls_short(stage, looped(stage, model, infonce, update), ordinary_loop(stage))


@faulty(
    "gradients never set to zero",
    "optimizer.zero_grad() was forgotten: each step goes by the sum of the gradients of all steps "
    "before it.",
    [
        r"zero_grad|gradient.{0,100}(grow|sum|accumul|add|reset|larger|explod|norm)",
        r"(grow|sum|accumul|add|reset|explod).{0,80}gradient",
    ],
    tools=(REPORT,),
    never=[MORE_OF_THE_SAME],
)
def gradients_of_all_steps_summed(stage: Stage) -> None:

    def loop(reset: bool) -> tuple[float, float]:
        model = stage.model()
        draw = Batches(model)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)

        def update(criterion: Any, step: int) -> None:
            loss = criterion(*(embed(model, column) for column in draw()))
            if reset:
                optimizer.zero_grad()
            loss.backward()
            optimizer.step()

        if reset:
            return looped_unwatched(model, infonce, update)
        return looped(stage, model, infonce, update)

    falls_short(stage, loop(reset=False), loop(reset=True))


class Agreement(torch.nn.Module):
    """The mean cosine of the pairs, returned as if it were a loss."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(self, sentence_features: Any, labels: Tensor | None = None) -> Tensor:
        anchors, positives = (embed(self.model, features) for features in sentence_features)
        rolled = positives.roll(1, 0)
        right, wrong = (functional.cosine_similarity(anchors, rows) for rows in (positives, rolled))
        return (right - wrong).mean()


@faulty(
    "score with the wrong sign as the loss",
    "The loss returns how much nearer the positive is than another text, which is to grow; the "
    "optimiser makes it fall.",
    [
        r"\bsign\b|minimi[sz]|maximi[sz]|wrong (way|direction)|revers|invert",
        r"positives?.{0,100}(apart|away|farther|further|fall|lower|less|below|away)",
        r"negatives?.{0,100}(closer|nearer|higher|above|more alike)",
    ],
    never=[MORE_OF_THE_SAME],
)
def agreement_is_minimised(stage: Stage) -> None:
    suffers(
        stage,
        stage.trainer(Agreement, pairs(), **FAST),
        lambda: stage.trainer(ranking, pairs(), **FAST),
        retrieval,
    )
