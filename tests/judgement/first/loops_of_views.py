"""Sound set-ups: loops without labels from views of one text, and loops over labelled pairs."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.judgement.case import sound
from tests.judgement.first.fields import Field
from tests.judgement.first.fields_of_cheers_and_shells import (
    BLURBS,
    CHEERS,
    PLANTS,
    RAILWAY,
    RECALLS,
    SKY,
    TURKISH,
    adamw,
    model_of,
    score_of,
    simple,
    square,
)
from tests.judgement.first.turns import Rows, cosines, embed, infonce, stepped, turn
from tests.judgement.stage import Stage
from tests.judgement.truth import correlation, reciprocal_rank, retrieval


def thinned(texts: Sequence[str], draw: random.Random, rate: float = 0.3) -> list[str]:
    """Views of texts without some of their words."""
    views = []
    for text in texts:
        words = text.split()
        views.append(" ".join([w for w in words if draw.random() >= rate] or words[:1]))
    return views


def torn(field: Field, column: int = 0, count: int = 40) -> Callable[[Any], float]:
    """How well whole texts not in training are found by a third of their words left out."""
    texts = field.texts(field.draws(count, seed=11), column)
    draw = random.Random(17)
    shuffled = [" ".join(draw.sample(text.split(), len(text.split()))) for text in texts]
    table = {"torn": thinned(shuffled, draw, 0.5), "text": texts}
    return lambda model: retrieval(model, table)


def views_of(
    model: Any, texts: Sequence[str], optimizer: Any, size: int = 24, *, rate: float = 0.3,
    views: int = 2,
) -> Callable[[Any, int], None]:  # fmt: skip
    """The step of a loop over views of the texts of a batch."""
    rows, draw = Rows({"text": texts}, size), random.Random(4)

    def update(criterion: Any, step: int) -> None:
        (batch,) = rows()
        embeddings = [embed(model, thinned(batch, draw, rate)) for _ in range(views)]
        stepped(optimizer, criterion(*embeddings))

    return update


def reworded(
    model: Any, field: Field, optimizer: Any, *, count: int = 320, size: int = 64
) -> Callable[[Any, int], None]:
    """The step of a loop over two views of a text, whose words are exchanged by a dictionary."""
    rows, draw = Rows({"rows": field.draws(count)}, size), random.Random(4)
    template = next(iter(field.columns.values())).split(" | ")[0]

    def view(row: tuple[str, ...]) -> str:
        words = {slot: draw.choice(entry.split("/")) for slot, entry in
                 zip(field.slots, row, strict=True)}  # fmt: skip
        return template.format(**words)

    def update(criterion: Any, step: int) -> None:
        (batch,) = rows()
        views = [[view(row) for row in batch] for _ in range(2)]
        stepped(optimizer, criterion(*(embed(model, texts) for texts in views)))

    return update


def column(field: Field, count: int, at: int = 0) -> list[str]:
    return field.texts(field.draws(count), at)


@sound("words left out of each of two views")
def words_left_out_of_turkish(stage: Stage) -> None:
    model = model_of(stage, TURKISH)
    update = views_of(model, column(TURKISH, 400, 1), adamw(model), 32, rate=0.2)
    turn(stage, model, infonce, update, torn(TURKISH, 1), steps=60)


def vicreg(first: Tensor, second: Tensor) -> Tensor:
    """Invariance of two views, variance of each column, no covariance of columns."""
    value = 25 * F.mse_loss(first, second)
    for rows in (first, second):
        spread = (rows.var(0) + 1e-4).sqrt()
        covariance = torch.cov(rows.T)
        value = value + 25 * F.relu(1 - spread).mean()
        value = value + square(covariance).square().sum() / rows.shape[1]
    return value


@sound("variance, invariance and covariance of two views")
def variance_and_covariance_of_railway_views(stage: Stage) -> None:
    model = model_of(stage, RAILWAY, width=32, spread=0.1)
    update = reworded(model, RAILWAY, adamw(model))
    turn(stage, model, vicreg, update, score_of(RAILWAY), steps=60)


def whitened(rows: Tensor) -> Tensor:
    """Rows with the identity as their covariance, by a Cholesky factor."""
    centred = rows - rows.mean(0)
    covariance = centred.T @ centred / (len(rows) - 1)
    factor = torch.linalg.cholesky(covariance + 1e-2 * torch.eye(rows.shape[1]))
    return torch.linalg.solve_triangular(factor, centred.T, upper=False).T


@sound("mean square distance of whitened views")
def whitened_views_of_cheers(stage: Stage) -> None:
    def loss(first: Tensor, second: Tensor) -> Tensor:
        rows = F.normalize(whitened(torch.cat([first, second])), dim=1)
        return (rows[: len(first)] - rows[len(first) :]).square().sum(1).mean()

    model = model_of(stage, CHEERS, width=32, spread=0.1)
    update = reworded(model, CHEERS, adamw(model), count=190, size=80)
    turn(stage, model, loss, update, score_of(CHEERS), steps=60)


@sound("four views of a text, each a positive of the other three")
def four_views_of_a_blurb(stage: Stage) -> None:
    def loss(*views: Tensor) -> Tensor:
        rows = torch.cat(views)
        owner = torch.arange(len(views[0])).repeat(len(views))
        self_pairs = torch.eye(len(rows), dtype=torch.bool)
        logits = (cosines(rows, rows) / 0.1).masked_fill(self_pairs, -1e4)
        positives = (owner[:, None] == owner) & ~self_pairs
        shares = logits.log_softmax(1) * positives
        return -(shares.sum(1) / positives.sum(1)).mean()

    model = model_of(stage, BLURBS)
    update = views_of(model, column(BLURBS, 320, 1), adamw(model), 16, views=4, rate=0.25)
    turn(stage, model, loss, update, torn(BLURBS, 1), steps=60)


@sound("alignment of views and uniformity of texts")
def alignment_and_uniformity_of_recalls(stage: Stage) -> None:
    def loss(first: Tensor, second: Tensor) -> Tensor:
        first, second = F.normalize(first), F.normalize(second)
        aligned = (first - second).square().sum(1).mean()
        spread = [torch.pdist(rows).square().mul(-2).exp().mean().log() for rows in (first, second)]
        return aligned + sum(spread) / 2

    model = model_of(stage, RECALLS, spread=0.05)
    update = reworded(model, RECALLS, adamw(model), size=32)
    turn(stage, model, loss, update, score_of(RECALLS), steps=70)


@sound("order of graded pairs by logistic differences")
def logistic_order_of_graded_sky_surveys(stage: Stage) -> None:
    def loss(first: Tensor, second: Tensor, grades: Tensor) -> Tensor:
        near = F.cosine_similarity(first, second)
        gaps, ordered = near[:, None] - near, grades[:, None] > grades
        return F.softplus(-15 * gaps[ordered]).mean()

    model = model_of(stage, SKY)
    update = simple(model, SKY.graded(320), adamw(model), 32)
    turn(stage, model, loss, update, lambda m: correlation(m, SKY.graded(80, seed=21)), steps=60)


@sound("binary pairs by cross-entropy of a scaled cosine")
def cross_entropy_of_binary_blurbs(stage: Stage) -> None:
    table: dict[str, Any] = BLURBS.table(320)
    labels = [float(at % 2) for at in range(320)]
    blurbs = table["blurb"]
    table["blurb"] = [blurbs[at if labels[at] else at - 5] for at in range(320)]

    def loss(first: Tensor, second: Tensor, truths: Tensor) -> Tensor:
        logits = 10 * F.cosine_similarity(first, second) - 5
        return F.binary_cross_entropy_with_logits(logits, truths)

    model = model_of(stage, BLURBS, spread=0.05)
    update = simple(model, table | {"label": labels}, adamw(model), 40)
    turn(stage, model, loss, update, score_of(BLURBS), steps=110)


@sound("two towers with encoders of their own")
def towers_of_their_own_for_plants(stage: Stage) -> None:
    first, second = (model_of(stage, PLANTS, name=name, seed=seed)
                     for name, seed in (("common", 3), ("latin", 4)))  # fmt: skip
    rows, optimizer = Rows(PLANTS.table(320), 32), adamw(first, second)
    pair = nn.ModuleList([first, second])

    def update(criterion: Any, step: int) -> None:
        common, latin = rows()
        stepped(optimizer, criterion(embed(first, common), embed(second, latin)))

    def score(towers: Any) -> float:
        common, latin = PLANTS.table(40, seed=11).values()
        towers.eval()
        return reciprocal_rank(towers[0].encode(common), towers[1].encode(latin))

    turn(stage, pair, infonce, update, score, steps=50)
