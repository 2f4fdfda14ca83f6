"""Decoders as encoders: which token is pooled, and from which layer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from sentence_transformers.sentence_transformer.modules import Pooling

from tests.judgement.case import faulty
from tests.judgement.first.scenes import bilingual, uneven
from tests.judgement.stage import Stage
from tests.judgement.truth import retrieval, suffers
from tests.sentence_training import losses
from tests.tiny_models import make_bert

ranking = losses.MultipleNegativesRankingLoss
PLAN = {"learning_rate": 3e-3, "max_steps": 100}
INSTRUCTION = "zan zen : "
TOKEN = (
    r"(first|last|pooled|wrong|end|\beos\b|\bcls\b) ?(token|position|column)",
    r"pool",
    r"causal",
    r"left.to.right",
    r"(same|identical|equal|constant|one) (embedding|vector|output|point)s?",
    r"embeddings? .{0,60}(same|identical|equal|alike|constant)",
    r"collaps",
    r"padd",
    r"no spread",
)


def make_llama(folder: Path, *, end: bool = True, side: str = "right") -> Path:
    """Write a decoder of two layers; its tokenizer puts [CLS] before texts and [SEP] behind."""
    from tokenizers import processors
    from transformers import AutoTokenizer, LlamaConfig, LlamaModel

    bert = make_bert(folder / "words")
    tokenizer = AutoTokenizer.from_pretrained(bert)
    template = "[CLS] $A [SEP]" if end else "[CLS] $A"
    tokenizer.backend_tokenizer.post_processor = processors.TemplateProcessing(
        single=template, special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    tokenizer.padding_side = side
    tokenizer.save_pretrained(folder)
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=64,
        bos_token_id=2,
        eos_token_id=3,
        pad_token_id=0,
    )
    with torch.random.fork_rng():
        torch.manual_seed(0)
        LlamaModel(config).save_pretrained(folder)
    return folder


def decoder(stage: Stage, pooling: str = "lasttoken", **options: Any) -> Any:
    """An encoder that is a decoder of two layers."""
    name = "-".join(map(str, options.values()))
    model = stage.model(pooling, bert=make_llama(stage.folder / f"llama-{name}", **options))
    model.tokenizer.padding_side = options.get("side", "right")
    return model


def with_pooling(model: Any, pooling: Pooling) -> Any:
    """The encoder with another pooling."""
    from sentence_transformers import SentenceTransformer

    return SentenceTransformer(modules=[model[0], pooling], device="cpu")


class CountedFromTheLeft(Pooling):
    """The token at the number of tokens less one, which is the last if padding is on the right."""

    def forward(self, features: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        rows = features["token_embeddings"]
        last = features["attention_mask"].sum(dim=1) - 1
        features["sentence_embedding"] = rows[torch.arange(len(rows)), last]
        return features


class InstructionOnly(Pooling):
    """The mean of the instruction's tokens, which stand before each text."""

    def forward(self, features: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        instruction = features["token_embeddings"][:, : len(INSTRUCTION.split()) + 1]
        features["sentence_embedding"] = instruction.mean(dim=1)
        return features


def across_lengths(model: Any) -> float:
    """The reciprocal rank among passages of different lengths."""
    return retrieval(model, uneven(100, seed=11))


def across_languages(model: Any) -> float:
    """The reciprocal rank of passages in the other language."""
    return retrieval(model, bilingual(100, seed=11))


@faulty(
    "first token of a causal decoder",
    "A decoder's first token is pooled, which sees no other: all texts have one embedding.",
    TOKEN,
)
def first_token_that_sees_nothing(stage: Stage) -> None:
    suffers(
        stage,
        stage.trainer(ranking, bilingual(640), decoder(stage, "cls"), **PLAN),
        lambda: stage.trainer(ranking, bilingual(640), decoder(stage), **PLAN),
        across_languages,
    )


@faulty(
    "last token counted for right padding",
    "The place of the last token is the number of tokens less one, while texts are padded on the "
    "left: it falls on padding or early words.",
    TOKEN,
)
def place_of_the_last_token_under_left_padding(stage: Stage) -> None:
    model = with_pooling(decoder(stage, side="left"), CountedFromTheLeft(32))
    suffers(
        stage,
        stage.trainer(ranking, uneven(320), model, **PLAN),
        lambda: stage.trainer(ranking, uneven(320), decoder(stage, side="left"), **PLAN),
        across_lengths,
    )


class OfTheFirstLayer(Pooling):
    """The last token of the table of embeddings, before any layer."""

    def __init__(self, body: Any) -> None:
        super().__init__(32, pooling_mode="lasttoken")
        self.tables = [body.auto_model.get_input_embeddings()]

    def forward(self, features: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        features["token_embeddings"] = self.tables[0](features["input_ids"])
        return super().forward(features)


@faulty(
    "last token of the first hidden state",
    "hidden_states[0] was taken for the last layer: it is the end token's own vector, the same for "
    "all texts.",
    (*TOKEN, r"layer", r"hidden", r"(no|zero|without) gradient"),
)
def end_token_before_any_layer(stage: Stage) -> None:
    encoder = decoder(stage)
    suffers(
        stage,
        stage.trainer(
            ranking, bilingual(640), with_pooling(encoder, OfTheFirstLayer(encoder[0])), **PLAN
        ),
        lambda: stage.trainer(ranking, bilingual(640), decoder(stage), **PLAN),
        across_languages,
    )


@faulty(
    "instruction pooled in place of the text",
    "The instruction stands before each text, and the pooling averages its tokens only, as its "
    "mask was applied the wrong way round.",
    (*TOKEN, r"prompt", r"instruction", r"mask"),
)
def mask_of_the_instruction_the_wrong_way_round(stage: Stage) -> None:
    model = with_pooling(decoder(stage), InstructionOnly(32))
    plan = {**PLAN, "prompts": {"anchor": INSTRUCTION, "positive": INSTRUCTION}}

    def score(encoder: Any) -> float:
        return retrieval(encoder, bilingual(100, seed=11), prompts=(INSTRUCTION, INSTRUCTION))

    suffers(
        stage,
        stage.trainer(ranking, bilingual(640), model, **plan),
        lambda: stage.trainer(ranking, bilingual(640), decoder(stage), **plan),
        score,
    )
