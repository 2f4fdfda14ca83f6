"""Waits of the host for the device, to read back numbers or shapes."""

from __future__ import annotations

import contextlib
import functools
import sys
import traceback
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

import gradlab
from gradlab.scale import blockwise
from tests.gpu.machine import Case, Machine
from tests.gpu.speed import Stopped, train_on

# Operations whose result or shape the host must know. Copies to the CPU are recognised by device.
READ_BACK = {
    f"aten.{name}"
    for name in ("_local_scalar_dense", "nonzero", "masked_select", "equal", "is_nonzero")
}
PACKAGE = Path(gradlab.__file__).parent


@contextlib.contextmanager
def counted_waits() -> Iterator[Counter[str]]:
    """Count waits of the host in the block, by line of gradlab; works on a CPU too.

    On a GPU, waits in a backward pass are missed, because it runs in another thread.
    """
    waits = Counter[str]()

    class ReadBack(TorchDispatchMode):
        """Counts operations in `READ_BACK`, selections by a mask, and copies from a GPU."""

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            name, options = str(func.overloadpacket), kwargs or {}
            by_mask = name == "aten.index" and any(
                index is not None and index.dtype in (torch.bool, torch.uint8) for index in args[1]
            )
            to_cpu = name == "aten._to_copy" and str(options.get("device")) == "cpu"
            if name in READ_BACK or by_mask or (to_cpu and args[0].is_cuda):
                waits[f"{name} {_caller()}"] += 1
            return func(*args, **options)

    class Lists(TorchFunctionMode):
        """Counts calls of ``tolist``, which cost nothing on a CPU and copy to the host on a GPU."""

        def __torch_function__(self, func, types, args=(), kwargs=None):
            if func is torch.Tensor.tolist and args[0].device.type == "cpu":
                waits[f"tolist {_caller()}"] += 1
            return func(*args, **(kwargs or {}))

    with Lists(), ReadBack():
        yield waits


def wait_cases(_: Machine) -> Iterator[Case]:
    """Yield counts of waits in a step of training, and in a blockwise loss with its gradients."""
    for spec in ("infonce", "symmetric(infonce)", "siglip(learnable=false)"):
        yield Case(f"blockwise {spec}", functools.partial(_of_blocks, spec))
    yield Case("training step", _of_training, fixed=8)
    chunked = functools.partial(_of_training, chunk_size=4)
    yield Case("training step in eight chunks", chunked, fixed=8)


def _of_blocks(spec: str, machine: Machine) -> dict[str, Any]:
    rows = [view.float().requires_grad_() for view in machine.rows(256, 32)]
    criterion = blockwise(spec, 64)
    with counted_waits() as waits:
        criterion(*rows, normalize=True).backward()
    return _counted(waits)


def _of_training(machine: Machine, **settings: Any) -> dict[str, Any]:
    waits, counting = Counter[str](), contextlib.ExitStack()

    def one_step(step: int) -> None:
        nonlocal waits
        if step == 6:
            waits = counting.enter_context(counted_waits())
        elif step == 7:
            counting.close()
            raise Stopped

    train_on(machine, "waits", one_step, batch_size=16, **settings)
    return _counted(waits)


def _counted(waits: Counter[str]) -> dict[str, Any]:
    places = "; ".join(f"{count} x {place}" for place, count in waits.most_common())
    return {"count": waits.total(), "where": places or "none"}


def _caller() -> str:
    """Return the innermost line of gradlab, as ``path:line``."""
    for frame, line in traceback.walk_stack(sys._getframe()):
        path = Path(frame.f_code.co_filename)
        if PACKAGE in path.parents:
            return f"{path.relative_to(PACKAGE)}:{line}"
    return "elsewhere"
