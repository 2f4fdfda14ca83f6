"""What the loops of this half share: encoders made for a field, optimisers, plain steps."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from tests.judgement.first.bodies import encoder, words_of
from tests.judgement.first.turns import Rows, embed, infonce, stepped
from tests.judgement.stage import Stage
from tests.judgement.truth import keep, truth

Table = dict[str, list[Any]]


def prepared(
    stage: Stage, field: Any, count: int = 320, selection: int = 80, *behind: Any, **options: Any
) -> tuple[Any, Table, Table]:
    """An encoder with the words of a field, its table for training and that for scores."""
    table_of = getattr(field, "table", field)
    train, held = table_of(count), table_of(selection, seed=11)
    words = words_of([train, held], *options.pop("further", ()))
    return encoder(stage, words, *behind, **options), train, held


def parted(table: Table, count: int) -> tuple[Table, Table]:
    """The first ``count`` rows of a table for training, and the rest to validate on."""
    return ({name: column[:count] for name, column in table.items()},
            {name: column[count:] for name, column in table.items()})  # fmt: skip


def adam(*modules: Any, rate: float = 2e-3, decay: float = 0.01) -> torch.optim.Optimizer:
    """AdamW over all weights of modules that are to be trained."""
    weights = [row for module in modules for row in module.parameters() if row.requires_grad]
    return torch.optim.AdamW(weights, lr=rate, weight_decay=decay)


def taught(model: Any, table: Mapping[str, Sequence[Any]], steps: int = 120, rate: float = 2e-3,
           size: int = 32) -> Any:  # fmt: skip
    """Train an encoder on the first two columns, as one that is taken ready-made."""
    rows = Rows(dict(list(table.items())[:2]), size, seed=3)
    optimizer = adam(model.train(), rate=rate)
    for _ in range(steps):
        stepped(optimizer, infonce(*(embed(model, column) for column in rows())))
    return model.eval()


def cells(model: Any, column: Sequence[Any]) -> Tensor:
    """Embeddings of a column of texts, and a column of numbers as a tensor."""
    return embed(model, column) if isinstance(column[0], str) else torch.tensor(column)


def plain(model: Any, rows: Callable[[], Any], optimizer: Any, schedule: Any = None,
          clip: float = 0.0) -> Callable[[Any, int], None]:  # fmt: skip
    """The step of a loop: embed the columns, compute the loss, clip, update, move the rate."""

    def update(criterion: Any, step: int) -> None:
        loss = criterion(*(cells(model, column) for column in rows()))
        optimizer.zero_grad()
        loss.backward()
        if clip:
            torch.nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimizer.step()
        if schedule is not None:
            schedule.step()

    return update


def rises(stage: Stage, before: float, after: float, least: float = 0.05) -> None:
    """Keep the scores of a sound loop, and hold it to have raised its score."""
    keep(stage, before=before, after=after)
    assert after >= before + least, truth(stage)
