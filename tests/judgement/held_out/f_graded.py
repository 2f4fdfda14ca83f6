"""Sound trainers on graded or binary labels, classes, entailment and teachers' scores."""

from __future__ import annotations

import random
from typing import Any

import torch

from tests.judgement.case import sound
from tests.judgement.first.bodies import encoder
from tests.judgement.first.fields import Field
from tests.judgement.first.turns import warmed
from tests.judgement.held_out.f_fields import (
    CHEMISTRY,
    JOBS,
    OPENINGS,
    PATENTS,
    PINYIN,
    SENSORS,
    SHELL,
    TICKETS,
    WEATHER,
    among_classes,
    graded_score,
    model_of,
    of_classes,
    words,
)
from tests.judgement.stage import Stage
from tests.judgement.truth import learns
from tests.sentence_training import evaluation, losses

FAST = {"learning_rate": 2e-3, "max_steps": 80, "per_device_train_batch_size": 32}


def judged(field: Field, count: int, seed: int = 0) -> dict[str, list[Any]]:
    """Pairs of texts, of which half belong together (1) and half differ in a slot or two (0)."""
    draw, table = random.Random(seed), field.table(count, seed)
    (first_name, first), (second_name, second) = list(table.items())[:2]
    near, far = field.near(count, seed, slot=1), [*second[7:], *second[:7]]
    labels = [draw.randint(0, 1) for _ in range(count)]
    seconds = [
        second[at] if label else draw.choice((near[at], far[at])) for at, label in enumerate(labels)
    ]
    return {first_name: first, second_name: seconds, "label": labels}


@sound("grades by CoSENT, with an evaluator of correlation")
def weather_grades_by_cosent(stage: Stage) -> None:
    dev = WEATHER.graded(60, seed=13)
    evaluator = evaluation.EmbeddingSimilarityEvaluator(
        dev["headline"], dev["bulletin"], dev["score"], name="dev", write_csv=False
    )
    trainer = stage.trainer(
        losses.CoSENTLoss, WEATHER.graded(400), model_of(stage, WEATHER), **FAST,
        evaluator=evaluator, eval_strategy="steps", eval_steps=20,
    )  # fmt: skip
    learns(stage, trainer, graded_score(WEATHER))


@sound("grades by the squared error of cosines")
def sensor_grades_by_their_cosine(stage: Stage) -> None:
    trainer = stage.trainer(
        losses.CosineSimilarityLoss, SENSORS.graded(400), model_of(stage, SENSORS), **FAST
    )
    learns(stage, trainer, graded_score(SENSORS))


@sound("binary labels by a contrastive margin, with an evaluator of classification")
def tickets_and_commits_judged_yes_or_no(stage: Stage) -> None:
    dev = judged(TICKETS, 80, seed=13)
    evaluator = evaluation.BinaryClassificationEvaluator(
        dev["ticket"], dev["commit"], dev["label"], name="dev", write_csv=False
    )
    trainer = stage.trainer(
        losses.ContrastiveLoss, judged(TICKETS, 480), model_of(stage, TICKETS),
        **{**FAST, "max_steps": 160, "learning_rate": 3e-3},
        evaluator=evaluator, eval_strategy="steps", eval_steps=40,
    )  # fmt: skip
    learns(stage, trainer, TICKETS.sought)


@sound("binary labels, hard pairs of each batch only")
def online_contrast_of_openings(stage: Stage) -> None:
    trainer = stage.trainer(
        losses.OnlineContrastiveLoss,
        judged(OPENINGS, 480),
        model_of(stage, OPENINGS),
        **{**FAST, "max_steps": 160, "learning_rate": 3e-3},
    )
    learns(stage, trainer, OPENINGS.sought)


