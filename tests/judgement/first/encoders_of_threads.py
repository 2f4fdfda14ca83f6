"""Sound set-ups of the trainer: encoders, pooling, heads, towers, adapters and precision."""

from __future__ import annotations

from typing import Any

import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer import losses
from sentence_transformers.sentence_transformer.modules import (
    Dense,
    LayerNorm,
    Normalize,
    Pooling,
    StaticEmbedding,
)

from tests.judgement.case import sound
from tests.judgement.first.bodies import body, tokenizer_of
from tests.judgement.first.fields_of_many_tongues import (
    CHEMISTRY,
    COMMITS,
    GARDEN,
    GREEK,
    HARDWARE,
    HEADLINES,
    MAILS,
    MATCHES,
    SQL,
    TAGS,
    WEATHER,
    ragged,
    small,
    sought,
    vocabulary,
)
from tests.judgement.first.turns import warmed
from tests.judgement.stage import Stage
from tests.judgement.truth import learns

FAST: dict[str, Any] = {
    "learning_rate": 2e-3, "max_steps": 60, "per_device_train_batch_size": 24,
}  # fmt: skip
RANKING = losses.MultipleNegativesRankingLoss


@sound("first token of a DistilBERT")
def first_token_of_distilled_bert_on_sql(stage: Stage) -> None:
    model = small(stage, SQL, kind="distilbert", pooling="cls", spread=0.08)
    trainer = stage.trainer(RANKING, SQL.table(300), model, **FAST | {"max_steps": 80})
    learns(stage, trainer, sought(SQL))


@sound("largest value of each feature")
def largest_features_of_ragged_mails(stage: Stage) -> None:
    model = small(stage, MAILS, pooling="max")
    trainer = stage.trainer(RANKING, ragged(MAILS, 300), model, **FAST)
    learns(stage, trainer, sought(MAILS))


@sound("last token of a decoder")
def last_token_of_a_decoder_on_commits(stage: Stage) -> None:
    model = small(stage, COMMITS, kind="granite", pooling="lasttoken")
    trainer = stage.trainer(RANKING, COMMITS.table(320), model, **FAST | {"max_steps": 80})
    learns(stage, trainer, sought(COMMITS))


@sound("mean of a decoder's tokens, weighted by place")
def weighted_mean_of_a_decoder_on_weather(stage: Stage) -> None:
    model = small(stage, WEATHER, kind="granite", pooling="weightedmean")
    trainer = stage.trainer(RANKING, WEATHER.table(320), model, **FAST)
    learns(stage, trainer, sought(WEATHER))


@sound("dense head and unit length")
def dense_head_of_unit_length_on_matches(stage: Stage) -> None:
    head = Dense(48, 24, activation_function=torch.nn.Identity())
    model = small(stage, MATCHES, width=48)
    model = SentenceTransformer(modules=[model[0], model[1], head, Normalize()], device="cpu")
    trainer = stage.trainer(RANKING, MATCHES.table(320), model, **FAST)
    learns(stage, trainer, sought(MATCHES))


@sound("normed layer behind the pooling")
def layer_norm_behind_a_mean_of_formulas(stage: Stage) -> None:
    model = small(stage, CHEMISTRY, layers=1)
    model = SentenceTransformer(modules=[model[0], model[1], LayerNorm(48)], device="cpu")
    trainer = stage.trainer(RANKING, CHEMISTRY.table(320), model, **FAST)
    learns(stage, trainer, sought(CHEMISTRY))


@sound("first token and mean side by side")
def first_token_beside_mean_on_greek(stage: Stage) -> None:
    folder = body(stage, vocabulary(GREEK), width=32)
    model = SentenceTransformer(
        modules=[folder, Pooling(32, pooling_mode=("cls", "mean"))], device="cpu"
    )
    trainer = stage.trainer(RANKING, GREEK.table(320), model, **FAST)
    learns(stage, trainer, sought(GREEK))


@sound("static embeddings at a high rate")
def static_embeddings_of_tags(stage: Stage) -> None:
    torch.manual_seed(5)
    tokenizer = tokenizer_of(vocabulary(TAGS))
    static = StaticEmbedding(tokenizer.backend_tokenizer, embedding_dim=64)
    model = SentenceTransformer(modules=[static], device="cpu")
    trainer = stage.trainer(
        RANKING, TAGS.table(400), model, learning_rate=5e-2, max_steps=80, warmup_steps=8,
        per_device_train_batch_size=32,
    )  # fmt: skip
    learns(stage, trainer, sought(TAGS))


@sound("two towers by task")
def towers_for_orders_and_stock_numbers(stage: Stage) -> None:
    from sentence_transformers.base.modules import Router

    texts = vocabulary(HARDWARE)
    query, document = (
        [body(stage, texts, name=name, seed=seed), Pooling(48, pooling_mode="mean")]
        for name, seed in (("query", 3), ("document", 4))
    )
    model = SentenceTransformer(modules=[Router.for_query_document(query, document)], device="cpu")

    def score(encoder: Any) -> float:
        from tests.judgement.truth import reciprocal_rank

        order, sku = HARDWARE.table(60, seed=11).values()
        return reciprocal_rank(
            encoder.encode_query(order, show_progress_bar=False),
            encoder.encode_document(sku, show_progress_bar=False),
        )

    trainer = stage.trainer(
        RANKING, HARDWARE.table(360), model,
        router_mapping={"order": "query", "sku": "document"}, **FAST | {"max_steps": 80},
    )  # fmt: skip
    learns(stage, trainer, score)


@sound(
    "adapter of low rank on a trained encoder",
    allowed={r"saved model": "The base was tuned before, and is not saved with its adapter."},
)
def low_rank_adapter_on_headlines(stage: Stage) -> None:
    from peft import LoraConfig, TaskType

    model = warmed(small(stage, HEADLINES, GARDEN), HEADLINES.table(200, seed=2), 5)
    model.add_adapter(LoraConfig(
        task_type=TaskType.FEATURE_EXTRACTION, r=8, lora_alpha=32, lora_dropout=0.05,
        target_modules=["query", "key", "value", "dense"],
    ))  # fmt: skip
    trainer = stage.trainer(RANKING, HEADLINES.table(320), model, **FAST | {"learning_rate": 5e-3})
    learns(stage, trainer, sought(HEADLINES))
