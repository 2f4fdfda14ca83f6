"""Sound set-ups with a trainer: architectures, tokenizers, poolings, towers and adapters."""

from __future__ import annotations

from typing import Any

import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer import losses
from sentence_transformers.sentence_transformer.modules import (
    Normalize,
    Pooling,
    Router,
    StaticEmbedding,
    Transformer,
)
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import (
    ModernBertConfig,
    ModernBertModel,
    PreTrainedTokenizerFast,
    RobertaConfig,
    RobertaModel,
    T5Config,
    T5EncoderModel,
)

from tests.judgement.case import sound
from tests.judgement.first.bodies import body, tokenizer_of
from tests.judgement.first.fields_of_dreams_and_roads import (
    COMMITS,
    DREAMS,
    JOBS,
    MARKET,
    QUERIES,
    REACTIONS,
    ROADS,
    SENSORS,
    WEATHER,
    contrasted,
    reader,
    scripted,
    vocabulary,
)
from tests.judgement.first.turns import warmed
from tests.judgement.stage import Stage
from tests.judgement.truth import learns, reciprocal_rank

SWIFT: dict[str, Any] = {"learning_rate": 2e-3, "max_steps": 60}
WIDTH = 48


def pooled(stage: Stage, name: str, tokenizer: Any, network: Any, pooling: str = "mean") -> Any:
    """An encoder of a network and a tokenizer, which are saved and loaded again."""
    folder = str(stage.folder / name)
    tokenizer.save_pretrained(folder)
    network.save_pretrained(folder)
    modules = [Transformer(folder), Pooling(WIDTH, pooling_mode=pooling)]
    return SentenceTransformer(modules=modules, device="cpu")


@sound("decoder with the last token")
def decoder_with_an_end_token_reads_commits(stage: Stage) -> None:
    model = reader(stage, COMMITS, kind="granite", pooling="lasttoken")
    trainer = stage.trainer(
        losses.MultipleNegativesRankingLoss, scripted(COMMITS, 320), model, **SWIFT
    )
    learns(stage, trainer, COMMITS.sought)


@sound("decoder with weighted means")
def decoder_with_means_weighted_by_place(stage: Stage) -> None:
    model = reader(stage, QUERIES, kind="granite", pooling="weightedmean")
    model.tokenizer.padding_side = "right"
    trainer = stage.trainer(
        losses.MultipleNegativesRankingLoss, contrasted(QUERIES, 300, slot=3), model,
        learning_rate=3e-3, max_steps=50, weight_decay=0.01,
    )  # fmt: skip
    learns(stage, trainer, QUERIES.sought)


@sound("pieces of bytes for Japanese without spaces")
def japanese_in_pieces_of_bytes(stage: Stage) -> None:
    marks = {"bos": "<s>", "pad": "<pad>", "eos": "</s>", "unk": "<unk>", "mask": "<mask>"}
    pieces = Tokenizer(models.BPE(unk_token="<unk>"))
    pieces.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    pieces.decoder = decoders.ByteLevel()
    texts = [text for column in scripted(MARKET, 400).values() for text in column]
    pieces.train_from_iterator(texts, trainers.BpeTrainer(
        vocab_size=500, special_tokens=list(marks.values()), show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    ))  # fmt: skip
    pieces.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0))
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=pieces, model_max_length=64, cls_token="<s>", sep_token="</s>",
        **{f"{name}_token": mark for name, mark in marks.items()},
    )  # fmt: skip
    torch.manual_seed(4)
    network = RobertaModel(RobertaConfig(
        vocab_size=len(tokenizer), hidden_size=WIDTH, num_hidden_layers=2, num_attention_heads=4,
        intermediate_size=96, max_position_embeddings=66, type_vocab_size=1, pad_token_id=1,
        bos_token_id=0, eos_token_id=2,
    ), add_pooling_layer=False)  # fmt: skip
    trainer = stage.trainer(
        losses.MultipleNegativesSymmetricRankingLoss, scripted(MARKET, 400),
        pooled(stage, "bytes", tokenizer, network), learning_rate=2e-3, max_steps=60,
    )  # fmt: skip
    learns(stage, trainer, MARKET.sought)


