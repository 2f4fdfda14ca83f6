"""Sound set-ups: several data sets, stages, resumption, frozen parts, optimisers, no labels."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import torch
from sentence_transformers import SentenceTransformerTrainer
from transformers import EarlyStoppingCallback, TrainerCallback
from transformers.trainer_utils import get_last_checkpoint

from tests.judgement.case import sound
from tests.judgement.first.common_tools import Table, fresh, warm
from tests.judgement.first.drawn_texts import review_pairs, tickets
from tests.judgement.first.loop_materials import ranking, trained
from tests.judgement.first.slot_fields import (
    ADDRESSES,
    CHATS,
    HEADLINES,
    JAPANESE,
    JOBS,
    MAILS,
)
from tests.judgement.stage import Stage
from tests.judgement.truth import learns, retrieval
from tests.sentence_training import losses


def of_several(
    stage: Stage, model: Any, tables: dict[str, Table], criteria: Any, **settings: Any
) -> Any:
    """A trainer of several tables, each with a loss by its name, or with one for all."""
    from datasets import Dataset, DatasetDict

    sets = DatasetDict({name: Dataset.from_dict(dict(table)) for name, table in tables.items()})
    base = stage.trainer(ranking, next(iter(tables.values())), model, **settings)
    return SentenceTransformerTrainer(
        model=model, args=base.args, train_dataset=sets, loss=criteria
    )


@sound("two data sets with a loss each, in proportion")
def mails_for_search_and_reviews_for_grades(stage: Stage) -> None:
    """Batches come from one data set at a time, in proportion to their rows, with its own loss."""
    tables = {"mails": MAILS.table(150), "reviews": review_pairs(250)}
    model = fresh(stage, *tables.values())
    criteria = {"mails": ranking(model), "reviews": losses.CoSENTLoss(model)}
    trainer = of_several(
        stage, model, tables, criteria, learning_rate=2e-3, max_steps=130,
        multi_dataset_batch_sampler="proportional",
    )  # fmt: skip
    learns(stage, trainer, lambda model: MAILS.sought(model, 24), least=0.1)


@sound("early stopping and the best weights")
def headlines_stopped_early_at_the_best(stage: Stage) -> None:
    """Training ends when the loss of held-out rows falls no more; the best weights are loaded."""
    from datasets import Dataset

    table = HEADLINES.table(400, seed=4)
    trainer = stage.trainer(
        ranking, table, fresh(stage, table), learning_rate=2e-3, max_steps=160,
        lr_scheduler_type="constant_with_warmup", eval_strategy="steps", eval_steps=20,
        save_strategy="steps", save_steps=20, save_total_limit=2, load_best_model_at_end=True,
        metric_for_best_model="eval_loss", greater_is_better=False,
        eval_dataset=Dataset.from_dict(HEADLINES.table(60, seed=13)),
        callbacks=[EarlyStoppingCallback(early_stopping_patience=2)],
    )  # fmt: skip
    learns(stage, trainer, HEADLINES.sought, least=0.1)


class Resumed(SentenceTransformerTrainer):
    """A trainer that goes on from the last checkpoint of its folder."""

    def train(self, **_: Any) -> Any:
        return super().train(resume_from_checkpoint=get_last_checkpoint(self.args.output_dir))


class Interrupted(TrainerCallback):
    """Ends training after some steps, as a job whose time is over."""

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        control.should_training_stop = state.global_step >= 10


@sound("resumption from a checkpoint")
def addresses_resumed_after_an_interruption(stage: Stage) -> None:
    """Weights, optimiser, schedule and place in the data come from the checkpoint of step 10."""
    table, settings = ADDRESSES.table(360), {
        "learning_rate": 1e-3, "max_steps": 80, "save_strategy": "steps", "save_steps": 10,
        "save_total_limit": 2,
    }  # fmt: skip
    first = stage.trainer(
        ranking, table, fresh(stage, table), callbacks=[Interrupted()], **settings
    )
    trained(first, lambda _: 0.0)
    second = fresh(stage, table)
    second.load_state_dict(first.model.state_dict())
    trainer = stage.trainer(ranking, table, second, kind=Resumed, **settings)
    learns(stage, trainer, ADDRESSES.sought, least=0.1)


@sound("frozen lower part of a pre-trained body")
def japanese_with_the_lower_layer_frozen(stage: Stage) -> None:
    """Word embeddings and the first layer of a pre-trained body are kept; the second is tuned."""
    table = JAPANESE.table(300)
    model = warm(stage, JAPANESE.table(200, seed=2), table, steps=12, rate=2e-3)
    for segment in (model[0].auto_model.embeddings, model[0].auto_model.encoder.layer[0]):
        segment.requires_grad_(False)
    trainer = stage.trainer(ranking, table, model, learning_rate=2e-3, max_steps=100)
    learns(stage, trainer, JAPANESE.sought, least=0.1)


@sound("rates that fall with depth")
def chats_with_rates_by_layer(stage: Stage) -> None:
    """Upper layers of a pre-trained body get a higher rate than lower ones, biases no decay."""
    table = CHATS.table(300)
    model = warm(stage, CHATS.table(200, seed=2), table, steps=12)
    groups: dict[tuple[float, float], list[Any]] = {}
    for name, weight in model.named_parameters():
        rate = 1e-3 if "layer.1" in name else 5e-4
        decay = 0.0 if weight.ndim == 1 else 0.01
        groups.setdefault((rate, decay), []).append(weight)
    optimizer = torch.optim.AdamW([
        {"params": weights, "lr": rate, "weight_decay": decay}
        for (rate, decay), weights in groups.items()
    ])  # fmt: skip
    trainer = stage.trainer(
        ranking, table, model, optimizers=(optimizer, None), max_steps=60,
        lr_scheduler_type="cosine",
    )  # fmt: skip
    learns(stage, trainer, CHATS.sought, least=0.1)


def shortened(text: str, draw: random.Random) -> str:
    """A text that lacks about a quarter of its words."""
    return " ".join(word for word in text.split() if draw.random() > 0.25) or text


@sound("two views of a text, no labels")
def tickets_without_labels_by_two_views(stage: Stage) -> None:
    """Words are dropped at random twice, and the two views of a ticket are a pair.

    Remark: the views of a ticket share most of their words, so that the task is easy at first.
    """
    texts, draw = tickets(400)["text"], random.Random(2)
    table = {name: [shortened(text, draw) for text in texts] for name in ("view", "other_view")}
    held = tickets(60, True)["text"]
    tested = {name: [shortened(text, draw) for text in held] for name in ("view", "other_view")}
    trainer = stage.trainer(
        ranking, table, fresh(stage, {"text": texts + held}), learning_rate=1.5e-3, max_steps=70
    )
    learns(stage, trainer, lambda model: retrieval(model, tested), least=0.1)


@sound("saved, loaded and tuned on another field")
def mails_after_headlines_from_disk(stage: Stage) -> None:
    """An encoder of headlines is saved, loaded again and tuned on mails at a lower rate."""
    from sentence_transformers import SentenceTransformer

    table = MAILS.table(150, seed=2)
    folder = Path(stage.folder) / "headlines"
    warm(stage, HEADLINES.table(300), table, steps=50, rate=2e-3).save(str(folder))
    model = SentenceTransformer(str(folder), device="cpu")
    trainer = stage.trainer(ranking, table, model, learning_rate=1e-3, num_train_epochs=12,
                            max_steps=-1, warmup_ratio=0.1)  # fmt: skip
    learns(stage, trainer, lambda model: MAILS.sought(model, 24), least=0.1)


@sound("optimiser Adafactor")
def jobs_by_adafactor(stage: Stage) -> None:
    """Adafactor with an outer rate, whose relative steps are off, as the trainer sets it."""
    table = JOBS.table(400, seed=2)
    trainer = stage.trainer(
        ranking, table, fresh(stage, table), optim="adafactor", learning_rate=3e-3, max_steps=90
    )
    learns(stage, trainer, JOBS.sought, least=0.1)
