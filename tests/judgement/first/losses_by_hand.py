"""Sound loops with losses that people write by hand, for pairs, classes, grades and teachers."""

from __future__ import annotations

import random
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.judgement.case import sound
from tests.judgement.first.beside import adam, told_apart
from tests.judgement.first.bodies import encoder, words_of
from tests.judgement.first.fields_of_museums_and_skies import (
    ACCIDENTS,
    COMMITS,
    NOTICES,
    NUMBERS,
    POSTS,
    SHELL,
    SKY,
    diaries,
    encoder_of,
    grader,
    in_diaries,
    in_families,
    pretrained,
    seeker,
    sightings,
)
from tests.judgement.first.turns import Rows, cosines, embed, stepped, turn, warmed
from tests.judgement.stage import Stage

APART = 1e4  # taken from the logits of candidates that do not count


def plainly(
    stage: Stage, model: Any, loss: Any, table: Any, score: Any, *, size: int = 32,
    rate: float = 2e-3, steps: int = 60,
) -> None:  # fmt: skip
    """A plain loop over the columns of a table."""
    rows = Rows(table, size)
    optimizer = adam(model, *([loss] if isinstance(loss, nn.Module) else []), rate=rate)

    def update(criterion: Any, step: int) -> None:
        stepped(optimizer, criterion(*(told_apart(model, column) for column in rows())))

    turn(stage, model, loss, update, score, steps=steps)


def decoupled(first: Tensor, second: Tensor) -> Tensor:
    """Decoupled contrastive learning: the positive is no candidate in the denominator."""
    logits = cosines(first, second) / 0.1
    own = torch.eye(len(logits), dtype=torch.bool)
    return (logits.masked_fill(own, -APART).logsumexp(1) - logits.diagonal()).mean()


@sound("decoupled contrastive loss")
def loop_with_a_decoupled_loss(stage: Stage) -> None:
    plainly(stage, encoder_of(stage, SHELL), decoupled, SHELL.table(320), seeker(SHELL))


def aligned_and_uniform(first: Tensor, second: Tensor) -> Tensor:
    """Alignment, and uniformity of each side, on the sphere."""
    first, second = F.normalize(first, dim=1), F.normalize(second, dim=1)
    spread = sum(torch.pdist(side).square().mul(-2).exp().mean().log() for side in (first, second))
    return (first - second).square().sum(1).mean() + spread / 2


@sound("alignment and uniformity")
def loop_with_alignment_and_uniformity(stage: Stage) -> None:
    plainly(stage, encoder_of(stage, SKY), aligned_and_uniform, SKY.table(320), seeker(SKY),
            size=48)  # fmt: skip


def without_redundancy(first: Tensor, second: Tensor) -> Tensor:
    """Variance, invariance and covariance of both sides, as in VICReg."""
    invariance, cost = F.mse_loss(first, second), first.new_zeros(())
    for side in (first, second):
        centred = side - side.mean(0)
        covariance = centred.T @ centred / (len(side) - 1)
        off = covariance - covariance.diagonal().diag()
        cost = cost + F.relu(1 - (side.var(0) + 1e-4).sqrt()).mean() / 2
        cost = cost + off.square().sum() / (25 * side.shape[1])
    return invariance + cost


@sound("variance, invariance and covariance")
def loop_without_redundancy_of_dimensions(stage: Stage) -> None:
    plainly(stage, encoder_of(stage, NUMBERS), without_redundancy, NUMBERS.table(400),
            seeker(NUMBERS), size=64, rate=3e-3)  # fmt: skip


def hardest_hinge(first: Tensor, second: Tensor) -> Tensor:
    """The hinge of the hardest candidate and of the hardest anchor, as in VSE++."""
    near = cosines(first, second)
    gaps = near - APART * torch.eye(len(near))
    own = near.diagonal()
    return (F.relu(0.3 + gaps.amax(1) - own) + F.relu(0.3 + gaps.amax(0) - own)).mean()


@sound("hinge of the hardest candidate on an encoder tuned further")
def loop_with_the_hinge_of_the_hardest(stage: Stage) -> None:
    plainly(stage, pretrained(stage, COMMITS, 4), hardest_hinge, COMMITS.table(320),
            seeker(COMMITS), rate=1e-3)  # fmt: skip


def of_one_class(first: Tensor, second: Tensor, labels: Tensor) -> Tensor:
    """Supervised contrast of two texts of each row: all texts of a class are positives."""
    rows, labels = torch.cat([first, second]), torch.cat([labels, labels])
    itself = torch.eye(len(rows), dtype=torch.bool)
    shares = (cosines(rows, rows) / 0.1).masked_fill(itself, -APART).log_softmax(1)
    alike = (labels[:, None] == labels) & ~itself
    return -((shares * alike).sum(1) / alike.sum(1)).mean()


