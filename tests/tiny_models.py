"""Tiny BERT and RoBERTa with tokenizers on disk, and sentences: no network, no downloads."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import torch

SYLLABLES = [a + b for a in "bdfgklmnprstvz" for b in ("a", "e", "i", "o", "u")]
WORDS = [first + second for first in SYLLABLES for second in ("", "n", "ra", "lo")]
SIZES = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
}


def make_sentences(count: int, seed: int = 0, longest: int = 20) -> list[str]:
    """``count`` different sentences of 2 to ``longest`` made-up words."""
    draw = random.Random(seed)
    return [
        f"{i} " + " ".join(draw.choices(WORDS, k=draw.randint(1, longest))) for i in range(count)
    ]


def make_bert(folder: Path, seed: int = 0, dropout: float = 0.1) -> Path:
    """Write a BERT (2 layers, hidden size 32; lower-casing WordPiece tokenizer) into ``folder``."""
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors
    from transformers import BertConfig, BertModel

    special = {name: f"[{name.upper()}]" for name in ("pad", "unk", "cls", "sep", "mask")}
    letters = "0123456789abcdefghijklmnopqrstuvwxyz"
    pieces = [
        *special.values(),
        *letters,
        *".,!?",
        *WORDS,
        *(f"##{piece}" for piece in [*letters, *SYLLABLES]),
    ]
    vocabulary = {piece: place for place, piece in enumerate(dict.fromkeys(pieces))}
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    config = BertConfig(vocab_size=len(vocabulary), max_position_embeddings=64, **SIZES)
    return _save(folder, tokenizer, special, BertModel, config, seed, dropout)


def make_roberta(folder: Path, seed: int = 0, dropout: float = 0.1) -> Path:
    """Write a RoBERTa (2 layers, hidden size 32; byte-level BPE tokenizer) into ``folder``."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
    from transformers import RobertaConfig, RobertaModel

    special = {"cls": "<s>", "pad": "<pad>", "sep": "</s>", "unk": "<unk>", "mask": "<mask>"}
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=600,
        special_tokens=list(special.values()),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(make_sentences(500, seed=1), trainer)
    tokenizer.post_processor = processors.RobertaProcessing(
        ("</s>", 2), ("<s>", 0), add_prefix_space=False
    )
    ends = {"pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2}
    size = {
        "vocab_size": tokenizer.get_vocab_size(),
        "max_position_embeddings": 66,
        "type_vocab_size": 1,
    }
    config = RobertaConfig(**size, **ends, **SIZES)
    return _save(
        folder,
        tokenizer,
        special | {"bos": "<s>", "eos": "</s>"},
        RobertaModel,
        config,
        seed,
        dropout,
    )


def _save(
    folder: Path,
    tokenizer: Any,
    special: dict[str, str],
    model: Any,
    config: Any,
    seed: int,
    dropout: float,
) -> Path:
    from transformers import PreTrainedTokenizerFast

    names = {f"{name}_token": token for name, token in special.items()}
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, model_max_length=64, **names)
    fast.save_pretrained(folder)
    config.hidden_dropout_prob = config.attention_probs_dropout_prob = dropout
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model(config, add_pooling_layer=False).save_pretrained(folder)
    return folder
