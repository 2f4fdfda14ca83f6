"""Loops over texts with classes: contrasts of classes, learned centres, classifiers."""

from __future__ import annotations

import random
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.judgement.case import sound
from tests.judgement.first.drawn_rows import groups
from tests.judgement.first.labelled_texts import posts, reviews, tickets
from tests.judgement.first.stepwise_updates import adam, plain, prepared
from tests.judgement.first.turns import Rows, cosines, embed, stepped, turn
from tests.judgement.stage import Stage


class OfEachClass:
    """Batches of some classes with as many texts of each."""

    def __init__(self, texts: list[str], labels: list[int], classes: int, of_each: int) -> None:
        self._draw, self._sizes = random.Random(2), (classes, of_each)
        self._texts: dict[int, list[str]] = {}
        for text, label in zip(texts, labels, strict=True):
            self._texts.setdefault(label, []).append(text)

    def __call__(self) -> list[list[Any]]:
        classes, of_each = self._sizes
        chosen = self._draw.sample(sorted(self._texts), classes)
        rows = [(text, label) for label in chosen
                for text in self._draw.sample(self._texts[label], of_each)]  # fmt: skip
        return [list(column) for column in zip(*rows, strict=True)]


def same_and_other(labels: Tensor) -> tuple[Tensor, Tensor]:
    """Which pairs of a batch are of one class, a text with itself apart, and which are not."""
    equal = labels[:, None] == labels[None, :]
    return equal & ~torch.eye(len(labels)).bool(), ~equal


@sound("contrast of classes")
def tickets_by_supervised_contrast(stage: Stage) -> None:
    """SupCon: six departments with four tickets each; all texts of its class are positives."""

    def supcon(rows: Tensor, labels: Tensor) -> Tensor:
        same, _ = same_and_other(labels)
        logits = cosines(rows, rows) / 0.1
        logits = logits.masked_fill(torch.eye(len(rows)).bool(), -1e4).log_softmax(1)
        return -((logits * same).sum(1) / same.sum(1)).mean()

    model, train, held = prepared(stage, tickets, 400, 120)
    batches = OfEachClass(train["text"], train["label"], 6, 4)
    turn(stage, model, supcon, plain(model, batches, adam(model)), groups(held), steps=80)


@sound("additive angular margin")
def posts_by_an_angular_margin(stage: Stage) -> None:
    """ArcFace: a learned centre for each pastime, in the optimiser too, and a margin of 0.2."""

    class Arc(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(3)
            self.centres = nn.Parameter(torch.randn(10, 48))

        def forward(self, rows: Tensor, labels: Tensor) -> Tensor:
            near = cosines(rows, self.centres).clamp(-1 + 1e-6, 1 - 1e-6)
            own = F.one_hot(labels, 10).bool()
            return F.cross_entropy(16 * torch.where(own, (near.acos() + 0.2).cos(), near), labels)

    model, train, held = prepared(stage, posts, 400, 120)
    loss, rows = Arc(), Rows({"post": train["post"], "label": train["label"]}, 32)
    optimizer = torch.optim.AdamW(
        [{"params": model.parameters(), "lr": 2e-3}, {"params": loss.parameters(), "lr": 1e-2}]
    )
    turn(stage, model, loss, plain(model, rows, optimizer), groups(held, "post"), steps=80)


@sound("proxies as anchors")
def tickets_by_proxies_as_anchors(stage: Stage) -> None:
    """Proxy-Anchor: each department's learned proxy draws its tickets and repels the others."""

    class ProxyAnchor(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(3)
            self.proxies = nn.Parameter(torch.randn(8, 48))

        def forward(self, rows: Tensor, labels: Tensor) -> Tensor:
            near, own = cosines(rows, self.proxies), F.one_hot(labels, 8).bool()
            drawn = (-16 * (near - 0.1)).masked_fill(~own, -1e4).logsumexp(0)
            repelled = (16 * (near + 0.1)).masked_fill(own, -1e4).logsumexp(0)
            present = own.any(0)
            return F.softplus(drawn)[present].mean() + F.softplus(repelled).mean()

    model, train, held = prepared(stage, tickets, 400, 120, kind="distilbert")
    loss = ProxyAnchor()
    optimizer = torch.optim.AdamW(
        [{"params": model.parameters(), "lr": 2e-3}, {"params": loss.parameters(), "lr": 2e-2}]
    )
    turn(stage, model, loss, plain(model, Rows(train, 32), optimizer), groups(held), steps=80)


@sound("several similarities at once")
def hotel_ratings_by_several_similarities(stage: Stage) -> None:
    """Multi-similarity without mining: pairs of one rating and of others, softly weighted."""

    def multi_similarity(rows: Tensor, labels: Tensor) -> Tensor:
        near = cosines(rows, rows)
        same, counterpart = same_and_other(labels)
        drawn = (-2 * (near - 0.5)).exp().mul(same).sum(1).log1p() / 2
        pushed = (20 * (near - 0.5)).exp().mul(counterpart).sum(1).log1p() / 20
        return (drawn + pushed).mean()

    model, train, held = prepared(stage, reviews, 400, 120)
    batches = OfEachClass(train["text"], train["label"], 5, 5)
    turn(stage, model, multi_similarity, plain(model, batches, adam(model)), groups(held), steps=70)


@sound("circle of similarities")
def posts_in_a_circle_of_similarities(stage: Stage) -> None:
    """Circle loss: each pair weighs by how far it is from its optimum, without gradient."""

    def circle(rows: Tensor, labels: Tensor) -> Tensor:
        near = cosines(rows, rows)
        same, counterpart = same_and_other(labels)
        drawn = -16 * F.relu(1.25 - near.detach()) * (near - 0.75)
        pushed = 16 * F.relu(near.detach() + 0.25) * (near - 0.25)
        return F.softplus(drawn.masked_fill(~same, -1e4).logsumexp(1)
                          + pushed.masked_fill(~counterpart, -1e4).logsumexp(1)).mean()  # fmt: skip

    model, train, held = prepared(stage, posts, 400, 120, pooling="cls", spread=0.1)
    batches = OfEachClass(train["post"], train["label"], 6, 4)
    turn(stage, model, circle, plain(model, batches, adam(model, rate=1e-3)),
         groups(held, "post"), steps=80)  # fmt: skip


@sound("classifier with smoothed labels")
def hotel_ratings_by_a_classifier(stage: Stage) -> None:
    """A linear layer on the embedding tells the rating; labels are smoothed, the layer dropped."""
    model, train, held = prepared(stage, reviews, 400, 120)
    torch.manual_seed(4)
    layer = nn.Linear(48, 5)
    rows, optimizer = Rows(train, 32), adam(model, layer, rate=1e-3)

    def smoothed(logits: Tensor, labels: Tensor) -> Tensor:
        return F.cross_entropy(logits, labels, label_smoothing=0.1)

    def update(criterion: Any, step: int) -> None:
        texts, labels = rows()
        stepped(optimizer, criterion(layer(embed(model, texts)), torch.tensor(labels)))

    turn(stage, model, smoothed, update, groups(held), steps=70)
