"""The device under test, measurement of time and memory on it, and data for it."""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
import os
import random
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

# Operations per second of an NVIDIA A100, for estimates on devices whose own rates are unknown.
RATES = {"float64": 9e12, "float32": 15e12, "tf32": 70e12, "float16": 200e12, "bfloat16": 200e12}
# Share of the rate that code reaches in estimates, and seconds that any case takes.
EFFICIENCY, OVERHEAD = 0.35, 1.5
# Layers, width and attention heads of encoders.
BERTS = {"tiny": (1, 32, 2), "small": (4, 312, 4), "base": (12, 768, 12)}


@dataclasses.dataclass(frozen=True)
class Case:
    """One check or measurement.

    Attributes:
        name: name within its part.
        run: runs it and returns numbers and words by name; a check returns ``error`` and
            ``tolerance``.
        flops: number of floating-point operations in all repetitions.
        precision: precision of the operations, a key of `RATES`.
        fixed: further time in seconds.
    """

    name: str
    run: Callable[[Machine], dict[str, Any]]
    flops: float = 0.0
    precision: str = "float32"
    fixed: float = OVERHEAD

    def seconds(self, rates: dict[str, float]) -> float:
        """Return the expected time in seconds, given operations per second by precision."""
        return self.fixed + self.flops / (EFFICIENCY * rates[self.precision])


@dataclasses.dataclass(frozen=True)
class Machine:
    """The device and the data of a check.

    Attributes:
        device: the GPU, or the CPU to try the check out.
        folder: folder for models, sentences and runs.
        model: an encoder to train, or None for random weights.
        train_file: a file of sentences, or None for made-up ones.
    """

    device: torch.device
    folder: Path
    model: str | None = None
    train_file: str | None = None

    @property
    def small(self) -> bool:
        """True on a CPU, where sizes are tiny and measurements mean nothing."""
        return self.device.type != "cuda"

    def synchronise(self) -> None:
        """Wait until the device has finished its work."""
        if not self.small:
            torch.cuda.synchronize(self.device)

    def rows(
        self, count: int, dimensions: int, seed: int = 0, dtype: torch.dtype = torch.float64
    ) -> list[Tensor]:
        """Return two views of unit rows in a cone, rounded to ``dtype``.

        They are drawn in float64 on the CPU.
        """
        generator = torch.Generator().manual_seed(seed)
        first, second, base = torch.randn(
            3, count, dimensions, generator=generator, dtype=torch.float64
        )
        views = (base + 1 + 0.5 * noise for noise in (first, second))
        return [
            torch.nn.functional.normalize(view, dim=-1).to(self.device, dtype) for view in views
        ]

    def measure(self, function: Callable[[], Any], seconds: float = 1.0) -> dict[str, float]:
        """Return the median seconds per call, the number of calls and, on a GPU, peak added MiB."""
        function()  # warm-up
        self.synchronise()
        held = 0
        if not self.small:
            held = torch.cuda.memory_allocated(self.device)
            torch.cuda.reset_peak_memory_stats(self.device)
        times: list[float] = []
        while not times or (sum(times) < seconds and len(times) < 20):
            start = time.perf_counter()
            function()
            self.synchronise()
            times.append(time.perf_counter() - start)
        measurement = {"seconds": statistics.median(times), "runs": len(times)}
        if not self.small:
            measurement["MiB"] = (torch.cuda.max_memory_allocated(self.device) - held) / 2**20
        return measurement

    def encoder(self, size: str) -> str:
        """Return the given model, or a "small" or "base" BERT with random weights."""
        if self.model is not None:
            return self.model
        folder = self.folder / f"bert-{size}"
        if not folder.exists():
            _write_bert(folder, *BERTS["tiny" if self.small else size])
        return str(folder)

    def sentences(self, count: int) -> str:
        """Return the given file, or one of ``count`` sentences of made-up words, few on a CPU."""
        if self.train_file is not None:
            return self.train_file
        count = min(count, 500) if self.small else count
        path = self.folder / f"sentences-{count}.txt"
        if not path.exists():
            draw = random.Random(0)
            lines = [" ".join(draw.choices(WORDS, k=draw.randint(5, 30))) for _ in range(count)]
            path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        return str(path)


WORDS = [
    a + b + c + d for a in "bdfklmnprst" for b in "aeiou" for c in "bdfklmnprst" for d in "aeiou"
]


@contextlib.contextmanager
def kernels_on(device: torch.device) -> Iterator[None]:
    """Run gradlab's kernels on the device within the block; on a CPU, by Triton's interpreter.

    Raises:
        ModuleNotFoundError: Triton is not installed.
    """
    changed = device.type == "cpu" and "TRITON_INTERPRET" not in os.environ
    if changed:
        os.environ["TRITON_INTERPRET"] = "1"  # must be set before Triton is imported
    try:
        importlib.import_module("triton")
        yield
    finally:
        if changed:
            del os.environ["TRITON_INTERPRET"]


@contextlib.contextmanager
def matrix_products(precision: str) -> Iterator[torch.dtype]:
    """Yield the dtype of rows for a precision.

    With "tf32", float32 products are computed in TF32 within the block.
    """
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high" if precision == "tf32" else "highest")
    try:
        yield torch.float32 if precision == "tf32" else getattr(torch, precision)
    finally:
        torch.set_float32_matmul_precision(before)


def _write_bert(folder: Path, layers: int, width: int, heads: int) -> None:
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

    names = ("pad", "unk", "cls", "sep", "mask")
    special = {f"{name}_token": f"[{name.upper()}]" for name in names}
    vocabulary = {word: place for place, word in enumerate([*special.values(), *WORDS])}
    size = BertConfig().vocab_size
    vocabulary |= {f"[unused{place}]": place for place in range(len(vocabulary), size)}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    config = BertConfig(
        hidden_size=width,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        intermediate_size=4 * width,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        BertModel(config, add_pooling_layer=False).save_pretrained(folder)
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, model_max_length=512, **special
    ).save_pretrained(folder)
