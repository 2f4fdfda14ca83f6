"""Faults of loops that people write themselves with PyTorch, and of losses over processes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

from tests.judgement.case import AUDIT, REPORT, faulty
from tests.judgement.first.reported_batches import BATCHES
from tests.judgement.first.reported_columns import LABELS
from tests.judgement.first.reported_encoders import APART, LONGER, NO_GRADIENT, STILL, encoder
from tests.judgement.first.reported_loops import BATCH, Columns, Loop, infonce, loses, shuffled
from tests.judgement.first.reported_settings import RECORDED, SCHEDULES, UNITS, WEIGHTS
from tests.judgement.stage import Stage, rated
from tests.judgement.truth import among_alike

DISTRIBUTION = "distribution"


@faulty(
    WEIGHTS,
    "At step 50 a run is resumed, whose checkpoint lacks the last layer: it begins anew at random, "
    "and the loss jumps.",
    [
        r"jump|spike|leap|sudden|rose|rises|risen|higher again|set ?back",
        r"resum|checkpoint|restor|loaded|re-?initiali[sz]",
        r"loss.{0,80}(up|rose|grew|worse|increas|again)",
    ],
    tools=(REPORT,),
)
def layer_that_the_checkpoint_lacks(stage: Stage) -> None:
    """https://github.com/huggingface/sentence-transformers/issues/3756."""
    from sentence_transformers.sentence_transformer.modules import Dense

    def model() -> Any:
        body, pooling = stage.model()
        torch.manual_seed(2)
        return encoder(body, pooling, Dense(32, 32))

    def forget(model: Any, number: int) -> None:
        if number == 50:
            torch.manual_seed(3)
            model[2].linear.reset_parameters()

    loses(stage, Loop(after=forget), Loop(), model=model)


