"""Checks that the device computes the same as the CPU."""

from __future__ import annotations

import functools
import itertools
import math
import operator
import socket
from collections.abc import Callable, Iterable
from typing import Any

import torch
import torch.distributed.nn
from torch import Tensor
from torch.utils._pytree import tree_map_only

from gradlab.batch.batch import Batch
from gradlab.batch.check import check_batch
from gradlab.decomposition import decompose
from gradlab.errors import GradlabError
from gradlab.gradient.components_and_autograd import autograd_gradient, components
from gradlab.gradient.verification import verify
from gradlab.losses import get_loss, loss_names
from gradlab.losses.registry import taught_names
from gradlab.monitor.metrics import DIAGNOSTICS
from gradlab.monitor.start_watching import watch
from gradlab.scale import blockwise
from gradlab.scale.audit import audit
from gradlab.scale.processes import ProcessGroup
from tests.gpu.machine import Case, Machine, kernels_on, matrix_products
from tests.gpu.speed import Stopped, train_on
from tests.process_worker import noting

SUM = "sum(infonce, gor, weights=1+0.1)"
COMBINED = (
    "symmetric(infonce)",
    "symmetric(infonce, reverse=siglip(learnable=false))",
    "pool(infonce, negatives=other+same)",
    "mask(infonce, above=0.9)",
    "hardness(infonce)",
    "per_prefix(infonce, dims=16+48)",
    "recombined(gate=met, weight=infonce, ratio=1.5)",
    SUM,
)
# Losses of batches with more than two views, and the further argument.
BESIDE = (
    ("infonce", "own_negatives"),
    ("symmetric(arccon)", "own_negatives"),
    ("met", "extra_negatives"),
    ("supcon", "labels"),
    ("mil_nce", "labels"),
    ("triplet", "labels"),
    ("kl", "teacher"),
    ("margin_mse", "teacher"),
)
DECOMPOSED = (
    *((spec, "") for spec in ("infonce", "arccon", "met", "symmetric(infonce)")),
    ("infonce", "own_negatives"),
    (SUM, ""),
)
KERNELS = (
    *((spec, "float32") for spec in ("infonce", "symmetric(infonce)", "tvmf", "dhel")),
    ("infonce(temperature=0.02)", "float32"),
    ("infonce", "tf32"),
    *((spec, "bfloat16") for spec in ("infonce", "symmetric(infonce)")),
    ("infonce", "float16"),
)
BLOCKWISE = (
    *("infonce", "met", "arccon", "siglip(learnable=false)", "dhel", "mhe", "cosent"),
    *COMBINED,
)
# Unit roundoff: relative error of gradients that are rounded to the dtype of the rows.
ROUNDING = {"bfloat16": 2**-8, "float16": 2**-11}
# Error of products in TF32, whose roundoff the temperature amplifies.
TF32 = 2e-3
COUNT, DIM = 40, 48
CPU = operator.methodcaller("cpu")

VIEWS = ("anchors", "positives")
Rows = dict[str, Any]  # arguments of a loss by name: tensors, or lists of them


def batch(machine: Machine, argument: str = "", dtype: torch.dtype = torch.float64) -> Rows:
    """Return two views and one further argument of a loss, on the device."""
    views = dict(zip(VIEWS, machine.rows(COUNT, DIM, dtype=dtype), strict=True))
    more_views = machine.rows(COUNT, DIM, 1, dtype)
    arguments = {
        "own_negatives": machine.rows(3 * COUNT, DIM, 1, dtype)[0].unflatten(0, (COUNT, 3)),
        "extra_negatives": more_views[0],
        "teacher": more_views,
        "labels": torch.arange(COUNT, device=machine.device) // 3,
    }
    return views | ({argument: arguments[argument]} if argument else {})


def _verify(spec: str, machine: Machine) -> dict[str, Any]:
    """Check closed forms against autograd, both on the device, for batches of every shape."""
    checks = [check for check in verify(spec, device=str(machine.device)) if check.declared]
    return {"error": max(check.error for check in checks), "tolerance": checks[0].loss.exact_to}


def _gradients(spec: str, argument: str, machine: Machine) -> dict[str, Any]:
    """Check closed forms and autograd of both sides against the CPU."""

    def both_sides(rows: Rows) -> list[Tensor]:
        closed = [side.gradient() for side in components(spec, **rows, side="both")]
        return [*closed, *autograd_gradient(spec, **rows, side="both")]

    return _as_on_cpu(both_sides, batch(machine, argument), machine, 1e-11)


