"""Sound set-ups: loops of one's own, and losses on several processes."""

from __future__ import annotations

import copy
from typing import Any

import torch
import torch.nn.functional as functional
from torch import Tensor

from tests.judgement.case import sound
from tests.judgement.first.distribution import cross_entropy, own_labels, processes
from tests.judgement.first.loop_materials import (
    Batches,
    embed,
    infonce,
    looped,
    plain_update,
)
from tests.judgement.stage import Stage
from tests.judgement.truth import keep, truth


def rises(stage: Stage, scores: tuple[float, float], least: float = 0.03) -> None:
    """Keep the scores of a sound loop, and hold it to have raised its score."""
    before, after = scores
    keep(stage, before=before, after=after)
    assert after >= before + least, truth(stage)


def adam(model: Any, rate: float = 1e-3) -> torch.optim.Optimizer:
    return torch.optim.AdamW(model.parameters(), lr=rate)


@sound("plain loop")
def loop_over_pairs(stage: Stage) -> None:
    model = stage.model()
    rises(stage, looped(stage, model, infonce, plain_update(model, Batches(model), adam(model))))


@sound("loop with accumulation, clipping and a schedule")
def loop_with_accumulation_and_clipping(stage: Stage) -> None:
    from transformers import get_linear_schedule_with_warmup

    model = stage.model()
    draw, optimizer = Batches(model), adam(model)
    schedule = get_linear_schedule_with_warmup(optimizer, 4, 40)

    def update(criterion: Any, step: int) -> None:
        if hasattr(criterion, "watch"):
            criterion.watch.step = step
        optimizer.zero_grad()
        for _ in range(2):
            (criterion(*(embed(model, column) for column in draw())) / 2).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()

    rises(stage, looped(stage, model, infonce, update, steps=40))


@sound("loop with a moving average of the weights")
def loop_with_averaged_weights(stage: Stage) -> None:
    model = stage.model()
    average = copy.deepcopy(model)
    draw, optimizer = Batches(model), adam(model)

    def update(criterion: Any, step: int) -> None:
        plain_update(model, draw, optimizer)(criterion, step)
        with torch.no_grad():
            for mean, weight in zip(average.parameters(), model.parameters(), strict=True):
                mean.lerp_(weight, 0.1)

    rises(stage, looped(stage, model, infonce, update))


class QueueOfPassages:
    """InfoNCE with passages of earlier batches, embedded by a slow copy, as in MoCo."""

    def __init__(self, size: int = 64) -> None:
        self.rows, self._size = torch.empty(0, 32), size

    def __call__(self, anchors: Tensor, positives: Tensor) -> Tensor:
        candidates = functional.normalize(torch.cat([positives, self.rows]))
        cosines = functional.normalize(anchors) @ candidates.T
        self.rows = torch.cat([positives.detach(), self.rows])[: self._size]
        return functional.cross_entropy(cosines / 0.05, torch.arange(len(anchors)))


@sound("queue of earlier passages")
def loop_with_a_queue(stage: Stage) -> None:
    model = stage.model()
    update = plain_update(model, Batches(model), adam(model))
    rises(stage, looped(stage, model, QueueOfPassages(), update))


@sound("hinge over all pairs of a batch")
def loop_with_a_hinge(stage: Stage) -> None:
    def hinge(anchors: Tensor, positives: Tensor) -> Tensor:
        cosines = functional.normalize(anchors) @ functional.normalize(positives).T
        gaps = functional.relu(0.2 + cosines - cosines.diagonal()[:, None])
        return (gaps * (1 - torch.eye(len(gaps)))).sum(1).mean()

    model = stage.model()
    update = plain_update(model, Batches(model), adam(model))
    rises(stage, looped(stage, model, hinge, update))


@sound("sigmoid over all pairs of a batch")
def loop_with_a_sigmoid(stage: Stage) -> None:
    """The loss of SigLIP, with its scale and bias held fixed."""

    def sigmoid(anchors: Tensor, positives: Tensor) -> Tensor:
        cosines = functional.normalize(anchors) @ functional.normalize(positives).T
        signs = 2 * torch.eye(len(cosines)) - 1
        return -functional.logsigmoid(signs * (10 * cosines - 6)).sum(1).mean()

    model = stage.model()
    update = plain_update(model, Batches(model), adam(model))
    rises(stage, looped(stage, model, sigmoid, update))


def gathered_with_gradient(anchors: Tensor, positives: Tensor) -> Tensor:
    from torch.distributed.nn.functional import all_gather

    rows = torch.cat(all_gather(positives)) if processes() > 1 else positives
    return cross_entropy(anchors, rows, own_labels(anchors))


@sound("rows gathered with their gradient")
def rows_of_all_processes(stage: Stage) -> None:
    """Right on two processes by its text; on one, it is trained as an ordinary loop."""
    stage.audit(gathered_with_gradient)
    model = stage.model()
    update = plain_update(model, Batches(model), adam(model))
    rises(stage, looped(stage, model, gathered_with_gradient, update))
