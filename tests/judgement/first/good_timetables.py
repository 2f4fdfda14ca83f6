"""Optimisers, schedules, precision, accumulation, resumed and stopped runs."""

from __future__ import annotations

import contextlib
import io
from typing import Any

import torch
from sentence_transformers import SentenceTransformerTrainer
from sentence_transformers.sentence_transformer import losses
from transformers import EarlyStoppingCallback, get_cosine_schedule_with_warmup

from tests.judgement.case import sound
from tests.judgement.first.bodies import encoder, words_of
from tests.judgement.first.fields import CLINIC, CODE, HELPDESK, KITCHEN, PAPERS, SCENES, TRAVEL
from tests.judgement.first.good_fields import CONTRACTS, LETTERS, LOGS, SONGS, minutes
from tests.judgement.first.good_materials import (
    LEAST,
    near_triplets,
    search,
    sought,
    started,
    tune,
    two,
)
from tests.judgement.stage import Stage
from tests.judgement.truth import learns

RANKING = losses.MultipleNegativesRankingLoss


@sound(
    "eight rows a batch, four batches an update",
    allowed={
        r"(?i)(small|few|little).{0,40}(batch|negative|row)|batch.{0,60}(small|few|larger)|"
        r"accumulat": "Accumulation gives no more negatives; one may advise a gradient cache."
    },
)
def accumulated_small_batches(stage: Stage) -> None:
    table = near_triplets(HELPDESK, 300, 0)
    model = encoder(stage, words_of([table]), spread=0.05)
    tune(
        stage, table, RANKING, model, HELPDESK.sought, per_device_train_batch_size=8,
        gradient_accumulation_steps=4, learning_rate=3e-3, max_steps=30, warmup_steps=3,
    )  # fmt: skip


@sound("autocast to bfloat16")
def half_precision_of_dishes(stage: Stage) -> None:
    table = two(KITCHEN.table(300))
    model = encoder(stage, words_of([table]), spread=0.05)
    tune(
        stage, table, RANKING, model, KITCHEN.sought, bf16=True, learning_rate=2e-3,
        per_device_train_batch_size=24, max_steps=40,
    )  # fmt: skip


@sound("warm-up over a third of the run")
def log_lines_with_long_warm_up(stage: Stage) -> None:
    table = two(LOGS.table(300))
    model = encoder(stage, words_of([table]), width=64, spread=0.05)
    tune(
        stage, table, RANKING, model, LOGS.sought, learning_rate=3e-3, warmup_steps=20,
        max_steps=60, per_device_train_batch_size=24, lr_scheduler_type="linear",
    )  # fmt: skip


@sound("cosine schedule with restarts")
def restarts_of_the_rate(stage: Stage) -> None:
    table = two(SONGS.table(400))
    model = encoder(stage, words_of([table]), spread=0.05, layers=1)
    tune(
        stage, table, RANKING, model, SONGS.sought, learning_rate=3e-3, max_steps=60,
        lr_scheduler_type="cosine_with_restarts", lr_scheduler_kwargs={"num_cycles": 3},
        per_device_train_batch_size=16,
    )  # fmt: skip


@sound("steady rate that decays in the last quarter")
def steady_rate_then_decay(stage: Stage) -> None:
    table = two(CONTRACTS.table(260))
    model = encoder(stage, words_of([table]), spread=0.05, width=32)
    plan = {"num_decay_steps": 10, "min_lr_ratio": 0.1}
    tune(
        stage, table, RANKING, model, CONTRACTS.sought, learning_rate=2e-3, max_steps=40,
        lr_scheduler_type="warmup_stable_decay", lr_scheduler_kwargs=plan,
        per_device_train_batch_size=24,
    )  # fmt: skip


@sound("Adafactor over minutes of two to five points")
def adafactor_on_minutes(stage: Stage) -> None:
    table = minutes(280)
    model = encoder(stage, words_of([table]), spread=0.05)
    tune(
        stage, table, RANKING, model, sought(minutes(60, seed=11)), optim="adafactor",
        learning_rate=3e-3, max_steps=45, per_device_train_batch_size=24,
    )  # fmt: skip


@sound("plain descent with momentum at its own rate")
def descent_with_momentum(stage: Stage) -> None:
    table = two(CODE.table(300))
    model = encoder(stage, words_of([table]), spread=0.05, dropout=0.0)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    schedule = get_cosine_schedule_with_warmup(optimizer, 5, 60)
    trainer = stage.trainer(
        RANKING, table, model, optimizers=(optimizer, schedule), max_steps=60,
        per_device_train_batch_size=32,
    )  # fmt: skip
    learns(stage, trainer, CODE.sought, least=LEAST)


