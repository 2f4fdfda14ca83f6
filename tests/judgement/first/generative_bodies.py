"""Decoders as encoders, of which the wrong token is pooled."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer import losses
from sentence_transformers.sentence_transformer.modules import Pooling, Transformer
from torch import Tensor, nn

from tests.judgement.case import faulty
from tests.judgement.first.catalogue import (
    CHAT,
    on_shelf,
    sales,
)
from tests.judgement.stage import Stage
from tests.judgement.truth import suffers
from tests.tiny_models import WORDS

ranking = losses.MultipleNegativesRankingLoss
SETTINGS = {"learning_rate": 2e-3, "max_steps": 60}
POOLED = (
    r"pool|last token|first token|\bEOS\b|\bBOS\b|end.of.(text|sequence)|position",
    r"\bpad(s|ding|ded)?\b|attention mask|mask",
    r"(depend|chang|differ)\w*.{0,80}(batch|alone|beside|longer)",
    r"(text|embedding)s?.{0,60}(equal|identical|same|alike|one (point|vector)|constant)|collaps",
)


def decoder(
    folder: Path, *, side: str = "right", absolute: bool = False, ends: bool = True
) -> Path:
    """Write a tiny Llama, or a GPT-2 if ``absolute``; if ``ends``, texts end by </s>."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
    from transformers import (
        GPT2Config,
        GPT2Model,
        LlamaConfig,
        LlamaModel,
        PreTrainedTokenizerFast,
    )

    pieces = ["<pad>", "<unk>", "<s>", "</s>", *"0123456789", *".,!?:", *WORDS,
              *(f"##{digit}" for digit in "0123456789")]  # fmt: skip
    vocabulary = {piece: at for at, piece in enumerate(dict.fromkeys(pieces))}
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="<unk>"))
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>" if ends else "<s> $A", special_tokens=[("<s>", 2), ("</s>", 3)]
    )
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, model_max_length=64, padding_side=side, pad_token="<pad>",
        unk_token="<unk>", bos_token="<s>", eos_token="</s>",
    )  # fmt: skip
    fast.save_pretrained(folder)
    torch.manual_seed(5)
    if absolute:
        config = GPT2Config(vocab_size=len(vocabulary), n_positions=64, n_embd=32, n_layer=2,
                            n_head=4, bos_token_id=2, eos_token_id=3, pad_token_id=0)  # fmt: skip
        GPT2Model(config).save_pretrained(folder)
    else:
        config = LlamaConfig(
            vocab_size=len(vocabulary), hidden_size=32, intermediate_size=64, num_hidden_layers=2,
            num_attention_heads=4, num_key_value_heads=4, max_position_embeddings=64,
            bos_token_id=2, eos_token_id=3, pad_token_id=0,
        )  # fmt: skip
        LlamaModel(config).save_pretrained(folder)
    return folder


class Picked(nn.Module):
    """The token embedding at a place of the row, whatever stands there."""

    def __init__(self, place: int) -> None:
        super().__init__()
        self.place = place

    def forward(self, features: dict[str, Tensor]) -> dict[str, Tensor]:
        features["sentence_embedding"] = features["token_embeddings"][:, self.place]
        return features

    def save(self, *_: Any, **__: Any) -> None:
        """Nothing to save."""


def body_with(stage: Stage, pooling: nn.Module, length: int = 64, **options: Any) -> Any:
    """A tiny decoder with a pooling."""
    folder = stage.folder / "-".join(["decoder", *map(str, options.values())])
    body = Transformer(str(decoder(folder, **options)), max_seq_length=length)
    return SentenceTransformer(modules=[body, pooling], device="cpu")


@faulty(
    "the first token of a decoder",
    "[CLS] pooling on a decoder takes <s>, which attends to nothing after it: all embeddings are "
    "equal.",
    POOLED,
)
def first_token_of_a_causal_body(stage: Stage) -> None:
    """The pooling of a BERT script stays when its body becomes a decoder."""
    suffers(
        stage,
        stage.trainer(ranking, sales(), body_with(stage, Pooling(32, "cls")), **SETTINGS),
        lambda: stage.trainer(
            ranking, sales(), body_with(stage, Pooling(32, "lasttoken")), **SETTINGS
        ),
        on_shelf,
    )


@faulty(
    "an end that is cut off",
    "Offers begin with a disclaimer and are cut within it, so that the last token is of the "
    "disclaimer for each of them.",
    (*POOLED, r"truncat|cut (off|short|at)|max_seq_length|too long|longer than"),
)
def last_token_of_texts_that_are_cut(stage: Stage) -> None:
    """Offers begin with a disclaimer, and twelve tokens are read for the last of them."""
    table = sales()
    banner = " ".join(CHAT[50:61])
    long = table | {"offer": [f"{banner} {text}" for text in table["offer"]]}

    def trainer(length: int) -> Any:
        model = body_with(stage, Pooling(32, "lasttoken"), length)
        return stage.trainer(ranking, long, model, **SETTINGS)

    suffers(stage, trainer(13), lambda: trainer(64), on_shelf)


@faulty(
    "a token of the template pooled",
    "The place that is pooled is that of a word of the template before each text, which attends to "
    "nothing after it.",
    (*POOLED, r"template|instruction|prompt|prefix"),
)
def token_of_the_template_pooled(stage: Stage) -> None:
    """The place of the summary token was counted for a shorter template."""
    template = " ".join(CHAT[70:78]) + " :"
    table = {name: [f"{template} {text}" for text in texts] for name, texts in sales().items()}

    def trainer(pooling: nn.Module) -> Any:
        model = body_with(stage, pooling, side="right")
        return stage.trainer(ranking, table, model, **SETTINGS)

    suffers(stage, trainer(Picked(8)), lambda: trainer(Pooling(32, "lasttoken")), on_shelf)