@sound("supervised contrast of classes")
def loop_with_classes_of_sightings(stage: Stage) -> None:
    """A batch has two texts of each of two rows of eight families."""
    table, draw = sightings(320), random.Random(0)
    families: dict[int, list[str]] = {}
    for text, label in zip(*table.values(), strict=True):
        families.setdefault(label, []).append(text)
    model = encoder(stage, words_of([table, sightings(120, 11)]))
    optimizer = adam(model)

    def update(criterion: Any, step: int) -> None:
        labels = draw.sample(sorted(families), 8) * 2
        drawn = [draw.sample(families[label], 4) for label in labels[:8]]
        first = [texts[at] for at in (0, 1) for texts in drawn]
        second = [texts[at] for at in (2, 3) for texts in drawn]
        stepped(optimizer, criterion(embed(model, first), embed(model, second),
                                     torch.tensor(labels)))  # fmt: skip

    turn(stage, model, of_one_class, update, in_families, steps=40)


def ranked_grades(first: Tensor, second: Tensor, grades: Tensor) -> Tensor:
    """Pairs of higher grade have higher cosines: the logistic loss of all orders (RankNet)."""
    near = 10 * F.cosine_similarity(first, second)
    higher = grades[:, None] > grades
    return F.softplus(near - near[:, None])[higher].mean()


@sound("orders of grades")
def loop_with_orders_of_grades(stage: Stage) -> None:
    plainly(stage, pretrained(stage, POSTS, 6), ranked_grades, POSTS.graded(400), grader(POSTS),
            rate=1e-3)  # fmt: skip


def soft_targets(first: Tensor, second: Tensor, teacher: Tensor) -> Tensor:
    """The teacher's distribution over the candidates of a batch, and the own one, half and half."""
    logits = cosines(first, second) / 0.07
    mimicry = F.kl_div(logits.log_softmax(1), teacher, reduction="batchmean")
    return (mimicry + F.cross_entropy(logits, torch.arange(len(logits)))) / 2


@sound("soft targets of a teacher within the batch")
def loop_with_soft_targets_of_a_teacher(stage: Stage) -> None:
    teacher = warmed(encoder_of(stage, NOTICES, name="teacher"), NOTICES.table(320, 2), 30)
    model = encoder_of(stage, NOTICES, width=32, layers=1)
    rows, optimizer = Rows(NOTICES.table(320), 32), adam(model, rate=2e-3)

    def update(criterion: Any, step: int) -> None:
        columns = rows()
        with torch.no_grad():
            marks = (cosines(*(embed(teacher, column) for column in columns)) / 0.07).softmax(1)
        stepped(optimizer, criterion(*(embed(model, column) for column in columns), marks))

    turn(stage, model, soft_targets, update, seeker(NOTICES), steps=60)


def circle(first: Tensor, second: Tensor) -> Tensor:
    """Circle loss: pairs weigh by their distance from the optimum, with a relaxed margin."""
    near, margin = cosines(first, second), 0.25
    own = near.diagonal()
    pull = -F.relu(1 + margin - own.detach()) * (own - 1 + margin)
    push = F.relu(near.detach() + margin) * (near - margin)
    push = (16 * push - APART * torch.eye(len(near))).logsumexp(1)
    return F.softplus(push + 16 * pull).mean()


@sound("circle loss over texts of several sentences")
def loop_with_a_circle_loss_over_diaries(stage: Stage) -> None:
    model = encoder(stage, words_of([diaries(320), diaries(60, 11)]))
    plainly(stage, model, circle, diaries(320), in_diaries, size=24)


def triplet_softplus(first: Tensor, second: Tensor, third: Tensor) -> Tensor:
    """The logistic loss of a positive against a hard negative and the batch."""
    near = F.cosine_similarity(first, second)
    hard = F.softplus(12 * (F.cosine_similarity(first, third) - near)).mean()
    batch = F.cross_entropy(cosines(first, second) / 0.08, torch.arange(len(first)))
    return batch + 0.3 * hard


@sound("hard negatives beside those of the batch, two terms")
def loop_with_two_terms_for_two_kinds_of_negatives(stage: Stage) -> None:
    table = ACCIDENTS.table(320) | {"negative": ACCIDENTS.near(320, slot=1)}
    plainly(stage, encoder_of(stage, ACCIDENTS), triplet_softplus, table, seeker(ACCIDENTS),
            size=16, steps=70)  # fmt: skip
