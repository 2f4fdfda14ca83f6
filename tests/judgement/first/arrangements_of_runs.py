"""Sound set-ups of the trainer: how a run is arranged around an ordinary loss."""

from __future__ import annotations

import contextlib
import io
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from sentence_transformers import SentenceTransformerTrainer
from sentence_transformers.sentence_transformer import losses
from sentence_transformers.sentence_transformer.modules import Normalize, Pooling
from torch import nn
from transformers import TrainerCallback

from tests.judgement.case import sound
from tests.judgement.first.bodies import body, encoder, words_of
from tests.judgement.first.fields import CODE, HELPDESK, KITCHEN, SHOP, TRAVEL
from tests.judgement.first.good_fields import LETTERS, LOGS, SONGS
from tests.judgement.first.notebook_fields import (
    BIRDS,
    GARDEN,
    MUSEUM,
    STATIONS,
    dev_pairs,
    encoder_of,
    two,
    with_near,
)
from tests.judgement.first.pair_rankings_of_guides import search_of
from tests.judgement.first.turns import warmed
from tests.judgement.stage import Stage
from tests.judgement.truth import learns, retrieval

UNIQUE = {"batch_sampler": "no_duplicates"}
RANKING = losses.MultipleNegativesRankingLoss


def of_several(sets: dict[str, Any]) -> Any:
    """A kind of trainer that draws from several data sets."""

    def trainer(**settings: Any) -> SentenceTransformerTrainer:
        data_sets = {name: Dataset.from_dict(table) for name, table in sets.items()}
        return SentenceTransformerTrainer(**{**settings, "train_dataset": data_sets})

    return trainer


@sound("pairs and graded pairs by turns of their size, each with its loss")
def pairs_and_grades_in_one_run(stage: Stage) -> None:
    sets = {"pairs": two(GARDEN, 320), "grades": GARDEN.graded(160, seed=2)}
    trainer = stage.trainer(
        lambda model: {"pairs": RANKING(model), "grades": losses.CoSENTLoss(model)},
        sets["pairs"], encoder_of(stage, GARDEN), kind=of_several(sets),
        multi_dataset_batch_sampler="proportional", per_device_train_batch_size=32,
        max_steps=60, learning_rate=2e-3, **UNIQUE,
    )  # fmt: skip
    learns(stage, trainer, GARDEN.sought, least=0.05)


@sound("two fields by turns")
def two_fields_by_turns(stage: Stage) -> None:
    sets = {"shop": two(SHOP, 200), "songs": two(SONGS, 200)}
    texts = words_of([*sets.values(), two(SHOP, 40, seed=11), two(SONGS, 40, seed=11)])
    trainer = stage.trainer(
        RANKING, sets["shop"], encoder(stage, texts), kind=of_several(sets),
        multi_dataset_batch_sampler="round_robin", per_device_train_batch_size=20,
        max_steps=60, learning_rate=2e-3, **UNIQUE,
    )  # fmt: skip
    learns(stage, trainer, lambda model: (SHOP.sought(model) + SONGS.sought(model)) / 2, least=0.05)


@sound("mixed precision in bfloat16")
def mixed_precision_of_stations(stage: Stage) -> None:
    trainer = stage.trainer(
        RANKING, two(STATIONS, 320), encoder_of(stage, STATIONS), bf16=True,
        per_device_train_batch_size=32, max_steps=40, learning_rate=2e-3, **UNIQUE,
    )  # fmt: skip
    learns(stage, trainer, STATIONS.sought, least=0.05)


class Interruption(TrainerCallback):
    """Ends a run after a number of steps, as a scheduler of jobs does."""

    def __init__(self, step: int) -> None:
        self._step = step

    def on_step_end(self, _: Any, state: Any, control: Any, **options: Any) -> None:
        control.should_training_stop = state.global_step >= self._step


@sound("interrupted run that goes on from its checkpoint")
def recipes_resumed_after_an_interruption(stage: Stage) -> None:
    settings = {
        "max_steps": 60, "learning_rate": 2e-3, "per_device_train_batch_size": 24,
        "save_strategy": "steps", "save_steps": 20, "lr_scheduler_type": "cosine", **UNIQUE,
    }  # fmt: skip
    table = two(KITCHEN, 320)
    halted = stage.trainer(
        RANKING, table, encoder_of(stage, KITCHEN), callbacks=[Interruption(20)], **settings
    )
    with contextlib.redirect_stdout(io.StringIO()):
        halted.train()
    checkpoint = str(Path(halted.args.output_dir) / "checkpoint-20")

    class Resumed(SentenceTransformerTrainer):
        def train(self, *_: Any, **options: Any) -> Any:
            return super().train(resume_from_checkpoint=checkpoint)

    trainer = stage.trainer(RANKING, table, encoder_of(stage, KITCHEN), kind=Resumed, **settings)
    learns(stage, trainer, KITCHEN.sought, least=0.05)


@sound(
    "third of the run as a warm-up of a trained encoder",
    allowed={r"(?i)warm-?up": "A third of the run is long for a warm-up, though nothing is wrong."},
)
def long_warm_up_of_a_trained_encoder(stage: Stage) -> None:
    model = warmed(encoder_of(stage, LOGS), two(LOGS, 150, seed=2), steps=5)
    trainer = stage.trainer(
        losses.MultipleNegativesSymmetricRankingLoss, two(LOGS, 256), model, max_steps=60,
        warmup_steps=20, learning_rate=2e-3, per_device_train_batch_size=32, **UNIQUE,
    )  # fmt: skip
    learns(stage, trainer, LOGS.sought, least=0.05)


