"""Times that are expected of an H100, with their formulas, from operations, bytes and launches.

They were written before anything of them was measured. The page of the check prints each beside the
measured time, and ``python -m tests.gpu --predict`` prints them as a table.
"""

from __future__ import annotations

import dataclasses
import math

COUNT, DIMENSIONS = 65_536, 768
# Rows and columns of a tile, as in `gradlab.scale.triton_kernels`, which loads Triton.
TILE = 128, 256


@dataclasses.dataclass(frozen=True)
class Rates:
    """Rates of an NVIDIA H100 (SXM), and what a program reaches of them.

    Attributes:
        bfloat16, tf32: operations per second, as this check measured them with constant matrices.
        sustained: share of that rate that large products of other entries reach.
        memory: bytes per second of the memory.
        cache: bytes per second from the second-level cache to all processors. The kernels of
            before reached 5.2e12, if the second direction's 20 ms are taken for a forward pass.
        processors, clock: number of multiprocessors, and their cycles per second.
        exponentials, lanes: exponentials, and float32 operations, of a processor per cycle.
        start: seconds before the first product of a tile, with loads by descriptors.
        shuffles: seconds for the sums of a tile's columns, across lanes and warps.
        launch: seconds of a small operation within a CUDA graph.
        operation: seconds of the host for an operation: 0.39 ms for 20 of plain torch.
        call: the same within gradlab: 3.03 ms for 124 of them at 4,096 sentences.
    """

    bfloat16: float = 891e12
    tf32: float = 435e12
    sustained: float = 0.8
    memory: float = 3.35e12
    cache: float = 7.0e12
    processors: int = 132
    clock: float = 1.755e9
    exponentials: int = 16
    lanes: int = 128
    start: float = 0.5e-6
    shuffles: float = 0.9e-6
    launch: float = 4e-6
    operation: float = 20e-6
    call: float = 24e-6


H100 = Rates()


@dataclasses.dataclass(frozen=True)
class Prediction:
    """An expected time in seconds, and how it comes about."""

    seconds: float
    formula: str


def predictions(rates: Rates = H100) -> dict[str, Prediction]:
    """Return the predictions by "section/case"."""
    stages = _stages(rates)
    loss = f"loss/N={COUNT} D={DIMENSIONS} bfloat16"
    return (
        stages
        | {
            f"{loss} gradlab.blockwise by kernels": stages["parts/value and gradients"],
            f"{loss} symmetric: gradlab.blockwise by kernels": stages["parts/both directions"],
        }
        | _small_batches(rates)
        | _training()
    )


def _tile_pass(rates: Rates, lanes: int, *, stored: bool = False, columns: bool = False) -> float:
    """Return the seconds of one kernel that makes all cosines, tile by tile.

    ``lanes``: float32 operations for each cosine.
    """
    rows, wide = TILE
    tiles = math.ceil(COUNT / rows) * math.ceil(COUNT / wide) / rates.processors
    product = 2 * rows * wide * DIMENSIONS / (rates.bfloat16 / rates.processors)
    traffic = 2 * DIMENSIONS * (rows + wide) + (2 * rows * wide if stored else 0)
    loads = traffic / (rates.cache / rates.processors)
    cycles = rows * wide * (1 / rates.exponentials + lanes / rates.lanes)
    tile = max(product, loads) + cycles / rates.clock + rates.start
    return tiles * (tile + (rates.shuffles if columns else 0))