@sound("nine tenths of the rate for each lower layer")
def rates_by_layer(stage: Stage) -> None:
    """Each layer below the last learns at nine tenths of the rate above it."""
    table = two(CLINIC.table(210))
    model = started(stage, table, CLINIC, steps=4, layers=3)
    inner, rate = model[0].model, 2e-3
    layers = [inner.embeddings, *inner.encoder.layer]
    groups = [
        {"params": list(layer.parameters()), "lr": rate * 0.9**depth}
        for depth, layer in enumerate(reversed(layers))
    ]
    trainer = stage.trainer(
        RANKING, table, model, optimizers=(torch.optim.AdamW(groups), None), max_steps=50,
        learning_rate=rate, per_device_train_batch_size=24,
    )  # fmt: skip
    learns(stage, trainer, CLINIC.sought, least=LEAST)


class Resumed(SentenceTransformerTrainer):
    """A trainer that goes on from the last checkpoint of its folder."""

    def train(self, *_: Any, **options: Any) -> Any:
        return super().train(resume_from_checkpoint=True)


@sound("run that goes on from its checkpoint")
def resumed_run(stage: Stage) -> None:
    """A run of forty steps was stopped after ten, and goes on with its optimiser."""
    table = two(PAPERS.table(280))
    settings = {
        "learning_rate": 2e-3, "save_strategy": "steps", "save_steps": 10,
        "per_device_train_batch_size": 24,
    }  # fmt: skip

    class Stopping(EarlyStoppingCallback):
        def on_step_end(self, args: Any, state: Any, control: Any, **options: Any) -> None:
            control.should_training_stop = state.global_step >= 10

        def on_train_begin(self, *_: Any, **options: Any) -> None:
            pass

        def on_evaluate(self, *_: Any, **options: Any) -> None:
            pass

    def model() -> Any:
        return encoder(stage, words_of([table]), spread=0.05, width=40)

    early = stage.trainer(RANKING, table, model(), callbacks=[Stopping()], max_steps=40, **settings)
    with contextlib.redirect_stdout(io.StringIO()):
        early.train()
    tune(stage, table, RANKING, model(), PAPERS.sought, kind=Resumed, max_steps=40, **settings)


@sound("best checkpoint kept, stopped early")
def best_checkpoint_and_early_stop(stage: Stage) -> None:
    table, dev = near_triplets(TRAVEL, 300, 0), search(TRAVEL.table(60, seed=3), "dev")
    model = started(stage, table, TRAVEL, steps=2)
    tune(
        stage, table, RANKING, model, TRAVEL.sought, evaluator=dev, eval_strategy="steps",
        eval_steps=10, save_strategy="steps", save_steps=10, save_total_limit=1,
        load_best_model_at_end=True, metric_for_best_model="eval_dev_cosine_ndcg@10",
        greater_is_better=True, callbacks=[EarlyStoppingCallback(2)], learning_rate=2e-3,
        max_steps=60,
    )  # fmt: skip


@sound("epochs at a constant rate, every parameter but norms decays")
def epochs_at_a_constant_rate(stage: Stage) -> None:
    table = two(LETTERS.table(230))
    model = encoder(stage, words_of([table]), spread=0.05, width=40)
    tune(
        stage, table, RANKING, model, sought(LETTERS.table(50, seed=11)), num_train_epochs=6,
        max_steps=-1, learning_rate=1e-3, lr_scheduler_type="constant", warmup_steps=0,
        weight_decay=0.1, per_device_train_batch_size=23,
    )  # fmt: skip


@sound("checkpointed activations and a gradient cache")
def checkpointed_activations(stage: Stage) -> None:
    table = two(SCENES.table(190))
    model = encoder(stage, words_of([table]), spread=0.05, layers=3, width=32)
    tune(
        stage, table,
        lambda model: losses.CachedMultipleNegativesSymmetricRankingLoss(model, mini_batch_size=16),
        model, SCENES.sought, gradient_checkpointing=True, per_device_train_batch_size=48,
        learning_rate=2e-3, max_steps=28, lr_scheduler_type="inverse_sqrt",
    )  # fmt: skip


@sound("RAdam with clipping")
def rectified_adam(stage: Stage) -> None:
    table = two(HELPDESK.table(340))
    model = encoder(stage, words_of([table]), spread=0.05, width=32, kind="distilbert")
    trainer = stage.trainer(
        RANKING, table, model, optimizers=(torch.optim.RAdam(model.parameters(), lr=5e-3), None),
        learning_rate=5e-3, max_grad_norm=1.0, max_steps=60, per_device_train_batch_size=20,
    )  # fmt: skip
    learns(stage, trainer, HELPDESK.sought, least=LEAST)
