"""Schedules: warm-up, rates, freezing and resuming."""

from __future__ import annotations

import torch

from tests.judgement.case import DOCTOR, REPORT, faulty
from tests.judgement.first.scenes import across, bilingual
from tests.judgement.stage import Stage
from tests.judgement.truth import suffers
from tests.sentence_training import losses

ranking = losses.MultipleNegativesRankingLoss
PLAN = {"learning_rate": 2e-3, "max_steps": 80}
RATE = (
    r"learning.rate",
    r"\brates?\b",
    r"warm.?up",
    r"schedul",
    r"\blr\b",
    r"(hardly|barely|not|n.t) (move|change|learn|train)",
    r"(small|tiny|low)er? (step|rate|update)s?",
    r"(step|update)s? .{0,40}(small|tiny)",
)


def _suffers(stage: Stage, **plan: object) -> None:
    suffers(
        stage,
        stage.trainer(ranking, bilingual(640), **{**PLAN, **plan}),
        lambda: stage.trainer(ranking, bilingual(640), **PLAN),
        across,
    )


@faulty(
    "warm-up longer than training",
    "The warm-up of 5000 steps was copied from a run of a million pairs; this one ends after 80.",
    RATE,
    never=(r"(lower|reduce|decrease) the (learning )?rate",),
)
def warm_up_of_a_longer_run(stage: Stage) -> None:
    _suffers(stage, warmup_steps=5000)


@faulty(
    "rate mistyped to nearly nothing",
    "The rate is 2e-8 where 2e-3 was meant.",
    RATE,
    never=(r"(lower|reduce|decrease) the (learning )?rate",),
)
def rate_of_two_in_a_hundred_million(stage: Stage) -> None:
    _suffers(stage, learning_rate=2e-8)


@faulty(
    "rate of word vectors for a transformer",
    "A rate of 0.1, usual for tables of word vectors, was kept for a transformer.",
    (
        r"learning.rate",
        r"\brates?\b",
        r"\blr\b",
        r"collaps",
        r"diverg",
        r"(large|big|high)er? (step|rate|update)s?",
        r"(step|update)s? .{0,40}(large|big|high)",
        r"(same|identical|alike) embedding",
        r"unstable",
    ),
    never=(r"(raise|increase) the (learning )?rate",),
)
def rate_of_a_tenth_for_a_transformer(stage: Stage) -> None:
    _suffers(stage, learning_rate=0.1)


@faulty(
    "schedule ends long before training",
    "The schedule was made for the steps of one epoch of a smaller table: after ten steps the rate "
    "is zero.",
    (*RATE, r"(zero|\b0\b) .{0,40}(after|from|since) step", r"stops? (learning|changing|moving)"),
    tools=(DOCTOR, REPORT),
)
def rate_of_zero_after_ten_steps(stage: Stage) -> None:
    model = stage.model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: max(0.0, 1 - step / 10))
    suffers(
        stage,
        stage.trainer(ranking, bilingual(640), model, optimizers=(optimizer, schedule), **PLAN),
        lambda: stage.trainer(ranking, bilingual(640), **PLAN),
        across,
    )


@faulty(
    "freezing by a name that matches too much",
    "All weights with 'embed' or 'layer' in their names were frozen, which leaves two vectors of a "
    "normalisation.",
    (
        r"fr(ee|o)ze",
        r"requires_grad",
        r"(few|fraction|share|part|only|%).{0,60}(weight|parameter)s?",
        r"(weight|parameter)s? .{0,60}(train|move|learn|change)",
        r"trainable",
    ),
)
def frozen_by_parts_of_names(stage: Stage) -> None:
    model = stage.model()
    for name, weight in model.named_parameters():
        weight.requires_grad_("embeddings.LayerNorm" in name)
    suffers(
        stage,
        stage.trainer(ranking, bilingual(640), model, **PLAN),
        lambda: stage.trainer(ranking, bilingual(640), **PLAN),
        across,
    )


@faulty(
    "clipping far below the gradient",
    "Plain gradient descent clips gradients to a norm of 1e-4, hundreds of times below theirs.",
    (r"clip", r"max_grad_norm", r"gradient norm", *RATE),
    never=(r"(lower|reduce|decrease) the (learning )?rate",),
)
def gradients_clipped_to_nearly_nothing(stage: Stage) -> None:
    plan = {"learning_rate": 0.03, "max_steps": 80, "optim": "sgd", "lr_scheduler_type": "constant"}
    suffers(
        stage,
        stage.trainer(ranking, bilingual(640), max_grad_norm=1e-4, **plan),
        lambda: stage.trainer(ranking, bilingual(640), max_grad_norm=1.0, **plan),
        across,
    )
