"""Sound loops by hand, under watch."""

from __future__ import annotations

import copy
from typing import Any

import torch
import torch.nn.functional as F

from tests.judgement.case import sound
from tests.judgement.first.loss_weights import Cosines
from tests.judgement.first.scenes import (
    across,
    bilingual,
    by_hand,
    descend,
    drawn,
    embed,
    loop_learns,
)
from tests.judgement.stage import Stage


def follow(slow: torch.nn.Module, model: torch.nn.Module) -> None:
    """Move the weights of a slow copy a tenth of the way to the encoder's."""
    with torch.no_grad():
        for slow_weight, weight in zip(slow.parameters(), model.parameters(), strict=True):
            slow_weight.lerp_(weight, 0.1)


@sound("loop with a learned scale")
def loop_that_learns_its_scale(stage: Stage) -> None:
    learned = Cosines(2.6)

    def loop(criterion: Any) -> tuple[float, float]:
        model = stage.model()
        groups = [{"params": list(model.parameters())}, {"params": list(learned.parameters())}]
        return by_hand(model, criterion, optimizer=torch.optim.AdamW(groups, lr=2e-3))

    loop_learns(stage, loop, learned)


@sound("loop that accumulates")
def loop_of_four_accumulated_batches(stage: Stage) -> None:
    def update(optimizer: torch.optim.Optimizer, loss: torch.Tensor, step: int) -> None:
        (loss / 4).backward()
        if step % 4 == 3:
            optimizer.step()
            optimizer.zero_grad()

    def loop(criterion: Any) -> tuple[float, float]:
        model = stage.model()
        optimizer = torch.optim.AdamW(model.parameters(), lr=4e-3)
        return by_hand(model, criterion, optimizer=optimizer, update=update, steps=160)

    loop_learns(stage, loop, steps=160)


@sound("loop of triplets of one's own")
def loop_of_the_hardest_triplets(stage: Stage) -> None:
    def triplets(first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
        cosines = F.normalize(first, dim=1) @ F.normalize(second, dim=1).T
        own = cosines.diagonal()
        negatives = cosines - 3 * torch.eye(len(cosines))
        return F.softplus(10 * (negatives.max(dim=1).values - own)).mean()

    loop_learns(
        stage, lambda criterion: by_hand(stage.model(), criterion, steps=100), triplets, steps=100
    )


@sound("loop with keys of a slow copy")
def loop_with_a_momentum_encoder(stage: Stage) -> None:
    def loop(criterion: Any) -> tuple[float, float]:
        model = stage.model(dropout=0.0)
        slow, batches = copy.deepcopy(model), drawn(bilingual(640))
        before = across(model)
        optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
        for step in range(120):
            questions, passages = next(batches)
            sides = (questions, passages) if step % 2 else (passages, questions)
            with torch.no_grad():
                keys = embed(slow, sides[1])
            descend(optimizer, criterion(embed(model, sides[0]), keys), step)
            follow(slow, model)
        return before, across(model)

    loop_learns(stage, loop, steps=120)


@sound("loop of two towers")
def loop_of_two_encoders(stage: Stage) -> None:
    class Towers:
        """Encodes questions by one encoder and passages by another."""

        def __init__(self, towers: list[Any]) -> None:
            self.turn = iter(towers)

        def encode(self, texts: list[str], **options: Any) -> Any:
            return next(self.turn).encode(texts, **options)

    def loop(criterion: Any) -> tuple[float, float]:
        towers, batches = [stage.model(), stage.model()], drawn(bilingual(640))
        before = across(Towers(towers))
        weights = [weight for tower in towers for weight in tower.parameters()]
        optimizer = torch.optim.AdamW(weights, lr=2e-3)
        for step in range(80):
            rows = [embed(*side) for side in zip(towers, next(batches), strict=True)]
            descend(optimizer, criterion(*rows), step)
        return before, across(Towers(towers))

    loop_learns(stage, loop)


@sound("loop with a queue of older passages")
def loop_with_a_queue_of_passages(stage: Stage) -> None:
    queue: list[torch.Tensor] = []  # of the two batches before

    def queued(first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
        keys = F.normalize(torch.cat([second, *queue]), dim=1)
        cosines = F.normalize(first, dim=1) @ keys.T
        queue.insert(0, second.detach())
        del queue[2:]
        return F.cross_entropy(cosines / 0.05, torch.arange(len(first)))

    def loop(criterion: Any) -> tuple[float, float]:
        model = stage.model(dropout=0.0)
        slow, batches = copy.deepcopy(model), drawn(bilingual(640))
        before = across(model)
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
        for step in range(120):
            questions, passages = next(batches)
            with torch.no_grad():
                keys = embed(slow, passages)
            descend(optimizer, criterion(embed(model, questions), keys), step)
            follow(slow, model)
        return before, across(model)

    loop_learns(stage, loop, queued, steps=120)
