"""Sound set-ups: rates, schedules, precisions and resumed runs."""

from __future__ import annotations

import copy
from typing import Any

import torch
from sentence_transformers.sentence_transformer import losses

from tests.judgement.case import sound
from tests.judgement.first.bodies import encoder, words_of
from tests.judgement.first.fields import (
    CLINIC,
    CODE,
    HELPDESK,
    KITCHEN,
    PAPERS,
    SCENES,
    SHOP,
    TRAVEL,
    Field,
)
from tests.judgement.stage import Stage
from tests.judgement.truth import learns

ranking = losses.MultipleNegativesRankingLoss


def scheduled(stage: Stage, field: Field, count: int = 200, **arguments: Any) -> Any:
    """A trainer of pairs of a field by the ranking loss."""
    table = field.table(count)
    return stage.trainer(ranking, table, encoder(stage, words_of([table])), **arguments)


@sound("warm-up for most of the run")
def warm_up_for_sixty_percent(stage: Stage) -> None:
    """The rate rises for 36 of 60 steps, to a high peak."""
    trainer = scheduled(stage, KITCHEN, learning_rate=3e-3, max_steps=60, warmup_steps=36)
    learns(stage, trainer, KITCHEN.sought)


@sound("rate without a schedule")
def constant_rate_from_the_first_step(stage: Stage) -> None:
    """Four epochs at one rate, without warm-up."""
    trainer = scheduled(
        stage, SHOP, learning_rate=1e-3, lr_scheduler_type="constant", warmup_steps=0,
        num_train_epochs=4, max_steps=-1,
    )  # fmt: skip
    learns(stage, trainer, SHOP.sought)


@sound("cosine with hard restarts")
def three_hard_restarts(stage: Stage) -> None:
    """The rate falls to zero three times."""
    trainer = scheduled(
        stage, CODE, learning_rate=3e-3, max_steps=60,
        lr_scheduler_type="cosine_with_restarts", lr_scheduler_kwargs={"num_cycles": 3},
    )  # fmt: skip
    learns(stage, trainer, CODE.sought)


@sound("second stage at a small rate")
def second_stage_at_two_e_minus_four(stage: Stage) -> None:
    """A body from a first stage without its best, trained further at a tenth of the rate."""
    table = TRAVEL.table(240)
    first = stage.trainer(
        ranking, table, encoder(stage, words_of([table])), learning_rate=1.5e-3, max_steps=14
    )
    first.train()
    trainer = stage.trainer(
        ranking, TRAVEL.table(240, seed=4), first.model, learning_rate=2e-4, max_steps=80
    )
    learns(stage, trainer, TRAVEL.sought)


@sound("large rate with clipping", allowed={
    r"0\.01 is too high": "all of an encoder at 0.01 is risky: clipping does not slow Adam",
})  # fmt: skip
def large_rate_held_by_clipping(stage: Stage) -> None:
    """A rate of 0.01, gradients clipped to 0.3 and a long warm-up."""
    trainer = scheduled(
        stage, PAPERS, learning_rate=1e-2, max_grad_norm=0.3, warmup_steps=20, max_steps=60
    )
    learns(stage, trainer, PAPERS.sought)


@sound("accumulated small batches")
def four_small_batches_to_a_step(stage: Stage) -> None:
    """Eight rows at a time and four of them to a step, with a hard negative each."""
    table = HELPDESK.table(240) | {"negative": HELPDESK.near(240)}
    trainer = stage.trainer(
        ranking, table, encoder(stage, words_of([table])), learning_rate=3e-3,
        per_device_train_batch_size=8, gradient_accumulation_steps=4, max_steps=25,
    )  # fmt: skip
    learns(stage, trainer, HELPDESK.sought)


@sound("brain floats by autocast")
def brain_floats_with_weight_decay(stage: Stage) -> None:
    """bf16 of the trainer, with a weight decay of 0.05."""
    trainer = scheduled(
        stage, CLINIC, bf16=True, learning_rate=2e-3, weight_decay=0.05, max_steps=45
    )
    learns(stage, trainer, CLINIC.sought)


@sound("resumed from a checkpoint")
def resumed_after_twenty_of_fifty_steps(stage: Stage) -> None:
    """A run stopped after 20 of 50 steps is taken up from its checkpoint."""
    settings = {"learning_rate": 2e-3, "max_steps": 50, "save_strategy": "steps", "save_steps": 20}
    trainer = scheduled(stage, SCENES, 180, **settings)
    start = copy.deepcopy(trainer.model.state_dict())

    from transformers import TrainerCallback

    class Stop(TrainerCallback):
        def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            control.should_training_stop = state.global_step >= 20

    stop = Stop()
    trainer.add_callback(stop)
    trainer.train()
    trainer.remove_callback(stop)
    trainer.model.load_state_dict(start)
    plain = trainer.train
    trainer.train = lambda *_, **__: plain(resume_from_checkpoint=True)
    learns(stage, trainer, SCENES.sought)


@sound("optimiser and schedule from outside")
def momentum_under_a_single_cycle(stage: Stage) -> None:
    """SGD with Nesterov's momentum under a single cycle of PyTorch's, handed to the trainer."""
    table = SHOP.table(240)
    model = encoder(stage, words_of([table]))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, nesterov=True)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.3, total_steps=60)
    trainer = stage.trainer(ranking, table, model, optimizers=(optimizer, schedule), max_steps=60)
    learns(stage, trainer, SHOP.sought)


@sound("factored optimiser")
def adafactor_with_an_inverse_root(stage: Stage) -> None:
    """Adafactor at a fixed rate with an inverse square root."""
    trainer = scheduled(
        stage, KITCHEN, optim="adafactor", learning_rate=5e-3, max_steps=50,
        lr_scheduler_type="inverse_sqrt",
    )  # fmt: skip
    learns(stage, trainer, KITCHEN.sought)
