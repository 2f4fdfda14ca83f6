"""The manifest of a training run: what it takes to repeat it, and how far it came."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from gradlab.data.tokens import hash_file
from gradlab.files import commit, versions, write_json
from gradlab.losses.base import Loss
from gradlab.losses.mask import pairs_files
from gradlab.monitor.run_reader import RUNNING
from gradlab.train.config import TrainConfig
from gradlab.train.corpus import Corpus, Guide
from gradlab.train.distributed import RunProcesses
from gradlab.train.hardware import Precision, device_name
from gradlab.train.run_folder import FORMAT, RunFolder

_PACKAGES = ("torch", "transformers", "tokenizers", "safetensors", "accelerate", "numpy")


def run_manifest(
    config: TrainConfig, data: Mapping[str, Any], processes: RunProcesses, precision: Precision
) -> dict[str, Any]:
    """Return the manifest before training; ``data`` is its entry from `data_entry`."""
    return {
        "config": config.to_dict(),
        "seed": config.seed,
        "device": {
            "type": processes.device.type,
            "name": device_name(processes.device),
            "threads": torch.get_num_threads(),
            "processes": processes.count,
            "precision": f"{precision.name}: {precision.why}",
        },
        "data": data,
        "versions": versions(*_PACKAGES),
        "commit": commit(),
        "format": FORMAT,
        "status": RUNNING,
        "results": {},
    }


def data_entry(
    config: TrainConfig,
    corpus: Corpus,
    loss: Loss,
    evaluation_files: Sequence[Any],
    guides: Mapping[str, Guide],
) -> dict[str, Any]:
    """Return the manifest's entry for the data, with the SHA-256 of files, models and code."""
    files: dict[str, Sequence[Any]] = dict(config.code)
    files["loss"] = [*files.get("loss", ()), *pairs_files(loss)]
    files["eval_data"] = evaluation_files
    contents = {name: guide.sha256() for name, guide in guides.items()}
    contents |= {name: " ".join(map(hash_file, places)) for name, places in files.items() if places}
    return {
        "file": config.train_file,
        "sha256": corpus.tokens.data_hash,
        "sentences": len(corpus.tokens),
        "held_out": len(corpus.held_out),
        "contents": contents,
    }


def recorded_precision(folder: RunFolder) -> str:
    """Return the precision that the run in a folder trains in."""
    return str(folder.read_manifest()["config"].get("precision", "auto"))


def write_status(folder: RunFolder, status: str, why: str = "", **entries: Any) -> None:
    """Write the status of a run into its manifest; ``why`` is the error that ended the run."""
    manifest = {**folder.read_manifest(), "status": status, "why": why, **entries}
    write_json(folder.manifest_file, manifest)
