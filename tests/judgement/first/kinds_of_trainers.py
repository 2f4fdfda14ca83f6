"""Sound set-ups with the trainer: classes, triplets, mixtures, adapters and texts alone."""

from __future__ import annotations

from typing import Any

import torch
from sentence_transformers import (
    SentenceTransformerTrainer,
    SentenceTransformerTrainingArguments,
)
from sentence_transformers.sentence_transformer import losses
from sentence_transformers.sentence_transformer.evaluation import TripletEvaluator

from tests.judgement.case import sound
from tests.judgement.first.fields_of_scripts_and_signs import (
    CHEMISTRY,
    JOBS,
    MAILS,
    MATCHES,
    RHYMES,
    SHELL,
    SHELVES,
    by_class,
    encoder_of,
    neighbours,
    pairs_of,
    seeks,
    triplets_of,
)
from tests.judgement.first.rankings_by_trainer import ranking
from tests.judgement.stage import Stage
from tests.judgement.truth import learns


@sound("all triplets of batches by class")
def all_triplets_of_mail_topics(stage: Stage) -> None:
    trainer = stage.trainer(
        lambda model: losses.BatchAllTripletLoss(model, margin=1.0),
        by_class(MAILS, 400), encoder_of(stage, MAILS), max_steps=60,
        per_device_train_batch_size=32, learning_rate=2e-3, batch_sampler="group_by_label",
    )  # fmt: skip
    learns(stage, trainer, neighbours(by_class(MAILS, 100, seed=11)))


@sound("hardest triplets with a soft margin, by class")
def hardest_triplets_of_moods_in_rhymes(stage: Stage) -> None:
    trainer = stage.trainer(
        losses.BatchHardSoftMarginTripletLoss, by_class(RHYMES, 400, slots=(3,)),
        encoder_of(stage, RHYMES), max_steps=60, per_device_train_batch_size=36, learning_rate=2e-3,
        batch_sampler="group_by_label",
    )  # fmt: skip
    learns(stage, trainer, neighbours(by_class(RHYMES, 100, seed=11, slots=(3,))))


@sound("semi-hard triplets by cosine distance, by class")
def half_hard_triplets_of_solvents(stage: Stage) -> None:
    distance = losses.BatchHardTripletLossDistanceFunction.cosine_distance
    trainer = stage.trainer(
        lambda model: losses.BatchSemiHardTripletLoss(
            model, distance_metric=distance, margin=0.4
        ),
        by_class(CHEMISTRY, 400, slots=(2,)), encoder_of(stage, CHEMISTRY), max_steps=60,
        per_device_train_batch_size=32, learning_rate=2e-3, batch_sampler="group_by_label",
    )  # fmt: skip
    learns(stage, trainer, neighbours(by_class(CHEMISTRY, 100, seed=11, slots=(2,))))


@sound("triplets by cosine distance, with their evaluator")
def cosine_triplets_of_shell_commands(stage: Stage) -> None:
    held = triplets_of(SHELL, 60, seed=13, slot=1)
    trainer = stage.trainer(
        lambda model: losses.TripletLoss(
            model, distance_metric=losses.TripletDistanceMetric.COSINE, triplet_margin=0.3
        ),
        triplets_of(SHELL, 360, slot=1), encoder_of(stage, SHELL), max_steps=140,
        per_device_train_batch_size=32, learning_rate=2e-3, eval_strategy="steps", eval_steps=45,
        evaluator=TripletEvaluator(*held.values(), name="shell"),
    )  # fmt: skip
    learns(stage, trainer, seeks(SHELL))


@sound("symmetric ranking of a DistilBERT, polynomial schedule")
def distilled_body_for_job_adverts(stage: Stage) -> None:
    trainer = stage.trainer(
        lambda model: losses.MultipleNegativesSymmetricRankingLoss(model, scale=25.0),
        pairs_of(JOBS, 320), encoder_of(stage, JOBS, kind="distilbert"), max_steps=60,
        per_device_train_batch_size=32, learning_rate=1.5e-3, lr_scheduler_type="polynomial",
    )  # fmt: skip
    learns(stage, trainer, seeks(JOBS))


@sound("decoder with the last token")
def decoder_reads_headlines_to_their_end(stage: Stage) -> None:
    trainer = stage.trainer(
        ranking, pairs_of(MATCHES, 320),
        encoder_of(stage, MATCHES, kind="granite", pooling="lasttoken"), max_steps=60,
        per_device_train_batch_size=24, learning_rate=2e-3, weight_decay=0.05,
    )  # fmt: skip
    learns(stage, trainer, seeks(MATCHES))


@sound("first token as the embedding, deeper encoder")
def first_token_of_a_deeper_encoder(stage: Stage) -> None:
    trainer = stage.trainer(
        ranking, pairs_of(SHELVES, 360),
        encoder_of(stage, SHELVES, pooling="cls", layers=3, spread=0.06), max_steps=70,
        per_device_train_batch_size=32, learning_rate=2e-3, warmup_steps=10,
    )  # fmt: skip
    learns(stage, trainer, seeks(SHELVES))


@sound("two datasets with a loss each")
def ranking_and_grades_in_turn(stage: Stage) -> None:
    from datasets import Dataset

    torch.manual_seed(7)
    model = encoder_of(stage, MAILS)
    args = SentenceTransformerTrainingArguments(
        output_dir=str(stage.folder / "run"), max_steps=80, per_device_train_batch_size=24,
        learning_rate=2e-3, warmup_steps=4, seed=7, use_cpu=True, report_to="none",
        save_strategy="no", logging_steps=5, disable_tqdm=True,
        multi_dataset_batch_sampler="round_robin",
    )  # fmt: skip
    trainer = SentenceTransformerTrainer(
        model=model, args=args,
        train_dataset={
            "pairs": Dataset.from_dict(pairs_of(MAILS, 300)),
            "grades": Dataset.from_dict(MAILS.graded(300, seed=2)),
        },
        loss={"pairs": ranking(model), "grades": losses.CoSENTLoss(model)},
    )  # fmt: skip
    learns(stage, trainer, seeks(MAILS))


class RankingOfSpreadRows(torch.nn.Module):
    """Ranking, and a regulariser that spreads unrelated rows, of the same embeddings."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model
        self.ranking = losses.MultipleNegativesRankingLoss(model)
        self.spread = losses.GlobalOrthogonalRegularizationLoss(model)

    def forward(self, sentence_features: Any, labels: Any = None) -> Any:
        rows = [self.model(features)["sentence_embedding"] for features in sentence_features]
        ranks = self.ranking.compute_loss_from_embeddings(rows, labels)
        return {"ranking": ranks, **self.spread.compute_loss_from_embeddings(rows)}


@sound("ranking with the regulariser of spread-out rows")
def spread_out_rows_of_chemistry(stage: Stage) -> None:
    trainer = stage.trainer(
        RankingOfSpreadRows, pairs_of(CHEMISTRY, 320), encoder_of(stage, CHEMISTRY), max_steps=70,
        per_device_train_batch_size=32, learning_rate=2e-3,
    )  # fmt: skip
    learns(stage, trainer, seeks(CHEMISTRY))
