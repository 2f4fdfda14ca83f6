"""Sound set-ups with the trainer: graded, binary and class labels."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
from sentence_transformers.sentence_transformer import losses
from sentence_transformers.sentence_transformer.evaluation import (
    BinaryClassificationEvaluator,
    EmbeddingSimilarityEvaluator,
)

from tests.judgement.case import sound
from tests.judgement.first.bodies import encoder
from tests.judgement.first.fields import Field
from tests.judgement.first.fields_of_daily_use import (
    BIRDS,
    MAILS,
    NEWS,
    QUERIES,
    RENTS,
    finds,
    headlines,
    same_topic,
    split,
    starter,
    topic_words,
)
from tests.judgement.first.turns import warmed
from tests.judgement.stage import Stage
from tests.judgement.truth import correlation, learns


def agrees(field: Field) -> Callable[[Any], float]:
    """A score: the rank correlation of cosines and grades of pairs not in training."""
    return lambda model: correlation(model, field.graded(80, seed=11))


def pretrained(stage: Stage, field: Field, steps: int = 14) -> Any:
    """An encoder that has learned a little from pairs, to be tuned by labels."""
    return warmed(starter(stage, field), field.table(240, seed=4), steps)


def answered(field: Field, count: int, seed: int = 0) -> dict[str, list[Any]]:
    """Pairs of a field: half are true (1); half differ in one slot or in several (0)."""
    draw, table = random.Random(seed), field.table(count, seed)
    names, labels = list(table), []
    wrong = [field.near(count, seed, slot=slot) for slot in range(len(field.slots))]
    far = table[names[1]][1:] + table[names[1]][:1]
    wrong += [far] * len(wrong)
    for at in range(count):
        labels.append(draw.randint(0, 1))
        if not labels[-1]:
            table[names[1]][at] = draw.choice(wrong)[at]
    return table | {"label": labels}


@sound("graded pairs by CoSENT")
def grades_of_flats_by_cosent(stage: Stage) -> None:
    table, dev = split(RENTS.graded(400), 340)
    trainer = stage.trainer(
        losses.CoSENTLoss, table, starter(stage, RENTS), learning_rate=2e-3, max_steps=80,
        per_device_train_batch_size=32, eval_strategy="steps", eval_steps=20,
        evaluator=EmbeddingSimilarityEvaluator(*dev.values(), name="rents"),
    )  # fmt: skip
    learns(stage, trainer, agrees(RENTS))


@sound("graded pairs by AnglE")
def grades_of_two_scripts_by_angles(stage: Stage) -> None:
    trainer = stage.trainer(
        losses.AnglELoss, NEWS.graded(480), starter(stage, NEWS), learning_rate=2e-3,
        max_steps=110, per_device_train_batch_size=32, weight_decay=0.01,
    )  # fmt: skip
    learns(stage, trainer, agrees(NEWS))


@sound("graded pairs by regression on the cosine")
def grades_of_mails_by_their_cosine(stage: Stage) -> None:
    trainer = stage.trainer(
        losses.CosineSimilarityLoss, MAILS.graded(600), pretrained(stage, MAILS),
        learning_rate=1e-3, max_steps=90, per_device_train_batch_size=24,
    )  # fmt: skip
    learns(stage, trainer, agrees(MAILS))


@sound("binary pairs, contrastive")
def true_and_false_names_of_birds(stage: Stage) -> None:
    table, dev = split(answered(BIRDS, 460), 400)
    trainer = stage.trainer(
        lambda model: losses.ContrastiveLoss(model, margin=0.5), table,
        pretrained(stage, BIRDS, 5), learning_rate=1e-3, max_steps=100,
        per_device_train_batch_size=32, eval_strategy="steps", eval_steps=25,
        evaluator=BinaryClassificationEvaluator(*dev.values(), name="birds"),
    )  # fmt: skip
    learns(stage, trainer, finds(BIRDS))


@sound("binary pairs, the hard ones of a batch only")
def true_and_false_queries_by_their_hard_pairs(stage: Stage) -> None:
    trainer = stage.trainer(
        losses.OnlineContrastiveLoss, answered(QUERIES, 600), pretrained(stage, QUERIES, 5),
        learning_rate=1e-3, max_steps=90, per_device_train_batch_size=32,
    )  # fmt: skip
    learns(stage, trainer, finds(QUERIES))


def entailments(count: int, seed: int = 0) -> dict[str, list[Any]]:
    """News and a claim: the same news (0), one with another deed (2), or half of another (1)."""
    draw, rows = random.Random(seed + 7), NEWS.draws(count, seed)
    table: dict[str, list[Any]] = {"premise": NEWS.texts(rows, 0), "hypothesis": [], "label": []}
    lists = [entries.split() for entries in NEWS.slots.values()]
    for who, act, what, when in rows:
        label = draw.randrange(3)
        if label == 2:
            act = draw.choice([entry for entry in lists[1] if entry != act])
        if label == 1:
            what = draw.choice([entry for entry in lists[2] if entry != what])
            when = draw.choice([entry for entry in lists[3] if entry != when])
        table["hypothesis"] += NEWS.texts([(who, act, what, when)], 1)
        table["label"].append(label)
    return table


@sound("three classes of pairs, softmax")
def claims_about_news_in_three_classes(stage: Stage) -> None:
    def entailed(model: Any) -> float:
        """Accuracy of a linear classifier of pairs not in training, fitted to those in training."""
        from sklearn.linear_model import LogisticRegression

        fitted, asked = ({**table} for table in (entailments(480), entailments(160, seed=11)))
        rows = []
        for table in (fitted, asked):
            first, second = (
                model.encode(table[name], show_progress_bar=False)
                for name in ("premise", "hypothesis")
            )
            rows.append(np.hstack([first, second, np.abs(first - second)]))
        probe = LogisticRegression(max_iter=300).fit(rows[0], fitted["label"])
        return float(probe.score(rows[1], asked["label"]))

    trainer = stage.trainer(
        lambda model: losses.SoftmaxLoss(model, 48, 3), entailments(480), starter(stage, NEWS),
        learning_rate=3e-3, max_steps=120, per_device_train_batch_size=32,
    )  # fmt: skip
    learns(stage, trainer, entailed)


@sound("classes of headlines, hard triplets of a batch")
def headlines_by_their_hardest_triplets(stage: Stage) -> None:
    trainer = stage.trainer(
        lambda model: losses.BatchHardSoftMarginTripletLoss(model), headlines(400),
        encoder(stage, topic_words()), learning_rate=2e-3, max_steps=80,
        per_device_train_batch_size=40, batch_sampler="group_by_label",
    )  # fmt: skip
    learns(stage, trainer, same_topic)


@sound("classes of headlines, all triplets of a batch")
def headlines_by_all_triplets(stage: Stage) -> None:
    distance = losses.BatchHardTripletLossDistanceFunction.cosine_distance
    trainer = stage.trainer(
        lambda model: losses.BatchAllTripletLoss(model, distance, margin=0.25),
        headlines(400), encoder(stage, topic_words(), width=32), learning_rate=2e-3, max_steps=80,
        per_device_train_batch_size=32, batch_sampler="group_by_label",
    )  # fmt: skip
    learns(stage, trainer, same_topic)


@sound("classes of headlines, semi-hard triplets of a batch")
def headlines_by_semi_hard_triplets(stage: Stage) -> None:
    distance = losses.BatchHardTripletLossDistanceFunction.cosine_distance
    trainer = stage.trainer(
        lambda model: losses.BatchSemiHardTripletLoss(model, distance, margin=0.3),
        headlines(360, seed=2), encoder(stage, topic_words(), pooling="max"), learning_rate=3e-3,
        max_steps=70, per_device_train_batch_size=48, batch_sampler="group_by_label",
    )  # fmt: skip
    learns(stage, trainer, same_topic)
