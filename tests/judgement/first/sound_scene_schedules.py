"""Sound set-ups, each with another schedule, optimiser, batch or evaluation."""

from __future__ import annotations

from typing import Any

import torch
from transformers import TrainerCallback

from tests.judgement.case import sound
from tests.judgement.first.evaluator_slips import search
from tests.judgement.first.scenes import across, bilingual
from tests.judgement.stage import Stage
from tests.judgement.truth import learns
from tests.sentence_training import losses

ranking = losses.MultipleNegativesRankingLoss
PLAN = {"learning_rate": 2e-3, "max_steps": 80}


def _learns(stage: Stage, model: Any = None, **plan: Any) -> None:
    learns(stage, stage.trainer(ranking, bilingual(640), model, **{**PLAN, **plan}), across)


@sound("half of the steps warm up")
def warm_up_of_half_the_training(stage: Stage) -> None:
    _learns(stage, warmup_steps=40)


@sound("rates by layer")
def lower_rate_for_lower_layers(stage: Stage) -> None:
    model = stage.model()
    body = model[0].auto_model
    groups = [
        {"params": list(body.embeddings.parameters()), "lr": 2e-3},
        {"params": list(body.encoder.parameters()), "lr": 1e-3},
    ]
    _learns(stage, model, optimizers=(torch.optim.AdamW(groups), None))


@sound("batches of four")
def batches_of_four_rows(stage: Stage) -> None:
    _learns(stage, per_device_train_batch_size=4, max_steps=160)


@sound("batches of sixty-four")
def batches_of_sixty_four_rows(stage: Stage) -> None:
    _learns(stage, per_device_train_batch_size=64, max_steps=40)


@sound("bfloat16 by autocast")
def half_precision_by_autocast(stage: Stage) -> None:
    _learns(stage, bf16=True, max_steps=60)


@sound("evaluation on unseen rows")
def search_on_unseen_rows(stage: Stage) -> None:
    _learns(
        stage,
        evaluator=search(bilingual(60, seed=21)),
        eval_strategy="steps",
        eval_steps=16,
        eval_on_start=True,
    )


class Thaw(TrainerCallback):
    """Frees the layers of an encoder after a number of steps."""

    def __init__(self, layers: torch.nn.Module, step: int) -> None:
        self.layers, self.step = layers, step

    def on_step_end(self, _: Any, state: Any, *__: Any, **___: Any) -> None:
        if state.global_step == self.step:
            self.layers.requires_grad_(True)


@sound("layers freed after a while")
def layers_freed_after_twenty_steps(stage: Stage) -> None:
    model = stage.model()
    layers = model[0].auto_model.encoder
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    layers.requires_grad_(False)
    _learns(stage, model, optimizers=(optimizer, None), callbacks=[Thaw(layers, 20)])
