"""Faults of training on several processes.

The losses are audited on two processes: to train on several would take minutes, and so the truth of
these cases is not trained but follows from the losses' text. On one process each of them is right.
"""

from __future__ import annotations

import torch
import torch.distributed as dist
import torch.nn.functional as functional
from torch import Tensor

from tests.judgement.case import AUDIT, DOCTOR, REPORT, faulty
from tests.judgement.first.loop_materials import (
    FAST,
    MORE_OF_THE_SAME,
    ranking,
)
from tests.judgement.stage import Stage, pairs
from tests.judgement.truth import among_alike, suffers

TEMPERATURE = 0.05


def processes() -> int:
    return dist.get_world_size() if dist.is_initialized() else 1


def rank() -> int:
    return dist.get_rank() if dist.is_initialized() else 0


def gathered(rows: Tensor, *, keep_own: bool) -> Tensor:
    """The rows of all processes, which have no gradient but, with ``keep_own``, these."""
    if processes() == 1:
        return rows
    copies = [torch.empty_like(rows) for _ in range(processes())]
    dist.all_gather(copies, rows.contiguous())
    if keep_own:
        copies[rank()] = rows
    return torch.cat(copies)


def cross_entropy(anchors: Tensor, candidates: Tensor, labels: Tensor) -> Tensor:
    anchors, candidates = functional.normalize(anchors), functional.normalize(candidates)
    return functional.cross_entropy(anchors @ candidates.T / TEMPERATURE, labels)


def own_labels(anchors: Tensor) -> Tensor:
    return torch.arange(len(anchors)) + rank() * len(anchors)


GRADIENT = [
    r"gradient.{0,120}(lost|lack|miss|\bno\b|without|zero|cut|other process|only|never)",
    r"gradient.{0,80}not (flow|reach|come|pass)",
    r"(detach|without gradient|no gradient|all_gather|autograd)",
]


def no_gradient(anchors: Tensor, positives: Tensor) -> Tensor:
    return cross_entropy(anchors, gathered(positives, keep_own=False), own_labels(anchors))


@faulty(
    "gathered rows without any gradient",
    "torch.distributed.all_gather returns rows without gradient: the positives learn nothing.",
    GRADIENT,
    tools=(AUDIT,),
)
def all_gather_keeps_no_gradient(stage: Stage) -> None:
    stage.audit(no_gradient)


def own_gradient(anchors: Tensor, positives: Tensor) -> Tensor:
    return cross_entropy(anchors, gathered(positives, keep_own=True), own_labels(anchors))


@faulty(
    "gathered rows have a gradient at home only",
    "Each process puts its own rows back among the gathered ones; what they are as negatives on "
    "the next process never comes back.",
    GRADIENT,
    tools=(AUDIT,),
)
def gradient_of_own_rows_only(stage: Stage) -> None:
    """https://github.com/KevinMusgrave/pytorch-metric-learning/issues/10: the recipe there."""
    stage.audit(own_gradient)


def labels_from_zero(anchors: Tensor, positives: Tensor) -> Tensor:
    from torch.distributed.nn.functional import all_gather

    rows = torch.cat(all_gather(positives)) if processes() > 1 else positives
    return cross_entropy(anchors, rows, torch.arange(len(anchors)))


@faulty(
    "labels count from 0 on each process",
    "The rows are gathered with their gradient, and the labels are torch.arange on each process: "
    "on all but the first the positives are another process's rows.",
    [
        r"label|target|arange|offset|(wrong|another|other).{0,40}positive|positives?.{0,60}(wrong|other)"
    ],
    tools=(AUDIT,),
)
def positives_of_the_first_process(stage: Stage) -> None:
    """https://github.com/huggingface/sentence-transformers/pull/3453 mended labels of this sort."""
    stage.audit(labels_from_zero)


def two_orders(anchors: Tensor, positives: Tensor) -> Tensor:
    """Anchors follow one another by process, and positives by row."""
    from torch.distributed.nn.functional import all_gather

    if processes() == 1:
        return cross_entropy(anchors, positives, torch.arange(len(anchors)))
    columns = [torch.cat(all_gather(rows)) for rows in (anchors, positives)]
    mixed = columns[1].reshape(processes(), len(anchors), -1).transpose(0, 1).flatten(0, 1)
    return cross_entropy(columns[0], mixed, torch.arange(len(columns[0])))


@faulty(
    "gathered columns in different orders",
    "Anchors are gathered process by process, positives row by row: most anchors are drawn to "
    "the positive of another.",
    [
        r"\border(s|ed)?\b|label|offset|mismatch",
        r"(wrong|another|other).{0,40}(positive|pair|row)",
        r"(positive|pair|row)s?.{0,60}(wrong|another|other|shift)",
    ],
    tools=(AUDIT,),
)
def columns_gathered_in_two_orders(stage: Stage) -> None:
    """https://github.com/huggingface/sentence-transformers/pull/3453: PNPN for PPNN."""
    stage.audit(two_orders)


@faulty(
    "negatives of a process's two rows only",
    "A batch of 16 is spread over eight processes and the loss gathers nothing: each anchor has "
    "one negative.",
    [
        r"(per|each|one|a) (device|process|gpu).{0,100}(batch|negative|row|pair)",
        r"(batch|negative)s?.{0,100}(few|small|one|1\b|single|2\b|two|device|process|gather)",
        r"gather",
    ],
    tools=(DOCTOR, REPORT),
    never=[MORE_OF_THE_SAME],
)
def two_pairs_on_each_of_eight_processes(stage: Stage) -> None:
    """https://github.com/huggingface/sentence-transformers/issues/3149: negatives of a device.

    The truth is trained on one process, with the negatives that each of the eight sees.
    """
    split = stage.trainer(ranking, pairs(), per_device_train_batch_size=2)
    stage.doctor(split, processes=8)
    doctored = stage.frozen.get("doctor")
    said = list(stage.said)
    suffers(
        stage,
        stage.trainer(ranking, pairs(), per_device_train_batch_size=2, **FAST),
        lambda: stage.trainer(ranking, pairs(), per_device_train_batch_size=16, **FAST),
        among_alike,
    )
    if doctored is not None:  # what was said of eight processes counts
        stage.frozen["doctor"] = doctored
        stage.said = said + [verdict for verdict in stage.said if verdict.tool == REPORT]
