"""Loops of one's own with a mistake in the loss or in what it compares."""

from __future__ import annotations

import random
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from tests.judgement.case import faulty
from tests.judgement.first.beside import UNRELATED, Loop, adam, loops_beside, losses_beside
from tests.judgement.first.bodies import tokenizer_of
from tests.judgement.first.mistake_fields import (
    BEES,
    HARBOUR,
    MUSEUM,
    SEWING,
    STARS,
    TRAINS,
    WINES,
    encoder_of_field,
    loop_of,
)
from tests.judgement.first.turns import Rows, cosines, embed, infonce, stepped
from tests.judgement.stage import Stage

COLLAPSE = r"(?i)collaps|(all|every).{0,30}(alike|equal|the same|similar)|one direction|anisotrop"
REVERSED = (
    r"(?i)\bsigns?\b|revers|invert|opposite|wrong (way|direction)|swap",
    r"(?i)positives?.{0,60}(farther|further|apart|less (alike|similar)|no closer|away|"
    r"below|pushed)",
    r"(?i)negatives?.{0,60}(closer|nearer|pulled|more (alike|similar)|above)",
)


def beside(stage: Stage, field: Any, faulty_loss: Any, mended_loss: Any, **options: Any) -> None:
    """A plain loop over 200 rows of a field with either loss."""
    losses_beside(
        stage, faulty_loss, mended_loss, field.sought, table=field.table(200), rate=2e-3,
        encoder=lambda: encoder_of_field(stage, field), **options,
    )  # fmt: skip


@faulty(
    "all targets zero",
    "The targets of the cross-entropy are zeros: each anchor is trained towards the "
    "first positive.",
    [
        *UNRELATED,
        COLLAPSE,
        r"(?i)(target|label)s?.{0,60}(zero|\b0\b|first|diagonal|arange)|first (row|positive|text)",
    ],
    tools=("report",),
)
def targets_of_zeros(stage: Stage) -> None:
    def loss(first: Tensor, second: Tensor) -> Tensor:
        return F.cross_entropy(cosines(first, second) / 0.05, torch.zeros(len(first)).long())

    beside(stage, BEES, loss, infonce)


@faulty(
    "hinge with exchanged cosines",
    "The hinge asks that the negative be nearer than the positive by the margin.",
    REVERSED,
    tools=("report",),
)
def hinge_asks_for_nearer_negatives(stage: Stage) -> None:
    def hinge(first: Tensor, second: Tensor, sign: float = 1.0) -> Tensor:
        apart = F.cosine_similarity(first, second.roll(1, 0))
        return F.relu(0.5 + sign * (apart - F.cosine_similarity(first, second))).mean()

    beside(stage, TRAINS, lambda *rows: hinge(*rows, sign=-1.0), hinge)


@faulty(
    "only attraction",
    "The loss is one less the cosine of positives and nothing else: all texts become alike.",
    [
        COLLAPSE,
        r"(?i)(no|without|lack of|missing) (negatives?|repuls|uniform|push|contrast)",
    ],
    tools=("report",),
)
def loss_of_attraction_alone(stage: Stage) -> None:
    def attraction(first: Tensor, second: Tensor) -> Tensor:
        return (1 - F.cosine_similarity(first, second)).mean()

    beside(stage, WINES, attraction, infonce)


@faulty(
    "blocks read as alternating rows",
    "Anchors and positives are stacked as blocks and read as alternating rows: partners are wrong.",
    [*UNRELATED, r"(?i)interleav|alternat|reshape|stack|split"],
    tools=("report",),
)
def blocks_read_as_alternating_rows(stage: Stage) -> None:
    def loss(first: Tensor, second: Tensor) -> Tensor:
        rows = torch.cat([first, second])
        return infonce(rows[0::2], rows[1::2])

    beside(stage, STARS, loss, infonce)


