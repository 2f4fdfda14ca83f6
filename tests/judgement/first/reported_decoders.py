"""Faults of decoders that are made encoders, under trainers."""

from __future__ import annotations

import random
from typing import Any

import torch
from torch import nn

from tests.judgement.case import faulty
from tests.judgement.first.reported_batches import batched_as_they_come, uneven
from tests.judgement.first.reported_encoders import LONGER, causal_body, decoder, encoder, ranking
from tests.judgement.stage import FILLERS, Stage, pairs
from tests.judgement.truth import alike, among_alike, retrieval, suffers

DECODERS = "decoders as encoders"


class TokenByLength(nn.Module):
    """The last token of a text, sought by the number of its tokens."""

    def forward(self, features: dict[str, Any]) -> dict[str, Any]:
        rows, mask = features["token_embeddings"], features["attention_mask"]
        last = mask.sum(1) - 1
        return features | {"sentence_embedding": rows[torch.arange(len(rows)), last]}


LEARNING = {"learning_rate": 3e-3, "max_steps": 80}


@faulty(
    DECODERS,
    "The first token is pooled, which in a decoder sees nothing of what follows.",
    [
        r"(first|cls|\[CLS\]).{0,60}(token|pool|word|position)",
        r"pool(ing|ed)?.{0,60}(first|cls|last)",
        r"causal|decoder",
        r"(all|texts).{0,40}(same|equal|identical|one) (embedding|vector|direction|point)",
    ],
    never=[LONGER],
)
def first_token_of_a_decoder(stage: Stage) -> None:
    """https://github.com/opensearch-project/ml-commons/issues/4709."""
    suffers(
        stage,
        stage.trainer(ranking, pairs(), decoder(stage, "cls"), **LEARNING),
        lambda: stage.trainer(ranking, pairs(), decoder(stage), **LEARNING),
        among_alike,
    )


@faulty(
    DECODERS,
    "The place of the last token is counted from the left, while the tokenizer pads on the left: "
    "of shorter texts some earlier token is pooled.",
    [
        r"padd(ing|ed)|padding_side|\bleft\b|\bright\b",
        r"last token",
        r"(alone|batch|beside|longer).{0,100}(differ|other|chang|depend|not the same)",
        r"(differ|chang|depend).{0,100}(batch|alone|beside)",
    ],
    never=[LONGER],
)
def last_token_counted_from_the_left(stage: Stage) -> None:
    """https://github.com/qdrant/fastembed/pull/680."""

    def trainer(side: str) -> Any:
        body = causal_body(stage)
        body.tokenizer.padding_side = side
        return stage.trainer(ranking, uneven(pairs()), encoder(body, TokenByLength()), **LEARNING)

    suffers(stage, trainer("left"), lambda: trainer("right"), batched_as_they_come, share=None)


@faulty(
    DECODERS,
    "A token for padding was added to the tokenizer, and the embeddings of the decoder have no row "
    "for it: training ends with an error.",
    [
        r"resize|added tokens?|new tokens?|vocab",
        r"(token|id).{0,80}(out of (range|bounds)|outside|beyond|no row|no embedding|larger)",
        r"out of (range|bounds)",
        r"pad.{0,40}(token|id)",
    ],
    never=[LONGER],
)
def token_for_padding_without_a_row(stage: Stage) -> None:
    """https://github.com/huggingface/transformers/issues/2468."""

    def trainer(resized: bool) -> Any:
        model = decoder(stage)
        model.tokenizer.add_special_tokens({"pad_token": "<|pad|>"})
        if resized:
            model[0].auto_model.resize_token_embeddings(len(model.tokenizer))
        return stage.trainer(ranking, uneven(pairs()), model, **LEARNING)

    def score(model: Any) -> float:
        try:
            return among_alike(model)
        except IndexError:
            return 0.0

    suffers(stage, trainer(False), lambda: trainer(True), score, fails=True)


def _closed(table: dict[str, list[str]], by_hand: bool) -> dict[str, list[str]]:
    """Long passages whose fact stands in front, and texts that end with the token if by hand."""
    draw = random.Random(6)
    longer = [f"{text} {' '.join(draw.choices(FILLERS, k=20))}" for text in table["positive"]]
    made = table | {"positive": longer}
    end = " [SEP]" if by_hand else ""
    return {name: [text + end for text in cells] for name, cells in made.items()}


@faulty(
    DECODERS,
    "The closing token is written behind each text, and long passages lose it where they are cut: "
    "of questions that token is pooled, of passages some word.",
    [
        r"cut|truncat|max_seq_length|max(imum)? length|longer than|too (long|short)",
        r"\bEOS\b|end.of.(sequence|text)|closing token|last token|\[SEP\]|end token",
    ],
    never=[LONGER],
)
def closing_token_cut_off(stage: Stage) -> None:
    """https://github.com/QwenLM/Qwen3-Embedding/issues/54."""

    def trainer(by_hand: bool) -> Any:
        body = causal_body(stage, length=20, closes=not by_hand)
        return stage.trainer(
            ranking, _closed(pairs(), by_hand), encoder(body, TokenByLength()), **LEARNING
        )

    def score(model: Any) -> float:
        by_hand = model.tokenizer("ka").input_ids[-1] != model.tokenizer.eos_token_id
        return retrieval(model, _closed(alike(), by_hand))

    suffers(stage, trainer(True), lambda: trainer(False), score, share=None)
