"""Trainers of several data sets, with adapters, stops, resumption, routes and other optimisers."""

from __future__ import annotations

from typing import Any

import torch
from datasets import Dataset
from sentence_transformers import (
    SentenceTransformer,
    SentenceTransformerTrainer,
    SentenceTransformerTrainingArguments,
)
from sentence_transformers.sentence_transformer import losses
from sentence_transformers.sentence_transformer.evaluation import InformationRetrievalEvaluator
from sentence_transformers.sentence_transformer.modules import Pooling, Router, StaticEmbedding
from sentence_transformers.sentence_transformer.training_args import MultiDatasetBatchSamplers
from transformers import EarlyStoppingCallback, TrainerCallback

from tests.judgement.case import sound
from tests.judgement.first.bodies import body, tokenizer_of, words_of
from tests.judgement.first.drawn_rows import seeks
from tests.judgement.first.labelled_texts import duplicates, matches
from tests.judgement.first.loop_materials import quiet, ranking
from tests.judgement.first.private_texts import nursing, recipes
from tests.judgement.first.public_texts import SHELL, STATUTES, TRIVIA, VACANCIES
from tests.judgement.first.stepwise_updates import parted, prepared, taught
from tests.judgement.first.told_texts import chats
from tests.judgement.stage import Stage
from tests.judgement.truth import learns, reciprocal_rank

QUICK: dict[str, Any] = {"learning_rate": 2e-3, "max_steps": 60, "warmup_steps": 6,
                         "per_device_train_batch_size": 24}  # fmt: skip


@sound("two data sets with a loss each")
def duplicates_and_graded_matches_with_a_loss_each(stage: Stage) -> None:
    """Pairs by in-batch negatives and graded pairs by CoSENT, drawn in turns."""
    graded = matches(250)
    model, train, held = prepared(
        stage, duplicates, 250, 50, further=graded["report"] + graded["other"]
    )
    trainer = SentenceTransformerTrainer(
        model=model,
        args=SentenceTransformerTrainingArguments(
            output_dir=str(stage.folder / "run"), max_steps=110, learning_rate=2e-3,
            per_device_train_batch_size=16, warmup_steps=8, seed=7, use_cpu=True, disable_tqdm=True,
            report_to="none", save_strategy="no", logging_steps=5,
            multi_dataset_batch_sampler=MultiDatasetBatchSamplers.ROUND_ROBIN,
        ),
        train_dataset={"twice": Dataset.from_dict(train), "graded": Dataset.from_dict(graded)},
        loss={"twice": ranking(model), "graded": losses.CoSENTLoss(model)},
    )  # fmt: skip
    learns(stage, trainer, seeks(held), least=0.1)


@sound(
    "low-rank adapter in the trainer",
    allowed={r"saved model": "The base was tuned before, and is not saved with its adapter."},
)
def law_articles_by_an_adapter_of_rank_four(stage: Stage) -> None:
    """LoRA of rank four on the linear layers of an encoder that was trained a little before."""
    from peft import LoraConfig, TaskType

    model, train, held = prepared(stage, STATUTES, 240, 60)
    taught(model, STATUTES.table(160, seed=2), steps=6)
    model.add_adapter(LoraConfig(
        r=4, lora_alpha=8, lora_dropout=0.05, task_type=TaskType.FEATURE_EXTRACTION,
        target_modules=["query", "key", "value", "dense"],
    ))  # fmt: skip
    settings = {**QUICK, "learning_rate": 5e-3, "per_device_train_batch_size": 16}
    trainer = stage.trainer(ranking, train, model, **settings)
    learns(stage, trainer, seeks(held), least=0.05)


def searched(table: dict[str, list[Any]]) -> InformationRetrievalEvaluator:
    """An evaluator which seeks the second column's texts by the first's."""
    first, second = list(table.values())[:2]
    names = [str(at) for at in range(len(first))]
    return InformationRetrievalEvaluator(
        dict(zip(names, first, strict=True)), dict(zip(names, second, strict=True)),
        {name: {name} for name in names}, name="valid", show_progress_bar=False,
    )  # fmt: skip


@sound("early stopping, best weights loaded")
def nurses_notes_stopped_early_by_an_evaluator(stage: Stage) -> None:
    """A validation search every fifteen steps; training stops after two without gain."""
    model, train, held = prepared(stage, nursing, 440, 60)
    train, validation = parted(train, 380)
    trainer = stage.trainer(
        ranking, train, model, evaluator=searched(validation), eval_strategy="steps",
        eval_steps=15, save_strategy="steps", save_steps=15, save_total_limit=2,
        load_best_model_at_end=True, metric_for_best_model="eval_valid_cosine_ndcg@10",
        callbacks=[EarlyStoppingCallback(early_stopping_patience=2)],
        **{**QUICK, "max_steps": 90},
    )  # fmt: skip
    learns(stage, trainer, seeks(held), least=0.1)


