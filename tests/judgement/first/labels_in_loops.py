"""Loops of one's own over labels, grades and lists: prototypes, classifiers, soft targets."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.judgement.case import sound
from tests.judgement.first.loop_subjects import (
    BEES,
    BIRDS,
    GEMS,
    JOBS,
    OPERA,
    PATENTS,
    RAILS,
    SKIES,
    Worded,
    labelled,
    neighbours,
    reader,
)
from tests.judgement.first.turns import Rows, cosines, embed, stepped, turn, warmed
from tests.judgement.stage import Stage
from tests.judgement.truth import correlation


def over_labels(
    stage: Stage,
    subject: Worded,
    loss: Callable[..., Tensor],
    *,
    slot: int = 0,
    size: int = 32,
    rate: float = 2e-3,
    steps: int = 60,
    weights: Any = (),
    head_rate: float = 1e-2,
) -> None:
    """A loop over texts and their labels; ``weights`` of the loss have a rate of their own."""
    model = reader(stage, subject)
    rows = Rows(labelled(subject, 192, slot=slot), size)
    groups = [{"params": [*model.parameters()]}]
    if weights:
        groups.append({"params": [*weights], "lr": head_rate})
    optimizer = torch.optim.AdamW(groups, lr=rate)

    def update(criterion: Any, step: int) -> None:
        texts, labels = rows()
        stepped(optimizer, criterion(embed(model, texts), torch.tensor(labels)))

    score = neighbours(labelled(subject, 60, 11, slot=slot))
    turn(stage, model, loss, update, score, steps=steps)


@sound("supervised contrast of texts with a label")
def supervised_contrast_of_a_label(stage: Stage) -> None:
    """Khosla et al. 2020, the sum outside the logarithm; texts without a partner are left out."""

    def supcon(rows: Tensor, labels: Tensor) -> Tensor:
        own = torch.eye(len(rows), dtype=torch.bool)
        logits = (cosines(rows, rows) / 0.1).masked_fill(own, -1e4)
        same = ((labels[:, None] == labels) & ~own).float()
        partners = same.sum(1)
        gains = (logits.log_softmax(1) * same).sum(1) / partners.clamp(min=1)
        return -gains[partners > 0].mean()

    over_labels(stage, GEMS, supcon)


class AngularHead(nn.Module):
    """ArcFace (Deng et al. 2019): a margin on the angle to the own class's centre."""

    def __init__(self, classes: int, *, margin: float = 0.2, scale: float = 16) -> None:
        super().__init__()
        torch.manual_seed(2)
        self.centres = nn.Parameter(torch.randn(classes, 48))
        self.margin, self.scale = margin, scale

    def forward(self, rows: Tensor, labels: Tensor) -> Tensor:
        likeness = cosines(rows, self.centres).clamp(-1 + 1e-6, 1 - 1e-6)
        own = F.one_hot(labels, len(self.centres)).bool()
        with_margin = torch.cos(likeness.acos() + self.margin)
        return F.cross_entropy(self.scale * torch.where(own, with_margin, likeness), labels)


@sound("angular margin to centres that are learned")
def angular_margin_to_learned_centres(stage: Stage) -> None:
    head = AngularHead(7)
    over_labels(stage, OPERA, head, weights=[head.centres])


@sound("proxies of classes, each class of the batch weighed alike")
def proxies_weighed_by_class(stage: Stage) -> None:
    """Proxy Anchor of pytorch-metric-learning in a loop of one's own."""
    from pytorch_metric_learning.losses import ProxyAnchorLoss

    torch.manual_seed(2)
    proxies = ProxyAnchorLoss(9, 48)
    over_labels(
        stage, RAILS, lambda rows, labels: proxies(rows, labels), weights=proxies.parameters()
    )


@sound("pairs mined and weighed by several likenesses")
def pairs_mined_by_several_likenesses(stage: Stage) -> None:
    """Multi-Similarity loss with its miner (Wang et al. 2019)."""
    from pytorch_metric_learning.losses import MultiSimilarityLoss
    from pytorch_metric_learning.miners import MultiSimilarityMiner

    loss, miner = MultiSimilarityLoss(alpha=2, beta=20, base=0.5), MultiSimilarityMiner(0.1)

    def mined(rows: Tensor, labels: Tensor) -> Tensor:
        return loss(rows, labels, miner(rows.detach(), labels))

    over_labels(stage, JOBS, mined, size=48)


@sound("circle loss over all pairs of a batch")
def circle_loss_over_labels(stage: Stage) -> None:
    """Sun et al. 2020."""

    def circle(rows: Tensor, labels: Tensor) -> Tensor:
        likeness = cosines(rows, rows)
        upper = torch.ones_like(likeness).triu(1).bool()
        same = labels[:, None] == labels
        near, far = likeness[same & upper], likeness[~same & upper]
        pulled = -24 * F.relu(1.25 - near.detach()) * (near - 0.75)
        pushed = 24 * F.relu(far.detach() + 0.25) * (far - 0.25)
        return F.softplus(pulled.logsumexp(0) + pushed.logsumexp(0))

    over_labels(stage, BIRDS, circle, steps=70)


