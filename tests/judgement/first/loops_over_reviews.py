"""Sound loops of one's own with labels or pairs: losses by hand, memories, towers, caches."""

from __future__ import annotations

import copy
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from tests.judgement.case import sound
from tests.judgement.first.fields_of_reviews_and_cards import (
    ALARMS,
    CHEMISTRY,
    GREEK,
    MAILS,
    QUERIES,
    RUSSIAN,
    SHORT,
    adamw,
    class_score,
    classed,
    judged,
    of_field,
    seek,
    triples,
    unit,
)
from tests.judgement.first.turns import Rows, cosines, counted, embed, infonce, stepped, turn
from tests.judgement.stage import Stage
from tests.judgement.truth import correlation, reciprocal_rank


def both_ways(first: Tensor, second: Tensor) -> Tensor:
    return (infonce(first, second) + infonce(second, first)) / 2


@sound("ranking in two directions, clipped")
def symmetric_loop_over_reactions_with_clipping(stage: Stage) -> None:
    model, rows = of_field(stage, CHEMISTRY), Rows(CHEMISTRY.table(320), 24)
    optimizer = adamw(model)

    def update(criterion: Any, step: int) -> None:
        loss = criterion(*(embed(model, column) for column in rows()))
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()

    turn(stage, model, both_ways, update, seek(CHEMISTRY), steps=60)


def supervised(rows: Tensor, labels: Tensor) -> Tensor:
    """The supervised contrastive loss: all texts of the class are positives."""
    own = torch.eye(len(rows), dtype=torch.bool)
    logits = (cosines(rows, rows) / 0.1).masked_fill(own, -1e9)
    alike = (labels[:, None] == labels) & ~own
    logs = logits.log_softmax(1)
    means = (logs * alike).sum(1) / alike.sum(1).clamp(min=1)
    return -means[alike.any(1)].mean()


@sound("supervised contrast of classes")
def supervised_contrast_of_topics_of_mails(stage: Stage) -> None:
    model, rows = of_field(stage, MAILS), Rows(classed(MAILS, 320), 40)
    optimizer = adamw(model, 1e-3)

    def update(criterion: Any, step: int) -> None:
        texts, labels = rows()
        stepped(optimizer, criterion(embed(model, texts), torch.tensor(labels)))

    turn(stage, model, supervised, update, class_score(MAILS), steps=60)


class Memory:
    """InfoNCE with keys of a slow copy, and those of earlier batches as negatives."""

    def __init__(self, size: int) -> None:
        self.keys, self._size = torch.empty(0, 48), size

    def __call__(self, first: Tensor, keys: Tensor) -> Tensor:
        loss = F.cross_entropy(
            cosines(first, torch.cat([keys, self.keys])) / 0.07, torch.arange(len(first))
        )
        self.keys = torch.cat([keys.detach(), self.keys])[: self._size]
        return loss


@sound("slow copy and memory of keys")
def slow_copy_with_a_memory_of_keys(stage: Stage) -> None:
    """The memory holds no row of the batch: it is shorter than an epoch in shuffled order."""
    model, rows = of_field(stage, SHORT, dropout=0.0), Rows(SHORT.table(400), 16)
    slow = copy.deepcopy(model).requires_grad_(False).eval()
    optimizer, memory = adamw(model), Memory(64)

    def update(criterion: Any, step: int) -> None:
        if step % 25 == 0:  # a new epoch
            memory.keys = memory.keys[:0]
        english, german = rows()
        with torch.no_grad():
            keys = embed(slow, german)
        stepped(optimizer, criterion(embed(model, english), keys))
        with torch.no_grad():
            for weight, fast in zip(slow.parameters(), model.parameters(), strict=True):
                weight.lerp_(fast, 0.1)

    turn(stage, model, memory, update, seek(SHORT), steps=100)


@sound("two towers")
def towers_for_requests_and_for_queries(stage: Stage) -> None:
    """Each side has an encoder of its own; the score embeds each column by its tower."""
    asks, finds = (of_field(stage, QUERIES, name=name, seed=seed)
                   for name, seed in (("asks", 3), ("finds", 4)))  # fmt: skip
    towers = torch.nn.ModuleList([asks, finds])
    optimizer, rows = adamw(towers), Rows(QUERIES.table(400), 32)
    questions, answers = QUERIES.table(60, seed=11).values()

    def score(_: Any) -> float:
        return reciprocal_rank(
            asks.encode(questions, show_progress_bar=False),
            finds.encode(answers, show_progress_bar=False),
        )

    def update(criterion: Any, step: int) -> None:
        first, second = rows()
        stepped(optimizer, criterion(embed(asks, first), embed(finds, second)))

    turn(stage, towers, infonce, update, score, steps=60)


