"""Losses over several processes: sound ones, and one for each fault that an audit is to find."""

from __future__ import annotations

import pickle
from pathlib import Path

import torch
import torch.distributed as dist
import torch.nn.functional as functional
from torch import Tensor
from torch.distributed.nn.functional import all_gather, all_reduce

import gradlab
from gradlab.scale.audit.cases import ROWS, cases, draw, material

TEMPERATURE = 0.1
HIDDEN = -9.0  # a cosine that stands for no candidate


def rank() -> int:
    return dist.get_rank()


def world() -> int:
    return dist.get_world_size()


def sizes_of(rows: Tensor) -> list[int]:
    counts = [torch.zeros(1, dtype=torch.int64) for _ in range(world())]
    dist.all_gather(counts, torch.tensor([len(rows)]))
    return [int(count) for count in counts]


def with_gradient(rows: Tensor, sizes: list[int]) -> Tensor:
    shares = all_gather(functional.pad(rows, (0, 0, 0, max(sizes) - len(rows))))
    return torch.cat([share[:size] for share, size in zip(shares, sizes, strict=True)])


def cut(rows: Tensor, sizes: list[int]) -> Tensor:
    """Only this process's rows carry gradient."""
    shares = list(with_gradient(rows, sizes).detach().split(sizes))
    shares[rank()] = rows
    return torch.cat(shares)


def all_cut(rows: Tensor, sizes: list[int]) -> Tensor:
    return with_gradient(rows, sizes).detach() if world() > 1 else rows


def alone(rows: Tensor, sizes: list[int]) -> Tensor:
    return rows


GATHERS = {gather.__name__: gather for gather in (with_gradient, cut, all_cut, alone)}


def infonce(cosines: Tensor, labels: Tensor, temperature: float | Tensor) -> Tensor:
    return functional.cross_entropy(cosines / temperature, labels, reduction="none")


def dcl(cosines: Tensor, labels: Tensor, temperature: float | Tensor) -> Tensor:
    negatives = cosines.scatter(1, labels[:, None], HIDDEN)
    return (negatives / temperature).logsumexp(1) - cosines.gather(1, labels[:, None])[
        :, 0
    ] / temperature


def siglip(cosines: Tensor, labels: Tensor, temperature: float | Tensor) -> Tensor:
    signs = -torch.ones_like(cosines).scatter(1, labels[:, None], -1)
    return functional.softplus(-signs * (cosines / temperature - 5)).sum(1)


def hinge(cosines: Tensor, labels: Tensor, temperature: float | Tensor) -> Tensor:
    """All triplets with a margin."""
    negatives = cosines.scatter(1, labels[:, None], HIDDEN)
    return torch.relu(0.6 + negatives - cosines.gather(1, labels[:, None])).sum(1) * (
        0.1 / temperature
    )


def hardest(cosines: Tensor, labels: Tensor, temperature: float | Tensor) -> Tensor:
    nearest = cosines.scatter(1, labels[:, None], HIDDEN).amax(1)
    return torch.relu(1 + (nearest - cosines.gather(1, labels[:, None])[:, 0]) / temperature)


ROW_LOSSES = {row_loss.__name__: row_loss for row_loss in (infonce, dcl, siglip, hinge, hardest)}


