"""Sound loops of one's own over classes: proxies, centres, contrastive losses with labels."""

from __future__ import annotations

import random
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.judgement.case import sound
from tests.judgement.first.loop_helpers import (
    Rows,
    adamw,
    climbs,
    embed,
    encoder_of,
    stepped,
    unit,
)
from tests.judgement.first.texts_of_every_day import LISTINGS, MACHINES
from tests.judgement.first.texts_of_offices import REVIEWS, TICKETS
from tests.judgement.first.texts_of_trades import PHOTOS
from tests.judgement.stage import Stage


def class_update(model: Any, rows: Any, optimizer: Any) -> Any:
    """The step of a loop over texts and their classes."""

    def update(criterion: Any, step: int) -> None:
        texts, labels = rows()
        stepped(optimizer, criterion(embed(model, texts), torch.tensor(labels)))

    return update


class ClassBatches:
    """Batches of some classes with as many texts each, as a PK sampler draws them."""

    def __init__(self, table: dict[str, list[Any]], classes: int, quota: int) -> None:
        self._of_class: dict[int, list[str]] = {}
        for text, label in zip(table["text"], table["label"], strict=True):
            self._of_class.setdefault(label, []).append(text)
        self._classes, self._quota, self._draw = classes, quota, random.Random(0)

    def __call__(self) -> tuple[list[str], list[int]]:
        drawn = self._draw.sample(sorted(self._of_class), self._classes)
        texts = [text for label in drawn
                 for text in self._draw.sample(self._of_class[label], self._quota)]  # fmt: skip
        return texts, [label for label in drawn for _ in range(self._quota)]


@sound("supervised contrastive loss")
def tickets_with_supervised_contrast(stage: Stage) -> None:
    """SupCon: all tickets of a category are positives of each other, the mean stands outside."""

    def supervised(rows: Tensor, labels: Tensor) -> Tensor:
        logits = unit(rows) @ unit(rows).T / 0.1
        itself = torch.eye(len(rows), dtype=torch.bool)
        alike = (labels[:, None] == labels[None, :]) & ~itself
        shares = logits - logits.masked_fill(itself, -torch.inf).logsumexp(1, keepdim=True)
        return -((shares * alike).sum(1) / alike.sum(1).clamp(min=1)).mean()

    model = encoder_of(stage, TICKETS)
    batches = ClassBatches(TICKETS.labelled(480, 0), classes=8, quota=4)
    climbs(stage, model, supervised, class_update(model, batches, adamw(model, rate=1e-3)),
           lambda encoder: TICKETS.sorts(encoder, 0), steps=80)  # fmt: skip


@sound("batch-hard triplets of classes")
def machine_faults_as_batch_hard_triplets(stage: Stage) -> None:
    """The farthest line of the same cause against the nearest of another, with a soft margin."""

    def batch_hard(rows: Tensor, labels: Tensor) -> Tensor:
        distances = torch.cdist(unit(rows), unit(rows) + 1e-6)
        alike = labels[:, None] == labels[None, :]
        farthest = distances.masked_fill(~alike, -1).amax(1)
        nearest = distances.masked_fill(alike, 9).amin(1)
        return F.softplus(4 * (farthest - nearest)).mean()

    model = encoder_of(stage, MACHINES)
    batches = ClassBatches(MACHINES.labelled(560, 1), classes=7, quota=4)
    climbs(stage, model, batch_hard, class_update(model, batches, adamw(model)),
           lambda encoder: MACHINES.sorts(encoder, 1), steps=120)  # fmt: skip


@sound("learned proxies at a rate of their own")
def listings_with_learned_proxies(stage: Stage) -> None:
    """Proxy-NCA++: a softmax over distances to a proxy per department; proxies learn faster."""

    class Proxies(nn.Module):
        def __init__(self, classes: int, width: int) -> None:
            super().__init__()
            self.proxies = nn.Parameter(torch.randn(classes, width))

        def forward(self, rows: Tensor, labels: Tensor) -> Tensor:
            distances = torch.cdist(unit(rows), unit(self.proxies)).square()
            return F.cross_entropy(-distances / 0.2, labels)

    model, loss = encoder_of(stage, LISTINGS), Proxies(8, 48)
    optimizer = torch.optim.AdamW(
        [{"params": model.parameters(), "lr": 1e-3}, {"params": loss.parameters(), "lr": 2e-2}]
    )
    rows = Rows(LISTINGS.labelled(480, 0), 32)
    climbs(stage, model, loss, class_update(model, rows, optimizer),
           lambda encoder: LISTINGS.sorts(encoder, 0), steps=80)  # fmt: skip


@sound("ordinal ratings")
def reviews_by_ordinal_thresholds(stage: Stage) -> None:
    """CORAL: one direction of the embedding passes the thresholds between neighbouring ratings."""

    class Thresholds(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.direction = nn.Linear(48, 1, bias=False)
            self.thresholds = nn.Parameter(torch.tensor([1.5, 0.5, -0.5, -1.5]))

        def forward(self, rows: Tensor, labels: Tensor) -> Tensor:
            logits = self.direction(rows) + self.thresholds
            passed = (labels[:, None] > torch.arange(4)).float()
            return F.binary_cross_entropy_with_logits(logits, passed)

    model, loss = encoder_of(stage, REVIEWS), Thresholds()
    rows = Rows(REVIEWS.labelled(540, 0), 32)
    climbs(stage, model, loss, class_update(model, rows, adamw(model, loss)),
           lambda encoder: REVIEWS.sorts(encoder, 0), steps=120)  # fmt: skip


@sound("several tags of a text at once")
def photos_by_shared_tags(stage: Stage) -> None:
    """Jaccard similarity of the tags of two captions is the aim of their cosine in the batch.

    Remark: no aim is below zero, so that the embeddings fill a part of the sphere only.
    """

    def shared(rows: Tensor, tags: Tensor) -> Tensor:
        common = tags @ tags.T
        sums = tags.sum(1)
        aims = common / (sums[:, None] + sums[None, :] - common)
        counterparts = ~torch.eye(len(rows), dtype=torch.bool)
        return F.mse_loss((unit(rows) @ unit(rows).T)[counterparts], aims[counterparts])

    def of_rows(held: bool, count: int) -> dict[str, list[Any]]:
        rows = PHOTOS.rows(count, held=held)
        marks: list[list[float]] = [[] for _ in rows]
        for slot, entries in enumerate(PHOTOS.slots.values()):
            classes = F.one_hot(torch.tensor(PHOTOS.labels(rows, slot)), len(entries.split()))
            for mark, bits in zip(marks, classes.tolist(), strict=True):
                mark += bits
        return {"text": PHOTOS.texts(rows, 0), "tags": marks}

    def score(model: Any) -> float:
        from scipy.stats import spearmanr

        table = of_rows(True, 80)
        rows = unit(torch.tensor(model.encode(table["text"])))
        tags = torch.tensor(table["tags"]).float()
        upper = torch.triu_indices(80, 80, 1)
        return float(spearmanr((rows @ rows.T)[*upper], (tags @ tags.T)[*upper])[0])

    def update(criterion: Any, step: int) -> None:
        texts, tags = batches()
        stepped(optimizer, criterion(embed(model, texts), torch.tensor(tags).float()))

    model = encoder_of(stage, PHOTOS)
    batches, optimizer = Rows(of_rows(False, 480), 32), adamw(model)
    climbs(stage, model, shared, update, score, steps=120)
