"""Losses over several processes: sound ones, and one for each fault that an audit is to find."""

from __future__ import annotations

import pickle
from pathlib import Path

import torch
import torch.distributed as dist
import torch.nn.functional as functional
from torch import Tensor

import gradlab
from gradlab.scale.audit.cases import ROWS, cases, draw, material

TEMPERATURE = 0.1
HIDDEN = -9.0  # a cosine that stands for no candidate


def rank() -> int:
    return dist.get_rank()


def world() -> int:
    return dist.get_world_size()


def sizes_of(rows: Tensor) -> list[int]:
    found = [torch.zeros(1, dtype=torch.int64) for _ in range(world())]
    dist.all_gather(found, torch.tensor([len(rows)]))
    return [int(one) for one in found]


def with_gradient(rows: Tensor) -> Tensor:
    """All rows, of shares of any size: padded for the gather."""
    import torch.distributed.nn.functional

    sizes = sizes_of(rows)
    padded = functional.pad(rows, (0, 0, 0, max(sizes) - len(rows)))
    parts = torch.distributed.nn.functional.all_gather(padded)
    return torch.cat([part[:size] for part, size in zip(parts, sizes, strict=True)])


def padded(rows: Tensor) -> Tensor:
    """All rows, with the padding left in."""
    import torch.distributed.nn.functional

    return torch.cat(
        torch.distributed.nn.functional.all_gather(
            functional.pad(rows, (0, 0, 0, max(sizes_of(rows)) - len(rows)))
        )
    )


def cut(rows: Tensor) -> Tensor:
    """Only this process's rows carry gradient."""
    start = sum(sizes_of(rows)[: rank()])
    every = with_gradient(rows).detach()
    return torch.cat([every[:start], rows, every[start + len(rows) :]])


def all_cut(rows: Tensor) -> Tensor:
    return with_gradient(rows).detach() if world() > 1 else rows


def reverse(rows: Tensor) -> Tensor:
    return torch.cat(list(reversed(with_gradient(rows).split(sizes_of(rows)))))


def alone(rows: Tensor) -> Tensor:
    return rows


def only_own(rows: Tensor) -> Tensor:
    """The rows of other processes are replaced by zeros."""
    start = sum(sizes_of(rows)[: rank()])
    return functional.pad(rows, (0, 0, start, sum(sizes_of(rows)) - start - len(rows)))


def summed(value: Tensor) -> Tensor:
    import torch.distributed.nn.functional

    return torch.distributed.nn.functional.all_reduce(value)


GATHERS = {one.__name__: one for one in (with_gradient, padded, cut, all_cut, reverse, alone, only_own)}


def infonce(cosines: Tensor, labels: Tensor, temperature: float | Tensor) -> Tensor:
    return functional.cross_entropy(cosines / temperature, labels, reduction="none")


def dcl(cosines: Tensor, labels: Tensor, temperature: float | Tensor) -> Tensor:
    rest = cosines.scatter(1, labels[:, None], HIDDEN)
    return (rest / temperature).logsumexp(1) - cosines.gather(1, labels[:, None])[:, 0] / temperature


def siglip(cosines: Tensor, labels: Tensor, temperature: float | Tensor) -> Tensor:
    signs = -torch.ones_like(cosines).scatter(1, labels[:, None], -1)
    return functional.softplus(-signs * (cosines / temperature - 5)).sum(1)


def hinge(cosines: Tensor, labels: Tensor, temperature: float | Tensor) -> Tensor:
    """All triplets with a margin."""
    rest = cosines.scatter(1, labels[:, None], HIDDEN)
    return torch.relu(0.6 + rest - cosines.gather(1, labels[:, None])).sum(1) * (0.1 / temperature)


def hardest(cosines: Tensor, labels: Tensor, temperature: float | Tensor) -> Tensor:
    rest = cosines.scatter(1, labels[:, None], HIDDEN).amax(1)
    return torch.relu(1 + (rest - cosines.gather(1, labels[:, None])[:, 0]) / temperature)


ROW_LOSSES = {one.__name__: one for one in (infonce, dcl, siglip, hinge, hardest)}


