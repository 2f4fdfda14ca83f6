"""Sound loops of one's own: caches, queues, towers, miners, precisions and rates."""

from __future__ import annotations

import copy
import random
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn

from tests.judgement.case import sound
from tests.judgement.first.fields_of_scripts_and_signs import (
    CHEMISTRY,
    HANZI,
    JOBS,
    MAILS,
    MATCHES,
    METERS,
    RHYMES,
    SCRIPTS,
    SHELL,
    SHELVES,
    encoder_of,
    pairs_of,
    ragged_pairs,
    seeks,
    seeks_ragged,
)
from tests.judgement.first.losses_in_loops import adam, step_of
from tests.judgement.first.turns import (
    Rows,
    cosines,
    counted,
    embed,
    infonce,
    stepped,
    turn,
    warmed,
)
from tests.judgement.stage import Stage
from tests.judgement.truth import reciprocal_rank


@sound("gradient cache by hand")
def gradient_cache_over_job_adverts(stage: Stage) -> None:
    """Chunks are embedded twice, with the same dropout."""
    model, chunk = encoder_of(stage, JOBS, width=32), 16
    rows, optimizer = Rows(pairs_of(JOBS, 384), 48), adam(model, 4e-3)

    def update(criterion: Any, step: int) -> None:
        columns, states, cached = rows(), list[Tensor](), list[Tensor]()
        chunks = [column[at : at + chunk] for column in columns for at in range(0, 48, chunk)]
        with torch.no_grad():
            for texts in chunks:
                states.append(torch.get_rng_state())
                cached.append(embed(model, texts).requires_grad_())
        first, second = torch.cat(cached[:3]), torch.cat(cached[3:])
        criterion(first, second).backward()
        optimizer.zero_grad()
        for texts, state, leaf in zip(chunks, states, cached, strict=True):
            torch.set_rng_state(state)
            embed(model, texts).backward(leaf.grad)
        optimizer.step()

    turn(stage, model, infonce, update, seeks(JOBS), steps=36)


@sound("momentum encoder and a queue")
def queue_of_a_momentum_encoder(stage: Stage) -> None:
    """As in MoCo, after a short start; rows of the queue that are the anchor's own are masked."""
    table = pairs_of(CHEMISTRY, 320)
    model = warmed(encoder_of(stage, CHEMISTRY), table, 8)
    slow = copy.deepcopy(model).requires_grad_(False)
    rows, optimizer = Rows({**table, "row": range(320)}, 32), adam(model)
    queue, owners = torch.empty(0, 48), torch.empty(0, dtype=torch.long)

    def moco(anchors: Tensor, keys: Tensor, queue: Tensor, own: Tensor) -> Tensor:
        logits = torch.cat([cosines(anchors, keys), cosines(anchors, queue)], 1) / 0.07
        return F.cross_entropy(logits.masked_fill(own, -1e4), torch.arange(len(anchors)))

    def update(criterion: Any, step: int) -> None:
        nonlocal queue, owners
        names, formulas, numbers = rows()
        numbers = torch.tensor(numbers)
        with torch.no_grad():
            keys = embed(slow, formulas)
        own = torch.cat([
            torch.zeros(len(numbers), len(numbers), dtype=torch.bool),
            numbers[:, None] == owners[None],
        ], 1)  # fmt: skip
        stepped(optimizer, criterion(embed(model, names), keys, queue, own))
        queue = torch.cat([keys, queue])[:96]
        owners = torch.cat([numbers, owners])[:96]
        with torch.no_grad():
            for mean, weight in zip(slow.parameters(), model.parameters(), strict=True):
                mean.lerp_(weight, 0.2)

    turn(stage, model, moco, update, seeks(CHEMISTRY), steps=80)


@sound("two towers")
def towers_for_wishes_and_for_commands(stage: Stage) -> None:
    towers = nn.ModuleList([
        encoder_of(stage, SHELL, name="wishes", seed=1),
        encoder_of(stage, SHELL, name="commands", seed=2, width=48, layers=1),
    ])  # fmt: skip
    rows, optimizer = Rows(pairs_of(SHELL, 320), 32), adam(towers)

    def update(criterion: Any, step: int) -> None:
        embedded = [embed(tower, column) for tower, column in zip(towers, rows(), strict=True)]
        stepped(optimizer, criterion(*embedded))

    def score(towers: Any) -> float:
        columns = pairs_of(SHELL, 60, seed=11).values()
        return reciprocal_rank(*(
            tower.encode(list(texts), show_progress_bar=False)
            for tower, texts in zip(towers, columns, strict=True)
        ))  # fmt: skip

    turn(stage, towers, infonce, update, score, steps=60)


@sound("accumulation, clipping and one cycle of the rate")
def accumulation_with_one_cycle(stage: Stage) -> None:
    model = encoder_of(stage, METERS)
    rows, optimizer = Rows(pairs_of(METERS, 360), 20), adam(model)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, 4e-3, total_steps=45, cycle_momentum=False
    )

    def update(criterion: Any, step: int) -> None:
        counted(criterion, step)
        optimizer.zero_grad()
        for _ in range(3):
            (criterion(*(embed(model, column) for column in rows())) / 3).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()

    turn(stage, model, infonce, update, seeks(METERS), steps=45)


@sound("plain descent with Nesterov momentum")
def descent_with_nesterov_momentum(stage: Stage) -> None:
    model = encoder_of(stage, RHYMES, spread=0.1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, nesterov=True)
    update = step_of(model, pairs_of(RHYMES, 320), optimizer, 32)
    turn(stage, model, infonce, update, seeks(RHYMES), steps=100)


