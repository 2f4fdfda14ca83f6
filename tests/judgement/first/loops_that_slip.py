"""Loops whose steps slip: gradients cut or thrown away, optimisers astray."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from tests.judgement.case import REPORT, faulty
from tests.judgement.first.beside import IDLE, Loop, adam, loops_beside
from tests.judgement.first.fault_subjects import (
    BANK,
    COLLAPSED,
    FLATS,
    JOBS,
    MATCHES,
    MUSEUM,
    UNMOVED,
    reader,
    sought_of,
)
from tests.judgement.first.fields import CLINIC
from tests.judgement.first.good_fields import CONTRACTS, LOGS
from tests.judgement.first.turns import Rows, embed, infonce, stepped
from tests.judgement.stage import Stage

LOOP = {"tools": (REPORT,)}
STILL = (*IDLE, *UNMOVED)


@faulty(
    "vectors from encode with gradient switched on",
    "Embeddings come from encode(), which cuts the gradient, and requires_grad was set on them to "
    "quiet the error.",
    [*STILL, r"(?i)detach|leaf|no_grad|encode\("],
    **LOOP,
)
def encode_vectors_requiring_grad(stage: Stage) -> None:
    """`torch.tensor(model.encode(texts), requires_grad=True)`."""

    def build(slip: bool) -> Loop:
        model, rows = reader(stage, BANK), Rows(BANK.table(160))
        optimizer = adam(model)

        def vectors(texts: Sequence[str]) -> Tensor:
            if slip:
                array = model.encode(list(texts), show_progress_bar=False)
                return torch.tensor(array, requires_grad=True)
            return embed(model, texts)

        def update(criterion: Any, step: int) -> None:
            stepped(optimizer, criterion(*(vectors(column) for column in rows())))

        return Loop(model, infonce, update)

    loops_beside(stage, build, sought_of(BANK))


@faulty(
    "gradients cleared too early",
    "zero_grad() stands between backward() and step(): the optimiser never sees a gradient.",
    [*STILL, r"(?i)zero_grad|cleared|erased"],
    **LOOP,
)
def gradients_cleared_before_the_step(stage: Stage) -> None:
    """`backward(); zero_grad(); step()`."""

    def build(slip: bool) -> Loop:
        model, rows = reader(stage, CLINIC), Rows(CLINIC.table(160))
        optimizer = adam(model)

        def update(criterion: Any, step: int) -> None:
            loss = criterion(*(embed(model, column) for column in rows()))
            if not slip:
                optimizer.zero_grad()
            loss.backward()
            if slip:
                optimizer.zero_grad()
            optimizer.step()

        return Loop(model, infonce, update)

    loops_beside(stage, build, sought_of(CLINIC))


@faulty(
    "accumulation that never comes to a step",
    "A step is taken on every 64th batch of an epoch, and an epoch has ten batches.",
    [*STILL, r"(?i)accumulat|step\(\)"],
    **LOOP,
)
def steps_due_after_the_epoch(stage: Stage) -> None:
    """`if (batch + 1) % 64 == 0: optimizer.step()` inside each epoch."""

    def build(slip: bool) -> Loop:
        model, rows = reader(stage, FLATS), Rows(FLATS.table(160))
        optimizer, interval = adam(model), 64 if slip else 2

        def update(criterion: Any, step: int) -> None:
            batch = step % 10
            loss = criterion(*(embed(model, column) for column in rows()))
            (loss / interval).backward()
            if (batch + 1) % interval == 0:
                optimizer.step()
                optimizer.zero_grad()

        return Loop(model, infonce, update)

    loops_beside(stage, build, sought_of(FLATS), steps=60)


@faulty(
    "loss rebuilt from its number",
    "The loss of the log, a number, is wrapped in a new tensor before backward(): the gradient "
    "ends there.",
    [*STILL, r"(?i)\.item\(\)|detach|graph"],
    **LOOP,
)
def loss_rebuilt_from_its_item(stage: Stage) -> None:
    """`torch.tensor(loss.item(), requires_grad=True).backward()`."""

    def build(slip: bool) -> Loop:
        model, rows = reader(stage, LOGS), Rows(LOGS.table(160))
        optimizer = adam(model)

        def update(criterion: Any, step: int) -> None:
            loss = criterion(*(embed(model, column) for column in rows()))
            if slip:
                loss = torch.tensor(loss.item(), requires_grad=True)
            stepped(optimizer, loss)

        return Loop(model, infonce, update)

    loops_beside(stage, build, sought_of(LOGS))


@faulty(
    "optimiser made while the encoder was frozen",
    "The optimiser took the weights that required a gradient while the encoder was frozen for the "
    "first phase; when the encoder is thawed, it is not in the optimiser.",
    [*STILL, r"(?i)optimi[sz]er.{0,80}(not|miss|without|only|lack)"],
    **LOOP,
)
def encoder_thawed_behind_the_optimizer(stage: Stage) -> None:
    """`filter(lambda p: p.requires_grad, ...)` before `requires_grad_(True)`."""

    def build(slip: bool) -> Loop:
        model, rows = reader(stage, MATCHES), Rows(MATCHES.table(160))
        torch.manual_seed(1)
        head = nn.Linear(48, 48)
        if slip:
            model.requires_grad_(False)
        trained = [row for row in [*model.parameters(), *head.parameters()] if row.requires_grad]
        optimizer = torch.optim.AdamW(trained, lr=1e-3)
        model.requires_grad_(True)

        def update(criterion: Any, step: int) -> None:
            stepped(optimizer, criterion(*(head(embed(model, column)) for column in rows())))

        return Loop(model, infonce, update)

    loops_beside(stage, build, sought_of(MATCHES))


@faulty(
    "first weights loaded again and again",
    "The weights of the beginning are loaded at the head of each epoch: every ten steps all that "
    "was learned is lost.",
    [
        r"(?i)(weights?|parameters?|model|encoder|embeddings?|loss).{0,100}(reset|restor|reload|jump|"
        r"return|(thrown|set|fall|go) back|initial (weights|values)|saw-?tooth|periodic|lost)",
        *STILL,
    ],
    **LOOP,
)
def first_weights_loaded_at_each_epoch(stage: Stage) -> None:
    """`model.load_state_dict(start)` within the loop of epochs, left from cross-validation."""

    def build(slip: bool) -> Loop:
        model, rows = reader(stage, MUSEUM), Rows(MUSEUM.table(160))
        optimizer, start = adam(model), copy.deepcopy(model.state_dict())

        def update(criterion: Any, step: int) -> None:
            if slip and step % 10 == 0:
                model.load_state_dict(start)
            stepped(optimizer, criterion(*(embed(model, column) for column in rows())))

        return Loop(model, infonce, update)

    loops_beside(stage, build, sought_of(MUSEUM), steps=51)


@faulty(
    "rate cut at each batch",
    "The rate is cut to a tenth after each batch, where the schedule was meant for epochs.",
    [r"(?i)learning rate|\blr\b|schedul|step size|(updates?|steps?).{0,40}(shrink|small|fade)",
     *STILL],
    **LOOP,
)  # fmt: skip
def schedule_stepped_after_each_batch(stage: Stage) -> None:
    """`StepLR(optimizer, 1, gamma=0.1)` stepped per batch."""

    def build(slip: bool) -> Loop:
        model, rows = reader(stage, JOBS), Rows(JOBS.table(160))
        optimizer = adam(model)
        schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.1 if slip else 0.99)

        def update(criterion: Any, step: int) -> None:
            stepped(optimizer, criterion(*(embed(model, column) for column in rows())))
            schedule.step()

        return Loop(model, infonce, update)

    loops_beside(stage, build, sought_of(JOBS))


@faulty(
    "decay of the old kind at a high value",
    "weight_decay of 1 with Adam, where it is added to the gradient, not taken from the weights: "
    "the gradient of the loss is drowned by it.",
    [r"(?i)decay|L2|regulari[sz]", r"(?i)weights?.{0,60}(shrink|shrank|vanish|small|decreas|zero)",
     *COLLAPSED],
    **LOOP,
)  # fmt: skip
def decay_added_to_the_gradient(stage: Stage) -> None:
    """`torch.optim.Adam(..., weight_decay=1.0)` for AdamW."""

    def build(slip: bool) -> Loop:
        model, rows = reader(stage, CONTRACTS, length=90), Rows(CONTRACTS.table(160))
        kind = torch.optim.Adam if slip else torch.optim.AdamW
        optimizer = kind(model.parameters(), lr=1e-3, weight_decay=1.0)

        def update(criterion: Any, step: int) -> None:
            stepped(optimizer, criterion(*(embed(model, column) for column in rows())))

        return Loop(model, infonce, update)

    loops_beside(stage, build, sought_of(CONTRACTS), steps=40)