@faulty(
    WEIGHTS,
    "Texts are embedded by `encode`, which keeps no gradient: the loss falls, as a layer of the "
    "loss learns, and the encoder stays as it was.",
    [
        *NO_GRADIENT,
        *STILL,
        r"encode\b|no_grad|encoder.{0,60}(not|never|no gradient|frozen)",
        r"(only|alone).{0,60}(loss|head|layer).{0,40}(learn|train|mov)",
    ],
    tools=(REPORT,),
    never=[LONGER],
)
def embeddings_by_encode_in_the_loop(stage: Stage) -> None:
    """Common: `model.encode(texts, convert_to_tensor=True)` in a loop of training."""

    class Projected(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(2)
            self.layer = nn.Linear(32, 32)

        def forward(self, anchors: torch.Tensor, positives: torch.Tensor) -> torch.Tensor:
            return infonce(self.layer(anchors), self.layer(positives))

    def by_encode(model: Any, criterion: Any, columns: Columns) -> torch.Tensor:
        rows = [
            model.encode(column, convert_to_tensor=True, show_progress_bar=False).clone()
            for column in columns
        ]
        return criterion(*rows)

    loses(stage, Loop(Projected(), step=by_encode), Loop(Projected()))


@faulty(
    BATCHES,
    "The loader is a generator, which is used up after one pass: the other five passes do nothing.",
    [
        r"(end|stop|finish|interrupt)\w*.{0,60}(early|before|after \d+|at step|of \d+|short)",
        r"(\b10\b|\b9\b|ten).{0,40}(steps|of 60)",
        r"(few|too few|only \d+|more) (steps|records|batches)",
        r"(steps|records|batches).{0,60}(few|missing|of 60|planned|expected)",
        r"generator|run dry|used up|exhaust",
    ],
    tools=(REPORT,),
)
def generator_used_up_after_one_pass(stage: Stage) -> None:
    """Common: `for epoch in range(6): for batch in batches:` with a generator."""

    def once(table: Mapping[str, Sequence[Any]]) -> Iterator[Columns]:
        batches = (
            columns for _, columns in zip(range(160 // BATCH), shuffled(table), strict=False)
        )
        for _ in range(6):
            yield from batches

    loses(stage, Loop(batches=once), Loop())


@faulty(
    RECORDED,
    "The loss is made a new tensor of its value, to silence an error, and `backward` reaches no "
    "weight.",
    [*NO_GRADIENT, *STILL, r"new tensor|requires_grad|item\(\)|graph"],
    tools=(REPORT,),
)
def loss_made_a_new_tensor(stage: Stage) -> None:
    """Common: `torch.tensor(loss.item(), requires_grad=True)`."""

    def anew(optimizer: torch.optim.Optimizer, value: torch.Tensor) -> None:
        torch.tensor(value.item(), requires_grad=True).backward()
        optimizer.step()

    loses(stage, Loop(update=anew), Loop())


@faulty(
    RECORDED,
    "Gradients are set to zero between `backward` and `step`: no weight moves.",
    [*NO_GRADIENT, *STILL, r"zero_grad"],
    tools=(REPORT,),
)
def gradients_zeroed_before_the_step(stage: Stage) -> None:
    """Common in loops that beginners write."""

    def forgetful(optimizer: torch.optim.Optimizer, value: torch.Tensor) -> None:
        value.backward()
        optimizer.zero_grad()
        optimizer.step()

    loses(stage, Loop(update=forgetful), Loop())


@faulty(
    UNITS,
    "Margins of distances, 0 for pairs that fit and 1 for others, are used with cosines: every "
    "pair meets them, and the loss is 0.",
    [
        r"margin",
        r"loss.{0,60}(is|stays|constant|already|at).{0,20}(0|zero)",
        r"(zero|0) loss",
        *NO_GRADIENT,
    ],
    tools=(REPORT,),
    never=[LONGER],
)
def margins_of_distances_for_cosines(stage: Stage) -> None:
    """https://github.com/KevinMusgrave/pytorch-metric-learning/issues/19."""
    first, second, labels = rated()
    table = {"first": first, "second": second, "label": labels}

    def loop(alike: float, apart: float) -> Loop:
        def loss(left: torch.Tensor, right: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
            cosines = F.cosine_similarity(left, right)
            losses = torch.where(target == 1, F.relu(alike - cosines), F.relu(cosines - apart))
            return losses.mean()

        return Loop(loss, table, views=lambda left, right, target: (left, right), steps=120)

    loses(stage, loop(0.0, 1.0), loop(1.0, 0.2))


@faulty(
    LABELS,
    "The target of each row is 0, as where the positive stands first; here it stands on the "
    "diagonal, and all questions are drawn to one passage.",
    [
        r"diagonal",
        r"(labels?|targets?).{0,80}(0|zero|first|same|arange|all|one row)",
        r"(first|same|one) (row|passage|positive|candidate|text)",
        *APART,
        r"collaps",
    ],
    tools=(REPORT,),
    never=[LONGER],
)
def target_zero_for_each_row(stage: Stage) -> None:
    """https://github.com/RElbers/info-nce-pytorch/issues/2 asks why targets are 0."""

    def loop(step: int) -> Loop:
        def loss(anchors: torch.Tensor, positives: torch.Tensor) -> torch.Tensor:
            logits = 20 * F.normalize(anchors, dim=-1) @ F.normalize(positives, dim=-1).T
            return F.cross_entropy(logits, step * torch.arange(len(anchors)))

        return Loop(loss)

    loses(stage, loop(0), loop(1))


@faulty(
    UNITS,
    "Distances are the logits, without a minus: the nearest passage is the least likely one.",
    [
        r"distance|minus|\bsign\b|opposite|invert|revers|wrong (way|direction)",
        r"(positives?|pairs?).{0,80}(apart|farther|push|less alike|less similar|below|fall)",
        r"(push|driv)\w*.{0,40}(positives?|pairs?)",
    ],
    tools=(REPORT,),
    never=[LONGER],
)
def distances_as_logits(stage: Stage) -> None:
    """https://github.com/intfloat/SimKGC/issues/12."""

    def loop(sign: float) -> Loop:
        def loss(anchors: torch.Tensor, positives: torch.Tensor) -> torch.Tensor:
            distances = torch.cdist(F.normalize(anchors, dim=-1), F.normalize(positives, dim=-1))
            return F.cross_entropy(20 * sign * distances, torch.arange(len(anchors)))

        return Loop(loss)

    loses(stage, loop(1.0), loop(-1.0))


@faulty(
    SCHEDULES,
    "The schedule counts six epochs and is moved with each batch: after six batches the rate is 0.",
    [
        r"(learning )?rate.{0,100}(0\b|zero|fell|falls|decay|too (early|soon|fast)|end)",
        r"schedul|per (batch|step|epoch)",
        *STILL,
    ],
    tools=(REPORT,),
)
def schedule_in_epochs_moved_with_each_batch(stage: Stage) -> None:
    """Common: `scheduler.step()` in the inner loop, and `total_iters` in epochs."""

    def loop(count: int) -> Loop:
        return Loop(
            schedule=lambda optimizer: torch.optim.lr_scheduler.LinearLR(
                optimizer, 1.0, 0.0, total_iters=count
            )
        )

    loses(stage, loop(6), loop(60), among_alike)


def gathered(rows: torch.Tensor) -> list[torch.Tensor]:
    """Return the rows of each process, with gradient."""
    from torch.distributed.nn.functional import all_gather

    if not dist.is_initialized() or dist.get_world_size() == 1:
        return [rows]
    return list(all_gather(rows))


def process() -> int:
    """Return the number of this process."""
    return dist.get_rank() if dist.is_initialized() else 0


def positives_and_anchors_of_each(anchors: torch.Tensor, positives: torch.Tensor) -> torch.Tensor:
    """Each process sends its positives and anchors in one tensor; labels expect all positives."""
    first, second = F.normalize(anchors, dim=-1), F.normalize(positives, dim=-1)
    candidates = torch.cat(gathered(torch.cat([second, first])))
    count = len(first)
    own = torch.arange(count) + process() * count
    logits = 20 * first @ candidates.T
    # An anchor is no negative of its own.
    itself = torch.arange(count) + (2 * process() + 1) * count
    logits = logits.scatter(1, itself[:, None], -1e4)
    return F.cross_entropy(logits, own)


@faulty(
    DISTRIBUTION,
    "Candidates are gathered as positives and anchors of one process after the other, and labels "
    "expect the positives of all first: from the second process on they point at anchors.",
    [
        r"labels?",
        r"(order|layout|offset|place|index|position).{0,80}",
        r"(wrong|other) (row|candidate|positive)",
    ],
    tools=(AUDIT,),
)
def layout_of_what_is_gathered(stage: Stage) -> None:
    """https://github.com/huggingface/sentence-transformers/pull/3453."""
    stage.audit(positives_and_anchors_of_each, uneven=False)


def own_rows_first(anchors: torch.Tensor, positives: torch.Tensor) -> torch.Tensor:
    """Own rows stand before those of others, and labels count from the place of the process."""
    first, second = F.normalize(anchors, dim=-1), F.normalize(positives, dim=-1)
    rows = gathered(second)
    own = rows.pop(process())
    candidates = torch.cat([own, *rows])
    labels = torch.arange(len(first)) + process() * len(first)
    return F.cross_entropy(20 * first @ candidates.T, labels)


@faulty(
    DISTRIBUTION,
    "Own rows are put first among those gathered, and labels still begin at the number of the "
    "process times the batch.",
    [
        r"labels?",
        r"(order|layout|offset|place|index|position)",
        r"(wrong|other) (row|candidate|positive)",
    ],
    tools=(AUDIT,),
)
def own_rows_first_and_labels_by_rank(stage: Stage) -> None:
    """Common; https://github.com/nomewang/M3DM/issues/7 is akin: an offset that does not fit."""
    stage.audit(own_rows_first, uneven=False)


def summed_over_processes(anchors: torch.Tensor, positives: torch.Tensor) -> torch.Tensor:
    """The loss of each process is divided by their number, which averages gradients once more."""
    first, second = F.normalize(anchors, dim=-1), F.normalize(positives, dim=-1)
    rows = gathered(second)
    labels = torch.arange(len(first)) + process() * len(first)
    return F.cross_entropy(20 * first @ torch.cat(rows).T, labels) / len(rows)


@faulty(
    DISTRIBUTION,
    "The loss is divided by the number of processes, and gradients are averaged over them as well: "
    "they are half of what they should be on two.",
    [
        r"half|twice|\b0\.5\b|factor|number of processes|world.?size|averag",
        r"(too small|scaled|divided|smaller)",
    ],
    tools=(AUDIT,),
)
def divided_by_the_processes_twice(stage: Stage) -> None:
    """https://github.com/Haochen-Wang409/U2PL/issues/16."""
    stage.audit(summed_over_processes, uneven=False)
