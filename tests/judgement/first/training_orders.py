"""Sound set-ups: orders of work: resumption, early stops, optimisers, rates, hard negatives."""

from __future__ import annotations

import functools
from typing import Any

import torch
from datasets import Dataset
from sentence_transformers.sentence_transformer import evaluation, losses
from transformers import EarlyStoppingCallback, TrainerCallback

from tests.judgement.case import sound
from tests.judgement.first.everyday_fields import ADDRESSES, DUPLICATES, LISTINGS, VACANCIES
from tests.judgement.first.expert_fields import DISCHARGES, NUMBERS, SQL, STATUTES
from tests.judgement.first.language_fields import LIVES, RUSSIAN, TRILINGUAL
from tests.judgement.first.loop_materials import quiet
from tests.judgement.first.training_parts import encoder_of, ranking, trained_before
from tests.judgement.stage import Stage
from tests.judgement.truth import learns


@sound("stopped early by the loss of other rows")
def numbers_until_the_loss_rests(stage: Stage) -> None:
    """Training ends where the loss of rows of their own has not fallen for three evaluations."""
    trainer = stage.trainer(
        ranking(), NUMBERS.table(560), encoder_of(stage, NUMBERS), max_steps=200,
        learning_rate=1e-3, per_device_train_batch_size=32, per_device_eval_batch_size=32,
        eval_dataset=Dataset.from_dict(NUMBERS.table(64, seed=3)), eval_strategy="steps",
        eval_steps=20, save_strategy="steps", save_steps=20, save_total_limit=1,
        load_best_model_at_end=True, metric_for_best_model="eval_loss",
        callbacks=[EarlyStoppingCallback(early_stopping_patience=3)],
    )  # fmt: skip
    learns(stage, trainer, NUMBERS.sought("spoken", "expanded"))


@sound("resumed from a checkpoint")
def translations_resumed_from_a_checkpoint(stage: Stage) -> None:
    """A run that ended after a tenth of its steps goes on with its optimiser and schedule."""
    settings = {"max_steps": 60, "learning_rate": 1e-3, "save_strategy": "steps",
                "save_steps": 6, "save_total_limit": 2,
                "per_device_train_batch_size": 24}  # fmt: skip

    class Interrupted(TrainerCallback):
        def on_step_end(self, args: Any, state: Any, control: Any, **options: Any) -> None:
            control.should_training_stop = state.global_step == 6

    model = encoder_of(stage, RUSSIAN)
    first = stage.trainer(
        ranking(), RUSSIAN.table(480), model, callbacks=[Interrupted()], **settings
    )
    with quiet():
        first.train()
    second = stage.trainer(ranking(), RUSSIAN.table(480), model, **settings)
    checkpoint = str(stage.folder / "run" / "checkpoint-6")
    second.train = functools.partial(second.train, resume_from_checkpoint=checkpoint)
    learns(stage, second, RUSSIAN.sought("english", "russian"))


@sound("rates by depth, optimiser and schedule of one's own")
def lower_rates_for_lower_layers(stage: Stage) -> None:
    """Layer-wise decay: each layer learns at 0.7 of the rate above it; a schedule of one's own."""
    model = trained_before(stage, SQL, "request", "sql", steps=3, layers=3)
    network = model[0].auto_model
    segments = [network.embeddings, *network.encoder.layer]
    groups = [
        {"params": list(segment.parameters()), "lr": 2e-3 * 0.7 ** (len(segments) - depth)}
        for depth, segment in enumerate(segments, 1)
    ]
    optimizer = torch.optim.AdamW(groups, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min((step + 1) / 10, max(0.05, (100 - step) / 90))
    )
    trainer = stage.trainer(
        ranking(), SQL.table(480), model, max_steps=100, optimizers=(optimizer, schedule),
        per_device_train_batch_size=32,
    )  # fmt: skip
    learns(stage, trainer, SQL.sought("request", "sql"))


@sound("rates by names of parameters")
def faster_word_embeddings_for_duplicates(stage: Stage) -> None:
    """Word embeddings learn at three times the rate of the rest."""
    trainer = stage.trainer(
        ranking(), DUPLICATES.table(360), encoder_of(stage, DUPLICATES), max_steps=80,
        learning_rate=1e-3, learning_rate_mapping={r"word_embeddings": 3e-3}, weight_decay=0.05,
        per_device_train_batch_size=32, batch_sampler="no_duplicates",
    )  # fmt: skip
    learns(stage, trainer, DUPLICATES.sought("question", "duplicate"))


