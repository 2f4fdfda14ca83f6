"""Checks that the device computes what the CPU computes."""

from __future__ import annotations

import functools
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from gradlab.decomposition import decompose
from gradlab.gpu_check.machine import Case, Machine
from gradlab.gpu_check.speed import Stopped, empty
from gradlab.gradient.paradigm import autograd_gradient, components
from gradlab.losses import get_loss, loss_names
from gradlab.scale import blockwise

COMBINED = (
    "symmetric(infonce)",
    "symmetric(infonce, reverse=siglip(learnable=false))",
    "pool(infonce, negatives=other+same)",
    "mask(infonce, above=0.9)",
    "hardness(infonce)",
    "per_prefix(infonce, dims=16+48)",
    "recombined(gate=met, weight=infonce, ratio=1.5)",
)
BLOCKWISE = ("infonce", "met", "arccon", "siglip(learnable=false)", "dhel", "mhe", "cosent", *COMBINED)
# Unit roundoff: what the gradients lose when they are rounded to the format of the rows.
ROUNDING = {"bfloat16": 2**-8, "float16": 2**-11}
COUNT, DIM = 40, 48


def gradient_cases() -> Iterator[Case]:
    """Closed forms and autograd of both sides, in float64, on the device against the CPU."""
    for spec in (*loss_names(), *COMBINED):
        yield Case("gradients", spec, functools.partial(_gradients, spec), precision="float64", fixed=0.3)


def _gradients(spec: str, machine: Machine) -> dict[str, Any]:
    there = machine.rows(COUNT, DIM)
    sides = []
    for rows in ([one.cpu() for one in there], there):
        found = [part.gradient() for part in components(spec, *rows, side="both")]
        sides.append([*found, *autograd_gradient(spec, *rows, side="both")])
    return {"error": max(map(relative, sides[1], sides[0])), "tolerance": 1e-11}


def decompose_cases() -> Iterator[Case]:
    """Components of a loss found from its gradients, in float64."""
    for spec in ("infonce", "arccon", "met", "symmetric(infonce)"):
        yield Case("decompose", spec, functools.partial(_decompose, spec), precision="float64", fixed=0.5)


def _decompose(spec: str, machine: Machine) -> dict[str, Any]:
    there = machine.rows(COUNT, DIM)
    here, found = (decompose(spec, *rows) for rows in ([one.cpu() for one in there], there))
    names = ("gradient_dissipation", "weight", "ratio")
    errors = [relative(torch.as_tensor(getattr(found, n)), torch.as_tensor(getattr(here, n))) for n in names]
    return {"error": max(errors), "tolerance": 1e-9}


def blockwise_cases() -> Iterator[Case]:
    """Blocks in float64 against the plain loss on the CPU, and of half-precision rows against float32."""
    for spec in BLOCKWISE:
        for dtype in ("float64", *ROUNDING):
            run = functools.partial(_blockwise, spec, dtype)
            yield Case("blockwise", f"{spec} in {dtype}", run, fixed=0.3)


def _blockwise(spec: str, dtype: str, machine: Machine) -> dict[str, Any]:
    rows = [one.to(getattr(torch, dtype)) for one in machine.rows(COUNT, DIM)]
    blocks = functools.partial(blockwise(spec, 16), normalize=True)
    found = differentiated(blocks, rows)
    if dtype == "float64":
        plain = functools.partial(get_loss(spec), normalize=True)
        expected = differentiated(plain, [one.cpu() for one in rows])
    else:  # which is computed in float32, so that the rounding of the gradients is the only difference
        expected = differentiated(blocks, [one.float() for one in rows])
    return {"error": max(map(relative, found, expected)), "tolerance": ROUNDING.get(dtype, 1e-11)}


def differentiated(criterion: Any, rows: list[Tensor]) -> list[Tensor]:
    """Value, and gradients by both views."""
    leaves = [one.detach().clone().requires_grad_() for one in rows]
    value = criterion(*leaves)
    value.backward()
    return [value.detach(), *(leaf.grad for leaf in leaves if leaf.grad is not None)]


