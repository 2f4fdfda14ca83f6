"""Loops of one's own with a mistake in their steps: gradients, optimizers, schedules, weights."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor

from tests.judgement.case import faulty
from tests.judgement.first.beside import IDLE, Loop, adam, loops_beside
from tests.judgement.first.mistake_fields import (
    BEES,
    GARDEN,
    HARBOUR,
    POST,
    STARS,
    TRAINS,
    WINES,
    encoder_of_field,
    loop_of,
)
from tests.judgement.first.turns import Rows, embed, infonce
from tests.judgement.stage import Stage

RATE = r"(?i)learning rate|\blr\b|\brates?\b|step size"


@faulty(
    "zero_grad between backward and step",
    "zero_grad stands between backward and step: the optimizer always sees no gradient.",
    [*IDLE, r"(?i)zero_grad|cleared"],
    tools=("report",),
)
def zero_grad_before_the_step(stage: Stage) -> None:
    def build(slip: bool) -> Loop:
        model, rows = encoder_of_field(stage, BEES), Rows(BEES.table(200))
        optimizer = adam(model, rate=2e-3)

        def update(criterion: Any, step: int) -> None:
            value = criterion(*(embed(model, column) for column in rows()))
            optimizer.zero_grad()
            value.backward()
            if slip:
                optimizer.zero_grad()
            optimizer.step()

        return Loop(model, infonce, update)

    loops_beside(stage, build, BEES.sought)


@faulty(
    "rate returned where a factor is due",
    "The function of LambdaLR returns the rate itself, by which the rate is multiplied once more.",
    [RATE, r"(?i)schedul|lambda|factor", *IDLE],
    tools=("report",),
)
def schedule_returns_a_rate_for_a_factor(stage: Stage) -> None:
    def build(slip: bool) -> Loop:
        model = encoder_of_field(stage, TRAINS)
        optimizer = adam(model, rate=2e-3)
        peak = 2e-3 if slip else 1.0
        schedule = torch.optim.lr_scheduler.LambdaLR(
            optimizer, lambda step: peak * max(0.0, 1 - step / 50)
        )
        return loop_of(model, infonce, TRAINS.table(200), optimizer, lambda _: schedule.step())

    loops_beside(stage, build, TRAINS.sought)


@faulty(
    "weights loaded anew in each epoch",
    "The encoder's first weights are loaded within the loop of epochs: each epoch begins anew.",
    [
        r"(?i)reset|reload|re-?initiali[sz]|restor|start(s|ed)? (over|anew|again)|back to (the )?"
        r"(start|first|initial)|loaded (anew|again)",
        r"(?i)loss.{0,60}(jump|spike|saw|rise|climb|returns|periodic|again)",
        r"(?i)(weights?|embeddings?|encoder).{0,60}(jump|return|back|sudden)",
    ],
    tools=("report",),
)
def first_weights_loaded_in_each_epoch(stage: Stage) -> None:
    def build(slip: bool) -> Loop:
        model = encoder_of_field(stage, WINES)
        first = copy.deepcopy(model.state_dict())

        def after(step: int) -> None:
            if slip and step % 12 == 11:
                model.load_state_dict(first)

        return loop_of(model, infonce, WINES.table(200), adam(model, rate=1e-3), after)

    loops_beside(stage, build, WINES.sought)


@faulty(
    "clipped before the scale of the loss is taken out",
    "Gradients of a loss scaled by 4096 are clipped to norm 1 before the scale is taken out.",
    [
        r"(?i)clip|unscale|scaler|loss scal|mixed precision",
        RATE,
        *IDLE,
    ],
    tools=("report",),
)
def clipped_before_the_scale_is_taken_out(stage: Stage) -> None:
    def build(slip: bool) -> Loop:
        model, rows = encoder_of_field(stage, STARS, spread=0.1), Rows(STARS.table(200))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

        def scale_all(factor: float) -> None:
            for row in model.parameters():
                if row.grad is not None:
                    row.grad.mul_(factor)

        def update(criterion: Any, step: int) -> None:
            optimizer.zero_grad()
            (criterion(*(embed(model, column) for column in rows())) * 4096).backward()
            if not slip:
                scale_all(1 / 4096)
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            if slip:
                scale_all(1 / 4096)
            optimizer.step()

        return Loop(model, infonce, update)

    loops_beside(stage, build, STARS.sought, steps=80)


@faulty(
    "adapter added after the optimizer",
    "The optimizer was made before the adapter was added: it holds frozen weights, and none of the "
    "adapter's.",
    [
        *IDLE,
        r"(?i)adapter|lora",
        r"(?i)optimi[sz]er.{0,80}(not (hold|contain|cover|have|update)|none|without|miss|other)",
    ],
    tools=("report",),
)
def adapter_added_after_the_optimizer(stage: Stage) -> None:
    from peft import LoraConfig, TaskType

    def build(slip: bool) -> Loop:
        model = encoder_of_field(stage, POST, spread=0.1)
        optimizer = adam(model, rate=4e-3)
        modules = ["query", "key", "value", "dense", "word_embeddings"]
        model.add_adapter(LoraConfig(
            task_type=TaskType.FEATURE_EXTRACTION, r=16, lora_alpha=64, target_modules=modules,
        ))  # fmt: skip
        return loop_of(
            model, infonce, POST.table(200), optimizer if slip else adam(model, rate=4e-3)
        )

    loops_beside(stage, build, POST.sought)


@faulty(
    "encoder called without gradient",
    "Texts are embedded under no_grad as by encode: only the projection behind is trained.",
    [
        *IDLE,
        r"(?i)no_grad|encode\b|detach|only the (head|projection|last)|inference",
    ],
    tools=("report",),
)
def encoder_called_without_gradient(stage: Stage) -> None:
    from sentence_transformers.sentence_transformer.modules import Dense

    def build(slip: bool) -> Loop:
        torch.manual_seed(4)
        head = Dense(48, 8, activation_function=torch.nn.Identity())
        model, rows = encoder_of_field(stage, HARBOUR, head), Rows(HARBOUR.table(200))
        optimizer = adam(model, rate=2e-3)

        def vectors(texts: list[str]) -> Tensor:
            features = model.tokenize(texts)
            with torch.set_grad_enabled(not slip):
                pooled = model[1](model[0](features))
            return model[2](pooled)["sentence_embedding"]

        def update(criterion: Any, step: int) -> None:
            optimizer.zero_grad()
            criterion(*map(vectors, rows())).backward()
            optimizer.step()

        return Loop(model, infonce, update)

    loops_beside(stage, build, HARBOUR.sought, steps=40)


@faulty(
    "layer-wise decay of the rate far too steep",
    "The rate of each layer below is 0.01 of that above, where 0.9 was meant: words hardly move.",
    [RATE, r"(?i)layer-?wise|decay", *IDLE],
    tools=("report",),
)
def rate_falls_too_steeply_from_layer_to_layer(stage: Stage) -> None:
    def build(slip: bool) -> Loop:
        model, share = encoder_of_field(stage, GARDEN), 0.01 if slip else 0.9
        body = model[0].auto_model
        segments = [*reversed(body.encoder.layer), body.embeddings]
        optimizer = torch.optim.AdamW([
            {"params": list(segment.parameters()), "lr": 1e-3 * share**depth}
            for depth, segment in enumerate(segments)
        ])  # fmt: skip
        return loop_of(model, infonce, GARDEN.table(200), optimizer)

    loops_beside(stage, build, GARDEN.sought, steps=40)
