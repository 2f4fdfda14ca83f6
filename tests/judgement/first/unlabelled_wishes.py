"""Sound set-ups: training without pairs, rarer losses of the trainer, and rarer loops."""

from __future__ import annotations

import random
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from tests.judgement.case import sound
from tests.judgement.first import fields_of_wishes_and_mails as fields
from tests.judgement.first.loops_of_wishes import adam, plainly
from tests.judgement.first.turns import Rows, cosines, embed, stepped, turn, warmed
from tests.judgement.stage import Stage
from tests.judgement.truth import learns
from tests.sentence_training import losses


def _notes(count: int, seed: int) -> dict[str, list[str]]:
    """Profiles and notes of the same words in another order."""
    table = fields.JOBS.table(count, seed)
    return {"profile": table["profile"], "note": table["note"]}


def thinned(texts: list[str], share: float) -> list[str]:
    """Texts that lack a share of their words."""
    draw, damaged = random.Random(2), []
    for text in texts:
        words = text.split()
        places = sorted(draw.sample(range(len(words)), max(1, round(share * len(words)))))
        damaged.append(" ".join(words[at] for at in places))
    return damaged


def ranking(model: Any) -> Any:
    return losses.MultipleNegativesRankingLoss(model)


@sound("two draws of dropout of a text")
def profiles_against_themselves(stage: Stage) -> None:
    texts = fields.JOBS.table(400)["profile"]
    model = fields.encoder_of(stage, fields.JOBS, dropout=0.15)
    trainer = stage.trainer(
        ranking, {"text": texts, "again": texts}, model, learning_rate=2e-3, max_steps=60,
        per_device_train_batch_size=32,
    )  # fmt: skip
    learns(stage, trainer, fields.sought(_notes))


@sound("texts and what is left of them by chance")
def profiles_against_their_thinned_words(stage: Stage) -> None:
    texts = fields.JOBS.table(400)["profile"]
    model = fields.encoder_of(stage, fields.JOBS)
    table = {"text": texts, "thinned": thinned(texts, 0.8)}
    update = plainly(model, Rows(table, 32), adam(model))
    turn(stage, model, symmetric, update, fields.sought(_notes), steps=60)


def symmetric(first: Tensor, second: Tensor) -> Tensor:
    """Ranking in both directions."""
    scores, labels = cosines(first, second) / 0.06, torch.arange(len(first))
    return (F.cross_entropy(scores, labels) + F.cross_entropy(scores.T, labels)) / 2


@sound("guide and large batches in chunks")
def weather_guided_in_chunks(stage: Stage) -> None:
    table = fields.WEATHER.table(360)
    guide = fields.encoder_of(stage, fields.WEATHER, name="guide", width=64, seed=8)
    warmed(guide, table, steps=40)

    def guided(model: Any) -> Any:
        return losses.CachedGISTEmbedLoss(
            model, guide, temperature=0.05, mini_batch_size=24, margin_strategy="relative",
            margin=0.05,
        )  # fmt: skip

    model = fields.encoder_of(stage, fields.WEATHER, width=32)
    trainer = stage.trainer(
        guided, table, model, learning_rate=4e-3, max_steps=30, per_device_train_batch_size=72
    )
    learns(stage, trainer, fields.WEATHER.sought)


@sound("directions of a teacher's embeddings")
def student_of_a_teachers_directions(stage: Stage) -> None:
    pairs = fields.FLIGHTS.table(340)
    teacher = fields.encoder_of(stage, fields.FLIGHTS, name="teacher", seed=8)
    warmed(teacher, pairs, steps=50)
    texts = [*pairs["wish"], *pairs["code"]]
    targets = teacher.encode(texts, show_progress_bar=False).tolist()
    model = fields.encoder_of(stage, fields.FLIGHTS, layers=1)
    trainer = stage.trainer(
        lambda model: losses.EmbedDistillLoss(model, distance_metric="cosine"),
        {"text": texts, "label": targets}, model, learning_rate=3e-3, max_steps=100,
        per_device_train_batch_size=32,
    )  # fmt: skip
    learns(stage, trainer, fields.FLIGHTS.sought)


@sound("nested sizes and layers at once")
def russian_in_sizes_and_layers(stage: Stage) -> None:
    def nested(model: Any) -> Any:
        return losses.Matryoshka2dLoss(model, ranking(model), matryoshka_dims=[48, 24])

    model = fields.encoder_of(stage, fields.RUSSIAN, layers=3)
    trainer = stage.trainer(
        nested, fields.RUSSIAN.table(360), model, learning_rate=2e-3, max_steps=60,
        per_device_train_batch_size=24,
    )  # fmt: skip
    learns(stage, trainer, fields.RUSSIAN.sought)


def redundancy(first: Tensor, second: Tensor) -> Tensor:
    """Barlow twins: dimensions agree across the columns, and are otherwise uncorrelated."""
    first, second = (F.batch_norm(rows, None, None, training=True) for rows in (first, second))
    gaps = (first.T @ second / len(first) - torch.eye(first.shape[1])).square()
    return gaps.trace() + 0.02 * (gaps.sum() - gaps.trace())


@sound("uncorrelated dimensions")
def chess_by_barlow_twins(stage: Stage) -> None:
    model = fields.encoder_of(stage, fields.CHESS, width=32)
    update = plainly(model, Rows(fields.CHESS.table(420), 64), adam(model))
    turn(stage, model, redundancy, update, fields.CHESS.sought, steps=60)


def uniform(first: Tensor, second: Tensor) -> Tensor:
    """Partners are aligned, and all texts spread over the sphere."""
    first, second = F.normalize(first), F.normalize(second)
    spread = sum(torch.pdist(x).square().mul(-2).exp().mean().log() for x in (first, second))
    return (first - second).square().sum(1).mean() + spread / 2


@sound("alignment and uniformity")
def sql_aligned_and_uniform(stage: Stage) -> None:
    model = fields.encoder_of(stage, fields.SQL, spread=0.05)
    update = plainly(model, Rows(fields.SQL.table(340), 48), adam(model))
    turn(stage, model, uniform, update, fields.SQL.sought, steps=70)


def several(anchors: Tensor, candidates: Tensor, owners: Tensor) -> Tensor:
    """Ranking of several right candidates for an anchor among all of the batch."""
    scores = cosines(anchors, candidates) / 0.07
    right = owners == torch.arange(len(anchors))[:, None]
    logs = scores.log_softmax(1)
    return -(logs * right).sum(1).div(right.sum(1)).mean()


@sound("two right texts for an anchor")
def adverts_with_profiles_and_notes(stage: Stage) -> None:
    model = fields.encoder_of(stage, fields.JOBS)
    rows, optimizer = Rows(fields.JOBS.table(360), 20), adam(model)

    def update(criterion: Any, step: int) -> None:
        adverts, profiles, notes = rows()
        owners = torch.arange(20).repeat(2)
        candidates = embed(model, [*profiles, *notes])
        stepped(optimizer, criterion(embed(model, adverts), candidates, owners))

    score = fields.sought(lambda count, seed: _first_two(fields.JOBS.table(count, seed)))
    turn(stage, model, several, update, score, steps=60)


def _first_two(table: dict[str, list[str]]) -> dict[str, list[str]]:
    return dict(list(table.items())[:2])
