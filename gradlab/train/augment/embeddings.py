"""Cutting off and shuffling embedded tokens (ConSERT, Yan et al. 2021; as MoCoSE uses them)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from gradlab.settings import setting
from gradlab.train.augment.base import EmbeddingAugmentation, uniform
from gradlab.train.augment.registry import register


@dataclass(frozen=True)
class Cutoff(EmbeddingAugmentation):
    """Parts of the embedded sentence become zero; nothing is scaled up."""

    rate: float = setting(0.1, "probability that it is set to zero", at_least=0, at_most=1)


@register("token_cutoff")
@dataclass(frozen=True)
class TokenCutoff(Cutoff):
    """Whole tokens become zero, each on its own with probability ``rate``."""

    def embeddings(self, embedded: Tensor, mask: Tensor, generator: torch.Generator | None = None) -> Tensor:
        cut = uniform(mask.shape, generator, embedded.device) < self.rate
        return embedded.masked_fill((cut & self.ordinary(mask))[..., None], 0)


@register("feature_cutoff")
@dataclass(frozen=True)
class FeatureCutoff(Cutoff):
    """Features become zero throughout a sentence, each on its own with probability ``rate``."""

    def embeddings(self, embedded: Tensor, mask: Tensor, generator: torch.Generator | None = None) -> Tensor:
        rows, _, features = embedded.shape
        cut = uniform((rows, 1, features), generator, embedded.device) < self.rate
        return embedded.masked_fill(cut & self.ordinary(mask)[..., None], 0)


@register("position_shuffle")
@dataclass(frozen=True)
class PositionShuffle(EmbeddingAugmentation):
    """The tokens of a sentence exchange their positions (token shuffling).

    A transformer knows the order of its tokens by their positions alone, so that moving tokens over fixed
    positions is the same as permuting position ids, and serves any kind of positions.
    """

    def embeddings(self, embedded: Tensor, mask: Tensor, generator: torch.Generator | None = None) -> Tensor:
        order = self.order(mask, generator)
        return embedded.take_along_dim(order[..., None], dim=1)

    def order(self, mask: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """(rows, length): the place that each place takes its token from, a uniform permutation of each sentence."""
        moves = self.ordinary(mask)
        places = torch.arange(mask.shape[1], device=mask.device).expand(mask.shape)
        keys = uniform(mask.shape, generator, mask.device)
        # Sorted by random keys, those that move fill, in that order, the places of those that move.
        drawn = torch.argsort(keys.masked_fill(~moves, 2.0), dim=1, stable=True)
        first = torch.argsort((~moves).to(torch.uint8), dim=1, stable=True)
        return places.scatter(1, first, torch.where(moves.gather(1, first), drawn, first))
