"""Units and margins: narrow margins, distances for similarities."""

from __future__ import annotations

from typing import Any

import torch

from tests.judgement.case import faulty
from tests.judgement.stage import Stage, pairs
from tests.judgement.truth import among_alike, suffers
from tests.sentence_training import losses

ranking = losses.MultipleNegativesRankingLoss
NARROW = (
    r"margin", r"satisf", r"(loss|gradient)s?.{0,60}(zero|\b0\b|nothing|vanish|none|small|few)",
    r"(no|few|hardly any) (active|hard|gradient|triplet)",
    r"(triplet|row)s?.{0,60}(no|zero|satisf)",
    r"(already|most|all).{0,40}(apart|far|separated|right)", r"too (easy|small|narrow)",
)  # fmt: skip
APART = (
    r"distance", r"similarity_fct", r"revers", r"invert", r"opposite", r"wrong (way|sign)",
    r"\bsign\b", r"apart", r"maximi[sz]", r"negated",
    r"(positive|pair|partner)s?.{0,80}(away|less|fall|fell|below|farther|drop|sink|further)",
)  # fmt: skip


@faulty(
    "distances as similarities of a ranking loss",
    "similarity_fct returns Euclidean distances, and the loss raises what it returns for the right "
    "pair: questions and their answers are driven apart.",
    APART,
)
def distances_for_similarities(stage: Stage) -> None:
    def of(similarity: Any) -> Any:
        return stage.trainer(
            lambda model: ranking(model, scale=1.0, similarity_fct=similarity), pairs()
        )

    suffers(stage, of(torch.cdist), lambda: of(lambda first, second: -torch.cdist(first, second)))


@faulty(
    "margin far below the distances of triplets",
    "The margin of a triplet loss of cosines is 0.0005, a slip for 0.5: most triplets keep it "
    "after a few steps and have no gradient.",
    NARROW,
)
def margin_of_a_thousandth(stage: Stage) -> None:
    def of(margin: float) -> Any:
        metric = losses.TripletDistanceMetric.COSINE
        return stage.trainer(
            lambda model: losses.TripletLoss(model, metric, margin), unlike, learning_rate=1e-3
        )

    unlike = pairs() | {"negative": pairs(seed=9)["positive"]}
    suffers(stage, of(0.0005), lambda: of(0.5), among_alike)