class Planted(torch.nn.Module):
    """A loss of rows against gathered candidates, sound unless told otherwise.

    Args:
        row: the loss of each anchor.
        both: add the other direction.
        gather: how candidates are gathered, and ``gather_anchors`` those of the other direction.
        labels: "right", "zero" (without the rank's offset) or "next" (of the next sentence).
        scale: factor of the loss: "mean", weighed for shares of any size; "own" without the weight; "sum"; "P"; "1/P"; "idle"
            for 0 on rank 1; "rank" for one that differs.
        whole: each process computes the loss of the whole batch.
        repeat: what candidates are added: "own", "all", "positive".
        hide: what candidates are left out: "own", "next" of the ranks.
        own: what is done with each process's rows first: see `_own`.
        exact: compute in float32 where it is False.
    """

    def __init__(
        self, row="infonce", both=False, gather="with_gradient", gather_anchors="", labels="right", scale="mean", whole=False,
        repeat="", hide="", own="", exact=True,
    ) -> None:  # fmt: skip
        super().__init__()
        self.row, self.both = ROW_LOSSES[row], both
        self.gathers = GATHERS[gather_anchors or gather], GATHERS[gather]
        self.labels, self.scale, self.whole = labels, scale, whole
        self.repeat, self.hide, self.own, self.exact = repeat, hide, own, exact

    def forward(self, anchors: Tensor, positives: Tensor, *hard: Tensor) -> Tensor:
        if not self.exact:
            anchors, positives, *hard = (rows.float() for rows in (anchors, positives, *hard))
        temperature: float | Tensor = TEMPERATURE
        if self.own:
            anchors, positives, temperature = self._own(anchors, positives)
        every = [gather(rows) for gather, rows in zip(self.gathers, (anchors, positives), strict=True)]
        extra = [self.gathers[1](rows) for rows in hard]
        if self.whole:
            values = self._direction(every[0], torch.cat([every[1], *extra]), temperature)
            if self.both:
                values = values + self._direction(every[1], every[0], temperature)
            return self._scaled(values).double()
        values = self._direction(anchors, torch.cat([every[1], *extra]), temperature)
        if self.both:
            values = values + self._direction(positives, every[0], temperature)
        return self._scaled(values).double()

    def _direction(self, rows: Tensor, candidates: Tensor, temperature: float | Tensor) -> Tensor:
        own = rows if self.whole else None
        no_offset = self.whole or self.labels == "zero" or self.gathers[1] is alone
        start = 0 if no_offset else sum(sizes_of(rows)[: rank()])
        labels = torch.arange(len(rows)) + start
        if self.labels == "next":
            labels = (labels + (world() > 1)) % len(candidates)
        cosines = rows @ candidates.T
        if world() > 1 and self.hide:
            first = sum(sizes_of(rows)[: (rank() + (self.hide == "next")) % world()])
            place = torch.arange(cosines.shape[1])
            hidden = (place >= first) & (
                place < first + sizes_of(rows)[(rank() + (self.hide == "next")) % world()]
            )
            hidden = hidden & (place != labels[:, None])
            cosines = cosines.masked_fill(hidden, HIDDEN)
        if world() > 1 and self.repeat and own is None:
            again = cosines
            if self.repeat == "own":
                again = cosines[:, start : start + len(rows)]
                again = again.masked_fill(torch.eye(len(rows), dtype=torch.bool), HIDDEN)
            elif self.repeat == "all":
                again = cosines.scatter(1, labels[:, None], HIDDEN)
            elif self.repeat == "positive":
                again = cosines.gather(1, labels[:, None])
            cosines = torch.cat([cosines, again], dim=1)
        return self.row(cosines, labels, temperature)

    def _scaled(self, values: Tensor) -> Tensor:
        sizes = sizes_of(values[:, None])
        mean = values.mean() if self.whole else values.sum() * world() / sum(sizes)
        return {
            "mean": mean,
            "own": values.mean(),
            "sum": values.sum(),
            "P": mean * world(),
            "1/P": mean / world(),
            "idle": mean * (rank() == 0 or world() == 1),
            "rank": mean * (1 + rank()),
        }[self.scale]

    def _own(self, anchors: Tensor, positives: Tensor) -> tuple[Tensor, Tensor, float | Tensor]:
        temperature: float | Tensor = TEMPERATURE
        if self.own in ("centre", "centre positives", "centre all"):
            mean = [rows.mean(0) for rows in (anchors, positives)]
            if self.own == "centre all":
                count = summed(torch.tensor(float(len(anchors))))
                mean = [summed(rows.sum(0)) / count for rows in (anchors, positives)]
            if self.own != "centre positives":
                anchors = anchors - mean[0]
            positives = positives - mean[1]
        elif self.own in ("standardise", "batch norm"):
            scale = [
                rows.std(0, correction=self.own == "standardise") + 1e-3 for rows in (anchors, positives)
            ]
            anchors, positives = (
                0.1 * (rows - rows.mean(0)) / one
                for rows, one in zip((anchors, positives), scale, strict=True)
            )
        elif self.own == "scale":
            anchors, positives = anchors / anchors.norm(), positives / positives.norm()
            temperature = 0.01
        elif self.own == "std of rows":
            temperature = anchors.std()
        elif self.own == "std of cosines":
            temperature = (anchors @ positives.T).std()
        elif self.own == "std, detached":
            temperature = (anchors @ positives.T).std().detach()
        elif self.own == "std by dimension":
            temperature = positives.std(0).mean()
        elif self.own == "mean cosine":
            temperature = 0.2 * (anchors * positives).sum(1).mean()
        elif self.own == "mean cosine of all":
            count = summed(torch.tensor(float(len(anchors))))
            temperature = 0.2 * summed((anchors * positives).sum()) / count
        elif self.own == "by rank":
            temperature = TEMPERATURE * (1 + 0.3 * rank())
        elif self.own == "highest off":  # which changes nothing
            anchors = anchors * 1.0 + 0 * anchors.amax()
        elif self.own == "fixed positives":
            positives = positives.detach()
        return anchors, positives, temperature


