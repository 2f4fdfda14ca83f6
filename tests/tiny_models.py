"""A tiny BERT and a tiny RoBERTa with their tokenizers on disk, and sentences for them: no network, no downloads."""

from __future__ import annotations

import random
from pathlib import Path

import torch

SYLLABLES = [a + b for a in "bdfgklmnprstvz" for b in ("a", "e", "i", "o", "u")]
WORDS = [first + second for first in SYLLABLES for second in ("", "n", "ra", "lo")]
HIDDEN, LAYERS, HEADS = 32, 2, 4


def make_sentences(count: int, seed: int = 0, longest: int = 20) -> list[str]:
    """``count`` different sentences of 2 to ``longest`` made-up words."""
    generator = random.Random(seed)
    return [
        f"{i} " + " ".join(generator.choices(WORDS, k=generator.randint(1, longest))) for i in range(count)
    ]


def make_bert(folder: Path, seed: int = 0, dropout: float = 0.1) -> Path:
    """Write a BERT (2 layers, hidden size 32) with a lower-casing WordPiece tokenizer into ``folder``."""
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors
    from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    pieces = [*special, *"0123456789abcdefghijklmnopqrstuvwxyz.,!?", *WORDS]
    pieces += [f"##{piece}" for piece in [*"0123456789abcdefghijklmnopqrstuvwxyz", *SYLLABLES]]
    vocabulary = {piece: place for place, piece in enumerate(dict.fromkeys(pieces))}
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        model_max_length=64,
        pad_token="[PAD]",
        unk_token="[UNK]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        mask_token="[MASK]",
    ).save_pretrained(folder)
    config = BertConfig(
        vocab_size=len(vocabulary),
        hidden_size=HIDDEN,
        num_hidden_layers=LAYERS,
        num_attention_heads=HEADS,
        intermediate_size=2 * HIDDEN,
        max_position_embeddings=64,
        hidden_dropout_prob=dropout,
        attention_probs_dropout_prob=dropout,
    )
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        BertModel(config, add_pooling_layer=False).save_pretrained(folder)
    return folder


def make_roberta(folder: Path, seed: int = 0, dropout: float = 0.1) -> Path:
    """Write a RoBERTa (2 layers, hidden size 32) with a byte-level BPE tokenizer into ``folder``."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
    from transformers import PreTrainedTokenizerFast, RobertaConfig, RobertaModel

    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=600, special_tokens=special, initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator(make_sentences(500, seed=1), trainer)
    tokenizer.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0), add_prefix_space=False)
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        model_max_length=64,
        bos_token="<s>",
        cls_token="<s>",
        pad_token="<pad>",
        eos_token="</s>",
        sep_token="</s>",
        unk_token="<unk>",
        mask_token="<mask>",
    ).save_pretrained(folder)
    config = RobertaConfig(
        vocab_size=tokenizer.get_vocab_size(),
        hidden_size=HIDDEN,
        num_hidden_layers=LAYERS,
        num_attention_heads=HEADS,
        intermediate_size=2 * HIDDEN,
        max_position_embeddings=66,
        type_vocab_size=1,
        pad_token_id=1,
        bos_token_id=0,
        eos_token_id=2,
        hidden_dropout_prob=dropout,
        attention_probs_dropout_prob=dropout,
    )
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        RobertaModel(config, add_pooling_layer=False).save_pretrained(folder)
    return folder
