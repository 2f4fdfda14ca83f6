"""Sound training without labels: views of a text, denoising, tension and decorrelation."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.judgement.case import sound
from tests.judgement.first.fields import Field
from tests.judgement.first.turns import Rows, embed, infonce, stepped, turn
from tests.judgement.held_out.f_fields import (
    BIRDS,
    JOBS,
    MAILS,
    PHRASES,
    QUERIES,
    RUSSIAN,
    TICKETS,
    WEATHER,
    adam,
    aside_score,
    dropped,
    model_of,
    rambling,
    views_score,
)
from tests.judgement.stage import Stage
from tests.judgement.truth import learns
from tests.sentence_training import losses

FAST = {"learning_rate": 2e-3, "max_steps": 60, "per_device_train_batch_size": 32}


def texts_of(field: Field, count: int = 300, column: int = 1) -> list[str]:
    return field.texts(field.draws(count), column)


@sound("dropout as the only difference of two views")
def bulletins_under_two_dropouts(stage: Stage) -> None:
    texts = texts_of(WEATHER)
    trainer = stage.trainer(
        lambda model: losses.MultipleNegativesRankingLoss(model, scale=20.0),
        {"text": texts, "same_text": texts}, model_of(stage, WEATHER), **FAST,
    )  # fmt: skip
    learns(stage, trainer, views_score(WEATHER))


@sound("contrastive tension with negatives of the batch")
def tension_within_batches_of_records(stage: Stage) -> None:
    texts = texts_of(BIRDS)
    trainer = stage.trainer(
        losses.ContrastiveTensionLossInBatchNegatives, {"text1": texts, "text2": texts},
        model_of(stage, BIRDS), **FAST,
    )  # fmt: skip
    learns(stage, trainer, views_score(BIRDS, share=0.4))


class Thinned:
    """Batches of views: texts that lack some words and have asides, drawn anew at each step."""

    def __init__(self, texts: Sequence[str], size: int = 32, views: int = 2,
                 share: float = 0.15) -> None:  # fmt: skip
        self._rows, self._views, self._share = Rows({"text": texts}, size), views, share
        self._draw = random.Random(4)

    def __call__(self) -> list[list[str]]:
        (texts,) = self._rows()
        thinned = [[dropped(text, self._draw, self._share) for text in texts]
                   for _ in range(self._views)]  # fmt: skip
        return [rambling(view, seed=self._draw.randrange(10**6), most=2) for view in thinned]


def of_views(model: Any, views: Thinned, rate: float = 2e-3) -> Callable[[Any, int], None]:
    """A step on views that one encoder embeds."""
    optimizer = adam(model, rate)

    def update(criterion: Any, step: int) -> None:
        stepped(optimizer, criterion(*(embed(model, texts) for texts in views())))

    return update


@sound("loop over views that lack words")
def thinned_views_of_bulletins(stage: Stage) -> None:
    model = model_of(stage, WEATHER)
    update = of_views(model, Thinned(texts_of(WEATHER)))
    turn(stage, model, infonce, update, aside_score(WEATHER), steps=60)


def barlow(first: Tensor, second: Tensor) -> Tensor:
    """Barlow Twins: the correlation of features of two views is drawn to the identity."""
    first, second = ((rows - rows.mean(0)) / (rows.std(0) + 1e-5) for rows in (first, second))
    gap = first.T @ second / len(first) - torch.eye(first.shape[1])
    diagonal = gap.diagonal().square().sum()
    return diagonal + 0.01 * (gap.square().sum() - diagonal)


@sound("correlation of features of two views")
def twins_of_job_postings(stage: Stage) -> None:
    model = model_of(stage, JOBS)
    update = of_views(model, Thinned(texts_of(JOBS), size=64))
    turn(stage, model, barlow, update, aside_score(JOBS), steps=60)


def vicreg(first: Tensor, second: Tensor) -> Tensor:
    """Invariance of two views, with a floor of variance and no covariance of features."""

    def spread(rows: Tensor) -> Tensor:
        return F.relu(1 - (rows.var(0) + 1e-4).sqrt()).mean()

    def covariance(rows: Tensor) -> Tensor:
        centred = rows - rows.mean(0)
        matrix = centred.T @ centred / (len(rows) - 1)
        return (matrix - torch.diag(matrix.diagonal())).square().sum() / rows.shape[1]

    return (
        25 * F.mse_loss(first, second)
        + 12.5 * (spread(first) + spread(second))
        + covariance(first) + covariance(second)
    )  # fmt: skip


@sound("variance and covariance of two views")
def variance_of_russian_views(stage: Stage) -> None:
    model = model_of(stage, RUSSIAN)
    update = of_views(model, Thinned(texts_of(RUSSIAN), size=64))
    turn(stage, model, vicreg, update, aside_score(RUSSIAN), steps=60)


@sound("alignment and uniformity on the sphere")
def alignment_and_uniformity_of_tickets(stage: Stage) -> None:
    def loss(first: Tensor, second: Tensor) -> Tensor:
        first, second = F.normalize(first, dim=1), F.normalize(second, dim=1)
        alignment = (first - second).square().sum(1).mean()
        uniformity = sum(torch.pdist(rows).square().mul(-2).exp().mean().log()
                         for rows in (first, second)) / 2  # fmt: skip
        return alignment + uniformity

    model = model_of(stage, TICKETS)
    update = of_views(model, Thinned(texts_of(TICKETS)))
    turn(stage, model, loss, update, aside_score(TICKETS), steps=60)


@sound("words of a text restored from the embedding of its noisy version")
def words_restored_from_noisy_mails(stage: Stage) -> None:
    texts = texts_of(MAILS)
    vocabulary = sorted({word for text in texts for word in text.split()})
    model = model_of(stage, MAILS)
    torch.manual_seed(2)
    decoder = nn.Linear(48, len(vocabulary))
    optimizer = torch.optim.AdamW([*model.parameters(), *decoder.parameters()], lr=3e-3)
    rows, draw = Rows({"text": texts}, 32), random.Random(3)

    def loss(logits: Tensor, goals: Tensor) -> Tensor:
        return F.binary_cross_entropy_with_logits(logits, goals)

    def update(criterion: Any, step: int) -> None:
        (clean,) = rows()
        noisy = rambling([dropped(text, draw, 0.1) for text in clean], seed=step, most=2)
        goals = torch.tensor(
            [[float(word in text.split()) for word in vocabulary] for text in clean]
        )
        stepped(optimizer, criterion(decoder(embed(model, noisy)), goals))

    turn(stage, model, loss, update, aside_score(MAILS), steps=130)


@sound("four views of each text, all of them positives")
def four_views_of_statements(stage: Stage) -> None:
    def loss(*views: Tensor) -> Tensor:
        rows = F.normalize(torch.cat(views), dim=1)
        owners = torch.arange(len(views[0])).repeat(len(views))
        own = torch.eye(len(rows), dtype=torch.bool)
        logits = (rows @ rows.T / 0.1).masked_fill(own, -1e9)
        alike = (owners[:, None] == owners) & ~own
        chances = logits - logits.logsumexp(1, keepdim=True)
        return -((chances * alike).sum(1) / alike.sum(1)).mean()

    model = model_of(stage, QUERIES)
    update = of_views(model, Thinned(texts_of(QUERIES), size=16, views=4))
    turn(stage, model, loss, update, aside_score(QUERIES), steps=60)


@sound("whitened views, drawn together")
def whitened_views_of_phrases(stage: Stage) -> None:
    def white(rows: Tensor) -> Tensor:
        centred = rows - rows.mean(0)
        covariance = centred.T @ centred / (len(rows) - 1) + 1e-3 * torch.eye(rows.shape[1])
        return torch.linalg.solve_triangular(
            torch.linalg.cholesky(covariance), centred.T, upper=False
        ).T

    def loss(first: Tensor, second: Tensor) -> Tensor:
        rows = F.normalize(white(torch.cat([first, second])), dim=1)
        return (rows[: len(first)] - rows[len(first) :]).square().sum(1).mean()

    model = model_of(stage, PHRASES, width=16)
    update = of_views(model, Thinned(texts_of(PHRASES), size=64))
    turn(stage, model, loss, update, aside_score(PHRASES), steps=60)
