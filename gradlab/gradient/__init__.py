"""Gradients of losses in closed form and by autograd, statistics of gradients, and Lemma 1."""

from gradlab.gradient.lemma import (
    KINDS,
    RatioInterval,
    gets_closer,
    ratio_bounds,
    take_step,
    tangent_bounds,
)
from gradlab.gradient.statistics import (
    ACTIVE,
    BINS,
    LEMMA_STEP,
    alignment,
    diagnose,
    distributions,
    effective_rank,
    gradient_statistics,
    uniformity,
)

__all__ = [
    "ACTIVE",
    "BINS",
    "KINDS",
    "LEMMA_STEP",
    "RatioInterval",
    "alignment",
    "diagnose",
    "distributions",
    "effective_rank",
    "gets_closer",
    "gradient_statistics",
    "ratio_bounds",
    "take_step",
    "tangent_bounds",
    "uniformity",
]
