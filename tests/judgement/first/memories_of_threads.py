"""Sound loops of one's own: memories, slow copies, towers, cached gradients, precision."""

from __future__ import annotations

import copy
import random
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.judgement.case import sound
from tests.judgement.first.fields_of_many_tongues import (
    COMMITS,
    GARDEN,
    GREEK,
    HARDWARE,
    HEADLINES,
    MAILS,
    MATCHES,
    SQL,
    ragged,
    small,
    sought,
    triples,
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


def adam(*modules: Any, rate: float = 2e-3) -> torch.optim.Optimizer:
    return torch.optim.AdamW([w for module in modules for w in module.parameters()], lr=rate)


@sound("cached gradients in chunks")
def hundred_mails_in_chunks_of_twenty(stage: Stage) -> None:
    """GradCache: embeddings without a graph, the loss of all, then each chunk with its gradient."""
    model = small(stage, MAILS, dropout=0.0)
    optimizer, batches = adam(model, rate=3e-3), Rows(MAILS.table(400), 100)

    def update(criterion: Any, step: int) -> None:
        columns = batches()
        with torch.no_grad():
            rows = [embed(model, column) for column in columns]
        rows = [embeddings.requires_grad_() for embeddings in rows]
        criterion(*rows).backward()
        optimizer.zero_grad()
        for column, embeddings in zip(columns, rows, strict=True):
            for start in range(0, 100, 20):
                chunk = embed(model, column[start : start + 20])
                chunk.backward(embeddings.grad[start : start + 20])
        optimizer.step()

    turn(stage, model, infonce, update, sought(MAILS), steps=30)


@sound("accumulated small batches")
def four_small_batches_to_one_step(stage: Stage) -> None:
    model = small(stage, SQL)
    optimizer, batches = adam(model), Rows(SQL.table(320), 10)

    def update(criterion: Any, step: int) -> None:
        counted(criterion, step)
        optimizer.zero_grad()
        for _ in range(4):
            (criterion(*(embed(model, column) for column in batches())) / 4).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 2.0)
        optimizer.step()

    turn(stage, model, infonce, update, sought(SQL), steps=36)


@sound("slow copy and queue of documents")
def queue_of_commits_by_a_slow_copy(stage: Stage) -> None:
    model = small(stage, COMMITS)
    slow = copy.deepcopy(model).requires_grad_(False)
    optimizer, batches = adam(model), Rows(COMMITS.table(360), 24)
    queue = [torch.empty(0, 48)]

    def with_queue(first: Tensor, second: Tensor) -> Tensor:
        similarities = cosines(first, torch.cat([second, queue[0]])) / 0.07
        return F.cross_entropy(similarities, torch.arange(len(first)))

    def update(criterion: Any, step: int) -> None:
        issues, commits = batches()
        with torch.no_grad():
            for old, new in zip(slow.parameters(), model.parameters(), strict=True):
                old.lerp_(new, 0.1)
            keys = embed(slow, commits)
        stepped(optimizer, criterion(embed(model, issues), keys))
        queue[0] = torch.cat([keys, queue[0]])[:120]

    turn(stage, model, with_queue, update, sought(COMMITS), steps=60)


class Towers(nn.Module):
    """An encoder for each column."""

    def __init__(self, stage: Stage) -> None:
        super().__init__()
        self.query = small(stage, HARDWARE, name="query", seed=3)
        self.stock = small(stage, HARDWARE, name="stock", seed=4, kind="distilbert")

    def score(self, _: Any = None) -> float:
        order, sku = HARDWARE.table(60, seed=11).values()
        self.eval()
        return reciprocal_rank(
            self.query.encode(order, show_progress_bar=False),
            self.stock.encode(sku, show_progress_bar=False),
        )


@sound("two towers of two kinds")
def towers_of_bert_and_distilled_bert(stage: Stage) -> None:
    towers = Towers(stage)
    optimizer, batches = adam(towers), Rows(HARDWARE.table(360), 24)

    def update(criterion: Any, step: int) -> None:
        order, sku = batches()
        stepped(optimizer, criterion(embed(towers.query, order), embed(towers.stock, sku)))

    turn(stage, towers, infonce, update, towers.score, steps=60)


