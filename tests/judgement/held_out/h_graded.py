"""Sound set-ups on graded or binary labels, on classes, and by a teacher."""

from __future__ import annotations

import random
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from tests.judgement.case import sound
from tests.judgement.first.turns import Rows, embed, stepped, turn, warmed
from tests.judgement.held_out.h_fields import (
    LAB,
    MAILS,
    METERS,
    SHELL,
    SPORT,
    TAGS,
    adam,
    agrees,
    made_for,
    pairs_of,
)  # fmt: skip
from tests.judgement.stage import Stage
from tests.judgement.truth import learns
from tests.sentence_training import evaluation, losses


def judged_pairs(field: Any, count: int, seed: int = 0) -> dict[str, list[Any]]:
    """Pairs of texts with labels: 0 where the second text has another word in a slot."""
    draw, table = random.Random(seed), pairs_of(field, count, seed)
    first, second = table
    firsts, seconds = table.values()
    slots = range(len(field.slots))
    changed = [field.near(count, seed, slot=slot) for slot in slots]
    labels = [draw.randint(0, 1) for _ in firsts]
    texts = [
        text if label else draw.choice(changed)[at]
        for at, (text, label) in enumerate(zip(seconds, labels, strict=True))
    ]
    return {first: firsts, second: texts, "label": labels}


@sound("CoSENT on graded pairs with an evaluator of correlation")
def tags_graded_by_agreement(stage: Stage) -> None:
    held_out = list(TAGS.graded(80, seed=14).values())
    evaluator = evaluation.EmbeddingSimilarityEvaluator(*held_out, name="tags")
    trainer = stage.trainer(
        losses.CoSENTLoss, TAGS.graded(400), made_for(stage, TAGS), evaluator=evaluator,
        eval_strategy="steps", eval_steps=25, learning_rate=2e-3, max_steps=75,
    )  # fmt: skip
    learns(stage, trainer, agrees(TAGS))


@sound("angles of graded pairs")
def wishes_graded_by_angles(stage: Stage) -> None:
    trainer = stage.trainer(
        losses.AnglELoss, TAGS.graded(400, seed=2), made_for(stage, TAGS),
        learning_rate=2e-3, max_steps=100,
    )  # fmt: skip
    learns(stage, trainer, agrees(TAGS))


@sound("cosines of graded pairs")
def readings_graded_by_cosine(stage: Stage) -> None:
    trainer = stage.trainer(
        losses.CosineSimilarityLoss, METERS.graded(320), made_for(stage, METERS),
        per_device_train_batch_size=32, learning_rate=3e-3, max_steps=110, warmup_steps=8,
    )  # fmt: skip
    learns(stage, trainer, agrees(METERS))


@sound("contrastive loss on binary labels")
def tags_that_fit_the_wish(stage: Stage) -> None:
    trainer = stage.trainer(
        losses.ContrastiveLoss, judged_pairs(TAGS, 480), made_for(stage, TAGS),
        per_device_train_batch_size=32, learning_rate=3e-3, max_steps=120,
    )  # fmt: skip
    learns(stage, trainer, TAGS.sought)


@sound("online contrastive loss with an evaluator of binary labels")
def commands_that_fit_their_intent(stage: Stage) -> None:
    held_out = list(judged_pairs(SHELL, 80, seed=13).values())
    trainer = stage.trainer(
        losses.OnlineContrastiveLoss, judged_pairs(SHELL, 400), made_for(stage, SHELL),
        evaluator=evaluation.BinaryClassificationEvaluator(*held_out, name="commands"),
        eval_strategy="steps", eval_steps=30,
        per_device_train_batch_size=32, learning_rate=3e-3, max_steps=90,
    )  # fmt: skip
    learns(stage, trainer, SHELL.sought)


@sound("binary cross-entropy of scaled cosines")
def commands_right_or_wrong(stage: Stage) -> None:
    def entropy(first: Tensor, second: Tensor, labels: Tensor) -> Tensor:
        logits = 8 * F.cosine_similarity(first, second) - 4
        return F.binary_cross_entropy_with_logits(logits, labels)

    model = made_for(stage, SHELL)
    rows, optimizer = Rows(judged_pairs(SHELL, 480), 32), adam(model, 3e-3)

    def update(criterion: Any, step: int) -> None:
        first, second, labels = rows()
        cost = criterion(embed(model, first), embed(model, second), torch.tensor(labels).float())
        stepped(optimizer, cost)

    turn(stage, model, entropy, update, SHELL.sought, steps=120)


@sound("correlation of cosines and scores in a loop")
def correlated_cosines_of_mails(stage: Stage) -> None:
    """Pearson's correlation of cosines and scores over a batch of 48."""

    def pearson(first: Tensor, second: Tensor, scores: Tensor) -> Tensor:
        cosines = F.cosine_similarity(first, second)
        return 1 - F.cosine_similarity(cosines - cosines.mean(), scores - scores.mean(), dim=0)

    model = made_for(stage, MAILS)
    rows, optimizer = Rows(MAILS.graded(400), 48), adam(model, 2e-3)

    def update(criterion: Any, step: int) -> None:
        first, second, scores = rows()
        cost = criterion(embed(model, first), embed(model, second), torch.tensor(scores))
        stepped(optimizer, cost)

    turn(stage, model, pearson, update, agrees(MAILS))


@sound("differences of a teacher's scores")
def headlines_by_the_margins_of_a_teacher(stage: Stage) -> None:
    teacher = warmed(made_for(stage, SPORT, name="teacher", width=64), pairs_of(SPORT, 240), 60)
    table = pairs_of(SPORT, 240)
    table["negative"] = SPORT.near(240, slot=1)
    query, story, wrong = (
        torch.tensor(teacher.encode(texts, show_progress_bar=False, normalize_embeddings=True))
        for texts in table.values()
    )
    margins = ((query * story).sum(1) - (query * wrong).sum(1)).tolist()
    trainer = stage.trainer(
        lambda model: losses.MarginMSELoss(
            model, similarity_fct=lambda first, second: F.cosine_similarity(first, second)
        ),
        table | {"label": margins}, made_for(stage, SPORT),
        per_device_train_batch_size=32, learning_rate=3e-3, max_steps=90,
    )  # fmt: skip
    learns(stage, trainer, SPORT.sought)


@sound("embeddings of a teacher")
def small_encoder_after_a_large_teacher(stage: Stage) -> None:
    table = pairs_of(LAB, 400)
    teacher = warmed(made_for(stage, LAB, name="teacher", layers=3), table, 60)
    texts = [text for column in table.values() for text in column]
    random.Random(0).shuffle(texts)
    labels = teacher.encode(texts, show_progress_bar=False).tolist()
    trainer = stage.trainer(
        losses.MSELoss, {"sentence": texts, "label": labels}, made_for(stage, LAB, layers=1),
        per_device_train_batch_size=32, learning_rate=3e-3, max_steps=90,
    )  # fmt: skip
    learns(stage, trainer, LAB.sought)
