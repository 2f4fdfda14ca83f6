"""Losses of labels: classes, pairs that match or differ, triplets, inference."""

from __future__ import annotations

import random
from typing import Any

import torch
from sentence_transformers.sentence_transformer import evaluation, losses

from tests.judgement.case import sound
from tests.judgement.first.bodies import encoder, words_of
from tests.judgement.first.fields import CLINIC, CODE, HELPDESK, KITCHEN, PAPERS, SCENES, SHOP
from tests.judgement.first.good_fields import CONTRACTS, SONGS, requests
from tests.judgement.first.good_materials import (
    LEAST,
    matched,
    near_triplets,
    neighbours,
    of_classes,
    started,
    told_apart,
    tune,
)
from tests.judgement.stage import Stage
from tests.judgement.truth import learns

DISTANCES = losses.BatchHardTripletLossDistanceFunction


@sound("all triplets of classes of requests")
def topics_of_requests(stage: Stage) -> None:
    table, dev = _intents(320), _intents(80, seed=11)
    model = encoder(stage, words_of([table]), width=32, spread=0.05)
    tune(
        stage, table,
        lambda model: losses.BatchAllTripletLoss(model, DISTANCES.cosine_distance, margin=0.3),
        model, lambda model: neighbours(model, dev), batch_sampler="group_by_label",
        per_device_train_batch_size=32, learning_rate=2e-3, max_steps=40,
    )  # fmt: skip


def _intents(count: int, seed: int = 0) -> dict[str, list[Any]]:
    """Requests with the number of their topic."""
    table = requests(count, seed)
    return {"text": table["request"], "label": table["label"]}


@sound("hardest triplets of classes of songs, soft margin")
def moods_of_songs(stage: Stage) -> None:
    table, dev = of_classes(SONGS, 400), of_classes(SONGS, 120, seed=11)
    model = encoder(stage, words_of([table]), width=48, spread=0.05)
    tune(
        stage, table, losses.BatchHardSoftMarginTripletLoss, model,
        lambda model: neighbours(model, dev), batch_sampler="group_by_label",
        per_device_train_batch_size=32, learning_rate=1e-3, max_steps=50,
    )  # fmt: skip


@sound("half-hard triplets of classes of contracts")
def matters_of_contracts(stage: Stage) -> None:
    table, dev = of_classes(CONTRACTS, 288), of_classes(CONTRACTS, 90, seed=11)
    model = encoder(stage, words_of([table]), width=32, spread=0.05)
    tune(
        stage, table,
        lambda model: losses.BatchSemiHardTripletLoss(model, DISTANCES.cosine_distance, margin=0.4),
        model, lambda model: neighbours(model, dev), batch_sampler="group_by_label",
        per_device_train_batch_size=24, learning_rate=2e-3, max_steps=40,
    )  # fmt: skip


@sound("pairs that match or differ, contrastive loss")
def complaints_and_records(stage: Stage) -> None:
    table, dev = matched(CLINIC, 210), matched(CLINIC, 50, seed=3)
    model = started(stage, table, CLINIC, width=40)
    evaluator = evaluation.BinaryClassificationEvaluator(*dev.values(), name="dev")
    tune(
        stage, table, losses.ContrastiveLoss, model, told_apart(CLINIC), evaluator=evaluator,
        eval_strategy="epoch", learning_rate=3e-3, per_device_train_batch_size=32,
        num_train_epochs=8, max_steps=-1,
    )  # fmt: skip


@sound("hard pairs of a batch only, contrastive loss")
def hard_pairs_of_code(stage: Stage) -> None:
    table = matched(CODE, 300)
    model = started(stage, table, CODE, width=48, steps=10)
    tune(
        stage, table, losses.OnlineContrastiveLoss, model, told_apart(CODE, 70),
        per_device_train_batch_size=50, learning_rate=1e-3, max_steps=48,
    )  # fmt: skip