def _decompose(spec: str, argument: str, machine: Machine) -> dict[str, Any]:
    """Check components that are found from gradients against the CPU."""

    def components_of(rows: Rows) -> list[Tensor]:
        split = decompose(spec, **rows)
        return [split.total_push, split.weight, split.ratio]

    return _as_on_cpu(components_of, batch(machine, argument), machine, 1e-9)


def _blockwise(spec: str, argument: str, dtype: str, machine: Machine) -> dict[str, Any]:
    """Check blocks: float64 against the loss on a CPU, half precision against float32."""
    rows = batch(machine, argument, getattr(torch, dtype))
    blocks = blockwise(spec, 16)
    measured = differentiated(blocks, rows)
    if dtype == "float64":
        expected = differentiated(get_loss(spec), tree_map_only(Tensor, CPU, rows))
    else:
        # computed in float32 too, or in TF32, so that little but the rounding of gradients differs
        expected = differentiated(blocks, tree_map_only(Tensor, Tensor.float, rows))
    tolerance = ROUNDING.get(dtype, 1e-11) + TF32 * (dtype == "bfloat16")
    return _differ(measured, expected, machine, tolerance)


def _rows(machine: Machine) -> dict[str, Any]:
    """Check rows of a batch on the device, as in a block, against the whole batch on the CPU."""
    loss, arguments = get_loss("infonce"), batch(machine, "own_negatives")
    full_batch = check_batch(**arguments)
    values = [loss.value_of(full_batch.rows(first, first + 16)) for first in range(0, COUNT, 16)]
    expected = loss.value_of(check_batch(**tree_map_only(Tensor, CPU, arguments)))
    return _differ([torch.cat(values)], [expected], machine, 1e-11)