class Episodes:
    """Draws classes, and of each class texts that support it and texts that are asked."""

    def __init__(self, table: dict[str, list[Any]], classes: int, of_each: int) -> None:
        self._texts: dict[int, list[str]] = {}
        for text, label in zip(*table.values(), strict=True):
            self._texts.setdefault(label, []).append(text)
        self._draw, self._shape = random.Random(0), (classes, of_each)

    def __call__(self) -> tuple[list[str], list[str]]:
        classes, of_each = self._shape
        support, asked = [], []
        for label in self._draw.sample(sorted(self._texts), classes):
            texts = self._draw.sample(self._texts[label], 2 * of_each)
            support += texts[:of_each]
            asked += texts[of_each:]
        return support, asked


@sound("prototypes of an episode's classes")
def prototypes_of_an_episode(stage: Stage) -> None:
    """Prototypical networks (Snell et al. 2017): 5 classes, 3 texts for and 3 asked of each."""
    model = reader(stage, PATENTS)
    episodes = Episodes(labelled(PATENTS, 192), 5, 3)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)

    def prototypical(asked: Tensor, prototypes: Tensor) -> Tensor:
        classes = torch.arange(len(prototypes)).repeat_interleave(3)
        return F.cross_entropy(-torch.cdist(asked, prototypes).square() / 4, classes)

    def update(criterion: Any, step: int) -> None:
        support, asked = episodes()
        prototypes = embed(model, support).view(5, 3, -1).mean(1)
        stepped(optimizer, criterion(embed(model, asked), prototypes))

    score = neighbours(labelled(PATENTS, 60, 11))
    turn(stage, model, prototypical, update, score, steps=60)


@sound("classifier and the contrast of its classes together")
def classifier_with_contrast(stage: Stage) -> None:
    """Gunel et al. 2021: cross-entropy of a linear head beside supervised contrast."""
    torch.manual_seed(2)
    head = nn.Linear(48, 8)

    def joint(rows: Tensor, labels: Tensor) -> Tensor:
        own = torch.eye(len(rows), dtype=torch.bool)
        logits = (cosines(rows, rows) / 0.2).masked_fill(own, -1e4)
        same = ((labels[:, None] == labels) & ~own).float()
        partners = same.sum(1)
        gains = (logits.log_softmax(1) * same).sum(1) / partners.clamp(min=1)
        return 0.5 * F.cross_entropy(head(rows), labels) - 0.5 * gains[partners > 0].mean()

    over_labels(stage, BEES, joint, weights=head.parameters(), head_rate=5e-3)


@sound("triplets of the batch between its easiest and its hardest")
def semi_hard_triplets_of_labels(stage: Stage) -> None:
    """FaceNet's semi-hard negatives, with the miner of pytorch-metric-learning."""
    from pytorch_metric_learning.losses import TripletMarginLoss
    from pytorch_metric_learning.miners import TripletMarginMiner

    loss = TripletMarginLoss(margin=0.3)
    miner = TripletMarginMiner(margin=0.3, type_of_triplets="semihard")

    def mined(rows: Tensor, labels: Tensor) -> Tensor:
        triplets = miner(rows, labels)
        return loss(rows, labels, triplets)

    over_labels(stage, SKIES, mined, size=48, steps=70)


def over_grades(
    stage: Stage, subject: Worded, loss: Callable[..., Tensor], *, steps: int = 90,
    rate: float = 1e-3,
) -> None:  # fmt: skip
    """A loop over graded pairs, from an encoder that has learned from plain pairs before."""
    model = warmed(reader(stage, subject), subject.table(216, 2), 12)
    rows = Rows(subject.graded(240), 24)
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate)

    def update(criterion: Any, step: int) -> None:
        first, second, grades = rows()
        rated = torch.tensor(grades, dtype=torch.float32)
        stepped(optimizer, criterion(embed(model, first), embed(model, second), rated))

    held_out = subject.graded(100, 11)
    turn(stage, model, loss, update, lambda model: correlation(model, held_out), steps=steps)


@sound("order of graded pairs within a batch")
def order_of_graded_pairs_of_a_batch(stage: Stage) -> None:
    """CoSENT by hand: each pair of a higher grade should be closer than each of a lower one."""

    def cosent(first: Tensor, second: Tensor, grades: Tensor) -> Tensor:
        likeness = 20 * F.cosine_similarity(first, second)
        gaps = (likeness[None] - likeness[:, None])[grades[:, None] > grades[None]]
        return torch.cat([torch.zeros(1), gaps]).logsumexp(0)

    over_grades(stage, RAILS, cosent)


@sound("grades of pairs as squared distance of cosines")
def grades_as_cosines(stage: Stage) -> None:
    def squared(first: Tensor, second: Tensor, grades: Tensor) -> Tensor:
        return F.mse_loss(F.cosine_similarity(first, second), grades)

    over_grades(stage, GEMS, squared)


@sound("correlation with the grades of a batch as the loss")
def correlation_with_grades_as_loss(stage: Stage) -> None:
    """One less Pearson's correlation of the cosines and the grades of a batch."""

    def uncorrelated(first: Tensor, second: Tensor, grades: Tensor) -> Tensor:
        likeness = F.cosine_similarity(first, second)
        centred, targets = likeness - likeness.mean(), grades - grades.mean()
        return 1 - F.cosine_similarity(centred, targets, dim=0)

    over_grades(stage, JOBS, uncorrelated)
