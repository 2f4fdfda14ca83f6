"""Sound set-ups: loops of one's own, as papers and practitioners write them."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as functional
from torch import Tensor

from tests.judgement.case import sound
from tests.judgement.first.common_tools import (
    fresh,
    in_order,
    rises,
    rows_of,
    warm,
)
from tests.judgement.first.drawn_texts import photos, sensors
from tests.judgement.first.loop_materials import infonce, looped
from tests.judgement.first.slot_fields import (
    ALARMS,
    JAPANESE,
    MAILS,
    QUERIES,
    RUSSIAN,
)
from tests.judgement.stage import Stage
from tests.judgement.truth import correlation, retrieval


def stepped(optimizer: Any, value: Tensor) -> None:
    """One step down the gradient of a loss, whose norm is clipped at one."""
    optimizer.zero_grad()
    value.backward()
    weights = [weight for group in optimizer.param_groups for weight in group["params"]]
    torch.nn.utils.clip_grad_norm_(weights, 1.0)
    optimizer.step()


def adam(model: Any, rate: float = 1.5e-3) -> Any:
    return torch.optim.AdamW(model.parameters(), lr=rate, weight_decay=0.01)


def by_field(field: Any, count: int = 40) -> Callable[[Any], float]:
    """A score of held-out rows of a field, with dropout off, and on again behind it."""

    def score(model: Any) -> float:
        was_training = model.training
        share = field.sought(model.eval(), count)
        model.train(was_training)
        return share

    return score


@sound("loop, learned temperature and both directions")
def loop_with_a_learned_temperature_for_alarms(stage: Stage) -> None:
    """As CLIP: the scale is learned as a logarithm from 14 on, limited to 100."""
    table = ALARMS.table(400, seed=4)
    model = fresh(stage, table)
    scale = torch.nn.Parameter(torch.tensor(2.66))
    optimizer = torch.optim.AdamW(
        [{"params": model.parameters()}, {"params": [scale], "weight_decay": 0.0}], lr=1.5e-3
    )
    batches = in_order(table, 24, 70)

    def loss(first: Tensor, second: Tensor) -> Tensor:
        cosines = functional.normalize(first, dim=1) @ functional.normalize(second, dim=1).T
        logits, own = cosines * scale.exp().clamp(max=100), torch.arange(len(first))
        return (functional.cross_entropy(logits, own) + functional.cross_entropy(logits.T, own)) / 2

    def update(criterion: Any, step: int) -> None:
        stepped(optimizer, criterion(*(rows_of(model, texts) for texts in next(batches))))

    rises(stage, *looped(stage, model, loss, update, steps=70, score=by_field(ALARMS)))


@sound("loop, queue of a slow copy")
def loop_with_a_queue_of_a_slow_copy_for_queries(stage: Stage) -> None:
    """MoCo: positives and a queue of 128 come from a slow copy, which gets no gradient."""
    table = QUERIES.table(500, seed=4)
    model = fresh(stage, table)
    slow = copy.deepcopy(model)
    queue, optimizer, batches = [torch.empty(0, 48)], adam(model), in_order(table, 16, 110)

    def loss(first: Tensor, second: Tensor) -> Tensor:
        candidates = functional.normalize(torch.cat([second, queue[0]]), dim=1)
        logits = functional.normalize(first, dim=1) @ candidates.T / 0.07
        return functional.cross_entropy(logits, torch.arange(len(first)))

    def update(criterion: Any, step: int) -> None:
        questions, statements = next(batches)
        with torch.no_grad():
            keys = rows_of(slow, statements)
        stepped(optimizer, criterion(rows_of(model, questions), keys))
        queue[0] = torch.cat([keys, queue[0]])[:128]
        with torch.no_grad():
            for mean, weight in zip(slow.parameters(), model.parameters(), strict=True):
                mean.lerp_(weight, 0.05)

    rises(stage, *looped(stage, model, loss, update, steps=110, score=by_field(QUERIES)))


@sound("loop, variance, invariance and covariance")
def loop_without_negatives_for_photos(stage: Stage) -> None:
    """VICReg: pairs are drawn together while variance and covariance prevent a collapse.

    Remark: there are no negatives, which is the point of it.
    """
    table, tested = photos(320), photos(40, True)
    model = fresh(stage, table, tested)
    torch.manual_seed(5)
    expander = torch.nn.Sequential(torch.nn.Linear(48, 96), torch.nn.ReLU(),
                                   torch.nn.Linear(96, 96))  # fmt: skip
    two_views = torch.nn.ModuleList([model, expander])
    optimizer, batches = adam(two_views, 1.5e-3), in_order(table, 64, 90)

    def spread(rows: Tensor) -> Tensor:
        rows = rows - rows.mean(0)
        covariance = rows.T @ rows / (len(rows) - 1)
        off = covariance - torch.diag(covariance.diagonal())
        deviations = (covariance.diagonal() + 1e-4).sqrt()
        return 25 * functional.relu(1 - deviations).mean() + off.square().sum() / rows.shape[1]

    def loss(first: Tensor, second: Tensor) -> Tensor:
        first, second = expander(first), expander(second)
        return 25 * functional.mse_loss(first, second) + spread(first) + spread(second)

    def update(criterion: Any, step: int) -> None:
        stepped(optimizer, criterion(*(rows_of(model, texts) for texts in next(batches))))

    def score(model: Any) -> float:
        return retrieval(model.eval(), tested)

    rises(stage, *looped(stage, model, loss, update, steps=90, score=score))


@sound("loop, alignment and uniformity")
def loop_with_alignment_and_uniformity_for_russian(stage: Stage) -> None:
    """Pairs are drawn together on the sphere, and all texts of a column are spread over it."""
    table = RUSSIAN.table(240, seed=2)
    model = fresh(stage, table)
    optimizer, batches = adam(model), in_order(table, 32, 70)

    def uniformity(rows: Tensor) -> Tensor:
        return torch.pdist(rows).square().mul(-2).exp().mean().log()

    def loss(first: Tensor, second: Tensor) -> Tensor:
        first, second = functional.normalize(first, dim=1), functional.normalize(second, dim=1)
        alignment = (first - second).square().sum(1).mean()
        return alignment + (uniformity(first) + uniformity(second)) / 2

    def update(criterion: Any, step: int) -> None:
        stepped(optimizer, criterion(*(rows_of(model, texts) for texts in next(batches))))

    rises(stage, *looped(stage, model, loss, update, steps=70, score=by_field(RUSSIAN)))


@sound("loop, teacher's similarities of a batch")
def loop_that_copies_similarities_of_a_teacher(stage: Stage) -> None:
    """The student meets the teacher's softmax over all mails of a batch, by the divergence."""
    table = MAILS.table(150)
    teacher = warm(stage, MAILS.table(150, seed=2), table, steps=70, name="teacher")
    model = fresh(stage, table, width=32, seed=5)
    optimizer, batches = adam(model, 2e-3), in_order(table, 24, 80)

    def similar(first: Tensor, second: Tensor) -> Tensor:
        return functional.normalize(first, dim=1) @ functional.normalize(second, dim=1).T / 0.05

    def loss(first: Tensor, second: Tensor, taught: Tensor) -> Tensor:
        return functional.kl_div(
            similar(first, second).log_softmax(1), taught.softmax(1), reduction="batchmean"
        )

    def update(criterion: Any, step: int) -> None:
        columns = next(batches)
        with torch.no_grad():
            taught = similar(*(rows_of(teacher, texts) for texts in columns))
        stepped(optimizer, criterion(*(rows_of(model, texts) for texts in columns), taught))

    rises(stage, *looped(stage, model, loss, update, steps=80, score=by_field(MAILS, 24)))


