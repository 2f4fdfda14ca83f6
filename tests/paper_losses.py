"""Losses of recent papers as functions of two views, as a reader of the papers would write them."""

from __future__ import annotations

import torch
from torch.nn.functional import cross_entropy, softplus

TAU = 0.05


def _off_diagonal(cosines):
    return ~torch.eye(len(cosines), dtype=torch.bool)


def focal_infonce(anchors, positives, m=0.3):
    """Focal-InfoNCE (Hou & Li 2023): hard negatives up, easy positives down."""
    s = anchors @ positives.T
    own = s.diagonal()
    logits = torch.where(_off_diagonal(s), s * (s + m), torch.diag(own**2)) / TAU
    return cross_entropy(logits, torch.arange(len(s)))


def angle(anchors, positives, tau=0.05):
    """AnglE (Li & Li 2023): angles of complex numbers made of halves of the coordinates."""
    half = anchors.shape[1] // 2
    a, b = anchors[:, None, :half], anchors[:, None, half : 2 * half]
    c, d = positives[None, :, :half], positives[None, :, half : 2 * half]
    norm = (c**2 + d**2).sum(-1)
    difference = (((a * c + b * d) + (b * c - a * d)).sum(-1) / norm).abs()
    gaps = (difference[_off_diagonal(difference)][None] - difference.diagonal()[:, None]) / tau
    return softplus(-gaps).mean()


def rankcse(anchors, positives, *, teacher):
    """RankCSE's ListNet term (Liu et al. 2023): a teacher's softmax over the batch."""
    target = (teacher[0] @ teacher[1].T / TAU).softmax(1)
    return -(target * (anchors @ positives.T / TAU).log_softmax(1)).sum(1).mean()


def debcse(anchors, positives, threshold=0.6, weight=0.5):
    """DebCSE (Miao et al. 2023), simplified: negatives above a threshold count less."""
    s = anchors @ positives.T
    doubtful = _off_diagonal(s) & (s.detach() > threshold)
    return cross_entropy(s / TAU + doubtful * torch.log(torch.tensor(weight)), torch.arange(len(s)))


def simcse_hard(anchors, positives, extra_negatives):
    """Supervised SimCSE (Gao et al. 2021): one hard negative for each sentence, shared."""
    logits = anchors @ torch.cat([positives, extra_negatives]).T / TAU
    return cross_entropy(logits, torch.arange(len(anchors)))


class Queue(torch.nn.Module):
    """MoCo (He et al. 2020): negatives of a queue that the loss keeps itself."""

    def __init__(self, rows):
        super().__init__()
        self.register_buffer("queue", rows)

    def forward(self, anchors, positives):
        logits = anchors @ torch.cat([positives, self.queue]).T / TAU
        return cross_entropy(logits, torch.arange(len(anchors)))


class LearnedTemperature(torch.nn.Module):
    """A temperature for each sentence (as in iSogCLR, Qiu et al. 2023)."""

    def __init__(self, temperatures):
        super().__init__()
        self.temperatures = torch.nn.Parameter(temperatures)

    def forward(self, anchors, positives):
        logits = anchors @ positives.T / self.temperatures[:, None]
        return cross_entropy(logits, torch.arange(len(anchors)))


def vicreg(anchors, positives):
    """VICReg (Bardes et al. 2022): variances and covariances of coordinates."""

    def spread(rows):
        rows = rows - rows.mean(0)
        covariance = rows.T @ rows / (len(rows) - 1)
        squares = covariance**2
        return (1 - rows.std(0)).relu().mean() + (squares.sum() - squares.diagonal().sum()) / len(
            squares
        )

    return ((anchors - positives) ** 2).mean() + spread(anchors) + spread(positives)


def energy(anchors, positives, margin=0.4, width=0.1):
    """An energy loss: negatives in a shell around the margin are pushed, others are not."""
    s = anchors @ positives.T
    walls = torch.special.erf((s - margin) / (2**0.5 * width))
    return walls[_off_diagonal(s)].mean() - s.diagonal().mean()


def wrong_sign(anchors, positives):
    """InfoNCE of dissimilarities: the logits have lost their minus."""
    return cross_entropy(-(anchors @ positives.T) / TAU, torch.arange(len(anchors)))


# Written after the sentences of `decompose` were: none of its limits was chosen on them.


def dclr(anchors, positives, *, teacher, phi=0.5):
    """DCLR (Zhou et al. 2022): negatives that a fixed model finds too similar get no weight."""
    s = anchors @ positives.T
    false = _off_diagonal(s) & (teacher[0] @ teacher[1].T >= phi)
    return cross_entropy((s / TAU).masked_fill(false, float("-inf")), torch.arange(len(s)))


