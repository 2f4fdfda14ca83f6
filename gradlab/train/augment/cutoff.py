"""Setting parts of the embedded sentence to zero (cut-off; ConSERT, Yan et al. 2021, as MoCoSE uses it)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from gradlab.errors import GradlabError
from gradlab.settings import setting
from gradlab.train.augment.base import EmbeddingAugmentation, uniform
from gradlab.train.augment.registry import register


@dataclass(frozen=True)
class _Cutoff(EmbeddingAugmentation):
    rate: float = setting(0.1, "probability that it is set to zero", rule="non-negative")

    paper = "Cao et al. (2022), MoCoSE, after Yan et al. (2021), ConSERT"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.rate > 1:
            raise GradlabError(f"rate must be a probability, at most 1, not {self.rate!r}")


@register("token_cutoff")
@dataclass(frozen=True)
class TokenCutoff(_Cutoff):
    """Whole tokens become zero, each on its own with probability ``rate``; nothing is scaled up."""

    title = "Token cut-off"

    def embeddings(self, embedded: Tensor, mask: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """See the base class."""
        cut = uniform(mask.shape, generator, embedded.device) < self.rate
        return embedded.masked_fill((cut & self.ordinary(mask))[..., None], 0)


@register("feature_cutoff")
@dataclass(frozen=True)
class FeatureCutoff(_Cutoff):
    """Features become zero throughout a sentence, each on its own with probability ``rate``; nothing is scaled up."""

    title = "Feature cut-off"

    def embeddings(self, embedded: Tensor, mask: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """See the base class."""
        rows, _, features = embedded.shape
        cut = uniform((rows, 1, features), generator, embedded.device) < self.rate
        return embedded.masked_fill(cut & self.ordinary(mask)[..., None], 0)