@faulty(
    "hardest negative is the positive",
    "The diagonal is not masked where the hardest negative is sought: it is the positive itself.",
    [
        r"(?i)(hardest|hard )?negatives?.{0,80}(positive|itself|same|equal|diagonal)",
        r"(?i)diagonal|mask|false negative|constant|no gradient|gradients?.{0,40}(zero|"
        r"vanish|cancel)",
        COLLAPSE,
        r"(?i)loss.{0,40}(stall|margin|stuck|not fall|plateau|constant)",
    ],
    tools=("report",),
)
def hardest_negative_found_on_the_diagonal(stage: Stage) -> None:
    def hardest(first: Tensor, second: Tensor, masked: float = 4.0) -> Tensor:
        every = cosines(first, second)
        hard = (every - masked * torch.eye(len(every))).max(1).values
        return F.relu(0.3 + hard - every.diagonal()).mean()

    beside(stage, SEWING, lambda *rows: hardest(*rows, masked=0.0), hardest)


@faulty(
    "columns of two shuffled loaders",
    "Anchors and positives come from two loaders, each of which shuffles on its own.",
    UNRELATED,
    tools=("report",),
)
def columns_of_two_shuffled_loaders(stage: Stage) -> None:
    def build(slip: bool) -> Loop:
        model, table = encoder_of_field(stage, HARBOUR), HARBOUR.table(200)
        first, second = (Rows(table, seed=seed) for seed in (0, 1 if slip else 0))
        optimizer = adam(model, rate=2e-3)

        def update(criterion: Any, step: int) -> None:
            anchors, positives = first()[0], second()[1]
            stepped(optimizer, criterion(embed(model, anchors), embed(model, positives)))

        return Loop(model, infonce, update)

    loops_beside(stage, build, HARBOUR.sought)


@faulty(
    "scores broadcast against cosines",
    "Scores of shape (n, 1) meet cosines of shape (n,): each cosine is held against all scores.",
    [
        r"(?i)broadcast|shape|\(n, ?1\)",
        r"(?i)(score|label|target)s?.{0,80}(not (follow|fit|match)|unrelated|ignored|mean|average|"
        r"no (correlation|relation))",
        r"(?i)loss.{0,40}(stall|stuck|not fall|plateau|varianc|floor)",
        COLLAPSE,
    ],
    tools=("report",),
)
def scores_broadcast_against_all_cosines(stage: Stage) -> None:
    def pairs_of(field: Any) -> dict[str, list[Any]]:
        first, second = field.table(200).values()
        draw = random.Random(1)
        selection = [draw.random() < 0.5 for _ in first]
        moved = [second[at] if keep else second[at - 7] for at, keep in enumerate(selection)]
        return {"first": first, "second": moved, "score": [float(keep) for keep in selection]}

    def wrong(first: Tensor, second: Tensor, scores: Tensor) -> Tensor:
        return ((F.cosine_similarity(first, second) - scores[:, None]) ** 2).mean()

    def right(first: Tensor, second: Tensor, scores: Tensor) -> Tensor:
        return ((F.cosine_similarity(first, second) - scores) ** 2).mean()

    losses_beside(
        stage, wrong, right, MUSEUM.sought, table=pairs_of(MUSEUM), rate=4e-3, steps=100,
        encoder=lambda: encoder_of_field(stage, MUSEUM),
    )  # fmt: skip


@faulty(
    "texts tokenised for another encoder",
    "Texts are tokenised once with the tokenizer of another encoder: numbers mean other "
    "words here.",
    [
        r"(?i)tokeni[sz]|vocabular|other words",
        r"(?i)(loss|training).{0,60}(other|another|differ).{0,30}(text|model|in use)",
    ],
    tools=("report",),
)
def texts_tokenised_for_another_encoder(stage: Stage) -> None:
    def build(slip: bool) -> Loop:
        model = encoder_of_field(stage, BEES)
        table = BEES.table(200)
        if not slip:
            return loop_of(model, infonce, table)
        texts = [*table["question"], *table["answer"]]
        order = sorted({word for text in texts for word in text.split()})
        tokenizer, rows = tokenizer_of(order), Rows(table)
        optimizer = adam(model, rate=2e-3)

        def vectors(texts: list[str]) -> Tensor:
            ids = dict(tokenizer(texts, padding=True, return_tensors="pt"))
            return model(ids)["sentence_embedding"]

        def update(criterion: Any, step: int) -> None:
            stepped(optimizer, criterion(*map(vectors, rows())))

        return Loop(model, infonce, update)

    loops_beside(stage, build, BEES.sought)
