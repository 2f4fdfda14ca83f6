"""Embeddings that depend on the other texts of their batch."""

from __future__ import annotations

from typing import Any

import torch
from sentence_transformers.sentence_transformer.modules import Pooling
from torch import nn

from tests.judgement.case import faulty
from tests.judgement.first.scenes import among_uneven, bilingual, uneven
from tests.judgement.stage import Stage
from tests.judgement.truth import retrieval, suffers
from tests.sentence_training import losses

ranking = losses.MultipleNegativesRankingLoss
PLAN = {"learning_rate": 2e-3, "max_steps": 100}
BATCH_WORDS = (
    r"depend.{0,60}batch",
    r"batch.{0,60}(depend|change|differ|mix)",
    r"other (text|row|sentence)s? (of|in) (the|its|a) batch",
    r"(another|different) batch",
    r"(alone|by itself|on its own)",
    r"company",
    r"neighbou?rs? in the batch",
    r"batch.{0,30}(statistic|norm|mean|cent)",
)
PADDING_WORDS = (*BATCH_WORDS, r"padd", r"\bmask")


class Alone:
    """What `retrieval` asks of an encoder, with each text in a batch of its own."""

    def __init__(self, model: Any) -> None:
        self.model = model

    def encode(self, texts: list[str], **options: Any) -> Any:
        return self.model.encode(texts, batch_size=1, **options)


def alone(model: Any) -> float:
    """The reciprocal rank of passages in the other language that are encoded one by one."""
    return retrieval(Alone(model), bilingual(60, seed=11))


class LastColumn(Pooling):
    """The last column of a batch, which is padding for all texts but the longest."""

    def forward(self, features: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        features["sentence_embedding"] = features["token_embeddings"][:, -1]
        return features


class CentreOnBatch(nn.Module):
    """Embeddings less the mean of their batch."""

    def forward(self, features: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        rows = features["sentence_embedding"]
        features["sentence_embedding"] = rows - rows.mean(dim=0)
        return features


class ViewTokens(nn.Module):
    """Tokens brought into another order of dimensions by a view, which mixes texts."""

    def forward(self, features: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        rows = features["token_embeddings"]
        batch, length, width = rows.shape
        mixed = rows.reshape(length, batch, width)
        features["sentence_embedding"] = mixed.mean(dim=0)
        return features


def _of_modules(*modules: nn.Module) -> Any:
    from sentence_transformers import SentenceTransformer

    return SentenceTransformer(modules=list(modules), device="cpu")


@faulty(
    "last column of a padded batch",
    "The pooling takes the last column of a batch, which is padding for all texts but the longest.",
    (*PADDING_WORDS, r"last (token|column|position)"),
)
def last_column_of_padded_texts(stage: Stage) -> None:
    model = _of_modules(stage.model()[0], LastColumn(32))
    suffers(
        stage,
        stage.trainer(ranking, uneven(320), model, **PLAN),
        lambda: stage.trainer(ranking, uneven(320), stage.model(), **PLAN),
        among_uneven,
    )


@faulty(
    "embeddings centred on their batch",
    "A layer subtracts the mean of the batch, at inference too: a text alone becomes zero.",
    BATCH_WORDS,
)
def embeddings_less_the_mean_of_their_batch(stage: Stage) -> None:
    model = _of_modules(*stage.model(), CentreOnBatch())
    suffers(
        stage,
        stage.trainer(ranking, bilingual(640), model, **PLAN),
        lambda: stage.trainer(ranking, bilingual(640), **PLAN),
        alone,
    )


@faulty(
    "texts mixed by a view",
    "The pooling swaps dimensions by a view where a transpose was meant: each embedding averages "
    "tokens of several texts.",
    (
        *BATCH_WORDS,
        r"view",
        r"reshape",
        r"transpose",
        r"mix",
        r"(no progress|chance|not? (fall|learn))",
    ),
)
def view_in_place_of_a_transpose(stage: Stage) -> None:
    suffers(
        stage,
        stage.trainer(ranking, bilingual(640), _of_modules(stage.model()[0], ViewTokens()), **PLAN),
        lambda: stage.trainer(ranking, bilingual(640), **PLAN),
        alone,
    )
