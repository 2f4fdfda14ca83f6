"""Assembles the batch of all processes from the rows of each process."""

from __future__ import annotations

import dataclasses
from typing import Any

import torch
from torch import Tensor

from gradlab.arrays import dtype_name
from gradlab.batch.batch import Batch
from gradlab.batch.check import check_batch
from gradlab.errors import GradlabError
from gradlab.losses.base import Loss
from gradlab.scale.processes import Processes, ProcessGroup

_NOT_ACROSS = (
    "says nothing of pairs across processes; "
    "use mask(by=near_duplicates), by=guide, by=pairs or by=batch"
)


def refuse_masks(loss: Loss) -> None:
    """Raise `GradlabError` if a loss has a mask that is undefined for pairs across processes."""
    if "mask" in loss.looks_at:
        raise GradlabError(f"mask(by=given) {_NOT_ACROSS}")


def check_local_batch(
    group: ProcessGroup, embeddings: tuple[Any, ...], context: dict[str, Any], **options: Any
) -> Batch:
    """Check anchors, positives and extra negatives of one process, and return them as a `Batch`.

    Raises:
        GradlabError: see `gradlab.batch.check.check_batch`; no tensors or rows, or a wrong device.
    """
    anchors, positives, extra = embeddings
    for rows in embeddings:
        if rows is not None and not isinstance(rows, Tensor):
            raise GradlabError(f"group= takes torch tensors, not {type(rows).__name__}")
    if len(anchors) == 0:
        raise GradlabError(
            "there are no rows on it; a batch needs at least one sentence on each of "
            f"{group.count} processes"
        )
    group.check_device(anchors)
    if context.get("mask") is not None:
        raise GradlabError(f"mask= {_NOT_ACROSS}")
    if extra is None or not len(extra):
        extra = None
        owners = context.get("owners")
        context = {
            **context,
            "owners": None if owners is not None and not len(owners) else owners,
            "guide": _without_empty_column(context.get("guide")),
            "teacher": _without_empty_column(context.get("teacher")),
        }
    batch = check_batch(anchors, positives, extra, negatives_elsewhere=True, **options, **context)
    return batch.in_torch()


def row_properties(anchors: Any) -> dict[str, Any]:
    """Return what all processes must share and is known before rows are checked."""
    if not isinstance(anchors, Tensor):
        return {}
    single = anchors.dtype in (torch.bfloat16, torch.float16)
    return {
        "dtype": "float32" if single else dtype_name(anchors),
        "dimensions": anchors.shape[-1] if anchors.ndim == 2 else None,
    }


def batch_properties(local_batch: Batch) -> dict[str, Any]:
    """Return the further properties that all processes must share."""
    guide, owners = local_batch.guide, local_batch.owners is not None
    return {
        "whether extra negatives have owners": owners if local_batch.extra_count else None,
        "whether anchors have negatives of their own": local_batch.own_negatives is not None,
        "guide": guide is not None,
        "the guide's dimensions": None if guide is None else guide.anchors.shape[1],
        "numbers of sentences": local_batch.sentences is not None,
        "the columns of what is known of candidates": {
            name: tuple(array.shape[1:])
            for name, array in vars(local_batch.supervision).items()
            if array is not None
        },
        "teacher": None if local_batch.teacher is None else dtype_name(local_batch.teacher.anchors),
    }


def local_sizes(local_batch: Batch) -> dict[str, Any]:
    """Return this process's numbers of rows, which may differ between processes."""
    return {
        "anchors": len(local_batch.anchors),
        "extra negatives": local_batch.extra_count,
        "own negatives": local_batch.own_count,
        "owners": local_batch.owners is not None,
    }


def gathered_batch(
    local_batch: Batch,
    processes: Processes,
    anchors: list[int],
    extra: list[int],
    own: list[int],
    owned: bool,
) -> Batch:
    """Return the batch of all processes, without a graph; own negatives stay with their anchors.

    The lists give each process's number of ``anchors``, ``extra`` negatives and ``own`` negatives
    per anchor; ``owned`` is True if extra negatives have owners.
    """
    if processes.count == 1:
        return local_batch.mapped(lambda _, rows: rows.detach())
    first = sum(anchors[: processes.rank])

    def rows_of(batch: Batch) -> Batch:
        shared = batch.extra_negatives
        if shared is None and any(extra):
            shared = batch.anchors[:0]
        sizes = {"anchors": anchors, "positives": anchors, "extra_negatives": extra}
        whole = dataclasses.replace(batch, extra_negatives=shared, own_start=first)
        return whole.mapped(
            lambda name, rows: (
                processes.gather(rows.detach().contiguous(), sizes[name])
                if name in sizes
                else rows.detach()
            )
        )

    owners = None
    if owned:
        local = (
            local_batch.anchors[:0, 0].long()
            if local_batch.owners is None
            else local_batch.owners.long()
        )
        owners = processes.gather(torch.where(local < 0, local, local + first), extra)
    guide, teacher = (
        None if model is None else rows_of(model)
        for model in (local_batch.guide, local_batch.teacher)
    )
    supervision = local_batch.supervision.mapped(
        lambda _, rows: processes.gather(rows.contiguous(), anchors)
    )
    whole = rows_of(local_batch)
    return dataclasses.replace(
        whole,
        owners=owners,
        sentences=_gathered_sentences(local_batch, processes, anchors, extra, own),
        guide=guide,
        teacher=teacher,
        supervision=supervision,
    )


def _without_empty_column(columns: Any) -> Any:
    """Return another model's embeddings, without the column of extra negatives if it is empty."""
    embedded = isinstance(columns, tuple | list) and len(columns) > 2
    return [*columns[:2], *columns[3:]] if embedded and not len(columns[2]) else columns


def _gathered_sentences(
    local_batch: Batch, processes: Processes, anchors: list[int], extra: list[int], own: list[int]
) -> Tensor | None:
    """Return the sentence numbers of all processes' columns, -1 where a row lacks own negatives."""
    if local_batch.sentences is None:
        return None
    n, h = len(local_batch.anchors), own[processes.rank]
    sizes = [n, extra[processes.rank], n * h]
    missing = local_batch.sentences.new_full((sum(sizes) - len(local_batch.sentences),), -1)
    of_anchors, of_extra, of_own = torch.cat([local_batch.sentences, missing]).long().split(sizes)
    joined = [processes.gather(of_anchors, anchors), processes.gather(of_extra, extra)]
    if h:
        widest = torch.nn.functional.pad(of_own.view(n, h), (0, max(own) - h), value=-1)
        joined.append(processes.gather(widest, anchors).flatten())
    return torch.cat(joined)
