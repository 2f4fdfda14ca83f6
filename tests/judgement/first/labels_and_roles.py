"""Faults of labels that do not fit their loss, and of columns that play a wrong part."""

from __future__ import annotations

import math
from typing import Any

from tests.judgement.case import DOCTOR, INSPECT, REPORT, faulty
from tests.judgement.first.loop_materials import (
    FAST,
    MORE_OF_THE_SAME,
    columns_in_order,
    cosent,
    cosine_scores,
    ranking,
)
from tests.judgement.stage import Stage, facts, lookalike, pairs, rated, scored, triplets
from tests.judgement.truth import among_alike, correlation, retrieval, suffers
from tests.sentence_training import losses

WRONG_SCORES = [
    r"(label|score)s?.{0,100}(between|range|outside|-1|\b0 (to|and) 1\b|above|below|scale|unit)",
    r"(label|score)s?.{0,100}(cosine|logit|no cosine|cannot be)",
]
INVERTED = [
    r"(label|score)s?.{0,100}(invert|revers|swap|flip|opposite|wrong way|upside|distance)",
    r"(high|low|1|0|larg|small)\w*.{0,80}(label|score)s?.{0,80}(unlike|dissimilar|alike|similar|"
    r"overlap|in common|fewer|less)",
    r"(alike|similar|in common|overlap).{0,100}(low|small|0)\w*.{0,30}(label|score)",
]


