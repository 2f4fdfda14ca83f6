"""Sound trainers on graded and binary labels, on classes, and on scores of teachers."""

from __future__ import annotations

from typing import Any

from sentence_transformers.sentence_transformer import evaluation, losses
from sentence_transformers.sentence_transformer.modules import Normalize

from tests.judgement.case import sound
from tests.judgement.held_out.i_fields import (
    CHANTS,
    GARDEN,
    GAUGES,
    JOBS,
    RUSSIAN,
    TRACES,
    WEATHER,
    decoys,
    graded_rank,
    grouped,
    judged,
    neighbours,
    small,
)
from tests.judgement.stage import Stage, word_cosines
from tests.judgement.truth import correlation, learns


@sound("graded labels with CoSENT and an evaluator of correlation")
def forecasts_graded_for_cosent(stage: Stage) -> None:
    trial = WEATHER.graded(60, seed=5)
    evaluator = evaluation.EmbeddingSimilarityEvaluator(
        trial["sentence1"], trial["sentence2"], trial["score"], write_csv=False
    )
    trainer = stage.trainer(
        losses.CoSENTLoss, WEATHER.graded(400), small(stage, WEATHER), evaluator=evaluator,
        eval_strategy="steps", eval_steps=25, learning_rate=2e-3, max_steps=90,
        per_device_train_batch_size=32,
    )  # fmt: skip
    learns(stage, trainer, graded_rank(WEATHER))


@sound("graded labels with AnglE")
def garden_grades_for_angles(stage: Stage) -> None:
    trainer = stage.trainer(
        losses.AnglELoss, GARDEN.graded(400), small(stage, GARDEN), learning_rate=2e-3,
        max_steps=100, per_device_train_batch_size=24,
    )  # fmt: skip
    learns(stage, trainer, graded_rank(GARDEN))


@sound("graded labels with squared errors of cosines")
def readings_graded_for_cosines(stage: Stage) -> None:
    table = GAUGES.graded(400)
    table = {"sentence1": table["reading"], "sentence2": table["phrase"], "score": table["score"]}
    trainer = stage.trainer(
        losses.CosineSimilarityLoss, table, small(stage, GAUGES), learning_rate=2e-3, max_steps=90,
    )  # fmt: skip
    trial = GAUGES.graded(60, seed=11)
    learns(stage, trainer, lambda model: correlation(model, trial))


@sound("binary labels with an online contrastive loss")
def adverts_judged_online(stage: Stage) -> None:
    trainer = stage.trainer(
        losses.OnlineContrastiveLoss, judged(JOBS, 400), small(stage, JOBS), learning_rate=3e-3,
        max_steps=80, per_device_train_batch_size=48,
    )  # fmt: skip
    learns(stage, trainer, JOBS.sought)


@sound("batches by class with the hardest triplets")
def plants_by_class_in_hard_triplets(stage: Stage) -> None:
    trainer = stage.trainer(
        losses.BatchHardSoftMarginTripletLoss, grouped(GARDEN, 400), small(stage, GARDEN),
        batch_sampler="group_by_label", per_device_train_batch_size=24, learning_rate=1e-3,
        max_steps=50,
    )  # fmt: skip
    learns(stage, trainer, lambda model: neighbours(model, grouped(GARDEN, 80, seed=11)))


@sound("classes by all triplets of a batch")
def sailors_chants_by_their_places(stage: Stage) -> None:
    def triplets_of_all(model: Any) -> Any:
        return losses.BatchAllTripletLoss(model, margin=1)

    trainer = stage.trainer(
        triplets_of_all, grouped(CHANTS, 400, column=0, slot=2), small(stage, CHANTS),
        batch_sampler="group_by_label", per_device_train_batch_size=32, learning_rate=1e-3,
        max_steps=40,
    )  # fmt: skip
    trial = grouped(CHANTS, 80, seed=11, column=0, slot=2)
    learns(stage, trainer, lambda model: neighbours(model, trial))


@sound("margins of a teacher")
def margins_of_a_teacher_by_common_words(stage: Stage) -> None:
    table = RUSSIAN.table(400)
    texts = {
        "query": table["source"], "positive": table["translation"],
        "negative": RUSSIAN.texts(RUSSIAN.draws(400, 6), 1),
    }  # fmt: skip
    teacher = {"first": table["translation"], "same": texts["positive"],
               "another": texts["negative"]}  # fmt: skip
    margins = [round(5 * (right - wrong), 3) for right, wrong in word_cosines(teacher)]
    model = small(stage, RUSSIAN, Normalize())

    def margin_mse(model: Any) -> Any:
        return losses.MarginMSELoss(
            model, similarity_fct=lambda first, second: 5 * _pairwise_cosines(first, second)
        )

    trainer = stage.trainer(
        margin_mse, texts | {"label": margins}, model, learning_rate=3e-3, max_steps=90,
        per_device_train_batch_size=32,
    )  # fmt: skip
    learns(stage, trainer, RUSSIAN.sought)


@sound("a ranking over a list by a teacher's scores")
def lists_distilled_from_a_teacher(stage: Stage) -> None:
    table = TRACES.table(400)
    texts = {
        "query": table["issue"], "positive": table["trace"],
        "negative": decoys(TRACES, 400, column=0),
    }  # fmt: skip
    labels = [[round(8 * right, 3), round(8 * wrong, 3)] for right, wrong in word_cosines(
        {"first": texts["positive"], "same": texts["positive"], "another": texts["negative"]}
    )]  # fmt: skip
    assert all(right > wrong for right, wrong in labels)

    def divergence(model: Any) -> Any:
        return losses.DistillKLDivLoss(
            model, similarity_fct=lambda first, second: 8 * _pairwise_cosines(first, second)
        )

    trainer = stage.trainer(
        divergence, texts | {"label": labels}, small(stage, TRACES), learning_rate=3e-3,
        max_steps=100, per_device_train_batch_size=32,
    )  # fmt: skip
    learns(stage, trainer, TRACES.sought)


def _pairwise_cosines(first: Any, second: Any) -> Any:
    from sentence_transformers.util import pairwise_cos_sim

    return pairwise_cos_sim(first, second)
