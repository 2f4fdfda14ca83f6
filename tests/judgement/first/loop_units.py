"""Loops of one's own whose units, margins, scales of gradients or rows do not fit."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.judgement.case import faulty
from tests.judgement.first.beside import (
    IDLE,
    UNRELATED,
    Loop,
    adam,
    loops_beside,
    losses_beside,
)
from tests.judgement.first.bodies import encoder, words_of
from tests.judgement.first.fields import TRAVEL
from tests.judgement.first.turns import Rows, embed, infonce, stepped, warmed
from tests.judgement.stage import Stage, pairs, triplets
from tests.judgement.truth import among_alike, correlation, retrieval


def fitted(first: Tensor, second: Tensor, scores: Tensor, *, times: float) -> Tensor:
    """Mean squared error of cosines and scores."""
    return F.mse_loss(times * F.cosine_similarity(first, second), scores)


@faulty(
    "cosines in percent against scores up to 1",
    "Cosines are multiplied by 100 and compared with scores from 0 to 1: all cosines are driven to "
    "nearly 0.",
    [
        r"(?i)(scores?|labels?|targets?|cosines?).{0,80}(range|scale|unit|percent|100|times)",
        r"(?i)(all )?cosines?.{0,60}(near|about|towards?|to|at|around) (0|zero|nothing)\b",
        r"(?i)percent|rescal|(same|other|different) (unit|scale)",
    ],
)
def percents_against_shares(stage: Stage) -> None:
    """The log was to print percents, and the loss got them too."""
    table, sought = TRAVEL.graded(240), TRAVEL.graded(60, seed=11)
    losses_beside(
        stage,
        lambda *rows: fitted(*rows, times=100.0),
        lambda *rows: fitted(*rows, times=1.0),
        lambda model: correlation(model, sought),
        table=table,
        rate=2e-3,
        encoder=lambda: warmed(
            encoder(stage, words_of([table, sought])), TRAVEL.table(240), steps=12
        ),
    )


class Hinge(nn.Module):
    """A hinge of cosines whose margin may be learned."""

    def __init__(self, learns: bool) -> None:
        super().__init__()
        self.margin = nn.Parameter(torch.tensor(0.3), requires_grad=learns)

    def forward(self, anchors: Tensor, positives: Tensor, negatives: Tensor) -> Tensor:
        near, far = (F.cosine_similarity(anchors, rows) for rows in (positives, negatives))
        return F.relu(self.margin + far - near).mean()


@faulty(
    "margin that the optimiser learns away",
    "The margin is a weight that is trained: it falls below 0, and with it the loss, before the "
    "encoder has learned much.",
    [
        r"(?i)margin",
        r"(?i)loss.{0,40}(is|of|at|near|reaches|falls to|already|stays) (0|zero)\b|inactive",
        *IDLE,
    ],
)
def margin_handed_to_the_optimiser(stage: Stage) -> None:
    """Each constant of a loss was made a parameter, to be spared its tuning."""

    def build(slip: bool) -> Loop:
        model, rows, hinge = stage.model(), Rows(triplets()), Hinge(slip)
        optimizer = torch.optim.AdamW([
            {"params": list(model.parameters()), "lr": 2e-3},
            {"params": list(hinge.parameters()), "lr": 0.03},
        ])  # fmt: skip

        def update(criterion: Any, step: int) -> None:
            stepped(optimizer, criterion(*(embed(model, column) for column in rows())))

        return Loop(model, hinge, update)

    loops_beside(stage, build)


@faulty(
    "gradient scaler made anew at each step",
    "Each step makes a scaler with its first scale, at which gradients overflow in half precision: "
    "it skips every step, and never gets to a lower scale.",
    [
        *IDLE,
        r"(?i)scaler|half|float16|fp16|overflow|\binf|\bnan\b|finite|skip",
    ],
)
def scaler_of_each_step(stage: Stage) -> None:
    """The scaler was made in the body of the loop."""

    def build(slip: bool) -> Loop:
        model, rows = stage.model(), Rows(pairs())
        optimizer = adam(model, rate=2e-3)
        scalers = [torch.amp.GradScaler("cpu", init_scale=2.0**28)]

        def update(criterion: Any, step: int) -> None:
            if slip:
                scalers[0] = torch.amp.GradScaler("cpu", init_scale=2.0**28)
            with torch.autocast("cpu", torch.float16):
                columns = [embed(model, column) for column in rows()]
                loss = criterion(*columns)
            optimizer.zero_grad()
            scalers[0].scale(loss).backward()
            scalers[0].step(optimizer)
            scalers[0].update()

        return Loop(model, infonce, update)

    loops_beside(stage, build)


class Lengths(nn.Module):
    """A head that tells the length of a text."""

    def __init__(self) -> None:
        super().__init__()
        self.line = nn.Linear(32, 1)

    def forward(self, rows: Tensor, texts: list[str]) -> Tensor:
        lengths = torch.tensor([float(len(text)) for text in texts])
        return (self.line(rows)[:, 0] - lengths).square().mean()


@faulty(
    "second task in raw units",
    "An error in squared characters is added to the loss, and outweighs it by far.",
    [
        r"(?i)outweigh|dominat|drown|second (term|task|loss)|auxiliary|added|another (term|loss)",
        r"(?i)(term|gradient|loss|optimi[sz]ed).{0,80}(not watched|outside|beside|besides|not the "
        r"(watched|recorded)|other than|differ)",
        r"(?i)regulari|penalty",
    ],
)
def length_of_texts_as_second_task(stage: Stage) -> None:
    """A second task of the same encoder, without units that fit."""

    def build(slip: bool) -> Loop:
        model, rows, head = stage.model(), Rows(pairs()), Lengths()
        optimizer = adam(model, head)

        def update(criterion: Any, step: int) -> None:
            texts = rows()
            first, second = (embed(model, column) for column in texts)
            loss = criterion(first, second) + (1.0 if slip else 1e-4) * head(second, texts[1])
            stepped(optimizer, loss)

        return Loop(model, infonce, update)

    loops_beside(stage, build, retrieval)


@faulty(
    "filter applied to one of two lists",
    "Short texts were dropped from one list only: partners stand ever further apart.",
    [*UNRELATED, r"(?i)filter|dropped|order of (the )?rows|unequal (length|size)"],
)
def short_texts_dropped_from_one_list(stage: Stage) -> None:
    """People clean two lists by themselves and zip what is left."""

    def build(slip: bool) -> Loop:
        table = pairs(200)
        keeps = [at for at in range(200) if slip is False or at % 9 != 1]
        passages = [table["positive"][at] for at in keeps]
        cut = {"anchor": table["anchor"][: len(passages)], "positive": passages}
        model, rows = stage.model(), Rows(cut)
        optimizer = adam(model)

        def update(criterion: Any, step: int) -> None:
            stepped(optimizer, criterion(*(embed(model, column) for column in rows())))

        return Loop(model, infonce, update)

    loops_beside(stage, build, among_alike)
