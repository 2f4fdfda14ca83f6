"""Sound set-ups, each with another loss of sentence-transformers."""

from __future__ import annotations

from functools import partial
from typing import Any

from sentence_transformers.util import pairwise_cos_sim

from tests.judgement.case import sound
from tests.judgement.first.scenes import (
    across,
    agreement,
    bilingual,
    by_topic,
    graded,
    quietly,
    topical,
    translated,
)
from tests.judgement.first.units import apart
from tests.judgement.stage import Stage, pairs, word_cosines
from tests.judgement.truth import among_alike, learns, retrieval
from tests.sentence_training import losses

ranking = losses.MultipleNegativesRankingLoss
PLAN = {"learning_rate": 2e-3, "max_steps": 80}


def _learns(stage: Stage, loss: Any, table: Any, score: Any = across, **plan: Any) -> None:
    learns(stage, stage.trainer(loss, table, **{**PLAN, **plan}), score)


@sound("ranking in both directions")
def symmetric_ranking_across_languages(stage: Stage) -> None:
    _learns(stage, losses.MultipleNegativesSymmetricRankingLoss, bilingual(640))


@sound("cached ranking with small parts")
def cached_ranking_in_small_parts(stage: Stage) -> None:
    loss = partial(losses.CachedMultipleNegativesRankingLoss, mini_batch_size=8)
    _learns(stage, loss, bilingual(640), per_device_train_batch_size=32, max_steps=40)


def _guide(stage: Stage) -> Any:
    """An encoder that has learned the task before."""
    return quietly(stage.trainer(ranking, bilingual(640, seed=8), **PLAN))


@sound("guided ranking by a trained guide")
def ranking_with_a_trained_guide(stage: Stage) -> None:
    guide = _guide(stage)
    _learns(
        stage, lambda model: losses.GISTEmbedLoss(model, guide, temperature=0.05), bilingual(640)
    )


@sound("graded scores as cosines")
def cosines_of_graded_pairs(stage: Stage) -> None:
    _learns(stage, losses.CosineSimilarityLoss, graded(), agreement)


@sound("graded scores by order")
def order_of_graded_pairs(stage: Stage) -> None:
    _learns(stage, losses.CoSENTLoss, graded(), agreement)


@sound("graded scores by angles")
def angles_of_graded_pairs(stage: Stage) -> None:
    _learns(stage, losses.AnglELoss, graded(), agreement)


def _rated() -> dict[str, list[Any]]:
    """Questions with their passage (1) or that of another row (0)."""
    first, right, wrong = apart().values()
    seconds = [(wrong[at], right[at])[at % 2] for at in range(len(first))]
    return {"a": first, "b": seconds, "label": [at % 2 for at in range(len(first))]}


@sound("pairs of two labels")
def contrastive_pairs_across_languages(stage: Stage) -> None:
    _learns(stage, losses.ContrastiveLoss, _rated(), max_steps=160)


@sound("hardest pairs of two labels")
def online_contrastive_pairs_across_languages(stage: Stage) -> None:
    _learns(stage, losses.OnlineContrastiveLoss, _rated(), max_steps=120)


@sound("triplets with a margin of cosines")
def triplets_of_cosines_across_languages(stage: Stage) -> None:
    cosine = losses.TripletDistanceMetric.COSINE
    loss = partial(losses.TripletLoss, distance_metric=cosine, triplet_margin=0.5)
    _learns(stage, loss, apart(), max_steps=100)


@sound("soft margin of the hardest triplets")
def soft_margin_of_topics(stage: Stage) -> None:
    loss = losses.BatchHardSoftMarginTripletLoss
    _learns(stage, loss, topical(), by_topic, batch_sampler="group_by_label")


@sound("semi-hard triplets of classes")
def semi_hard_triplets_of_topics(stage: Stage) -> None:
    cosine = losses.BatchHardTripletLossDistanceFunction.cosine_distance
    loss = partial(losses.BatchSemiHardTripletLoss, distance_metric=cosine, margin=0.4)
    _learns(stage, loss, topical(), by_topic, batch_sampler="group_by_label")


@sound("large batches with a margin")
def mega_batches_across_languages(stage: Stage) -> None:
    loss = partial(losses.MegaBatchMarginLoss, use_mini_batched_version=False)
    _learns(stage, loss, bilingual(640), per_device_train_batch_size=64, max_steps=40)


@sound("nested dimensions of a cached loss")
def nested_dimensions_across_languages(stage: Stage) -> None:
    def loss(model: Any) -> Any:
        cached = losses.CachedMultipleNegativesRankingLoss(model, mini_batch_size=8)
        return losses.MatryoshkaLoss(model, cached, [32, 16, 8])

    _learns(stage, loss, bilingual(640))


@sound("nested dimensions and layers")
def nested_dimensions_and_layers(stage: Stage) -> None:
    _learns(
        stage,
        lambda model: losses.Matryoshka2dLoss(model, ranking(model), [32, 16]),
        bilingual(640),
        learning_rate=3e-3,
    )


@sound("every layer trained")
def adaptive_layers_across_languages(stage: Stage) -> None:
    loss = losses.AdaptiveLayerLoss
    _learns(stage, lambda model: loss(model, ranking(model)), bilingual(640), max_steps=60)


@sound("multilingual distillation")
def student_of_a_teacher_in_one_language(stage: Stage) -> None:
    teacher = quietly(stage.trainer(ranking, pairs(320, seed=8), learning_rate=1e-3))
    texts = pairs(640)["anchor"]
    targets = teacher.encode(texts, show_progress_bar=False).round(5).tolist()
    table = {"text": texts, "other": list(map(translated, texts)), "label": targets}

    def score(model: Any) -> float:
        unseen = pairs(100, seed=11)["anchor"]
        return retrieval(model, {"text": unseen, "other": list(map(translated, unseen))})

    _learns(stage, losses.MSELoss, table, score, max_steps=120)


def _teacher() -> tuple[dict[str, list[str]], list[list[float]]]:
    """Triplets, and cosines of a teacher that knows both languages."""
    table = apart()
    return table, word_cosines(table | {"anchor": list(map(translated, table["anchor"]))})


@sound("margins of a teacher of cosines")
def margins_of_cosines_from_a_teacher(stage: Stage) -> None:
    table, cosines = _teacher()
    loss = partial(losses.MarginMSELoss, similarity_fct=pairwise_cos_sim)
    _learns(stage, loss, table | {"label": [near - far for near, far in cosines]}, max_steps=100)


@sound("scores of a teacher at one temperature")
def scores_of_a_teacher_at_a_low_temperature(stage: Stage) -> None:
    table, cosines = _teacher()
    loss = partial(losses.DistillKLDivLoss, similarity_fct=pairwise_cos_sim, temperature=0.05)
    _learns(stage, loss, table | {"label": cosines}, max_steps=100)


@sound("text with itself, both by dropout")
def text_twice_by_dropout(stage: Stage) -> None:
    texts = pairs(320)["positive"]
    _learns(stage, ranking, {"a": texts, "b": list(texts)}, among_alike, learning_rate=5e-4)
