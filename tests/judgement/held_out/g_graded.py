"""Sound set-ups on graded and binary labels: trainers and loops, evaluators during training."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from tests.judgement.case import sound
from tests.judgement.first.turns import Rows, embed, stepped, turn
from tests.judgement.held_out.g_fields import (
    ALERTS,
    CHATS,
    JOBS,
    MARKET,
    QUERIES,
    REACTIONS,
    READINGS,
    degrees,
    graded,
    judged_pairs,
    reader,
    tuned,
    unseen,
)
from tests.judgement.stage import Stage
from tests.judgement.truth import learns
from tests.sentence_training import evaluation, losses


@sound("CoSENT with an evaluator of graded pairs")
def readings_by_cosent_with_evaluator(stage: Stage) -> None:
    watched = graded(READINGS, 60, seed=13)
    trainer = stage.trainer(
        losses.CoSENTLoss, graded(READINGS, 400), tuned(stage, READINGS),
        learning_rate=2e-3, per_device_train_batch_size=32, max_steps=60,
        evaluator=evaluation.EmbeddingSimilarityEvaluator(*watched.values(), write_csv=False),
        eval_strategy="steps", eval_steps=15,
    )  # fmt: skip
    learns(stage, trainer, degrees(READINGS))


@sound("angles of graded pairs")
def greek_chats_by_angle(stage: Stage) -> None:
    trainer = stage.trainer(
        losses.AnglELoss, graded(CHATS, 400), reader(stage, CHATS),
        learning_rate=2e-3, per_device_train_batch_size=24, max_steps=60,
        lr_scheduler_type="cosine",
    )  # fmt: skip
    learns(stage, trainer, degrees(CHATS))


@sound("squared gap of cosine and grade, ratings divided by their range")
def ratings_of_queries_by_cosine(stage: Stage) -> None:
    table = graded(QUERIES, 400, most=5.0)
    table["score"] = [rating / 5 for rating in table["score"]]
    trainer = stage.trainer(
        losses.CosineSimilarityLoss, table, tuned(stage, QUERIES),
        learning_rate=2e-3, per_device_train_batch_size=16, max_steps=80, warmup_steps=8,
    )  # fmt: skip
    learns(stage, trainer, degrees(QUERIES))


@sound("hardest pairs of a batch by binary labels, evaluator of binary pairs")
def hardest_alerts_by_binary_labels(stage: Stage) -> None:
    watched = judged_pairs(ALERTS, 60, seed=13)
    trainer = stage.trainer(
        losses.OnlineContrastiveLoss, judged_pairs(ALERTS, 400), tuned(stage, ALERTS),
        learning_rate=2e-3, per_device_train_batch_size=40, max_steps=60,
        evaluator=evaluation.BinaryClassificationEvaluator(*watched.values(), write_csv=False),
        eval_strategy="steps", eval_steps=30,
    )  # fmt: skip
    learns(stage, trainer, unseen(ALERTS, 50))


def graded_turn(
    stage: Stage, field: Any, loss: Any, *, size: int = 32, steps: int = 60, rate: float = 2e-3,
    extra: Any = (),
) -> None:  # fmt: skip
    """Train a loop on graded pairs."""
    model = reader(stage, field)
    optimizer = torch.optim.AdamW([*model.parameters(), *extra], lr=rate)
    rows = Rows(graded(field, 400), size)

    def update(criterion: Any, step: int) -> None:
        first, second, grades = rows()
        stepped(optimizer, criterion(embed(model, first), embed(model, second),
                                     torch.tensor(grades)))  # fmt: skip

    turn(stage, model, loss, update, degrees(field), steps=steps)


@sound("loop: one minus the correlation of cosines and grades")
def vacancies_by_correlation(stage: Stage) -> None:
    def uncorrelated(first: Tensor, second: Tensor, grades: Tensor) -> Tensor:
        scores = F.cosine_similarity(first, second)
        return 1 - torch.corrcoef(torch.stack([scores, grades]))[0, 1]

    graded_turn(stage, JOBS, uncorrelated, size=48)


@sound("loop: order of the grades of all pairs of rows")
def market_by_order_of_grades(stage: Stage) -> None:
    def ordered(first: Tensor, second: Tensor, grades: Tensor) -> Tensor:
        scores = 20 * F.cosine_similarity(first, second)
        gaps = scores[:, None] - scores[None]
        below = grades[:, None] < grades[None]
        return torch.logsumexp(torch.cat([torch.zeros(1), gaps[below]]), 0)

    graded_turn(stage, MARKET, ordered)


@sound("loop: binary labels by a scaled cosine with a learned scale and bias")
def statements_by_learned_logit(stage: Stage) -> None:
    model = tuned(stage, QUERIES)
    scale, bias = (torch.nn.Parameter(torch.tensor(start)) for start in (2.0, -4.0))
    optimizer = torch.optim.AdamW(
        [{"params": model.parameters(), "lr": 2e-3}, {"params": [scale, bias], "lr": 1e-2}],
        weight_decay=0.0,
    )
    rows = Rows(judged_pairs(QUERIES, 400), 32)

    def by_logit(first: Tensor, second: Tensor, labels: Tensor) -> Tensor:
        logits = scale.exp() * F.cosine_similarity(first, second) + bias
        return F.binary_cross_entropy_with_logits(logits, labels)

    def update(criterion: Any, step: int) -> None:
        first, second, labels = rows()
        rows_of_texts = (embed(model, texts) for texts in (first, second))
        stepped(optimizer, criterion(*rows_of_texts, torch.tensor(labels).float()))

    turn(stage, model, by_logit, update, unseen(QUERIES), steps=70)


@sound("loop: lists of candidates with grades of relevance")
def lists_of_graded_procedures(stage: Stage) -> None:
    """ListNet: of four candidates, one agrees fully, two but for a slot, one does not."""
    table = REACTIONS.table(360)
    questions, answers = table.values()
    near, far = REACTIONS.near(360), REACTIONS.near(360, slot=2)
    strangers = answers[180:] + answers[:180]
    model = reader(stage, REACTIONS)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    rows = Rows({"q": questions, "a": answers, "b": near, "c": far, "d": strangers}, 16)
    grades = torch.tensor([3.0, 1.5, 1.5, 0.0])

    def listnet(anchors: Tensor, candidates: Tensor) -> Tensor:
        scores = (F.normalize(candidates, dim=-1) @ F.normalize(anchors, dim=-1)[..., None])[..., 0]
        return -(grades.softmax(0) * (10 * scores).log_softmax(1)).sum(1).mean()

    def update(criterion: Any, step: int) -> None:
        anchors, *lists = rows()
        candidates = torch.stack([embed(model, texts) for texts in lists], 1)
        stepped(optimizer, criterion(embed(model, anchors), candidates))

    turn(stage, model, listnet, update, unseen(REACTIONS), steps=60)
