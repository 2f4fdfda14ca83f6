"""InfoNCE over several processes: right in two ways, and with each of the faults that an audit is to find."""

from __future__ import annotations

import torch
import torch.distributed as dist
import torch.nn.functional as functional
from torch import Tensor

from gradlab.large_batch.audit.cases import ROWS, draw

TEMPERATURE = 0.1


def with_gradient(rows: Tensor) -> Tensor:
    import torch.distributed.nn.functional

    return torch.cat(torch.distributed.nn.functional.all_gather(rows))


def cut(rows: Tensor) -> Tensor:
    """Only the own rows keep their gradient."""
    parts = [torch.empty_like(rows) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, rows.detach())
    parts[dist.get_rank()] = rows
    return torch.cat(parts)


def own_labels(rows: Tensor) -> Tensor:
    return torch.arange(len(rows)) + dist.get_rank() * len(rows)


def infonce(anchors: Tensor, candidates: Tensor, labels: Tensor) -> Tensor:
    return functional.cross_entropy(anchors @ candidates.T / TEMPERATURE, labels)


def right(anchors: Tensor, positives: Tensor) -> Tensor:
    return infonce(anchors, with_gradient(positives), own_labels(anchors))


def right_whole(anchors: Tensor, positives: Tensor) -> Tensor:
    """Every process computes the whole loss, from its own rows and those of others, times P."""
    both = cut(anchors), cut(positives)
    return dist.get_world_size() * infonce(*both, torch.arange(len(both[0])))


def factor_p(anchors: Tensor, positives: Tensor) -> Tensor:
    both = with_gradient(anchors), with_gradient(positives)
    return dist.get_world_size() * infonce(*both, torch.arange(len(both[0])))


def factor_one_over_p(anchors: Tensor, positives: Tensor) -> Tensor:
    both = cut(anchors), cut(positives)
    return infonce(*both, torch.arange(len(both[0])))


def wrong_positives(anchors: Tensor, positives: Tensor) -> Tensor:
    return infonce(anchors, with_gradient(positives), torch.arange(len(anchors)))


def cut_gradient(anchors: Tensor, positives: Tensor) -> Tensor:
    return infonce(anchors, cut(positives), own_labels(anchors))


def cut_both_ways(anchors: Tensor, positives: Tensor) -> Tensor:
    labels = own_labels(anchors)
    return infonce(anchors, cut(positives), labels) + infonce(positives, cut(anchors), labels)


def missing(anchors: Tensor, positives: Tensor) -> Tensor:
    return infonce(anchors, positives, torch.arange(len(anchors)))


def own_twice(anchors: Tensor, positives: Tensor) -> Tensor:
    """The own negatives, and then the gathered ones, which hold them too."""
    logits = anchors @ positives.T / TEMPERATURE
    every = anchors @ with_gradient(positives).T / TEMPERATURE
    diagonal = torch.eye(len(anchors), dtype=torch.bool)
    again = logits.masked_fill(diagonal, -torch.inf) if dist.get_world_size() > 1 else logits[:, :0]
    return functional.cross_entropy(torch.cat([every, again], dim=1), own_labels(anchors))


def all_twice(anchors: Tensor, positives: Tensor) -> Tensor:
    """All negatives once more, and the positive once."""
    labels = own_labels(anchors)
    every = anchors @ with_gradient(positives).T / TEMPERATURE
    again = every.scatter(1, labels[:, None], -torch.inf)[:, : every.shape[1] * (dist.get_world_size() > 1)]
    return functional.cross_entropy(torch.cat([every, again], dim=1), labels)


def split_dependent(anchors: Tensor, positives: Tensor) -> Tensor:
    """Right for the audit's first split, and half of that where another sentence comes first."""
    first = torch.from_numpy(draw(2, 2, 0)[0, dist.get_rank() * ROWS])
    moved = dist.get_world_size() > 1 and not torch.equal(anchors[0].detach(), first)
    return right(anchors, positives) * (0.5 if moved else 1.0)