def dystress(anchors, positives, low=0.07, high=0.2):
    """DySTreSS (Manna et al. 2023): the temperature follows the cosine, by a cosine."""
    s = anchors @ positives.T
    temperature = low + 0.5 * (high - low) * (1 + torch.cos(torch.pi * (1 + s)))
    return cross_entropy(s / temperature, torch.arange(len(s)))


def sncse(anchors, positives, *, own_negatives, alpha=0.1, beta=0.3, factor=0.5):
    """SNCSE (Wang et al. 2022): each sentence's negation, within two margins of the positive."""
    s = anchors @ positives.T
    gap = torch.einsum("nd,nhd->nh", anchors, own_negatives)[:, 0] - s.diagonal()
    margins = (gap + alpha).relu() + (-gap - beta).relu()
    return cross_entropy(s / TAU, torch.arange(len(s))) + factor * margins.mean()


def qwen(anchors, positives, margin=0.1):
    """Qwen3-Embedding (Zhang et al. 2025): negatives of all views, without those far above the
    positive."""
    own = (anchors * positives).sum(1)

    def terms(s):
        return ((s / TAU).exp() * (_off_diagonal(s) & (s <= own[:, None] + margin))).sum(1)

    pairs = (anchors @ positives.T, anchors @ anchors.T, positives @ positives.T)
    total = (own / TAU).exp() + sum(map(terms, pairs))
    return (total.log() - own / TAU).mean()


def kalm(anchors, positives, gamma=0.5):
    """KaLM-Embedding-V2 (Zhao et al. 2025): a focal factor that leaves easy samples aside."""
    logarithm = (anchors @ positives.T / TAU).log_softmax(1).diagonal()
    return -((1 - logarithm.exp()) ** gamma * logarithm).mean()


def mixcse(anchors, positives, share=0.2):
    """MixCSE (Zhang et al. 2022): a fixed negative mixed of the positive and another sentence."""
    mixed = share * positives + (1 - share) * positives.roll(1, 0)
    mixed = (mixed / mixed.norm(dim=1, keepdim=True)).detach()
    logits = torch.cat([anchors @ positives.T, (anchors * mixed).sum(1, keepdim=True)], 1) / TAU
    return cross_entropy(logits, torch.arange(len(anchors)))


def spread_out(anchors, positives):
    """EmbeddingGemma (2025) without its hard negatives: squared cosines spread each view out."""
    own = sum(((rows @ rows.T) ** 2).triu(1).mean() for rows in (anchors, positives))
    return cross_entropy(anchors @ positives.T / TAU, torch.arange(len(anchors))) + 2 * own


def f_micl(anchors, positives, variance=0.5, alpha=40.0):
    """f-MICL with the chi-squared divergence (Lu et al. 2023), of a Gaussian kernel."""
    kernel = ((anchors @ positives.T - 1) / variance).exp()
    apart = _off_diagonal(kernel)
    return alpha * (kernel[apart] ** 2 - 1).mean() - 2 * (kernel.diagonal() - 1).mean()


def llave(anchors, positives, alpha=9.0):
    """LLaVE (Lan et al. 2025): negatives weighed by an exponential of their own cosine."""
    s = anchors @ positives.T
    hardness = (alpha * s.detach()) * _off_diagonal(s)
    return cross_entropy(s / TAU + hardness, torch.arange(len(s)))


def nv_retriever(anchors, positives, share=0.95):
    """NV-Retriever (Moreira et al. 2024): without negatives beyond a share of the positive."""
    s = anchors @ positives.T
    false = (s > share * s.diagonal()[:, None]) & _off_diagonal(s)
    return cross_entropy((s / TAU).masked_fill(false, float("-inf")), torch.arange(len(s)))


def pcc_tuning(anchors, positives, *, scores):
    """Pcc-tuning (Zhang & Li 2024): one less the correlation of cosines with people's scores."""
    cosines = (anchors * positives).sum(1)
    cosines, scores = cosines - cosines.mean(), scores - scores.mean()
    return 1 - (cosines * scores).sum() / (cosines.norm() * scores.norm())


def x_sample(anchors, positives, *, teacher, tau=0.1):
    """X-Sample contrastive loss (Sobal et al. 2024): a softmax of other cosines as target."""
    target = (teacher[0] @ teacher[0].T / tau).softmax(1)
    return cross_entropy(anchors @ positives.T / tau, target)


def jasper(anchors, positives, *, teacher, margin=0.015):
    """Jasper and Stella (Zhang et al. 2024): a teacher's cosines, and their order."""
    pairs = torch.triu_indices(len(anchors), len(anchors), 1)
    cosines, targets = (rows @ rows.T for rows in (anchors, teacher[0]))
    cosines, targets = cosines[pairs[0], pairs[1]], targets[pairs[0], pairs[1]]
    wrong = (cosines[:, None] - cosines + margin).relu() * (targets[:, None] < targets)
    return 200 * (cosines - targets).square().mean() + 20 * wrong.mean()
