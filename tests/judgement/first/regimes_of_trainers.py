"""Sound set-ups with a trainer: schedules, precision, prompts, mixtures, evaluation, denoising."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from datasets import Dataset
from sentence_transformers import (
    SentenceTransformerTrainer,
    SentenceTransformerTrainingArguments,
)
from sentence_transformers.sentence_transformer import losses
from sentence_transformers.sentence_transformer.evaluation import (
    InformationRetrievalEvaluator,
    TripletEvaluator,
)
from transformers import EarlyStoppingCallback, get_cosine_schedule_with_warmup

from tests.judgement.case import sound
from tests.judgement.first.fields_of_dreams_and_roads import (
    COMMITS,
    DREAMS,
    MAILS,
    MUSEUM,
    POSTS,
    QUERIES,
    REACTIONS,
    SENSORS,
    STATIONS,
    WEATHER,
    contrasted,
    reader,
    scripted,
)
from tests.judgement.first.turns import warmed
from tests.judgement.stage import Stage
from tests.judgement.truth import learns, retrieval

SWIFT: dict[str, Any] = {"learning_rate": 2e-3, "max_steps": 60}


def of_tables(
    stage: Stage, tables: Mapping[str, Mapping[str, Sequence[Any]]], criteria: Any, model: Any,
    **arguments: Any,
) -> Any:  # fmt: skip
    """A trainer of several datasets, with one loss or a loss for each."""
    settings = {
        "output_dir": str(stage.folder / "mixture"), "max_steps": 80, "learning_rate": 2e-3,
        "per_device_train_batch_size": 16, "optim": "adamw_torch", "warmup_steps": 6, "seed": 7,
        "use_cpu": True, "report_to": "none", "save_strategy": "no", "logging_steps": 5,
        "disable_tqdm": True,
    }  # fmt: skip
    return SentenceTransformerTrainer(
        model=model,
        args=SentenceTransformerTrainingArguments(**{**settings, **arguments}),
        train_dataset={name: Dataset.from_dict(dict(table)) for name, table in tables.items()},
        loss=criteria,
    )


def archive(field: Any, count: int, seed: int) -> InformationRetrievalEvaluator:
    """An evaluator that seeks the second column's texts by the first's."""
    first, second = scripted(field, count, seed).values()
    return InformationRetrievalEvaluator(
        {f"q{row}": text for row, text in enumerate(first)},
        {f"d{row}": text for row, text in enumerate(second)},
        {f"q{row}": {f"d{row}"} for row in range(count)},
        name="archive", show_progress_bar=False,
    )  # fmt: skip


@sound("best checkpoint by an evaluator of retrieval")
def best_checkpoint_of_mails_is_loaded(stage: Stage) -> None:
    trainer = stage.trainer(
        losses.MultipleNegativesRankingLoss, scripted(MAILS, 320), reader(stage, MAILS),
        evaluator=archive(MAILS, 60, 21), eval_strategy="steps", eval_steps=20,
        save_strategy="steps", save_steps=20, save_total_limit=2, load_best_model_at_end=True,
        metric_for_best_model="eval_archive_cosine_ndcg@10", greater_is_better=True,
        callbacks=[EarlyStoppingCallback(3)], **SWIFT,
    )  # fmt: skip
    learns(stage, trainer, MAILS.sought)


@sound("evaluation by triplets and by the loss of held-out rows")
def triplets_of_stations_evaluated_in_training(stage: Stage) -> None:
    held_out = scripted(STATIONS, 40, 21)
    near = STATIONS.near(40, 21, slot=1)
    trainer = stage.trainer(
        losses.MultipleNegativesRankingLoss, contrasted(STATIONS, 320, slot=1),
        reader(stage, STATIONS), evaluator=TripletEvaluator(*held_out.values(), near),
        eval_dataset=Dataset.from_dict({**held_out, "negative": near}), eval_strategy="steps",
        eval_steps=15, per_device_eval_batch_size=20, **SWIFT,
    )  # fmt: skip
    learns(stage, trainer, STATIONS.sought)


@sound("accumulation with the precision of bfloat16")
def bfloat_steps_accumulated_over_four_batches(stage: Stage) -> None:
    trainer = stage.trainer(
        losses.MultipleNegativesRankingLoss, scripted(WEATHER, 480), reader(stage, WEATHER),
        gradient_accumulation_steps=4, bf16=True, learning_rate=3e-3, max_steps=30,
        max_grad_norm=1.0,
    )  # fmt: skip
    learns(stage, trainer, WEATHER.sought)


@sound("prompts of queries and documents")
def prompts_before_questions_and_statements(stage: Stage) -> None:
    prompts = {"question": "what is the ", "sql": "SELECT "}
    table = QUERIES.table(320)
    table = {
        "question": [text.removeprefix(prompts["question"]) for text in table["question"]],
        "sql": [text.removeprefix(prompts["sql"]) for text in table["sql"]],
    }
    model = reader(
        stage, QUERIES, prompts={"query": prompts["question"], "document": prompts["sql"]}
    )
    fresh = QUERIES.table(40, 11)
    fresh = {
        name: [text.removeprefix(prompts[name]) for text in texts] for name, texts in fresh.items()
    }
    trainer = stage.trainer(
        losses.MultipleNegativesRankingLoss, table, model, prompts=prompts, **SWIFT
    )
    learns(stage, trainer, lambda encoder: retrieval(
        encoder, fresh, prompts=(prompts["question"], prompts["sql"])
    ))  # fmt: skip


@sound("layers with rates of their own")
def rates_that_fall_with_the_depth(stage: Stage) -> None:
    """The body has been tuned a little; lower layers move at lower rates, biases do not decay."""
    model = warmed(reader(stage, COMMITS, layers=3), scripted(COMMITS, 300, 2), steps=6)
    groups = []
    for name, rows in model.named_parameters():
        depth = next((layer for layer in range(3) if f"layer.{layer}." in name), -1)
        groups.append({
            "params": [rows], "lr": 2e-3 * 0.8 ** (2 - depth),
            "weight_decay": 0.01 if rows.ndim > 1 else 0.0,
        })  # fmt: skip
    optimizer = torch.optim.AdamW(groups)
    schedule = get_cosine_schedule_with_warmup(optimizer, 6, 60)
    trainer = stage.trainer(
        losses.MultipleNegativesRankingLoss, scripted(COMMITS, 320), model, max_steps=60,
        optimizers=(optimizer, schedule),
    )  # fmt: skip
    learns(stage, trainer, COMMITS.sought)


@sound("mixture of three fields")
def three_fields_in_turn_by_their_size(stage: Stage) -> None:
    fields = (COMMITS, SENSORS, MUSEUM)
    model = reader(stage, *fields, width=64)
    tables = {
        "commits": scripted(COMMITS, 240), "sensors": scripted(SENSORS, 320),
        "museum": contrasted(MUSEUM, 400),
    }  # fmt: skip
    trainer = of_tables(
        stage, tables, losses.MultipleNegativesRankingLoss(model), model,
        multi_dataset_batch_sampler="proportional", batch_sampler="no_duplicates", max_steps=90,
    )  # fmt: skip
    learns(stage, trainer, lambda encoder: sum(field.sought(encoder) for field in fields) / 3)


@sound("mixture of graded and ranked tables")
def a_loss_for_each_of_two_tables(stage: Stage) -> None:
    model = reader(stage, DREAMS, QUERIES)
    tables = {"graded": DREAMS.graded(320), "ranked": scripted(QUERIES, 320)}
    criteria = {
        "graded": losses.CoSENTLoss(model), "ranked": losses.MultipleNegativesRankingLoss(model)
    }  # fmt: skip
    trainer = of_tables(
        stage, tables, criteria, model, multi_dataset_batch_sampler="round_robin", max_steps=90,
    )  # fmt: skip
    learns(stage, trainer, QUERIES.sought)


@sound("losses at several layers")
def layers_and_sizes_trained_together(stage: Stage) -> None:
    trainer = stage.trainer(
        lambda model: losses.Matryoshka2dLoss(
            model, losses.MultipleNegativesRankingLoss(model), matryoshka_dims=[48, 24]
        ),
        scripted(REACTIONS, 360), reader(stage, REACTIONS, layers=3), learning_rate=2e-3,
        max_steps=60,
    )  # fmt: skip
    learns(stage, trainer, REACTIONS.sought)


@sound("RMSprop on two views without some words")
def posts_beside_themselves_with_lost_words(stage: Stage) -> None:
    """Unsupervised: two views of a text of four posts, without some of their words, are a pair."""
    draw = random.Random(3)

    def view(text: str) -> str:
        return " ".join(word for word in text.split() if draw.random() > 0.4)

    def views(count: int, seed: int) -> dict[str, list[str]]:
        posts = scripted(POSTS, 160, seed)["post"]
        texts = [" . ".join(draw.sample(posts, 4)) for _ in range(count)]
        return {"view": list(map(view, texts)), "second_view": list(map(view, texts))}

    trainer = stage.trainer(
        losses.MultipleNegativesRankingLoss, views(400, 0), reader(stage, POSTS, spread=0.1),
        optim="rmsprop", learning_rate=1e-3, max_steps=70, lr_scheduler_type="constant",
    )  # fmt: skip
    fresh = views(100, 11)
    learns(stage, trainer, lambda encoder: retrieval(encoder, fresh))
