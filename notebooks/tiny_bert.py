"""A BERT of two layers, synthetic sentences on twenty topics, and training on them in seconds.

Tutorials 7 and 8 use these.
"""

from __future__ import annotations

import contextlib
import io
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors
from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

from gradlab.train import TrainConfig, train

syllables = [consonant + vowel for consonant in "bdfgklmnprst" for vowel in "aeiou"]
vocabulary = [first + second for first in syllables for second in syllables[::7]]


def make_model(folder: Path) -> None:
    """Write an untrained BERT (2 layers, 32 dimensions); four letters are 1 or 2 sub-words."""
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    pieces = [*special, *vocabulary[::2], *syllables, *(f"##{piece}" for piece in syllables)]
    tokenizer = Tokenizer(
        models.WordPiece({piece: i for i, piece in enumerate(pieces)}, unk_token="[UNK]")
    )
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    names = {f"{token.strip('[]').lower()}_token": token for token in special}
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, model_max_length=64, **names)
    fast.save_pretrained(folder)
    torch.manual_seed(0)
    shape = {
        "hidden_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "intermediate_size": 64,
    }
    config = BertConfig(
        vocab_size=len(pieces), max_position_embeddings=64, initializer_range=0.2, **shape
    )
    BertModel(config, add_pooling_layer=False).save_pretrained(folder)


def make_sentences(count: int, seed: int) -> list[str]:
    """Return sentences on one of 20 topics each: 3 to 20 words, two thirds from the topic's ten."""
    draw = np.random.default_rng(seed)
    topics = np.random.default_rng(0).permutation(len(vocabulary))[:200].reshape(20, 10)
    sentences = []
    for _ in range(count):
        length, topic = draw.integers(3, 21), topics[draw.integers(20)]
        on_topic = draw.random(length) < 2 / 3
        words = np.where(
            on_topic, draw.choice(topic, length), draw.integers(len(vocabulary), size=length)
        )
        sentences.append(" ".join(vocabulary[word] for word in words))
    return sentences


def prepare(folder: Path) -> Path:
    """Write 2,000 sentences and an untrained BERT into a folder; return the BERT's folder."""
    make_model(folder / "untrained")
    (folder / "sentences.txt").write_text("\n".join(make_sentences(2000, 1)), encoding="utf-8")
    return folder / "untrained"


def train_quietly(folder: Path, model: Path, name: str, **settings: Any) -> Path:
    """Train on the sentences of a prepared folder; return the run's folder."""
    defaults = {
        "model": str(model),
        "backbone": "bert-base",
        "train_file": str(folder / "sentences.txt"),
        "output": str(folder / name),
        "max_length": 32,
        "batch_size": 16,
        "learning_rate": 3e-4,
        "pooler": "mean",
        "device": "cpu",
        "held_out": 0.1,
        "log_every": 1,
    }
    with contextlib.redirect_stderr(io.StringIO()):
        return Path(train(TrainConfig.from_dict(defaults | settings)).output)
