"""Sound losses over several processes."""

from __future__ import annotations

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor

from tests.judgement.case import AUDIT, sound
from tests.judgement.first.turns import cosines
from tests.judgement.stage import Stage


def gathered(rows: Tensor) -> Tensor:
    """The rows of all processes, with gradient to where each came from."""
    from torch.distributed.nn.functional import all_gather

    return torch.cat(all_gather(rows)) if dist.is_initialized() else rows


def own(rows: Tensor) -> Tensor:
    """The places of one's own rows among those of all processes."""
    rank = dist.get_rank() if dist.is_initialized() else 0
    return rank * len(rows) + torch.arange(len(rows))


def symmetric(first: Tensor, second: Tensor) -> Tensor:
    """Own rows ranked among those of all processes, in both directions."""
    labels = own(first)
    forward = F.cross_entropy(cosines(first, gathered(second)) / 0.05, labels)
    return (forward + F.cross_entropy(cosines(second, gathered(first)) / 0.05, labels)) / 2


def sigmoid(first: Tensor, second: Tensor) -> Tensor:
    """Own first rows with the second ones of all processes, each as a binary choice."""
    scores = cosines(first, gathered(second))
    signs = -torch.ones_like(scores)
    signs[torch.arange(len(first)), own(first)] = 1
    return -F.logsigmoid(signs * (10 * scores - 5)).sum(1).mean()


def triplets(first: Tensor, second: Tensor) -> Tensor:
    """The hardest wrong partner of all processes stays below the right one by a margin."""
    scores, labels = cosines(first, gathered(second)), own(first)
    right = scores[torch.arange(len(first)), labels]
    wrong = scores.scatter(1, labels[:, None], -2.0).max(1).values
    return F.relu(wrong - right + 0.4).mean()


def redundancy(first: Tensor, second: Tensor) -> Tensor:
    """Barlow twins over the rows of all processes: the same loss on each of them."""
    columns = [gathered(rows) for rows in (first, second)]
    first, second = ((rows - rows.mean(0)) / (rows.var(0) + 1e-5).sqrt() for rows in columns)
    correlations = first.T @ second / len(first)
    diagonal = torch.eye(len(correlations), dtype=correlations.dtype)
    gaps = (correlations - diagonal).square()
    return (gaps * diagonal).sum() + 0.02 * (gaps * (1 - diagonal)).sum()


def decoupled(first: Tensor, second: Tensor) -> Tensor:
    """Decoupled ranking: the right partner is not among those that it is ranked against."""
    scores, labels = cosines(first, gathered(second)) / 0.1, own(first)
    right = scores[torch.arange(len(first)), labels]
    wrong = scores.scatter(1, labels[:, None], float("-inf"))
    return (wrong.logsumexp(1) - right).mean()


def audited(stage: Stage, loss: object) -> None:
    stage.audit(loss, uneven=False)


@sound("ranking in both directions over processes", tools=(AUDIT,))
def symmetric_ranking_over_processes(stage: Stage) -> None:
    audited(stage, symmetric)


@sound("sigmoid over processes", tools=(AUDIT,))
def sigmoid_of_all_pairs_over_processes(stage: Stage) -> None:
    audited(stage, sigmoid)


@sound("hardest partner over processes", tools=(AUDIT,))
def hardest_partner_over_processes(stage: Stage) -> None:
    audited(stage, triplets)


@sound("redundancy over processes", tools=(AUDIT,))
def barlow_twins_over_processes(stage: Stage) -> None:
    audited(stage, redundancy)


@sound("decoupled ranking over processes", tools=(AUDIT,))
def decoupled_ranking_over_processes(stage: Stage) -> None:
    audited(stage, decoupled)