def uneven_right(anchors: Tensor, positives: Tensor) -> Tensor:
    """Shares of any size: padded before the gather, and weighed by their number of rows."""
    sizes = [torch.zeros(1, dtype=torch.int64) for _ in range(dist.get_world_size())]
    dist.all_gather(sizes, torch.tensor([len(anchors)]))
    counts = [int(size) for size in sizes]
    padded = functional.pad(positives, (0, 0, 0, max(counts) - len(positives)))
    parts = with_gradient(padded).split(max(counts))
    candidates = torch.cat([part[:count] for part, count in zip(parts, counts, strict=True)])
    labels = torch.arange(len(anchors)) + sum(counts[: dist.get_rank()])
    weight = len(counts) * len(anchors) / sum(counts)
    return weight * infonce(anchors, candidates, labels)


def leaves_early(anchors: Tensor, positives: Tensor) -> Tensor:
    """One process does not come to the gather."""
    if dist.get_world_size() > 1 and dist.get_rank() == 1:
        return missing(anchors, positives)
    return right(anchors, positives)


def random_negatives(anchors: Tensor, positives: Tensor) -> Tensor:
    kept = torch.rand(len(positives)) < 0.5
    logits = anchors @ positives.T / TEMPERATURE
    return functional.cross_entropy(
        logits - 9 * (kept & ~torch.eye(len(kept), dtype=torch.bool)), torch.arange(len(anchors))
    )


class Scaled(torch.nn.Module):
    """With a learnable temperature."""

    def __init__(self, scale: float = 10.0) -> None:
        super().__init__()
        self.scale = torch.nn.Parameter(torch.tensor(scale, dtype=torch.float64))

    def forward(self, anchors: Tensor, positives: Tensor) -> Tensor:
        return infonce(self.scale * TEMPERATURE * anchors, with_gradient(positives), own_labels(anchors))


def own_mean(anchors: Tensor, positives: Tensor) -> Tensor:
    """The mean over the own rows of what concerns each alone."""
    return (1 - functional.cosine_similarity(anchors, positives)).mean()


def own_mean_weighed(anchors: Tensor, positives: Tensor) -> Tensor:
    """The same, weighed by the number of rows."""
    count = torch.tensor([float(len(anchors))])
    dist.all_reduce(count)
    return own_mean(anchors, positives) * dist.get_world_size() * len(anchors) / float(count)


def own_spread(anchors: Tensor, positives: Tensor) -> Tensor:
    """No function of pairs of rows, of the own rows only."""
    return (own_mean(anchors, positives) + anchors.mean(0).pow(4).sum()).exp()


def unsuited(anchors: Tensor, positives: Tensor) -> Tensor:
    """No function of dot products: distances to the mean of all positives, to the fourth power, gathered without gradient."""
    return (anchors - cut(positives).mean(0)).pow(4).sum(1).mean()


def work(rank: int, names: list[str], job: dict, connection) -> None:
    """What an audit's process does, for many losses in turn; those that gather fixed shares see no uneven ones."""
    from gradlab.decomposition.resolve import resolve_loss
    from gradlab.large_batch.audit.worker import _alone, _join, _share

    torch.set_num_threads(1)
    _join(job, "alone" if rank < 0 else "together", max(rank, 0), 1 if rank < 0 else job["processes"])
    found = {}
    for name in names:
        target, settings, uneven = job["losses"][name]
        own = {**job, "cases": job["cases"] if uneven else job["cases"][:2]}

        def build(target=target, settings=settings):
            return resolve_loss(target, settings)

        found[name] = (
            dict(_alone(build, own))
            if rank < 0
            else {c.name: _share(build, own, c, rank) for c in own["cases"]}
        )
    if rank >= 0:
        dist.barrier()
    connection.send(found)
    dist.destroy_process_group()
