"""Faults of units, margins, temperatures, rates and schedules."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as functional
from torch import Tensor

from tests.judgement.case import REPORT, faulty
from tests.judgement.first.loop_materials import (
    FAST,
    MORE_OF_THE_SAME,
    RATE,
    STILL,
    Batches,
    embed,
    infonce,
    looped,
    ordinary_loop,
    pretrained,
    ranking,
)
from tests.judgement.stage import Stage, facts, pairs, passage, question, triplets
from tests.judgement.truth import among_alike, falls_short, suffers
from tests.sentence_training import losses

SOFT = [r"temperature|\bscale\b|softmax|logits?"]


@faulty(
    "distances as logits",
    "The cross-entropy is given the distances of texts in place of their negatives: the positive "
    "is to be the farthest.",
    [
        r"\bsign\b|distance|wrong (way|direction)|revers|invert",
        r"positives?.{0,100}(apart|away|farther|further|far|fall|lower|less|below)",
        r"negatives?.{0,100}(closer|nearer|higher|above|more alike)",
    ],
    tools=(REPORT,),
    never=[MORE_OF_THE_SAME],
)
def cdist_without_a_minus(stage: Stage) -> None:
    model = stage.model()
    draw, optimizer = Batches(model), torch.optim.AdamW(model.parameters(), lr=1e-3)

    def by_distance(anchors: Tensor, positives: Tensor) -> Tensor:
        distances = torch.cdist(functional.normalize(anchors), functional.normalize(positives))
        return functional.cross_entropy(distances / 0.05, torch.arange(len(anchors)))

    def update(criterion: Any, step: int) -> None:
        loss = criterion(*(embed(model, column) for column in draw()))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    falls_short(stage, looped(stage, model, by_distance, update), ordinary_loop(stage))


@faulty(
    "margin far below the distances",
    "A margin of 0.01 stands against Euclidean distances of several units: nearly all triplets "
    "satisfy it before they are learned, and the loss is 0.",
    [
        r"margin",
        r"(triplet|negative|anchor|loss)s?.{0,100}(zero|\b0\b|satisf|no (loss|gradient)|idle|easy)",
    ],
    never=[MORE_OF_THE_SAME],
)
def margin_of_a_hundredth(stage: Stage) -> None:
    asked, distant = facts(160), facts(160, seed=8)
    table = {
        "anchor": [*map(question, asked)],
        "positive": [*map(passage, asked)],
        "negative": [*map(passage, distant)],
    }

    def triplet(margin: float) -> Any:
        return lambda model: losses.TripletLoss(model, triplet_margin=margin)

    suffers(
        stage,
        stage.trainer(triplet(0.01), table, **FAST),
        lambda: stage.trainer(triplet(5.0), table, **FAST),
        among_alike,
        share=None,
    )


def cross_encoder_margins(scale: float = 1.0) -> dict[str, Any]:
    """Triplets with how much better the positive is rated than the negative."""
    table = triplets()
    shares = [
        len(set(anchor.split()) & set(positive.split()))
        - len(set(anchor.split()) & set(negative.split()))
        for anchor, positive, negative in zip(*table.values(), strict=True)
    ]
    return table | {"label": [scale * share for share in shares]}


@faulty(
    "margins of logits for cosines",
    "The teacher's margins are differences of logits, of 10 and more; the student's are "
    "differences of cosines, which are never above 2.",
    [
        r"(margin|label|score|teacher)s?.{0,120}(cosine|range|larger|beyond|reach|scale|2\b|unit)",
        r"dot|similarity_fct|pairwise",
    ],
    never=[MORE_OF_THE_SAME],
)
def margins_that_cosines_cannot_reach(stage: Stage) -> None:
    from sentence_transformers.util import pairwise_cos_sim

    def by_cosine(model: Any) -> Any:
        return losses.MarginMSELoss(model, similarity_fct=pairwise_cos_sim)

    suffers(
        stage,
        stage.trainer(by_cosine, cross_encoder_margins(5.0), learning_rate=3e-3),
        lambda: stage.trainer(by_cosine, cross_encoder_margins(0.25), learning_rate=3e-3),
        among_alike,
        share=None,
    )


@faulty(
    "warm-up of ten runs",
    "warmup_steps=400 was taken over from a long run; this one ends after 40 steps, with a tenth "
    "of the rate.",
    [r"warm.?up", r"rate.{0,80}(small|\blow|never|reach|tenth|peak|highest)"],
    never=[],
)
def warm_up_of_four_hundred_steps(stage: Stage) -> None:
    suffers(
        stage,
        stage.trainer(ranking, pairs(), warmup_steps=400),
        lambda: stage.trainer(ranking, pairs(), warmup_steps=4),
        among_alike,
    )


@faulty(
    "rate that destroys a trained encoder",
    "A trained encoder is trained further at 0.05, the rate of the last script's table of static "
    "embeddings: all texts end in one place.",
    [
        RATE,
        r"diverg|(too|so) (large|long|high|big)|(large|long|big) (step|update)s?",
    ],
    never=[MORE_OF_THE_SAME],
)
def trained_encoder_at_a_twentieth(stage: Stage) -> None:
    folder = pretrained(stage, pairs(seed=5))
    suffers(
        stage,
        stage.trainer(ranking, pairs(), stage.model(bert=folder), learning_rate=0.05),
        lambda: stage.trainer(ranking, pairs(), stage.model(bert=folder)),
        among_alike,
        share=None,
    )


@faulty(
    "scheduler of epochs stepped at each batch",
    "A rate that is to be halved after each epoch is halved after each batch: after ten steps "
    "nothing moves any more.",
    [RATE, r"schedul|decay", STILL],
    tools=(REPORT,),
    never=[MORE_OF_THE_SAME],
)
def rate_halved_after_each_batch(stage: Stage) -> None:
    model = stage.model()
    draw, optimizer = Batches(model), torch.optim.AdamW(model.parameters(), lr=1e-3)
    schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.5)

    def update(criterion: Any, step: int) -> None:
        loss = criterion(*(embed(model, column) for column in draw()))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()

    falls_short(stage, looped(stage, model, infonce, update), ordinary_loop(stage))


@faulty(
    "all layers frozen but the norms",
    "To save memory all weights are frozen but those with 'LayerNorm' in their name, the pattern "
    "of another repository; an untrained encoder can learn little by them.",
    [
        r"frozen|freez|requires_grad|trainable|(few|most|share|%|part) of (the |its )?weights",
        STILL,
    ],
    never=[MORE_OF_THE_SAME],
)
def only_the_norms_move(stage: Stage) -> None:
    model = stage.model()
    for name, parameter in model.named_parameters():
        parameter.requires_grad = "LayerNorm" in name
    suffers(
        stage,
        stage.trainer(ranking, pairs(), model),
        lambda: stage.trainer(ranking, pairs()),
        among_alike,
    )