@sound("autocast to bfloat16")
def greek_under_autocast(stage: Stage) -> None:
    """The encoder runs in half precision, the loss in full."""
    model = small(stage, GREEK)
    optimizer, batches = adam(model), Rows(GREEK.table(320), 24)

    def update(criterion: Any, step: int) -> None:
        with torch.autocast("cpu", torch.bfloat16):
            rows = [embed(model, column) for column in batches()]
        stepped(optimizer, criterion(*(embeddings.float() for embeddings in rows)))

    turn(stage, model, infonce, update, sought(GREEK), steps=50)


@sound("negatives mined anew by the encoder itself")
def garden_answers_mined_every_twenty_steps(stage: Stage) -> None:
    """From ranks 3 to 10 of the encoder's own ranking of all answers."""
    table = GARDEN.table(280)
    model = warmed(small(stage, GARDEN), table, 5)
    questions, answers = table.values()
    optimizer, draw, mined = adam(model, rate=1.5e-3), random.Random(6), [torch.empty(0)]

    def with_mined(first: Tensor, second: Tensor, hard: Tensor) -> Tensor:
        similarities = torch.cat([cosines(first, second), cosines(first, hard)], 1) / 0.05
        return F.cross_entropy(similarities, torch.arange(len(first)))

    def update(criterion: Any, step: int) -> None:
        if step % 20 == 0:
            model.eval()
            first, second = (
                model.encode(texts, convert_to_tensor=True, show_progress_bar=False)
                for texts in (questions, answers)
            )
            ranks = cosines(first, second).fill_diagonal_(-1.0).topk(10).indices
            mined[0] = ranks[:, 2:]
            model.train()
        rows = draw.sample(range(len(questions)), 16)
        taken, hard = set(rows), []
        for row in rows:
            free = [at for at in mined[0][row].tolist() if at not in taken]
            free = free or [at for at in range(len(answers)) if at not in taken]
            hard.append(draw.choice(free))
            taken.add(hard[-1])
        texts = [[questions[at] for at in rows], [answers[at] for at in rows],
                 [answers[at] for at in hard]]  # fmt: skip
        stepped(optimizer, criterion(*(embed(model, column) for column in texts)))

    turn(stage, model, with_mined, update, sought(GARDEN), steps=50)


@sound("triplets over euclidean distances, soft margin")
def soft_margins_between_headlines(stage: Stage) -> None:
    model = warmed(small(stage, HEADLINES), HEADLINES.table(200, seed=2), 5)

    def soft_triplet(first: Tensor, second: Tensor, hard: Tensor) -> Tensor:
        first, second, hard = (F.normalize(rows) for rows in (first, second, hard))
        gaps = (first - second).norm(dim=1) - (first - hard).norm(dim=1)
        return F.softplus(8 * gaps).mean()

    optimizer, batches = adam(model), Rows(triples(HEADLINES, 300), 24)

    def update(criterion: Any, step: int) -> None:
        stepped(optimizer, criterion(*(embed(model, column) for column in batches())))

    turn(stage, model, soft_triplet, update, sought(HEADLINES), steps=60)


@sound("perturbed weights before each step")
def flat_minima_for_match_stories(stage: Stage) -> None:
    """SAM: the gradient is taken at the worst weights nearby."""
    model = small(stage, MATCHES)
    optimizer, batches = adam(model, rate=3e-3), Rows(ragged(MATCHES, 300), 20)
    weights = [weight for weight in model.parameters() if weight.requires_grad]

    def update(criterion: Any, step: int) -> None:
        counted(criterion, step)
        columns = batches()
        optimizer.zero_grad()
        criterion(*(embed(model, column) for column in columns)).backward()
        norm = nn.utils.get_total_norm([w.grad for w in weights if w.grad is not None]) + 1e-12
        shifts = [0.02 * w.grad / norm if w.grad is not None else 0.0 for w in weights]
        with torch.no_grad():
            for weight, shift in zip(weights, shifts, strict=True):
                weight.add_(shift)
        optimizer.zero_grad()
        infonce(*(embed(model, column) for column in columns)).backward()
        with torch.no_grad():
            for weight, shift in zip(weights, shifts, strict=True):
                weight.sub_(shift)
        optimizer.step()

    turn(stage, model, infonce, update, sought(MATCHES), steps=40)
