"""What results say of how they came about: names, versions and hashes, and no path of the machine they were made on."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import torch

from gradlab.files import commit, versions, write_json
from gradlab.train import device_name, hash_file
from studies.conjectures.settings import PYTHON_ONLY, StudySettings

_PACKAGES = ("torch", "transformers", "numpy", "scipy", "pandas")


def write_manifest(
    path: Path, model: str, train_file: str | os.PathLike[str], settings: dict[str, Any]
) -> Path:
    """Write the manifest of a part of the evidence."""
    content = {
        "commit": commit(),
        **_inputs(model, train_file),
        "device": device_name(torch.device("cpu")),
        "threads": torch.get_num_threads(),
        "precision": "float32",
        "settings": settings,
        "versions": versions(*_PACKAGES, "statsmodels", "optuna"),
    }
    return write_json(path, content)


def about_study(
    model: str, train_file: str | os.PathLike[str], settings: StudySettings, device: Any, jobs: int
) -> dict[str, Any]:
    """What a study of the conjectures says of itself."""
    return {
        **_inputs(model, train_file),
        "evaluation": "SentEval data/downstream",
        "settings": settings.to_dict(),
        "device": {"type": device.type, "name": device_name(device), "cores": os.cpu_count(), "jobs": jobs},
        "versions": versions(*_PACKAGES, "tokenizers", "scikit-learn", "matplotlib"),
        "command": command(model, train_file, settings),
    }


def _inputs(model: str, train_file: str | os.PathLike[str]) -> dict[str, Any]:
    """Model and data by name and hash."""
    data = {"file": Path(train_file).name, "sha256": hash_file(train_file)}
    return {"model": _name_of(model), "data": data}


def _name_of(model: str) -> str:
    """A hub name as it is, a local folder by its last part."""
    return Path(model).name if Path(model).is_dir() else model


def command(model: str, train_file: str | os.PathLike[str], settings: StudySettings) -> str:
    """The command that makes this study, with folders left for the reader to fill in."""
    changed = StudySettings.preset(settings.name).to_dict()
    different = {name: value for name, value in settings.to_dict().items() if changed[name] != value}
    python = {name: value for name, value in different.items() if name in PYTHON_ONLY or value is None}
    options = [
        f"--{name.replace('_', '-')} {_text(value)}"
        for name, value in different.items()
        if name not in python
    ]
    if python:
        options.append(
            f"# with StudySettings({', '.join(f'{name}={value}' for name, value in python.items())})"
        )
    parts = [
        f"python -m studies.conjectures --preset {settings.name}",
        f"--model {_name_of(model)}",
        f"--train-file {Path(train_file).name}",
        "--sts SentEval/data/downstream --output study",
        *options,
    ]
    return " ".join(parts)


def _text(value: Any) -> str:
    return ",".join(f"{item:g}" for item in value) if isinstance(value, tuple) else str(value)
