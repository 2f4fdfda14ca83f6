"""Sound loops that people write themselves, and a sound loss over processes."""

from __future__ import annotations

import contextlib
import copy
import io
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

from tests.judgement.case import sound
from tests.judgement.first.optimisation import _ranked
from tests.judgement.first.own_loops import (
    RATE,
    Learned,
    Loop,
    embed,
    infonce,
    own_rate,
    trained_by_gradlab,
)
from tests.judgement.stage import Stage
from tests.judgement.truth import among_alike, keep, truth


def gains(stage: Stage, loop: Loop, *, least: float = 0.1) -> None:
    """Play a sound loop under watch, which raises the score by ``least`` or more."""
    model = stage.model()
    before = among_alike(model)
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        loop.train(stage, model, "loop")
    stage.run(stage.folder / "loop")
    keep(stage, before=before, after=among_alike(model))
    assert truth(stage)["after"] >= before + least, truth(stage)


@sound("loop")
def temperature_learned_by_its_logarithm(stage: Stage) -> None:
    gains(stage, Loop(Learned(), optimizer=own_rate(5e-3)))


@sound("loop")
def positives_by_a_moving_average_of_the_encoder(stage: Stage) -> None:
    """As in MoCo, positives have no gradient, and their encoder follows the trained one."""
    follower: list[Any] = []

    def step(model: Any, criterion: Any, columns: list[list[Any]]) -> torch.Tensor:
        if not follower:
            follower.append(copy.deepcopy(model))
        with torch.no_grad():
            for row, weight in zip(follower[0].parameters(), model.parameters(), strict=True):
                row.lerp_(weight, 0.2)
            keys = embed(follower[0], columns[1])
        return criterion(embed(model, columns[0]), keys)

    gains(stage, Loop(step=step))


@sound("loop")
def projection_that_is_thrown_away(stage: Stage) -> None:
    """As in SimCLR, the loss is of a small network's outputs, and the encoder alone is kept."""
    torch.manual_seed(2)
    head = nn.Sequential(nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 16))

    def step(model: Any, criterion: Any, columns: list[list[Any]]) -> torch.Tensor:
        return criterion(*(head(embed(model, column)) for column in columns))

    gains(
        stage,
        Loop(
            step=step,
            optimizer=lambda weights: torch.optim.AdamW([*weights, *head.parameters()], lr=RATE),
        ),
    )


@sound("loop")
def cosines_drawn_to_the_identity(stage: Stage) -> None:
    """Squared differences between the matrix of cosines and the identity, either part by itself."""

    def loss(anchors: torch.Tensor, positives: torch.Tensor) -> torch.Tensor:
        cosines = F.normalize(anchors, dim=-1) @ F.normalize(positives, dim=-1).T
        negatives = cosines[~torch.eye(len(cosines), dtype=torch.bool)]
        return (1 - cosines.diag()).square().mean() + negatives.square().mean()

    gains(stage, Loop(loss))


@sound("loop")
def scaled_gradients_divided_before_clipping(stage: Stage) -> None:
    """A gradient scaler with SGD and momentum, as the documentation of PyTorch has it."""
    scaler = torch.amp.GradScaler("cpu", init_scale=65536.0)

    def move(optimizer: torch.optim.Optimizer, value: torch.Tensor) -> None:
        scaler.scale(value).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(optimizer.param_groups[0]["params"], 1.0)
        scaler.step(optimizer)
        scaler.update()

    gains(
        stage,
        Loop(optimizer=lambda weights: torch.optim.SGD(weights, lr=0.1, momentum=0.9), update=move),
    )


@sound("loop")
def smoothing_of_a_twentieth(stage: Stage) -> None:
    def loss(anchors: torch.Tensor, positives: torch.Tensor) -> torch.Tensor:
        logits = F.normalize(anchors, dim=-1) @ F.normalize(positives, dim=-1).T / 0.05
        return F.cross_entropy(logits, torch.arange(len(anchors)), label_smoothing=0.05)

    gains(stage, Loop(loss))


@sound("loop")
def two_batches_added_up_under_adam(stage: Stage) -> None:
    """Gradients of two batches are summed and not averaged, which Adam does not notice."""

    def step(model: Any, criterion: Callable[..., Any], columns: list[list[Any]]) -> torch.Tensor:
        half = len(columns[0]) // 2
        halves = [[column[:half] for column in columns], [column[half:] for column in columns]]
        first, second = (criterion(*(embed(model, column) for column in texts)) for texts in halves)
        return first + second

    gains(stage, Loop(infonce, step=step))


def logged(anchors: torch.Tensor, positives: torch.Tensor) -> torch.Tensor:
    """A gathered loss, right in its gradient, whose value is averaged for the log beside it."""
    from torch.distributed.nn.functional import all_gather

    first, second = F.normalize(anchors, dim=-1), F.normalize(positives, dim=-1)
    if not dist.is_initialized() or dist.get_world_size() == 1:
        return _ranked(first, second, 0)
    value = _ranked(first, torch.cat(list(all_gather(second))), dist.get_rank())
    mean = value.detach().clone()
    dist.all_reduce(mean)
    return value


@sound("gradlab train")
def a_few_sub_words_deleted(stage: Stage) -> None:
    before = among_alike(stage.model())
    model = trained_by_gradlab(stage, augment="random_deletion(rate=0.2)", max_steps=60)
    stage.run(stage.folder / "run-0")
    keep(stage, before=before, after=among_alike(model))
    assert truth(stage)["after"] >= before + 0.03, truth(stage)


@sound("processes")
def value_averaged_for_the_log(stage: Stage) -> None:
    stage.audit(logged, uneven=False)
