"""Faults of encoders that people put together themselves, under trainers."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import nn

from tests.judgement.case import faulty
from tests.judgement.first.reported_encoders import (
    LONGER,
    adapted,
    causal_body,
    encoder,
    ranking,
    tuned,
)
from tests.judgement.stage import Stage, pairs
from tests.judgement.truth import alike, among_alike, reciprocal_rank, suffers
from tests.tiny_models import make_bert

QUICK = {"learning_rate": 1e-3}
# Words for an embedding that other texts of the batch have a say in.
BATCH = (
    r"(alone|batch|beside|longer|company|neighbou?r|other texts?).{0,120}(differ|other|chang|"
    r"depend|not the same|unlike|vary|varies)",
    r"(depend|differ|chang|var)\w*.{0,80}(batch|company|beside|other texts|neighbou?r|padding)",
)
# Words for embeddings that are all one.
EQUAL = (
    r"collaps",
    r"(all|every|texts|embeddings).{0,60}(same|equal|identical|one|single|alike|constant|nearly|"
    r"almost)\b",
    r"(cosine|similarit)\w*.{0,60}(near|about|close to|almost|nearly|above|at) (1|0\.9)",
    r"narrow|cone|spread|anisotrop",
)


def transformer(stage: Stage) -> Any:
    """The module of a fresh BERT."""
    return stage.model()[0]


def asked_alone(model: Any) -> float:
    """The score among passages of few words where each question is embedded by itself."""
    questions, passages = alike().values()
    first = np.stack([model.encode(text, show_progress_bar=False) for text in questions])
    return reciprocal_rank(first, model.encode(passages, show_progress_bar=False))


class Attended(nn.Module):
    """Pools tokens by learned weights that sum to one along an axis: 1 is that of the tokens."""

    def __init__(self, axis: int) -> None:
        super().__init__()
        torch.manual_seed(5)
        self.axis, self.scorer = axis, nn.Linear(32, 1)

    def forward(self, features: dict[str, Any]) -> dict[str, Any]:
        rows, mask = features["token_embeddings"], features["attention_mask"]
        scores = self.scorer(rows).squeeze(-1).masked_fill(mask == 0, -1e9)
        shares = scores.softmax(self.axis)
        return features | {"sentence_embedding": (shares[:, :, None] * rows).sum(1)}


@faulty(
    "pooling weights that sum to one over the batch",
    "The softmax of an attention pooling runs over texts where it should run over tokens: what "
    "counts in a text depends on its batch.",
    [*BATCH, r"softmax|\baxis|over the batch|pool"],
    never=[LONGER],
)
def softmax_over_texts_in_a_pooling(stage: Stage) -> None:
    """Common: `softmax(scores, dim=0)`, or none, where scores are of (batch, tokens)."""
    suffers(
        stage,
        stage.trainer(ranking, pairs(), encoder(transformer(stage), Attended(0)), **QUICK),
        lambda: stage.trainer(ranking, pairs(), encoder(transformer(stage), Attended(1)), **QUICK),
        asked_alone,
        share=None,
    )


class Whitened(nn.Module):
    """Whitens the embeddings of each batch by their own covariance."""

    def forward(self, features: dict[str, Any]) -> dict[str, Any]:
        rows = features["sentence_embedding"]
        centred = rows - rows.mean(0)
        left, sizes, right = torch.linalg.svd(centred, full_matrices=False)
        return features | {"sentence_embedding": left @ (right / (sizes[:, None] > 0))}


@faulty(
    "whitened by each batch",
    "Embeddings are whitened by the covariance of the batch that they happen to be in, in "
    "inference as well.",
    [*BATCH, r"whiten|covarianc|statistic|cent(re|er)|over the batch"],
    never=[LONGER],
)
def whitening_of_each_batch(stage: Stage) -> None:
    """Common in copies of BERT-whitening, which takes its statistics from a corpus once."""
    from sentence_transformers.sentence_transformer.modules import Pooling

    suffers(
        stage,
        stage.trainer(ranking, pairs(), encoder(transformer(stage), Pooling(32), Whitened())),
        lambda: stage.trainer(ranking, pairs(), encoder(transformer(stage), Pooling(32))),
        among_alike,
        share=None,
    )


def vocabulary_cut(stage: Stage, count: int = 70) -> Any:
    """A tuned encoder with the tokenizer of another one, which has few of its words, moved."""
    import json

    from transformers import AutoTokenizer

    model = tuned(stage)
    folder = make_bert(stage.folder / "other")
    path = folder / "tokenizer.json"
    content = json.loads(path.read_text(encoding="utf-8"))
    pieces = content["model"]["vocab"]
    words = sorted(pieces, key=pieces.get)
    order = words[:5] + sorted(words[5:])[:-count]
    content["model"]["vocab"] = {piece: place for place, piece in enumerate(order)}
    path.write_text(json.dumps(content), encoding="utf-8")
    model[0].processor = AutoTokenizer.from_pretrained(folder)
    return model


@faulty(
    "tokenizer of another encoder",
    "The tokenizer belongs to another checkpoint: its numbers stand for other words, and a trained "
    "encoder reads nonsense.",
    [r"tokeni[sz]er|vocabular|\bUNK\b|token (id|number)s?|embedding matrix|word embeddings?"],
    never=[LONGER],
)
def tokenizer_with_other_numbers(stage: Stage) -> None:
    """Common: `AutoTokenizer.from_pretrained` of a base model under a model of another one."""
    settings = {"learning_rate": 5e-5, "max_steps": 20}
    suffers(
        stage,
        stage.trainer(ranking, pairs(), vocabulary_cut(stage), **settings),
        lambda: stage.trainer(ranking, pairs(), tuned(stage), **settings),
        among_alike,
        share=None,
    )


class InputRows(nn.Module):
    """Reads the hidden states before the first layer, which are rows of the word embeddings."""

    def __init__(self, body: Any, layer: int) -> None:
        super().__init__()
        self.body, self.layer = body, layer

    def forward(self, features: dict[str, Any]) -> dict[str, Any]:
        states = self.body.auto_model(
            input_ids=features["input_ids"],
            attention_mask=features["attention_mask"],
            output_hidden_states=True,
        ).hidden_states
        return features | {"token_embeddings": states[self.layer]}

    @property
    def tokenizer(self) -> Any:
        return self.body.tokenizer

    def preprocess(self, *arguments: Any, **options: Any) -> Any:
        return self.body.preprocess(*arguments, **options)

    tokenize = preprocess

    def save(self, *arguments: Any, **options: Any) -> None:
        self.body.save(*arguments, **options)


def reading(body: Any, layer: int, pooling: str) -> Any:
    """An encoder that pools the hidden states of a layer."""
    from sentence_transformers.sentence_transformer.modules import Pooling

    return encoder(InputRows(body, layer), Pooling(32, pooling_mode=pooling))


@faulty(
    "embeddings read before the first layer",
    "The first of all hidden states is pooled, where the last was meant: at the closing token it "
    "is the same for every text.",
    [*EQUAL, r"hidden.?states?|first layer|closing token|(no|zero) gradient"],
    never=[LONGER],
)
def first_hidden_states_of_a_decoder(stage: Stage) -> None:
    """Common: `outputs[0]` is the last layer, `outputs.hidden_states[0]` the word embeddings."""
    suffers(
        stage,
        stage.trainer(ranking, pairs(), reading(causal_body(stage), 0, "lasttoken"),
                      learning_rate=3e-3),
        lambda: stage.trainer(ranking, pairs(), reading(causal_body(stage), -1, "lasttoken"),
                              learning_rate=3e-3),
        among_alike,
    )  # fmt: skip


@faulty(
    "last activation without negative values",
    "The last layer ends in a softmax, as of a classifier: all embeddings are nearly the same "
    "vector of shares.",
    [*EQUAL, r"softmax|activation|non.?negative|positive (values|numbers|orthant)"],
    never=[LONGER],
)
def dense_layer_with_a_softmax(stage: Stage) -> None:
    """Common where a classifier's last layer becomes an encoder's."""
    from sentence_transformers.sentence_transformer.modules import Dense, Pooling

    def model(activation: nn.Module) -> Any:
        torch.manual_seed(5)
        return encoder(
            transformer(stage), Pooling(32), Dense(32, 32, activation_function=activation)
        )

    suffers(
        stage,
        stage.trainer(ranking, pairs(), model(nn.Softmax(dim=-1))),
        lambda: stage.trainer(ranking, pairs(), model(nn.Identity())),
        among_alike,
        share=None,
    )


@faulty(
    "adapter dropout written as a share to keep",
    "The dropout of the adapters is 0.95: of twenty inputs of an adapter one is left, times "
    "twenty.",
    [r"dropout", r"noise|noisy"],
    never=[LONGER],
)
def adapters_with_a_dropout_of_nineteen_twentieths(stage: Stage) -> None:
    """Common slip between libraries that state the share to keep and the share to drop."""
    settings = {"learning_rate": 2e-2, "max_steps": 60}
    suffers(
        stage,
        stage.trainer(ranking, pairs(), adapted(stage.model(), lora_dropout=0.95), **settings),
        lambda: stage.trainer(ranking, pairs(), adapted(stage.model()), **settings),
        among_alike,
    )


class Packed(InputRows):
    """Reads all texts of a batch as one row, and takes the state at the end of each."""

    def forward(self, features: dict[str, Any]) -> dict[str, Any]:
        mask = features["attention_mask"]
        row = features["input_ids"][mask.bool()][None]
        states = self.body.auto_model(
            input_ids=row, attention_mask=torch.ones_like(row)
        ).last_hidden_state[0]
        return features | {"sentence_embedding": states[mask.sum(1).cumsum(0) - 1]}


@faulty(
    "texts packed into one row without a border",
    "The texts of a batch are packed into one row of a decoder without a mask between them: each "
    "reads all that stand before it.",
    [*BATCH, r"pack|across texts|leak|attend|before it"],
    never=[LONGER],
)
def texts_of_a_batch_in_one_row(stage: Stage) -> None:
    """https://github.com/huggingface/transformers/pull/31629: packing without contamination."""
    settings = {"learning_rate": 3e-3, "max_steps": 60}
    suffers(
        stage,
        stage.trainer(ranking, pairs(), encoder(Packed(causal_body(stage), -1)), **settings),
        lambda: stage.trainer(
            ranking, pairs(), reading(causal_body(stage), -1, "lasttoken"), **settings
        ),
        asked_alone,
        share=None,
    )