class Planted(torch.nn.Module):
    """A loss of rows against gathered candidates, sound unless told otherwise.

    Args:
        row: the loss of each anchor.
        both: add the other direction.
        gather: how candidates are gathered, and ``gather_anchors`` those of the other direction.
        offset: whether labels have the rank's offset.
        scale: factor of the loss: "mean", weighed for shares of any size; "own" without the weight;
            "P"; "1/P"; "idle" for 0 on rank 1; "rank" for one that differs.
        whole: each process computes the loss of the whole batch.
        repeat: what candidates are added: "own" or "all".
        hidden: whether the other candidates of this process are left out.
        own: what is done with each process's rows first, of ``OWN``.
        exact: compute in float32 where it is False.
    """

    def __init__(
        self, row="infonce", both=False, gather="with_gradient", gather_anchors="", offset=True,
        scale="mean", whole=False, repeat="", hidden=False, own="nothing", exact=True,
    ) -> None:  # fmt: skip
        super().__init__()
        self.row, self.both = ROW_LOSSES[row], both
        self.gathers = GATHERS[gather_anchors or gather], GATHERS[gather]
        self.offset, self.scale, self.whole = offset and gather != "alone", scale, whole
        self.repeat, self.hidden, self.own, self.exact = repeat, hidden, OWN[own], exact

    def forward(self, *columns: Tensor) -> Tensor:
        if not self.exact:
            columns = tuple(rows.float() for rows in columns)
        sizes = sizes_of(columns[0])
        *rows, temperature = self.own(*columns)
        gathered = [gather(view, sizes) for gather, view in zip(self.gathers, rows, strict=True)]
        values = self._direction(
            gathered[0] if self.whole else rows[0], gathered[1], temperature, sizes
        )
        if self.both:
            reverse = self._direction(
                gathered[1] if self.whole else rows[1], gathered[0], temperature, sizes
            )
            values = values + reverse
        mean = values.mean() if self.whole else values.sum() * world() / sum(sizes)
        factor = {
            "P": world(),
            "idle": rank() == 0 or world() == 1,
            "rank": 1 + rank(),
            "1/P": 1 / world(),
        }.get(self.scale, 1)
        return (values.mean() if self.scale == "own" else mean * factor).double()

    def _direction(
        self, rows: Tensor, candidates: Tensor, temperature: float | Tensor, sizes: list[int]
    ) -> Tensor:
        start = sum(sizes[: rank()]) if self.offset and not self.whole else 0
        labels = torch.arange(len(rows)) + start
        cosines = rows @ candidates.T
        own_rows = slice(start, start + len(rows))
        if world() > 1 and self.hidden:
            itself = torch.eye(len(rows), dtype=torch.bool)
            cosines[:, own_rows] = torch.where(itself, cosines[:, own_rows], HIDDEN)
        if world() > 1 and self.repeat:
            negatives = cosines.scatter(1, labels[:, None], HIDDEN)
            cosines = torch.cat(
                [cosines, negatives if self.repeat == "all" else negatives[:, own_rows]], dim=1
            )
        return self.row(cosines, labels, temperature)


def centred_on_all(anchors: Tensor, positives: Tensor) -> tuple[Tensor, Tensor, float]:
    count = all_reduce(torch.tensor(float(len(anchors))))
    first, second = (rows - all_reduce(rows.sum(0)) / count for rows in (anchors, positives))
    return first, second, TEMPERATURE


# What is done with the rows of a process before they are gathered, and the temperature.
OWN = {
    "nothing": lambda a, b: (a, b, TEMPERATURE),
    "fixed_positives": lambda a, b: (a, b.detach(), TEMPERATURE),
    "centred_on_all": centred_on_all,
    "centred": lambda a, b: (a - a.mean(0), b - b.mean(0), TEMPERATURE),
    "by_rank": lambda a, b: (a, b, TEMPERATURE * (1 + 0.3 * rank())),
    "hotter": lambda a, b: (a, b, TEMPERATURE * world()),
}


class Scaled(torch.nn.Module):
    """With a learnable factor; its gradient is P times too large where each has the whole loss."""

    def __init__(self, whole: bool = False) -> None:
        super().__init__()
        self.scale = torch.nn.Parameter(torch.tensor(3.0, dtype=torch.float64))
        self.loss = Planted(
            whole=whole, gather="cut" if whole else "with_gradient", scale="P" if whole else "mean"
        )

    def forward(self, anchors: Tensor, positives: Tensor) -> Tensor:
        return self.scale * self.loss(anchors, positives)


def split_dependent(anchors: Tensor, positives: Tensor) -> Tensor:
    """Right for the audit's first split, three times that where another sentence comes first."""
    first = torch.from_numpy(draw(world(), 2, 0)[0, rank() * ROWS])
    moved = world() > 1 and not torch.equal(anchors[0].detach(), first)
    return Planted()(anchors, positives) * (3.0 if moved else 1.0)


def leaves_early(anchors: Tensor, positives: Tensor) -> Tensor:
    """One process does not come to the gather."""
    if world() > 1 and rank() == 1:
        return functional.cross_entropy(anchors @ positives.T, torch.arange(len(anchors)))
    return Planted()(anchors, positives)


def random_negatives(anchors: Tensor, positives: Tensor) -> Tensor:
    selected = torch.rand(len(positives)) < 0.5
    logits = anchors @ positives.T / TEMPERATURE
    return functional.cross_entropy(
        logits - 9 * (selected & ~torch.eye(len(selected), dtype=torch.bool)),
        torch.arange(len(anchors)),
    )


