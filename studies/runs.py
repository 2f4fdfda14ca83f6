"""What trainings outside a sweep share: batches of a trainer, short runs, and a file of rows."""

from __future__ import annotations

import contextlib
import csv
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from torch import Tensor

from gradlab import GradlabError
from gradlab.encoder import Encoder
from gradlab.files import write_csv
from gradlab.sweep import Point, Run, configure, known_runs, read_spec, run_folder
from gradlab.train import Callback, TrainConfig, train


@dataclass
class RowFile:
    """Rows of finished runs in a CSV file, rewritten whole as each run ends."""

    path: Path
    rows: list[dict[str, str]]

    @classmethod
    def open(cls, path: Path) -> RowFile:
        """What is there already."""
        return cls(path, read_rows(path) if path.exists() else [])

    def has(self, **key: Any) -> bool:
        """Whether there is a row with these values."""
        return any(all(row[name] == str(value) for name, value in key.items()) for row in self.rows)

    def add(self, *rows: dict[str, Any]) -> None:
        """Append rows to those that the file has by now, and write it.

        Another process may have added some, of another part.
        """
        before = read_rows(self.path) if self.path.exists() else []
        self.rows = before + [{name: str(value) for name, value in row.items()} for row in rows]
        write_rows(self.path, self.rows)


def write_rows(path: Path, rows: Sequence[Mapping[str, Any]]) -> Path:
    """Write rows as a CSV file; what a row lacks is empty there."""
    names = dict.fromkeys(name for one in rows for name in one)
    return write_csv(path, {name: [one.get(name, "") for one in rows] for name in names})


def read_rows(path: Path) -> list[dict[str, str]]:
    """Rows of a CSV file.

    Raises:
        GradlabError: if it cannot be read.
    """
    try:
        with path.open(encoding="utf-8", newline="") as file:
            return list(csv.DictReader(file))
    except OSError as error:
        raise GradlabError(f"cannot read {str(path)!r}: {error.strerror}") from error


def runs_in(folder: Path) -> list[tuple[Run, Path]]:
    """The runs of the sweep that was begun in a folder, and where each of them is.

    Raises:
        GradlabError: none was.
    """
    spec = read_spec(folder / "sweep.json")
    return [(run, run_folder(folder, run)) for run in known_runs(spec, folder)]


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
