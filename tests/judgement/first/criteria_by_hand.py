"""Sound loops of one's own with hand-written losses: on grades, labels, classes and teachers."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.judgement.case import sound
from tests.judgement.first import fields_of_flats_and_threads as fields
from tests.judgement.first.fields_of_flats_and_threads import (
    agreement,
    by_class,
    classmates,
    held_out,
    of,
    two,
    verdicts,
    with_negatives,
)
from tests.judgement.first.turns import Rows, cosines, embed, stepped, turn, warmed
from tests.judgement.stage import Stage


def embedded(model: Any, column: Sequence[Any]) -> Tensor:
    """Embeddings of texts, and numbers as a tensor."""
    return embed(model, column) if isinstance(column[0], str) else torch.tensor(column)


def over(
    stage: Stage, model: Any, table: Mapping[str, Sequence[Any]], loss: Callable[..., Tensor],
    score: Callable[[Any], float], *, size: int = 32, steps: int = 60, rate: float = 2e-3,
) -> None:  # fmt: skip
    """A plain loop over a table; a loss that is a module is trained with the encoder."""
    weights = [*model.parameters(), *(loss.parameters() if isinstance(loss, nn.Module) else [])]
    optimizer, rows = torch.optim.AdamW(weights, lr=rate), Rows(table, size)

    def update(criterion: Any, step: int) -> None:
        stepped(optimizer, criterion(*(embedded(model, column) for column in rows())))

    turn(stage, model, loss, update, score, steps=steps)


@sound("correlation of a batch with its grades")
def correlation_of_a_batch_with_grades(stage: Stage) -> None:
    def correlated(first: Tensor, second: Tensor, grades: Tensor) -> Tensor:
        similar = F.cosine_similarity(first, second)
        similar, grades = similar - similar.mean(), grades - grades.mean()
        return 1 - F.cosine_similarity(similar, grades, dim=0)

    field = fields.TAGS
    over(stage, of(stage, field), field.graded(400), correlated, agreement(field), size=48,
         steps=90)  # fmt: skip


@sound("order of all pairs of graded rows")
def order_of_every_two_graded_rows(stage: Stage) -> None:
    """RankNet over the rows of a batch whose grades differ."""

    def ordered(first: Tensor, second: Tensor, grades: Tensor) -> Tensor:
        similar = 10 * F.cosine_similarity(first, second)
        higher = grades[:, None] > grades
        return F.softplus(similar - similar[:, None])[higher].mean()

    field = fields.RUSSIAN
    over(stage, of(stage, field), field.graded(400), ordered, agreement(field), steps=100,
         rate=3e-3)  # fmt: skip


class Judge(nn.Module):
    """Binary cross-entropy of scaled and shifted cosines, with learned scale and shift."""

    def __init__(self) -> None:
        super().__init__()
        self.scale, self.shift = (nn.Parameter(torch.tensor(number)) for number in (8.0, -4.0))

    def forward(self, first: Tensor, second: Tensor, labels: Tensor) -> Tensor:
        logits = self.scale * F.cosine_similarity(first, second) + self.shift
        return F.binary_cross_entropy_with_logits(logits, labels.float())


@sound("probability that a pair belongs together")
def probability_that_sql_answers(stage: Stage) -> None:
    field = fields.SQL
    over(stage, of(stage, field, spread=0.05), verdicts(field, 420), Judge(), held_out(field),
         steps=140, rate=3e-3)  # fmt: skip


@sound("supervised contrast over classes")
def supervised_contrast_of_stock_by_machine(stage: Stage) -> None:
    def contrast(rows: Tensor, labels: Tensor) -> Tensor:
        itself = torch.eye(len(rows), dtype=torch.bool)
        shares = (cosines(rows, rows) / 0.1).masked_fill(itself, -1e9).log_softmax(1)
        same = (labels[:, None] == labels) & ~itself
        counts = same.sum(1)
        return -((shares * same).sum(1)[counts > 0] / counts[counts > 0]).mean()

    field = fields.SPARES
    over(stage, of(stage, field), by_class(field, 400, slot=2), contrast,
         classmates(field, slot=2), size=40, steps=40, rate=1e-3)  # fmt: skip


class Centres(nn.Module):
    """Cross-entropy over learned directions of classes, with a margin on the own cosine."""

    def __init__(self, count: int, width: int) -> None:
        super().__init__()
        torch.manual_seed(5)
        self.directions = nn.Parameter(torch.randn(count, width))

    def forward(self, rows: Tensor, labels: Tensor) -> Tensor:
        own = F.one_hot(labels, len(self.directions))
        return F.cross_entropy(16 * (cosines(rows, self.directions) - 0.2 * own), labels)


@sound("learned directions of classes, with a margin")
def directions_of_birds_with_a_margin(stage: Stage) -> None:
    field = fields.SIGHTINGS
    over(stage, of(stage, field), by_class(field, 400), Centres(10, 48), classmates(field),
         steps=60)  # fmt: skip


@sound("hardest triplets of a batch by distance")
def hardest_distances_within_a_batch_of_songs(stage: Stage) -> None:
    """Of the other rows' texts and those that differ by a feeling, the nearest is pushed off."""

    def hinge(anchors: Tensor, positives: Tensor, negatives: Tensor) -> Tensor:
        anchors, positives, negatives = (
            F.normalize(rows, dim=1) for rows in (anchors, positives, negatives)
        )
        near = torch.cdist(anchors, positives)
        strange = near + 9 * torch.eye(len(near))
        hardest = torch.minimum(strange.min(1).values, (anchors - negatives).norm(dim=1))
        return F.softplus(4 * (near.diagonal() - hardest)).mean()

    field = fields.REFRAINS
    over(stage, of(stage, field, spread=0.05), with_negatives(field, 360, slot=3), hinge,
         held_out(field), steps=90)  # fmt: skip