def _kernels(spec: str, precision: str, machine: Machine) -> dict[str, Any]:
    """Check fused kernels against the loss of the same rows in float64 on the CPU."""
    count, dim = (COUNT, DIM) if machine.small else (7 * COUNT, 4 * DIM)
    loss = get_loss(spec)
    with kernels_on(machine.device), matrix_products(precision) as dtype:
        rows = dict(zip(VIEWS, machine.rows(count, dim, dtype=dtype), strict=True))
        measured = differentiated(blockwise(spec, count // 3, way="kernels"), rows, normalize=False)
    expected = differentiated(
        lambda anchors, positives: loss.value_of(Batch(anchors, positives)).mean(),
        {name: view.cpu().double() for name, view in rows.items()},
        normalize=False,
    )
    # TF32 rounds float32 rows; half precision products are exact.
    tolerance = {"tf32": TF32, **{name: 2 * unit for name, unit in ROUNDING.items()}}
    return _differ(measured, expected, machine, tolerance.get(precision, 1e-5))


def _graph(spec: str, way: str, machine: Machine) -> dict[str, Any]:
    """Check three calls with a CUDA graph, of which the last two are replayed, against none."""
    count, dim = (COUNT, DIM) if machine.small else (1000, 4 * DIM)
    dtype = torch.float32 if machine.small else torch.bfloat16
    with kernels_on(machine.device):
        recorded = blockwise(spec, way=way, graph=not machine.small)
        eager = blockwise(spec, way=way)
        error = 0.0
        for seed in range(3):
            rows = dict(zip(VIEWS, machine.rows(count, dim, seed, dtype), strict=True))
            measured = differentiated(recorded, rows)
            error = max(error, largest(measured, differentiated(eager, rows)))
    return {"error": error, "tolerance": ROUNDING["bfloat16"]}


def differentiated(criterion: Any, rows: Rows, normalize: bool = True) -> list[Tensor]:
    """Return the value, and gradients of both views and of extra and own negatives."""
    leaves = {
        name: tensor.detach().clone().requires_grad_()
        for name, tensor in rows.items()
        if name in VIEWS or name.endswith("negatives")
    }
    value = criterion(**rows | leaves, **({"normalize": True} if normalize else {}))
    value.backward()
    return [value.detach(), *(tensor.grad for tensor in leaves.values() if tensor.grad is not None)]


def _as_on_cpu(
    compute: Callable[[Rows], list[Tensor]], rows: Rows, machine: Machine, tolerance: float
) -> dict[str, Any]:
    """Check a computation on the device against the same computation on the CPU."""
    return _differ(compute(rows), compute(tree_map_only(Tensor, CPU, rows)), machine, tolerance)


def _differ(measured: Any, expected: Any, machine: Machine, tolerance: float) -> dict[str, Any]:
    """Return the result of a check.

    Raises:
        GradlabError: results on another device.
    """
    elsewhere = {
        str(tensor.device) for tensor in measured if tensor.device.type != machine.device.type
    }
    if elsewhere:
        raise GradlabError(f"computed on {', '.join(elsewhere)}, not on {machine.device}")
    return {"error": largest(measured, expected), "tolerance": tolerance}


def largest(measured: Iterable[Tensor], expected: Iterable[Tensor]) -> float:
    """Return the largest difference of as many tensors, relative to each one's largest entry.

    It is infinite where NaN or infinities do not match.
    """
    return max(_relative(*pair) for pair in zip(measured, expected, strict=True))


def _relative(measured: Tensor, expected: Tensor) -> float:
    first, second = (tensor.detach().cpu().double() for tensor in (measured, expected))
    wrong = ~torch.isclose(first, second, rtol=0, atol=0, equal_nan=True)
    difference, scale = (first - second)[wrong].abs(), second[second.isfinite()].abs()
    if not difference.isfinite().all():
        return math.inf
    return float(difference.max() / scale.max()) if difference.numel() else 0.0


def _processes(machine: Machine) -> dict[str, Any]:
    """Check several processes against one: one per GPU over NCCL, or two on a CPU over gloo."""
    count = _count(machine)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    outcomes = torch.multiprocessing.get_context("spawn").SimpleQueue()
    torch.multiprocessing.spawn(_process, args=(count, port, machine, outcomes), nprocs=count)
    errors, calls = zip(*(outcomes.get() for _ in range(count)), strict=True)
    if any(order != calls[0] for order in calls):
        raise GradlabError("processes call other collectives, or in another order")
    return {"error": max(errors), "tolerance": 1e-11, "collectives": len(calls[0])}


def _process(rank: int, count: int, port: int, machine: Machine, outcomes: Any) -> None:
    device = torch.device("cpu") if machine.small else torch.device("cuda", rank)
    if not machine.small:
        torch.cuda.set_device(device)
    torch.distributed.init_process_group(
        "gloo" if machine.small else "nccl", f"tcp://127.0.0.1:{port}", rank=rank, world_size=count
    )
    views = (tensor.to(device) for tensor in machine.rows(COUNT * count, DIM))
    rows = dict(zip(VIEWS, views, strict=True))
    own, calls = slice(rank * COUNT, (rank + 1) * COUNT), []
    noting(calls)
    error = _collectives(ProcessGroup("world"), device)
    for spec in ("infonce", "symmetric(infonce)"):
        value, *expected = differentiated(get_loss(spec), rows)
        measured = differentiated(
            blockwise(spec, group="world"), tree_map_only(Tensor, lambda tensor: tensor[own], rows)
        )
        error = max(error, largest(measured, [value, *(tensor[own] for tensor in expected)]))
    outcomes.put((error, calls))
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()


def _collectives(group: ProcessGroup, device: torch.device) -> float:
    """Check every kind of communication of a group, of one process too, which needs none."""
    error, ranks = 0.0, range(group.count)
    sizes = [rank + 2 for rank in ranks]
    for dtype in (torch.float32, torch.float64, torch.int64):
        shares = [
            torch.arange(2 * size, device=device).view(size, 2).to(dtype) + 10 * rank
            for rank, size in enumerate(sizes)
        ]
        rows = group.gather(shares[group.rank], sizes)
        total = group.total(shares[0].clone())
        own = group.to_owners(torch.cat(shares), sizes).split(sizes)[group.rank]
        measured = [rows, total, own]
        expected = [torch.cat(shares), group.count * shares[0], group.count * shares[group.rank]]
        error = max(error, largest(measured, expected))
    described = group.agree({"loss": "same"}, {"rank": group.rank}, None)
    group.check(torch.zeros(1, device=device), None)
    return error if [settings["rank"] for settings in described] == list(ranks) else math.inf


def _watch(machine: Machine) -> dict[str, Any]:
    """Check a watched loss's records, measured beside training, against the CPU."""
    recorded = []
    batches = [machine.rows(COUNT, DIM, seed, torch.float32) for seed in range(4)]
    for place in (machine.device, torch.device("cpu")):
        watched = watch(get_loss("infonce"), output=machine.folder / f"watch-{place.type}", every=1)
        for views in batches:
            watched(*(view.to(place, copy=True).requires_grad_() for view in views)).backward()
        watched.finish()
        history = watched.watch.history
        recorded.append(
            {name: history.series(DIAGNOSTICS, name)[1] for name in history.names(DIAGNOSTICS)}
        )
    on_device, on_cpu = recorded
    assert list(on_device) == list(on_cpu)
    rows = [
        [torch.tensor(view, dtype=torch.float64) for view in series.values()] for series in recorded
    ]
    # Each number relative to its own size.
    return {"error": largest(*rows), "tolerance": 1e-5, "count": len(batches) * len(on_cpu)}


def _audit(fault: str, machine: Machine) -> dict[str, Any]:
    """Audit on the device: a correct loss, or one with a fault that must be found."""
    loss = functools.partial(_on_device, machine.device, not fault)
    report = audit(loss, uneven=False)
    if [fault_report.name for fault_report in report.faults] != [fault] * bool(fault):
        raise GradlabError(
            f"the audit of a loss {'with' if fault else 'without'} a fault says: {report}"
        )
    error = 0.0 if fault else max(fault_report.error for fault_report in report.outcomes.values())
    return {"error": error, "tolerance": 1e-11}


def _on_device(device: torch.device, gathers: bool, *views: Tensor) -> Tensor:
    """Return InfoNCE on a GPU that processes share; rows travel between CPUs.

    NCCL does not allow several processes on one GPU. If it ``gathers``, each process has the loss
    of all rows; averaging divides the sum of P gradients by P.
    """
    if gathers:
        views = tuple(torch.cat(torch.distributed.nn.functional.all_gather(view)) for view in views)
    anchors, positives = (view.to(device) for view in views)
    value: Tensor = get_loss("infonce")(anchors, positives, normalize=True)
    return value.cpu()


def _resume(precision: str, machine: Machine) -> dict[str, Any]:
    """Check that a run that stops and resumes ends with the same weights, bit by bit."""
    from gradlab.train import RunFolder

    settings: dict[str, Any] = {"batch_size": 16, "max_steps": 8, "save_every": 2}
    settings["precision"] = precision

    def stop_after_five(step: int) -> None:
        if step == 5:
            raise Stopped

    whole, broken = f"resume-{precision}-whole", f"resume-{precision}-broken"
    train_on(machine, whole, lambda _: None, **settings)
    train_on(machine, broken, stop_after_five, **settings)
    train_on(machine, broken, lambda _: None, resume=True, **settings)
    first, second = (
        RunFolder(machine.folder / run).encoder / "model.safetensors" for run in (whole, broken)
    )
    return {"error": float(first.read_bytes() != second.read_bytes()), "tolerance": 0.0}


def _cases(
    run: Callable[..., dict[str, Any]], fixed: float, argument_lists: Iterable[tuple[str, ...]]
) -> list[Case]:
    """Return a case for each loss, with what it has beside its views, and its dtype."""
    return [
        Case(_title(*arguments), functools.partial(run, *arguments), fixed=fixed)
        for arguments in argument_lists
    ]


def _title(spec: str, argument: str = "", dtype: str = "") -> str:
    argument = f" with {argument.replace('_', ' ')}" if argument else ""
    return spec + argument + (f" in {dtype}" if dtype else "")


def _count(machine: Machine) -> int:
    return 2 if machine.small else torch.cuda.device_count()


CHECKS: dict[str, Callable[[Machine], Iterable[Case]]] = {
    "verify": lambda _: _cases(
        _verify,
        0.5,
        [(spec,) for spec in (*loss_names(), *taught_names(), "symmetric(infonce)", SUM)],
    ),
    "gradients": lambda _: _cases(
        _gradients, 0.3, [*((spec, "") for spec in (*loss_names(), *COMBINED)), *BESIDE]
    ),
    "decompose": lambda _: _cases(_decompose, 0.5, DECOMPOSED),
    "blockwise": lambda _: [
        *_cases(_blockwise, 0.3, itertools.product(BLOCKWISE, [""], ("float64", *ROUNDING))),
        *_cases(_blockwise, 0.3, [(*arguments, "float64") for arguments in BESIDE]),
        Case("rows of a batch", _rows, fixed=0.3),
    ],
    "kernels": lambda machine: [
        Case(f"{spec} in {precision}", functools.partial(_kernels, spec, precision), fixed=5)
        for spec, precision in KERNELS
        # Triton's interpreter cannot multiply bfloat16.
        if not (machine.small and precision == "bfloat16")
    ],
    "graph": lambda _: _cases(
        _graph,
        1,
        [
            *((spec, "blocks") for spec in ("infonce", "symmetric(infonce)", "arccon")),
            ("infonce", "kernels"),
        ],
    ),
    "processes": lambda machine: [Case(f"{_count(machine)} processes", _processes, fixed=20)],
    "watch": lambda _: [Case("records", _watch)],
    "audit": lambda _: [
        Case("gathered", functools.partial(_audit, ""), fixed=15),
        Case("alone", functools.partial(_audit, "separate losses"), fixed=15),
    ],
    "resume": lambda _: _cases(_resume, 20, [("float32",), ("bfloat16",)]),
}
