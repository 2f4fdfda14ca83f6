"""Cutoff and shuffling of token embeddings (ConSERT, Yan et al. 2021; as used in MoCoSE)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from gradlab.settings import setting
from gradlab.train.augment.base import EmbeddingAugmentation, uniform
from gradlab.train.augment.registry import register


@dataclass(frozen=True)
class Cutoff(EmbeddingAugmentation):
    """Base class of augmentations that zero part of the embeddings without scaling up the rest."""

    rate: float = setting(0.1, "probability that it is set to zero", at_least=0, at_most=1)


@register("token_cutoff")
@dataclass(frozen=True)
class TokenCutoff(Cutoff):
    """Sets whole tokens to zero, each independently with probability ``rate``."""

    def embeddings(
        self, embedded: Tensor, mask: Tensor, generator: torch.Generator | None = None
    ) -> Tensor:
        cut = uniform(mask.shape, generator, embedded.device) < self.rate
        return embedded.masked_fill((cut & self.ordinary(mask))[..., None], 0)


@register("feature_cutoff")
@dataclass(frozen=True)
class FeatureCutoff(Cutoff):
    """Sets features of a whole sentence to zero, each independently with probability ``rate``."""

    def embeddings(
        self, embedded: Tensor, mask: Tensor, generator: torch.Generator | None = None
    ) -> Tensor:
        rows, _, features = embedded.shape
        cut = uniform((rows, 1, features), generator, embedded.device) < self.rate
        return embedded.masked_fill(cut & self.ordinary(mask)[..., None], 0)


@register("position_shuffle")
@dataclass(frozen=True)
class PositionShuffle(EmbeddingAugmentation):
    """Shuffles the positions of the tokens of a sentence (token shuffling).

    A transformer knows the order of its tokens only by their positions. Moving tokens over fixed
    positions therefore equals permuting position ids, and works with any kind of positions.
    """

    def embeddings(
        self, embedded: Tensor, mask: Tensor, generator: torch.Generator | None = None
    ) -> Tensor:
        order = self.order(mask, generator)
        return embedded.take_along_dim(order[..., None], dim=1)

    def order(self, mask: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """Return the source of each place, (rows, length): a uniform permutation per sentence."""
        moves = self.ordinary(mask)
        places = torch.arange(mask.shape[1], device=mask.device).expand(mask.shape)
        keys = uniform(mask.shape, generator, mask.device)
        # Moving tokens, sorted by random keys, fill the places of moving tokens in that order.
        permuted_places = torch.argsort(keys.masked_fill(~moves, 2.0), dim=1, stable=True)
        first = torch.argsort((~moves).to(torch.uint8), dim=1, stable=True)
        return places.scatter(1, first, torch.where(moves.gather(1, first), permuted_places, first))
