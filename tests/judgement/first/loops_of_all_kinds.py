"""Sound set-ups: loops of one's own over pairs, classes and teachers."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from tests.judgement.case import sound
from tests.judgement.first.made_fields import FLATS, JOBS, QUERIES, STATUTES, ticket_texts
from tests.judgement.first.ranking_tools import (
    encoder_of,
    loop_rises,
    neighbours,
    seeks,
    seeks_in,
)
from tests.judgement.first.turns import Rows, cosines, embed, infonce, stepped, warmed
from tests.judgement.first.wider_fields import BUGS, RECIPES, amounts
from tests.judgement.stage import Stage


def _adam(model: Any, rate: float = 2e-3, *extras: Any) -> torch.optim.Optimizer:
    weights = [*model.parameters(), *(row for segment in extras for row in segment.parameters())]
    return torch.optim.AdamW(weights, lr=rate, weight_decay=0.01)


def _labelled(table: dict[str, list[Any]], of_each: int, seed: int = 0) -> Callable[[], Any]:
    """Batches with as many texts of each class."""
    draw, texts_of = random.Random(seed), dict[int, list[str]]()
    for text, label in zip(table["text"], table["label"], strict=True):
        texts_of.setdefault(label, []).append(text)

    def batch() -> tuple[list[str], Tensor]:
        rows = [(text, label) for label, texts in texts_of.items()
                for text in draw.sample(texts, of_each)]  # fmt: skip
        return [text for text, _ in rows], torch.tensor([label for _, label in rows])

    return batch


@sound("supervised contrast over classes")
def tickets_drawn_to_their_queue(stage: Stage) -> None:
    """All texts of a class are positives of one another; four of each class in a batch."""

    def contrast(rows: Tensor, labels: Tensor) -> Tensor:
        itself = torch.eye(len(rows), dtype=torch.bool)
        logits = (cosines(rows, rows) / 0.1).masked_fill(itself, -1e4)
        same = (labels[:, None] == labels[None]) & ~itself
        shares = logits.log_softmax(1)
        return -((shares * same).sum(1) / same.sum(1)).mean()

    table = ticket_texts(480)
    model = encoder_of(stage, [table])
    batch, optimizer = _labelled(table, 4), _adam(model, 1e-3)

    def update(criterion: Any, step: int) -> None:
        texts, labels = batch()
        stepped(optimizer, criterion(embed(model, texts), labels))

    loop_rises(stage, model, contrast, update, neighbours(ticket_texts(160, 11)), steps=70)


@sound("temperature that is learned")
def amounts_with_a_learned_temperature(stage: Stage) -> None:
    """The loss of CLIP in both directions; its scale starts at ten and is bounded by a hundred."""

    class Scaled(torch.nn.Module):
        """InfoNCE in both directions by a learned scale."""

        def __init__(self) -> None:
            super().__init__()
            self.log_scale = torch.nn.Parameter(torch.tensor(10.0).log())

        def forward(self, first: Tensor, second: Tensor) -> Tensor:
            logits = cosines(first, second) * self.log_scale.exp().clamp(max=100)
            own = torch.arange(len(logits))
            return (F.cross_entropy(logits, own) + F.cross_entropy(logits.T, own)) / 2

    table = amounts(400)
    model, loss = encoder_of(stage, [table], dropout=0.0), Scaled()
    rows = Rows(table, 32)
    optimizer = torch.optim.AdamW([
        {"params": model.parameters(), "lr": 2e-3, "weight_decay": 0.01},
        {"params": loss.parameters(), "lr": 1e-2, "weight_decay": 0.0},
    ])  # fmt: skip

    def update(criterion: Any, step: int) -> None:
        stepped(optimizer, criterion(*(embed(model, texts) for texts in rows())))

    loop_rises(stage, model, loss, update, seeks_in(amounts), steps=90)


@sound("variance, invariance and covariance")
def bugs_by_variance_and_covariance(stage: Stage) -> None:
    """VICReg on reports and commits: no negatives, but spread and uncorrelated dimensions."""

    def vicreg(first: Tensor, second: Tensor) -> Tensor:
        spread = sum(F.relu(1 - (rows.var(0) + 1e-4).sqrt()).mean() for rows in (first, second))
        ties = 0.0
        for rows in (first, second):
            table = torch.cov(rows.T)
            ties = ties + (table - table.diag().diag()).square().sum() / len(table)
        return 25 * F.mse_loss(first, second) + 12.5 * spread + ties

    model = encoder_of(stage, BUGS, dropout=0.05)
    rows, optimizer = Rows(BUGS.table(512), 64), _adam(model)

    def update(criterion: Any, step: int) -> None:
        stepped(optimizer, criterion(*(embed(model, texts) for texts in rows())))

    loop_rises(stage, model, vicreg, update, seeks(BUGS), steps=110)


@sound("slow copy and its queue")
def flats_with_a_slow_copy_and_its_queue(stage: Stage) -> None:
    """MoCo: adverts go through a slow copy and stay as negatives for some batches."""
    model = encoder_of(stage, FLATS)
    slow, rows, optimizer = copy.deepcopy(model).eval(), Rows(FLATS.table(512), 16), _adam(model)
    queue = [torch.empty(0, 48)]

    def contrast(anchors: Tensor, positives: Tensor) -> Tensor:
        logits = cosines(anchors, torch.cat([positives, queue[0]])) / 0.07
        return F.cross_entropy(logits, torch.arange(len(logits)))

    def update(criterion: Any, step: int) -> None:
        searches, adverts = rows()
        with torch.no_grad():
            encoded_rows = embed(slow, adverts)
        stepped(optimizer, criterion(embed(model, searches), encoded_rows))
        queue[0] = torch.cat([encoded_rows, queue[0]])[:64]
        with torch.no_grad():
            for old, new in zip(slow.parameters(), model.parameters(), strict=True):
                old.lerp_(new, 0.05)

    loop_rises(stage, model, contrast, update, seeks(FLATS), steps=140)


@sound("gradients cached by hand")
def jobs_with_gradients_cached_by_hand(stage: Stage) -> None:
    """A batch of 64: embedded without gradient, the loss's gradient kept, then given part by part.

    Dropout is off, so that both passes see the same embeddings.
    """
    model = encoder_of(stage, JOBS, dropout=0.0)
    rows, optimizer = Rows(JOBS.table(512), 64), _adam(model, 3e-3)

    def update(criterion: Any, step: int) -> None:
        columns = rows()
        with torch.no_grad():
            encoded_rows = [embed(model, texts) for texts in columns]
        leaves = [segment.requires_grad_() for segment in encoded_rows]
        criterion(*leaves).backward()
        optimizer.zero_grad()
        for texts, leaf in zip(columns, leaves, strict=True):
            for start in range(0, len(texts), 16):
                segment = embed(model, texts[start : start + 16])
                segment.backward(leaf.grad[start : start + 16])
        optimizer.step()

    loop_rises(stage, model, infonce, update, seeks(JOBS), steps=50)


@sound("likeness of a batch as a teacher sees it")
def database_wishes_by_a_teachers_likeness(stage: Stage) -> None:
    """The student matches a trained teacher's distribution over the statements of the batch."""
    table = QUERIES.table(480)
    wide = encoder_of(stage, QUERIES, name="wide", width=64, seed=9)
    teacher = warmed(wide, QUERIES.table(480, 2), 90)
    model = encoder_of(stage, QUERIES)
    rows, optimizer = Rows(table, 32), _adam(model)

    def match(first: Tensor, second: Tensor, target: Tensor) -> Tensor:
        return -(target * (cosines(first, second) / 0.1).log_softmax(1)).sum(1).mean()

    def update(criterion: Any, step: int) -> None:
        columns = rows()
        with torch.no_grad():
            target = (cosines(*(embed(teacher, texts) for texts in columns)) / 0.1).softmax(1)
        stepped(optimizer, criterion(*(embed(model, texts) for texts in columns), target))

    loop_rises(stage, model, match, update, seeks(QUERIES), steps=80)


