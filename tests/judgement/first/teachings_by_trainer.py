"""Sound set-ups with the trainer: tension, softmax, regularised rankings, best checkpoints."""

from __future__ import annotations

from typing import Any

import torch

from tests.judgement.case import sound
from tests.judgement.first.fields_of_offices_and_ports import (
    BENCH,
    BIRDS,
    CHATTER,
    COMMITS,
    GENES,
    KOREAN,
    MATCHES,
    RUSSIAN,
    finds_thinned,
    reader,
    varied,
)
from tests.judgement.first.labels_by_loss import answered, tuned
from tests.judgement.first.turns import warmed
from tests.judgement.stage import Stage
from tests.judgement.truth import learns
from tests.sentence_training import evaluation, losses


@sound("contrastive tension of two encoders")
def gene_sentences_under_contrastive_tension(stage: Stage) -> None:
    texts = GENES.table(320)["sentence"]
    trainer = stage.trainer(
        losses.ContrastiveTensionLossInBatchNegatives, {"first": texts, "second": texts},
        reader(stage, GENES, pooling="max"), learning_rate=1e-3, max_steps=60,
        per_device_train_batch_size=24,
    )  # fmt: skip
    learns(stage, trainer, finds_thinned(GENES))


@sound("ranking of all layers and widths")
def korean_sentences_at_all_depths(stage: Stage) -> None:
    def nested(model: Any) -> Any:
        ranking = losses.MultipleNegativesRankingLoss(model)
        return losses.Matryoshka2dLoss(model, ranking, matryoshka_dims=[48, 24])

    trainer = stage.trainer(
        nested, KOREAN.table(320), reader(stage, KOREAN, layers=3), learning_rate=2e-3,
        max_steps=60,
    )  # fmt: skip
    learns(stage, trainer, KOREAN.sought)


@sound("margin to the hardest of a large batch")
def bird_notes_in_mega_batches(stage: Stage) -> None:
    trainer = stage.trainer(
        lambda model: losses.MegaBatchMarginLoss(model, mini_batch_size=16), BIRDS.table(320),
        warmed(reader(stage, BIRDS), BIRDS.table(200, seed=4), 5), learning_rate=2e-3,
        max_steps=40, per_device_train_batch_size=64,
    )  # fmt: skip
    learns(stage, trainer, BIRDS.sought)


@sound("best checkpoint by an evaluator")
def match_reports_with_the_best_checkpoint(stage: Stage) -> None:
    checks = MATCHES.table(40, seed=3)
    evaluator = evaluation.TranslationEvaluator(*checks.values(), name="matches")
    trainer = stage.trainer(
        losses.MultipleNegativesRankingLoss, MATCHES.table(320), reader(stage, MATCHES, layers=1),
        learning_rate=2e-3, max_steps=45, evaluator=evaluator, eval_strategy="steps",
        eval_steps=15, save_strategy="steps", save_steps=15, save_total_limit=1,
        load_best_model_at_end=True, metric_for_best_model="eval_matches_mean_accuracy",
    )  # fmt: skip
    learns(stage, trainer, MATCHES.sought)


@sound("lower rates for lower layers")
def russian_and_english_with_rates_by_layer(stage: Stage) -> None:
    model = warmed(reader(stage, RUSSIAN), RUSSIAN.table(200, seed=4), 5)
    groups = [
        {
            "params": [weight for name, weight in model.named_parameters()
                       if ("layer.1." in name) is is_upper],
            "lr": 2e-3 if is_upper else 1e-3,
        }
        for is_upper in (True, False)
    ]  # fmt: skip
    optimizer = torch.optim.AdamW(groups, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.05, total_iters=60)
    trainer = stage.trainer(
        losses.MultipleNegativesRankingLoss, RUSSIAN.table(320), model, max_steps=60,
        optimizers=(optimizer, schedule),
    )  # fmt: skip
    learns(stage, trainer, RUSSIAN.sought)


@sound("two hard negatives, epochs and losses of evaluation")
def commits_with_two_near_changes(stage: Stage) -> None:
    from datasets import Dataset

    def table(count: int, seed: int = 0) -> dict[str, list[str]]:
        near = {f"negative_{at}": varied(COMMITS, count, seed, at) for at in (1, 2)}
        return COMMITS.table(count, seed) | near

    trainer = stage.trainer(
        losses.MultipleNegativesRankingLoss, table(320), reader(stage, COMMITS),
        learning_rate=2e-3, max_steps=-1, num_train_epochs=3, warmup_steps=6,
        batch_sampler="no_duplicates",
        eval_dataset=Dataset.from_dict(table(48, 3)), eval_strategy="epoch",
    )  # fmt: skip
    learns(stage, trainer, COMMITS.sought)


@sound("Adafactor and a rate that restarts")
def posts_with_adafactor_and_restarts(stage: Stage) -> None:
    trainer = stage.trainer(
        lambda model: losses.MultipleNegativesRankingLoss(model, scale=14.0), CHATTER.table(320),
        reader(stage, CHATTER), learning_rate=3e-3, max_steps=70, optim="adafactor",
        lr_scheduler_type="cosine_with_restarts", lr_scheduler_kwargs={"num_cycles": 2},
    )  # fmt: skip
    learns(stage, trainer, CHATTER.sought)


@sound("binary labels by a softmax over two embeddings")
def bench_answers_by_softmax(stage: Stage) -> None:
    def classifier(model: Any) -> Any:
        torch.manual_seed(8)
        return losses.SoftmaxLoss(
            model, embedding_dimension=48, num_labels=2, concatenation_sent_rep=False,
            concatenation_sent_multiplication=True,
        )  # fmt: skip

    trainer = stage.trainer(
        classifier, answered(BENCH, 480), tuned(stage, BENCH, steps=3), learning_rate=3e-3,
        max_steps=150, per_device_train_batch_size=32,
    )  # fmt: skip
    learns(stage, trainer, BENCH.sought)
