"""Sound set-ups on texts with classes, of the trainer and of one's own."""

from __future__ import annotations

import random
from typing import Any

import torch
import torch.nn.functional as F
from sentence_transformers.sentence_transformer import losses
from torch import Tensor, nn

from tests.judgement.case import sound
from tests.judgement.first.fields_of_many_tongues import (
    CHEMISTRY,
    GARDEN,
    HEADLINES,
    MAILS,
    SQL,
    TAGS,
    grouped,
    kindred,
    small,
)
from tests.judgement.first.turns import Rows, cosines, embed, stepped, turn
from tests.judgement.stage import Stage
from tests.judgement.truth import learns


def adam(*modules: Any, rate: float = 2e-3) -> torch.optim.Optimizer:
    return torch.optim.AdamW([w for module in modules for w in module.parameters()], lr=rate)


def plain(model: Any, batches: Rows, optimizer: torch.optim.Optimizer) -> Any:
    """A step of texts and the numbers of their classes."""

    def update(criterion: Any, step: int) -> None:
        texts, labels = batches()
        stepped(optimizer, criterion(embed(model, texts), torch.tensor(labels)))

    return update


@sound("batch-hard triplets by class")
def hardest_triplets_of_query_groups(stage: Stage) -> None:
    model = small(stage, SQL)
    trainer = stage.trainer(
        lambda encoder: losses.BatchHardSoftMarginTripletLoss(encoder),
        grouped(SQL, 24, 12), model, batch_sampler="group_by_label", learning_rate=2e-3,
        max_steps=70, per_device_train_batch_size=24,
    )  # fmt: skip
    learns(stage, trainer, kindred(SQL))


@sound("all triplets of a batch by cosine distance")
def all_triplets_of_garden_groups(stage: Stage) -> None:
    model = small(stage, GARDEN)
    distance = losses.BatchHardTripletLossDistanceFunction.cosine_distance
    trainer = stage.trainer(
        lambda encoder: losses.BatchAllTripletLoss(encoder, distance, margin=0.3),
        grouped(GARDEN, 30, 8), model, batch_sampler="group_by_label", learning_rate=2e-3,
        max_steps=60, per_device_train_batch_size=32,
    )  # fmt: skip
    learns(stage, trainer, kindred(GARDEN))


@sound("semi-hard triplets by class")
def semi_hard_triplets_of_pet_posts(stage: Stage) -> None:
    model = small(stage, TAGS)
    distance = losses.BatchHardTripletLossDistanceFunction.cosine_distance
    trainer = stage.trainer(
        lambda encoder: losses.BatchSemiHardTripletLoss(encoder, distance, margin=0.25),
        grouped(TAGS, 25, 10), model, batch_sampler="group_by_label", learning_rate=2e-3,
        max_steps=70, per_device_train_batch_size=30,
    )  # fmt: skip
    learns(stage, trainer, kindred(TAGS))


@sound("supervised contrast of classes")
def classes_of_mails_contrasted(stage: Stage) -> None:
    model = small(stage, MAILS)

    def supervised(rows: Tensor, labels: Tensor) -> Tensor:
        itself = torch.eye(len(rows), dtype=torch.bool)
        alike = (labels[:, None] == labels[None]) & ~itself
        shares = (cosines(rows, rows) / 0.1).masked_fill(itself, -1e4).log_softmax(1)
        count = alike.sum(1)
        means = (shares * alike).sum(1) / count.clamp(min=1)
        return -means[count > 0].mean()

    update = plain(model, Rows(grouped(MAILS, 20, 12), 48), adam(model))
    turn(stage, model, supervised, update, kindred(MAILS), steps=50)


@sound("normalised softmax over classes")
def margins_between_centres_of_headlines(stage: Stage) -> None:
    """ArcFace: a margin on the angle to the centre of the own class."""
    model = small(stage, HEADLINES)
    torch.manual_seed(2)
    centres = nn.Parameter(torch.randn(24, 48))
    optimizer = torch.optim.AdamW([*model.parameters(), centres], lr=3e-3)

    def angular(rows: Tensor, labels: Tensor) -> Tensor:
        values = cosines(rows, centres).clamp(-0.999, 0.999)
        own = F.one_hot(labels, 24).bool()
        return F.cross_entropy(12 * torch.where(own, (values.acos() + 0.15).cos(), values), labels)

    update = plain(model, Rows(grouped(HEADLINES, 24, 12), 32), optimizer)
    turn(stage, model, angular, update, kindred(HEADLINES), steps=80)


@sound("proxies of pytorch-metric-learning")
def proxies_of_formula_groups(stage: Stage) -> None:
    from pytorch_metric_learning.losses import ProxyAnchorLoss

    model = small(stage, CHEMISTRY)
    torch.manual_seed(2)
    loss = ProxyAnchorLoss(24, 48, margin=0.1, alpha=16)
    optimizer = torch.optim.AdamW([
        {"params": list(model.parameters()), "lr": 2e-3},
        {"params": list(loss.parameters()), "lr": 2e-2},
    ])  # fmt: skip
    batches = Rows(grouped(CHEMISTRY, 24, 12), 36)

    def update(criterion: Any, step: int) -> None:
        texts, labels = batches()
        stepped(optimizer, criterion(embed(model, texts), torch.tensor(labels)))

    turn(stage, model, loss, update, kindred(CHEMISTRY), steps=60)


@sound("multi-similarity loss with a miner, batches by class")
def mined_similarities_of_pet_posts(stage: Stage) -> None:
    from pytorch_metric_learning.losses import MultiSimilarityLoss
    from pytorch_metric_learning.miners import MultiSimilarityMiner

    model, draw = small(stage, TAGS), random.Random(5)
    table = grouped(TAGS, 24, 12)
    members: dict[int, list[str]] = {}
    for text, label in zip(*table.values(), strict=True):
        members.setdefault(label, []).append(text)
    loss, miner = MultiSimilarityLoss(alpha=2, beta=20, base=0.5), MultiSimilarityMiner(0.1)
    optimizer = adam(model)

    def with_miner(rows: Tensor, labels: Tensor) -> Tensor:
        return loss(rows, labels, miner(rows, labels))

    def update(criterion: Any, step: int) -> None:
        labels = [label for label in draw.sample(sorted(members), 8) for _ in range(4)]
        texts = [text for label in labels[::4] for text in draw.sample(members[label], 4)]
        stepped(optimizer, criterion(embed(model, texts), torch.tensor(labels)))

    turn(stage, model, with_miner, update, kindred(TAGS), steps=60)
