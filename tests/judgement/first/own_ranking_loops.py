"""Sound set-ups: loops of one's own that rank, regress and regularise."""

from __future__ import annotations

import copy
from typing import Any

import torch
import torch.nn.functional as functional
from torch import Tensor, nn

from tests.judgement.case import sound
from tests.judgement.first.everyday_fields import DUPLICATES, REVIEW_PAIRS, TICKETS
from tests.judgement.first.expert_fields import TRANSACTIONS
from tests.judgement.first.language_fields import TRILINGUAL
from tests.judgement.first.loop_materials import looped
from tests.judgement.first.raw_fields import LOG_LINES, POSTS, QUIZZES
from tests.judgement.first.training_parts import (
    adam,
    encoder_of,
    graded,
    rises,
    trained_before,
)
from tests.judgement.first.turns import Rows, cosines, embed, infonce, stepped
from tests.judgement.stage import Stage


@sound("loop in epochs with a learned temperature")
def quiz_loop_with_a_learned_temperature(stage: Stage) -> None:
    """InfoNCE as in CLIP: the logarithm of the scale is learned and bounded."""
    model, rows = encoder_of(stage, QUIZZES), Rows(QUIZZES.table(480), 32)
    scale = nn.Parameter(torch.tensor(2.5))
    optimizer = torch.optim.AdamW(
        [{"params": model.parameters()}, {"params": [scale], "weight_decay": 0.0}], lr=1e-3
    )

    def loss(first: Tensor, second: Tensor) -> Tensor:
        logits, own = scale.clamp(max=4.6).exp() * cosines(first, second), torch.arange(len(first))
        return (functional.cross_entropy(logits, own) + functional.cross_entropy(logits.T, own)) / 2

    def update(criterion: Any, step: int) -> None:
        stepped(optimizer, criterion(*(embed(model, column) for column in rows())))

    rises(stage, looped(stage, model, loss, update, score=QUIZZES.sought("item", "solution")))


@sound("loop with redundancy reduction")
def duplicates_loop_by_decorrelation(stage: Stage) -> None:
    """VICReg: partners near each other, a variance for each dimension, no covariance."""
    model, rows = encoder_of(stage, DUPLICATES), Rows(DUPLICATES.table(360), 48)
    optimizer = adam(model, rate=2e-3)

    def loss(first: Tensor, second: Tensor) -> Tensor:
        value = 25 * functional.mse_loss(first, second)
        for side in (first, second):
            centred = side - side.mean(0)
            value = value + 25 * functional.relu(1 - (centred.var(0) + 1e-4).sqrt()).mean()
            covariance = centred.T @ centred / (len(side) - 1)
            remainder = covariance - torch.diag(covariance.diagonal())
            value = value + remainder.square().sum() / side.shape[1]
        return value

    def update(criterion: Any, step: int) -> None:
        stepped(optimizer, criterion(*(embed(model, column) for column in rows())))

    score = DUPLICATES.sought("question", "duplicate")
    rises(stage, looped(stage, model, loss, update, score=score))


@sound("loop over labelled rows")
def payments_loop_with_supervised_contrast(stage: Stage) -> None:
    """Rows of a kind are positives of each other; 32 rows have some of each of the six kinds."""
    model, rows = encoder_of(stage, TRANSACTIONS), Rows(TRANSACTIONS.table(480), 32)
    optimizer = adam(model)

    def loss(embeddings: Tensor, labels: Tensor) -> Tensor:
        itself = torch.eye(len(labels), dtype=torch.bool)
        logits = (cosines(embeddings, embeddings) / 0.1).masked_fill(itself, -1e9)
        alike = ((labels[:, None] == labels) & ~itself).float()
        phrasing = (torch.log_softmax(logits, 1) * alike).sum(1) / alike.sum(1).clamp(min=1)
        return -phrasing.mean()

    def update(criterion: Any, step: int) -> None:
        lines, labels = rows()
        stepped(optimizer, criterion(embed(model, lines), torch.tensor(labels)))

    score = TRANSACTIONS.neighbours("line", "label")
    rises(stage, looped(stage, model, loss, update, score=score))