@sound("triplets by euclidean distance at the usual margin of five")
def triplets_of_troubles(stage: Stage) -> None:
    table = near_triplets(HELPDESK, 300, 1)
    dev = near_triplets(HELPDESK, 60, 1, seed=3)
    model = started(stage, table, HELPDESK, width=48)
    evaluator = evaluation.TripletEvaluator(*dev.values(), name="dev")
    tune(
        stage, table, losses.TripletLoss, model, HELPDESK.sought, evaluator=evaluator,
        eval_strategy="steps", eval_steps=15, learning_rate=2e-3, max_steps=60,
    )  # fmt: skip


@sound("triplets by cosine distance with random negatives")
def triplets_of_papers(stage: Stage) -> None:
    """As SPECTER: a paper, one that belongs to it, and another."""
    table = PAPERS.table(290)
    rows = PAPERS.draws(290)
    draw = random.Random(4)
    places = [draw.choice([at for at in range(290) if rows[at][0] != row[0]]) for row in rows]
    table["negative"] = [table["abstract"][at] for at in places]
    model = started(stage, table, PAPERS, width=40, steps=8)
    cosine = losses.TripletDistanceMetric.COSINE
    tune(
        stage, table,
        lambda model: losses.TripletLoss(model, distance_metric=cosine, triplet_margin=0.3), model,
        PAPERS.sought, learning_rate=1e-3, lr_scheduler_type="cosine", max_steps=60,
    )  # fmt: skip


def inferences(count: int, seed: int = 0) -> dict[str, list[Any]]:
    """Pairs of scenes: entailed (0), neutral (1) or contradicted (2)."""
    table, draw = SCENES.table(count, seed), random.Random(seed)
    near, purposes = SCENES.near(count, seed, slot=1), ("to rest", "for money", "with friends")
    hypotheses, labels = table["hypothesis"], [draw.randrange(3) for _ in range(count)]
    second = [
        (text, f"{text} {draw.choice(purposes)}", near[at])[labels[at]]
        for at, text in enumerate(hypotheses)
    ]
    return {"premise": table["premise"], "hypothesis": second, "label": labels}


@sound("classifier of three classes of inference over two embeddings")
def classifier_of_inference(stage: Stage) -> None:
    """As the first Sentence-BERT."""
    table, dev = inferences(200), inferences(45, seed=11)
    model = started(stage, table, SCENES, width=48)
    trainer = stage.trainer(
        lambda model: losses.SoftmaxLoss(model, 48, 3), table, model, learning_rate=2e-3,
        max_steps=60,
    )  # fmt: skip

    def right(model: Any) -> float:
        """The share of held-out pairs whose class is found."""
        columns = [model.encode(dev[name], convert_to_tensor=True) for name in list(dev)[:2]]
        rows = torch.cat([*columns, (columns[0] - columns[1]).abs()], dim=1)
        chosen = trainer.loss.classifier(rows).argmax(1)
        return float((chosen == torch.tensor(dev["label"])).float().mean())

    learns(stage, trainer, right, least=LEAST)


@sound("hardest triplets of classes of dishes with a plain margin")
def tastes_of_dishes(stage: Stage) -> None:
    table, dev = of_classes(KITCHEN, 360, slot=1), of_classes(KITCHEN, 120, seed=11, slot=1)
    model = encoder(stage, words_of([table]), width=32, layers=1, spread=0.05)
    tune(
        stage, table, lambda model: losses.BatchHardTripletLoss(model, margin=2), model,
        lambda model: neighbours(model, dev), batch_sampler="group_by_label",
        per_device_train_batch_size=40, learning_rate=1e-3, max_steps=40,
    )  # fmt: skip


@sound("contrastive loss of products with a margin of one cosine")
def wares_that_match(stage: Stage) -> None:
    table = matched(SHOP, 300)
    model = started(stage, table, SHOP, width=32, steps=8)
    tune(
        stage, table, lambda model: losses.ContrastiveLoss(model, margin=0.8), model,
        told_apart(SHOP, 70),
        per_device_train_batch_size=32, learning_rate=3e-3, max_steps=50,
    )  # fmt: skip