@sound("autocast to bfloat16, loss in full precision")
def autocast_for_ragged_mails(stage: Stage) -> None:
    model = encoder_of(stage, MAILS)
    rows, optimizer = Rows(ragged_pairs(MAILS, 320), 32), adam(model)

    def update(criterion: Any, step: int) -> None:
        with torch.autocast("cpu", torch.bfloat16):
            embedded = [embed(model, column) for column in rows()]
        stepped(optimizer, criterion(*(cells.float() for cells in embedded)))

    turn(stage, model, infonce, update, seeks_ragged(MAILS), steps=70)


@sound("rates that fall with depth, and no decay of norms")
def rates_that_fall_with_depth(stage: Stage) -> None:
    model = encoder_of(stage, SCRIPTS, layers=3)
    groups = []
    for name, weight in model.named_parameters():
        depth = int(name.split("layer.")[1].split(".")[0]) + 1 if "layer." in name else 0
        decay = 0.0 if "norm" in name.lower() or name.endswith("bias") else 0.01
        groups.append({"params": [weight], "lr": 3e-3 * 0.8 ** (3 - depth), "weight_decay": decay})
    update = step_of(model, pairs_of(SCRIPTS, 320), torch.optim.AdamW(groups), 24)
    turn(stage, model, infonce, update, seeks(SCRIPTS), steps=60)


@sound("hard negatives that are mined anew by the encoder itself")
def negatives_mined_anew_while_training(stage: Stage) -> None:
    model, table = encoder_of(stage, SHELVES), pairs_of(SHELVES, 320)
    queries, marks = table.values()
    rows, optimizer = Rows({**table, "row": range(320)}, 20), adam(model)
    draw, near = random.Random(2), list[Sequence[int]]()

    def mine() -> None:
        model.eval()
        first, second = (model.encode(texts, show_progress_bar=False) for texts in (queries, marks))
        second /= np.linalg.norm(second, axis=1, keepdims=True)
        likeness = first @ second.T
        np.fill_diagonal(likeness, -np.inf)
        near[:] = np.argsort(-likeness, 1)[:, :10].tolist()
        model.train()

    def mined(anchors: Tensor, positives: Tensor, negatives: Tensor) -> Tensor:
        logits = torch.cat([cosines(anchors, positives), cosines(anchors, negatives)], 1) / 0.05
        return F.cross_entropy(logits, torch.arange(len(anchors)))

    def update(criterion: Any, step: int) -> None:
        if step % 15 == 0:
            mine()
        first, second, numbers = rows()
        third = [marks[draw.choice(near[at])] for at in numbers]
        stepped(optimizer, criterion(*(embed(model, texts) for texts in (first, second, third))))

    turn(stage, model, mined, update, seeks(SHELVES), steps=60)


class LetterGru(nn.Module):
    """A recurrent encoder of letters, which reads texts in two directions."""

    def __init__(self, letters: str, width: int = 32) -> None:
        super().__init__()
        torch.manual_seed(4)
        self._places = {letter: at for at, letter in enumerate(letters, 1)}
        self.table = nn.Embedding(len(letters) + 1, width, padding_idx=0)
        self.gru = nn.GRU(width, width, batch_first=True, bidirectional=True)

    def forward(self, texts: Sequence[str]) -> Tensor:
        rows = [torch.tensor([self._places.get(letter, 0) for letter in text]) for text in texts]
        lengths = torch.tensor([len(row) for row in rows])
        letters = nn.utils.rnn.pad_sequence(rows, batch_first=True)
        packed = nn.utils.rnn.pack_padded_sequence(
            self.table(letters), lengths, batch_first=True, enforce_sorted=False
        )
        states, _ = nn.utils.rnn.pad_packed_sequence(self.gru(packed)[0], batch_first=True)
        inside = (torch.arange(states.shape[1])[None] < lengths[:, None])[..., None]
        return (states * inside).sum(1) / lengths[:, None]

    @torch.no_grad()
    def encode(self, texts: Sequence[str], **_: Any) -> np.ndarray:
        return self(texts).numpy()


@sound("recurrent encoder of letters in plain PyTorch")
def recurrent_encoder_of_hanzi_and_pinyin(stage: Stage) -> None:
    table = pairs_of(HANZI, 400)
    letters = "".join(sorted(set("".join([*table["hanzi"], *table["pinyin"]]))))
    model = LetterGru(letters)
    rows, optimizer = Rows(table, 32), torch.optim.Adam(model.parameters(), lr=1e-2)

    def update(criterion: Any, step: int) -> None:
        stepped(optimizer, criterion(*(model(column) for column in rows())))

    turn(stage, model, infonce, update, seeks(HANZI), steps=80)


def gathered_in_two_directions(first: Tensor, second: Tensor) -> Tensor:
    """InfoNCE in two directions among the rows of all processes, with their gradient."""
    from torch.distributed.nn.functional import all_gather

    rank, alone = 0, not (dist.is_available() and dist.is_initialized())
    all_first, all_second = first, second
    if not alone:
        rank = dist.get_rank()
        all_first, all_second = (torch.cat(all_gather(rows)) for rows in (first, second))
    own = torch.arange(len(first)) + rank * len(first)
    forth = F.cross_entropy(cosines(first, all_second) / 0.05, own)
    back = F.cross_entropy(cosines(second, all_first) / 0.05, own)
    return (forth + back) / 2


@sound("rows gathered with their gradient, in two directions")
def rows_gathered_in_two_directions(stage: Stage) -> None:
    stage.audit(gathered_in_two_directions)
    model = encoder_of(stage, MATCHES)
    update = step_of(model, pairs_of(MATCHES, 320), adam(model), 32)
    turn(stage, model, gathered_in_two_directions, update, seeks(MATCHES), steps=70)
