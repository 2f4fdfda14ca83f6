"""Faults of what a batch does to embeddings, of tokens and of batches, under trainers."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import nn

from tests.judgement.case import faulty
from tests.judgement.first.reported_encoders import (
    LONGER,
    among_classmates,
    encoder,
    ranking,
)
from tests.judgement.stage import PLACES, TOPICS, Stage, classes, pairs
from tests.judgement.truth import alike, among_alike, reciprocal_rank, retrieval, suffers
from tests.sentence_training import losses

PADDING = "an embedding that depends on its batch"
TOKENS = "tokens"
BATCHES = "batches"


class MeanOfAll(nn.Module):
    """The mean over all tokens of a text, or over those that are no padding."""

    def __init__(self, *, masked: bool) -> None:
        super().__init__()
        self.masked = masked

    def forward(self, features: dict[str, Any]) -> dict[str, Any]:
        rows = features["token_embeddings"]
        mask = features["attention_mask"] if self.masked else torch.ones(rows.shape[:2])
        mask = mask.unsqueeze(-1).to(rows.dtype)
        return features | {"sentence_embedding": (rows * mask).sum(1) / mask.sum(1)}


def uneven(table: dict[str, list[str]], seed: int = 4) -> dict[str, list[str]]:
    """Every fourth passage is followed by many words that say nothing."""
    draw = random.Random(seed)
    longer = [
        text + " no ka zo" * draw.randint(8, 14) if at % 4 == 0 else text
        for at, text in enumerate(table["positive"])
    ]
    return table | {"positive": longer}


def batched_as_they_come(model: Any) -> float:
    """The score where questions come alone, and passages in batches of all lengths."""
    questions, passages = uneven(alike()).values()
    alone = [model.encode([text], show_progress_bar=False)[0] for text in questions]
    rows = []
    with torch.no_grad():
        for start in range(0, len(passages), 20):
            features = model.preprocess(passages[start : start + 20])
            rows.append(model.eval()(features)["sentence_embedding"])
    return reciprocal_rank(np.stack(alone), torch.cat(rows).numpy())


@faulty(
    PADDING,
    "A pooling module of one's own takes the mean over all tokens, the padding with them: an "
    "embedding depends on the longest text of its batch.",
    [
        r"padd(ing|ed)|pad token",
        r"attention.?mask|mask",
        r"(alone|batch|beside|longer|company).{0,100}(differ|other|chang|depend|not the same)",
        r"(differ|chang|depend).{0,100}(batch|alone|beside|company)",
    ],
    never=[LONGER],
)
def mean_over_the_padding(stage: Stage) -> None:
    """https://github.com/huggingface/sentence-transformers/issues/2569."""

    def trainer(masked: bool) -> Any:
        model = encoder(stage.model()[0], MeanOfAll(masked=masked))
        return stage.trainer(ranking, uneven(pairs()), model, max_steps=60)

    suffers(stage, trainer(False), lambda: trainer(True), batched_as_they_come, share=None)


class Centred(nn.Module):
    """Embeddings less their mean over the batch, or as they are."""

    def __init__(self, *, of_batch: bool) -> None:
        super().__init__()
        self.of_batch = of_batch

    def forward(self, features: dict[str, Any]) -> dict[str, Any]:
        rows = features["sentence_embedding"]
        mean = rows.mean(0) if self.of_batch else torch.zeros(rows.shape[1])
        return features | {"sentence_embedding": rows - mean}


@faulty(
    PADDING,
    "A module subtracts the mean of the batch from the embeddings, to spread them: of a text that "
    "is embedded alone, nothing is left.",
    [
        r"(alone|batch|beside|longer|company).{0,100}(differ|other|chang|depend|not the same)",
        r"(differ|chang|depend).{0,100}(batch|alone|beside|company)",
        r"mean of the batch|cent(er|re)|batch.?(norm|stat|mean)",
        r"alone",
    ],
    never=[LONGER],
)
def mean_of_the_batch_subtracted(stage: Stage) -> None:
    """Common: embeddings are centred or whitened by the statistics of their batch."""

    def trainer(of_batch: bool) -> Any:
        model = encoder(*stage.model(), Centred(of_batch=of_batch))
        return stage.trainer(ranking, pairs(), model, max_steps=60)

    suffers(stage, trainer(True), lambda: trainer(False), batched_as_they_come, share=None)


@faulty(
    TOKENS,
    "Texts are cut after six tokens, before most of what they say.",
    [
        r"cut|truncat|max_seq_length|max(imum)? length|too (short|long)|longer than",
    ],
    never=[LONGER],
)
def six_tokens_of_each_text(stage: Stage) -> None:
    """https://github.com/huggingface/sentence-transformers/issues/767."""

    def trainer(length: int) -> Any:
        return stage.trainer(ranking, pairs(), stage.model(length=length))

    suffers(stage, trainer(6), lambda: trainer(64), among_alike)


def _capitalised(table: dict[str, list[str]]) -> dict[str, list[str]]:
    names = {word: word.capitalize() for word in (*TOPICS, *PLACES)}
    return {
        column: [" ".join(names.get(word, word) for word in text.split()) for text in texts]
        for column, texts in table.items()
    }


