"""Small training runs for tests."""

from __future__ import annotations

import csv
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch import nn

import gradlab
from gradlab.encoder.model import Encoder
from gradlab.monitor.metrics import read_metrics
from gradlab.train import Callback, Objective, TrainConfig, train
from gradlab.train.distributed import RunProcesses
from tests.tiny_models import make_sentences

# The parts of the recipes, on a small scale.
MOCOSE = {
    "queue_size": 20, "queue_initial": 5, "in_batch_negatives": False, "momentum": 0.75,
    "momentum_end": 0.95, "momentum_schedule": "cosine",
    "momentum_modules": "encoder,head,projection", "projection_layers": 1, "predictor_layers": 2,
    "fgsm": 5e-9, "pooler": "cls_mlp",
}  # fmt: skip
ESIMCSE = {
    "queue_size": 20, "momentum": 0.995, "momentum_dropout": False, "momentum_use": "queue",
    "pooler": "cls_mlp", "augment": "subword_repetition(rate=0.32)",
}  # fmt: skip


def write_sentences(folder: Path, count: int = 200) -> Path:
    path = folder / "sentences.txt"
    path.write_text("\n".join(make_sentences(count)), encoding="utf-8")
    return path


def write_columns(folder: Path, columns: dict[str, list[Any]]) -> Path:
    path = folder / "columns.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([columns, *zip(*columns.values(), strict=True)])
    return path


