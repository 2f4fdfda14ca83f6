"""Sound loops of one's own: memory, momentum, caching, accumulation, teachers and towers."""

from __future__ import annotations

import copy
from typing import Any

import torch
import torch.nn.functional as F
from pytorch_metric_learning.losses import CircleLoss, MultiSimilarityLoss
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
from transformers import get_cosine_schedule_with_warmup

from tests.judgement.case import sound
from tests.judgement.first.fields_of_dreams_and_roads import (
    COMMITS,
    DREAMS,
    JOBS,
    MAILS,
    QUERIES,
    REACTIONS,
    ROADS,
    VERDICTS,
    WEATHER,
    class_score,
    classed,
    reader,
    scripted,
    simple_update,
)
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


class Memory:
    """InfoNCE with first-in first-out queues of keys without gradient, one for each column."""

    def __init__(self, size: int, width: int = 48) -> None:
        self.queues, self._size = [torch.empty(0, width), torch.empty(0, width)], size
        self.column = 1  # of the keys

    def __call__(self, first: Tensor, second: Tensor) -> Tensor:
        logits = cosines(first, torch.cat([second, self.queues[self.column]])) / 0.07
        return F.cross_entropy(logits, torch.arange(len(first)))

    def push(self, keys: Tensor) -> None:
        """Keep the newest keys of the column."""
        queue = torch.cat([keys.detach(), self.queues[self.column]])
        self.queues[self.column] = queue[: self._size]


@sound("momentum encoder and queues")
def slow_encoder_fills_queues_of_reactions(stage: Stage) -> None:
    """The columns are queries in turn, so that the trained encoder reads texts of each."""
    model = reader(stage, REACTIONS)
    slow, memory = copy.deepcopy(model).eval().requires_grad_(False), Memory(64)
    rows = Rows(scripted(REACTIONS, 480), 16)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)

    def update(criterion: Any, step: int) -> None:
        columns = rows()
        memory.column = step % 2
        with torch.no_grad():
            keys = embed(slow, columns[memory.column])
        stepped(optimizer, criterion(embed(model, columns[1 - memory.column]), keys))
        memory.push(keys)
        with torch.no_grad():
            for mean, weight in zip(slow.parameters(), model.parameters(), strict=True):
                mean.lerp_(weight, 0.1)

    turn(stage, model, memory, update, REACTIONS.sought, steps=90)


@sound("gradient caching over chunks of a large batch")
def gradients_of_rows_cached_for_commits(stage: Stage) -> None:
    """Rows of 48 pairs without graph, their gradient by the loss, and then chunks of 16."""
    model = reader(stage, COMMITS, dropout=0.0)
    rows, optimizer = (
        Rows(scripted(COMMITS, 384), 48),
        torch.optim.AdamW(model.parameters(), lr=2e-3),
    )

    def update(criterion: Any, _: int) -> None:
        columns = [[column[at : at + 16] for at in (0, 16, 32)] for column in rows()]
        with torch.no_grad():
            cached = [torch.cat([embed(model, chunk) for chunk in chunks]) for chunks in columns]
        cached = [embeddings.requires_grad_() for embeddings in cached]
        optimizer.zero_grad()
        criterion(*cached).backward()
        for chunks, embeddings in zip(columns, cached, strict=True):
            for chunk, gradient in zip(chunks, embeddings.grad.split(16), strict=True):
                embed(model, chunk).backward(gradient)
        optimizer.step()

    turn(stage, model, infonce, update, COMMITS.sought, steps=36)


@sound("accumulation, clipping and a schedule in a loop")
def accumulated_and_clipped_steps_for_weather(stage: Stage) -> None:
    model, rows = reader(stage, WEATHER), Rows(scripted(WEATHER, 384), 12)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.01)
    schedule = get_cosine_schedule_with_warmup(optimizer, 4, 40)

    def update(criterion: Any, step: int) -> None:
        optimizer.zero_grad()
        for _ in range(3):
            counted(criterion, step)
            (criterion(*(embed(model, column) for column in rows())) / 3).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()

    turn(stage, model, infonce, update, WEATHER.sought, steps=40)