@sound("list of a teacher's scores for each query")
def listwise_scores_of_a_teacher(stage: Stage) -> None:
    """The teacher's shares over all texts of the batch are targets of the student's."""
    field = fields.CHEMISTRY
    teacher = warmed(of(stage, field, name="teacher", width=64, seed=9), field.table(320), 50)
    student = of(stage, field, layers=1)
    rows = Rows(two(field.table(320)), 32)
    optimizer = torch.optim.AdamW(student.parameters(), lr=3e-3)

    def divergence(first: Tensor, second: Tensor, targets: Tensor) -> Tensor:
        shares = (cosines(first, second) / 0.05).log_softmax(1)
        return F.kl_div(shares, targets, reduction="batchmean")

    def update(criterion: Any, step: int) -> None:
        columns = rows()
        with torch.no_grad():
            targets = (cosines(*(embed(teacher, column) for column in columns)) / 0.05).softmax(1)
        stepped(optimizer, criterion(*(embed(student, column) for column in columns), targets))

    turn(stage, student, divergence, update, held_out(field), steps=60)


@sound("several right answers for a query")
def several_answers_for_a_course(stage: Stage) -> None:
    """Titles and codes of a course are right answers of a query; both share the mass."""

    def shared(queries: Tensor, titles: Tensor, codes: Tensor) -> Tensor:
        labels = torch.arange(len(queries))
        candidates = torch.cat([titles, codes])
        shares = (cosines(queries, candidates) / 0.05).log_softmax(1)
        right = shares[labels, labels] + shares[labels, labels + len(labels)]
        return -right.mean() / 2

    field = fields.COURSES
    over(stage, of(stage, field), field.table(320), shared, held_out(field), steps=60)


@sound("agreement of dropout passes beside ranking")
def agreement_of_dropout_passes_beside_ranking(stage: Stage) -> None:
    """R-Drop: two passes of a batch rank alike."""
    field = fields.WEATHER
    model, rows = of(stage, field), Rows(two(field.table(320)), 32)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)

    def ranked(first: Tensor, second: Tensor, again: Tensor, second_again: Tensor) -> Tensor:
        logits = [cosines(first, second) / 0.05, cosines(again, second_again) / 0.05]
        labels = torch.arange(len(first))
        shares = [rows.log_softmax(1) for rows in logits]
        apart = sum(
            F.kl_div(shares[at], shares[1 - at], log_target=True, reduction="batchmean")
            for at in (0, 1)
        )
        return sum(F.cross_entropy(rows, labels) for rows in logits) / 2 + apart / 4

    def update(criterion: Any, step: int) -> None:
        columns = rows()
        stepped(optimizer, criterion(*(embed(model, column) for column in [*columns, *columns])))

    turn(stage, model, ranked, update, held_out(field), steps=50)


@sound("weights of a circle for drawn negatives")
def drawn_negatives_with_circle_weights(stage: Stage) -> None:
    """Circle loss over four texts of other rows, drawn from the whole table for each query."""
    field, draw = fields.TAGS, random.Random(8)
    first, second = two(field.table(320)).values()
    model, rows = of(stage, field), Rows({"row": list(range(320))}, 16)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)

    def circle(anchors: Tensor, positives: Tensor, negatives: Tensor) -> Tensor:
        right = F.cosine_similarity(anchors, positives)
        wrong = F.cosine_similarity(anchors[:, None], negatives, dim=2)
        pull = -16 * F.relu(1.25 - right).detach() * (right - 0.75)
        push = 16 * F.relu(wrong + 0.25).detach() * (wrong - 0.25)
        return F.softplus(pull + push.logsumexp(1)).mean()

    def update(criterion: Any, step: int) -> None:
        (batch,) = rows()
        strange = [
            at for row in batch for at in draw.sample([*range(row), *range(row + 1, 320)], 4)
        ]
        texts = [first[at] for at in batch], [second[at] for at in batch]
        anchors, positives = (embed(model, column) for column in texts)
        negatives = embed(model, [second[at] for at in strange]).view(len(batch), 4, -1)
        stepped(optimizer, criterion(anchors, positives, negatives))

    turn(stage, model, circle, update, held_out(field), steps=60)
