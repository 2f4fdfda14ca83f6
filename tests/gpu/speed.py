"""Measurements of matrix products, losses and training."""

from __future__ import annotations

import contextlib
import functools
import importlib
import itertools
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from gradlab.scale import blockwise
from tests.gpu.machine import RATES, Case, Machine, kernels_on, matrix_products

TEMPERATURE = 0.05
SIZES, SMALL_SIZES = (4096, 8192, 16384, 32768, 65536, 131072), (64, 128)
# Precision -> largest batch that is measured.
MOST = {"bfloat16": 131072, "tf32": 65536, "float32": 16384}
# Parameters in the encoders' layers, for estimates: 4 layers of width 312, 12 of width 768.
LAYERS = {"small": 4.7e6, "base": 85e6}
# Steps of warm-up, sentences to train on, and tokens in an average one.
WARM, SENTENCES, TOKENS = 5, 150_000, 20
Criterion = Callable[[Tensor, Tensor], Tensor]


def rate_cases(_: Machine) -> list[Case]:
    """Return measured operations per second of matrix products, to compare the others with."""
    flops = 2 * 8192**3 * 4.0
    cases = [Case(name, functools.partial(_rate, name, False), flops, name) for name in RATES]
    random = functools.partial(_rate, "bfloat16", True)
    return [*cases, Case("bfloat16, random entries", random, flops, "bfloat16")]


def _rate(precision: str, draws: bool, machine: Machine) -> dict[str, Any]:
    """Measure a product; constant entries take less power, and let a GPU keep a higher clock."""
    size = 256 if machine.small else 8192
    with matrix_products(precision) as dtype:
        a = torch.ones(size, size, dtype=dtype, device=machine.device)
        if draws:
            a = torch.randn_like(a)
        seconds = machine.measure(lambda: a @ a, 0.3)["seconds"]
    return {"TFLOPS": 2 * size**3 / seconds / 1e12, "seconds": seconds}


def _cross_entropy(logits: Tensor) -> Tensor:
    return functional.cross_entropy(logits, torch.arange(len(logits), device=logits.device))


def _plain(anchors: Tensor, positives: Tensor) -> Tensor:
    return _cross_entropy(anchors @ positives.T / TEMPERATURE)


def _plain_symmetric(anchors: Tensor, positives: Tensor) -> Tensor:
    logits = anchors @ positives.T / TEMPERATURE
    return (_cross_entropy(logits) + _cross_entropy(logits.T)) / 2


def _blockwise(spec: str, way: str | None = "blocks", graph: bool = False) -> Criterion:
    return functools.partial(blockwise(spec, way=way, graph=graph), normalize=True)


def _open_clip() -> Criterion:
    from open_clip.loss import ClipLoss

    return functools.partial(ClipLoss(), logit_scale=1 / TEMPERATURE)


def _inf_cl() -> Criterion:
    from inf_cl import cal_flash_loss

    return lambda anchors, positives: cal_flash_loss(
        anchors, positives, scale=anchors.new_tensor(1 / TEMPERATURE), head_dim=256
    ).mean()


def _grad_cache() -> Criterion:
    from grad_cache.loss import SimpleContrastiveLoss

    criterion = SimpleContrastiveLoss()
    return lambda anchors, positives: criterion(anchors / TEMPERATURE, positives)


INFONCE = f"infonce(temperature={TEMPERATURE})"
LOSSES: dict[str, Callable[[], Criterion]] = {
    "plain torch": lambda: _plain,
    "gradlab.blockwise": lambda: _blockwise(INFONCE),
    "gradlab.blockwise by kernels": lambda: _blockwise(INFONCE, "kernels"),
    "gradlab.blockwise, graph": lambda: _blockwise(INFONCE, graph=True),
    "gradlab.blockwise, plain": lambda: _blockwise(INFONCE, "plain"),
    "gradlab.blockwise, chosen": lambda: _blockwise(INFONCE, None),
    "Inf-CL": _inf_cl,
    "GradCache": _grad_cache,  # plain cross-entropy, since GradCache saves memory of the encoder
    "symmetric: plain torch": lambda: _plain_symmetric,
    "symmetric: gradlab.blockwise": lambda: _blockwise(f"symmetric({INFONCE})"),
    "symmetric: gradlab.blockwise by kernels": lambda: _blockwise(
        f"symmetric({INFONCE})", "kernels"
    ),
    "symmetric: gradlab.blockwise, plain": lambda: _blockwise(f"symmetric({INFONCE})", "plain"),
    "symmetric: open_clip": _open_clip,
}


