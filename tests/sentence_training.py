"""Tiny runs of sentence-transformers' trainer for the tests: no network, a second or two each."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.tiny_models import make_sentences

pytest.importorskip("sentence_transformers")
try:
    from sentence_transformers.sentence_transformer import evaluation, losses, modules
except ImportError:  # before 5.4
    from sentence_transformers import evaluation, losses  # noqa: F401
    from sentence_transformers import models as modules  # noqa: F401
# Matrices this small are faster without threads, above all where tests run side by side.
torch.set_num_threads(1)


def columns_of(count: int, columns: int = 2, seed: int = 0) -> dict[str, list[str]]:
    """Sentences, other versions that lack some of their words, and unrelated hard negatives."""
    generator = random.Random(seed)
    anchors = make_sentences(count, seed)
    positives = [
        " ".join(word for word in text.split() if generator.random() < 0.8) for text in anchors
    ]
    table = {"anchor": anchors, "positive": positives}
    for i in range(2, columns):
        table[f"negative_{i - 1}"] = make_sentences(count, seed + 100 * i)
    return dict(list(table.items())[:columns])


def load_model(folder: Path) -> Any:
    """The encoder in ``folder`` with mean pooling."""
    from sentence_transformers import SentenceTransformer

    return SentenceTransformer(str(folder), device="cpu")


def make_trainer(
    folder: Path, output: Path, loss: Any, table: dict[str, list[str]], **arguments: Any
) -> Any:
    """A trainer of a fresh encoder, seeded, by plain SGD; ``loss`` makes a loss of a model."""
    from datasets import Dataset
    from sentence_transformers import (
        SentenceTransformerTrainer,
        SentenceTransformerTrainingArguments,
    )

    extra = {
        name: arguments.pop(name)
        for name in ("callbacks", "evaluator", "eval_dataset")
        if name in arguments
    }
    settings = {
        "output_dir": str(output),
        "max_steps": 20,
        "per_device_train_batch_size": 16,
        "optim": "sgd",
        "learning_rate": 0.05,
        "lr_scheduler_type": "constant",
        "max_grad_norm": 0.0,
        "seed": 7,
        "use_cpu": True,
        "report_to": "none",
        "save_strategy": "no",
        "logging_steps": 5,
        "disable_tqdm": True,
    }
    torch.manual_seed(7)
    model = load_model(folder)
    return SentenceTransformerTrainer(
        model=model,
        args=SentenceTransformerTrainingArguments(**{**settings, **arguments}),
        train_dataset=Dataset.from_dict(table),
        loss=loss(model),
        **extra,
    )


def features_of(model: Any, table: dict[str, list[str]]) -> list[dict[str, torch.Tensor]]:
    """Columns of tokenised sentences, as the trainer's collator makes them."""
    tokenize = getattr(model, "preprocess", None) or model.tokenize
    return [tokenize(sentences) for sentences in table.values()]


def weights(model: torch.nn.Module) -> dict[str, torch.Tensor]:
    """A copy of the parameters."""
    return {name: parameter.detach().clone() for name, parameter in model.named_parameters()}


def relative_difference(first: dict[str, torch.Tensor], second: dict[str, torch.Tensor]) -> float:
    """Norm of the difference of two sets of tensors over the norm of the second."""
    assert first.keys() == second.keys()
    change = sum(float((first[name] - second[name]).double().square().sum()) for name in first)
    size = sum(float(second[name].double().square().sum()) for name in second)
    return (change / size) ** 0.5
