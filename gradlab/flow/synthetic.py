"""A synthetic batch with what batches of sentences have: topics, duplicates, a common direction."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gradlab.arrays import Float, Int, unit_rows
from gradlab.errors import GradlabError, check_whole
from gradlab.seeds import random_generator

# Lengths of the parts of an embedding, before normalisation, in units of a sentence's own part:
# the direction that all share, that of the topic, and the difference of the positive.
COMMON, TOPIC, VIEW = 0.9, 1.15, 0.42
NEAR_COPY = 0.25  # length of what a near-duplicate adds to the sentence that it repeats


class SyntheticBatch(NamedTuple):
    """Two views of N sentences, float64 with unit rows, and the topic of each sentence."""

    anchors: Float[np.ndarray, "n d"]
    positives: Float[np.ndarray, "n d"]
    topics: Int[np.ndarray, "n"]


def synthetic_batch(
    topics: int = 30,
    sentences: int = 4,
    dim: int = 64,
    *,
    duplicates: int = 4,
    seed: int | np.random.Generator = 0,
) -> SyntheticBatch:
    """Draw embeddings of sentences with topics, near-duplicates and a common direction.

    Anchors are ``u + c_topic + s_i``, normalised, with random directions ``c`` and ``s``; positives
    add another small random direction. Mean cosines are about .9 for positives, .7 within a topic
    and .25 between topics, as encoders before contrastive training have them.

    Args:
        topics: number of topics.
        sentences: number of sentences per topic.
        dim: number of dimensions D.
        duplicates: number of sentences that nearly repeat the first sentence of their topic, one
            per topic at most.
        seed: a whole number, or a generator to draw from.

    Raises:
        GradlabError: one of the numbers is too small, or there are more duplicates than topics.
    """
    limits = {"topics": 1, "sentences": 1, "dim": 2, "duplicates": 0}
    values = {"topics": topics, "sentences": sentences, "dim": dim, "duplicates": duplicates}
    for name, least in limits.items():
        check_whole(name, values[name], least)
    if duplicates > (topics if sentences > 1 else 0):
        raise GradlabError(
            f"{duplicates} duplicates need as many topics of at least 2 sentences; "
            f"there are {topics} topics of {sentences}"
        )
    rng = random_generator(seed)

    def directions(*shape: int) -> np.ndarray:
        rows: np.ndarray = unit_rows(rng.standard_normal((*shape, dim)))
        return rows

    content = directions(topics, sentences)
    copies = content[:duplicates, 0] + NEAR_COPY * directions(duplicates)
    if duplicates:
        content[:duplicates, 1] = unit_rows(copies)
    rows = COMMON * directions(1, 1) + TOPIC * directions(topics, 1) + content
    anchors = unit_rows(rows.reshape(-1, dim))
    positives = unit_rows(anchors + VIEW * directions(topics * sentences))
    return SyntheticBatch(anchors, positives, np.repeat(np.arange(topics), sentences))
