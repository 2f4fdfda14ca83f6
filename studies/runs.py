"""What several studies do with trainings: files of rows, records of runs, and short trainings."""

from __future__ import annotations

import contextlib
import csv
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from torch import Tensor

from gradlab import Loss
from gradlab.batch import unit_rows
from gradlab.encoder import Encoder
from gradlab.files import write_csv
from gradlab.monitor import History, read_metrics
from gradlab.sweep import Point, Run, configure, known_runs, read_spec, run_folder
from gradlab.train import Callback, TrainConfig, train
from studies.statistics import six


@dataclass(frozen=True)
class RowFile:
    """Rows in a CSV file, read anew each time, as another process may add some meanwhile."""

    path: Path

    def has(self, **key: Any) -> bool:
        """Whether there is a row with these values."""
        return any(
            all(row[name] == str(value) for name, value in key.items())
            for row in read_rows(self.path)
        )

    def add(self, about: Mapping[str, Any], measured: Mapping[str, float]) -> None:
        """Append a row and write the file; what was measured has six digits."""
        row = dict(about) | {name: f"{value:.6g}" for name, value in measured.items()}
        write_rows(self.path, [*read_rows(self.path), row])


def write_rows(path: Path, rows: Sequence[Mapping[str, Any]]) -> Path:
    """Write rows as a CSV file; what a row lacks is empty there."""
    names = dict.fromkeys(name for one in rows for name in one)
    return write_csv(path, {name: [one.get(name, "") for one in rows] for name in names})


def read_rows(path: Path) -> list[dict[str, str]]:
    """Rows of a CSV file; none if it does not exist."""
    if not path.exists():
        return []
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def write_table(path: Path, table: pd.DataFrame) -> Path:
    """Write a table as a CSV file, with six significant digits."""
    return write_csv(path, dict(table.map(six)))


def runs_in(folder: Path) -> list[tuple[Run, Path]]:
    """The runs of the sweep that was begun in a folder, and where each of them is.

    Raises:
        GradlabError: none was.
    """
    spec = read_spec(folder / "sweep.json")
    return [(run, run_folder(folder, run)) for run in known_runs(spec, folder)]


def recorded(run: Path) -> History:
    """What the run in a folder recorded; empty if it recorded nothing."""
    file = run / "metrics.csv"
    return History.of(read_metrics(file) if file.exists() else ())


class Stopped(Exception):
    """A callback has measured what it wanted of a training."""


def train_until_stopped(point: Point, seed: int, callback: Callback, **changes: Any) -> TrainConfig:
    """Train a point of a sweep until the callback raises `Stopped`, and keep nothing of it."""
    with tempfile.TemporaryDirectory() as folder:
        config = configure(dict(point.settings) | {"seed": seed}, folder)
        config = replace(config, diagnostics_every=0, save_every=10**6, **changes)
        with contextlib.suppress(Stopped):
            train(config, callbacks=[callback])
    return config


def tokens(encoder: Encoder, sentences: Sequence[str], max_length: int) -> tuple[Tensor, Tensor]:
    """Ids and mask of a batch, each (N, L)."""
    batch = encoder.tokenizer(
        list(sentences), padding=True, truncation=True, max_length=max_length,
        padding_side="right", return_tensors="pt",
    )  # fmt: skip
    return batch["input_ids"], batch["attention_mask"]


def views(encoder: Encoder, sentences: Sequence[str], max_length: int) -> tuple[Tensor, Tensor]:
    """Embeddings of a batch under two dropout masks, as a training sees them, each (N, D)."""
    batch = tokens(encoder, sentences, max_length)
    return encoder(*batch), encoder(*batch)


def training_step(
    encoder: Encoder,
    loss: Loss,
    optimiser: torch.optim.Optimizer,
    sentences: Sequence[str],
    max_length: int,
) -> tuple[Tensor, Tensor]:
    """Take one step on a batch, and return both views as unit rows (N, D) in float64."""
    encoder.train()
    both = views(encoder, sentences, max_length)
    optimiser.zero_grad()
    loss(*both, normalize=True).backward()
    optimiser.step()
    anchors, positives = (unit_rows(rows.detach().double()) for rows in both)
    return anchors, positives
