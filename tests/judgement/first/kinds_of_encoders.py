"""Sound set-ups: encoders of other kinds, adapters, frozen layers, prompts and half precision."""

from __future__ import annotations

import random
from typing import Any

from tests.judgement.case import sound
from tests.judgement.first.fields import KITCHEN, SHOP
from tests.judgement.first.good_fields import CONTRACTS, LOGS, SONGS
from tests.judgement.first.trades_and_texts import (
    BANK,
    BRISK,
    GARDEN,
    HOUSES,
    JOBS,
    MUSEUM,
    PROTEINS,
    QUERIES,
    SPORT,
    WEATHER,
    encoder_of,
    finds,
    ranks,
    triples,
    vocabulary,
)
from tests.judgement.first.turns import warmed
from tests.judgement.stage import Stage, pairs
from tests.judgement.truth import among_alike, learns, retrieval
from tests.tiny_models import make_roberta

PROMPTS = {"query": "search_query : ", "document": "search_document : "}


@sound("decoder, last token")
def houses_by_last_token_of_decoder(stage: Stage) -> None:
    """A small Granite, padded on the left, whose last token is the embedding."""
    model = encoder_of(stage, HOUSES, kind="granite", pooling="lasttoken")
    trainer = stage.trainer(ranks, HOUSES.table(400), model, **BRISK)
    learns(stage, trainer, finds(HOUSES))


@sound("decoder with an instruction")
def decoder_told_what_to_search(stage: Stage) -> None:
    """As E5-Mistral: queries carry an instruction, documents none, and are so encoded later."""
    wish = "instruct : find the post that fits . query : "
    model = encoder_of(stage, JOBS, further=[wish], kind="granite", pooling="lasttoken")
    trainer = stage.trainer(
        ranks, triples(JOBS, 320), model, **BRISK, prompts={"search": wish},
        batch_sampler="no_duplicates",
    )  # fmt: skip
    learns(stage, trainer, finds(JOBS, prompts=(wish, "")))


@sound("prompts for both sides")
def shop_with_prompts_on_both_sides(stage: Stage) -> None:
    """As nomic-embed: each column has its prompt in training and in use."""
    model = encoder_of(stage, SHOP, further=list(PROMPTS.values()), prompts=PROMPTS)
    trainer = stage.trainer(
        ranks, SHOP.table(280), model, **BRISK,
        prompts={"query": PROMPTS["query"], "product": PROMPTS["document"]},
    )  # fmt: skip
    learns(stage, trainer, finds(SHOP, prompts=tuple(PROMPTS.values())))