@sound("ModernBERT with the first token")
def modernbert_with_its_first_token(stage: Stage) -> None:
    tokenizer = tokenizer_of(vocabulary(SENSORS))
    torch.manual_seed(4)
    network = ModernBertModel(ModernBertConfig(
        vocab_size=len(tokenizer), hidden_size=WIDTH, num_hidden_layers=3, num_attention_heads=4,
        intermediate_size=64, max_position_embeddings=96, pad_token_id=0, bos_token_id=2,
        eos_token_id=3, cls_token_id=2, sep_token_id=3, local_attention=16,
        initializer_range=0.05,
    ))  # fmt: skip
    trainer = stage.trainer(
        losses.MultipleNegativesRankingLoss, scripted(SENSORS, 360),
        pooled(stage, "modern", tokenizer, network, "cls"), learning_rate=2e-3, max_steps=70,
    )  # fmt: skip
    learns(stage, trainer, SENSORS.sought)


@sound("encoder of a T5")
def encoder_of_a_sequence_model(stage: Stage) -> None:
    tokenizer = tokenizer_of(vocabulary(WEATHER), ends="eos")
    torch.manual_seed(4)
    network = T5EncoderModel(T5Config(
        vocab_size=len(tokenizer), d_model=WIDTH, d_kv=12, d_ff=96, num_layers=2, num_heads=4,
        pad_token_id=0, eos_token_id=3, decoder_start_token_id=0,
    ))  # fmt: skip
    trainer = stage.trainer(
        losses.MultipleNegativesRankingLoss, scripted(WEATHER, 320),
        pooled(stage, "sequence", tokenizer, network), **SWIFT,
    )  # fmt: skip
    learns(stage, trainer, WEATHER.sought)


@sound("static embeddings of words")
def static_rows_for_chemistry(stage: Stage) -> None:
    torch.manual_seed(4)
    words = StaticEmbedding(tokenizer_of(vocabulary(REACTIONS)), embedding_dim=64)
    trainer = stage.trainer(
        lambda model: losses.MatryoshkaLoss(
            model, losses.MultipleNegativesRankingLoss(model), matryoshka_dims=[64, 32]
        ),
        scripted(REACTIONS, 480), SentenceTransformer(modules=[words], device="cpu"),
        per_device_train_batch_size=48, learning_rate=5e-2, max_steps=60,
        batch_sampler="no_duplicates",
    )  # fmt: skip
    learns(stage, trainer, REACTIONS.sought)


@sound("a tower for questions and a tower for answers")
def towers_for_vacancies_and_for_lives(stage: Stage) -> None:
    texts = vocabulary(JOBS)
    towers = Router.for_query_document(
        query_modules=[body(stage, texts, name="query", layers=1), Pooling(WIDTH)],
        document_modules=[body(stage, texts, name="document", layers=2, seed=9), Pooling(WIDTH)],
    )
    model = SentenceTransformer(modules=[towers, Normalize()], device="cpu")

    def score(encoder: Any) -> float:
        table = JOBS.table(40, 11)
        return reciprocal_rank(
            encoder.encode_query(table["vacancy"]), encoder.encode_document(table["resume"])
        )

    trainer = stage.trainer(
        losses.MultipleNegativesRankingLoss, scripted(JOBS, 360), model, max_steps=80,
        learning_rate=2e-3, router_mapping={"vacancy": "query", "resume": "document"},
    )  # fmt: skip
    learns(stage, trainer, score)


@sound(
    "adapter of low rank on a tuned body",
    allowed={r"saved model": "The base was tuned before, and is not saved with its adapter."},
)
def adapter_of_low_rank_for_roads(stage: Stage) -> None:
    from peft import LoraConfig, TaskType

    model = warmed(reader(stage, ROADS), scripted(ROADS, 320, 2), steps=4)
    model.add_adapter(LoraConfig(
        task_type=TaskType.FEATURE_EXTRACTION, r=16, lora_alpha=32, lora_dropout=0.05,
        target_modules=["query", "key", "value", "dense"],
    ))  # fmt: skip
    trainer = stage.trainer(
        losses.MultipleNegativesRankingLoss, scripted(ROADS, 400), model, learning_rate=5e-3,
        max_steps=80, per_device_train_batch_size=32,
    )  # fmt: skip
    learns(stage, trainer, ROADS.sought)


@sound("DistilBERT with the maximum of tokens")
def maxima_of_a_small_body_for_dreams(stage: Stage) -> None:
    model = reader(stage, DREAMS, kind="distilbert", pooling="max", width=64)
    trainer = stage.trainer(
        losses.MultipleNegativesRankingLoss, contrasted(DREAMS, 320, slot=3), model,
        learning_rate=1e-3, max_steps=70, lr_scheduler_type="constant_with_warmup",
    )  # fmt: skip
    learns(stage, trainer, DREAMS.sought)