@sound("loop that regresses grades")
def reviews_loop_by_regression(stage: Stage) -> None:
    """Squared error of cosines against grades, with clipped gradients and a rate that falls."""
    model, rows = encoder_of(stage, REVIEW_PAIRS), Rows(REVIEW_PAIRS.table(480), 32)
    optimizer = adam(model, rate=2e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 80)

    def loss(first: Tensor, second: Tensor, grades: Tensor) -> Tensor:
        return functional.mse_loss(functional.cosine_similarity(first, second), grades)

    def update(criterion: Any, step: int) -> None:
        first, second, grades = rows()
        value = criterion(embed(model, first), embed(model, second), torch.tensor(grades))
        optimizer.zero_grad()
        value.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()

    score = graded(REVIEW_PAIRS, "review", "other", "score")
    rises(stage, looped(stage, model, loss, update, steps=80, score=score))


@sound("loop with a frozen tower")
def japanese_loop_towards_a_still_english(stage: Stage) -> None:
    """A copy learns Japanese towards the English embeddings of a trained encoder, which rests."""
    still = trained_before(stage, TRILINGUAL, "english", "spanish", steps=20)
    still.requires_grad_(False)
    model, rows = copy.deepcopy(still), Rows(TRILINGUAL.table(400, "japanese", "english"), 32)
    model.requires_grad_(True)
    optimizer = adam(model, rate=2e-3)

    def update(criterion: Any, step: int) -> None:
        japanese, english = rows()
        stepped(optimizer, criterion(embed(model, japanese), embed(still, english)))

    score = TRILINGUAL.sought("japanese", "english")
    rises(stage, looped(stage, model, infonce, update, score=score))


@sound("loop with bootstrapped targets")
def halves_of_posts_with_a_slow_teacher(stage: Stage) -> None:
    """Positives come from a slow average of the weights, as in MoCo; 32 rows of a batch."""
    model, rows = encoder_of(stage, POSTS), Rows(POSTS.table(560, "first_half", "second_half"), 32)
    slow, optimizer = copy.deepcopy(model).requires_grad_(False), adam(model, rate=2e-3)

    def update(criterion: Any, step: int) -> None:
        first, second = rows()
        stepped(optimizer, criterion(embed(model, first), embed(slow, second)))
        with torch.no_grad():
            for mean, weight in zip(slow.parameters(), model.parameters(), strict=True):
                mean.lerp_(weight, 0.1)

    score = POSTS.sought("first_half", "second_half")
    rises(stage, looped(stage, model, infonce, update, steps=80, score=score))


@sound("loop with pairwise logistic loss")
def log_loop_with_random_negatives(stage: Stage) -> None:
    """BPR: each line prefers its incident to the incident of another row."""
    model, rows = encoder_of(stage, LOG_LINES), Rows(LOG_LINES.table(480), 24)
    optimizer = torch.optim.RMSprop(model.parameters(), lr=5e-4)

    def loss(lines: Tensor, incidents: Tensor, counterparts: Tensor) -> Tensor:
        nearer = functional.cosine_similarity(lines, incidents)
        return -functional.logsigmoid(
            10 * (nearer - functional.cosine_similarity(lines, counterparts))
        ).mean()

    def update(criterion: Any, step: int) -> None:
        lines, incidents = (embed(model, column) for column in rows())
        stepped(optimizer, criterion(lines, incidents, incidents.roll(1, 0)))

    score = LOG_LINES.sought("line", "incident")
    rises(stage, looped(stage, model, loss, update, steps=90, score=score))


@sound("loop with proxies of classes")
def tickets_loop_with_a_classifier(stage: Stage) -> None:
    """A linear classifier is trained upon the embeddings, which are used without it."""
    model, rows = encoder_of(stage, TICKETS), Rows(TICKETS.table(480), 32)
    torch.manual_seed(7)
    head = nn.Linear(48, 8)
    optimizer = adam(model, head, rate=2e-3)

    def loss(embeddings: Tensor, labels: Tensor) -> Tensor:
        return functional.cross_entropy(head(embeddings), labels, label_smoothing=0.1)

    def update(criterion: Any, step: int) -> None:
        tickets, labels = rows()
        stepped(optimizer, criterion(embed(model, tickets), torch.tensor(labels)))

    rises(stage, looped(stage, model, loss, update, score=TICKETS.neighbours("ticket", "label")))