@sound("entailment, neutrality and contradiction by a softmax")
def entailment_among_job_postings(stage: Stage) -> None:
    def table(count: int, seed: int = 0) -> dict[str, list[Any]]:
        draw, columns = random.Random(3), JOBS.table(count, seed)
        neutral, contrary = JOBS.near(count, seed, slot=3), JOBS.near(count, seed, slot=0)
        labels = [draw.randrange(3) for _ in range(count)]
        rows = list(zip(columns["posting"], neutral, contrary, strict=True))
        hypotheses = [row[label] for row, label in zip(rows, labels, strict=True)]
        return {"premise": columns["seeker"], "hypothesis": hypotheses, "label": labels}

    model = warmed(model_of(stage, JOBS), JOBS.table(320), 40)
    loss, unseen = losses.SoftmaxLoss(model, 48, 3), table(60, seed=11)

    def accuracy(model: Any) -> float:
        features = [model.preprocess(unseen[name]) for name in ("premise", "hypothesis")]
        with torch.no_grad():
            _, logits = loss(features, labels=None)
        return float((logits.argmax(1) == torch.tensor(unseen["label"])).float().mean())

    trainer = stage.trainer(
        lambda _: loss, table(480), model, **{**FAST, "learning_rate": 3e-3, "max_steps": 150}
    )
    learns(stage, trainer, accuracy)


@sound("classes in batches by label, hardest triplets with a soft margin")
def classes_of_substances_by_hard_triplets(stage: Stage) -> None:
    from sentence_transformers.base.sampler import BatchSamplers

    score = among_classes(CHEMISTRY, slots=(0,))
    trainer = stage.trainer(
        losses.BatchHardSoftMarginTripletLoss, of_classes(CHEMISTRY, 400, slots=(0,)),
        model_of(stage, CHEMISTRY), **FAST, batch_sampler=BatchSamplers.GROUP_BY_LABEL,
    )  # fmt: skip
    learns(stage, trainer, score)


@sound("classes in batches by label, all triplets")
def classes_of_patents_by_all_triplets(stage: Stage) -> None:
    from sentence_transformers.base.sampler import BatchSamplers

    score = among_classes(PATENTS, slots=(1,), column=1)
    trainer = stage.trainer(
        lambda model: losses.BatchAllTripletLoss(model, margin=1.0),
        of_classes(PATENTS, 300, slots=(1,), column=1), model_of(stage, PATENTS), **FAST,
        batch_sampler=BatchSamplers.GROUP_BY_LABEL,
    )  # fmt: skip
    learns(stage, trainer, score)


@sound("margins of a teacher's scores")
def shell_margins_of_a_teacher(stage: Stage) -> None:
    from sentence_transformers.util import pairwise_cos_sim

    teacher = warmed(model_of(stage, SHELL, name="teacher", width=64, seed=9),
                     SHELL.table(320), 60)  # fmt: skip
    table = SHELL.table(320) | {"negative": SHELL.near(320, slot=2)}
    query, positive, negative = (teacher.encode(column) for column in table.values())
    margins = pairwise_cos_sim(query, positive) - pairwise_cos_sim(query, negative)
    trainer = stage.trainer(
        lambda model: losses.MarginMSELoss(model, similarity_fct=pairwise_cos_sim),
        table | {"label": [round(float(margin), 4) for margin in margins]},
        model_of(stage, SHELL), **{**FAST, "max_steps": 90, "per_device_train_batch_size": 48},
    )  # fmt: skip
    learns(stage, trainer, SHELL.sought)


@sound("embeddings of a teacher for two languages")
def pinyin_beside_the_embeddings_of_a_teacher(stage: Stage) -> None:
    table = PINYIN.table(400)
    teacher = warmed(model_of(stage, PINYIN, name="teacher", seed=9), table, 60)
    labels = teacher.encode(table["characters"], normalize_embeddings=True)
    student = encoder(stage, words(PINYIN), name="student")
    dev = PINYIN.table(40, seed=13)
    trainer = stage.trainer(
        losses.MSELoss, table | {"label": labels.tolist()}, student, **{**FAST, "max_steps": 120},
        evaluator=evaluation.TranslationEvaluator(*dev.values(), write_csv=False),
        eval_strategy="steps", eval_steps=60,
    )  # fmt: skip
    learns(stage, trainer, PINYIN.sought)
