"""How long will an inspection take? Short trials of its stages answer before a long one begins."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from gradlab.inspection.model_source import ModelSource
from gradlab.inspection.neighbours import BUCKET, PROBES, nearest_in
from gradlab.inspection.texts import Texts
from gradlab.inspection.vectors import DIMENSIONS, NEIGHBOURS
from gradlab.inspection.word_index import read_words

# Seconds from which on an estimate is said.
LONG = 60.0
# Numbers of texts for an encoder, and of embeddings, from which on trials are worth their time.
TEXTS, EMBEDDINGS = 2_000, 200_000
_TRIED = 512  # texts, or rows that are compared, in a trial


def expected_seconds(
    count: int, texts: Texts | None, source: ModelSource | None, batches: int, batch_size: int
) -> dict[str, float]:
    """Return the expected seconds of every stage, for ``count`` texts or embeddings.

    Args:
        count: number of texts or embeddings.
        texts: the texts; None for embeddings alone.
        source: what embeds them; None if nothing has to.
        batches: number of batches with dropout.
        batch_size: sentences in a batch.
    """
    stages: dict[str, float] = {}
    if source is not None:
        tried = _spread(source.texts, min(2 * batch_size, count))
        source.encode(tried[:8], batch_size)  # the first call sets things up
        seconds_per_text = _seconds(source.encode, tried, batch_size) / len(tried)
        stages["encoding"] = seconds_per_text * count
        stages["batches"] = 2 * seconds_per_text * batches * batch_size
    if texts is not None:
        tried = _spread(texts, _TRIED)
        stages["words"] = 2 * _seconds(read_words, tried) * count / len(tried)
    rows = np.random.default_rng(0).normal(size=(_TRIED, DIMENSIONS)).astype(np.float16)
    cell = _seconds(nearest_in, rows, rows, np.arange(_TRIED), NEIGHBOURS + 1) / _TRIED**2
    buckets = max(1, count // BUCKET)
    cells = count * (min(buckets, PROBES) * BUCKET + 2 * buckets)
    stages["nearest neighbours"] = cell * cells / (os.cpu_count() or 1)
    return stages


def announcement(stages: Mapping[str, float], rows: int) -> str:
    """Return the estimate in words; empty for a short inspection."""
    total = sum(stages.values())
    if total < LONG:
        return ""
    longest = sorted(stages, key=lambda stage: -stages[stage])
    phrases = [f"{stage} {minutes(stages[stage])}" for stage in longest if stages[stage] >= 30]
    tenth = max(1000, rows // 10)
    hint = f"; --sample {tenth} takes a tenth and sees {(tenth / rows) ** 2:.1%} of all pairs"
    return f"This takes about {minutes(total)}: {', '.join(phrases)}{hint if tenth < rows else ''}"


def minutes(seconds: float) -> str:
    """Return a duration in hours and minutes."""
    hours, remainder = divmod(max(1, round(seconds / 60)), 60)
    return f"{hours} h {remainder} min" if hours else f"{remainder} min"


def _spread(texts: Texts, count: int) -> list[str]:
    return [texts[int(number)] for number in np.linspace(0, texts.count - 1, count)]


def _seconds(function: Callable[..., Any], *arguments: Any) -> float:
    began = time.perf_counter()
    function(*arguments)
    return time.perf_counter() - began
