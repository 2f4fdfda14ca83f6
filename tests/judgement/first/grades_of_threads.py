"""Sound set-ups of the trainer: graded and binary labels, and a mixture with ranking."""

from __future__ import annotations

from typing import Any

from sentence_transformers.sentence_transformer import losses
from sentence_transformers.sentence_transformer.evaluation import (
    BinaryClassificationEvaluator,
    EmbeddingSimilarityEvaluator,
)

from tests.judgement.case import sound
from tests.judgement.first.fields_of_many_tongues import (
    CHEMISTRY,
    HARDWARE,
    MAILS,
    MATCHES,
    TAGS,
    agreement,
    judged,
    small,
    sought,
)
from tests.judgement.first.turns import warmed
from tests.judgement.stage import Stage
from tests.judgement.truth import learns

FAST: dict[str, Any] = {"learning_rate": 2e-3, "max_steps": 70, "per_device_train_batch_size": 24}


@sound("graded pairs by CoSENT with an evaluator")
def shares_of_common_ingredients_by_cosent(stage: Stage) -> None:
    model = small(stage, CHEMISTRY)
    held = list(CHEMISTRY.graded(60, seed=13).values())
    trainer = stage.trainer(
        losses.CoSENTLoss, CHEMISTRY.graded(400), model,
        evaluator=EmbeddingSimilarityEvaluator(*held, show_progress_bar=False),
        eval_strategy="steps", eval_steps=25, **FAST,
    )  # fmt: skip
    learns(stage, trainer, agreement(CHEMISTRY))


@sound("graded pairs by AnglE")
def grades_of_orders_by_angle(stage: Stage) -> None:
    model = small(stage, HARDWARE)
    trainer = stage.trainer(
        losses.AnglELoss, HARDWARE.graded(400), model, learning_rate=2e-3, max_steps=110,
        lr_scheduler_type="constant_with_warmup", per_device_train_batch_size=24,
    )  # fmt: skip
    learns(stage, trainer, agreement(HARDWARE))


@sound("graded pairs by the cosine's square error")
def cosines_fitted_to_grades_of_orders(stage: Stage) -> None:
    model = warmed(small(stage, HARDWARE), HARDWARE.table(200, seed=2), 5)
    trainer = stage.trainer(losses.CosineSimilarityLoss, HARDWARE.graded(400), model, **FAST)
    learns(stage, trainer, agreement(HARDWARE))


@sound("binary pairs by contrastive loss with an evaluator")
def same_post_or_different_post(stage: Stage) -> None:
    model = small(stage, TAGS)
    held = list(judged(TAGS, 60, seed=13).values())
    trainer = stage.trainer(
        losses.ContrastiveLoss, judged(TAGS, 400), model,
        evaluator=BinaryClassificationEvaluator(*held, show_progress_bar=False),
        eval_strategy="steps", eval_steps=30, learning_rate=2e-3, max_steps=110,
        lr_scheduler_type="constant_with_warmup",
        per_device_train_batch_size=32,
    )  # fmt: skip
    learns(stage, trainer, sought(TAGS))


@sound("binary pairs by online contrastive loss")
def hard_pairs_of_orders_online(stage: Stage) -> None:
    model = small(stage, HARDWARE)
    trainer = stage.trainer(
        losses.OnlineContrastiveLoss, judged(HARDWARE, 400), model, learning_rate=2e-3,
        lr_scheduler_type="constant_with_warmup", max_steps=110, per_device_train_batch_size=32,
    )  # fmt: skip
    learns(stage, trainer, sought(HARDWARE))


@sound("mixture of two datasets with a loss each")
def ranked_mails_and_graded_matches(stage: Stage) -> None:
    from datasets import Dataset
    from sentence_transformers import (
        SentenceTransformerTrainer,
        SentenceTransformerTrainingArguments,
    )

    model = small(stage, MAILS, MATCHES)
    settings = SentenceTransformerTrainingArguments(
        output_dir=str(stage.folder / "run"), max_steps=100, per_device_train_batch_size=20,
        learning_rate=2e-3, warmup_steps=5, seed=7, use_cpu=True, report_to="none",
        save_strategy="no", logging_steps=5, disable_tqdm=True,
        multi_dataset_batch_sampler="round_robin",
    )  # fmt: skip
    trainer = SentenceTransformerTrainer(
        model=model,
        args=settings,
        train_dataset={
            "mails": Dataset.from_dict(MAILS.table(300)),
            "matches": Dataset.from_dict(MATCHES.graded(300)),
        },
        loss={
            "mails": losses.MultipleNegativesRankingLoss(model),
            "matches": losses.CoSENTLoss(model),
        },
    )
    grades = agreement(MATCHES)
    learns(
        stage, trainer,
        lambda encoder: (MAILS.sought(encoder, 60) + grades(encoder)) / 2,
    )  # fmt: skip
