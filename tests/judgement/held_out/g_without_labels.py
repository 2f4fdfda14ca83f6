"""Sound set-ups without labels: dropout, deletion, spans, denoising, several views, whitening."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from tests.judgement.case import sound
from tests.judgement.first.turns import Rows, cosines, embed, stepped, turn
from tests.judgement.held_out.g_fields import (
    ALERTS,
    BIRDS,
    JOBS,
    TALES,
    from_fragments,
    from_scrawls,
    reader,
    scrawled,
    thinned,
    uniformity,
    unseen,
)
from tests.judgement.stage import Stage
from tests.judgement.truth import learns
from tests.sentence_training import losses


def sentences(field: Any, count: int, column: int = 0) -> list[str]:
    """Texts of a column of a field."""
    return list(field.table(count).values())[column]


def corpus() -> list[str]:
    """Tales, and summaries of different tales."""
    texts, summaries = TALES.table(480).values()
    return [*texts[:240], *summaries[240:]]


@sound("views of a text by dropout, with the trainer")
def tales_by_dropout_alone(stage: Stage) -> None:
    texts = corpus()
    trainer = stage.trainer(
        losses.MultipleNegativesRankingLoss, {"text": texts, "same_text": texts},
        reader(stage, TALES, spread=0.1),
        learning_rate=1e-3, per_device_train_batch_size=32, max_steps=60,
    )  # fmt: skip
    learns(stage, trainer, unseen(TALES))


@sound("contrastive tension, with the trainer")
def tension_between_two_encoders(stage: Stage) -> None:
    texts = corpus()
    trainer = stage.trainer(
        losses.ContrastiveTensionLossInBatchNegatives, {"sentence_A": texts, "sentence_B": texts},
        reader(stage, TALES, spread=0.1), learning_rate=1e-3, per_device_train_batch_size=24,
        max_steps=60,
    )  # fmt: skip
    learns(stage, trainer, unseen(TALES))


@sound("denoising: the words of a text from its damaged copy's embedding")
def words_restored_from_damaged_tales(stage: Stage) -> None:
    texts = sentences(TALES, 400, 1)
    model = reader(stage, TALES, spread=0.05)
    words = sorted({word for text in texts for word in text.split()})
    places = {word: place for place, word in enumerate(words)}
    torch.manual_seed(1)
    decoder = torch.nn.Linear(48, len(words))
    optimizer = torch.optim.AdamW([*model.parameters(), *decoder.parameters()], lr=3e-3)
    rows, draw = Rows({"text": texts}, 32), random.Random(1)

    def restored(embeddings: Tensor, present: Tensor) -> Tensor:
        return F.binary_cross_entropy_with_logits(decoder(embeddings), present)

    def update(criterion: Any, step: int) -> None:
        (batch,) = rows()
        present = torch.zeros(len(batch), len(words))
        for row, text in enumerate(batch):
            present[row, [places[word] for word in text.split()]] = 1.0
        stepped(optimizer, criterion(embed(model, scrawled(batch, draw)), present))

    turn(stage, model, restored, update, from_scrawls(TALES, column=1), steps=100)


def by_views(
    stage: Stage, field: Any, loss: Callable[..., Tensor], *, views: int = 2, size: int = 24,
    rate: float = 2e-3, steps: int = 60, column: int = 0, head: Any = None,
) -> None:  # fmt: skip
    """Train a loop on views of texts, in which words are dropped and put in anew in each step."""
    model = reader(stage, field, spread=0.05)
    parameters = [*model.parameters(), *(head.parameters() if head else ())]
    optimizer = torch.optim.AdamW(parameters, lr=rate)
    rows, draw = Rows({"text": sentences(field, 360, column)}, size), random.Random(2)

    def update(criterion: Any, step: int) -> None:
        (batch,) = rows()
        embeddings = [embed(model, scrawled(batch, draw)) for _ in range(views)]
        stepped(optimizer, criterion(*(head(view) if head else view for view in embeddings)))

    turn(stage, model, loss, update, from_scrawls(field, 50, column=column), steps=steps)


@sound("NT-Xent over all views of a batch, with a projection")
def views_among_all_views(stage: Stage) -> None:
    def crossed(first: Tensor, second: Tensor) -> Tensor:
        count = len(first)
        scores = cosines(torch.cat([first, second]), torch.cat([first, second])) / 0.1
        scores = scores.masked_fill(torch.eye(2 * count, dtype=torch.bool), float("-inf"))
        return F.cross_entropy(scores, torch.arange(2 * count).roll(count))

    torch.manual_seed(1)
    head = torch.nn.Sequential(torch.nn.Linear(48, 48), torch.nn.ReLU(), torch.nn.Linear(48, 32))
    by_views(stage, JOBS, crossed, head=head)


@sound("variance, invariance and covariance of views")
def vacancies_of_even_variance(stage: Stage) -> None:
    def off_diagonal(rows: Tensor) -> Tensor:
        covariance = torch.cov(rows.T)
        return (covariance - covariance.diagonal().diag()).square().sum() / rows.shape[1]

    def vicreg(first: Tensor, second: Tensor) -> Tensor:
        spread = sum(F.relu(1 - (rows.var(0) + 1e-4).sqrt()).mean() for rows in (first, second))
        return (
            25 * F.mse_loss(first, second)
            + 12.5 * spread
            + off_diagonal(first)
            + off_diagonal(second)
        )

    by_views(stage, JOBS, vicreg, size=64, rate=1e-3)


@sound("redundancy reduction between views")
def tales_with_decorrelated_columns(stage: Stage) -> None:
    def barlow(first: Tensor, second: Tensor) -> Tensor:
        first, second = ((rows - rows.mean(0)) / (rows.std(0) + 1e-4) for rows in (first, second))
        correlation = first.T @ second / len(first)
        gaps = (correlation - torch.eye(len(correlation))).square()
        return gaps.diagonal().sum() + 0.02 * (gaps.sum() - gaps.diagonal().sum())

    by_views(stage, TALES, barlow, size=64, rate=1e-3, column=1)


@sound("whitened embeddings of views")
def whitened_views_of_birds(stage: Stage) -> None:
    """Of W-MSE: rows of a batch are whitened by its own covariance, then drawn together."""

    def whitened(rows: Tensor) -> Tensor:
        centred = rows - rows.mean(0)
        covariance = centred.T @ centred / (len(rows) - 1) + 1e-3 * torch.eye(rows.shape[1])
        factor = torch.linalg.cholesky(covariance)
        return torch.linalg.solve_triangular(factor, centred.T, upper=False).T

    def gap(first: Tensor, second: Tensor) -> Tensor:
        joint = F.normalize(whitened(torch.cat([first, second])), dim=1)
        return (joint[: len(first)] - joint[len(first) :]).square().sum(1).mean()

    torch.manual_seed(1)
    by_views(stage, BIRDS, gap, size=64, column=1, rate=2e-3, head=torch.nn.Linear(48, 16))


@sound("four views of a text, each against the rest of the batch")
def four_views_of_an_alert(stage: Stage) -> None:
    def grouped(*views: Tensor) -> Tensor:
        rows, labels = torch.cat(views), torch.arange(len(views[0])).repeat(len(views))
        same = labels[:, None] == labels
        apart = torch.eye(len(rows), dtype=torch.bool)
        scores = (cosines(rows, rows) / 0.1).masked_fill(apart, -1e4)
        logs = F.log_softmax(scores, dim=1)
        return -(logs * (same & ~apart)).sum(1).div(len(views) - 1).mean()

    by_views(stage, ALERTS, grouped, views=4, size=12, steps=50)


@sound("alignment and uniformity")
def aligned_and_uniform_tales(stage: Stage) -> None:
    def aligned(first: Tensor, second: Tensor) -> Tensor:
        distances = (F.normalize(first, dim=1) - F.normalize(second, dim=1)).square().sum(1)
        return distances.mean() + (uniformity(first) + uniformity(second)) / 2

    by_views(stage, TALES, aligned, size=32, rate=1e-3, column=1)


@sound("momentum teacher and predictor, no negatives")
def tales_after_a_slow_teacher(stage: Stage) -> None:
    """BYOL: a predictor of the slow teacher's embedding of another view."""
    model = reader(stage, TALES, dropout=0.0, spread=0.1)
    torch.manual_seed(1)
    head = torch.nn.Sequential(torch.nn.Linear(48, 64), torch.nn.BatchNorm1d(64))
    predictor = torch.nn.Sequential(
        torch.nn.Linear(64, 64), torch.nn.BatchNorm1d(64), torch.nn.ReLU(), torch.nn.Linear(64, 64)
    )
    teacher = copy.deepcopy(torch.nn.ModuleList([model, head])).requires_grad_(False)
    student = torch.nn.ModuleList([model, head])
    optimizer = torch.optim.AdamW([*student.parameters(), *predictor.parameters()], lr=1e-3)
    rows, draw = Rows({"text": sentences(TALES, 400)}, 48), random.Random(2)

    def byol(predicted: Tensor, targets: Tensor) -> Tensor:
        return 2 - 2 * F.cosine_similarity(predicted, targets).mean()

    def update(criterion: Any, step: int) -> None:
        (batch,) = rows()
        first, second = (thinned(batch, draw) for _ in range(2))
        predicted = predictor(head(embed(model, first + second)))
        with torch.no_grad():
            targets = teacher[1](embed(teacher[0], second + first))
        stepped(optimizer, criterion(predicted, targets))
        with torch.no_grad():
            pairs = zip(teacher.parameters(), student.parameters(), strict=True)
            for slow, weight in pairs:
                slow.lerp_(weight, 0.02)

    turn(stage, model, byol, update, from_fragments(TALES), steps=60)
