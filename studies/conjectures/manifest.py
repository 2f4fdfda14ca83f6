"""What a study says of itself: names, versions and hashes, and no path of the machine it ran on."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from gradlab.files import versions
from gradlab.train import device_name, hash_file
from studies.conjectures.settings import PYTHON_ONLY, StudySettings

_PACKAGES = ("torch", "transformers", "tokenizers", "numpy", "scipy", "pandas", "scikit-learn", "matplotlib")


def about_study(
    model: str, train_file: str | os.PathLike[str], settings: StudySettings, device: Any, jobs: int
) -> dict[str, Any]:
    """Model and data by name and hash, settings, device, versions."""
    return {
        "model": name_of(model),
        "data": {"file": Path(train_file).name, "sha256": hash_file(train_file)},
        "evaluation": "SentEval data/downstream",
        "settings": settings.to_dict(),
        "device": {"type": device.type, "name": device_name(device), "cores": os.cpu_count(), "jobs": jobs},
        "versions": versions(*_PACKAGES),
        "command": command(model, train_file, settings),
    }


def name_of(model: str) -> str:
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
        f"--model {name_of(model)}",
        f"--train-file {Path(train_file).name}",
        "--sts SentEval/data/downstream --output study",
        *options,
    ]
    return " ".join(parts)


def _text(value: Any) -> str:
    return ",".join(f"{item:g}" for item in value) if isinstance(value, tuple) else str(value)
