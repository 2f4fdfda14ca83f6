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

from gradlab.gpu_check.machine import RATES, Case, Machine, kernels_on, matrix_products
from gradlab.scale import blockwise

TEMPERATURE = 0.05
SIZES, SMALL_SIZES = (4096, 8192, 16384, 32768, 65536, 131072), (64, 128)
# Precision -> largest batch that is measured.
MOST = {"float32": 16384, "tf32": 65536, "bfloat16": 131072}
BATCHES, SMALL_BATCHES = (64, 256, 2048), (8,)
# Parameters in the encoders' layers, for estimates: 4 layers of width 312, 12 of width 768.
LAYERS = {"small": 4.7e6, "base": 85e6}
# Steps of warm-up, and number of tokens in an average sentence.
WARM, TOKENS = 5, 20


def rate_cases(_: Machine) -> Iterator[Case]:
    """Yield measured operations per second of matrix products, to compare the others with."""
    for precision in RATES:
        flops = 2 * 8192**3 * 4.0
        yield Case(precision, functools.partial(_rate, precision), flops, precision)


def _rate(precision: str, machine: Machine) -> dict[str, Any]:
    size = 256 if machine.small else 8192
    with matrix_products(precision) as dtype:
        a = torch.ones(size, size, dtype=dtype, device=machine.device)
        seconds = machine.measure(lambda: a @ a, 0.3)["seconds"]
    return {"TFLOPS": 2 * size**3 / seconds / 1e12, "seconds": seconds}


def _plain(anchors: Tensor, positives: Tensor) -> Tensor:
    labels = torch.arange(len(anchors), device=anchors.device)
    return functional.cross_entropy(anchors @ positives.T / TEMPERATURE, labels)


def _plain_symmetric(anchors: Tensor, positives: Tensor) -> Tensor:
    logits = anchors @ positives.T / TEMPERATURE
    labels = torch.arange(len(anchors), device=anchors.device)
    return (
        functional.cross_entropy(logits, labels) + functional.cross_entropy(logits.T, labels)
    ) / 2


def _blockwise(spec: str) -> Callable[[Tensor, Tensor], Tensor]:
    return functools.partial(blockwise(spec), normalize=True)


def _kernels(spec: str) -> Callable[[Tensor, Tensor], Tensor]:
    made = functools.cache(blockwise)  # called on first use, when the device is known

    def call(anchors: Tensor, positives: Tensor) -> Tensor:
        with kernels_on(anchors.device):
            return made(spec, kernels=True)(anchors, positives, normalize=True)

    return call


def _open_clip() -> Callable[[Tensor, Tensor], Tensor]:
    from open_clip.loss import ClipLoss

    criterion = ClipLoss()
    return lambda anchors, positives: criterion(anchors, positives, 1 / TEMPERATURE)


def _inf_cl() -> Callable[[Tensor, Tensor], Tensor]:
    from inf_cl import cal_flash_loss

    return lambda anchors, positives: cal_flash_loss(
        anchors, positives, scale=anchors.new_tensor(1 / TEMPERATURE), head_dim=256
    ).mean()


def _grad_cache() -> Callable[[Tensor, Tensor], Tensor]:
    from grad_cache.loss import SimpleContrastiveLoss

    criterion = SimpleContrastiveLoss()
    return lambda anchors, positives: criterion(anchors / TEMPERATURE, positives)


INFONCE = f"infonce(temperature={TEMPERATURE})"
LOSSES: dict[str, Callable[[], Callable[[Tensor, Tensor], Tensor]]] = {
    "plain torch": lambda: _plain,
    "gradlab.blockwise": lambda: _blockwise(INFONCE),
    "gradlab.blockwise by kernels": lambda: _kernels(INFONCE),
    "Inf-CL": _inf_cl,
    "GradCache": _grad_cache,  # plain cross-entropy, since GradCache saves memory of the encoder
    "symmetric: plain torch": lambda: _plain_symmetric,
    "symmetric: gradlab.blockwise": lambda: _blockwise(f"symmetric({INFONCE})"),
    "symmetric: gradlab.blockwise by kernels": lambda: _kernels(f"symmetric({INFONCE})"),
    "symmetric: open_clip": _open_clip,
}


def loss_cases(machine: Machine) -> Iterator[Case]:
    """Yield measurements of the value and both gradients of a loss, at least 6 N² D operations."""
    every = itertools.product(
        (16,) if machine.small else (768, 1024),
        MOST,
        SMALL_SIZES if machine.small else SIZES,
        LOSSES,
    )
    for dimensions, precision, count, name in every:
        most = min(MOST[precision], 16384) if name == "GradCache" else MOST[precision]
        if count > most or (dimensions == 1024 and (precision != "bfloat16" or "kernels" in name)):
            continue  # other sizes suffice
        if "kernels" in name and machine.small and precision == "bfloat16":
            continue  # Triton's interpreter cannot multiply these
        run = functools.partial(_loss, LOSSES[name], count, dimensions, precision)
        # Two calls, warm-up and measurement; short calls are repeated for a quarter of a second.
        flops = 2 * 6.0 * count**2 * dimensions
        yield Case(f"N={count} D={dimensions} {precision} {name}", run, flops, precision, fixed=0.5)


