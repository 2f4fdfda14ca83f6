"""Measurements of each kernel and product of a loss, and of other tiles for the kernels."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from gradlab.scale import blockwise
from tests.gpu.machine import Case, Machine, kernels_on
from tests.gpu.predictions import COUNT, DIMENSIONS
from tests.gpu.speed import INFONCE, TEMPERATURE

# Rows whose coefficients are held at a time, as on a GPU of 80 GB; times are of all rows.
SLICE = 10_112
# Tiles that are tried beside the kernels' own: rows, columns, dimensions, warps, stages, loads by
# descriptors, loads of the next tile ahead.
TILES = (
    (128, 256, 64, 8, 3, True, False),
    (128, 256, 64, 8, 3, False, False),
    (128, 256, 64, 8, 4, True, False),
    (128, 256, 64, 8, 3, True, True),
    (128, 128, 64, 4, 3, True, False),
)


def part_cases(machine: Machine) -> Iterator[Case]:
    """Yield a case for each kernel and product of value and gradients, and for the whole."""
    flops = 2 * 2.0 * COUNT**2 * DIMENSIONS
    for name, share in (
        ("value and gradients", 3),
        ("both directions", 4),
        ("value", 1),
        *((name, 1) for name in STAGES),
    ):
        run = functools.partial(_stage, name)
        yield Case(name, run, share * flops, "bfloat16", fixed=4)


def _stage(name: str, machine: Machine) -> dict[str, Any]:
    count, dimensions = (64, 16) if machine.small else (COUNT, DIMENSIONS)
    with kernels_on(machine.device):
        views = _views(machine, count, dimensions)
        if name in STAGES:
            few = min(SLICE, count // 2)
            return _scaled(machine.measure(STAGES[name](views, few), 0.3), count / few, name)
        spec = f"symmetric({INFONCE})" if name == "both directions" else INFONCE
        criterion = blockwise(spec, way="kernels")
        leaves = [view.requires_grad_(name != "value") for view in views]

        def call() -> None:
            value = criterion(*leaves, normalize=True)
            if value.requires_grad:
                torch.autograd.grad(value, leaves)

        return machine.measure(call, 0.5)


def _scaled(measurement: dict[str, float], factor: float, name: str) -> dict[str, float]:
    """Return the measurement of a slice as of all rows, unless all rows were measured."""
    if not name.startswith("sums of rows"):
        measurement["seconds"] *= factor
    return measurement


def _views(machine: Machine, count: int, dimensions: int) -> list[Tensor]:
    dtype = torch.float32 if machine.small else torch.bfloat16
    generator = torch.Generator(machine.device).manual_seed(0)
    shape = (count, dimensions)
    views = [torch.randn(shape, generator=generator, device=machine.device) for _ in range(2)]
    return [functional.normalize(view, dim=-1).to(dtype) for view in views]


def _sums(views: list[Tensor], few: int, **asked: bool) -> Callable[[], Any]:
    from gradlab.scale.logit_translation import link_at
    from gradlab.scale.triton_kernels import log_sum_exps

    rows, columns = views
    if asked.get("exponentials"):
        rows = rows[:few]
    return lambda: log_sum_exps(rows, columns, 0, link_at(TEMPERATURE), **asked)


def _coefficients(views: list[Tensor], few: int) -> Callable[[], Any]:
    from gradlab.scale.logit_translation import link_at
    from gradlab.scale.triton_kernels import coefficients

    rows, columns = views
    by_rows, by_columns = (
        (torch.full_like(view[:, 0], 20.0, dtype=torch.float32),) * 2 for view in (rows, columns)
    )
    of_few = by_rows[0][:few], by_rows[1][:few]
    return lambda: coefficients(rows[:few], columns, 0, link_at(TEMPERATURE), of_few, by_columns)


def _product(views: list[Tensor], few: int, *, of_columns: bool) -> Callable[[], Any]:
    from gradlab.scale.kernels import Operands

    rows, columns = views
    operands = Operands(rows.dtype)
    terms = torch.rand(few, len(columns), device=rows.device).to(rows.dtype)
    factors = None if of_columns else torch.ones(few, device=rows.device)
    left, right = (terms.T, rows[:few]) if of_columns else (terms, columns)
    total = torch.zeros(len(left), rows.shape[1], device=rows.device)
    return lambda: operands.add_product(total, left, right, factors)


STAGES: dict[str, Callable[[list[Tensor], int], Callable[[], Any]]] = {
    "sums of rows": _sums,
    "sums of rows and columns": functools.partial(_sums, column_sums=True),
    "sums and exponentials": functools.partial(_sums, exponentials=True),
    "coefficients": _coefficients,
    "product for rows": functools.partial(_product, of_columns=False),
    "product for columns": functools.partial(_product, of_columns=True),
}


def tile_cases(machine: Machine) -> Iterator[Case]:
    """Yield the time of both forward kernels with each of `TILES`, at 16,384 sentences."""
    for tiles in TILES[:2] if machine.small else TILES:
        rows, columns, depth, warps, stages, descriptors, ahead = tiles
        words = f"{rows} x {columns} x {depth}, {warps} warps, {stages} stages"
        words += ", descriptors" * descriptors + ", next tile ahead" * ahead
        for name in ("sums of rows", "sums and exponentials"):
            if ahead and name != "sums of rows":
                continue  # registers do not suffice
            run = functools.partial(_tiles, name, tiles)
            yield Case(f"{name}: {words}", run, 0.0, fixed=8)


def _tiles(name: str, tiles: tuple[Any, ...], machine: Machine) -> dict[str, Any]:
    count, dimensions = (64, 16) if machine.small else (16_384, DIMENSIONS)
    with kernels_on(machine.device):
        from gradlab.scale import triton_kernels

        names = ("ROWS", "COLUMNS", "DEPTH", "num_warps", "num_stages")
        chosen = {"HALF": dict(zip(names, tiles, strict=False))}
        chosen |= {"DESCRIPTORS": tiles[5], "FLATTEN": tiles[6]}
        before = {setting: getattr(triton_kernels, setting) for setting in chosen}
        vars(triton_kernels).update(chosen)
        try:
            views = _views(machine, count, dimensions)
            return machine.measure(STAGES[name](views, count), 0.1)
        finally:
            vars(triton_kernels).update(before)