@faulty(
    TOKENS,
    "The vocabulary has small letters only, and the tokenizer no longer makes them: things and "
    "places, written with a capital, are unknown tokens.",
    [
        r"unk\b|unknown|\[UNK\]",
        r"vocabular",
        r"lower.?cas|capital|upper",
        r"tokeni[sz]er.{0,80}(not know|does not|fit|match)",
    ],
    never=[LONGER],
)
def capitals_that_the_vocabulary_lacks(stage: Stage) -> None:
    """Common: `do_lower_case` is lost, or an uncased vocabulary is used with cased texts."""
    from tokenizers import normalizers

    def trainer(lowers: bool) -> Any:
        model = stage.model()
        model.tokenizer.backend_tokenizer.normalizer = normalizers.BertNormalizer(lowercase=lowers)
        return stage.trainer(ranking, _capitalised(pairs()), model)

    suffers(
        stage,
        trainer(False),
        lambda: trainer(True),
        lambda model: retrieval(model, _capitalised(alike())),
    )


@faulty(
    TOKENS,
    "A text file in UTF-8 was read as Latin-1: accented words fall into marks that the vocabulary "
    "does not know.",
    [
        r"unk\b|unknown|\[UNK\]",
        r"vocabular",
        r"encoding|utf|character|mojibake|letters",
        r"tokeni[sz]er.{0,80}(not know|does not|fit|match)",
    ],
    never=[LONGER],
)
def letters_read_in_the_wrong_encoding(stage: Stage) -> None:
    """Common: `open(file, encoding="latin-1")` on a file in UTF-8."""

    def accented(table: dict[str, list[str]], broken: bool) -> dict[str, list[str]]:
        marks = str.maketrans({"a": "á", "o": "ó", "e": "é"})
        made = {name: [text.translate(marks) for text in cells] for name, cells in table.items()}
        if not broken:
            return made
        return {
            name: [text.encode().decode("latin-1") for text in cells]
            for name, cells in made.items()
        }

    def trainer(broken: bool) -> Any:
        return stage.trainer(ranking, accented(pairs(), broken))

    suffers(
        stage,
        trainer(True),
        lambda: trainer(False),
        lambda model: retrieval(model, accented(alike(), False)),
    )


@faulty(
    BATCHES,
    "Batches hold one row, sixteen of which are accumulated: the ranking has no negative, and its "
    "loss is 0.",
    [
        r"(no|without|lack|0|zero) (other )?(negatives?|candidates?)",
        r"batch.{0,60}(one|1\b|small|single)",
        r"(one|1|single) (row|text|pair).{0,40}batch",
        r"accumulat",
        r"loss.{0,40}(is|stays|constant).{0,20}(0|zero)",
    ],
    never=[LONGER],
)
def one_row_at_a_time_accumulated(stage: Stage) -> None:
    """https://github.com/huggingface/sentence-transformers/issues/2916."""

    def trainer(rows: int) -> Any:
        return stage.trainer(
            ranking,
            pairs(),
            per_device_train_batch_size=rows,
            gradient_accumulation_steps=8 // rows,
            max_steps=40,
            learning_rate=1e-3,
        )

    suffers(stage, trainer(1), lambda: trainer(8), among_alike, every=4)


def _streamed(stage: Stage, order: list[int]) -> Any:
    """A trainer on a stream of classes in an order."""
    from datasets import Features, IterableDataset, Value

    table = classes(count=320)
    features = Features({"text": Value("string"), "label": Value("int64")})

    def rows() -> Iterator[dict[str, Any]]:
        for _ in range(4):
            for at in order:
                yield {"text": table["text"][at], "label": table["label"][at]}

    plain = stage.trainer(losses.BatchAllTripletLoss, table, per_device_train_batch_size=8)
    return type(plain)(
        model=plain.model,
        args=plain.args,
        train_dataset=IterableDataset.from_generator(rows, features=features),
        loss=losses.BatchAllTripletLoss(plain.model, margin=1.0),
    )


@faulty(
    BATCHES,
    "A stream is sorted by class, so that all rows of a batch are of one class, and no triplet has "
    "a negative.",
    [
        r"(one|same|single|only).{0,20}class",
        r"sorted|shuffl|order",
        r"(no|without|lack\w*) (negatives?|triplets?)",
        r"(negatives?|triplets?).{0,40}(none|no batch|missing|0)",
        r"labels?.{0,60}(same|one|single|equal|all)",
    ],
    never=[LONGER],
)
def stream_sorted_by_class(stage: Stage) -> None:
    """Common: a stream keeps the order of its file, which is sorted by class."""
    labels = classes(count=320)["label"]
    in_order = sorted(range(320), key=lambda at: labels[at])
    by_two = [at for start in range(0, 320, 32) for at in _in_twos(in_order[start : start + 32])]
    suffers(stage, _streamed(stage, in_order), lambda: _streamed(stage, by_two), among_classmates)


def _in_twos(places: list[int]) -> list[int]:
    """Rows of four classes of eight, two of each class in each eight."""
    return [places[8 * row + 2 * part + at] for part in range(4) for row in range(4)
            for at in range(2)]  # fmt: skip