@sound("plain SGD with momentum")
def vacancies_by_descent_with_momentum(stage: Stage) -> None:
    """SGD with Nesterov's momentum and a rate that falls by cosine, clipped at 1.

    Remark: transformers are seldom trained by SGD; its rate is far above those of AdamW.
    """
    model = trained_before(stage, VACANCIES, "advert", "career", steps=5)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2, momentum=0.9, nesterov=True)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 120)
    trainer = stage.trainer(
        ranking(), VACANCIES.table(400), model, max_steps=120, optimizers=(optimizer, schedule)
    )
    learns(stage, trainer, VACANCIES.sought("advert", "career"))


@sound("four hard negatives, small batches")
def lives_with_four_wrong_paragraphs(stage: Stage) -> None:
    """Paragraphs of other persons of that name and of other events beside the right one.

    Remark: batches of 8 are small, yet each question has 39 negatives with those of other rows.
    """
    trainer = stage.trainer(
        ranking(), LIVES.table(400), encoder_of(stage, LIVES), max_steps=120, learning_rate=1e-3,
        per_device_train_batch_size=8,
    )  # fmt: skip
    learns(stage, trainer, LIVES.sought("question", "paragraph"))


@sound("first pairs, then lookalikes")
def listings_first_easy_then_hard(stage: Stage) -> None:
    """A second training adds lookalikes to what plain pairs have taught, at half of the rate."""
    pairs = stage.trainer(
        ranking(), LISTINGS.table(300, "query", "listing"), encoder_of(stage, LISTINGS),
        max_steps=25, learning_rate=1e-3,
    )  # fmt: skip
    with quiet():
        pairs.train()
    trainer = stage.trainer(
        ranking(hardness_mode="in_batch_negatives", hardness_strength=2.0), LISTINGS.table(480),
        pairs.model, max_steps=80, learning_rate=5e-4,
    )  # fmt: skip
    learns(stage, trainer, LISTINGS.sought("query", "listing"))


@sound("large margins in a batch")
def addresses_by_margins_of_a_large_batch(stage: Stage) -> None:
    """Each pair is held above 0.8 and its hardest negative of 64 rows below 0.3."""
    model = trained_before(stage, ADDRESSES, "typed", "registered", steps=2)
    trainer = stage.trainer(
        lambda encoder: losses.MegaBatchMarginLoss(encoder, mini_batch_size=16),
        ADDRESSES.table(576), model, max_steps=50, learning_rate=1e-3,
        per_device_train_batch_size=64, batch_sampler="no_duplicates",
    )  # fmt: skip
    learns(stage, trainer, ADDRESSES.sought("typed", "registered"))


@sound("texts of three languages in one row")
def three_languages_with_an_evaluator(stage: Stage) -> None:
    """English is sought in Japanese and back; an evaluator of translations watches."""
    watched = TRILINGUAL.table(40, "english", "japanese", seed=3)
    evaluator = evaluation.TranslationEvaluator(*watched.values(), name="en-ja", batch_size=40)
    trainer = stage.trainer(
        ranking(directions=("query_to_doc", "doc_to_query"), partition_mode="per_direction"),
        TRILINGUAL.table(400, "english", "japanese"), encoder_of(stage, TRILINGUAL), max_steps=100,
        learning_rate=1e-3, evaluator=evaluator, eval_strategy="steps", eval_steps=50,
    )  # fmt: skip
    learns(stage, trainer, TRILINGUAL.sought("english", "japanese"))


@sound("restarts of the rate, last batches dropped")
def notes_with_restarts_of_the_rate(stage: Stage) -> None:
    """Cosine schedule with two restarts; weights are those of the last step."""
    trainer = stage.trainer(
        ranking(), DISCHARGES.table(300), encoder_of(stage, DISCHARGES, dropout=0.2), max_steps=90,
        learning_rate=1.5e-3, lr_scheduler_type="cosine_with_restarts",
        lr_scheduler_kwargs={"num_cycles": 2}, dataloader_drop_last=True,
    )  # fmt: skip
    learns(stage, trainer, DISCHARGES.sought("note", "codes"))


@sound("half precision in the forward pass")
def statutes_in_brain_floats(stage: Stage) -> None:
    """Autocast to bfloat16 with weights in full precision."""
    trainer = stage.trainer(
        ranking(), STATUTES.table(320), encoder_of(stage, STATUTES), max_steps=60,
        learning_rate=1e-3, bf16=True,
    )  # fmt: skip
    learns(stage, trainer, STATUTES.sought("question", "section"))
