"""What each process computes in the tests of several processes; apart, so that it starts fast."""

from __future__ import annotations

import datetime
import gc
import os
import time
import traceback
import weakref
from pathlib import Path

import torch

import gradlab

# What sends or receives something.
BEGINNINGS = tuple(
    [
        "all_",
        "broadcast",
        "gather",
        "reduce",
        "scatter",
        "send",
        "recv",
        "isend",
        "irecv",
        "batch_",
        "barrier",
    ]
)
COLLECTIVES = [
    name for name in dir(torch.distributed) if name.startswith(BEGINNINGS) and name != "reduce_op"
]


def noting(called: list) -> None:
    """Have every collective noted in ``called`` as its name and its tensors' shapes and dtypes."""
    for name in COLLECTIVES:
        plain = getattr(torch.distributed, name)

        def call(*arguments, name=name, plain=plain, **options):
            tensors_given = [
                tensor
                for argument in arguments
                for tensor in (argument if isinstance(argument, list) else [argument])
            ]
            tensors = [
                (tuple(tensor.shape), tensor.dtype)
                for tensor in tensors_given
                if isinstance(tensor, torch.Tensor)
            ]
            called.append((name, tensors))
            return plain(*arguments, **options)

        setattr(torch.distributed, name, call)


def share_of(rows: torch.Tensor | None, sizes: list[int], rank: int) -> torch.Tensor | None:
    return None if rows is None else rows.split(sizes)[rank].clone().requires_grad_()


def compute(rank: int, count: int, folder: str) -> None:
    """Value and gradients of this process's share for each case, or the error.

    Cases are those of ``folder/cases.pt``; results go into ``folder/rank.pt``. What is no error of
    gradlab ends the process, and is in ``folder/rank.txt``.
    """
    try:
        _compute(rank, count, folder)
    except BaseException:
        Path(folder, f"{rank}.txt").write_text(traceback.format_exc())
        raise


def _compute(rank: int, count: int, folder: str) -> None:
    torch.set_num_threads(1)
    torch.distributed.init_process_group(
        "gloo",
        init_method=f"file://{folder}/meet",
        rank=rank,
        world_size=count,
        timeout=datetime.timedelta(seconds=60),
    )
    cases = torch.load(f"{folder}/cases.pt")
    outcomes: list = []
    called: list = []
    noting(called)
    for case in cases:
        rows = [
            share_of(tensor, sizes, rank)
            for tensor, sizes in zip(case["rows"], case["sizes"], strict=True)
        ]
        if rank in case.get("without gradient", ()):
            rows = [None if tensor is None else tensor.detach() for tensor in rows]
        if "widths" in case:
            rows[3] = rows[3][:, : case["widths"][rank]].detach().requires_grad_()
        own = {**case, **case.get(f"on {rank}", {})}
        try:
            if own.get("ends"):
                torch.save(outcomes, f"{folder}/{rank}.pt")
                os._exit(9)
            began = time.monotonic()
            called.clear()
            criterion = gradlab.blockwise(
                own["loss"],
                own.get("block"),
                group="world",
                average=own.get("average", False),
                way=own.get("way"),
            )
            rows = [
                None if tensor is None else tensor.to(own.get("dtype", tensor.dtype))
                for tensor in rows
            ]
            leaves = [
                None if tensor is None else tensor.detach().requires_grad_(tensor.requires_grad)
                for tensor in rows
            ]
            in_batch, context = own.get("in_batch", True), own.get("context", {})
            if len(leaves) > 3:
                context = {**context, "own_negatives": leaves[3]}
            value = criterion(*leaves[:3], own["reduction"], in_batch_negatives=in_batch, **context)
            upstream = (
                own["upstream"].split(case["sizes"][0])[rank]
                if own["reduction"] == "none"
                else torch.tensor(1.7, dtype=torch.float64)
            )
            times = own.get("times", 1) if value.requires_grad else 0
            for number in range(times):
                value.backward(upstream.to(value.dtype), retain_graph=number < times - 1)
            gradients = [None if tensor is None else tensor.grad for tensor in leaves]
            outcomes.append(
                {"value": value.detach(), "gradients": gradients, "collectives": called.copy()}
            )
        except gradlab.GradlabError as error:
            outcomes.append({"error": str(error), "seconds": time.monotonic() - began})
    torch.save(outcomes, f"{folder}/{rank}.pt")
    if not any(case.get("on 1", {}).get("ends") for case in cases):
        torch.distributed.barrier()  # none leaves while another still sends
        torch.distributed.destroy_process_group()


def leave(rank: int, count: int, folder: str, own_group: bool) -> None:
    """Destroy the group while losses and their graphs are alive; say what group is, too."""
    torch.set_num_threads(1)
    torch.distributed.init_process_group(
        "gloo",
        init_method=f"file://{folder}/meet",
        rank=rank,
        world_size=count,
        timeout=datetime.timedelta(seconds=60),
    )
    group = torch.distributed.new_group() if own_group else torch.distributed.group.WORLD
    rows = torch.nn.functional.normalize(torch.randn(2, 6, 4), dim=-1).requires_grad_()
    criteria = [
        gradlab.blockwise(spec, group=group if own_group else "world")
        for spec in ("infonce", "symmetric(infonce)")
    ]
    values = [
        criterion(*rows, reduction=reduction)
        for criterion in criteria
        for reduction in ("mean", "none")
    ]
    for value in values:
        for _ in range(2):
            value.sum().backward(retain_graph=True)
    reference = weakref.ref(group)
    del group
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()
    gc.collect()
    Path(folder, f"{rank}.kept").write_text("none" if reference() is None else "a group")
    try:
        values[1].sum().backward()
    except gradlab.GradlabError as error:
        assert "has been destroyed" in str(error)  # noqa: PT017
    else:
        raise AssertionError("a backward pass over processes that have parted")
    leave.values = values  # until the interpreter ends
