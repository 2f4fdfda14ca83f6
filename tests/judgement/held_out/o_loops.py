"""Loops of one's own: optimisers, their order, schedules, gradients that get lost."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from tests.judgement.case import REPORT, faulty
from tests.judgement.first.beside import Loop, adam, loops_beside
from tests.judgement.first.fields import Field
from tests.judgement.first.turns import Rows, cosines, embed, infonce
from tests.judgement.held_out.o_fields import (
    BAKERY,
    CLAIMS,
    GARDEN,
    HARBOUR,
    HOTEL,
    NO_GRADIENT,
    OBSERVATORY,
    STATION,
    STILL,
    score_of,
    trainees,
)
from tests.judgement.stage import Stage

LOOP = (REPORT,)
Step = Callable[[Any, Any, list[Any], int], None]


def played(
    stage: Stage, field: Field, prepared: Callable[[bool, Any], Step], *, steps: int = 60,
    loss: Callable[..., Tensor] = infonce, size: int = 16, **options: Any,
) -> None:  # fmt: skip
    """Play a loop over a field; ``prepared(slip, model)`` makes its step from model and slip."""
    fresh = trainees(stage, field, **options)

    def build(slip: bool) -> Loop:
        model, rows = fresh(), Rows(field.table(240), size)
        step_of = prepared(slip, model)

        def update(criterion: Any, step: int) -> None:
            step_of(model, criterion, rows(), step)

        return Loop(model, loss, update)

    loops_beside(stage, build, score_of(field), steps=steps)


def loss_of(model: Any, criterion: Any, columns: list[Any]) -> Tensor:
    return criterion(*(embed(model, column) for column in columns))


@faulty(
    "gradients zeroed before the step",
    "zero_grad stands between backward and step: the optimiser only ever meets zeros.",
    [*STILL, r"(?i)zero_grad|order|before the step|optimi[sz]er"],
    tools=LOOP,
)
def zero_grad_after_backward_and_before_step(stage: Stage) -> None:
    """Everyday: three lines of a loop in the wrong order."""

    def prepared(slip: bool, model: Any) -> Step:
        optimizer = adam(model, rate=2e-3)

        def step_of(model: Any, criterion: Any, columns: list[Any], step: int) -> None:
            loss = loss_of(model, criterion, columns)
            if not slip:
                optimizer.zero_grad()
            loss.backward()
            if slip:
                optimizer.zero_grad(set_to_none=False)
            optimizer.step()

        return step_of

    played(stage, GARDEN, prepared)


@faulty(
    "optimiser over another copy of the encoder",
    "The optimiser was made from the weights of a copy of the encoder: gradients come to the "
    "encoder, and the optimiser moves weights that nobody uses.",
    [*STILL, r"(?i)optimi[sz]er|copy|(different|stale|another) (object|model|weights|parameters)"],
    tools=LOOP,
)
def optimiser_made_before_the_encoder_was_copied(stage: Stage) -> None:
    """Common: the model is reloaded, wrapped or copied after the optimiser was made."""

    def prepared(slip: bool, model: Any) -> Step:
        optimizer = adam(copy.deepcopy(model) if slip else model, rate=2e-3)

        def step_of(model: Any, criterion: Any, columns: list[Any], step: int) -> None:
            model.zero_grad()
            loss_of(model, criterion, columns).backward()
            optimizer.step()

        return step_of

    played(stage, STATION, prepared, kind="distilbert")


@faulty(
    "schedule stepped with each batch",
    "The schedule multiplies the rate by 0.3 with each epoch, but is stepped with each batch: "
    "after a few batches nothing moves.",
    [*STILL, r"(?i)schedul|decay|learning rate|\brate\b"],
    tools=LOOP,
)
def rate_of_epochs_decayed_by_batches(stage: Stage) -> None:
    """Everyday: `scheduler.step()` one level too deep, with StepLR or ExponentialLR."""

    def prepared(slip: bool, model: Any) -> Step:
        optimizer = adam(model, rate=2e-3)
        schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.3)

        def step_of(model: Any, criterion: Any, columns: list[Any], step: int) -> None:
            optimizer.zero_grad()
            loss_of(model, criterion, columns).backward()
            optimizer.step()
            if slip or step % 15 == 14:
                schedule.step()

        return step_of

    played(stage, HARBOUR, prepared, steps=70)


@faulty(
    "rate of a finished run restored",
    "A finished run's optimiser is restored for a new one, with the rate of 0 at which its "
    "schedule ended: the rate that was asked for is overwritten.",
    [*STILL, r"(?i)resum|checkpoint|restor|schedul|learning rate|\brate\b|optimi[sz]er"],
    tools=LOOP,
)
def optimiser_resumed_at_the_end_of_its_schedule(stage: Stage) -> None:
    """Common: `optimizer.load_state_dict` also brings the rate of the checkpoint."""

    def prepared(slip: bool, model: Any) -> Step:
        optimizer = adam(model, rate=2e-3)
        finished = copy.deepcopy(optimizer.state_dict())
        finished["param_groups"][0]["lr"] = 0.0
        if slip:
            optimizer.load_state_dict(finished)

        def step_of(model: Any, criterion: Any, columns: list[Any], step: int) -> None:
            optimizer.zero_grad()
            loss_of(model, criterion, columns).backward()
            optimizer.step()

        return step_of

    played(stage, CLAIMS, prepared, steps=50)


@faulty(
    "clipping of scaled gradients",
    "Gradients of a loss scaled for half precision are clipped to a norm of 1 before they are "
    "unscaled: what arrives has a norm of 1/65536.",
    [*STILL, r"(?i)clip|unscale|scaler|precision|gradients?.{0,60}(small|tiny|shrink)"],
    tools=LOOP,
)
def clipped_before_the_scaler_unscales(stage: Stage) -> None:
    """Common: `clip_grad_norm_` without `scaler.unscale_(optimizer)` before it."""

    def prepared(slip: bool, model: Any) -> Step:
        optimizer = torch.optim.SGD(model.parameters(), lr=0.3, momentum=0.9)

        def unscale() -> None:
            for row in model.parameters():
                if row.grad is not None:
                    row.grad.div_(65536)

        def step_of(model: Any, criterion: Any, columns: list[Any], step: int) -> None:
            optimizer.zero_grad()
            (65536 * loss_of(model, criterion, columns)).backward()
            if not slip:
                unscale()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            if slip:
                unscale()
            optimizer.step()

        return step_of

    played(stage, BAKERY, prepared, steps=80)


@faulty(
    "loss wrapped in a new tensor",
    "The loss is averaged as a number and wrapped in a new tensor that asks for a gradient: "
    "backward runs and no gradient comes to the encoder.",
    [*NO_GRADIENT, *STILL],
    tools=LOOP,
)
def loss_rebuilt_from_its_number(stage: Stage) -> None:
    """Everyday answer to "does not require grad": `torch.tensor(loss.item(), ...)`."""

    def prepared(slip: bool, model: Any) -> Step:
        optimizer = adam(model, rate=2e-3)

        def step_of(model: Any, criterion: Any, columns: list[Any], step: int) -> None:
            optimizer.zero_grad()
            loss = loss_of(model, criterion, columns)
            (torch.tensor(loss.item(), requires_grad=True) if slip else loss).backward()
            optimizer.step()

        return step_of

    played(stage, OBSERVATORY, prepared)


@faulty(
    "embeddings from encode",
    "Embeddings come from `encode`, which computes without gradient, and requires_grad is set on "
    "them afterwards: the gradient ends at the embeddings.",
    [*NO_GRADIENT, *STILL, r"(?i)\bencode\b|leaf|leaves"],
    tools=LOOP,
)
def embeddings_of_encode_made_to_require_gradient(stage: Stage) -> None:
    """Everyday: `model.encode(texts, convert_to_tensor=True).requires_grad_()`."""

    def prepared(slip: bool, model: Any) -> Step:
        optimizer = adam(model, rate=2e-3)

        def encoded(texts: list[str]) -> Tensor:
            rows = model.encode(texts, convert_to_tensor=True, show_progress_bar=False)
            return rows.clone().requires_grad_()

        def step_of(model: Any, criterion: Any, columns: list[Any], step: int) -> None:
            optimizer.zero_grad()
            embedded = encoded if slip else lambda texts: embed(model, texts)
            criterion(*map(embedded, columns)).backward()
            optimizer.step()

        return step_of

    played(stage, HOTEL, prepared, layers=1)


@faulty(
    "signs of embeddings in the loss",
    "Embeddings are binarised with sign() before the loss, whose gradient is zero everywhere.",
    [*NO_GRADIENT, *STILL, r"(?i)binar|\bsign\b|quanti[sz]|round"],
    tools=LOOP,
)
def embeddings_binarised_before_the_loss(stage: Stage) -> None:
    """Common in training for binary search, without a straight-through estimator."""

    def prepared(slip: bool, model: Any) -> Step:
        optimizer = adam(model, rate=2e-3)

        def step_of(model: Any, criterion: Any, columns: list[Any], step: int) -> None:
            optimizer.zero_grad()
            rows = [embed(model, column) for column in columns]
            signs = [row.sign() if slip else row + (row.sign() - row).detach() for row in rows]
            criterion(*signs).backward()
            optimizer.step()

        return step_of

    def binary(first: Tensor, second: Tensor) -> Tensor:
        return F.cross_entropy(cosines(first, second) / 0.1, torch.arange(len(first)))

    played(stage, GARDEN, prepared, loss=binary, steps=80)


@faulty(
    "accumulation that never comes to its step",
    "Gradients are to be accumulated over 64 batches, of which the run has 60: no step is made.",
    [*STILL, r"(?i)accumul|optimi[sz]er"],
    tools=LOOP,
)
def step_after_sixty_four_of_sixty_batches(stage: Stage) -> None:
    """Common with small data: `if (step + 1) % accumulation == 0`, and no step at the end."""

    def prepared(slip: bool, model: Any) -> Step:
        optimizer, every = adam(model, rate=2e-3), 64 if slip else 2

        def step_of(model: Any, criterion: Any, columns: list[Any], step: int) -> None:
            (loss_of(model, criterion, columns) / every).backward()
            if (step + 1) % every == 0:
                optimizer.step()
                optimizer.zero_grad()

        return step_of

    played(stage, STATION, prepared, layers=3)


@faulty(
    "gradients that are never zeroed",
    "zero_grad is missing: each step goes along the sum of all gradients so far.",
    [
        r"(?i)zero_grad|accumul|gradients?.{0,80}(grow|sum|rise|add|previous|earlier)|stale",
        r"(?i)(diverg|unstable|oscillat|overshoot|explod)",
        r"(?i)(rate|steps?|updates?).{0,60}(too )?(large|high|big)",
    ],
    tools=LOOP,
)
def gradients_summed_over_all_steps(stage: Stage) -> None:
    """Everyday: the line is lost when a loop is rewritten."""

    def prepared(slip: bool, model: Any) -> Step:
        optimizer = torch.optim.SGD(model.parameters(), lr=0.5)

        def step_of(model: Any, criterion: Any, columns: list[Any], step: int) -> None:
            if not slip:
                optimizer.zero_grad()
            loss_of(model, criterion, columns).backward()
            optimizer.step()

        return step_of

    played(stage, CLAIMS, prepared, steps=80)
