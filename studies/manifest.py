"""How results came about: names, versions and hashes, and no path of the machine that made them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import torch

from gradlab.data import hash_file
from gradlab.files import commit, versions, write_json
from gradlab.train import device_name

PACKAGES = ("torch", "transformers", "numpy", "scipy", "pandas")


def inputs(model: str, train_file: str | os.PathLike[str]) -> dict[str, Any]:
    """Model and data: a hub name or the last part of a folder, and the sentences' name and hash."""
    data = {"file": Path(train_file).name, "sha256": hash_file(train_file)}
    return {"model": Path(model).name if Path(model).is_dir() else model, "data": data}


def write_manifest(
    path: Path, model: str, train_file: str | os.PathLike[str], settings: dict[str, Any]
) -> Path:
    """Write the manifest of a part of the evidence."""
    content = {
        "commit": commit(),
        **inputs(model, train_file),
        "device": device_name(torch.device("cpu")),
        "threads": torch.get_num_threads(),
        "precision": "float32",
        "settings": settings,
        "versions": versions(*PACKAGES, "statsmodels", "optuna"),
    }
    return write_json(path, content)
