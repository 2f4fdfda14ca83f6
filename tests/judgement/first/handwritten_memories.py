"""Sound loops of one's own: queues, memories, fixed indexes, and hard negatives over time."""

from __future__ import annotations

import copy
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.judgement.case import sound
from tests.judgement.first.beside import adam
from tests.judgement.first.trades_and_texts import (
    BANK,
    CHEMISTRY,
    GARDEN,
    JOBS,
    WEATHER,
    descent,
    encoder_of,
    finds,
    near_texts,
)
from tests.judgement.first.turns import (
    Rows,
    cosines,
    embed,
    infonce,
    stepped,
    turn,
    warmed,
)
from tests.judgement.stage import Stage
from tests.judgement.truth import reciprocal_rank


def follow(slow: nn.Module, quick: nn.Module, share: float) -> None:
    """Move the weights of a slow copy a little towards the quick ones."""
    with torch.no_grad():
        for behind, ahead in zip(slow.parameters(), quick.parameters(), strict=True):
            behind.lerp_(ahead, share)


class QueuedKeys:
    """InfoNCE among keys of this batch and a queue of earlier ones, as in MoCo."""

    def __init__(self, size: int = 96) -> None:
        self._keys, self._size = torch.empty(0, 48), size

    def __call__(self, queries: Tensor, keys: Tensor) -> Tensor:
        candidates = torch.cat([keys, self._keys])
        self._keys = candidates.detach()[: self._size]
        return infonce(queries, candidates)


@sound("momentum encoder with a queue")
def queued_keys_of_slow_encoder(stage: Stage) -> None:
    """MoCo: keys come from a slow copy without gradient, and a queue keeps the earlier ones."""
    model = warmed(encoder_of(stage, WEATHER), WEATHER.table(100, seed=4), steps=4)
    slow = copy.deepcopy(model).train().requires_grad_(False)
    rows, optimizer = Rows(WEATHER.table(400)), adam(model, rate=1e-3)

    def update(criterion: Any, step: int) -> None:
        first, second = rows()
        with torch.no_grad():
            keys = embed(slow, second)
        stepped(optimizer, criterion(embed(model, first), keys))
        follow(slow, model, 0.1)

    turn(stage, model, QueuedKeys(), update, finds(WEATHER), steps=80)


@sound("memory of earlier batches, of a library")
def earlier_batches_remembered_by_a_library(stage: Stage) -> None:
    """The cross-batch memory of pytorch-metric-learning; a pair's label is its row's number."""
    from pytorch_metric_learning.losses import CrossBatchMemory, NTXentLoss

    memory = CrossBatchMemory(NTXentLoss(temperature=0.05), 48, memory_size=96)

    def remembered(first: Tensor, second: Tensor, numbers: Tensor) -> Tensor:
        return memory(torch.cat([first, second]), numbers.repeat(2))

    model = warmed(encoder_of(stage, GARDEN), GARDEN.table(100, seed=4), steps=5)
    table = GARDEN.table(400) | {"row": list(range(400))}
    turn(stage, model, remembered, descent(model, table, rate=5e-4), finds(GARDEN), steps=60)


@sound(
    "queries tuned to a fixed index",
    allowed={"Views": "An index that stays is meant here, which a report cannot tell."},
)
def queries_tuned_to_a_fixed_index(stage: Stage) -> None:
    """The index of documents exists and stays; only the encoder of queries is tuned to it."""
    fixed = warmed(encoder_of(stage, BANK), BANK.table(200, seed=4), steps=8)
    model = copy.deepcopy(fixed)
    rows, optimizer = Rows(BANK.table(480), 32), adam(model, rate=1e-3)

    def update(criterion: Any, step: int) -> None:
        first, second = rows()
        with torch.no_grad():
            documents = embed(fixed, second)
        stepped(optimizer, criterion(embed(model, first), documents))

    def across(model: Any) -> float:
        first, second = BANK.table(100, seed=11).values()
        return reciprocal_rank(
            model.encode(first, show_progress_bar=False),
            fixed.encode(second, show_progress_bar=False),
        )

    turn(stage, model, infonce, update, across, steps=60)


@sound("hard negatives mined anew")
def negatives_mined_anew_every_twenty_steps(stage: Stage) -> None:
    """As ANCE: the encoder seeks new negatives now and then among the ranks 4 to 12."""
    table = JOBS.table(320)
    searches, adverts = table.values()
    model = encoder_of(stage, JOBS)
    numbers = Rows({"row": list(range(320))}, 16)
    optimizer, mined = adam(model, rate=2e-3), list[list[int]]()

    def mine_negatives() -> None:
        model.eval()
        similar = model.similarity(
            model.encode(searches, show_progress_bar=False),
            model.encode(adverts, show_progress_bar=False),
        )
        mined[:] = similar.fill_diagonal_(-1).argsort(1, descending=True)[:, 3:12].tolist()
        model.train()

    def update(criterion: Any, step: int) -> None:
        if step % 20 == 0:
            mine_negatives()
        (batch,) = numbers()
        texts = [[searches[row] for row in batch], [adverts[row] for row in batch],
                 [adverts[mined[row][step % 9]] for row in batch]]  # fmt: skip
        stepped(optimizer, criterion(*(embed(model, column) for column in texts)))

    def own_and_mined(first: Tensor, second: Tensor, third: Tensor) -> Tensor:
        logits = torch.cat([cosines(first, second), F.cosine_similarity(first, third)[:, None]], 1)
        return F.cross_entropy(20 * logits, torch.arange(len(first)))

    turn(stage, model, own_and_mined, update, finds(JOBS), steps=60)


@sound("easy pairs first, then hard negatives")
def negatives_from_the_second_half_on(stage: Stage) -> None:
    """A curriculum: pairs alone at first, and hard negatives beside them afterwards."""
    model = encoder_of(stage, CHEMISTRY)
    table = CHEMISTRY.table(400) | {"negative": near_texts(CHEMISTRY, 400, 1)}
    rows, optimizer = Rows(table), adam(model, rate=2e-3)

    def ranking(first: Tensor, second: Tensor, third: Tensor | None = None) -> Tensor:
        return infonce(first, second if third is None else torch.cat([second, third]))

    def update(criterion: Any, step: int) -> None:
        columns = rows()[: 2 if step < 25 else 3]
        stepped(optimizer, criterion(*(embed(model, column) for column in columns)))

    turn(stage, model, ranking, update, finds(CHEMISTRY), steps=50)
