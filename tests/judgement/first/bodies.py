"""Tiny encoders with a vocabulary of whole words, for the sound set-ups."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch

from tests.judgement.stage import Stage

MARKS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")


def tokenizer_of(texts: Iterable[str], *, ends: str = "bert", side: str = "right") -> Any:
    """A tokenizer of the words of texts; ``ends`` "bert" adds [CLS] and [SEP], "eos" [SEP] only."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    words = dict.fromkeys(word for text in texts for word in text.lower().split())
    vocabulary = {word: at for at, word in enumerate([*MARKS, *(w for w in words)])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    if ends == "bert":
        tokenizer.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    else:
        tokenizer.post_processor = processors.TemplateProcessing(
            single="$A [SEP]", special_tokens=[("[SEP]", 3)]
        )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="[PAD]", unk_token="[UNK]", cls_token="[CLS]",
        sep_token="[SEP]", mask_token="[MASK]", eos_token="[SEP]", padding_side=side,
        model_max_length=96,
    )  # fmt: skip


def words_of(tables: Sequence[Mapping[str, Sequence[Any]]], *settings: str) -> list[str]:
    """All texts of tables, and more."""
    cells = [cell for table in tables for column in table.values() for cell in column]
    return [*(cell for cell in cells if isinstance(cell, str)), *settings]


def body(stage: Stage, texts: Iterable[str], *, name: str = "body", kind: str = "bert",
         width: int = 48, layers: int = 2, dropout: float = 0.1, seed: int = 3,
         spread: float = 0.02, length: int | None = None) -> Any:  # fmt: skip
    """A transformer module: "bert", "distilbert" or "granite" with the last token in mind."""
    from sentence_transformers.sentence_transformer.modules import Transformer
    from transformers import (
        BertConfig,
        BertModel,
        DistilBertConfig,
        DistilBertModel,
        GraniteConfig,
        GraniteModel,
    )

    causal = kind == "granite"
    tokenizer = tokenizer_of(
        texts, ends="eos" if causal else "bert", side="left" if causal else "right"
    )
    folder = stage.folder / name
    tokenizer.save_pretrained(folder)
    size = len(tokenizer)
    torch.manual_seed(seed)
    if kind == "bert":
        network: Any = BertModel(BertConfig(
            vocab_size=size, hidden_size=width, num_hidden_layers=layers, num_attention_heads=4,
            intermediate_size=2 * width, max_position_embeddings=96,
            hidden_dropout_prob=dropout, attention_probs_dropout_prob=dropout,
            initializer_range=spread,
        ))  # fmt: skip
    elif kind == "distilbert":
        network = DistilBertModel(DistilBertConfig(
            vocab_size=size, dim=width, n_layers=layers, n_heads=4, hidden_dim=2 * width,
            max_position_embeddings=96, dropout=dropout, attention_dropout=dropout,
            initializer_range=spread,
        ))  # fmt: skip
    else:
        network = GraniteModel(GraniteConfig(
            vocab_size=size, hidden_size=width, num_hidden_layers=layers, num_attention_heads=4,
            num_key_value_heads=2, intermediate_size=2 * width, max_position_embeddings=96,
            pad_token_id=0, eos_token_id=3, bos_token_id=None, initializer_range=0.1,
        ))  # fmt: skip
    network.save_pretrained(folder)
    limit = {"max_seq_length": length} if length else {}
    return Transformer(str(folder), **limit)


def encoder(
    stage: Stage, texts: Iterable[str], *behind: Any, pooling: Any = "mean", width: int = 48,
    prompts: Mapping[str, str] | None = None, **options: Any,
) -> Any:  # fmt: skip
    """An encoder of sentence-transformers: a body, its pooling and the modules ``behind``."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Pooling

    modules = [body(stage, texts, width=width, **options), Pooling(width, pooling_mode=pooling)]
    return SentenceTransformer(
        modules=[*modules, *behind], device="cpu", prompts=dict(prompts) if prompts else None
    )
