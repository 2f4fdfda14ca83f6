"""Sound set-ups: rankings with a trainer, of pairs and triplets of several fields."""

from __future__ import annotations

from typing import Any

from tests.judgement.case import sound
from tests.judgement.first.bodies import encoder
from tests.judgement.first.fields_of_orders_and_mails import (
    BIRDS,
    CHEMISTRY,
    HINDI,
    MAILS,
    MUSEUM,
    PATENTS,
    RUSSIAN,
    SHELL,
    calls,
    calls_sought,
    fresh,
    seeker,
    with_near,
)
from tests.judgement.stage import Stage
from tests.judgement.truth import learns
from tests.sentence_training import evaluation, losses


@sound("chemistry with a batch without duplicates")
def acids_and_protocols_without_duplicates(stage: Stage) -> None:
    trainer = stage.trainer(
        losses.MultipleNegativesRankingLoss, CHEMISTRY.table(320), fresh(stage, CHEMISTRY),
        batch_sampler="no_duplicates", learning_rate=2e-3, max_steps=60,
        per_device_train_batch_size=32,
    )  # fmt: skip
    learns(stage, trainer, seeker(CHEMISTRY))


@sound("cached ranking of a large batch in small pieces")
def cached_ranking_of_shell_commands(stage: Stage) -> None:
    trainer = stage.trainer(
        lambda model: losses.CachedMultipleNegativesRankingLoss(model, mini_batch_size=32),
        SHELL.table(384), fresh(stage, SHELL), per_device_train_batch_size=96,
        learning_rate=3e-3, max_steps=36,
    )  # fmt: skip
    learns(stage, trainer, seeker(SHELL))


@sound("symmetric ranking of translations in two scripts")
def symmetric_ranking_of_russian_and_english(stage: Stage) -> None:
    trainer = stage.trainer(
        losses.MultipleNegativesSymmetricRankingLoss, RUSSIAN.table(400), fresh(stage, RUSSIAN),
        learning_rate=2e-3, max_steps=80, per_device_train_batch_size=24,
    )  # fmt: skip
    learns(stage, trainer, seeker(RUSSIAN))


@sound("hard negatives of another slot")
def museum_cards_with_lookalikes(stage: Stage) -> None:
    trainer = stage.trainer(
        losses.MultipleNegativesRankingLoss, with_near(MUSEUM, 300, slot=1),
        fresh(stage, MUSEUM), learning_rate=2e-3, max_steps=60, per_device_train_batch_size=20,
    )  # fmt: skip
    learns(stage, trainer, seeker(MUSEUM))


@sound("evaluator of retrieval during training")
def mails_with_retrieval_evaluated_in_training(stage: Stage) -> None:
    held = MAILS.table(50, seed=21)
    evaluator = evaluation.InformationRetrievalEvaluator(
        {f"q{at}": text for at, text in enumerate(held["subject"])},
        {f"d{at}": text for at, text in enumerate(held["body"])},
        {f"q{at}": {f"d{at}"} for at in range(50)},
        name="mails", mrr_at_k=[10], ndcg_at_k=[10], accuracy_at_k=[1], precision_recall_at_k=[1],
        map_at_k=[10],
    )  # fmt: skip
    trainer = stage.trainer(
        losses.MultipleNegativesRankingLoss, MAILS.table(320), fresh(stage, MAILS),
        evaluator=evaluator, eval_strategy="steps", eval_steps=20, learning_rate=2e-3,
        max_steps=60, lr_scheduler_type="cosine",
    )  # fmt: skip
    learns(stage, trainer, seeker(MAILS))


@sound("nested dimensions")
def nested_dimensions_of_bird_sightings(stage: Stage) -> None:
    trainer = stage.trainer(
        lambda model: losses.MatryoshkaLoss(
            model, losses.MultipleNegativesRankingLoss(model), [48, 24, 12]
        ),
        BIRDS.table(400), fresh(stage, BIRDS), learning_rate=2e-3, max_steps=60,
        per_device_train_batch_size=32,
    )  # fmt: skip

    def shortened(model: Any) -> float:
        model.truncate_dim = 12
        score = seeker(BIRDS)(model)
        model.truncate_dim = None
        return score

    learns(stage, trainer, shortened)


@sound("CLS pooling with normalised embeddings")
def first_tokens_of_patents_normalised(stage: Stage) -> None:
    from sentence_transformers.sentence_transformer.modules import Normalize

    trainer = stage.trainer(
        lambda model: losses.MultipleNegativesRankingLoss(model, scale=30.0),
        PATENTS.table(240), fresh(stage, PATENTS, Normalize(), pooling="cls", spread=0.1),
        learning_rate=2e-3, max_steps=160, per_device_train_batch_size=24,
    )  # fmt: skip
    learns(stage, trainer, seeker(PATENTS))


@sound("maximum pooling of an encoder without dropout")
def maximum_pooling_of_hindi(stage: Stage) -> None:
    trainer = stage.trainer(
        losses.MultipleNegativesRankingLoss, HINDI.table(320),
        fresh(stage, HINDI, pooling="max", dropout=0.0), learning_rate=1.5e-3, max_steps=70,
        lr_scheduler_type="constant_with_warmup",
    )  # fmt: skip
    learns(stage, trainer, seeker(HINDI))


@sound("texts of mixed lengths with noise")
def noisy_calls_of_tenants(stage: Stage) -> None:
    table = calls(400)
    words = [*table["call"], *table["note"]]
    trainer = stage.trainer(
        losses.MultipleNegativesRankingLoss, table, encoder(stage, words),
        learning_rate=2e-3, max_steps=80, per_device_train_batch_size=32, weight_decay=0.01,
    )  # fmt: skip
    learns(stage, trainer, calls_sought)


@sound("decoder whose last token is pooled")
def decoder_of_shell_commands(stage: Stage) -> None:
    trainer = stage.trainer(
        losses.MultipleNegativesRankingLoss, SHELL.table(320),
        fresh(stage, SHELL, kind="granite", pooling="lasttoken"), learning_rate=3e-3,
        max_steps=80, per_device_train_batch_size=24, max_grad_norm=1.0,
    )  # fmt: skip
    learns(stage, trainer, seeker(SHELL))