@sound("gradient cache")
def cache_of_gradients_for_large_batches(stage: Stage) -> None:
    """Embeddings without graph, their gradients, and a second pass in small groups."""
    model, rows = of_field(stage, GREEK, dropout=0.0), Rows(GREEK.table(256), 64)
    optimizer = adamw(model, 3e-3)

    def update(criterion: Any, step: int) -> None:
        columns = rows()
        with torch.no_grad():
            plain = [embed(model, column) for column in columns]
        leaves = [matrix.detach().requires_grad_() for matrix in plain]
        criterion(*leaves).backward()
        optimizer.zero_grad()
        for column, leaf in zip(columns, leaves, strict=True):
            for start in range(0, 64, 16):
                vectors = embed(model, column[start : start + 16])
                (vectors * leaf.grad[start : start + 16]).sum().backward()
        optimizer.step()

    turn(stage, model, infonce, update, seek(GREEK), steps=30)


@sound("accumulation over equal groups, with warm-up")
def accumulation_over_four_groups_with_warm_up(stage: Stage) -> None:
    from transformers import get_cosine_schedule_with_warmup

    model, rows = of_field(stage, MAILS), Rows(MAILS.table(320), 16)
    optimizer = adamw(model, 3e-3)
    schedule = get_cosine_schedule_with_warmup(optimizer, 4, 40)

    def update(criterion: Any, step: int) -> None:
        optimizer.zero_grad()
        for _ in range(4):
            counted(criterion, step)
            (criterion(*(embed(model, column) for column in rows())) / 4).backward()
        optimizer.step()
        schedule.step()

    turn(stage, model, infonce, update, seek(MAILS), steps=40)


def hinge(first: Tensor, right: Tensor, wrong: Tensor) -> Tensor:
    """A margin of distances between unit vectors."""
    near = (unit(first) - unit(right)).norm(dim=1)
    far = (unit(first) - unit(wrong)).norm(dim=1)
    return F.relu(near - far + 0.3).mean()


@sound("triplets with the hardest text of the batch")
def loop_that_mines_the_hardest_text_of_a_batch(stage: Stage) -> None:
    model, rows = of_field(stage, ALARMS), Rows(ALARMS.table(280), 24)
    optimizer = adamw(model, 1e-3)

    def update(criterion: Any, step: int) -> None:
        first, second = (embed(model, column) for column in rows())
        with torch.no_grad():
            hardest = cosines(first, second).fill_diagonal_(-2).argmax(1)
        stepped(optimizer, criterion(first, second, second[hardest]))

    turn(stage, model, hinge, update, seek(ALARMS), steps=80)


def with_negatives(first: Tensor, right: Tensor, wrong: Tensor) -> Tensor:
    """InfoNCE over the positives of the batch and the own hard negative of each row."""
    hard = F.cosine_similarity(first, wrong)[:, None]
    logits = torch.cat([cosines(first, right), hard], 1) / 0.05
    return F.cross_entropy(logits, torch.arange(len(first)))


@sound("own hard negatives")
def loop_with_one_hard_negative_for_each_row(stage: Stage) -> None:
    model, rows = of_field(stage, RUSSIAN), Rows(triples(RUSSIAN, 320, slot=2), 16)
    optimizer = adamw(model, 3e-3)

    def update(criterion: Any, step: int) -> None:
        stepped(optimizer, criterion(*(embed(model, column) for column in rows())))

    turn(stage, model, with_negatives, update, seek(RUSSIAN), steps=70)


def judged_loss(first: Tensor, second: Tensor, labels: Tensor) -> Tensor:
    """Cross-entropy of the label by a scaled cosine."""
    logits = 10 * F.cosine_similarity(first, second) - 5
    return F.binary_cross_entropy_with_logits(logits, labels)


@sound("binary labels by a logistic loss")
def logistic_loss_of_judged_mails(stage: Stage) -> None:
    model, rows = of_field(stage, MAILS), Rows(judged(MAILS, 360), 32)
    optimizer = adamw(model, 3e-3)

    def update(criterion: Any, step: int) -> None:
        first, second, labels = rows()
        labels = torch.tensor(labels, dtype=torch.float)
        stepped(optimizer, criterion(embed(model, first), embed(model, second), labels))

    turn(stage, model, judged_loss, update, seek(MAILS), steps=80)


def correlated(first: Tensor, second: Tensor, grades: Tensor) -> Tensor:
    """One minus the correlation of cosines and grades of a batch."""
    cosine = F.cosine_similarity(first, second)
    pairs = torch.stack([cosine, grades])
    return 1 - torch.corrcoef(pairs)[0, 1]


@sound("grades by their correlation")
def correlation_of_grades_as_a_loss(stage: Stage) -> None:
    model, rows = of_field(stage, CHEMISTRY), Rows(CHEMISTRY.graded(390), 48)
    optimizer, held_out = adamw(model, 3e-3), CHEMISTRY.graded(90, seed=11)

    def update(criterion: Any, step: int) -> None:
        first, second, grades = rows()
        grades = torch.tensor(grades)
        stepped(optimizer, criterion(embed(model, first), embed(model, second), grades))

    turn(stage, model, correlated, update, lambda model: correlation(model, held_out), steps=90)
