"""Sound loops of one's own: classes with centres, teachers, and grades."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.judgement.case import sound
from tests.judgement.first.fields import CODE, KITCHEN, SHOP
from tests.judgement.first.good_fields import LOGS
from tests.judgement.first.notebook_fields import (
    BIRDS,
    GARDEN,
    STATIONS,
    apart,
    by_slot,
    encoder_of,
    same_class,
    two,
)
from tests.judgement.first.turns import Rows, cosines, embed, stepped, turn, warmed
from tests.judgement.stage import Stage
from tests.judgement.truth import correlation


def class_score(field: Any, slot: int) -> Any:
    tested = by_slot(field, 60, slot, seed=11)
    return lambda model: same_class(model, tested)


def numbers(labels: list[int]) -> Tensor:
    return torch.tensor(labels)


def supervised(rows: Tensor, labels: Tensor) -> Tensor:
    """Supervised contrast: all other rows of a class are positives."""
    own = torch.eye(len(rows), dtype=torch.bool)
    logits = (cosines(rows, rows) / 0.1).masked_fill(own, -1e9)
    positives = (labels[:, None] == labels) & ~own
    shares = logits.log_softmax(1).masked_fill(~positives, 0).sum(1)
    counts = positives.sum(1)
    return -(shares / counts.clamp(min=1))[counts > 0].mean()


@sound("supervised contrast with all rows of a class as positives")
def supervised_contrast_of_plants(stage: Stage) -> None:
    model, rows = encoder_of(stage, GARDEN), Rows(by_slot(GARDEN, 320, 0), 48)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)

    def update(criterion: Any, _: int) -> None:
        texts, labels = rows()
        stepped(optimizer, criterion(embed(model, texts), numbers(labels)))

    turn(stage, model, supervised, update, class_score(GARDEN, 0))


class Centres(nn.Module):
    """Softmax over cosines with learned centres of classes; ArcFace's angle for the own one."""

    def __init__(self, classes: int, width: int, angle: float = 0.2) -> None:
        super().__init__()
        torch.manual_seed(6)
        self.rows, self._angle = nn.Parameter(torch.randn(classes, width)), angle

    def forward(self, rows: Tensor, labels: Tensor) -> Tensor:
        values = cosines(rows, self.rows).clamp(-1 + 1e-6, 1 - 1e-6)
        own = F.one_hot(labels, len(self.rows)).bool()
        return F.cross_entropy(16 * torch.where(own, (values.acos() + self._angle).cos(), values),
                               labels)  # fmt: skip


@sound("angular margin to learned centres of classes")
def angular_margin_of_units(stage: Stage) -> None:
    model, centres = encoder_of(stage, LOGS), Centres(9, 48)
    rows = Rows(by_slot(LOGS, 256, 1), 32)
    optimizer = torch.optim.AdamW(
        [{"params": model.parameters()}, {"params": centres.parameters(), "lr": 1e-2}], lr=2e-3
    )

    def update(criterion: Any, _: int) -> None:
        texts, labels = rows()
        stepped(optimizer, criterion(embed(model, texts), numbers(labels)))

    turn(stage, model, centres, update, class_score(LOGS, 1))


class Proxies(nn.Module):
    """Proxy-NCA: squared distances of unit rows to a learned proxy of each class."""

    def __init__(self, classes: int, width: int) -> None:
        super().__init__()
        torch.manual_seed(6)
        self.rows = nn.Parameter(torch.randn(classes, width) / width**0.5)

    def forward(self, rows: Tensor, labels: Tensor) -> Tensor:
        distances = torch.cdist(F.normalize(rows), F.normalize(self.rows)).square()
        return F.cross_entropy(-3 * distances, labels, label_smoothing=0.05)