@faulty(
    "numbers of classes as similarity scores",
    "The labels of natural language inference are taken as scores: entailment is 0, contradiction "
    "is 2, and so texts that fit are drawn apart.",
    [
        *INVERTED,
        *WRONG_SCORES,
        r"class|categor|integer|nli|entail|three (different )?(label|value)",
    ],
    never=[MORE_OF_THE_SAME],
)
def entailment_is_number_zero(stage: Stage) -> None:
    """Labels of SNLI and MNLI: entailment 0, neutral 1, contradiction 2."""
    first, second, fits = rated()
    numbers = [0 if mark else 1 + (row // 2) % 2 for row, mark in enumerate(fits)]
    table = {"sentence1": first, "sentence2": second}
    as_scores = {0: 1.0, 1: 0.5, 2: 0.0}
    suffers(
        stage,
        stage.trainer(cosent, table | {"label": [float(n) for n in numbers]}, **FAST),
        lambda: stage.trainer(cosent, table | {"label": [as_scores[n] for n in numbers]}, **FAST),
        retrieval,
    )


@faulty(
    "logits of a cross-encoder as cosines",
    "A cross-encoder has rated the pairs; its logits, from -11 to 11, are given to a loss that "
    "wants cosines.",
    WRONG_SCORES,
    never=[MORE_OF_THE_SAME],
)
def logits_of_a_reranker_as_scores(stage: Stage) -> None:
    table = scored()
    logits = [
        max(-11.0, min(11.0, 2 * math.log((share + 0.01) / (1.01 - share)) - 4))
        for share in table["score"]
    ]
    settings = {"learning_rate": 2e-3, "max_steps": 80}
    suffers(
        stage,
        stage.trainer(cosine_scores, table | {"score": logits}, **settings),
        lambda: stage.trainer(cosine_scores, table, **settings),
        correlation,
    )


@faulty(
    "labels of -1 for a loss of 0 and 1",
    "Pairs that do not fit have the label -1, as torch's CosineEmbeddingLoss wants it; "
    "ContrastiveLoss wants 0 and 1, and its loss falls without end.",
    [
        r"(label|score)s?.{0,100}(-1|0 (and|or|to) 1|binary|negative|outside|between)",
        r"loss.{0,60}(negative|below (zero|0))",
    ],
    never=[MORE_OF_THE_SAME],
)
def contrastive_loss_with_minus_one(stage: Stage) -> None:
    first, second, fits = rated()
    table = {"sentence1": first, "sentence2": second}

    def contrastive(model: Any) -> Any:
        return losses.ContrastiveLoss(model)

    signs = [1 if mark else -1 for mark in fits]
    suffers(
        stage,
        stage.trainer(contrastive, table | {"label": signs}, **FAST),
        lambda: stage.trainer(contrastive, table | {"label": fits}, **FAST),
        retrieval,
        share=None,
    )


ROLES = [
    r"column.{0,120}(order|swap|role|place|position)|(order|role|place)s?.{0,80}column",
    r"(positive|negative)s?.{0,100}(swap|exchang|order|closer|more alike|nearer|wrong|in common)",
]


@faulty(
    "negative in the place of the positive",
    "The columns stand in the order of the alphabet: anchor, negative, positive. The loss goes by "
    "their places.",
    ROLES,
    never=[MORE_OF_THE_SAME],
)
def columns_in_order_of_the_alphabet(stage: Stage) -> None:
    """The order of columns counts, and their names do not: sbert.net, dataset format."""
    table = triplets()
    suffers(
        stage,
        stage.trainer(ranking, columns_in_order(table, "anchor", "negative", "positive"), **FAST),
        lambda: stage.trainer(ranking, table, **FAST),
        among_alike,
    )


@faulty(
    "category in the place of the anchor",
    "The first column is the category of each question: the loss takes it for the anchor, the "
    "question for its positive, and the answer for a hard negative.",
    [
        *ROLES,
        r"(same|repeat|few|only \d+|duplicat)\w* .{0,60}(text|anchor|value)s?",
        r"(text|anchor|value)s?.{0,60}(repeat|same|few|duplicat|again)",
    ],
    never=[MORE_OF_THE_SAME],
)
def category_before_the_question(stage: Stage) -> None:
    table = pairs()
    names = ("travel", "billing", "returns", "account", "delivery")
    category = [names[row % 5] for row in range(160)]
    suffers(
        stage,
        stage.trainer(ranking, {"category": category, **table}, **FAST),
        lambda: stage.trainer(ranking, table, **FAST),
        among_alike,
    )


MISALIGNED = [
    r"(row|pair|column|positive)s?.{0,120}(shift|misalign|unrelated|not belong|do not match|"
    r"in common|overlap|chance|random|mismatch|aligned|another row)",
    r"(shift|misalign|unrelated|mismatch)",
]


@faulty(
    "columns shifted against each other",
    "Rows without a question were dropped from one list and not from the next: each passage "
    "stands beside the question of the row before.",
    MISALIGNED,
    tools=(DOCTOR, REPORT, INSPECT),
    never=[MORE_OF_THE_SAME],
)
def passages_one_row_further(stage: Stage) -> None:
    table = pairs()
    positives = table["positive"][1:] + table["positive"][:1]
    stage.inspect(table | {"positive": positives})
    suffers(
        stage,
        stage.trainer(ranking, table | {"positive": positives}, **FAST),
        lambda: stage.trainer(ranking, table, **FAST),
        among_alike,
    )


@faulty(
    "hard negative that is the positive",
    "Negatives were mined by an encoder and the positive was not left out: most rows have their "
    "own positive as the hard negative.",
    [
        r"negative.{0,100}(same|equal|identical|is the positive|are the positive|its positive)",
        r"positive.{0,100}(same|equal|identical|repeat).{0,60}negative",
        r"(same|equal|identical) text.{0,80}(negative|positive)|false negative",
    ],
    tools=(DOCTOR, REPORT, INSPECT),
    never=[MORE_OF_THE_SAME],
)
def mined_negatives_hold_the_positive(stage: Stage) -> None:
    table, asked = pairs(), facts(160)
    mined = [
        lookalike(fact) if row % 4 == 0 else table["positive"][row]
        for row, fact in enumerate(asked)
    ]

    def triplet(model: Any) -> Any:
        return losses.TripletLoss(model, losses.TripletDistanceMetric.COSINE, 0.3)

    stage.inspect({**table, "negative": mined})
    suffers(
        stage,
        stage.trainer(triplet, {**table, "negative": mined}, **FAST),
        lambda: stage.trainer(triplet, triplets(), **FAST),
        among_alike,
    )