@sound("averaged weights beside the trained ones")
def moving_average_of_weights_beside_roads(stage: Stage) -> None:
    model = reader(stage, ROADS)
    average = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.9))
    step_of_pairs = simple_update(model, scripted(ROADS, 320), size=20, rate=2e-3)

    def update(criterion: Any, step: int) -> None:
        step_of_pairs(criterion, step)
        average.update_parameters(model)

    turn(stage, model, infonce, update,
         lambda encoder: ROADS.sought(average.module.eval()), steps=60)  # fmt: skip


@sound("autocast to bfloat16 in a loop")
def autocast_steps_for_questions_of_tables(stage: Stage) -> None:
    model, rows = reader(stage, QUERIES), Rows(scripted(QUERIES, 320), 16)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)

    def update(criterion: Any, _: int) -> None:
        with torch.autocast("cpu", torch.bfloat16):
            first, second = (embed(model, column) for column in rows())
        stepped(optimizer, criterion(first.float(), second.float()))

    turn(stage, model, infonce, update, QUERIES.sought, steps=60)


class Imitation:
    """The divergence of the student's distribution over candidates from the teacher's."""

    def __call__(self, first: Tensor, second: Tensor, shares: Tensor) -> Tensor:
        own = (cosines(first, second) / 0.1).log_softmax(1)
        return F.kl_div(own, shares, reduction="batchmean")


@sound("distribution of a teacher over the candidates of a batch")
def student_imitates_shares_of_its_teacher(stage: Stage) -> None:
    table = scripted(JOBS, 400)
    teacher = warmed(
        reader(stage, JOBS, name="teacher", width=64), scripted(JOBS, 400, 2), steps=60
    ).requires_grad_(False)
    student, rows = reader(stage, JOBS, layers=1, seed=8), Rows(table, 24)
    optimizer = torch.optim.AdamW(student.parameters(), lr=2e-3)

    def update(criterion: Any, _: int) -> None:
        columns = rows()
        with torch.no_grad():
            shares = (cosines(*(embed(teacher, texts) for texts in columns)) / 0.1).softmax(1)
        stepped(optimizer, criterion(*(embed(student, texts) for texts in columns), shares))

    turn(stage, student, Imitation(), update, JOBS.sought, steps=70)


class Towers(nn.Module):
    """Two encoders that share nothing: one of questions, one of the heads of verdicts."""

    def __init__(self, asking: Any, answering: Any) -> None:
        super().__init__()
        self.asking, self.answering = asking, answering


@sound("two encoders without common weights")
def separate_encoders_of_questions_and_verdicts(stage: Stage) -> None:
    towers = Towers(
        reader(stage, VERDICTS, name="asking", layers=1),
        reader(stage, VERDICTS, name="answering", seed=11),
    )
    rows, optimizer = (
        Rows(scripted(VERDICTS, 360), 16),
        torch.optim.AdamW(towers.parameters(), lr=2e-3),
    )

    def update(criterion: Any, _: int) -> None:
        first, second = rows()
        stepped(optimizer, criterion(embed(towers.asking, first), embed(towers.answering, second)))

    def score(pair: Towers) -> float:
        first, second = scripted(VERDICTS, 40, 11).values()
        return reciprocal_rank(pair.asking.encode(first), pair.answering.encode(second))

    turn(stage, towers, infonce, update, score, steps=60)


@sound("circle loss of a library, by class")
def circles_of_mails_by_topic(stage: Stage) -> None:
    model = reader(stage, MAILS)
    table = classed(MAILS, 480, slots=(1,), column=1)
    fresh = classed(MAILS, 150, 11, slots=(1,), column=1)
    turn(stage, model, CircleLoss(m=0.25, gamma=32), simple_update(model, table, size=32),
         class_score(fresh), steps=40)  # fmt: skip


@sound("multi-similarity loss of a library, by class")
def similarities_of_dreams_by_motion_and_feeling(stage: Stage) -> None:
    model = reader(stage, DREAMS, pooling="max")
    table = classed(DREAMS, 480, slots=(1, 2))
    fresh = classed(DREAMS, 160, 11, slots=(1, 2))
    turn(stage, model, MultiSimilarityLoss(), simple_update(model, table, size=48),
         class_score(fresh), steps=50)  # fmt: skip
