"""What the set-ups share: encoders of a field, losses, scores, and a first training."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from sentence_transformers.sentence_transformer import losses

from tests.judgement.first.bodies import encoder
from tests.judgement.first.field_rows import HELD_OUT, Source
from tests.judgement.first.turns import warmed
from tests.judgement.stage import Stage
from tests.judgement.truth import correlation, keep, truth


def encoder_of(stage: Stage, source: Source, *behind: Any, **options: Any) -> Any:
    """An encoder with the words of a field."""
    settings = (options.get("prompts") or {}).values()
    return encoder(stage, source.texts(300, *settings), *behind, **options)


def trained_before(
    stage: Stage, source: Source, *columns: str, steps: int = 12, **options: Any
) -> Any:
    """An encoder that pairs of the field have taught something already."""
    model = encoder_of(stage, source, **options)
    return warmed(model, source.table(200, *columns, seed=2), steps)


def ranking(**options: Any) -> Callable[[Any], Any]:
    return lambda model: losses.MultipleNegativesRankingLoss(model, **options)


def graded(source: Source, *columns: str, count: int = 120) -> Callable[[Any], float]:
    """A score: the rank correlation of cosines and scores of held-out pairs."""
    table = source.table(count, *columns, seed=HELD_OUT)
    return lambda model: correlation(model, table)


def rises(stage: Stage, scores: tuple[float, float], least: float = 0.03) -> None:
    """Keep the scores of a loop, and hold it to have raised its score."""
    before, after = scores
    keep(stage, before=before, after=after)
    assert after >= before + least, truth(stage)


def adam(*segments: Any, rate: float = 1e-3) -> torch.optim.Optimizer:
    return torch.optim.AdamW([row for segment in segments for row in segment.parameters()], lr=rate)
