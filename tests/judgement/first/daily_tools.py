"""What the set-ups share: vocabularies of fields, encoders, optimisers, and the truth of loops."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from tests.judgement.first.bodies import encoder
from tests.judgement.first.fields import Field
from tests.judgement.first.turns import cosines, embed, stepped
from tests.judgement.stage import Stage
from tests.judgement.truth import correlation, keep, truth
from tests.sentence_training import losses

# Settings of most trainers.
QUICK = {"learning_rate": 2e-3, "per_device_train_batch_size": 32, "max_steps": 80}


def lexicon(*fields: Field) -> list[str]:
    """All texts that hold the words of fields, in a fixed order."""
    texts: list[str] = []
    for field in fields:
        for entries in field.slots.values():
            texts.append(entries.replace("/", " ").replace("_", " "))
            texts += [
                wording.replace("_", " ")
                for entry in entries.split()
                for wording in entry.split("/")
            ]
        texts += [text for column in field.table(120, seed=4).values() for text in column]
    return texts


def reader(stage: Stage, field: Field, *behind: Any, **options: Any) -> Any:
    """An encoder with the words of a field."""
    return encoder(stage, lexicon(field), *behind, **options)


def adamw(*modules: Any, rate: float = 2e-3, decay: float = 0.01) -> torch.optim.Optimizer:
    """AdamW over the weights of modules that learn."""
    weights = [row for module in modules for row in module.parameters() if row.requires_grad]
    return torch.optim.AdamW(weights, lr=rate, weight_decay=decay)


def rises(stage: Stage, scores: tuple[float, float], least: float = 0.1) -> None:
    """Keep the scores of a loop, and hold it to have raised them."""
    before, after = scores
    keep(stage, before=before, after=after)
    assert after >= before + least, truth(stage)


def simple(model: Any, rows: Callable[[], list[Any]], optimizer: Any) -> Callable[..., None]:
    """The step of an ordinary loop over columns of texts and numbers."""

    def update(criterion: Any, step: int) -> None:
        stepped(optimizer, criterion(*(as_rows(model, column) for column in rows())))

    return update


def as_rows(model: Any, column: Sequence[Any]) -> Tensor:
    """Embeddings of texts; numbers as they are."""
    return embed(model, column) if isinstance(column[0], str) else torch.tensor(column)


def both_ways(first: Tensor, second: Tensor, scale: float = 20.0) -> Tensor:
    """The symmetric InfoNCE of CLIP."""
    logits, own = scale * cosines(first, second), torch.arange(len(first))
    return (F.cross_entropy(logits, own) + F.cross_entropy(logits.T, own)) / 2


def grades(field: Field, **options: Any) -> Callable[[Any], float]:
    """The rank correlation with the grades of held-out pairs."""
    return lambda model: correlation(model, field.graded(100, seed=11, **options))


def with_negatives(
    field: Field, count: int, *slots: int, seed: int = 0, column: int = 1
) -> dict[str, list[str]]:
    """Pairs with a hard negative for each of some slots, in which it differs."""
    table: Mapping[str, list[str]] = dict(list(field.table(count, seed).items())[:2])
    extras = {
        f"negative_{slot + 1}": field.near(count, seed, slot=slot, column=column) for slot in slots
    }
    return {**table, **extras}


def development(field: Field, count: int = 40) -> dict[str, list[str]]:
    """Held-out rows to choose a checkpoint by; those of the score are the first of their draw."""
    return {name: texts[100:] for name, texts in field.table(100 + count, seed=11).items()}


def ranked(model: Any, **options: Any) -> Any:
    """The usual ranking loss with negatives of the batch."""
    return losses.MultipleNegativesRankingLoss(model, **options)
