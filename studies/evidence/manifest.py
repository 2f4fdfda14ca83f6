"""What results say of how they came about: commit, processor, threads, versions; no path of a machine."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from gradlab.files import commit, versions, write_json

_PACKAGES = ("torch", "transformers", "numpy", "scipy", "statsmodels", "pandas", "optuna")


def write_manifest(
    path: Path, model: str, train_file: str | os.PathLike[str], settings: dict[str, Any]
) -> Path:
    """Write the manifest of a part."""
    import torch

    from gradlab.train import device_name, hash_file
    from studies.conjectures.manifest import name_of

    content = {
        "commit": commit(),
        "model": name_of(model),
        "data": {"file": Path(train_file).name, "sha256": hash_file(train_file)},
        "device": device_name(torch.device("cpu")),
        "threads": torch.get_num_threads(),
        "precision": "float32",
        "settings": settings,
        "versions": versions(*_PACKAGES),
    }
    return write_json(path, content)
