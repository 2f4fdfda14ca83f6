"""Units and margins: cosines, distances, dot products, temperatures and a teacher's scores."""

from __future__ import annotations

from functools import partial
from typing import Any

from sentence_transformers.util import dot_score, pairwise_cos_sim

from tests.judgement.case import faulty
from tests.judgement.first.scenes import across, bilingual, translated
from tests.judgement.stage import Stage, word_cosines
from tests.judgement.truth import suffers
from tests.sentence_training import losses

ranking = losses.MultipleNegativesRankingLoss
PLAN = {"learning_rate": 2e-3, "max_steps": 100}
SCALE = (
    r"scale",
    r"temperature",
    r"logit",
    r"\bunits?\b",
    r"dot product",
    r"normali[sz]",
    r"cosine",
    r"\bτ",
    r"uniform",
)
MARGIN = (
    r"margin",
    r"\bunits?\b",
    r"distance",
    r"(triplet|pair|negative)s? .{0,60}(satisf|beyond|zero|no gradient|inactive|solved)",
    r"(loss|gradient) .{0,60}(\b0\b|zero)",
)


def _suffers(stage: Stage, faulty_loss: Any, mended_loss: Any, table: Any) -> None:
    suffers(
        stage,
        stage.trainer(faulty_loss, table, **PLAN),
        lambda: stage.trainer(mended_loss, table, **PLAN),
        across,
    )


def apart(count: int = 640) -> dict[str, list[str]]:
    """Bilingual pairs with a passage of another row."""
    table = bilingual(count)
    positives = table["positive"]
    return table | {"negative": positives[3:] + positives[:3]}


@faulty(
    "cosine scale on dot products",
    "The factor 20 of cosines multiplies dot products of embeddings that are not normalised: the "
    "softmax is saturated.",
    SCALE,
)
def dot_products_times_twenty(stage: Stage) -> None:
    _suffers(
        stage,
        partial(ranking, scale=20.0, similarity_fct=dot_score),
        ranking,
        bilingual(640),
    )


@faulty(
    "margin of cosines for distances",
    "The triplets' margin of 0.01 was chosen for cosines, but the distances are of several units.",
    MARGIN,
)
def tiny_margin_of_euclidean_distances(stage: Stage) -> None:
    euclidean = losses.TripletDistanceMetric.EUCLIDEAN
    cosine = losses.TripletDistanceMetric.COSINE
    _suffers(
        stage,
        partial(losses.TripletLoss, distance_metric=euclidean, triplet_margin=0.01),
        partial(losses.TripletLoss, distance_metric=cosine, triplet_margin=0.5),
        apart(),
    )


@faulty(
    "contrastive margin below all distances",
    "All pairs are farther apart than the margin of 0.05, so that negatives are never pushed and "
    "all embeddings come together.",
    (*MARGIN, r"collaps", r"(come|pulled?|draw) together", r"negatives? .{0,60}(never|not|no) "),
)
def euclidean_distances_beyond_the_margin(stage: Stage) -> None:
    table = apart()
    texts = [
        (positive if at % 2 else negative)
        for at, (positive, negative) in enumerate(
            zip(table["positive"], table["negative"], strict=True)
        )
    ]
    rated = {"a": table["anchor"], "b": texts, "label": [at % 2 for at in range(len(texts))]}
    euclidean = losses.SiameseDistanceMetric.EUCLIDEAN
    _suffers(
        stage,
        partial(losses.ContrastiveLoss, distance_metric=euclidean, margin=0.05),
        losses.ContrastiveLoss,
        rated,
    )


@faulty(
    "teacher's scores flattened by a temperature",
    "The factor 20 was given as the teacher's temperature: its scores of positive and negative "
    "become nearly equal.",
    (
        *SCALE,
        r"teacher",
        r"flat",
        r"(target|label|score|probabilit)\w* .{0,60}(equal|alike|same|even|close)",
        r"entropy",
    ),
)
def teacher_at_a_temperature_of_twenty(stage: Stage) -> None:
    table = apart()
    cosines = word_cosines(table | {"anchor": list(map(translated, table["anchor"]))})
    distilled = partial(losses.DistillKLDivLoss, similarity_fct=pairwise_cos_sim)
    _suffers(
        stage,
        partial(distilled, student_temperature=0.05, teacher_temperature=20.0),
        partial(distilled, student_temperature=0.05, teacher_temperature=0.05),
        {**table, "label": cosines},
    )
