"""Embeddings that change with the texts beside which they are computed."""

from __future__ import annotations

import random
from typing import Any

import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer import losses
from sentence_transformers.sentence_transformer.modules import Transformer
from torch import Tensor, nn

from tests.judgement.case import faulty
from tests.judgement.first.catalogue import (
    Setting,
    adamw,
    draws,
    embed,
    info_nce,
    offer,
    on_shelf,
    products,
    sales,
    search,
    slips,
)
from tests.judgement.stage import Stage
from tests.judgement.truth import retrieval, suffers
from tests.tiny_models import make_bert

ranking = losses.MultipleNegativesRankingLoss
DEPENDS = (
    r"(depend|chang|differ|move)s?.{0,80}(batch|alone|beside|neighbo|together|longer|padd|company)",
    r"(batch|alone|padd|pad\b|mask).{0,80}(depend|chang|differ|mov|affect|ignor)",
    r"\bpad(s|ding|ded)?\b|attention mask|mask",
    r"BatchNorm|running (mean|statistic|average)",
    r"train(ing)? mode.{0,60}eval|eval.{0,60}train(ing)? mode",
)


class Pooled(nn.Module):
    """A pooling of one's own for a sentence encoder, by a function of tokens and mask."""

    def __init__(self, pool: Any) -> None:
        super().__init__()
        self.pool = pool

    def forward(self, features: dict[str, Tensor]) -> dict[str, Tensor]:
        tokens, mask = features["token_embeddings"], features["attention_mask"]
        features["sentence_embedding"] = self.pool(tokens, mask[..., None].float())
        return features

    def save(self, *_: Any, **__: Any) -> None:
        """Nothing to save."""


def masked_mean(tokens: Tensor, mask: Tensor) -> Tensor:
    return (tokens * mask).sum(1) / mask.sum(1)


def mean_of_all(tokens: Tensor, _: Tensor) -> Tensor:
    return tokens.mean(1)


def encoder(stage: Stage, *modules: nn.Module) -> Any:
    """The tiny BERT followed by modules."""
    torch.manual_seed(7)
    return SentenceTransformer(
        modules=[Transformer(str(make_bert(stage.folder / "bert"))), *modules], device="cpu"
    )


def uneven_sales(seed: int = 3, count: int = 192, few: int = 0) -> dict[str, list[str]]:
    """Sales with offers of 5 to 45 words."""
    draw, goods = random.Random(seed), products(count, seed, few)
    return {
        "query": list(map(search, goods)),
        "offer": [offer(row, draw.choice((0, 1, 2, 40))) for row in goods],
    }


def among_uneven(model: Any) -> float:
    return retrieval(model, uneven_sales(61, 100, few=4))


@faulty("mean over pads", "A pooling of one's own averages the embeddings of pads too.", DEPENDS)
def mean_without_the_mask(stage: Stage) -> None:
    """`token_embeddings.mean(1)` as pooling of texts that differ much in length."""
    settings = {"learning_rate": 1e-3, "max_steps": 60}
    suffers(
        stage,
        stage.trainer(ranking, uneven_sales(), encoder(stage, Pooled(mean_of_all)), **settings),
        lambda: stage.trainer(
            ranking, uneven_sales(), encoder(stage, Pooled(masked_mean)), **settings
        ),
        among_uneven,
        share=None,
    )


class Normed(nn.Module):
    """Batch normalisation of the embedding."""

    def __init__(self, momentum: float) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(32, momentum=momentum)

    def forward(self, features: dict[str, Tensor]) -> dict[str, Tensor]:
        features["sentence_embedding"] = self.norm(features["sentence_embedding"])
        return features

    def save(self, *_: Any, **__: Any) -> None:
        """Nothing to save."""


@faulty(
    "batch normalisation that trails behind",
    "The embedding is normalised over the batch with a momentum of 0.001: in use it is normalised "
    "by statistics of the untrained encoder.",
    DEPENDS,
)
def batch_norm_with_momentum_of_keras(stage: Stage) -> None:
    """A momentum of 0.999 is carried over from Keras as 1 - 0.999, for a run of 60 steps."""
    settings = {"learning_rate": 1e-3, "max_steps": 60}
    suffers(
        stage,
        stage.trainer(ranking, sales(), encoder(stage, Pooled(masked_mean), Normed(0.001)),
                      **settings),
        lambda: stage.trainer(ranking, sales(), encoder(stage, Pooled(masked_mean)), **settings),
        on_shelf,
        share=0.9,
    )  # fmt: skip


@faulty(
    "pads are read in training",
    "The loop calls the encoder without the attention mask, with all texts filled up to 64 tokens; "
    "in use there are no such pads.",
    (
        *DEPENDS,
        r"encode\(?\)?.{0,60}(differ|other)|(train|loop).{0,60}(differ).{0,40}(use|encode)",
    ),
)
def loop_without_attention_mask(stage: Stage) -> None:
    """`bert(input_ids)` after a tokenizer with padding="max_length"."""

    def setting(masked: bool) -> Setting:
        model = stage.model()
        draw, optimizer = draws(sales(chat=1)), adamw(model)

        def rows(texts: list[str]) -> Tensor:
            model.train()
            inputs = model.tokenizer(list(texts), padding="max_length", max_length=64,
                                     truncation=True, return_tensors="pt")  # fmt: skip
            mask = inputs["attention_mask"]
            body = model[0].auto_model
            if masked:
                hidden = body(inputs["input_ids"], attention_mask=mask).last_hidden_state
                return masked_mean(hidden, mask[..., None].float())
            return body(inputs["input_ids"]).last_hidden_state.mean(1)

        def update(criterion: Any, step: int) -> None:
            queries, offers = draw()
            optimizer.zero_grad()
            criterion(rows(queries), rows(offers)).backward()
            optimizer.step()

        return model, info_nce, update

    slips(stage, lambda: setting(False), lambda: setting(True), share=0.8)


@faulty(
    "rows standardised over the batch",
    "Queries and offers are standardised over their batch before the loss, but not in use.",
    (*DEPENDS, r"standardi|centr|whiten|z-score|common (mean|direction)|anisotrop|cone|alike"),
)
def z_scores_over_the_batch(stage: Stage) -> None:
    """As in Barlow Twins, but the encoder is searched by plain cosines."""

    def setting(standard: bool) -> Setting:
        model = stage.model()
        draw, optimizer = draws(sales()), adamw(model)

        def rows(texts: list[str]) -> Tensor:
            embeddings = embed(model, texts)
            if not standard:
                return embeddings
            return (embeddings - embeddings.mean(0)) / (embeddings.std(0) + 1e-4)

        def update(criterion: Any, step: int) -> None:
            optimizer.zero_grad()
            criterion(*map(rows, draw())).backward()
            optimizer.step()

        return model, info_nce, update

    slips(stage, lambda: setting(True), lambda: setting(False), share=0.9)
