"""Sound losses on several processes; loops with mined or masked negatives."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor
from torch.distributed.nn.functional import all_gather

from tests.judgement.case import sound
from tests.judgement.first.bodies import encoder
from tests.judgement.first.fields_of_dreams_and_roads import (
    COMMITS,
    MAILS,
    POSTS,
    QUERIES,
    SENSORS,
    WEATHER,
    contrasted,
    reader,
    scripted,
    simple_update,
    vocabulary,
)
from tests.judgement.first.turns import Rows, cosines, embed, infonce, stepped, turn
from tests.judgement.stage import Stage


def processes() -> int:
    return dist.get_world_size() if dist.is_available() and dist.is_initialized() else 1


def own_rows(rows: Tensor) -> Tensor:
    """Where the rows of this process stand among those of all."""
    rank = dist.get_rank() if processes() > 1 else 0
    return torch.arange(len(rows)) + rank * len(rows)


def everywhere(rows: Tensor) -> Tensor:
    """The rows of all processes, with gradient."""
    return torch.cat(all_gather(rows.contiguous())) if processes() > 1 else rows


def two_directions(first: Tensor, second: Tensor) -> Tensor:
    """InfoNCE in two directions against the rows of all processes."""
    targets = own_rows(first)
    forth = F.cross_entropy(cosines(first, everywhere(second)) / 0.05, targets)
    back = F.cross_entropy(cosines(second, everywhere(first)) / 0.05, targets)
    return (forth + back) / 2


class Gathered(torch.autograd.Function):
    """Rows of all processes; their gradient is summed over the processes and cut to the own."""

    @staticmethod
    def forward(context: Any, rows: Tensor) -> Tensor:
        columns = [torch.empty_like(rows) for _ in range(dist.get_world_size())]
        dist.all_gather(columns, rows.contiguous())
        return torch.cat(columns)

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> Tensor:
        gradient = gradient.contiguous()
        dist.all_reduce(gradient)
        return gradient.chunk(dist.get_world_size())[dist.get_rank()]


def own_function(first: Tensor, second: Tensor) -> Tensor:
    """InfoNCE at a temperature of 0.1 against rows gathered by a function of one's own."""
    rows = Gathered.apply(second) if processes() > 1 else second
    return F.cross_entropy(cosines(first, rows) / 0.1, own_rows(first))


def sigmoids(first: Tensor, second: Tensor) -> Tensor:
    """Sigmoids of the own rows with the rows of all processes, per own row."""
    logits = 10 * cosines(first, everywhere(second)) - 10
    signs = 2 * F.one_hot(own_rows(first), logits.shape[1]) - 1
    return -F.logsigmoid(signs * logits).sum() / len(first)


@sound("two directions, rows gathered with their gradient")
def two_directions_over_all_processes(stage: Stage) -> None:
    stage.audit(two_directions)
    model = reader(stage, MAILS)
    update = simple_update(model, scripted(MAILS, 320), size=20)
    turn(stage, model, two_directions, update, MAILS.sought, steps=50)


@sound("a function of one's own that gathers with gradient")
def gathering_function_with_a_summed_gradient(stage: Stage) -> None:
    stage.audit(own_function)
    model = reader(stage, WEATHER, width=64)
    update = simple_update(model, scripted(WEATHER, 320), size=16)
    turn(stage, model, own_function, update, WEATHER.sought, steps=60)


@sound("sigmoids over the rows of all processes")
def sigmoids_over_two_processes(stage: Stage) -> None:
    stage.audit(sigmoids)
    model = reader(stage, QUERIES)
    update = simple_update(model, scripted(QUERIES, 320), size=24)
    turn(stage, model, sigmoids, update, QUERIES.sought, steps=80)


def triplet(first: Tensor, second: Tensor, third: Tensor) -> Tensor:
    """Triplets by cosine distance, with a soft margin."""
    gaps = F.cosine_similarity(first, third) - F.cosine_similarity(first, second)
    return F.softplus(8 * gaps).mean()


@sound("negatives mined anew by the encoder in training")
def sensors_with_negatives_mined_every_twenty_steps(stage: Stage) -> None:
    """The hard negatives are near texts at first, and every 20 steps the encoder's own mistakes."""
    model, table = reader(stage, SENSORS), contrasted(SENSORS, 320)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    rows = [Rows(table, 20)]

    def mine() -> None:
        model.eval()
        first, second = (
            torch.from_numpy(model.encode(table[name])) for name in ("sentence", "frame")
        )
        ranks = cosines(first, second).fill_diagonal_(-1).topk(4).indices
        chosen = ranks[torch.arange(len(ranks)), torch.randint(0, 4, (len(ranks),))].tolist()
        table["negative"] = [table["frame"][row] for row in chosen]
        rows[0] = Rows(table, 20, seed=len(chosen))
        model.train()

    def update(criterion: Any, step: int) -> None:
        if step and step % 20 == 0:
            mine()
        stepped(optimizer, criterion(*(embed(model, column) for column in rows[0]())))

    turn(stage, model, triplet, update, SENSORS.sought, steps=100)


def without_copies(first: Tensor, second: Tensor, facts: Tensor) -> Tensor:
    """InfoNCE in which rows of the same fact are no negatives of each other."""
    same = (facts[:, None] == facts) & ~torch.eye(len(facts), dtype=torch.bool)
    logits = (cosines(first, second) / 0.05).masked_fill(same, -1e9)
    return F.cross_entropy(logits, torch.arange(len(first)))


@sound("rows of the same fact masked")
def twofold_commits_masked_among_the_negatives(stage: Stage) -> None:
    """Each hunk has two messages; they may meet in a batch, where the copy is masked."""
    table = scripted(COMMITS, 240)
    messages = [f"{text} as asked for" for text in table["message"]]
    doubled = {
        "message": table["message"] + messages, "hunk": table["hunk"] * 2,
        "fact": [*range(240), *range(240)],
    }  # fmt: skip
    model = encoder(stage, [*vocabulary(COMMITS), "as asked for"], spread=0.05)
    turn(stage, model, without_copies, simple_update(model, doubled, size=24), COMMITS.sought,
         steps=60)  # fmt: skip


def regular(first: Tensor, second: Tensor) -> Tensor:
    """InfoNCE, with the correlations of different dimensions drawn to zero."""
    rows = F.normalize(torch.cat([first, second]))
    rows = (rows - rows.mean(0)) / rows.std(0).clamp(min=1e-4)
    table = rows.T @ rows / len(rows)
    strangers = table - torch.diag(table.diagonal())
    return infonce(first, second) + 0.1 * strangers.pow(2).mean()


@sound("decorrelated dimensions beside the ranking loss")
def decorrelated_dimensions_for_posts(stage: Stage) -> None:
    model = reader(stage, POSTS, pooling=("mean", "max"))
    update = simple_update(model, scripted(POSTS, 320), size=32, rate=1e-3)
    turn(stage, model, regular, update, POSTS.sought, steps=60)