def relative(found: Tensor, expected: Tensor) -> float:
    """Largest difference relative to the largest entry; NaN and infinity must stand in the same places."""
    first, second = (one.detach().cpu().double() for one in (found, expected))
    same = (first == second) | (first.isnan() & second.isnan())
    difference, scale = (first - second)[~same].abs(), second[second.isfinite()].abs()
    return float(difference.max() / scale.max()) if difference.numel() else 0.0


def process_cases(machine: Machine) -> Iterator[Case]:
    """A batch over processes, one on each GPU (NCCL), or two on the CPU (gloo), against one process."""
    count = 2 if machine.small else torch.cuda.device_count()
    yield Case("processes", f"{count} processes", functools.partial(_processes, count), fixed=20)


def _processes(count: int, machine: Machine) -> dict[str, Any]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    errors = torch.multiprocessing.get_context("spawn").SimpleQueue()
    torch.multiprocessing.spawn(_process, args=(count, port, machine, errors), nprocs=count)
    return {"error": max(errors.get() for _ in range(count)), "tolerance": 1e-11}


def _process(rank: int, count: int, port: int, machine: Machine, errors: Any) -> None:
    device = torch.device("cpu") if machine.small else torch.device("cuda", rank)
    if not machine.small:
        torch.cuda.set_device(device)
    torch.distributed.init_process_group(
        "gloo" if machine.small else "nccl", f"tcp://127.0.0.1:{port}", rank=rank, world_size=count
    )
    rows = [one.to(device) for one in machine.rows(COUNT * count, DIM)]
    own, error = slice(rank * COUNT, (rank + 1) * COUNT), 0.0
    for spec in ("infonce", "symmetric(infonce)"):
        value, *expected = differentiated(get_loss(spec), rows)
        found = differentiated(blockwise(spec, group="world"), [one[own] for one in rows])
        error = max(error, *map(relative, found, [value, *(one[own] for one in expected)]))
    errors.put(error)
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()


def resume_cases() -> Iterator[Case]:
    """A run that stops and is resumed, against one that does not: the same weights, bit by bit."""
    for precision in ("float32", "bfloat16"):
        yield Case("resume", precision, functools.partial(_resume, precision), fixed=20)


def _resume(precision: str, machine: Machine) -> dict[str, Any]:
    from gradlab.train import Callback, RunFolder, TrainConfig, train

    class StopAfterFive(Callback):
        def on_step(self, trainer: Any, output: Any) -> None:
            if trainer.step == 5:
                raise Stopped

    def config(name: str) -> TrainConfig:
        return TrainConfig(
            model=machine.model or str(machine.encoder("small")),
            train_file=str(machine.sentences(2000)),
            output=str(machine.folder / f"resume-{precision}-{name}"),
            batch_size=16,
            max_steps=8,
            save_every=2,
            diagnostics_every=0,
            device=str(machine.device),
            precision=precision,
            threads=torch.get_num_threads(),
        )

    for name in ("whole", "broken"):
        empty(config(name).output)
    train(config("whole"))
    try:
        train(config("broken"), callbacks=[StopAfterFive()])
    except Stopped:
        train(config("broken"), resume=True)
    files = [
        RunFolder(Path(config(name).output)).encoder / "model.safetensors" for name in ("whole", "broken")
    ]
    return {"error": float(files[0].read_bytes() != files[1].read_bytes()), "tolerance": 0.0}


def test_cases() -> Iterator[Case]:
    """The tests of the repository that need a GPU, where the repository and pytest are at hand."""
    yield Case("tests", "pytest -k cuda", _tests, fixed=60)


def _tests(machine: Machine) -> dict[str, Any]:
    import pytest

    root = Path(__file__).parents[2]
    if not (root / "tests" / "test_blockwise.py").exists():
        raise ModuleNotFoundError("no tests beside this copy of gradlab", name="tests")
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "-k",
        "cuda_equals_cpu",
        "tests/test_blockwise.py",
    ]
    done = subprocess.run(
        command,
        cwd=root,
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": str(root)},
        check=False,
    )
    bad = done.returncode not in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED)
    return {"error": float(bad), "tolerance": 0.0, "said": (done.stdout.strip().splitlines() or [""])[-1]}
