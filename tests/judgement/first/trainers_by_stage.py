"""Sound set-ups of trainers: early stopping, adapters, frozen words, resumption."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

from tests.judgement.case import sound
from tests.judgement.first.loop_helpers import encoder_of, pretrain
from tests.judgement.first.loop_materials import quiet
from tests.judgement.first.texts_of_every_day import CITATIONS, MACHINES
from tests.judgement.first.texts_of_offices import HEADLINES
from tests.judgement.first.texts_of_trades import WEATHER
from tests.judgement.stage import Stage
from tests.judgement.truth import learns
from tests.sentence_training import losses


@sound("stopped early, the best kept")
def citations_ranked_until_no_better(stage: Stage) -> None:
    """Evaluated every 20 steps on others; it stops if the loss does not fall; the best is kept.

    Remark: the loss of the evaluation is of batches of 8, which have fewer negatives than training.
    """
    from datasets import Dataset
    from transformers import EarlyStoppingCallback

    trainer = stage.trainer(
        losses.MultipleNegativesRankingLoss, CITATIONS.table(400), encoder_of(stage, CITATIONS),
        eval_dataset=Dataset.from_dict(CITATIONS.table(64, held=True, seed=1)),
        callbacks=[EarlyStoppingCallback(3)], eval_strategy="steps", eval_steps=20,
        save_strategy="steps", save_steps=20, save_total_limit=2, load_best_model_at_end=True,
        metric_for_best_model="eval_loss", learning_rate=2e-3, max_steps=200,
    )  # fmt: skip
    learns(stage, trainer, CITATIONS.sought, least=0.1)


@sound(
    "adapters of peft",
    allowed={r"saved model": "The base was tuned before, and is not saved with its adapter."},
)
def machine_lines_ranked_with_adapters(stage: Stage) -> None:
    """A body trained beforehand is frozen; low-rank adapters in all its layers learn the rest."""
    from peft import LoraConfig, TaskType

    model = pretrain(encoder_of(stage, MACHINES), MACHINES.table(150, seed=4), steps=10, rate=1e-3)
    model.add_adapter(LoraConfig(
        task_type=TaskType.FEATURE_EXTRACTION, r=8, lora_alpha=16, lora_dropout=0.05,
        target_modules=["query", "key", "value", "dense"],
    ))  # fmt: skip
    trainer = stage.trainer(
        losses.MultipleNegativesRankingLoss, MACHINES.table(450), model, learning_rate=5e-3,
        per_device_train_batch_size=32, max_steps=110,
    )  # fmt: skip
    learns(stage, trainer, MACHINES.sought, least=0.1)


@sound("frozen words")
def weather_with_frozen_words(stage: Stage) -> None:
    """Of a trained encoder, the embeddings of words stay; the layers above are tuned."""
    model = pretrain(encoder_of(stage, WEATHER), WEATHER.table(150, seed=3), steps=9, rate=1e-3)
    model[0].auto_model.embeddings.requires_grad_(False)
    trainer = stage.trainer(
        losses.MultipleNegativesRankingLoss, WEATHER.table(480), model, learning_rate=2e-3,
        max_steps=120, per_device_train_batch_size=24,
    )  # fmt: skip
    learns(stage, trainer, WEATHER.sought, least=0.1)


@sound("resumed from a checkpoint")
def headlines_resumed_from_checkpoint(stage: Stage) -> None:
    """A run that was stopped after 50 of 100 steps is taken up from its checkpoint."""

    def headline_trainer() -> Any:
        return stage.trainer(
            losses.MultipleNegativesRankingLoss, HEADLINES.table(480),
            encoder_of(stage, HEADLINES), learning_rate=2e-3, max_steps=100,
            save_strategy="steps", save_steps=50,
        )  # fmt: skip

    with quiet():
        headline_trainer().train()
    trainer = headline_trainer()
    checkpoint = Path(trainer.args.output_dir) / "checkpoint-50"
    trainer.train = functools.partial(trainer.train, resume_from_checkpoint=str(checkpoint))
    learns(stage, trainer, HEADLINES.sought, least=0.1)
