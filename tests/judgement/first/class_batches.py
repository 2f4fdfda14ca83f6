"""Sound set-ups: texts with classes, by triplets of a batch, pairs of a class and proxies."""

from __future__ import annotations

import random
from typing import Any

import torch

from tests.judgement.case import sound
from tests.judgement.first.common_tools import embedded, fresh, neighbours, rows_of
from tests.judgement.first.drawn_texts import intents, queue_titles, tickets
from tests.judgement.first.loop_materials import ranking
from tests.judgement.stage import Stage
from tests.judgement.truth import learns
from tests.sentence_training import losses

GROUPED = {"batch_sampler": "group_by_label", "per_device_train_batch_size": 32}


@sound("queues of tickets, soft margin of the hardest triplets")
def tickets_by_hardest_soft_triplets(stage: Stage) -> None:
    """Batches hold several tickets of each queue, so that every ticket has a positive."""
    table, tested = tickets(300), tickets(100, True)
    trainer = stage.trainer(
        losses.BatchHardSoftMarginTripletLoss, table, fresh(stage, table, tested),
        learning_rate=1e-3, max_steps=60, **GROUPED,
    )  # fmt: skip
    learns(stage, trainer, lambda model: neighbours(model, tested), least=0.1)


@sound("intents, semi-hard triplets of cosines")
def intents_by_semi_hard_triplets(stage: Stage) -> None:
    """Cosine distances with a margin of 0.3 and not the 5 that Euclidean ones have."""
    table, tested = intents(400), intents(120, True)
    distance = losses.BatchHardTripletLossDistanceFunction.cosine_distance
    trainer = stage.trainer(
        lambda model: losses.BatchSemiHardTripletLoss(model, distance, margin=0.3), table,
        fresh(stage, table, tested), learning_rate=2e-3, max_steps=150, **GROUPED,
    )  # fmt: skip
    learns(stage, trainer, lambda model: neighbours(model, tested), least=0.1)


@sound("texts and the name of their class, small batch")
def tickets_find_the_title_of_their_queue(stage: Stage) -> None:
    """There are eight titles; a batch holds none twice, so that no title is its own negative.

    Remark: the second column has only eight different texts.
    """
    table, tested = tickets(320), tickets(100, True)
    titles = [f"queue {name}" for name in queue_titles()]
    paired = {"text": table["text"], "title": [titles[label] for label in table["label"]]}
    trainer = stage.trainer(
        ranking, paired, fresh(stage, paired, tested), per_device_train_batch_size=8,
        batch_sampler="no_duplicates", learning_rate=1.5e-3, max_steps=100,
    )  # fmt: skip

    def accuracy(model: Any) -> float:
        cosines = embedded(model, tested["text"]) @ embedded(model, titles).T
        return float((cosines.argmax(1) == tested["label"]).mean())

    learns(stage, trainer, accuracy, least=0.1)


@sound("pairs of few labelled texts")
def intents_of_few_examples_in_pairs(stage: Stage) -> None:
    """As in SetFit: pairs of a class are to have a cosine of one, pairs of two classes of zero."""
    few, tested, draw = intents(150), intents(120, True), random.Random(1)
    table: dict[str, list[Any]] = {"first": [], "second": [], "score": []}
    for same in [1.0, 0.0] * 300:
        while True:
            a, b = draw.sample(range(150), 2)
            if (few["label"][a] == few["label"][b]) == (same == 1.0):
                break
        for name, cell in zip(table, (few["utterance"][a], few["utterance"][b], same), strict=True):
            table[name].append(cell)
    trainer = stage.trainer(
        losses.CosineSimilarityLoss, table,
        fresh(stage, table, tested, layers=1, dropout=0.0), learning_rate=3e-3, max_steps=220,
    )  # fmt: skip
    learns(stage, trainer, lambda model: neighbours(model, tested), least=0.1)


class Supervised(torch.nn.Module):
    """The supervised contrastive loss: all others of a class in a batch are positives."""

    def __init__(self, model: Any, temperature: float = 0.1) -> None:
        super().__init__()
        self.model, self.temperature = model, temperature

    def forward(self, sentence_features: Any, labels: torch.Tensor) -> torch.Tensor:
        rows = self.model(next(iter(sentence_features)))["sentence_embedding"]
        rows = torch.nn.functional.normalize(rows, dim=1)
        own = torch.eye(len(rows), dtype=torch.bool)
        logits = (rows @ rows.T / self.temperature).masked_fill(own, -1e9)
        positive = (labels[:, None] == labels) & ~own
        shares = logits.log_softmax(1).masked_fill(~positive, 0.0).sum(1)
        has_any = positive.any(1)
        return -(shares / positive.sum(1).clamp(min=1))[has_any].mean()


@sound("supervised contrast, classes that training does not have")
def unseen_intents_after_supervised_contrast(stage: Stage) -> None:
    """Eight intents are trained; the score is of new texts of all ten."""
    table, tested = intents(360, names=range(8)), intents(120, True)
    trainer = stage.trainer(
        Supervised, table, fresh(stage, table, tested), per_device_train_batch_size=48,
        learning_rate=2e-3, max_steps=100,
    )  # fmt: skip
    learns(stage, trainer, lambda model: neighbours(model, tested), least=0.1)


@sound("loop, classes by the softmax of cosines to proxies")
def loop_with_an_angular_margin_for_queues(stage: Stage) -> None:
    """CosFace: a learned centre a queue, a margin of 0.2 on the right one, scale 16."""
    from tests.judgement.first.common_tools import in_order, rises
    from tests.judgement.first.loop_materials import looped

    table, tested = tickets(320), tickets(100, True)
    model = fresh(stage, table, tested)
    torch.manual_seed(5)
    centres = torch.nn.Parameter(torch.randn(8, 48))
    optimizer = torch.optim.AdamW(
        [{"params": model.parameters(), "lr": 1e-3}, {"params": [centres], "lr": 1e-2}]
    )
    batches = in_order(table, 32, 60)

    def loss(rows: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        cosines = torch.nn.functional.normalize(rows, dim=1) @ torch.nn.functional.normalize(
            centres, dim=1).T  # fmt: skip
        margins = 0.2 * torch.nn.functional.one_hot(labels, 8)
        return torch.nn.functional.cross_entropy(16 * (cosines - margins), labels)

    def update(criterion: Any, step: int) -> None:
        texts, labels = next(batches)
        value = criterion(rows_of(model, texts), torch.tensor(labels))
        optimizer.zero_grad()
        value.backward()
        optimizer.step()

    def score(model: Any) -> float:
        return neighbours(model.eval(), tested)

    rises(stage, *looped(stage, model, loss, update, steps=60, score=score))
