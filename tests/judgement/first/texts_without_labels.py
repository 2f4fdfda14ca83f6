"""Sound set-ups: raw texts without labels: dropout, noise, spans and denoising."""

from __future__ import annotations

import random
from typing import Any

from sentence_transformers.sentence_transformer import losses

from tests.judgement.case import sound
from tests.judgement.first.field_rows import Source
from tests.judgement.first.raw_fields import LOG_LINES, POSTS
from tests.judgement.first.training_parts import encoder_of, ranking
from tests.judgement.stage import Stage
from tests.judgement.truth import learns, retrieval


def thinned(texts: list[str], share: float = 0.4, seed: int = 0) -> list[str]:
    """Texts from which a share of the words is deleted."""
    draw = random.Random(seed)
    selection = ([word for word in text.split() if draw.random() > share] for text in texts)
    return [" ".join(words) or text for words, text in zip(selection, texts, strict=True)]


def by_excerpts(source: Source, column: str) -> Any:
    """A score: how well held-out texts are found by a part of their words."""
    texts = source.table(80, column, seed=1)[column]
    return lambda model: retrieval(model, {"part": thinned(texts, 0.6), "whole": texts})


@sound("twice through dropout")
def posts_twice_through_dropout(stage: Stage) -> None:
    """Unsupervised SimCSE: a post is its own positive, under another dropout.

    Remark: both columns are equal on purpose; only dropout tells the two views apart.
    """
    posts = POSTS.table(480, "post")["post"]
    trainer = stage.trainer(
        ranking(), {"anchor": posts, "positive": posts}, encoder_of(stage, POSTS, dropout=0.15),
        max_steps=60, learning_rate=5e-4, per_device_train_batch_size=32,
    )  # fmt: skip
    learns(stage, trainer, by_excerpts(POSTS, "post"))


@sound("halves of a document as pairs")
def halves_of_posts_as_pairs(stage: Stage) -> None:
    """Two spans of a post attract each other, as in DeCLUTR: they tell of the same subjects.

    Remark: other posts of a batch may share one of the three subjects, and count as negatives.
    """
    trainer = stage.trainer(
        ranking(), POSTS.table(560, "first_half", "second_half"), encoder_of(stage, POSTS),
        max_steps=120, learning_rate=1e-3, per_device_train_batch_size=32,
    )  # fmt: skip
    learns(stage, trainer, POSTS.sought("first_half", "second_half"))


@sound("words deleted from log lines")
def log_lines_without_some_words(stage: Stage) -> None:
    """Two versions of a line, each without a part of its words, are a pair."""
    lines = LOG_LINES.table(480, "line")["line"]
    trainer = stage.trainer(
        losses.MultipleNegativesSymmetricRankingLoss,
        {"first": thinned(lines, 0.2, seed=1), "second": thinned(lines, 0.2, seed=2)},
        encoder_of(stage, LOG_LINES), max_steps=80, learning_rate=1e-3,
        per_device_train_batch_size=32,
    )  # fmt: skip
    learns(stage, trainer, by_excerpts(LOG_LINES, "line"))


@sound("tension between two copies of an encoder")
def tension_between_two_copies(stage: Stage) -> None:
    """Contrastive tension with in-batch negatives; the copies part while they train.

    Remark: only one of the two copies is kept, as in the paper.
    """
    posts = POSTS.table(480, "post")
    trainer = stage.trainer(
        losses.ContrastiveTensionLossInBatchNegatives, posts, encoder_of(stage, POSTS),
        max_steps=80, learning_rate=5e-4, per_device_train_batch_size=24,
    )  # fmt: skip
    learns(stage, trainer, by_excerpts(POSTS, "post"))
