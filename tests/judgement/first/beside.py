"""Loops of one's own, each played beside its mended counterpart."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from tests.judgement.first.turns import Rows, embed, looped, stepped
from tests.judgement.stage import Stage, pairs
from tests.judgement.truth import SHARE, among_alike, falls_short

# Words of a verdict that says that nothing is learned.
IDLE = (
    r"(?i)(weights?|parameters?|encoder|model|embeddings?|layers?)\b.{0,60}"
    r"(not|never|hardly|barely|n't).{0,20}(mov|chang|updat|learn|train)",
    r"(?i)no gradient|without (a )?gradient|gradients?.{0,40}(\bzero\b|\b0\b|vanish|missing|none)",
    r"(?i)nothing (is|was) (learn|train)|frozen|stand(s|ing)? still|unchanged",
)
# Words of a verdict that says that positives do not belong to their anchors.
UNRELATED = (
    r"(?i)(unrelated|mismatch|misalign|do(es)? not (fit|match|belong|go together)|shuffl|shift)",
    r"(?i)(positives?|pairs?|partners?|labels?).{0,80}(wrong|chance|random|no closer|not closer|"
    r"no more (alike|similar)|other row)",
    r"(?i)(wrong|other|another) (row|positive|partner|pair|label)s?",
)


@dataclass
class Loop:
    """A loop: its encoder, its criterion and what it does in a step."""

    model: Any
    loss: Callable[..., Tensor]
    update: Callable[[Any, int], None]


def adam(*modules: Any, rate: float = 1e-3) -> torch.optim.Optimizer:
    """AdamW over the weights of modules."""
    return torch.optim.AdamW([row for module in modules for row in module.parameters()], lr=rate)


def loops_beside(
    stage: Stage,
    build: Callable[[bool], Loop],
    score: Callable[[Any], float] = among_alike,
    *,
    steps: int = 50,
    share: float | None = SHARE,
) -> None:
    """Play ``build(True)``, the faulty loop, and train ``build(False)``, the mended loop."""
    faulty = build(True)
    before = score(faulty.model)

    def update(criterion: Any, step: int) -> None:
        faulty.model.train()
        faulty.update(criterion, step)

    looped(stage, faulty.model, faulty.loss, update, steps=steps)
    after = score(faulty.model.eval())
    mended = build(False)
    start = score(mended.model)
    mended.model.train()
    for step in range(steps):
        mended.update(mended.loss, step)
    falls_short(stage, (before, after), (start, score(mended.model.eval())), share=share)


def losses_beside(
    stage: Stage,
    faulty: Callable[..., Tensor],
    mended: Callable[..., Tensor],
    score: Callable[[Any], float] = among_alike,
    *,
    table: Mapping[str, Sequence[Any]] | None = None,
    rate: float = 1e-3,
    steps: int = 50,
    share: float | None = SHARE,
    encoder: Callable[[], Any] | None = None,
) -> None:
    """Play a plain loop over a table with a faulty loss, and with the mended one."""

    def build(slip: bool) -> Loop:
        model = (encoder or stage.model)()
        rows, optimizer = Rows(pairs() if table is None else table), adam(model, rate=rate)

        def update(criterion: Any, step: int) -> None:
            stepped(optimizer, criterion(*(told_apart(model, column) for column in rows())))

        return Loop(model, faulty if slip else mended, update)

    loops_beside(stage, build, score, steps=steps, share=share)


def told_apart(model: Any, column: Sequence[Any]) -> Tensor:
    """Embeddings of a column of texts, and numbers as they are."""
    if isinstance(column[0], str):
        return embed(model, column)
    return torch.tensor(column)
