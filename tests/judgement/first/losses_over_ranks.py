"""Sound losses over processes: what needs a gather has one, with its gradient."""

from __future__ import annotations

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.distributed.nn.functional import all_gather

from tests.judgement.case import AUDIT, sound
from tests.judgement.stage import Stage


def of_all(rows: torch.Tensor) -> torch.Tensor:
    """Rows of all processes in the order of ranks, with gradient to each."""
    return torch.cat(all_gather(rows.contiguous()))


def own_places(rows: torch.Tensor) -> torch.Tensor:
    """Places of own rows among those of all."""
    return dist.get_rank() * len(rows) + torch.arange(len(rows))


def sigmoid_over_ranks(first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
    """SigLIP's loss of own rows with the second rows of all processes."""
    values = F.normalize(first) @ F.normalize(of_all(second)).T
    signs = -torch.ones_like(values)
    signs[torch.arange(len(first)), own_places(first)] = 1
    return -F.logsigmoid(signs * (10 * values - 5)).sum(1).mean()


def hinge_over_ranks(first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
    """Mean hinge of own rows against the second rows of all processes but their own."""
    values = F.normalize(first) @ F.normalize(of_all(second)).T
    places = own_places(first)
    own = values.gather(1, places[:, None])
    gaps = F.relu(0.3 + values - own).scatter(1, places[:, None], 0.0)
    return gaps.sum(1).mean() / (values.shape[1] - 1)


def pairs_by_themselves(first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
    """Squared distances of pairs: no row needs those of others, and nothing is gathered."""
    return (F.normalize(first) - F.normalize(second)).square().sum(1).mean()


def uniform_over_ranks(first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
    """Pairs that are pulled together, and the potential of all rows, the same on each process."""
    rows = F.normalize(of_all(first))
    potential = torch.pdist(rows).square().mul(-2).exp().mean().log()
    return pairs_by_themselves(first, second) + potential


def decoupled_over_ranks(first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
    """Contrast of own rows with all, whose denominator leaves out the positive."""
    logits = F.normalize(first) @ F.normalize(of_all(second)).T / 0.1
    places = own_places(first)[:, None]
    negatives = logits.scatter(1, places, -torch.inf)
    return (negatives.logsumexp(1) - logits.gather(1, places).squeeze(1)).mean()


@sound("audit of a sigmoid for each pair of rows", tools=(AUDIT,))
def sigmoids_of_all_pairs_over_ranks(stage: Stage) -> None:
    stage.audit(sigmoid_over_ranks, uneven=False)


@sound("audit of a mean hinge", tools=(AUDIT,))
def mean_hinge_against_all_ranks(stage: Stage) -> None:
    stage.audit(hinge_over_ranks, uneven=False)


@sound("audit of a loss that needs no gather", tools=(AUDIT,))
def distances_without_a_gather(stage: Stage) -> None:
    stage.audit(pairs_by_themselves, uneven=False)


@sound("audit of a potential of all rows", tools=(AUDIT,))
def potential_of_the_rows_of_all_ranks(stage: Stage) -> None:
    stage.audit(uniform_over_ranks, uneven=False)


@sound("audit of a contrast without the positive below", tools=(AUDIT,))
def decoupled_contrast_over_ranks(stage: Stage) -> None:
    stage.audit(decoupled_over_ranks, uneven=False)