# Losses by the largest batch that is measured, those of other libraries, and those that are
# measured with D = 1,024 too.
LARGEST = {
    "GradCache": 16384,
    "Inf-CL": 16384,
    "gradlab.blockwise, graph": 8192,
    "gradlab.blockwise, plain": 16384,
    "symmetric: gradlab.blockwise, plain": 16384,
}
BASELINES = ("Inf-CL", "GradCache", "symmetric: open_clip")
WIDE = ("plain torch", "gradlab.blockwise", "gradlab.blockwise by kernels")


def loss_cases(machine: Machine) -> Iterator[Case]:
    """Yield measurements of the value and both gradients of a loss, at least 6 N² D operations."""
    dims, sizes = ((16,), SMALL_SIZES) if machine.small else ((768, 1024), SIZES)
    for dimensions, precision, count, name in itertools.product(dims, MOST, sizes, LOSSES):
        if count > min(MOST[precision], LARGEST.get(name, SIZES[-1])):
            continue
        if name in BASELINES and precision != "bfloat16" and not machine.small:
            continue  # they have been measured
        if dimensions == 1024 and (precision != "bfloat16" or name not in WIDE or count < 16384):
            continue  # other sizes suffice
        if "kernels" in name and machine.small and precision == "bfloat16":
            continue  # Triton's interpreter cannot multiply these
        run = functools.partial(_loss, name, count, dimensions, precision)
        # Two calls, warm-up and measurement; short calls are repeated for a quarter of a second.
        flops = 2 * 6.0 * count**2 * dimensions
        yield Case(f"N={count} D={dimensions} {precision} {name}", run, flops, precision, fixed=0.5)


def _loss(
    name: str, count: int, dimensions: int, precision: str, machine: Machine
) -> dict[str, Any]:
    kernels = kernels_on(machine.device) if "kernels" in name else contextlib.nullcontext()
    generator = torch.Generator(machine.device).manual_seed(0)
    with matrix_products(precision) as dtype, kernels:
        criterion = LOSSES[name]()
        shape = (2, count, dimensions)
        views = torch.randn(shape, generator=generator, device=machine.device)
        rows = [view.to(dtype).requires_grad_() for view in functional.normalize(views, dim=-1)]
        del views

        def call() -> None:
            criterion(*rows).backward()
            for view in rows:
                view.grad = None

        call()  # a graph is recorded in the second call
        return machine.measure(call, 0.25) | {"flops": 6.0 * count**2 * dimensions}


_LARGEST = [("base", 2048), ("small", 2048)]
TRAINERS: dict[str, dict[str, Any]] = {
    "gradlab float32": {"precision": "float32", "only": [("base", 256)]},
    "gradlab TF32": {"precision": "tf32", "only": [("base", 256)]},
    "gradlab bfloat16": {},
    "gradlab bfloat16, chunks of 10 GiB": {"memory": 10.0, "chunked": True, "only": _LARGEST},
    "gradlab bfloat16, chunks of 64": {"chunked": True, "only": _LARGEST},
    "sentence-transformers bfloat16": {
        "trainer": "MultipleNegativesRankingLoss",
        "only": [*_LARGEST, ("base", 256)],
    },
    "sentence-transformers bfloat16, chunks of 64": {
        "trainer": "CachedMultipleNegativesRankingLoss",
        "chunked": True,
        "only": _LARGEST[:1],
    },
}


def training_cases(machine: Machine) -> Iterator[Case]:
    """Yield the training speed of gradlab and sentence-transformers, in sentences per second."""
    sizes, batches = (("small",), (8,)) if machine.small else (("base", "small"), (2048, 256, 64))
    for size, batch, (name, options) in itertools.product(sizes, batches, TRAINERS.items()):
        if machine.small or (size, batch) in options.get("only", [(size, batch)]):
            # WARM + 5 steps, two views, 6 operations a parameter and token (8 if encoded twice)
            steps = (WARM + 5) * (8 if options.get("chunked") else 6)
            flops = steps * LAYERS[size] * 2.0 * batch * TOKENS
            run = functools.partial(_training, size, batch, options)
            precision = options.get("precision", "bfloat16")
            yield Case(f"BERT-{size} batch {batch} {name}", run, flops, precision, fixed=5)


