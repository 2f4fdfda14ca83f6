"""Sound set-ups: loops with triplets, classes, grades, distances and statistics of their own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from tests.judgement.case import sound
from tests.judgement.first import fields_of_wishes_and_mails as fields
from tests.judgement.first.loops_of_wishes import adam, plainly
from tests.judgement.first.turns import Rows, cosines, embed, stepped, turn, warmed
from tests.judgement.stage import Stage


def classwise(model: Any, rows: Rows, optimizer: Any) -> Callable[[Any, int], None]:
    """A step on texts and their labels."""

    def update(criterion: Any, step: int) -> None:
        texts, labels = rows()
        stepped(optimizer, criterion(embed(model, texts), torch.tensor(labels)))

    return update


def hinge(anchors: Tensor, positives: Tensor, negatives: Tensor) -> Tensor:
    """Triplets by Euclidean distance of unit vectors."""
    anchors, positives, negatives = (F.normalize(x) for x in (anchors, positives, negatives))
    return F.triplet_margin_loss(anchors, positives, negatives, margin=0.5, swap=True)


@sound("triplets by Euclidean distance, swapped")
def adverts_in_swapped_triplets(stage: Stage) -> None:
    model = fields.encoder_of(stage, fields.JOBS)
    table = dict(list(fields.JOBS.table(420).items())[:2])
    near = [fields.JOBS.near(420, slot=slot) for slot in range(4)]
    table["negative"] = [near[at % 4][at] for at in range(420)]
    update = plainly(model, Rows(table, 32), adam(model))
    turn(stage, model, hinge, update, fields.sought(_adverts), steps=80)


def _adverts(count: int, seed: int) -> dict[str, list[str]]:
    return dict(list(fields.JOBS.table(count, seed).items())[:2])


def supervised(rows: Tensor, labels: Tensor) -> Tensor:
    """Supervised contrastive loss: all texts of a class are positives of each."""
    scores = cosines(rows, rows) / 0.1
    scores = scores.masked_fill(torch.eye(len(rows), dtype=torch.bool), -1e9)
    same = (labels[:, None] == labels).float().fill_diagonal_(0)
    logs = scores - scores.logsumexp(1, keepdim=True)
    paired = same.sum(1) > 0
    return -((logs * same).sum(1) / same.sum(1).clamp(min=1))[paired].mean()


@sound("supervised contrast of classes")
def functions_by_noun_supervised(stage: Stage) -> None:
    model = fields.encoder_of(stage, fields.CODE)
    update = classwise(model, Rows(fields.classed(fields.CODE, 360, slot=1), 40), adam(model))
    turn(stage, model, supervised, update, fields.class_score(fields.CODE, slot=1), steps=50)


@sound("multi-similarity of a library, with its miner")
def mails_by_multi_similarity(stage: Stage) -> None:
    from pytorch_metric_learning.losses import MultiSimilarityLoss
    from pytorch_metric_learning.miners import MultiSimilarityMiner

    miner, similarity = MultiSimilarityMiner(), MultiSimilarityLoss(alpha=2, beta=20, base=0.5)

    def loss(rows: Tensor, labels: Tensor) -> Tensor:
        return similarity(rows, labels, miner(rows, labels))

    model = fields.encoder_of(stage, fields.MAILS, width=32)
    update = classwise(model, Rows(fields.classed(fields.MAILS, 360, slot=1), 35), adam(model))
    turn(stage, model, loss, update, fields.class_score(fields.MAILS, slot=1), steps=50)


@sound("circle loss of a library")
def flights_by_circles(stage: Stage) -> None:
    from pytorch_metric_learning.losses import CircleLoss

    model = fields.encoder_of(stage, fields.FLIGHTS)
    table = fields.classed(fields.FLIGHTS, 340, slot=1)
    update = classwise(model, Rows(table, 36), adam(model))
    score = fields.class_score(fields.FLIGHTS, slot=1)
    turn(stage, model, CircleLoss(m=0.4, gamma=40), update, score, steps=60)


def graded(first: Tensor, second: Tensor, scores: Tensor) -> Tensor:
    """CoSENT by hand: the better of two pairs has the higher cosine."""
    similar = 20 * F.cosine_similarity(first, second)
    gaps = similar[:, None] - similar
    gaps = gaps[scores[:, None] < scores]
    return torch.logsumexp(torch.cat([torch.zeros(1), gaps]), 0)


def gradedly(model: Any, rows: Rows, optimizer: Any) -> Callable[[Any, int], None]:
    """A step on pairs of texts and their scores."""

    def update(criterion: Any, step: int) -> None:
        first, second, scores = rows()
        embedded = embed(model, first), embed(model, second)
        stepped(optimizer, criterion(*embedded, torch.tensor(scores)))

    return update


@sound("order of grades by hand")
def weather_ordered_by_hand(stage: Stage) -> None:
    model = fields.encoder_of(stage, fields.WEATHER)
    update = gradedly(model, Rows(fields.WEATHER.graded(340), 32), adam(model))
    turn(stage, model, graded, update, fields.graded_score(fields.WEATHER), steps=80)


def pearson(first: Tensor, second: Tensor, scores: Tensor) -> Tensor:
    """One minus the correlation of cosines and grades in a batch."""
    similar = F.cosine_similarity(first, second)
    return 1 - torch.corrcoef(torch.stack([similar, scores]))[0, 1]


@sound("correlation with grades as the aim")
def sums_by_correlation(stage: Stage) -> None:
    model = fields.encoder_of(stage, fields.SUMS)
    update = gradedly(model, Rows(fields.SUMS.graded(420), 32), adam(model))
    turn(stage, model, pearson, update, fields.graded_score(fields.SUMS), steps=80)


def regularised(first: Tensor, second: Tensor) -> Tensor:
    """VICReg: pairs agree, each dimension varies, and no two dimensions tell the same."""
    total = 25 * F.mse_loss(first, second)
    for rows in (first, second):
        centred = rows - rows.mean(0)
        total = total + 12 * F.relu(1 - (centred.var(0) + 1e-4).sqrt()).mean()
        covariance = centred.T @ centred / (len(rows) - 1)
        total = total + covariance.fill_diagonal_(0).square().sum() / rows.shape[1]
    return total


@sound("variance and covariance instead of negatives")
def greek_by_variance_and_covariance(stage: Stage) -> None:
    model = fields.encoder_of(stage, fields.GREEK)
    update = plainly(model, Rows(fields.GREEK.table(380), 64), adam(model))
    turn(stage, model, regularised, update, fields.GREEK.sought, steps=60)


def distilled(first: Tensor, second: Tensor, targets: Tensor) -> Tensor:
    """Divergence of a batch's softmax of cosines from a teacher's."""
    logs = F.log_softmax(cosines(first, second) / 0.07, 1)
    return F.kl_div(logs, F.softmax(targets / 0.07, 1), reduction="batchmean")


@sound("a batch's distribution of a teacher")
def stars_distilled_by_batch(stage: Stage) -> None:
    table = fields.STARS.table(360)
    teacher = fields.encoder_of(stage, fields.STARS, name="teacher", width=64, seed=9)
    warmed(teacher, table, steps=50)
    model = fields.encoder_of(stage, fields.STARS, layers=1)
    rows, optimizer = Rows(table, 32), adam(model)

    def update(criterion: Any, step: int) -> None:
        columns = rows()
        with torch.no_grad():
            targets = cosines(*(embed(teacher, column) for column in columns))
        stepped(optimizer, criterion(*(embed(model, column) for column in columns), targets))

    turn(stage, model, distilled, update, fields.STARS.sought, steps=70)


def margins(anchors: Tensor, positives: Tensor) -> Tensor:
    """The hardest wrong partner of the batch stays below the right one by a margin."""
    scores = cosines(anchors, positives)
    wrong = scores.masked_fill(torch.eye(len(scores), dtype=torch.bool), -2)
    hardest = torch.stack([wrong.max(1).values, wrong.max(0).values])
    return F.softplus(10 * (hardest - scores.diagonal() + 0.2)).mean() / 10


@sound("hardest in batch after a warm start")
def chess_by_the_hardest_in_batch(stage: Stage) -> None:
    table = fields.CHESS.table(400)
    model = fields.encoder_of(stage, fields.CHESS)
    warmed(model, {name: cells[:80] for name, cells in table.items()}, steps=5)
    rows = Rows({name: cells[80:] for name, cells in table.items()}, 24)
    turn(stage, model, margins, plainly(model, rows, adam(model)), fields.CHESS.sought, steps=60)


def weighted(anchors: Tensor, positives: Tensor, weights: Tensor) -> Tensor:
    """Ranking in which a row counts by its weight."""
    scores = cosines(anchors, positives) / 0.05
    losses = F.cross_entropy(scores, torch.arange(len(anchors)), reduction="none")
    return (losses * weights).sum() / weights.sum()


@sound("rows with weights")
def adverts_typed_in_haste_weighted(stage: Stage) -> None:
    """Texts with few marks of haste count twice."""
    table: dict[str, Any] = fields.typed(380)
    table["weight"] = [1.0 if "..." in text else 2.0 for text in table["typed"]]
    model = fields.encoder_of(stage, fields.JOBS)
    update = gradedly(model, Rows(table, 24), adam(model))
    turn(stage, model, weighted, update, fields.sought(fields.typed), steps=60)
