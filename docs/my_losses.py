"""Six losses as their inventors would write them; docs/write-a-loss.md says how they fare."""

import torch
from torch import nn
from torch.nn import functional


class CrossEntropy(nn.Module):
    """Both directions, as CLIP."""

    def __init__(self, temperature=0.05):
        super().__init__()
        self.temperature = temperature

    def forward(self, anchors, positives):
        logits = anchors @ positives.T / self.temperature
        labels = torch.arange(len(logits), device=logits.device)
        return (
            functional.cross_entropy(logits, labels) + functional.cross_entropy(logits.T, labels)
        ) / 2


def hinge(anchors, positives, margin=0.3):
    """The hardest negative, until it is a margin away."""
    cosines = anchors @ positives.T
    own = cosines.diagonal()
    others = cosines.masked_fill(torch.eye(len(cosines), dtype=torch.bool), -2).amax(1)
    return functional.relu(margin + others - own).mean()


def poly_nce(anchors, positives, tau=0.1):
    """InfoNCE under a polynomial link."""
    cosines = anchors @ positives.T
    logits = (cosines + cosines**2 / 2 + cosines**3 / 3) / tau
    return functional.cross_entropy(logits, torch.arange(len(logits)))


class LearnedMargin(nn.Module):
    """InfoNCE with a margin and a temperature that training learns."""

    def __init__(self, margin=0.1, temperature=0.05):
        super().__init__()
        self.margin = nn.Parameter(torch.tensor(margin))
        self.log_scale = nn.Parameter(torch.tensor(1 / temperature).log())

    def forward(self, anchors, positives):
        cosines = anchors @ positives.T
        logits = self.log_scale.exp() * (
            cosines - self.margin * torch.eye(len(cosines), dtype=cosines.dtype)
        )
        return functional.cross_entropy(logits, torch.arange(len(logits)))


class Queue(nn.Module):
    """InfoNCE with the positives of earlier batches as further negatives."""

    def __init__(self, size=64, temperature=0.05):
        super().__init__()
        self.size, self.temperature = size, temperature
        self.past = None

    def forward(self, anchors, positives):
        keys = positives if self.past is None else torch.cat([positives, self.past])
        self.past = keys.detach()[: self.size]
        return functional.cross_entropy(
            anchors @ keys.T / self.temperature, torch.arange(len(anchors))
        )


class Covariance(nn.Module):
    """Both views near each other, and coordinates that vary apart."""

    def forward(self, anchors, positives):
        def spread(rows):
            covariance = torch.cov(rows.T)
            return (covariance**2).sum() - (covariance.diagonal() ** 2).sum()

        return functional.mse_loss(anchors, positives) + spread(anchors) + spread(positives)