@sound("proxies of classes with a little smoothing of labels")
def proxies_of_dishes(stage: Stage) -> None:
    model, proxies = encoder_of(stage, KITCHEN), Proxies(12, 48)
    rows = Rows(by_slot(KITCHEN, 320, 0), 32)
    optimizer = torch.optim.AdamW([*model.parameters(), *proxies.parameters()], lr=2e-3)

    def update(criterion: Any, _: int) -> None:
        texts, labels = rows()
        stepped(optimizer, criterion(embed(model, texts), numbers(labels)))

    turn(stage, model, proxies, update, class_score(KITCHEN, 0))


@sound("contrast of a metric-learning library over classes of wares")
def library_contrast_of_wares(stage: Stage) -> None:
    """The loss of pytorch-metric-learning, called with embeddings and classes."""
    from pytorch_metric_learning.losses import MultiSimilarityLoss

    model, rows = encoder_of(stage, SHOP), Rows(by_slot(SHOP, 240, 0), 40)
    optimizer, loss = torch.optim.AdamW(model.parameters(), lr=2e-3), MultiSimilarityLoss()

    def multiple(rows_of_batch: Tensor, labels: Tensor) -> Tensor:
        return loss(rows_of_batch, labels)

    def update(criterion: Any, _: int) -> None:
        texts, labels = rows()
        stepped(optimizer, criterion(embed(model, texts), numbers(labels)))

    turn(stage, model, multiple, update, class_score(SHOP, 0))


@sound("embeddings of a teacher by cosine, in a loop")
def teacher_copied_by_cosine(stage: Stage) -> None:
    table = two(BIRDS, 320)
    teacher = warmed(encoder_of(stage, BIRDS, name="teacher", seed=8), table, steps=40)
    model, rows = encoder_of(stage, BIRDS), Rows(table, 32)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)

    def turned(student: Tensor, target: Tensor) -> Tensor:
        return (1 - torch.cosine_similarity(student, target)).mean()

    def update(criterion: Any, _: int) -> None:
        texts = [text for column in rows() for text in column]
        with torch.no_grad():
            target = embed(teacher, texts)
        stepped(optimizer, criterion(embed(model, texts), target))

    turn(stage, model, turned, update, BIRDS.sought, steps=60)


@sound("cosines within a batch after those of a teacher")
def batch_cosines_of_a_teacher(stage: Stage) -> None:
    """The student's distribution over the batch nears the teacher's, at one temperature."""
    table = two(STATIONS, 320)
    teacher = warmed(encoder_of(stage, STATIONS, name="teacher", seed=8), table, steps=40)
    model, rows = encoder_of(stage, STATIONS, width=32), Rows(table, 32)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)

    def divergence(first: Tensor, second: Tensor, shares: Tensor) -> Tensor:
        return F.kl_div((cosines(first, second) / 0.1).log_softmax(1), shares,
                        reduction="batchmean")  # fmt: skip

    def update(criterion: Any, _: int) -> None:
        first, second = rows()
        with torch.no_grad():
            shares = (cosines(embed(teacher, first), embed(teacher, second)) / 0.1).softmax(1)
        stepped(optimizer, criterion(embed(model, first), embed(model, second), shares))

    turn(stage, model, divergence, update, STATIONS.sought, steps=60)


@sound("order of graded pairs in a loop")
def functions_in_the_order_of_their_grades(stage: Stage) -> None:
    def ordered(first: Tensor, second: Tensor, grades: Tensor) -> Tensor:
        """CoSENT, written by hand."""
        values = 20 * torch.cosine_similarity(first, second)
        gaps = (values[:, None] - values)[grades[:, None] < grades]
        return torch.cat([gaps, gaps.new_zeros(1)]).logsumexp(0)

    model = warmed(encoder_of(stage, CODE), two(CODE, 150, seed=2), steps=6)
    rows = Rows(CODE.graded(280), 32)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)

    def update(criterion: Any, _: int) -> None:
        first, second, grades = rows()
        stepped(optimizer, criterion(embed(model, first), embed(model, second),
                                     torch.tensor(grades)))  # fmt: skip

    tested = apart(CODE.graded(60, seed=11), CODE.graded(280))
    turn(stage, model, ordered, update, lambda model: correlation(model, tested), steps=60)