class Scaled(torch.nn.Module):
    """With a learnable factor, whose gradient is P times too large where each process computes the whole loss."""

    def __init__(self, whole: bool = False) -> None:
        super().__init__()
        self.scale = torch.nn.Parameter(torch.tensor(3.0, dtype=torch.float64))
        self.loss = Planted(
            whole=whole, gather="cut" if whole else "with_gradient", scale="P" if whole else "mean"
        )

    def forward(self, anchors: Tensor, positives: Tensor) -> Tensor:
        return self.scale * self.loss(anchors, positives)


def split_dependent(anchors: Tensor, positives: Tensor) -> Tensor:
    """Right for the audit's first split, and three times that where another sentence comes first."""
    first = torch.from_numpy(draw(world(), 2, 0)[0, rank() * ROWS])
    moved = world() > 1 and not torch.equal(anchors[0].detach(), first)
    return Planted()(anchors, positives) * (3.0 if moved else 1.0)


def leaves_early(anchors: Tensor, positives: Tensor) -> Tensor:
    """One process does not come to the gather."""
    if world() > 1 and rank() == 1:
        return functional.cross_entropy(anchors @ positives.T, torch.arange(len(anchors)))
    return Planted()(anchors, positives)


def random_negatives(anchors: Tensor, positives: Tensor) -> Tensor:
    kept = torch.rand(len(positives)) < 0.5
    logits = anchors @ positives.T / TEMPERATURE
    return functional.cross_entropy(
        logits - 9 * (kept & ~torch.eye(len(kept), dtype=torch.bool)), torch.arange(len(anchors))
    )


def own_spread(anchors: Tensor, positives: Tensor) -> Tensor:
    """No function of pairs, of the own rows only."""
    return (1 - functional.cosine_similarity(anchors, positives).mean() + anchors.mean(0).pow(4).sum()).exp()


def own_hard(anchors: Tensor, positives: Tensor, own_negatives: Tensor) -> Tensor:
    """InfoNCE of all processes with negatives of each anchor's own."""
    loss = gradlab.blockwise("infonce(temperature=0.1)", group="world", average=True)
    return loss(anchors, positives, own_negatives=own_negatives, normalize=True)


def own_misplaced(anchors: Tensor, positives: Tensor, own_negatives: Tensor) -> Tensor:
    """The same, each process with the own negatives of the first one's anchors."""
    every = with_gradient(own_negatives.flatten(1)).view(-1, *own_negatives.shape[1:])
    return own_hard(anchors, positives, every[: len(anchors)])


def unsuited(anchors: Tensor, positives: Tensor) -> Tensor:
    """Distances to the mean of all positives, to the fourth power, which is no sum over the batch's vectors."""
    return (anchors - cut(positives).mean(0)).pow(4).sum(1).mean()


def work(rank: int, job: dict, connection) -> None:
    """What an audit's process does, for many losses in turn; those that gather fixed shares see no uneven ones."""
    from gradlab.decomposition.resolve import resolve_loss
    from gradlab.scale.audit.worker import join, measure

    torch.set_num_threads(1)
    join(Path(job["folder"]), rank, job["processes"], job["timeout"])
    found = {}
    for name, (target, settings, uneven) in job["losses"].items():
        own = {**job, **given(job, target, uneven)}
        found[name] = dict(measure(lambda t=target, s=settings: resolve_loss(t, s), own, rank))
    if rank >= 0:
        dist.barrier()
    connection.send_bytes(pickle.dumps(found))
    dist.destroy_process_group()


def measured(
    losses: dict[str, tuple], context, folder: str, processes: int = 2, columns: int = 2
) -> dict[str, tuple]:
    """What `judge` takes, of losses by name: (target, settings, whether it can be given uneven shares).

    All run in the same processes, one alone and the others together.
    """
    job = {**material(processes, columns, 0), "cases": cases(processes), "losses": losses, "processes": processes,
           "folder": folder, "timeout": 60}  # fmt: skip
    connections, started = [], []
    for rank in range(-1, processes):
        mine, theirs = context.Pipe(duplex=False)
        started.append(context.Process(target=work, args=(rank, job, theirs)))
        started[-1].start()
        theirs.close()
        connections.append(mine)
    found = [pickle.loads(connection.recv_bytes()) for connection in connections]
    for process in started:
        process.join(60)
    return {
        name: (name, {**job, **given(job, target, uneven)}, [one[name] for one in found], [], True)
        for name, (target, _, uneven) in losses.items()
    }


def given(job: dict, target: str, uneven: bool) -> dict:
    """What differs between losses: uneven shares, and two own negatives."""
    own = 2 if ":own_hard" in target or ":own_misplaced" in target else 0
    more = material(job["processes"], 2 + own, 0) if own else {}
    return {"cases": job["cases"][: None if uneven else -1], "own": own, **more}