def rearranged(anchors: Tensor, positives: Tensor) -> Tensor:
    """All positives in another order than the labels expect, on any number of processes."""
    gathered = with_gradient(positives, sizes_of(positives))
    labels = sum(sizes_of(positives)[: rank()]) + torch.arange(len(anchors))
    return infonce(anchors @ gathered.roll(3, 0).T, labels, TEMPERATURE).mean()


def half_fixed(anchors: Tensor, positives: Tensor) -> Tensor:
    """In one of two directions the anchors have no gradient, on any number of processes."""
    rows = [with_gradient(view, sizes_of(view)) for view in (positives, anchors.detach())]
    labels = sum(sizes_of(anchors)[: rank()]) + torch.arange(len(anchors))
    return sum(
        infonce(own @ others.T, labels, TEMPERATURE).mean() / 2
        for own, others in zip((anchors, positives), rows, strict=True)
    )


def own_spread(anchors: Tensor, positives: Tensor) -> Tensor:
    """No function of pairs, of the own rows only."""
    return (
        1 - functional.cosine_similarity(anchors, positives).mean() + anchors.mean(0).pow(4).sum()
    ).exp()


def own_hard(anchors: Tensor, positives: Tensor, own_negatives: Tensor) -> Tensor:
    """InfoNCE of all processes with negatives of each anchor's own."""
    loss = gradlab.blockwise("infonce(temperature=0.1)", group="world", average=True)
    return loss(anchors, positives, own_negatives=own_negatives, normalize=True)


def own_misplaced(anchors: Tensor, positives: Tensor, own_negatives: Tensor) -> Tensor:
    """The same, each process with the own negatives of the first one's anchors."""
    gathered = with_gradient(own_negatives.flatten(1), sizes_of(anchors)).view(
        -1, *own_negatives.shape[1:]
    )
    return own_hard(anchors, positives, gathered[: len(anchors)])


def unsuited(anchors: Tensor, positives: Tensor) -> Tensor:
    """Distances to the mean of all positives, to the fourth power: no sum over single vectors."""
    return (anchors - cut(positives, sizes_of(positives)).mean(0)).pow(4).sum(1).mean()


def work(rank: int, job: dict, connection) -> None:
    """What a process of an audit does, for many losses in turn.

    Losses that gather fixed shares see no uneven ones.
    """
    from gradlab.decomposition.own_loss import resolve_loss
    from gradlab.scale.audit.worker import join, measure

    torch.set_num_threads(1)
    join(Path(job["folder"]), rank, job["processes"], job["timeout"])
    results = {}
    for name, (target, settings, uneven) in job["losses"].items():
        own = {**job, **arguments_of(job, target, uneven)}
        results[name] = dict(measure(lambda t=target, s=settings: resolve_loss(t, s), own, rank))
    if rank >= 0:
        dist.barrier()
    connection.send_bytes(pickle.dumps(results))
    dist.destroy_process_group()


def measured(
    losses: dict[str, tuple], context, folder: str, processes: int = 2, columns: int = 2
) -> dict[str, tuple]:
    """What `judge` takes, by name of loss: (target, settings, whether shares can be uneven).

    All run in the same processes, one alone and the others together.
    """
    job = {
        **material(processes, columns, 0), "cases": cases(processes), "losses": losses,
        "processes": processes, "folder": folder, "timeout": 60,
    }  # fmt: skip
    connections, started = [], []
    for rank in range(-1, processes):
        receiver, sender = context.Pipe(duplex=False)
        started.append(context.Process(target=work, args=(rank, job, sender)))
        started[-1].start()
        sender.close()
        connections.append(receiver)
    results = [pickle.loads(connection.recv_bytes()) for connection in connections]
    for process in started:
        process.join(60)
    return {
        name: (
            name,
            {**job, **arguments_of(job, target, uneven)},
            [measurement[name] for measurement in results],
            [],
            True,
        )
        for name, (target, _, uneven) in losses.items()
    }


def arguments_of(job: dict, target: str, uneven: bool) -> dict:
    """What differs between losses: uneven shares, and two own negatives."""
    own = 2 if ":own_hard" in target or ":own_misplaced" in target else 0
    material_of_own = material(job["processes"], 2 + own, 0) if own else {}
    return {"cases": job["cases"][: None if uneven else -1], "own": own, **material_of_own}