@sound("loop, correlation of cosines and scores")
def loop_that_raises_a_correlation_of_readings(stage: Stage) -> None:
    """One less Pearson's correlation of a batch of 64 is the loss; batches are large for it."""
    table, tested = sensors(600), sensors(200, True)
    model = fresh(stage, table, tested, layers=1, dropout=0.0)
    optimizer, batches = adam(model, 3e-3), in_order(table, 64, 120)

    def loss(first: Tensor, second: Tensor, scores: Tensor) -> Tensor:
        cosines = functional.cosine_similarity(first, second)
        cosines, scores = cosines - cosines.mean(), scores - scores.mean()
        return 1 - (cosines * scores).sum() / (cosines.norm() * scores.norm() + 1e-8)

    def update(criterion: Any, step: int) -> None:
        first, second, scores = next(batches)
        columns = (rows_of(model, texts) for texts in (first, second))
        stepped(optimizer, criterion(*columns, torch.tensor(scores)))

    def score(model: Any) -> float:
        return correlation(model.eval(), tested)

    rises(stage, *looped(stage, model, loss, update, steps=120, score=score))


@sound("loop, plain InfoNCE with a cosine schedule and whole epochs")
def loop_over_epochs_of_japanese_wares(stage: Stage) -> None:
    """Shuffled epochs, AdamW and a cosine decay to a tenth: the ordinary loop."""
    table = JAPANESE.table(320, seed=4)
    model = fresh(stage, table, pooling="max")
    optimizer, batches = adam(model, 2e-3), in_order(table, 16, 80)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 80, eta_min=2e-4)

    def update(criterion: Any, step: int) -> None:
        columns: Sequence[Any] = next(batches)
        stepped(optimizer, criterion(*(rows_of(model, texts) for texts in columns)))
        schedule.step()

    rises(stage, *looped(stage, model, infonce, update, steps=80, score=by_field(JAPANESE)))
