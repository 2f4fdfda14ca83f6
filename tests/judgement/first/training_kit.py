"""What the set-ups of this half share: scores of held-out texts, and the truth of a loop."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from tests.judgement.first.loop_materials import looped
from tests.judgement.first.turns import Rows, embed
from tests.judgement.stage import Stage
from tests.judgement.truth import correlation, keep, retrieval, truth

Score = Callable[[Any], float]


def by_rank(table: Mapping[str, Sequence[str]], **options: Any) -> Score:
    """A score: how well the second column's texts are found by the first's."""
    return lambda model: retrieval(model, table, **options)


def by_grades(table: Mapping[str, Sequence[Any]]) -> Score:
    """A score: the rank correlation of cosines and grades."""
    return lambda model: correlation(model, table)


def by_neighbour(table: Mapping[str, Sequence[Any]]) -> Score:
    """A score: how often the nearest other text is of the same class."""

    def score(model: Any) -> float:
        texts, labels = (list(column) for column in table.values())
        rows = model.encode(texts, normalize_embeddings=True, show_progress_bar=False)
        cosines = rows @ rows.T
        np.fill_diagonal(cosines, -2.0)
        return float((np.array(labels)[cosines.argmax(1)] == np.array(labels)).mean())

    return score


def by_precision(table: Mapping[str, Sequence[Any]]) -> Score:
    """A score: the average precision of cosines for pairs that match."""
    from sklearn.metrics import average_precision_score

    def score(model: Any) -> float:
        firsts, seconds, labels = table.values()
        rows = [model.encode(list(texts), normalize_embeddings=True, show_progress_bar=False)
                for texts in (firsts, seconds)]  # fmt: skip
        return float(average_precision_score(list(labels), (rows[0] * rows[1]).sum(1)))

    return score


def similarities(first: Tensor, second: Tensor) -> Tensor:
    """Cosines of all rows with all rows."""
    return F.normalize(first, dim=-1) @ F.normalize(second, dim=-1).T


def cross_entropy(first: Tensor, second: Tensor, scale: float = 20.0) -> Tensor:
    """InfoNCE: each row's partner among all rows of the second."""
    return F.cross_entropy(scale * similarities(first, second), torch.arange(len(first)))


def adamw(*modules: Any, rate: float = 2e-3, decay: float = 0.01) -> torch.optim.Optimizer:
    """AdamW over the weights of modules that train."""
    weights = [row for module in modules for row in module.parameters() if row.requires_grad]
    return torch.optim.AdamW(weights, lr=rate, weight_decay=decay)


def down(optimizer: torch.optim.Optimizer, value: Tensor, *, most: float = 0.0) -> None:
    """One step down the gradient, whose norm is held to ``most`` if it is not 0."""
    optimizer.zero_grad()
    value.backward()
    if most:
        weights = [row for group in optimizer.param_groups for row in group["params"]]
        torch.nn.utils.clip_grad_norm_(weights, most)
    optimizer.step()


def columns_of(model: Any, cells: Sequence[Sequence[Any]]) -> list[Tensor]:
    """Embeddings of the columns of texts, and numbers as tensors."""
    return [embed(model, column) if isinstance(column[0], str) else torch.tensor(column)
            for column in cells]  # fmt: skip


def simple(
    model: Any, table: Mapping[str, Sequence[Any]], optimizer: torch.optim.Optimizer,
    *, size: int = 16, most: float = 0.0, schedule: Any = None,
) -> Callable[[Any, int], None]:  # fmt: skip
    """The ordinary step of a loop over shuffled rows: embed, loss, step."""
    rows = Rows(table, size)

    def update(criterion: Any, step: int) -> None:
        down(optimizer, criterion(*columns_of(model, rows())), most=most)
        if schedule is not None:
            schedule.step()

    return update


def rises(
    stage: Stage, model: Any, loss: Callable[..., Tensor], update: Callable[[Any, int], None],
    score: Score, *, steps: int = 80, least: float = 0.1,
) -> None:  # fmt: skip
    """Play a sound loop, and hold its score of held-out texts to rise."""
    before, after = looped(stage, model, loss, update, steps=steps, score=score)
    keep(stage, before=before, after=after)
    assert after >= before + least, truth(stage)


def several(
    stage: Stage, model: Any, tables: Mapping[str, Mapping[str, Sequence[Any]]],
    losses: Mapping[str, Any], **arguments: Any,
) -> Any:  # fmt: skip
    """A trainer of sentence-transformers over several data sets with a loss of each."""
    from datasets import Dataset, DatasetDict
    from sentence_transformers import (
        SentenceTransformerTrainer,
        SentenceTransformerTrainingArguments,
    )

    settings = {
        "output_dir": str(stage.folder / "run"), "per_device_train_batch_size": 16, "seed": 7,
        "learning_rate": 2e-3, "warmup_steps": 6, "use_cpu": True, "report_to": "none",
        "save_strategy": "no", "logging_steps": 5, "disable_tqdm": True,
    }  # fmt: skip
    return SentenceTransformerTrainer(
        model=model,
        args=SentenceTransformerTrainingArguments(**{**settings, **arguments}),
        train_dataset=DatasetDict(
            {name: Dataset.from_dict(dict(table)) for name, table in tables.items()}
        ),
        loss=dict(losses),
    )