def _loss(
    make: Callable[[], Callable[[Tensor, Tensor], Tensor]],
    count: int,
    dimensions: int,
    precision: str,
    machine: Machine,
) -> dict[str, Any]:
    criterion = make()
    generator = torch.Generator(machine.device).manual_seed(0)
    with matrix_products(precision) as dtype:
        shape = (2, count, dimensions)
        views = torch.randn(shape, generator=generator, device=machine.device)
        rows = [one.to(dtype).requires_grad_() for one in functional.normalize(views, dim=-1)]
        del views

        def call() -> None:
            criterion(*rows).backward()
            for one in rows:
                one.grad = None

        return machine.measure(call, 0.25) | {"flops": 6.0 * count**2 * dimensions}


def training_cases(machine: Machine) -> Iterator[Case]:
    """Yield the training speed of gradlab and sentence-transformers, in sentences per second."""
    for size in ("small",) if machine.small else ("small", "base"):
        for batch in SMALL_BATCHES if machine.small else BATCHES:
            for name, options in TRAINERS.items():
                precision = options.get("precision", "bfloat16")
                if not machine.small and (size, batch) not in options.get("only", [(size, batch)]):
                    continue
                # WARM + 5 steps, two views, 6 operations a parameter and token (8 if encoded twice)
                steps = (WARM + 5) * (8 if options.get("chunked") else 6)
                flops = steps * LAYERS[size] * 2.0 * batch * TOKENS
                run = functools.partial(_training, size, batch, options)
                fixed = 60 if options.get("compile") else 5
                yield Case(f"BERT-{size} batch {batch} {name}", run, flops, precision, fixed)


_SMALLER = [("small", 64), ("small", 256), ("base", 64), ("base", 256)]
_LARGEST = [("small", 2048), ("base", 2048)]
TRAINERS: dict[str, dict[str, Any]] = {
    "gradlab float32": {"precision": "float32", "only": _SMALLER},
    "gradlab TF32": {"precision": "tf32", "only": _SMALLER},
    "gradlab bfloat16": {},
    "gradlab bfloat16, compiled": {"compile": True, "only": [("base", 256)]},
    "gradlab bfloat16, chunks of 64": {"chunked": True, "only": _LARGEST},
    "sentence-transformers bfloat16": {"trainer": "MultipleNegativesRankingLoss"},
    "sentence-transformers bfloat16, chunks of 64": {
        "trainer": "CachedMultipleNegativesRankingLoss",
        "chunked": True,
        "only": _LARGEST,
    },
}


def _training(size: str, batch: int, options: dict[str, Any], machine: Machine) -> dict[str, Any]:
    clock = Clock(machine)
    model = machine.model or str(machine.encoder(size))
    sentences = machine.sentences(max(200, batch * 60) if machine.small else 150_000)
    trained = _sentence_transformers if "trainer" in options else _gradlab
    with contextlib.suppress(Stopped):
        trained(machine, clock, model, sentences, batch, options)
    if not machine.small:
        clock.found["MiB"] = torch.cuda.max_memory_allocated(machine.device) / 2**20
    return clock.found | {"sentences per second": batch / clock.found["seconds"]}


def _gradlab(
    machine: Machine, clock: Clock, model: str, sentences: Any, batch: int, options: dict[str, Any]
) -> None:
    precision = options.get("precision", "bfloat16")
    with matrix_products(precision):
        train_on(
            machine,
            machine.folder / "training",
            lambda _: clock.step(),
            model=model,
            train_file=str(sentences),
            batch_size=batch,
            precision="float32" if precision == "tf32" else precision,
            compile=options.get("compile", False),
            chunk_size=64 if options.get("chunked") else None,
            save_every=10**6,
        )


def _sentence_transformers(
    machine: Machine, clock: Clock, model: str, sentences: Any, batch: int, options: dict[str, Any]
) -> None:
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

    losses = importlib.import_module("sentence_transformers.losses")
    lines = sentences.read_text(encoding="utf-8").splitlines()
    encoder = SentenceTransformer(model, device=str(machine.device))
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
    output: Path,
    on_step: Callable[[int], Any],
    *,
    resume: bool = False,
    **settings: Any,
) -> None:
    """Train without diagnostics until the end, or until ``on_step`` raises `Stopped`.

    Training starts anew unless ``resume``.
    """
    from gradlab.train import Callback, TrainConfig, train

    class EachStep(Callback):
        def on_step(self, trainer: Any, output: Any) -> None:
            on_step(trainer.step)

    if not resume:
        shutil.rmtree(output, ignore_errors=True)
    config = TrainConfig(
        output=str(output),
        diagnostics_every=0,
        device=str(machine.device),
        threads=torch.get_num_threads(),
        **settings,
    )
    with contextlib.suppress(Stopped):
        train(config, callbacks=[EachStep()], resume=resume)


class Clock:
    """Times steps of training, and ends it after 20 steps, or after 5 if these took 4 seconds."""

    def __init__(self, machine: Machine) -> None:
        self._machine, self._done, self._start = machine, 0, 0.0
        self.found: dict[str, Any] = {}

    def step(self) -> None:
        """Count a step; call this after each one.

        Raises:
            Stopped: enough steps were measured.
        """
        self._machine.synchronise()
        now = time.perf_counter()
        self._done += 1
        measured = self._done - WARM
        if measured == 0:
            self._start = now
            if not self._machine.small:
                torch.cuda.reset_peak_memory_stats(self._machine.device)
        if measured > 0:
            self.found = {"seconds": (now - self._start) / measured, "runs": measured}
        if measured >= 20 or (measured >= 5 and now - self._start > 4):
            raise Stopped
