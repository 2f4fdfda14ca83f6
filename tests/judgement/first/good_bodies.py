"""Encoders of many builds: decoders, static embeddings, adapters, heads, frozen layers, routes."""

from __future__ import annotations

from typing import Any

import torch
from sentence_transformers.sentence_transformer import losses
from sentence_transformers.sentence_transformer.modules import (
    LSTM,
    Dense,
    Normalize,
    Pooling,
    Router,
    StaticEmbedding,
    WeightedLayerPooling,
    WordEmbeddings,
)
from torch import nn

from tests.judgement.case import sound
from tests.judgement.first.bodies import body, encoder, tokenizer_of, words_of
from tests.judgement.first.fields import CLINIC, CODE, HELPDESK, KITCHEN, PAPERS, SHOP, TRAVEL
from tests.judgement.first.good_fields import CONTRACTS, LOGS, SONGS, minutes
from tests.judgement.first.good_materials import (
    assembled,
    graded_score,
    near_triplets,
    network,
    pooled,
    sought,
    started,
    tune,
    two,
)
from tests.judgement.first.turns import warmed
from tests.judgement.stage import Stage

RANKING = losses.MultipleNegativesRankingLoss


@sound("decoder with its last token and an instruction for queries")
def decoder_with_an_instruction(stage: Stage) -> None:
    """As the encoders made of Qwen: padding on the left, an end token, an instruction."""
    table = two(HELPDESK.table(300))
    order = "instruct: find the answer . query: "
    texts = words_of([table], order)
    body_of_tokens = network(stage, texts, "Qwen3", head_dim=12, num_key_value_heads=2)
    model = pooled(body_of_tokens, "lasttoken")
    tune(
        stage, table, RANKING, model,
        lambda model: HELPDESK.sought(model, prompts=(order, "")), prompts={"question": order},
        learning_rate=2e-3, per_device_train_batch_size=32, max_steps=50,
    )  # fmt: skip


@sound("decoder with the mean of its tokens")
def decoder_of_code_by_its_mean(stage: Stage) -> None:
    table = two(CODE.table(290))
    body_of_tokens = network(stage, words_of([table]), "Mistral", width=32, num_key_value_heads=2)
    model = pooled(body_of_tokens, "mean", 32)
    tune(
        stage, table, RANKING, model, CODE.sought, learning_rate=2e-3, max_steps=50,
        per_device_train_batch_size=24, lr_scheduler_type="cosine",
    )  # fmt: skip


@sound("decoder whose later tokens weigh more, graded pairs")
def weighted_mean_of_a_decoder(stage: Stage) -> None:
    """As SGPT."""
    table, general = KITCHEN.graded(360), two(KITCHEN.table(200, seed=2))
    body_of_tokens = network(stage, words_of([table, general]), "Llama", width=40, spread=0.1)
    model = warmed(pooled(body_of_tokens, "weightedmean", 40), general, 8)
    tune(
        stage, table, losses.CoSENTLoss, model, graded_score(KITCHEN), learning_rate=2e-3,
        max_steps=50, per_device_train_batch_size=24,
    )  # fmt: skip


@sound("static embeddings at their high rate")
def static_embeddings_of_travel(stage: Stage) -> None:
    """As the static retrieval models: large batches, a rate of 0.2, Matryoshka around it."""
    table = TRAVEL.table(640)
    tokenizer = tokenizer_of(words_of([table])).backend_tokenizer
    model = assembled(StaticEmbedding(tokenizer, embedding_dim=64))
    tune(
        stage, table,
        lambda model: losses.MatryoshkaLoss(model, RANKING(model), [64, 32, 16]), model,
        TRAVEL.sought, learning_rate=0.2, per_device_train_batch_size=128, max_steps=-1,
        num_train_epochs=8, warmup_ratio=0.1, batch_sampler="no_duplicates",
    )  # fmt: skip


def adapted(model: Any, rank: int = 8, *targets: str) -> Any:
    """Put adapters of low rank on the attention of an encoder."""
    from peft import LoraConfig, TaskType

    torch.manual_seed(2)
    model.add_adapter(LoraConfig(
        task_type=TaskType.FEATURE_EXTRACTION, r=rank, lora_alpha=2 * rank, lora_dropout=0.1,
        target_modules=list(targets or ("query", "key", "value", "dense")),
    ))  # fmt: skip
    return model


@sound(
    "adapters of low rank on a trained encoder",
    allowed={
        "saved model": "Adapters alone are saved, beside the name of an encoder whose further "
        "training stays in memory: what is loaded is another model."
    },
)
def adapters_for_the_clinic(stage: Stage) -> None:
    table = two(CLINIC.table(210))
    model = adapted(started(stage, table, CLINIC, steps=5, width=64))
    tune(
        stage, table, RANKING, model, CLINIC.sought, learning_rate=5e-3, max_steps=60,
        per_device_train_batch_size=24,
    )  # fmt: skip


@sound("frozen word embeddings and first layer of a trained encoder")
def frozen_words_and_first_layer(stage: Stage) -> None:
    table, general = near_triplets(SHOP, 300, 1), two(SHOP.table(120, seed=2))
    model = encoder(stage, words_of([table, general]), width=48, layers=3, spread=0.05)
    warmed(model, general, 8)
    inner = model[0].model
    for layer in (inner.embeddings, inner.encoder.layer[0]):
        layer.requires_grad_(False)
    tune(
        stage, table, RANKING, model, SHOP.sought, learning_rate=2e-3, max_steps=50,
        per_device_train_batch_size=24,
    )  # fmt: skip


