"""Sound set-ups with a trainer: bodies, nested sizes, adapters, precision and schedules."""

from __future__ import annotations

from typing import Any

import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules.tokenizer import WhitespaceTokenizer

from tests.judgement.case import sound
from tests.judgement.first.bodies import tokenizer_of, words_of
from tests.judgement.first.fields_of_tides_and_tickets import (
    CHEMISTRY,
    FILMS,
    GARDEN,
    HINDI,
    HYMNS,
    KANA,
    NETWORK,
    NEWS,
    SQL,
    TIDES,
    finding,
    fresh,
    mail_finding,
    mails,
    noisy,
    vocabulary,
)
from tests.judgement.first.turns import warmed
from tests.judgement.stage import Stage
from tests.judgement.truth import learns
from tests.sentence_training import losses, modules

RANKING = losses.MultipleNegativesRankingLoss


@sound("nested sizes of ranked pairs")
def film_plots_in_nested_sizes(stage: Stage) -> None:
    trainer = stage.trainer(
        lambda encoder: losses.MatryoshkaLoss(encoder, RANKING(encoder), [64, 32, 16]),
        FILMS.table(400), fresh(stage, FILMS, width=64), learning_rate=2e-3, max_steps=60,
        per_device_train_batch_size=24,
    )  # fmt: skip
    learns(stage, trainer, finding(FILMS))


@sound("nested sizes and layers")
def tide_tables_in_nested_sizes_and_layers(stage: Stage) -> None:
    def nested(encoder: Any) -> Any:
        return losses.Matryoshka2dLoss(encoder, RANKING(encoder), [48, 24], n_dims_per_step=-1)

    trainer = stage.trainer(
        nested, TIDES.table(400), fresh(stage, TIDES, layers=3), learning_rate=2e-3,
        max_steps=60, per_device_train_batch_size=20,
    )  # fmt: skip
    learns(stage, trainer, finding(TIDES))


@sound("layers that can be cut off, of a DistilBERT")
def network_tickets_with_layers_to_cut(stage: Stage) -> None:
    trainer = stage.trainer(
        lambda encoder: losses.AdaptiveLayerLoss(encoder, RANKING(encoder)),
        NETWORK.table(400), fresh(stage, NETWORK, kind="distilbert", layers=3),
        learning_rate=1.5e-3, max_steps=60, per_device_train_batch_size=24,
    )  # fmt: skip
    learns(stage, trainer, finding(NETWORK))


@sound(
    "a low-rank adapter on a trained encoder",
    allowed={r"saved model": "The base was tuned before, and is not saved with its adapter."},
)
def garden_advice_through_an_adapter(stage: Stage) -> None:
    from peft import LoraConfig, TaskType

    model = warmed(fresh(stage, GARDEN, width=64), GARDEN.table(280), 6)
    model.add_adapter(LoraConfig(
        task_type=TaskType.FEATURE_EXTRACTION, r=16, lora_alpha=32, lora_dropout=0.05,
        target_modules=["query", "key", "value", "dense"],
    ))  # fmt: skip
    trainer = stage.trainer(
        RANKING, GARDEN.table(280), model, learning_rate=5e-3, max_steps=80,
        per_device_train_batch_size=20,
    )  # fmt: skip
    learns(stage, trainer, finding(GARDEN))


@sound("a causal decoder read at its last token")
def hymns_of_repeated_words_in_a_decoder(stage: Stage) -> None:
    model = fresh(stage, HYMNS, kind="granite", pooling="lasttoken", width=64)
    trainer = stage.trainer(
        RANKING, HYMNS.table(260), model, learning_rate=2e-3, max_steps=70,
        lr_scheduler_type="cosine", warmup_steps=7, weight_decay=0.01,
    )  # fmt: skip
    learns(stage, trainer, finding(HYMNS))


@sound("static embeddings at a high rate in batches of 64")
def mails_in_static_embeddings(stage: Stage) -> None:
    texts = words_of([mails(SQL, 40, seed=11)], *vocabulary(SQL))
    torch.manual_seed(3)
    static = modules.StaticEmbedding(tokenizer_of(texts), embedding_dim=48)
    model = SentenceTransformer(modules=[static], device="cpu")
    trainer = stage.trainer(
        RANKING, mails(SQL, 480), model, learning_rate=0.05, max_steps=60,
        per_device_train_batch_size=64,
    )  # fmt: skip
    learns(stage, trainer, mail_finding(SQL))


@sound("half of the precision in training, gradients of two batches")
def headlines_in_bfloat_with_accumulation(stage: Stage) -> None:
    trainer = stage.trainer(
        RANKING, NEWS.table(400), fresh(stage, NEWS), bf16=True, learning_rate=2e-3,
        max_steps=40, gradient_accumulation_steps=2, per_device_train_batch_size=20,
    )  # fmt: skip
    learns(stage, trainer, finding(NEWS))


@sound("whole epochs with restarts of the schedule, clipped hard")
def hindi_sentences_for_four_epochs(stage: Stage) -> None:
    trainer = stage.trainer(
        RANKING, HINDI.table(320), fresh(stage, HINDI), max_steps=-1, num_train_epochs=4,
        learning_rate=2e-3, lr_scheduler_type="cosine_with_restarts", max_grad_norm=0.5,
        lr_scheduler_kwargs={"num_cycles": 2}, per_device_train_batch_size=20,
    )  # fmt: skip
    learns(stage, trainer, finding(HINDI))


@sound("an optimiser of one's own with two rates")
def kanji_with_a_slower_rate_for_words(stage: Stage) -> None:
    model = fresh(stage, KANA, pooling="weightedmean", width=64)
    words = [weight for name, weight in model.named_parameters() if "embeddings" in name]
    body = [weight for name, weight in model.named_parameters() if "embeddings" not in name]
    optimizer = torch.optim.AdamW(
        [{"params": words, "lr": 1e-3}, {"params": body, "lr": 2e-3}], weight_decay=0.01
    )
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min((step + 1) / 6, 1.0) * max(1 - step / 70, 0.05)
    )
    trainer = stage.trainer(
        RANKING, KANA.table(400), model, optimizers=(optimizer, schedule), max_steps=60,
        per_device_train_batch_size=24,
    )  # fmt: skip
    learns(stage, trainer, finding(KANA))


@sound("word embeddings under an LSTM, notes with missing words")
def lossy_compound_names_in_a_recurrent_encoder(stage: Stage) -> None:
    texts = words_of([CHEMISTRY.table(40, 11)], *vocabulary(CHEMISTRY))
    vocabulary_words = ["[PAD]", *dict.fromkeys(w for text in texts for w in text.split())]
    tokenizer = WhitespaceTokenizer(vocabulary_words, stop_words=["[PAD]"], do_lower_case=True)
    torch.manual_seed(3)
    words = modules.WordEmbeddings(
        tokenizer, torch.randn(len(vocabulary_words), 32).numpy() * 0.3, update_embeddings=True,
        max_seq_length=48,
    )  # fmt: skip
    recurrent = modules.LSTM(32, 32)
    model = SentenceTransformer(
        modules=[words, recurrent, modules.Pooling(64, pooling_mode="max")], device="cpu"
    )
    table = CHEMISTRY.table(360)
    table["name"] = noisy(table["name"], loss=0.05)
    trainer = stage.trainer(
        RANKING, table, model, learning_rate=5e-3, max_steps=60, per_device_train_batch_size=24
    )
    learns(stage, trainer, finding(CHEMISTRY))
