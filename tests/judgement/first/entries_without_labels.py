"""Sound set-ups without labels: views by dropout and by shortening, decorrelation, tension."""

from __future__ import annotations

import copy
import random
from typing import Any

import torch
import torch.nn.functional as F
from sentence_transformers.sentence_transformer import losses
from torch import Tensor

from tests.judgement.case import sound
from tests.judgement.first.fields_of_reviews_and_cards import (
    MINERALS,
    adamw,
    of_field,
    seek,
    shortened,
    unit,
)
from tests.judgement.first.loop_materials import ranking
from tests.judgement.first.turns import Rows, cosines, embed, infonce, stepped, turn
from tests.judgement.stage import Stage
from tests.judgement.truth import learns

SCORE = seek(MINERALS, 80)


def texts(count: int = 500) -> list[str]:
    """Labels and entries of the catalogue, of different pieces."""
    labels, entries = MINERALS.table(count).values()
    mixed = [*labels[::2], *entries[1::2]]
    return random.Random(3).sample(mixed, len(mixed))


@sound("views by dropout, with a trainer")
def views_by_dropout_of_labels_with_a_trainer(stage: Stage) -> None:
    table = {"text": texts(400), "same": texts(400)}
    trainer = stage.trainer(
        ranking, table, of_field(stage, MINERALS), learning_rate=2e-3, max_steps=70,
        per_device_train_batch_size=32,
    )  # fmt: skip
    learns(stage, trainer, SCORE)


@sound("views by dropout, in a loop")
def views_by_dropout_in_a_loop_with_two_passes(stage: Stage) -> None:
    model, rows = of_field(stage, MINERALS, dropout=0.15), Rows({"text": texts()}, 32)
    optimizer = adamw(model, 1e-3)

    def update(criterion: Any, step: int) -> None:
        (column,) = rows()
        stepped(optimizer, criterion(embed(model, column), embed(model, column)))

    turn(stage, model, infonce, update, SCORE, steps=60)


@sound("views by shortening")
def views_by_words_left_out_at_random(stage: Stage) -> None:
    model, rows = of_field(stage, MINERALS), Rows({"text": texts()}, 32)
    optimizer, draw = adamw(model, 2e-3), random.Random(1)

    def update(criterion: Any, step: int) -> None:
        (column,) = rows()
        views = [[shortened(text, draw) for text in column] for _ in range(2)]
        stepped(optimizer, criterion(*(embed(model, view) for view in views)))

    turn(stage, model, infonce, update, SCORE, steps=60)


def several(*views: Tensor) -> Tensor:
    """The mean of the InfoNCE of all ordered pairs of views."""
    pairs = [(a, b) for a in range(len(views)) for b in range(len(views)) if a != b]
    return torch.stack([infonce(views[a], views[b]) for a, b in pairs]).mean()


@sound("four views of a text")
def four_views_of_a_text_in_all_pairs(stage: Stage) -> None:
    model, rows = of_field(stage, MINERALS, pooling="max"), Rows({"text": texts()}, 16)
    optimizer, draw = adamw(model, 2e-3), random.Random(2)

    def update(criterion: Any, step: int) -> None:
        (column,) = rows()
        views = [[shortened(text, draw, 0.2) for text in column] for _ in range(4)]
        stepped(optimizer, criterion(*(embed(model, view) for view in views)))

    turn(stage, model, several, update, SCORE, steps=50)


def decorrelated(first: Tensor, second: Tensor) -> Tensor:
    """Barlow Twins: the correlations of the coordinates of two views approach the identity."""
    first, second = ((rows - rows.mean(0)) / (rows.std(0) + 1e-4) for rows in (first, second))
    matrix = first.T @ second / len(first)
    on = (matrix.diagonal() - 1).square().sum()
    off = (matrix - matrix.diagonal().diag()).square().sum()
    return on + 0.02 * off


@sound("decorrelated coordinates")
def decorrelated_coordinates_of_two_views(stage: Stage) -> None:
    model, rows = of_field(stage, MINERALS), Rows({"text": texts()}, 64)
    optimizer, draw = adamw(model, 1e-3), random.Random(3)

    def update(criterion: Any, step: int) -> None:
        (column,) = rows()
        views = [[shortened(text, draw, 0.15) for text in column] for _ in range(2)]
        stepped(optimizer, criterion(*(embed(model, view) for view in views)))

    turn(stage, model, decorrelated, update, SCORE, steps=40)


def spread(first: Tensor, second: Tensor) -> Tensor:
    """Alignment of two views and uniformity of all rows on the sphere."""
    first, second = unit(first), unit(second)
    near = (first - second).square().sum(1).mean()
    far = sum(torch.pdist(rows).square().mul(-2).exp().mean().log() for rows in (first, second))
    return near + far / 2


@sound("alignment and uniformity")
def alignment_and_uniformity_of_two_views(stage: Stage) -> None:
    model, rows = of_field(stage, MINERALS), Rows({"text": texts()}, 32)
    optimizer, draw = adamw(model, 2e-3), random.Random(4)

    def update(criterion: Any, step: int) -> None:
        (column,) = rows()
        views = [[shortened(text, draw) for text in column] for _ in range(2)]
        stepped(optimizer, criterion(*(embed(model, view) for view in views)))

    turn(stage, model, spread, update, SCORE, steps=60)


def tension(first: Tensor, second: Tensor) -> Tensor:
    """Contrastive tension in a batch: equal texts score high, different ones low."""
    own, logits = torch.arange(len(first)), cosines(first, second) / 0.1
    return (F.cross_entropy(logits, own) + F.cross_entropy(logits.T, own)) / 2


@sound("tension of two encoders")
def tension_of_two_encoders_of_the_same_texts(stage: Stage) -> None:
    """Two copies of an encoder embed a text; the second is the one that is used."""
    model = of_field(stage, MINERALS)
    twin = copy.deepcopy(model)
    copies = torch.nn.ModuleList([twin, model])
    optimizer, rows = adamw(copies, 1e-3), Rows({"text": texts()}, 32)

    def update(criterion: Any, step: int) -> None:
        twin.train()
        (column,) = rows()
        stepped(optimizer, criterion(embed(twin, column), embed(model, column)))

    turn(stage, model, tension, update, SCORE, steps=60)


@sound("tension in a batch, with a trainer")
def tension_in_a_batch_with_a_trainer(stage: Stage) -> None:
    table = {"text": texts(400), "same": texts(400)}
    trainer = stage.trainer(
        losses.ContrastiveTensionLossInBatchNegatives, table, of_field(stage, MINERALS),
        learning_rate=1e-3, max_steps=60, per_device_train_batch_size=32,
    )  # fmt: skip
    learns(stage, trainer, SCORE)