@sound("transformer for documents, static embeddings for queries")
def routes_of_two_kinds(stage: Stage) -> None:
    """An asymmetric encoder: queries must be fast."""
    table = two(CONTRACTS.table(300))
    texts = words_of([table])
    torch.manual_seed(1)
    tokenizer = tokenizer_of(texts).backend_tokenizer
    router = Router.for_query_document(
        [StaticEmbedding(tokenizer, embedding_dim=48)],
        [body(stage, texts, width=48, spread=0.05), Pooling(48, "mean")],
    )
    model = assembled(router)

    def score(model: Any) -> float:
        from tests.judgement.truth import reciprocal_rank

        queries, documents = two(CONTRACTS.table(40, seed=11)).values()
        return reciprocal_rank(model.encode_query(queries), model.encode_document(documents))

    tune(
        stage, table, RANKING, model, score, learning_rate=3e-3, max_steps=45,
        router_mapping={"query": "query", "clause": "document"}, per_device_train_batch_size=32,
        learning_rate_mapping={r"query\.0": 2e-2},
    )  # fmt: skip


@sound("projection to fewer dimensions, unit vectors")
def projection_to_few_dimensions(stage: Stage) -> None:
    table = two(SONGS.table(360))
    behind = Dense(64, 24, activation_function=nn.Tanh()), Normalize()
    model = encoder(
        stage, words_of([table]), *behind, width=64, spread=0.05
    )  # fmt: skip
    tune(
        stage, table, RANKING, model, SONGS.sought, learning_rate=4e-3, max_steps=50,
        per_device_train_batch_size=32, lr_scheduler_type="cosine",
    )  # fmt: skip


@sound("first token and mean side by side")
def two_poolings_side_by_side(stage: Stage) -> None:
    table = two(PAPERS.table(300))
    model = encoder(stage, words_of([table]), width=32, pooling=("cls", "mean"), spread=0.05)
    tune(
        stage, table, RANKING, model, PAPERS.sought, learning_rate=4e-3, max_steps=50,
        per_device_train_batch_size=20,
    )  # fmt: skip


@sound("two directions of an LSTM over word embeddings")
def recurrent_encoder(stage: Stage) -> None:
    """As InferSent: word embeddings, an LSTM in two directions, the maximum of its states."""
    from sentence_transformers.sentence_transformer.modules.tokenizer import WhitespaceTokenizer

    table = two(LOGS.table(310))
    words = list(dict.fromkeys(w for text in words_of([table]) for w in text.lower().split()))
    torch.manual_seed(4)
    rows = WordEmbeddings(
        WhitespaceTokenizer(["[PAD]", *words], stop_words=[], do_lower_case=True),
        torch.randn(len(words) + 1, 32) * 0.3, update_embeddings=True, max_seq_length=32,
    )  # fmt: skip
    model = assembled(rows, LSTM(32, 32), Pooling(64, "max"))
    tune(
        stage, table, RANKING, model, LOGS.sought, learning_rate=1e-2, max_steps=60,
        per_device_train_batch_size=32,
    )  # fmt: skip


@sound("learned weights of layers")
def weighted_layers(stage: Stage) -> None:
    table = minutes(300)
    body_of_tokens = network(stage, words_of([table]), "Bert", layers=3, output_hidden_states=True)
    model = assembled(body_of_tokens, WeightedLayerPooling(48, 3, layer_start=1), Pooling(48))
    tune(
        stage, table, RANKING, model, sought(minutes(60, seed=11)), learning_rate=2e-3,
        max_steps=50, per_device_train_batch_size=24,
    )  # fmt: skip


@sound("layers shared as in ALBERT, symmetric ranking")
def shared_layers(stage: Stage) -> None:
    table = two(SHOP.table(310))
    body_of_tokens = network(stage, words_of([table]), "Albert", embedding_size=32, layers=3)
    loss = losses.MultipleNegativesSymmetricRankingLoss
    tune(
        stage, table, loss, pooled(body_of_tokens), SHOP.sought, learning_rate=2e-3, max_steps=60,
        per_device_train_batch_size=32,
    )  # fmt: skip


@sound("a ModernBERT with rotary positions")
def rotary_positions(stage: Stage) -> None:
    table = two(CLINIC.table(210))
    body_of_tokens = network(
        stage, words_of([table]), "ModernBert", num_attention_heads=4, cls_token_id=2,
        sep_token_id=3, global_attn_every_n_layers=1,
    )  # fmt: skip
    tune(
        stage, table, RANKING, pooled(body_of_tokens, "cls"), CLINIC.sought, learning_rate=2e-3,
        max_steps=50, per_device_train_batch_size=24, weight_decay=0.05,
    )  # fmt: skip


@sound("Matryoshka of dimensions and of layers at once")
def dimensions_and_layers(stage: Stage) -> None:
    table = two(HELPDESK.table(320))
    model = encoder(stage, words_of([table]), width=64, layers=3, spread=0.05)
    tune(
        stage, table,
        lambda model: losses.Matryoshka2dLoss(model, RANKING(model), [64, 32, 16]), model,
        HELPDESK.sought, learning_rate=2e-3, max_steps=50, per_device_train_batch_size=24,
    )  # fmt: skip


@sound("every layer may be the last one, fewer in use")
def layers_that_can_be_cut(stage: Stage) -> None:
    table = two(CONTRACTS.table(240))
    model = encoder(
        stage, words_of([table]), width=32, layers=3, spread=0.05, kind="distilbert"
    )  # fmt: skip
    tune(
        stage, table, lambda model: losses.AdaptiveLayerLoss(model, RANKING(model)), model,
        CONTRACTS.sought, learning_rate=2e-3, max_steps=30, per_device_train_batch_size=24,
    )  # fmt: skip
