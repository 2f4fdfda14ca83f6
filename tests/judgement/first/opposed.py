"""Faulty loops of one's own beside their mended counterparts, and encoders of made-up fields."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from tests.judgement.first.bodies import encoder, words_of
from tests.judgement.first.fields import Field
from tests.judgement.first.turns import Rows, embed, infonce, looped, stepped
from tests.judgement.stage import Stage
from tests.judgement.truth import SHARE, falls_short


class Loop:
    """A loop over batches of a table; subclasses change what a step does.

    Attributes:
        model: encoder that is trained.
        loss: function of a batch's embeddings.
    """

    def __init__(
        self, model: Any, table: Mapping[str, Sequence[Any]], loss: Callable[..., Tensor] = infonce,
        *, rate: float = 1e-3, size: int = 16, further: Sequence[Tensor] = (),
    ) -> None:  # fmt: skip
        self.model, self.loss, self.rows = model, loss, Rows(table, size)
        self.optimizer: Any = torch.optim.AdamW([*model.parameters(), *further], lr=rate)

    def inputs(self) -> list[Tensor]:
        """What the loss gets: embeddings of the columns of texts, and tensors of the others."""
        return [
            embed(self.model, column) if isinstance(column[0], str) else torch.tensor(column)
            for column in self.rows()
        ]

    def update(self, criterion: Callable[..., Tensor], step: int) -> None:
        """Do a step."""
        stepped(self.optimizer, criterion(*self.inputs()))

    def __call__(self, criterion: Callable[..., Tensor], step: int) -> None:
        self.model.train()
        self.update(criterion, step)


def hampered(
    stage: Stage, build: Callable[[bool], Loop], score: Callable[[Any], float], *,
    steps: int = 50, share: float | None = SHARE,
) -> None:  # fmt: skip
    """Train the loop that ``build`` makes with its fault under watch, and without it unwatched."""
    loop = build(True)
    before = score(loop.model.eval())
    torch.manual_seed(1)
    looped(stage, loop.model, loop.loss, loop, steps=steps)
    after = score(loop.model.eval())
    mended = build(False)
    start = score(mended.model.eval())
    torch.manual_seed(1)
    for step in range(steps):
        mended(mended.loss, step)
    falls_short(stage, (before, after), (start, score(mended.model.eval())), share=share)


def encoder_of(stage: Stage, field: Field, *further: str, **options: Any) -> Any:
    """A fresh encoder whose vocabulary has the words of a field and of further texts."""
    texts = [field.table(200), field.table(50, 1)]
    return encoder(stage, words_of(texts, *further), **options)


def ranking(model: Any, **options: Any) -> Any:
    """The library's ranking loss."""
    from tests.sentence_training import losses

    return losses.MultipleNegativesRankingLoss(model, **options)
