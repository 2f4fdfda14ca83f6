"""Sound set-ups that vary the encoder, what of it is trained, and the optimiser."""

from __future__ import annotations

import random
from typing import Any

import torch

from tests.judgement.case import sound
from tests.judgement.first.fields_of_records import (
    BIRDS,
    CALLS,
    DISHES,
    GREEK,
    MAILS,
    METERS,
    QUERIES,
    REAGENTS,
    adam,
    columns,
    corpus,
    fresh,
    sought_among_many,
    thinned,
)
from tests.judgement.first.turns import Rows, infonce, stepped, turn, warmed
from tests.judgement.stage import Stage
from tests.judgement.truth import learns, reciprocal_rank
from tests.sentence_training import losses, modules


@sound("decoder with the last token's state")
def queries_by_the_last_token_of_a_decoder(stage: Stage) -> None:
    model = fresh(stage, QUERIES, kind="granite", pooling="lasttoken")
    trainer = stage.trainer(
        losses.MultipleNegativesRankingLoss, QUERIES.table(320), model, learning_rate=2e-3,
        per_device_train_batch_size=24, lr_scheduler_type="cosine", max_steps=60,
    )  # fmt: skip
    learns(stage, trainer, QUERIES.sought)


@sound("dense head and normalised embeddings behind the pooling")
def mails_through_a_dense_head(stage: Stage) -> None:
    head = modules.Dense(48, 32, activation_function=torch.nn.Identity())
    trainer = stage.trainer(
        losses.MultipleNegativesRankingLoss, MAILS.table(320),
        fresh(stage, MAILS, head, modules.Normalize()), learning_rate=1e-3,
        per_device_train_batch_size=16, max_steps=30,
    )  # fmt: skip
    learns(stage, trainer, MAILS.sought)


@sound("mean of a small DistilBERT, trained by Adafactor")
def birds_by_a_distilled_body_with_adafactor(stage: Stage) -> None:
    model = fresh(stage, BIRDS, kind="distilbert", pooling="mean")
    trainer = stage.trainer(
        losses.MultipleNegativesRankingLoss, BIRDS.table(320), model, optim="adafactor",
        learning_rate=2e-3, per_device_train_batch_size=32, max_steps=60,
    )  # fmt: skip
    learns(stage, trainer, BIRDS.sought)


@sound("static embeddings of words at a high rate")
def static_embeddings_of_readings(stage: Stage) -> None:
    from sentence_transformers import SentenceTransformer

    tokenizer = fresh(stage, METERS).tokenizer
    torch.manual_seed(5)
    static = modules.StaticEmbedding(tokenizer, embedding_dim=64)
    model = SentenceTransformer(modules=[static], device="cpu")
    trainer = stage.trainer(
        losses.MultipleNegativesRankingLoss, METERS.table(400), model, learning_rate=5e-2,
        per_device_train_batch_size=64, max_steps=40,
    )  # fmt: skip
    learns(stage, trainer, METERS.sought)


@sound(
    "adapters of low rank on an encoder that is trained already",
    allowed={r"saved model": "The base was tuned before, and is not saved with its adapter."},
)
def adapters_on_an_encoder_of_greek(stage: Stage) -> None:
    from peft import LoraConfig, TaskType

    model = warmed(fresh(stage, GREEK), GREEK.table(320), 5)
    model.add_adapter(LoraConfig(
        task_type=TaskType.FEATURE_EXTRACTION, r=8, lora_alpha=16, lora_dropout=0.05,
        target_modules=["query", "key", "value", "dense"],
    ))  # fmt: skip
    trainer = stage.trainer(
        losses.MultipleNegativesRankingLoss, GREEK.table(320), model, learning_rate=5e-3,
        per_device_train_batch_size=32, max_steps=60,
    )  # fmt: skip
    learns(stage, trainer, GREEK.sought)


@sound("two towers, one for names and one for formulas")
def loop_of_two_towers_over_reactions(stage: Stage) -> None:
    names = fresh(stage, REAGENTS, name="names", seed=1)
    formulas = fresh(stage, REAGENTS, name="formulas", seed=2)
    towers = torch.nn.ModuleList([names, formulas])
    rows, optimizer = Rows(REAGENTS.table(320), 32), adam(towers, rate=2e-3)

    def update(criterion: Any, step: int) -> None:
        first, second = rows()
        embeddings = columns(names, [first]) + columns(formulas, [second])
        stepped(optimizer, criterion(*embeddings))

    def sought(_: Any) -> float:
        towers.eval()
        texts = list(REAGENTS.table(40, seed=11).values())
        rows_of_towers = [tower.encode(column, show_progress_bar=False)
                          for tower, column in zip(towers, texts, strict=True)]  # fmt: skip
        return reciprocal_rank(*rows_of_towers)

    turn(stage, towers, infonce, update, sought)


@sound("half precision of the forward pass by autocast")
def loop_over_radio_calls_in_bfloat16(stage: Stage) -> None:
    model = fresh(stage, CALLS, width=32)
    rows, optimizer = Rows(CALLS.table(240), 16), adam(model, rate=2e-3)

    def update(criterion: Any, step: int) -> None:
        batch = rows()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            embeddings = columns(model, batch)
        stepped(optimizer, criterion(*(rows_of_side.float() for rows_of_side in embeddings)))

    turn(stage, model, infonce, update, CALLS.sought)


@sound("a text and its words in another order, by a cached ranking loss")
def recipes_and_their_words_reordered(stage: Stage) -> None:
    texts, draw = corpus(DISHES, 320), random.Random(8)
    views = [" ".join(draw.sample(text.split(), len(text.split()))) for text in texts]
    trainer = stage.trainer(
        lambda encoder: losses.CachedMultipleNegativesRankingLoss(encoder, mini_batch_size=16),
        {"text": texts, "view": thinned(views, draw, 0.2)}, fresh(stage, DISHES),
        per_device_train_batch_size=64, learning_rate=2e-3, max_steps=25,
    )  # fmt: skip
    learns(stage, trainer, sought_among_many(DISHES))