@sound("one cycle of the rate, clipping, an average of the weights in the end")
def recipes_in_one_cycle_with_an_average(stage: Stage) -> None:
    """A loader that shuffles, one cycle of the rate, clipping; the mean of late weights is used."""
    from torch.optim.lr_scheduler import OneCycleLR

    model = encoder_of(stage, RECIPES)
    rows, optimizer = Rows(RECIPES.table(400), 24), _adam(model)
    schedule = OneCycleLR(optimizer, max_lr=3e-3, total_steps=90)
    late, encoded_rows = [torch.zeros_like(weight) for weight in model.parameters()], [0]

    def update(criterion: Any, step: int) -> None:
        optimizer.zero_grad()
        criterion(*(embed(model, texts) for texts in rows())).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        if step >= 80:
            encoded_rows[0] += 1
            for mean, weight in zip(late, model.parameters(), strict=True):
                mean.lerp_(weight.detach(), 1 / encoded_rows[0])

    def score(encoder: Any) -> float:
        used = encoder
        if encoded_rows[0]:
            used = copy.deepcopy(encoder)
            with torch.no_grad():
                for weight, mean in zip(used.parameters(), late, strict=True):
                    weight.copy_(mean)
        return seeks(RECIPES)(used)

    loop_rises(stage, model, infonce, update, score, steps=90)


@sound("hard negatives found anew while training")
def paragraphs_mined_anew_each_round(stage: Stage) -> None:
    """Every thirty steps each question gets a near paragraph of another question, as in ANCE."""
    table = STATUTES.table(320)
    model = encoder_of(stage, STATUTES)
    optimizer, table["near"] = _adam(model), [*table["law"][1:], table["law"][0]]
    rows = [Rows(table, 16)]

    def update_step(step: int) -> None:
        model.eval()
        first, second = (model.encode(table[name], convert_to_tensor=True, show_progress_bar=False)
                         for name in ("question", "law"))  # fmt: skip
        likeness = cosines(first, second).fill_diagonal_(-2)
        near = likeness.topk(5, 1).indices[:, 2].tolist()
        table["near"] = [table["law"][at] for at in near]
        rows[0] = Rows(table, 16, seed=step)
        model.train()

    def contrast(questions: Tensor, laws: Tensor, near: Tensor) -> Tensor:
        logits = cosines(questions, torch.cat([laws, near])) / 0.05
        return F.cross_entropy(logits, torch.arange(len(logits)))

    def update(criterion: Any, step: int) -> None:
        if step and step % 30 == 0:
            update_step(step)
        stepped(optimizer, criterion(*(embed(model, texts) for texts in rows[0]())))

    loop_rises(stage, model, contrast, update, seeks(STATUTES), steps=90)
