"""Set-ups with two faults at once, each of which alone would harm."""

from __future__ import annotations

import random
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from tests.judgement.case import faulty
from tests.judgement.first.fields import HELPDESK, KITCHEN, SHOP
from tests.judgement.first.loop_parts import APART, TwoLoaders
from tests.judgement.first.odd_tables import CUT, EMPTY
from tests.judgement.first.opposed import encoder_of, hampered, ranking
from tests.judgement.first.turns import cosines, infonce
from tests.judgement.stage import Stage, pairs
from tests.judgement.truth import among_alike, suffers

RATE = (r"(?i)\brates?\b|warm-?up|schedul|hardly move|barely|not move|do not move|unchanged",)
COLUMNS = (
    r"(?i)time ?stamp|\bdates?\b|identif|digit|(first|wrong|another|order of( the)?) column",
    r"(?i)positives?.{0,80}(no nearer|not nearer|no closer|unrelated|chance|apart)",
)
QUICK = {"learning_rate": 1e-3, "max_steps": 50}


@faulty(
    "removed answers under a warm-up without end",
    "Most answers read 'removed', and the warm-up is two hundred times as long as the run.",
    (),
    causes=[EMPTY, RATE],
)
def removed_answers_and_endless_warm_up(stage: Stage) -> None:
    """A dump of a forum with the settings of its full size."""
    table, draw = pairs(), random.Random(1)
    posts = [text if draw.random() < 0.1 else "removed" for text in table["positive"]]
    suffers(
        stage,
        stage.trainer(ranking, table | {"positive": posts}, warmup_steps=10_000, **QUICK),
        lambda: stage.trainer(ranking, table, **QUICK),
        among_alike,
    )


@faulty(
    "dates first at a rate of nothing",
    "A column of dates is the anchor, and the rate has three zeros too many.",
    (),
    causes=[COLUMNS, RATE],
)
def dates_first_and_a_rate_of_nothing(stage: Stage) -> None:
    """An export of tickets with a rate of `2e-8`."""
    table, draw = HELPDESK.table(160), random.Random(3)
    dates = [f"2024 {draw.randint(1, 12)} {draw.randint(1, 28)}" for _ in table["question"]]
    numbers = ("2024", *map(str, range(1, 29)))

    def trainer(columns: Any, rate: float) -> Any:
        model = encoder_of(stage, HELPDESK, *numbers)
        return stage.trainer(ranking, columns, model, learning_rate=rate, max_steps=50)

    suffers(
        stage,
        trainer({"created": dates, **table}, 2e-8),
        lambda: trainer(table, 1e-3),
        HELPDESK.sought,
    )


@faulty(
    "frozen encoder behind texts that are cut alike",
    "Constant words fill the length, and all but a norm of the encoder is frozen.",
    (),
    causes=[
        (*CUT, r"(?i)(same|equal|identical|distinct).{0,40}(text|token|embedding|positive)"),
        (r"(?i)frozen|freez|requires_grad|trainable|not move|hardly move|barely|unchanged",),
    ],
)
def frozen_and_cut_alike(stage: Stage) -> None:
    """A template for offers, on an encoder frozen for a first stage."""
    table = SHOP.table(160)
    stuffed = "cheap best new top sale gift deal offer free fast hot quality original shipping"
    offers = table | {"product": [f"{stuffed} {text}" for text in table["product"]]}

    def trainer(columns: Any, is_frozen: bool) -> Any:
        model = encoder_of(stage, SHOP, stuffed, length=12)
        if is_frozen:
            model.requires_grad_(False)
            model[0].auto_model.embeddings.LayerNorm.requires_grad_(True)
        return stage.trainer(ranking, columns, model, **QUICK)

    suffers(stage, trainer(offers, True), lambda: trainer(table, False), SHOP.sought)


def warm(first: Tensor, second: Tensor) -> Tensor:
    """InfoNCE with the temperature multiplied in place of divided by."""
    return F.cross_entropy(0.05 * cosines(first, second), torch.arange(len(first)))


@faulty(
    "unlike rows under a flat softmax",
    "Two loaders shuffle by themselves, and cosines are multiplied by the temperature.",
    (),
    causes=[APART, (r"(?i)temperature|scale|flat|uniform",)],
)
def loaders_apart_and_flat_softmax(stage: Stage) -> None:
    """A first loop of one's own has several slips."""

    def build(is_faulty: bool) -> TwoLoaders:
        seeds = (1, 2 if is_faulty else 1)
        loop = TwoLoaders(encoder_of(stage, KITCHEN), KITCHEN.table(160), seeds)
        loop.loss = warm if is_faulty else infonce
        return loop

    hampered(stage, build, KITCHEN.sought)
