"""What the set-ups share: encoders for a field, scores of texts that training does not see."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch

from tests.judgement.first.bodies import encoder, words_of
from tests.judgement.first.loop_materials import looped
from tests.judgement.first.made_fields import Wordings
from tests.judgement.stage import Stage
from tests.judgement.truth import correlation, keep, retrieval, truth
from tests.sentence_training import losses

Table = Mapping[str, Sequence[Any]]


def encoder_of(
    stage: Stage, source: Wordings | Sequence[Table], *behind: Any, **options: Any
) -> Any:
    """A fresh encoder that knows the words of a field or of tables."""
    words = source.words() if isinstance(source, Wordings) else words_of(source)
    return encoder(stage, words, *behind, **options)


def ranking(model: Any) -> Any:
    return losses.MultipleNegativesRankingLoss(model)


def seeks(field: Wordings, count: int = 80, **options: Any) -> Callable[[Any], float]:
    """How well held-out rows of a field are found."""
    return lambda model: field.sought(model, count, **options)


def seeks_in(make: Callable[..., Table], count: int = 60) -> Callable[[Any], float]:
    """How well held-out rows of two columns are found."""
    return lambda model: retrieval(model, dict(list(make(count, 11).items())[:2]))


def agrees(table: Table) -> Callable[[Any], float]:
    """The rank correlation of cosines with the scores of held-out pairs."""
    return lambda model: correlation(model, table)


def neighbours(table: Table) -> Callable[[Any], float]:
    """The share of held-out texts whose nearest neighbour is of their class."""

    def score(model: Any) -> float:
        rows = model.encode(list(table["text"]), show_progress_bar=False)
        rows = rows / np.linalg.norm(rows, axis=1, keepdims=True)
        cosines = rows @ rows.T
        np.fill_diagonal(cosines, -2)
        labels = np.array(table["label"])
        return float((labels[cosines.argmax(1)] == labels).mean())

    return score


def judged_pairs(field: Wordings, count: int, seed: int = 0) -> dict[str, list[Any]]:
    """Pairs that belong together (1), and pairs of which one slot differs (0), in turn."""
    table = field.answers(count, seed, wrong=2)
    wrong = [table[f"negative_{1 + at % 2}"][at] for at in range(count)]
    return {
        "first": [text for text in table["anchor"] for _ in range(2)],
        "second": [
            text for two_views in zip(table["positive"], wrong, strict=True) for text in two_views
        ],
        "label": [1, 0] * count,
    }


def loop_rises(
    stage: Stage, model: Any, loss: Callable[..., torch.Tensor],
    update: Callable[[Any, int], None], score: Callable[[Any], float], *,
    steps: int = 80, least: float = 0.1,
) -> None:  # fmt: skip
    """Train a loop whose ``update(criterion, step)`` does a step; its score must rise."""
    before = score(model.eval())

    def trained(criterion: Any, step: int) -> None:
        model.train()
        update(criterion, step)

    looped(stage, model, loss, trained, steps=steps, score=lambda _: 0.0)
    keep(stage, before=before, after=score(model.eval()))
    assert truth(stage)["after"] >= before + least, truth(stage)