@sound(
    "batches of eight with hard negatives, and accumulation",
    allowed={r"(?i)batch|negatives|accumul": "Eight rows make few negatives; each has a hard one."},
)
def batches_of_eight(stage: Stage) -> None:
    trainer = stage.trainer(
        RANKING, with_near(CODE, 280, 1), encoder_of(stage, CODE, kind="distilbert"),
        per_device_train_batch_size=8, gradient_accumulation_steps=2, max_steps=50,
        learning_rate=1e-3, **UNIQUE,
    )  # fmt: skip
    learns(stage, trainer, CODE.sought, least=0.05)


@sound("prompts for each column, left out of the mean, and used by the evaluator")
def prompts_left_out_of_the_mean(stage: Stage) -> None:
    from sentence_transformers import SentenceTransformer

    prompts = {"query": "query : ", "passage": "passage : "}
    table = two(HELPDESK, 280)
    texts = words_of([table, two(HELPDESK, 40, seed=11)], *prompts.values())
    model = SentenceTransformer(
        modules=[body(stage, texts), Pooling(48, pooling_mode="mean", include_prompt=False)],
        device="cpu", prompts=prompts,
    )  # fmt: skip
    evaluator = search_of(
        dev_pairs(HELPDESK, table), name="help", query_prompt=prompts["query"],
        corpus_prompt=prompts["passage"],
    )  # fmt: skip
    trainer = stage.trainer(
        RANKING, table, model, evaluator=evaluator, eval_strategy="steps", eval_steps=25,
        prompts={"question": prompts["query"], "answer": prompts["passage"]}, max_steps=50,
        per_device_train_batch_size=32, learning_rate=2e-3, **UNIQUE,
    )  # fmt: skip
    tested = two(HELPDESK, 40, seed=11)
    learns(
        stage, trainer, lambda model: retrieval(model, tested, prompts=tuple(prompts.values())),
        least=0.05,
    )  # fmt: skip


@sound("epochs with the best one kept by the loss of development pairs")
def best_epoch_by_its_loss(stage: Stage) -> None:
    table = two(BIRDS, 384)
    trainer = stage.trainer(
        RANKING, table, encoder_of(stage, BIRDS, layers=1),
        eval_dataset=Dataset.from_dict(dev_pairs(BIRDS, table, 96)), max_steps=-1,
        num_train_epochs=5, eval_strategy="epoch", save_strategy="epoch", save_total_limit=1,
        load_best_model_at_end=True, metric_for_best_model="eval_loss",
        per_device_train_batch_size=32, per_device_eval_batch_size=32, learning_rate=2e-3,
        **UNIQUE,
    )  # fmt: skip
    learns(stage, trainer, BIRDS.sought, least=0.05)


@sound("optimizer and schedule of one's own")
def optimizer_of_ones_own(stage: Stage) -> None:
    model = encoder_of(stage, TRAVEL, Normalize())
    optimizer = torch.optim.NAdam(model.parameters(), lr=2e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=2e-3, total_steps=52)
    trainer = stage.trainer(
        RANKING, two(TRAVEL, 400), model, optimizers=(optimizer, schedule), max_steps=50,
        per_device_train_batch_size=32, **UNIQUE,
    )  # fmt: skip
    learns(stage, trainer, TRAVEL.sought, least=0.05)


@sound(
    "adafactor with checkpointed layers",
    allowed={"length: 50% of": "Half of the texts are cut off."},
)
def adafactor_with_checkpointed_layers(stage: Stage) -> None:
    trainer = stage.trainer(
        RANKING, two(MUSEUM, 200), encoder_of(stage, MUSEUM), optim="adafactor",
        gradient_checkpointing=True, gradient_checkpointing_kwargs={"use_reentrant": False},
        max_steps=30, warmup_steps=3, learning_rate=3e-3, per_device_train_batch_size=20, **UNIQUE,
    )  # fmt: skip
    learns(stage, trainer, MUSEUM.sought, least=0.05)


class Spread(nn.Module):
    """A ranking loss, and a small term that keeps embeddings of other texts orthogonal."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model, self.ranking = model, RANKING(model)
        self.spread = losses.GlobalOrthogonalRegularizationLoss(model)

    def forward(self, features: Any, labels: torch.Tensor | None = None) -> dict[str, Any]:
        embeddings = [self.model(column)["sentence_embedding"] for column in features]
        ranked = self.ranking.compute_loss_from_embeddings(embeddings, labels)
        return {"ranking": ranked, **self.spread.compute_loss_from_embeddings(embeddings, labels)}


@sound("ranking beside a term that spreads embeddings")
def ranking_beside_a_spreading_term(stage: Stage) -> None:
    trainer = stage.trainer(
        Spread, two(LETTERS, 200), encoder_of(stage, LETTERS), max_steps=50,
        per_device_train_batch_size=20, learning_rate=2e-3, **UNIQUE,
    )  # fmt: skip
    learns(stage, trainer, LETTERS.sought, least=0.05)
