"""Sound set-ups: the trainer without labels, and with towers, schedules and stops of its own."""

from __future__ import annotations

import random

import torch

from tests.judgement.case import sound
from tests.judgement.first.bodies import tokenizer_of
from tests.judgement.first.fields_of_cheers_and_shells import (
    AUCTION,
    CHEERS,
    MAILS,
    PLANTS,
    RECALLS,
    SENSORS,
    SKY,
    TURKISH,
    model_of,
    score_of,
)
from tests.judgement.first.loops_of_views import torn
from tests.judgement.stage import Stage
from tests.judgement.truth import learns
from tests.sentence_training import losses


def noisy(texts: list[str], rate: float, seed: int = 5) -> list[str]:
    """Texts without some of their words."""
    draw = random.Random(seed)
    return [" ".join([w for w in text.split() if draw.random() > rate] or text.split()[:1])
            for text in texts]  # fmt: skip


@sound("one text in two columns, told apart by dropout")
def one_text_twice_with_dropout_in_english(stage: Stage) -> None:
    texts = TURKISH.table(400)["english"]
    trainer = stage.trainer(
        lambda model: losses.MultipleNegativesRankingLoss(model),
        {"anchor": texts, "positive": list(texts)}, model_of(stage, TURKISH, dropout=0.2),
        learning_rate=2e-3, max_steps=90, per_device_train_batch_size=24,
        batch_sampler="no_duplicates",
    )  # fmt: skip
    learns(stage, trainer, torn(TURKISH, 1))


@sound("noisy copies of a text beside it")
def noisy_copies_of_recalls(stage: Stage) -> None:
    texts = RECALLS.table(360)["story"]
    trainer = stage.trainer(
        lambda model: losses.MultipleNegativesSymmetricRankingLoss(model),
        {"noisy": noisy(texts, 0.4), "text": texts}, model_of(stage, RECALLS),
        learning_rate=2e-3, max_steps=60, per_device_train_batch_size=24,
    )  # fmt: skip
    learns(stage, trainer, torn(RECALLS, 1))


@sound("granite decoder with its last token, gradual warm-up")
def last_token_of_a_decoder_for_cheers(stage: Stage) -> None:
    trainer = stage.trainer(
        lambda model: losses.MultipleNegativesRankingLoss(model), CHEERS.table(190),
        model_of(stage, CHEERS, kind="granite", pooling="lasttoken"), learning_rate=2e-3,
        max_steps=60, warmup_steps=12, per_device_train_batch_size=16,
    )  # fmt: skip
    learns(stage, trainer, score_of(CHEERS))


@sound("distilled body, square-root pooling, constant rate and decay")
def distilbert_with_square_root_pooling_for_turkish(stage: Stage) -> None:
    trainer = stage.trainer(
        lambda model: losses.MultipleNegativesRankingLoss(model), TURKISH.table(320),
        model_of(stage, TURKISH, kind="distilbert", pooling="mean_sqrt_len_tokens"),
        learning_rate=1e-3, max_steps=60, lr_scheduler_type="constant", weight_decay=0.05,
        per_device_train_batch_size=24,
    )  # fmt: skip
    learns(stage, trainer, score_of(TURKISH))


@sound("static embeddings of words, a high rate")
def static_embeddings_of_plants(stage: Stage) -> None:
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import StaticEmbedding

    table = PLANTS.table(300)
    tokenizer = tokenizer_of([text for column in table.values() for text in column])
    torch.manual_seed(3)
    static = StaticEmbedding(tokenizer.backend_tokenizer, embedding_dim=64)
    trainer = stage.trainer(
        lambda model: losses.MultipleNegativesRankingLoss(model), table,
        SentenceTransformer(modules=[static], device="cpu"), learning_rate=5e-2, max_steps=80,
        per_device_train_batch_size=32,
    )  # fmt: skip
    learns(stage, trainer, score_of(PLANTS))


@sound("best checkpoint by the loss of rows set aside")
def best_checkpoint_of_sensor_readings(stage: Stage) -> None:
    from datasets import Dataset

    trainer = stage.trainer(
        lambda model: losses.MultipleNegativesRankingLoss(model), SENSORS.table(240),
        model_of(stage, SENSORS), learning_rate=2e-3, max_steps=60,
        eval_dataset=Dataset.from_dict(SENSORS.table(48, seed=13)), eval_strategy="steps",
        eval_steps=20, save_strategy="steps", save_steps=20, load_best_model_at_end=True,
    )  # fmt: skip
    learns(stage, trainer, score_of(SENSORS))


@sound("losses at several depths and widths")
def depths_and_widths_for_sky_surveys(stage: Stage) -> None:
    trainer = stage.trainer(
        lambda model: losses.Matryoshka2dLoss(
            model, losses.MultipleNegativesRankingLoss(model), matryoshka_dims=[48, 24]
        ),
        SKY.table(320), model_of(stage, SKY, layers=3), learning_rate=2e-3, max_steps=60,
        per_device_train_batch_size=20,
    )  # fmt: skip
    learns(stage, trainer, score_of(SKY))


@sound("own optimiser with a rate for the words and one for the layers")
def two_rates_of_an_optimiser_for_auctions(stage: Stage) -> None:
    model = model_of(stage, AUCTION)
    words = [w for name, w in model.named_parameters() if "embeddings" in name]
    layers = [w for name, w in model.named_parameters() if "embeddings" not in name]
    optimizer = torch.optim.AdamW([{"params": words, "lr": 4e-3}, {"params": layers, "lr": 1e-3}])
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.05, 70)
    trainer = stage.trainer(
        lambda model: losses.MultipleNegativesRankingLoss(model), AUCTION.table(240), model,
        max_steps=70, optimizers=(optimizer, schedule), per_device_train_batch_size=20,
    )  # fmt: skip
    learns(stage, trainer, score_of(AUCTION))


@sound("tension of two copies of an encoder over the texts of a batch")
def tension_over_the_mails_of_a_batch(stage: Stage) -> None:
    texts = MAILS.table(320)["body"]
    trainer = stage.trainer(
        lambda model: losses.ContrastiveTensionLossInBatchNegatives(model),
        {"first": texts, "second": list(texts)}, model_of(stage, MAILS), learning_rate=2e-3,
        max_steps=70, per_device_train_batch_size=24, batch_sampler="no_duplicates",
    )  # fmt: skip
    learns(stage, trainer, torn(MAILS, 1))