def _training(size: str, batch: int, options: dict[str, Any], machine: Machine) -> dict[str, Any]:
    clock = Clock(machine)
    trained = _sentence_transformers if "trainer" in options else _gradlab
    with contextlib.suppress(Stopped):
        trained(clock, size, batch, options)
    if not machine.small:
        clock.measurement["MiB"] = torch.cuda.max_memory_allocated(machine.device) / 2**20
    return clock.measurement | {"sentences per second": batch / clock.measurement["seconds"]}


def _gradlab(clock: Clock, size: str, batch: int, options: dict[str, Any]) -> None:
    precision = options.get("precision", "bfloat16")
    with matrix_products(precision):
        train_on(
            clock.machine,
            "training",
            clock.step,
            size,
            train_file=clock.machine.sentences(SENTENCES),
            batch_size=batch,
            precision="float32" if precision == "tf32" else precision,
            chunk_size=64 if options.get("chunked") and "memory" not in options else None,
            chunk_memory=options.get("memory"),
            save_every=10**6,
        )


def _sentence_transformers(clock: Clock, size: str, batch: int, options: dict[str, Any]) -> None:
    from datasets import Dataset
    from sentence_transformers import (
        SentenceTransformer,
        SentenceTransformerTrainer,
        SentenceTransformerTrainingArguments,
    )
    from transformers import TrainerCallback

    class EachStep(TrainerCallback):
        def on_step_end(self, *_: Any, **__: Any) -> None:
            clock.step()

    machine, losses = clock.machine, importlib.import_module("sentence_transformers.losses")
    lines = Path(machine.sentences(SENTENCES)).read_text(encoding="utf-8").splitlines()
    encoder = SentenceTransformer(machine.encoder(size), device=str(machine.device))
    encoder.max_seq_length = 32
    chunks = {"mini_batch_size": 64} if options.get("chunked") else {}
    SentenceTransformerTrainer(
        model=encoder,
        args=SentenceTransformerTrainingArguments(
            output_dir=str(machine.folder / "training-st"),
            per_device_train_batch_size=batch,
            bf16=not machine.small,
            use_cpu=machine.small,
            report_to="none",
            save_strategy="no",
            disable_tqdm=True,
        ),
        train_dataset=Dataset.from_dict({"anchor": lines, "positive": lines}),
        loss=getattr(losses, options["trainer"])(encoder, scale=1 / TEMPERATURE, **chunks),
        callbacks=[EachStep()],
    ).train()


class Stopped(Exception):
    """Raised to end a run that has been measured."""


def train_on(
    machine: Machine,
    name: str,
    on_step: Callable[[int], Any],
    size: str = "small",
    *,
    resume: bool = False,
    **settings: Any,
) -> None:
    """Train without diagnostics until the end, or until ``on_step`` raises `Stopped`.

    The run ``name`` starts anew unless ``resume``.
    """
    from gradlab.train import Callback, TrainConfig, train

    class EachStep(Callback):
        def on_step(self, trainer: Any, output: Any) -> None:
            on_step(trainer.step)

    output = machine.folder / name
    if not resume:
        shutil.rmtree(output, ignore_errors=True)
    defaults: dict[str, Any] = {
        "output": str(output),
        "model": machine.encoder(size),
        "train_file": machine.sentences(2000),
        "diagnostics_every": 0,
        "device": str(machine.device),
        "threads": torch.get_num_threads(),
    }
    config = TrainConfig(**defaults | settings)
    with contextlib.suppress(Stopped):
        train(config, callbacks=[EachStep()], resume=resume)


class Clock:
    """Times steps of training, and ends it after 20 steps, or after 5 if these took 4 seconds."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.times: list[float] = []
        self.measurement: dict[str, Any] = {}

    def step(self, _: int = 0) -> None:
        """Count a step; call this after each one.

        Raises:
            Stopped: enough steps were measured.
        """
        self.machine.synchronise()
        self.times.append(time.perf_counter())
        measured = len(self.times) - WARM
        if measured == 0 and not self.machine.small:
            torch.cuda.reset_peak_memory_stats(self.machine.device)
        if measured > 0:
            taken = self.times[-1] - self.times[WARM - 1]
            self.measurement = {"seconds": taken / measured, "runs": measured}
            if measured >= 20 or (measured >= 5 and taken > 4):
                raise Stopped
