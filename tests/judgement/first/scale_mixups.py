"""Temperatures, products, distances and teachers' scores taken for each other's units."""

from __future__ import annotations

from typing import Any

import torch.nn.functional as F
from sentence_transformers.sentence_transformer import losses
from sentence_transformers.util import cos_sim, dot_score
from torch import Tensor

from tests.judgement.case import faulty
from tests.judgement.first.catalogue import (
    Setting,
    contested,
    on_shelf,
    plain,
    rivalled,
    sales,
    slips,
)
from tests.judgement.stage import Stage
from tests.judgement.truth import suffers


@faulty(
    "products of long vectors times 20",
    "Dot products of unnormalised embeddings, near 30, are multiplied by the scale of cosines.",
    (
        r"scale|temperature|normali[sz]|unit length|dot.?(score|product)|norms?\b",
        r"(logits?|softmax).{0,60}(large|saturat|sharp|hundreds|one-hot)",
        r"(loss|gradient).{0,60}(spike|large|unstable|noisy)",
    ),
)
def dot_products_at_the_scale_of_cosines(stage: Stage) -> None:
    """similarity_fct=dot_score with scale left at 20, for vectors that are not normalised."""

    def loss(similarity: Any) -> Any:
        return lambda model: losses.MultipleNegativesRankingLoss(
            model, scale=20.0, similarity_fct=similarity
        )

    settings = {"learning_rate": 1e-3, "max_steps": 50}
    suffers(
        stage,
        stage.trainer(loss(dot_score), sales(), **settings),
        lambda: stage.trainer(loss(cos_sim), sales(), **settings),
        on_shelf,
        share=0.85,
    )


@faulty(
    "cosines taken for distances",
    "A triplet hinge of distances is given cosines: it draws negatives near and pushes positives "
    "away.",
    (
        r"\bsign\b|revers|invert|opposite|wrong way|swap|exchang|distance",
        r"(positive|pair)s?.{0,80}(away|apart|farther|fall|less alike|below|worse|lower)",
        r"negatives?.{0,80}(near|closer|higher|above|rise)",
        r"(score|accuracy|margin|gap).{0,60}(falls|fell|below chance|worse|negative)",
    ),
)
def cosines_in_a_hinge_of_distances(stage: Stage) -> None:
    """relu(cos(query, offer) - cos(query, rival) + margin)."""

    def setting(sign: float) -> Setting:
        def hinge(queries: Tensor, offers: Tensor, rivals: Tensor) -> Tensor:
            near, far = F.cosine_similarity(queries, offers), F.cosine_similarity(queries, rivals)
            return F.relu(sign * (near - far) + 0.3).mean()

        model = stage.model()
        return model, hinge, plain(model, contested())

    slips(stage, lambda: setting(1.0), lambda: setting(-1.0), rivalled)


@faulty(
    "a margin for unit vectors between long ones",
    "TripletLoss has a margin of 0.05 between vectors whose distances are near 4: almost every "
    "triplet is satisfied, and there is no loss left.",
    (
        r"margin.{0,100}(small|low|tiny|satisf|short|raise|larger|wider|below|of the distance)",
        r"(loss|gradient|triplet|hinge)s?.{0,80}(zero|0\b|satisf|vanish|inactive|none left)",
        r"(easy|satisfied) (triplet|negative)s?|normali[sz]",
    ),
)
def margin_of_unit_vectors_between_long_ones(stage: Stage) -> None:
    """The margin was tuned while a normalising module stood at the end of the encoder."""

    def loss(margin: float) -> Any:
        return lambda model: losses.TripletLoss(model, triplet_margin=margin)

    settings = {"learning_rate": 1e-3, "max_steps": 60}
    suffers(
        stage,
        stage.trainer(loss(0.05), contested(), **settings),
        lambda: stage.trainer(loss(5.0), contested(), **settings),
        rivalled,
        share=0.85,
    )