def _stages(rates: Rates) -> dict[str, Prediction]:
    tile = f"tiles of {TILE[0]} x {TILE[1]}: max(product, loads from cache)"
    sums = _tile_pass(rates, 6)
    both_directions = _tile_pass(rates, 7, columns=True)
    stored = _tile_pass(rates, 9, stored=True)
    coefficients = _tile_pass(rates, 11, stored=True)
    product = 2 * COUNT**2 * DIMENSIONS / (rates.sustained * rates.bfloat16)
    slices = math.ceil(COUNT / 10_112)
    rows = 4 * COUNT * DIMENSIONS / rates.memory  # one pass over the rows in float32
    adding = 4 * slices * rows
    around = 20 * rows
    return {
        "parts/sums of rows": Prediction(sums, f"{tile} + 1 exponential + 6 operations"),
        "parts/sums of rows and columns": Prediction(
            both_directions, "the same + sums across lanes"
        ),
        "parts/sums and exponentials": Prediction(stored, f"{tile} and stores + 9 operations"),
        "parts/coefficients": Prediction(coefficients, f"{tile} and stores + 11 operations"),
        "parts/product for rows": Prediction(product, "2 N² D at 0.8 of the measured rate"),
        "parts/product for columns": Prediction(
            product + adding, f"the same + {slices} slices, each 4 passes over (N, D) in float32"
        ),
        "parts/value": Prediction(sums + 10 * rows, "sums of rows + 10 passes over (N, D)"),
        "parts/value and gradients": Prediction(
            stored + 2 * product + adding + around,
            "sums and exponentials + 2 products + 20 passes over (N, D)",
        ),
        "parts/both directions": Prediction(
            both_directions + coefficients + 2 * product + adding + around,
            "sums of rows and columns + coefficients + 2 products + 20 passes over (N, D)",
        ),
    }


def _small_batches(rates: Rates) -> dict[str, Prediction]:
    """Return predictions for blocks of a few thousand sentences, which are one block."""
    expected = {}
    for count in (4096, 8192):
        products = 6 * count**2 * DIMENSIONS / (rates.sustained * rates.tf32)
        passes = 6 * 4 * count**2 / rates.memory
        rows = 30 * 4 * count * DIMENSIONS / rates.memory
        device = products + passes + rows
        name = f"loss/N={count} D={DIMENSIONS} bfloat16 gradlab.blockwise"
        expected |= {
            f"{name}, graph": Prediction(
                device + 61 * rates.launch + 6 * rates.operation,
                "6 N² D in TF32 + 6 passes over N² + 61 launches + 6 operations of the host",
            ),
            name: Prediction(
                max(device, 112 * rates.call), "112 operations of the host, or the device's time"
            ),
        }
    return expected


def _training() -> dict[str, Prediction]:
    """Return predictions for chunks of tokens: BERT-base, 2,048 pairs, unchunked 0.296 s.

    The 4,096 sequences of 5 to 30 words are padded to 32 tokens at once, and to 23 on average in
    chunks, longest first. A forward pass is a third of a step; chunks take one more.
    """
    at_once, padding = 0.296, 23 / 32
    seconds = at_once * padding * 4 / 3 + 0.02
    return {
        "training/BERT-base batch 2048 gradlab bfloat16, chunks of 10 GiB": Prediction(
            seconds, "0.296 s · 23/32 of the tokens · 4/3 + 20 ms for the loss and first chunks"
        ),
        "training/BERT-base batch 2048 gradlab bfloat16, chunks of 64": Prediction(
            64 * 0.050,
            "64 chunks, each 50 ms of the host: 54 before, less two waits",
        ),
    }


def table(rates: Rates = H100) -> str:
    """Return the predictions as a page in Markdown."""
    constants = [
        f"| {field.name} | {getattr(rates, field.name):.4g} |"
        for field in dataclasses.fields(rates)
    ]
    rows = [
        f"| {name.replace('/', ': ', 1)} | {1000 * prediction.seconds:.3g} | {prediction.formula} |"
        for name, prediction in predictions(rates).items()
    ]
    return "\n".join(
        [
            "# Predicted for an NVIDIA H100",
            "",
            f"Made by `python -m tests.gpu --predict`, before anything was measured. Parts are of "
            f"N = {COUNT:,}, D = {DIMENSIONS}, bfloat16.",
            "",
            "| | milliseconds | formula |",
            "| --- | --- | --- |",
            *rows,
            "",
            "Rates, as `tests/gpu/predictions.py` explains them:",
            "",
            "| | |",
            "| --- | --- |",
            *constants,
            "",
        ]
    )