@sound("prompts left out of the mean")
def songs_with_prompts_outside_the_mean(stage: Stage) -> None:
    """As INSTRUCTOR: the tokens of the prompt are read and not pooled."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Pooling

    model = encoder_of(stage, SONGS, further=list(PROMPTS.values()))
    pooling = Pooling(48, pooling_mode="mean", include_prompt=False)
    model = SentenceTransformer(modules=[model[0], pooling], device="cpu", prompts=PROMPTS)
    trainer = stage.trainer(
        ranks, SONGS.table(400), model, **BRISK,
        prompts={"wish": PROMPTS["query"], "tags": PROMPTS["document"]},
    )  # fmt: skip
    learns(stage, trainer, finds(SONGS, prompts=tuple(PROMPTS.values())))


@sound("RoBERTa with bytes")
def byte_pairs_of_roberta(stage: Stage) -> None:
    """An encoder with byte-level tokens, as XLM-R and the like, and batches of 32."""
    model = stage.model(bert=make_roberta(stage.folder / "roberta"))
    trainer = stage.trainer(ranks, pairs(400), model, **BRISK, per_device_train_batch_size=32)
    learns(stage, trainer, among_alike)


@sound("first token of a DistilBERT")
def kitchen_by_first_token_of_distilbert(stage: Stage) -> None:
    """A DistilBERT whose first token is the embedding, without dropout."""
    model = encoder_of(stage, KITCHEN, kind="distilbert", pooling="cls", dropout=0.0)
    trainer = stage.trainer(ranks, KITCHEN.table(400), model, **BRISK)
    learns(stage, trainer, finds(KITCHEN))


@sound("maximum of the tokens")
def logs_by_maximum_of_tokens(stage: Stage) -> None:
    """Lines of logs and reports, pooled by the maximum in training and in use."""
    model = encoder_of(stage, LOGS, pooling="max")
    trainer = stage.trainer(ranks, LOGS.table(240), model, **BRISK)
    learns(stage, trainer, finds(LOGS))


@sound("projection behind the pooling")
def museum_projected_and_normalised(stage: Stage) -> None:
    """Pooling, a dense layer to 24 numbers and a normalisation, as many published encoders end."""
    from sentence_transformers.sentence_transformer.modules import Dense, Normalize

    head = [Dense(48, 24), Normalize()]
    model = encoder_of(stage, MUSEUM, modules=head)
    trainer = stage.trainer(ranks, MUSEUM.table(400), model, **BRISK)
    learns(stage, trainer, finds(MUSEUM))


@sound("static word embeddings")
def static_embeddings_of_garden_words(stage: Stage) -> None:
    """A bag of learned token embeddings, at the high rate that such encoders need."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import StaticEmbedding
    from tokenizers import Tokenizer, models, pre_tokenizers

    words = dict.fromkeys(word for text in vocabulary(GARDEN) for word in text.split())
    tokens = {word: at for at, word in enumerate(["[UNK]", *words])}
    tokenizer = Tokenizer(models.WordLevel(tokens, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    model = SentenceTransformer(
        modules=[StaticEmbedding(tokenizer, embedding_dim=64)], device="cpu"
    )
    trainer = stage.trainer(
        ranks, GARDEN.table(480), model, learning_rate=0.1, max_steps=60, warmup_steps=6,
        per_device_train_batch_size=64,
    )  # fmt: skip
    learns(stage, trainer, finds(GARDEN))


@sound("router of queries and documents")
def queries_and_documents_on_two_routes(stage: Stage) -> None:
    """Two bodies behind a router: one embeds wishes, the other statements in SQL."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Pooling, Router

    from tests.judgement.first.bodies import body

    words = vocabulary(QUERIES)
    routes = [
        [body(stage, words, name=name, seed=seed), Pooling(48)]
        for name, seed in (("queries", 3), ("documents", 5))
    ]
    router = Router.for_query_document(query_modules=routes[0], document_modules=routes[1])
    model = SentenceTransformer(modules=[router], device="cpu")
    trainer = stage.trainer(
        ranks, QUERIES.table(400), model, **BRISK,
        router_mapping={"wish": "query", "sql": "document"}, per_device_train_batch_size=32,
    )  # fmt: skip

    def routed(model: Any) -> float:
        from tests.judgement.truth import reciprocal_rank

        wishes, statements = QUERIES.table(50, seed=11).values()
        return reciprocal_rank(
            model.encode_query(wishes, show_progress_bar=False),
            model.encode_document(statements, show_progress_bar=False),
        )

    learns(stage, trainer, routed)


@sound(
    "low-rank adapter",
    allowed={"saved model": "The base was tuned before, and is not saved with its adapter."},
)
def adapter_on_a_warmed_encoder(stage: Stage) -> None:
    """An encoder that knows the trade a little, tuned by an adapter of rank 8 at a higher rate."""
    from peft import LoraConfig, TaskType

    model = warmed(encoder_of(stage, BANK), BANK.table(200, seed=4), steps=5)
    model.add_adapter(LoraConfig(
        task_type=TaskType.FEATURE_EXTRACTION, r=8, lora_alpha=16, lora_dropout=0.1,
        target_modules=["query", "key", "value", "dense"],
    ))  # fmt: skip
    trainer = stage.trainer(
        ranks, BANK.table(400), model, learning_rate=5e-3, max_steps=80, warmup_steps=8,
        per_device_train_batch_size=32,
    )  # fmt: skip
    learns(stage, trainer, finds(BANK))


@sound(
    "adapter of a decoder's attention",
    allowed={"saved model": "The base was tuned before, and is not saved with its adapter."},
)
def adapter_on_attention_of_decoder(stage: Stage) -> None:
    """Low-rank updates of all projections of a decoder that was warmed before."""
    from peft import LoraConfig, TaskType

    model = encoder_of(stage, SPORT, kind="granite", pooling="lasttoken")
    model = warmed(model, SPORT.table(200, seed=4), steps=10)
    model.add_adapter(LoraConfig(
        task_type=TaskType.FEATURE_EXTRACTION, r=16, lora_alpha=32, lora_dropout=0.05,
        target_modules=["q_proj", "k_proj", "v_proj", "o_proj", "up_proj", "down_proj"],
    ))  # fmt: skip
    trainer = stage.trainer(
        ranks, SPORT.table(400), model, learning_rate=3e-3, max_steps=80, warmup_steps=8,
        per_device_train_batch_size=32,
    )  # fmt: skip
    learns(stage, trainer, finds(SPORT))


@sound("frozen lower layers")
def upper_layers_trained_above_frozen_ones(stage: Stage) -> None:
    """The embeddings and the first of three layers of a warmed encoder stay as they are."""
    model = warmed(encoder_of(stage, WEATHER, layers=3), WEATHER.table(200, seed=4), steps=5)
    network = model[0].auto_model
    for frozen in (network.embeddings, network.encoder.layer[0]):
        frozen.requires_grad_(False)
    trainer = stage.trainer(
        ranks, WEATHER.table(400), model, **BRISK, per_device_train_batch_size=32
    )
    learns(stage, trainer, finds(WEATHER))


@sound("bfloat16 autocast")
def proteins_in_half_precision(stage: Stage) -> None:
    """Descriptions and sequences of proteins; the forward pass in bfloat16, the weights in full."""
    model = encoder_of(stage, PROTEINS)
    trainer = stage.trainer(
        ranks, PROTEINS.table(320), model, **BRISK, bf16=True, per_device_train_batch_size=32
    )
    learns(stage, trainer, finds(PROTEINS))


@sound("gradient checkpointing")
def long_clauses_with_checkpointing(stage: Stage) -> None:
    """Long clauses of contracts; activations are computed again to save memory."""
    model = encoder_of(stage, CONTRACTS)
    trainer = stage.trainer(
        ranks, CONTRACTS.table(200), model, **BRISK, gradient_checkpointing=True
    )
    learns(stage, trainer, finds(CONTRACTS))


@sound("one column with dropout as the only view")
def sentences_beside_themselves_by_dropout(stage: Stage) -> None:
    """As SimCSE without labels: each sentence is its own positive under another dropout."""
    draw = random.Random(2)

    def rewritten(text: str) -> str:
        words = [word for word in text.split() if draw.random() < 0.7]
        return " ".join(words) or text

    texts = [text for column in pairs(300).values() for text in column]
    unseen = pairs(150, seed=11)["positive"]
    held_out = {"first": unseen, "second": list(map(rewritten, unseen))}
    model = stage.model(dropout=0.1)
    trainer = stage.trainer(
        ranks, {"sentence": texts, "again": texts}, model, learning_rate=1e-3, max_steps=60,
        warmup_steps=6, per_device_train_batch_size=32,
    )  # fmt: skip
    learns(stage, trainer, lambda model: retrieval(model, held_out))