def write_stsb(folder: Path, pairs: int = 30) -> Path:
    """STS-B dev as SentEval's files: pairs of made-up sentences, scored by the words they share."""
    place = folder / "senteval" / "STS" / "STSBenchmark"
    place.mkdir(parents=True, exist_ok=True)
    first, second = make_sentences(pairs, seed=11), make_sentences(pairs, seed=12)
    rows = []
    for place_in_set, (sentence, replacement) in enumerate(zip(first, second, strict=True)):
        words = sentence.split()
        shared = words[: place_in_set % (len(words) + 1)]
        mixed = " ".join(shared + replacement.split()[len(shared) :])
        score = 5 * len(shared) / len(words)
        rows.append(f"main\tmade-up\t2020\t{place_in_set:04d}\t{score:.3f}\t{sentence}\t{mixed}")
    (place / "sts-dev.csv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    return folder / "senteval"


def small_config(start: Path, folder: Path, output: str = "run", **changes: Any) -> TrainConfig:
    settings = {
        "model": str(start),
        "train_file": str(write_sentences(folder)),
        "output": str(folder / output),
        "max_length": 16,
        "batch_size": 8,
        "max_steps": 6,
        "learning_rate": 1e-3,
        "save_every": 2,
        "log_every": 1,
        "diagnostics_every": 3,
        "device": "cpu",
        "precision": "float32",  # the same on every machine
    }
    return TrainConfig.from_dict(settings | changes)


def make_objective(
    model: str | Path,
    dropout: float | None = 0.0,
    dtype: torch.dtype = torch.float64,
    processes: RunProcesses | None = None,
    **settings: Any,
) -> Objective:
    """What a run of four steps with these settings trains."""
    config = TrainConfig(model=str(model), train_file="-", output="-", **settings)
    pooler = "cls" if config.pooler == "cls_mlp" else config.pooler
    encoder = Encoder.load(model, pooler, dropout=dropout).to(dtype)
    loss = gradlab.get_loss(config.loss, **config.loss_settings)
    objective = Objective(encoder, loss, config, processes=processes, steps=4)
    return objective.to(dtype).train()


def sequences_of(model: str | Path, sentences: list[str]) -> list[np.ndarray]:
    """Token ids of each."""
    tokenizer = Encoder.load(model).tokenizer
    return [np.array(tokenizer(sentence)["input_ids"]) for sentence in sentences]


def gradients(module: nn.Module) -> dict[str, torch.Tensor]:
    """Those that there are."""
    return {
        name: parameter.grad
        for name, parameter in module.named_parameters()
        if parameter.grad is not None
    }


class OutputRecorder(Callback):
    """Keeps what the loss of each step was given, and gave."""

    def __init__(self) -> None:
        self.outputs: list[Any] = []

    def on_step(self, trainer, output):
        self.outputs.append(output)


class Crash(Exception):
    """Stands for the end of the process."""


class CrashAfter(Callback):
    """Ends the run after a step, before that step's evaluation and checkpoint."""

    def __init__(self, step: int) -> None:
        self.step = step

    def on_step(self, trainer, output):
        if trainer.step == self.step:
            raise Crash


def run_and_crash(
    config: TrainConfig, step: int, *callbacks: Callback, resume: bool = False
) -> None:
    with pytest.raises(Crash):
        train(config, resume=resume, callbacks=[*callbacks, CrashAfter(step)])


def recorded(output: str | Path, name: str) -> dict[int, float]:
    """Values of a metric by step, as far as they are written."""
    file = Path(output) / "metrics.csv"
    rows = read_metrics(file) if file.exists() else []
    return {step: value for step, _, metric, value in rows if metric == name}


def final_weights(output: str | Path) -> dict[str, torch.Tensor]:
    return load_file(Path(output) / "encoder" / "model.safetensors")


def same_weights(run: str | Path, other_run: str | Path) -> bool:
    first, second = final_weights(run), final_weights(other_run)
    return first.keys() == second.keys() and all(
        torch.equal(first[name], second[name]) for name in first
    )


def same_metrics(run: str | Path, other_run: str | Path) -> bool:
    """Of all that does not depend on the clock; NaN equals NaN."""
    rows = [read_metrics(Path(output) / "metrics.csv") for output in (run, other_run)]
    first, second = (
        [row for row in rows_of_run if row[2] != "sentences_per_second"] for rows_of_run in rows
    )
    return repr(first) == repr(second)


def assert_is_plain_loop(
    config: TrainConfig, prepare: Callable[[nn.Module], tuple[Callable, Callable]]
) -> None:
    """A finished run equals the same training in plain transformers and torch, dropout off.

    ``prepare`` makes of a model the function that gives a batch's loss, of what its tokenizer makes
    of the sentences, and the function that is called after each step with its number.
    """
    from transformers import AutoModel, AutoTokenizer

    sentences = Path(config.train_file).read_text().splitlines()
    tokenizer = AutoTokenizer.from_pretrained(config.model)
    model = AutoModel.from_pretrained(config.model, add_pooling_layer=False)
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
    start = {name: value.clone() for name, value in model.train().state_dict().items()}
    loss_of, after_step = prepare(model)
    optimiser = torch.optim.AdamW(model.parameters(), lr=config.learning_rate, weight_decay=0.0)
    order = iter(np.random.default_rng([config.seed, 1, 0]).permutation(len(sentences)))
    losses = []
    for step in range(config.max_steps):
        optimiser.param_groups[0]["lr"] = config.learning_rate * (1 - step / config.max_steps)
        optimiser.zero_grad()
        mean = 0.0
        for _ in range(config.accumulation):
            batch = [sentences[next(order)] for _ in range(config.batch_size)]
            inputs = tokenizer(
                batch, padding=True, truncation=True, max_length=16, return_tensors="pt"
            )
            loss = loss_of(inputs) / config.accumulation
            loss.backward()
            mean += float(loss.detach())
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        after_step(step)
        losses.append(mean)
    trained, expected = final_weights(config.output), model.state_dict()
    assert trained.keys() == expected.keys()
    moved = sum(float((expected[name] - start[name]).square().sum()) for name in expected)
    apart = sum(float((expected[name] - trained[name]).square().sum()) for name in expected)
    # Adam makes whole steps of tiny gradients, whose sign is rounding: a few entries differ.
    assert math.sqrt(apart / moved) < 0.02
    assert list(recorded(config.output, "loss").values()) == pytest.approx(losses, rel=1e-4)