class Resumed(SentenceTransformerTrainer):
    """A trainer that goes on where the last checkpoint of its folder was written."""

    def train(self, *arguments: Any, **options: Any) -> Any:
        return super().train(*arguments, resume_from_checkpoint=True, **options)


@sound("resumed from a checkpoint")
def recipes_resumed_from_the_last_checkpoint(stage: Stage) -> None:
    """A run that broke off at its checkpoint is started again and goes on with its schedule."""
    settings = {**QUICK, "save_strategy": "steps", "save_steps": 20, "max_steps": 60}
    broken_off, train, held = prepared(stage, recipes, 320, 60)
    fresh, _, _ = prepared(stage, recipes, 320, 60)

    class BreaksOff(TrainerCallback):
        def on_step_end(self, args: Any, state: Any, control: Any, **options: Any) -> None:
            control.should_training_stop = state.global_step >= 20

    with quiet():
        stage.trainer(ranking, train, broken_off, callbacks=[BreaksOff()], **settings).train()
    trainer = stage.trainer(ranking, train, fresh, kind=Resumed, **settings)
    learns(stage, trainer, seeks(held), least=0.1)


@sound("word vectors without a transformer")
def chat_replies_by_static_vectors_of_words(stage: Stage) -> None:
    """A static table of word vectors is trained with the high rate which it needs."""
    train, held = chats(320), chats(60, seed=11)
    torch.manual_seed(2)
    words = tokenizer_of(words_of([train, held])).backend_tokenizer
    model = SentenceTransformer(modules=[StaticEmbedding(words, embedding_dim=64)], device="cpu")
    settings = {**QUICK, "learning_rate": 5e-2, "max_steps": 120}
    learns(stage, stage.trainer(ranking, train, model, **settings), seeks(held), least=0.1)


@sound("rates by layer in an own optimiser")
def vacancies_with_an_optimiser_of_several_rates(stage: Stage) -> None:
    """Embeddings learn at half the rate of the layers above; a cosine schedule of one's own."""
    model, train, held = prepared(stage, VACANCIES, 320, 60)
    network = model[0].auto_model
    lower = {id(weight) for weight in network.embeddings.parameters()}
    optimizer = torch.optim.AdamW([
        {"params": [row for row in model.parameters() if id(row) not in lower], "lr": 2e-3},
        {"params": list(network.embeddings.parameters()), "lr": 1e-3},
    ])  # fmt: skip
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 70)
    trainer = stage.trainer(ranking, train, model, optimizers=(optimizer, schedule),
                            **{**QUICK, "max_steps": 70})  # fmt: skip
    learns(stage, trainer, seeks(held), least=0.1)


@sound("frozen word embeddings")
def quiz_entries_with_frozen_word_embeddings(stage: Stage) -> None:
    """The word embeddings of an encoder that was trained a little stay, its layers are tuned."""
    model, train, held = prepared(stage, TRIVIA, 320, 60)
    taught(model, TRIVIA.table(160, seed=2), steps=6)
    model[0].auto_model.embeddings.requires_grad_(False)
    learns(stage, stage.trainer(ranking, train, model, **QUICK), seeks(held), least=0.05)


@sound("two routes, for queries and documents")
def commands_by_a_route_of_their_own(stage: Stage) -> None:
    """Wishes pass a transformer of their own, commands another one, each with its pooling."""
    train, held = SHELL.table(320), SHELL.table(60, seed=11)
    words = words_of([train, held])
    routes = [[body(stage, words, name=name, seed=seed), Pooling(48, pooling_mode="mean")]
              for name, seed in (("wishes", 3), ("commands", 4))]  # fmt: skip
    router = Router.for_query_document(query_modules=routes[0], document_modules=routes[1])
    model = SentenceTransformer(modules=[router], device="cpu")
    trainer = stage.trainer(
        ranking, train, model, router_mapping={"wish": "query", "command": "document"},
        **{**QUICK, "max_steps": 80},
    )  # fmt: skip

    def score(model: Any) -> float:
        first, second = held.values()
        return reciprocal_rank(model.encode_query(first, show_progress_bar=False),
                               model.encode_document(second, show_progress_bar=False))  # fmt: skip

    learns(stage, trainer, score, least=0.1)
