"""Sound set-ups with a trainer: classes, triplets, adapters, precision, heads and mixtures."""

from __future__ import annotations

from typing import Any

import torch
from sentence_transformers.sentence_transformer import losses

from tests.judgement.case import sound
from tests.judgement.first.bodies import encoder
from tests.judgement.first.fields_of_reviews_and_cards import (
    ALARMS,
    CHEMISTRY,
    GREEK,
    MAILS,
    QUERIES,
    RUSSIAN,
    SHORT,
    class_score,
    classed,
    of_field,
    seek,
    triples,
    words,
)
from tests.judgement.first.loop_materials import ranking
from tests.judgement.first.turns import warmed
from tests.judgement.stage import Stage
from tests.judgement.truth import learns

BY_CLASS = {"batch_sampler": "group_by_label", "per_device_train_batch_size": 32}


@sound("all triplets of a batch by class")
def classes_of_mails_by_all_triplets(stage: Stage) -> None:
    trainer = stage.trainer(
        lambda model: losses.BatchAllTripletLoss(model, margin=1.0), classed(MAILS, 320),
        of_field(stage, MAILS), learning_rate=1e-3, max_steps=60, **BY_CLASS,
    )  # fmt: skip
    learns(stage, trainer, class_score(MAILS))


@sound("hardest triplets with a soft margin")
def classes_of_hosts_by_a_soft_margin(stage: Stage) -> None:
    trainer = stage.trainer(
        losses.BatchHardSoftMarginTripletLoss, classed(ALARMS, 270, slot=1),
        of_field(stage, ALARMS), learning_rate=1e-3, max_steps=60, **BY_CLASS,
    )  # fmt: skip
    learns(stage, trainer, class_score(ALARMS, slot=1, count=40))


@sound("semi-hard triplets by class")
def classes_of_reactions_by_semi_hard_triplets(stage: Stage) -> None:
    trainer = stage.trainer(
        lambda model: losses.BatchSemiHardTripletLoss(model, margin=1.0),
        classed(CHEMISTRY, 320, slot=2), of_field(stage, CHEMISTRY), learning_rate=1e-3,
        max_steps=60, **BY_CLASS,
    )  # fmt: skip
    learns(stage, trainer, class_score(CHEMISTRY, slot=2))


@sound("triplets by cosine distance")
def triplets_of_queries_by_cosine_distance(stage: Stage) -> None:
    trainer = stage.trainer(
        lambda model: losses.TripletLoss(
            model, losses.TripletDistanceMetric.COSINE, triplet_margin=0.3
        ),
        triples(QUERIES, 400, slot=2), of_field(stage, QUERIES), learning_rate=2e-3,
        max_steps=90, per_device_train_batch_size=32,
    )  # fmt: skip
    learns(stage, trainer, seek(QUERIES))


@sound(
    "low-rank adapters of a tuned encoder",
    allowed={r"saved model": "The base was tuned before, and is not saved with its adapter."},
)
def low_rank_adapters_of_a_tuned_encoder(stage: Stage) -> None:
    from peft import LoraConfig, TaskType

    model = warmed(of_field(stage, MAILS), MAILS.table(200, seed=2), 4)
    torch.manual_seed(6)
    model.add_adapter(LoraConfig(
        task_type=TaskType.FEATURE_EXTRACTION, r=8, lora_alpha=32, lora_dropout=0.05,
        target_modules=["query", "key", "value", "dense"],
    ))  # fmt: skip
    trainer = stage.trainer(ranking, MAILS.table(300), model, learning_rate=5e-3, max_steps=70)
    learns(stage, trainer, seek(MAILS))


@sound("bfloat16 and accumulation")
def half_precision_with_accumulated_gradients(stage: Stage) -> None:
    trainer = stage.trainer(
        ranking, SHORT.table(320), of_field(stage, SHORT), learning_rate=3e-3, max_steps=50,
        bf16=True, gradient_accumulation_steps=2, max_grad_norm=0.5,
    )  # fmt: skip
    learns(stage, trainer, seek(SHORT))


@sound("dense head and unit length")
def dense_head_before_unit_length(stage: Stage) -> None:
    from sentence_transformers.base.modules import Dense
    from sentence_transformers.sentence_transformer.modules import Normalize

    torch.manual_seed(8)
    model = of_field(
        stage, GREEK, Dense(48, 32, activation_function=torch.nn.Identity()), Normalize(),
    )  # fmt: skip
    trainer = stage.trainer(
        losses.MultipleNegativesSymmetricRankingLoss, GREEK.table(260), model,
        learning_rate=2e-3, max_steps=80,
    )  # fmt: skip
    learns(stage, trainer, seek(GREEK))


@sound("decoder with the last token, and prompts")
def decoder_with_prompts_for_questions_and_equations(stage: Stage) -> None:
    prompts = {"query": "find the equation : ", "document": "equation : "}
    model = of_field(stage, CHEMISTRY, kind="granite", pooling="lasttoken", prompts=prompts)
    trainer = stage.trainer(
        ranking, CHEMISTRY.table(320), model, learning_rate=3e-3, max_steps=90,
        prompts={"question": prompts["query"], "equation": prompts["document"]},
    )  # fmt: skip
    score = seek(CHEMISTRY, prompts=(prompts["query"], prompts["document"]))
    learns(stage, trainer, score)


@sound("two datasets in proportion to their sizes")
def mixture_of_mails_and_translations(stage: Stage) -> None:
    from datasets import Dataset
    from sentence_transformers import (
        SentenceTransformerTrainer,
        SentenceTransformerTrainingArguments,
    )

    model = encoder(stage, [*words(MAILS), *words(RUSSIAN)])
    mails, russian = MAILS.table(300), RUSSIAN.table(200)
    trainer = SentenceTransformerTrainer(
        model=model,
        args=SentenceTransformerTrainingArguments(
            output_dir=str(stage.folder / "run"), max_steps=110, learning_rate=2e-3,
            per_device_train_batch_size=16, warmup_steps=8, seed=3, use_cpu=True,
            report_to="none", save_strategy="no", logging_steps=5, disable_tqdm=True,
            multi_dataset_batch_sampler="proportional",
        ),
        train_dataset={"mails": Dataset.from_dict(mails), "russian": Dataset.from_dict(russian)},
        loss=losses.MultipleNegativesRankingLoss(model),
    )  # fmt: skip

    def score(model: Any) -> float:
        return (MAILS.sought(model) + RUSSIAN.sought(model)) / 2

    learns(stage, trainer, score)
